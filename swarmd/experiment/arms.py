"""Arms: what an experiment compares. Each is a name, the settings by which it differs, and why it is there; nothing else.

Every arm can therefore be started by hand, with `swarmd start --set KEY=VALUE` for each of its settings.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from swarmd.config import load_config
from swarmd.errors import ConfigError
from swarmd.experiment.guards import guards_of_a_node

Group = Literal["paper", "controls", "rates", "steps", "best", "guards", "own"]


@dataclass(frozen=True)
class Arm:
    """One way to share.

    Attributes:
        name: how the reports call it.
        settings: `section.key` to value, as text: what it changes in every node.
        group: which of the experiment's questions it belongs to; `own` for one given on the command line.
        text: what it shows, in a sentence.
    """

    name: str
    settings: Mapping[str, str]
    group: Group
    text: str


def slug(name: str) -> str:
    """An arm's name as that of a folder: `4/4 guarded` is `4-4_guarded`."""
    return name.replace("/", "-").replace(" ", "_")


def _mix(mix: str, group: Group, text: str, suffix: str = "", **settings: str) -> Arm:
    """An arm of I/J; `settings` write a key's dot as two underscores."""
    others = {key.replace("__", ".", 1): value for key, value in settings.items()}
    return Arm(f"{mix} {suffix}".strip(), {"experience.mix": mix, **others}, group, text)


_ALL = (
    _mix("8/0", "paper", "a silo: plain GRPO, nothing from others"),
    _mix("6/2", "paper", "a quarter of each round from others"),
    _mix("4/4", "paper", "half of each round from others, drawn uniformly; the paper's best"),
    _mix("2/6", "paper", "three quarters from others; the paper saw it oscillate"),
    _mix(
        "8/0", "controls",
        "is it only the filter? up to twice as many own questions, informative ones kept",
        "dynamic", experience__dynamic_sampling="2",
    ),
    _mix(
        "4/4", "controls",
        "is it other minds, or only more text? the external half is this node's own older rollouts, each used up to eight times:"
        " there are too few to use each once",
        "self", experience__source="own", experience__uses_max="8",
    ),
    _mix("4/0", "controls", "equal generated tokens: the own half of 4/4 without any external one"),
    *(
        _mix(mix, "rates", "the paper's arm at a learning rate at which the embedded policy forgets again",
             "1e-3", update__learning_rate="1e-3")
        for mix in ("8/0", "4/4", "2/6")
    ),
    _mix("4/12", "best", "more good answers of others, none of their bad ones, at a higher learning rate",
         "positive 1e-3", update__external_weighting="positive", update__learning_rate="1e-3"),
    _mix("8/0", "steps", "a silo with four optimizer steps a round", "4 steps", update__minibatches="4"),
    _mix("8/12", "steps", "good answers of others fill four optimizer steps a round: what a late joiner catches up with",
         "positive 4 steps", update__external_weighting="positive", update__minibatches="4"),
    _mix("2/14", "best", "for who generates little: the same, where nothing falls back", "positive 6e-4",
         update__external_weighting="positive", update__learning_rate="6e-4"),
    Arm("4/4 guarded", {"experience.mix": "4/4", **guards_of_a_node()}, "guards",
        "what the guards against strangers cost where nobody is one: all of them as a node has them"),
)  # fmt: skip

ARMS: dict[str, Arm] = {arm.name: arm for arm in _ALL}
# Names that stand for several arms.
GROUPS: dict[str, tuple[str, ...]] = {
    **{
        group: tuple(arm.name for arm in _ALL if arm.group == group)
        for group in get_args(Group)
        if group != "own"
    },
    "all": tuple(ARMS),
}


def choose_arms(texts: Sequence[str]) -> list[Arm]:
    """The arms that `--arms` names, in that order, each once.

    Args:
        texts: the values of `--arms`: names and groups between commas, or `NAME:key=value,key=value` for one of one's own.

    Raises:
        ConfigError: an unknown name, a bad setting, two arms of one name or folder.
    """
    chosen: dict[str, Arm] = {}
    for text in texts:
        for arm in [own_arm(text)] if "=" in text else _known(text):
            if chosen.get(arm.name, arm) != arm:
                raise ConfigError(f"two arms are called {arm.name!r}", fix="give one of them another name")
            chosen[arm.name] = arm
    slugs = [slug(name) for name in chosen]
    if twice := {name for name in slugs if slugs.count(name) > 1}:
        raise ConfigError(
            f"two arms would share the folder {twice.pop()!r}", fix="give one of them another name"
        )
    return list(chosen.values())


def own_arm(text: str) -> Arm:
    """The arm `NAME:section.key=value,section.key=value`. A part without `=` belongs to the value before it.

    Raises:
        ConfigError: no name, a name that cannot be a folder's, an unknown setting or a bad value.
    """
    name, colon, rest = text.partition(":")
    name = name.strip()
    if not colon or not re.fullmatch(r"[\w./ +-]{1,60}", name) or name.startswith((".", "/")) or ".." in name:
        raise ConfigError(
            f"--arms {text!r} does not name the arm",
            "a name has letters, digits, spaces and . / + - _",
            "for example --arms 'low rate:experience.mix=4/4,update.learning_rate=1e-4'",
        )
    settings: dict[str, str] = {}
    for part in rest.split(","):
        key, equals, value = part.partition("=")
        if equals:
            settings[key.strip()] = value.strip()
        elif settings:
            settings[list(settings)[-1]] += f",{part.strip()}"
    check_settings(settings, f"arm {name!r}")
    return Arm(name, settings, "own", "given on the command line")


def check_settings(settings: Mapping[str, str], where: str) -> None:
    """Raises ConfigError, naming `where`, unless a node could be started with these."""
    try:
        load_config(flags=settings, environ={})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.what}", "", error.fix) from None


def _known(text: str) -> list[Arm]:
    names: list[str] = []
    for part in text.split(","):
        name = part.strip()
        if name in GROUPS:
            names += GROUPS[name]
        elif name in ARMS:
            names.append(name)
        elif name:
            raise ConfigError(
                unknown("arm", name, [*ARMS, *GROUPS]),
                f"known are {', '.join(ARMS)}; groups are {', '.join(GROUPS)}",
                "one of your own is NAME:section.key=value,section.key=value",
            )
    return [ARMS[name] for name in names]


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """That there is no such name, with the one that was probably meant."""
    near = difflib.get_close_matches(name, known, 1)
    return f"unknown {kind} {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
