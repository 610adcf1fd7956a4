"""Arms: what is known, what is understood, and that every one of them is something a node can be started with."""

import pytest

from swarmd.config import load_config
from swarmd.errors import ConfigError
from swarmd.experiment.arms import ARMS, GROUPS, check_settings, choose_arms, own_arm, slug
from swarmd.experiment.guards import NO_GUARDS


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_is_only_settings_that_a_node_takes(name: str) -> None:
    check_settings(ARMS[name].settings, name)
    assert ARMS[name].settings["experience.mix"] == name.split()[0]


def test_no_two_arms_share_a_folder_or_settings() -> None:
    assert len(set(map(slug, ARMS))) == len(ARMS)
    assert len({tuple(sorted(arm.settings.items())) for arm in ARMS.values()}) == len(ARMS)


def test_the_papers_arms_are_the_papers() -> None:
    assert GROUPS["paper"] == ("8/0", "6/2", "4/4", "2/6")
    assert not any(ARMS[name].group == "controls" for name in GROUPS["paper"])
    assert {"8/0 dynamic", "4/4 self", "4/0"} <= {
        arm.name for arm in ARMS.values() if arm.group == "controls"
    }


def test_the_guarded_arm_is_the_papers_with_every_guard_as_a_node_has_it() -> None:
    settings = dict(ARMS["4/4 guarded"].settings)
    assert settings.pop("experience.mix") == ARMS["4/4"].settings["experience.mix"]
    assert settings.keys() == NO_GUARDS.keys() - {"trust.quotas"}
    by_hand, untouched = load_config(flags=settings, environ={}), load_config(flags={}, environ={})
    assert by_hand == untouched


def test_a_folders_name_has_no_slash_and_no_space() -> None:
    assert slug("4/4 guarded") == "4-4_guarded"


def test_names_and_groups_are_taken_in_order_and_once() -> None:
    chosen = choose_arms(["4/4,8/0", "paper", "4/4 self"])
    assert [arm.name for arm in chosen] == ["4/4", "8/0", "6/2", "2/6", "4/4 self"]


def test_an_arm_of_ones_own_is_settings() -> None:
    arm = own_arm("slow: experience.mix=4/4, update.learning_rate=1e-5")
    assert (arm.name, arm.group) == ("slow", "own")
    assert arm.settings == {"experience.mix": "4/4", "update.learning_rate": "1e-5"}


def test_a_part_without_an_equals_sign_belongs_to_the_value_before() -> None:
    assert own_arm("x:swarm.bootstrap=a,b,swarm.solo=true").settings == {
        "swarm.bootstrap": "a,b",
        "swarm.solo": "true",
    }


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["4/5"], "unknown arm '4/5'; did you mean '4/4'"),
        (["nonsense"], "known are 8/0, 6/2, 4/4, 2/6"),
        (["x:experience.mixx=4/4"], "unknown setting 'experience.mixx'"),
        (["x:experience.mix=0/4"], "bad value '0/4'"),
        (["experience.mix=4/4"], "does not name the arm"),
        (["../x:experience.mix=4/4"], "does not name the arm"),
        (["a,b:experience.mix=4/4"], "does not name the arm"),
        (["x:experience.mix=4/4", "x:experience.mix=2/6"], "two arms are called 'x'"),
        (["a b:experience.mix=4/4", "a_b:experience.mix=2/6"], "share the folder 'a_b'"),
        (["4/4:experience.mix=2/6", "4/4"], "two arms are called '4/4'"),
    ],
)
def test_what_is_no_arm_is_refused_with_what_would_be(texts: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        choose_arms(texts)
    assert said in str(refused.value)
