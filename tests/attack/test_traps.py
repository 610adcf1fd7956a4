"""The traps are within reach of whoever might run a text."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.attack.traps import Traps, folder_of_everybody

# A node of root scores as nobody; any other as itself.
SCORER = 65534 if os.geteuid() == 0 else None


def test_a_file_made_by_the_scorers_user_springs_the_trap() -> None:
    with Traps() as traps:
        subprocess.run(["touch", str(traps.markers / "text-1")], user=SCORER, check=True)
        assert traps.sprung() == ["text-1"]


def test_a_call_springs_the_trap() -> None:
    with Traps() as traps:
        with socket.create_connection(("127.0.0.1", traps.port)) as caller:
            caller.recv(1)  # until the trap has hung up
        assert traps.sprung()[0].startswith("call from port")


def test_the_folder_is_gone_at_the_end_with_what_was_in_it() -> None:
    with Traps() as traps:
        (traps.markers / "folder").mkdir()
        assert traps.sprung() == ["folder"]
    assert not traps.markers.exists()


def test_a_folder_below_a_private_one_is_no_place_for_traps(tmp_path: Path) -> None:
    # given
    private, shared = tmp_path / "private", Path("/tmp")
    (private / "open").mkdir(parents=True)
    private.chmod(0o700)
    # then
    assert folder_of_everybody([private / "open", shared]) == shared
    with pytest.raises(RuntimeError, match="TMPDIR"):
        folder_of_everybody([private / "open", tmp_path / "missing"])
