"""A child's log is bounded also while the child writes to it."""

import os
from pathlib import Path

import pytest
import trio
import trio.testing

from swarmd.processes import logs


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_BYTES_MAX", 100)


def test_a_log_that_is_too_long_is_cut_under_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "child.log"
    with logs.open_log(path) as log:
        os.write(log.fileno(), b"a" * 500 + b"b" * 100)
        logs.bound(path)
        os.write(log.fileno(), b"new")
    assert path.read_bytes() == b"new"
    assert path.with_suffix(".log.1").read_bytes() == b"b" * 100


def test_a_short_one_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "child.log"
    path.write_bytes(b"a" * 100)
    logs.open_log(path).close()
    assert (path.read_bytes(), path.with_suffix(".log.1").exists()) == (b"a" * 100, False)


def test_a_link_in_the_logs_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "else").write_bytes(b"a" * 500)
    (tmp_path / "child.log").symlink_to("else")
    with pytest.raises(OSError):
        logs.bound(tmp_path / "child.log")
    assert (tmp_path / "else").stat().st_size == 500


async def test_a_running_childs_log_is_looked_at(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "child.log"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.keep_bounded, path)
        path.write_bytes(b"a" * 500)
        with trio.fail_after(3600):
            while path.stat().st_size:
                await trio.sleep(1)
        nursery.cancel_scope.cancel()
