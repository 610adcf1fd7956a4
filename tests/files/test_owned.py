"""Folders of ours: what another user may have planted is refused before anything is opened, and nothing of anybody's changes.

The other user is `STRANGER`: files get that owner in what `lstat` tells, so that the tests need no privileges.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from swarmd.errors import StateError
from swarmd.files import owned
from swarmd.files.atomic import write_atomically
from swarmd.files.datadir import DataDir, claim, inspect, load_identity_seed
from swarmd.files.lock import Lock
from swarmd.files.owned import make_own, open_own, require_own

STRANGER = 54321
Give = Callable[[Path], None]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Lets a path belong to the stranger."""
    theirs: set[str] = set()
    look = owned._look

    def told(path: Path) -> os.stat_result:
        found = look(path)
        if str(path) not in theirs:
            return found
        return os.stat_result((*found[:4], STRANGER, *found[5:10]))

    monkeypatch.setattr(owned, "_look", told)
    return lambda path: theirs.add(str(path))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of ours in a folder of ours."""
    folder = tmp_path / "parent" / "node"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o755)
    return folder


def test_a_planted_directory_gets_no_identity_and_its_link_is_not_followed(
    tmp_path: Path, place: Path, give: Give
) -> None:
    (victim := tmp_path / "victim").write_text("precious")
    (place / "lock").symlink_to(victim)
    give(place)
    with pytest.raises(StateError, match=f"belongs to uid {STRANGER}") as caught:
        Lock(DataDir(place))
    assert caught.value.exit_code == 16
    assert (victim.read_text(), sorted(os.listdir(place))) == ("precious", ["lock"])


def test_a_directory_that_really_is_another_users_is_refused(place: Path) -> None:
    theirs = place if os.geteuid() == 0 else Path("/usr")
    if os.geteuid() == 0:
        os.chown(place, STRANGER, STRANGER)
    with pytest.raises(StateError, match="belongs to") as caught:
        claim(DataDir(theirs))
    assert "run as its owner" in caught.value.fix


@pytest.mark.parametrize("name", ["lock", "node.sqlite-wal", "standings.json", "control.sock", "peers.json"])
def test_a_link_in_a_directory_of_ours_is_refused_untouched(tmp_path: Path, place: Path, name: str) -> None:
    (victim := tmp_path / "victim").write_text("precious")
    (place / name).symlink_to(victim)
    with pytest.raises(StateError, match="it is a link") as caught:
        Lock(DataDir(place))
    assert name in caught.value.what
    assert victim.read_text() == "precious"


def test_a_link_further_down_is_found_too(tmp_path: Path, place: Path) -> None:
    (place / "logs").mkdir()
    (place / "logs" / "generation.log").symlink_to(tmp_path / "victim")
    with pytest.raises(StateError, match=r"generation\.log"):
        Lock(DataDir(place))


def test_a_second_name_of_a_file_is_refused(tmp_path: Path, place: Path) -> None:
    (victim := tmp_path / "victim").write_text("precious")
    (place / "lock").hardlink_to(victim)
    with pytest.raises(StateError, match="hard link"):
        Lock(DataDir(place))
    assert victim.read_text() == "precious"


def test_another_users_file_in_a_directory_of_ours_is_refused(place: Path, give: Give) -> None:
    (place / "rounds.jsonl").touch()
    give(place / "rounds.jsonl")
    with pytest.raises(StateError, match=f"belongs to uid {STRANGER}"):
        Lock(DataDir(place))


def test_a_pipe_is_refused_and_not_waited_for(place: Path) -> None:
    os.mkfifo(place / "config.toml")
    with pytest.raises(StateError, match="neither a file nor a folder"):
        claim(DataDir(place))


@pytest.mark.parametrize("mode", [0o777, 0o702])
def test_a_directory_that_others_write_to_is_refused_with_the_remedy(place: Path, mode: int) -> None:
    place.chmod(mode)
    with pytest.raises(StateError, match="written by others") as caught:
        Lock(DataDir(place))
    assert f"chmod go-w {place}" in caught.value.fix
    assert not list(place.iterdir())


def test_a_file_that_others_write_to_is_refused(place: Path) -> None:
    (place / "node.sqlite").touch()
    (place / "node.sqlite").chmod(0o666)
    with pytest.raises(StateError, match="mode 0666"):
        Lock(DataDir(place))


def test_a_parent_that_others_write_to_is_refused(place: Path) -> None:
    place.parent.chmod(0o777)
    with pytest.raises(StateError, match=f"{place.parent} on its way can be written by others"):
        Lock(DataDir(place))


def test_a_sticky_parent_protects_what_is_ours(place: Path) -> None:
    place.parent.chmod(0o1777)
    Lock(DataDir(place)).release()


def test_another_users_parent_is_refused_before_anything_is_made(place: Path, give: Give) -> None:
    give(place.parent)
    with pytest.raises(StateError, match=f"uid {STRANGER}, who can replace it"):
        Lock(DataDir(place / "deeper"))
    assert not list(place.iterdir())


def test_a_way_through_our_own_link_is_taken(tmp_path: Path, place: Path) -> None:
    (tmp_path / "short").symlink_to(place.parent)
    Lock(DataDir(tmp_path / "short" / "node")).release()
    assert (place / "lock").exists()


def test_a_way_through_another_users_link_is_refused(tmp_path: Path, place: Path, give: Give) -> None:
    (tmp_path / "short").symlink_to(place.parent)
    give(tmp_path / "short")
    with pytest.raises(StateError, match="who can replace it"):
        Lock(DataDir(tmp_path / "short" / "node"))


def test_a_link_on_the_way_does_not_hide_where_it_leads(tmp_path: Path, place: Path) -> None:
    (tmp_path / "short").symlink_to(place)
    place.parent.chmod(0o777)
    with pytest.raises(StateError, match="on its way"):
        Lock(DataDir(tmp_path / "short"))


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(StateError, match="cannot use"):
        Lock(DataDir(tmp_path / "a"))


def test_new_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    make_own(tmp_path / "a" / "b")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]


def test_what_a_holder_makes_is_never_written_by_others(place: Path) -> None:
    before = os.umask(0)
    try:
        Lock(DataDir(place)).release()
        (place / "made-by-a-library").touch()
    finally:
        os.umask(before)
    assert (place / "made-by-a-library").stat().st_mode & 0o022 == 0


def test_settings_may_be_a_link_of_the_operators(tmp_path: Path, place: Path) -> None:
    (tmp_path / "mine.toml").touch()
    (place / "config.toml").symlink_to(tmp_path / "mine.toml")
    Lock(DataDir(place)).release()


def test_settings_that_are_another_users_link_are_refused(tmp_path: Path, place: Path, give: Give) -> None:
    (place / "config.toml").symlink_to(tmp_path / "theirs.toml")
    give(place / "config.toml")
    with pytest.raises(StateError, match="it is a link"):
        claim(DataDir(place))


def test_what_libraries_keep_is_theirs_to_link(place: Path) -> None:
    (place / "cache").mkdir()
    (place / "cache" / "latest").symlink_to("somewhere")
    Lock(DataDir(place)).release()


def test_nothing_there_is_nothing_to_refuse(tmp_path: Path) -> None:
    require_own(tmp_path / "not" / "yet")
    inspect(DataDir(tmp_path / "not" / "yet"))
    assert not list(tmp_path.iterdir())


def test_an_identity_is_not_read_through_a_link(tmp_path: Path, place: Path) -> None:
    (tmp_path / "other.key").write_bytes(bytes(32))
    (place / "identity.key").symlink_to(tmp_path / "other.key")
    with pytest.raises(StateError, match="it is a link"):
        load_identity_seed(DataDir(place))


def test_a_file_is_opened_before_it_is_changed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "lock").symlink_to("victim")
    with pytest.raises(StateError, match="it is a link"):
        open_own(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_link_in_a_temporary_files_place_is_not_followed(tmp_path: Path) -> None:
    (victim := tmp_path / "victim").write_text("precious")
    (tmp_path / f".peers.json.{os.getpid()}.tmp").symlink_to(victim)
    write_atomically(tmp_path / "peers.json", b"new")
    assert (victim.read_text(), (tmp_path / "peers.json").read_bytes()) == ("precious", b"new")


def test_the_short_place_of_a_socket_is_not_taken_from_a_stranger(
    tmp_path: Path, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    short = tmp_path / f"swarmd-{os.geteuid()}"
    short.mkdir(mode=0o700)
    give(short)
    with pytest.raises(StateError, match=f"uid {STRANGER}"):
        _ = DataDir(tmp_path / ("x" * 120)).socket
