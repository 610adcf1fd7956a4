"""No node starts with a sandbox that stops its own scorers: their honest authors would be blamed for it."""

import os

import pytest

from swarmd.errors import LocalError
from tests.questions.asking import score
from tests.questions.test_levels import FULL, make

SHORT_LIST = "tests.questions.zygotes.with_short_list"
SHORT_LIST_ORDINARY = "tests.questions.zygotes.with_short_list_as_ordinary_user"
STRANGE = "tests.questions.zygotes.with_strange_library"
HONEST = [[number, 5, ["Thinking. <answer>12</answer>"]] for number in range(5)]


@pytest.fixture(scope="module", autouse=True)
def _whole_kernel() -> None:
    """Nothing to see where the machine has no seccomp anyway."""
    service = make(FULL, name="tiny")
    line = service.start().sandbox
    service.close()
    if line.startswith("partial"):
        pytest.skip(line)


@pytest.mark.parametrize("zygote", [SHORT_LIST, SHORT_LIST_ORDINARY, STRANGE])
def test_a_filter_that_stops_our_own_scorers_is_left_out(zygote: str) -> None:
    service = make(zygote, name="tiny")
    line = service.start().sandbox
    scored = score(service, HONEST, 20.0)
    service.close()
    assert line.startswith("partial, without seccomp, which stopped our own scorers (")
    assert scored.reasons == {}


def test_the_line_names_the_dataset_and_the_reason() -> None:
    service = make(STRANGE, name="tiny")
    line = service.start().sandbox
    service.close()
    assert "(lcm: forbidden_syscall)" in line


@pytest.mark.parametrize("zygote", [SHORT_LIST, SHORT_LIST_ORDINARY, STRANGE])
def test_require_refuses_a_filter_that_stops_our_own_scorers(zygote: str) -> None:
    with pytest.raises(LocalError, match=r"stops our own scorers \(.*: forbidden_syscall(.|\n)*best-effort"):
        make(zygote, "require", "tiny").start()


def test_what_is_left_still_holds() -> None:
    service = make(STRANGE, name="tiny")
    service.start()
    scored = score(service, [[0, 1, ["read /etc/passwd"]], [0, 1, ["root"]], [0, 1, ["fork"]]], 20.0)
    service.close()
    assert scored.rewards_RG == [[0.0]] * 3


def test_a_zygote_that_comes_back_goes_without_the_filter_too() -> None:
    service = make(STRANGE, name="tiny")
    service.start()
    assert service._zygote.pid is not None
    os.kill(service._zygote.pid, 9)
    scored = score(service, HONEST, 20.0)
    service.close()
    assert scored.reasons == {}
