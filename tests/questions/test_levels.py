"""What holds on machines that lack a step of the lockdown, as root and as an ordinary user: what the one line says, and no more.

The reviewed scorers run no code on any of them. A worker under foreign control, for which a scorer needs a hole, is held by what
there is.
"""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarmd.errors import LocalError
from swarmd.protocol.manifest import load_manifest
from swarmd.questions.service import ScorerService
from tests.attack.texts import busy_texts, code_texts, ending_texts, in_tags
from tests.questions.asking import score
from tests.questions.hostile import payloads

FULL, ORDINARY = "tests.questions.misbehaving_zygote", "tests.questions.zygotes.as_ordinary_user"
NO_LANDLOCK, NO_SECCOMP = (
    "tests.questions.zygotes.without_landlock",
    "tests.questions.zygotes.without_seccomp",
)
NEITHER = "tests.questions.zygotes.with_neither"
LEVELS = {
    FULL: "full: unprivileged user, limits, landlock, seccomp",
    ORDINARY: "full: unprivileged user, limits, landlock, seccomp",
    NO_LANDLOCK: "partial, this machine lacks landlock: only reviewed scorers, which run no code",
    NO_SECCOMP: "partial, this machine lacks seccomp: only reviewed scorers, which run no code",
    NEITHER: "partial, this machine lacks landlock, seccomp: only reviewed scorers, which run no code",
}


def make(zygote: str, sandbox: str = "best-effort", name: str = "reasoning") -> ScorerService:
    manifest = load_manifest(name).to_bytes()
    return ScorerService(lambda event: None, manifest=manifest, sandbox=sandbox, zygote=zygote)  # type: ignore[arg-type]


class Level:
    """A started scorer on one kind of machine."""

    def __init__(self, zygote: str) -> None:
        self.zygote, self.service = zygote, make(zygote)
        self.line = self.service.start().sandbox

    def reached(self, act: str) -> bool:
        """Whether a worker under foreign control got away with something."""
        ((reward,),) = score(self.service, [[0, 1, [act]]], 20.0).rewards_RG
        return bool(reward)


@pytest.fixture(scope="module", params=LEVELS, ids=lambda zygote: zygote.rpartition(".")[2])
def level(request: pytest.FixtureRequest) -> Iterator[Level]:
    level = Level(request.param)
    yield level
    level.service.close()


@pytest.fixture
def _whole_kernel(level: Level) -> None:
    """These tests take steps away; where the machine lacks some anyway there is nothing to compare with."""
    if level.line != LEVELS[level.zygote]:
        pytest.skip(level.line)


@pytest.mark.usefixtures("_whole_kernel")
def test_the_line_names_what_is_missing(level: Level) -> None:
    assert level.line == LEVELS[level.zygote]


def test_no_hostile_text_runs_whatever_is_missing(level: Level, anybodys_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as trap:
        texts = code_texts(anybodys_folder, trap.getsockname()[1]) + ending_texts() + busy_texts()
        texts += payloads(str(anybodys_folder / "marker"))
        items = [[n, 11, [in_tags(text) for text in texts]] for n in range(9)]
        scored = score(level.service, items, 60.0)
        trap.setblocking(False)
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert list(anybodys_folder.iterdir()) == []
    assert all(0 <= reward <= 1 for rewards in scored.rewards_RG for reward in rewards)
    assert not {"deadline", "worker_died", "forbidden_syscall", "cpu_limit", "zygote_died"} & set(
        scored.reasons
    )


@pytest.mark.usefixtures("_whole_kernel")
def test_files_are_out_of_reach_with_either_step(level: Level, anybodys_folder: Path) -> None:
    assert level.reached("read /etc/passwd") == (level.zygote == NEITHER)
    assert level.reached(f"write {anybodys_folder / 'marker'}") is False, (
        "a limit on file sizes holds even there"
    )
    assert (anybodys_folder / "marker").exists() == (level.zygote == NEITHER)


@pytest.mark.usefixtures("_whole_kernel")
def test_nobody_is_called_with_either_step(level: Level) -> None:
    with socket.create_server(("127.0.0.1", 0)) as trap:
        assert level.reached(f"connect {trap.getsockname()[1]}") == (level.zygote == NEITHER)


@pytest.mark.usefixtures("_whole_kernel")
def test_a_socket_is_evidence_where_there_is_seccomp(level: Level) -> None:
    scored = score(level.service, [[0, 1, ["socket"]]], 20.0)
    has_seccomp = level.zygote not in (NO_SECCOMP, NEITHER)
    assert scored.reasons == ({"forbidden_syscall": 1} if has_seccomp else {})


def test_no_level_lets_a_worker_multiply_or_fill_memory_or_stay_root(level: Level) -> None:
    assert [level.reached(act) for act in ("fork", "allocate", "root")] == [False] * 3


def test_a_worker_that_hangs_is_killed_on_every_level(level: Level) -> None:
    scored = score(level.service, [[0, 1, ["hang"]]], 0.5)
    assert scored.reasons == {"deadline": 1}


@pytest.mark.parametrize("zygote", [NO_LANDLOCK, NO_SECCOMP, NEITHER])
def test_require_refuses_each_partial_level(zygote: str) -> None:
    with pytest.raises(LocalError, match=r"this machine lacks .*(landlock|seccomp)"):
        make(zygote, "require", "tiny").start()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_require_takes_root_and_an_ordinary_user_alike() -> None:
    for zygote in (FULL, ORDINARY):
        service = make(zygote, name="tiny")
        line = service.start().sandbox
        service.close()
        if line.startswith("partial"):
            pytest.skip(line)
        strict = make(zygote, "require", "tiny")
        assert strict.start().sandbox == LEVELS[zygote]
        strict.close()
