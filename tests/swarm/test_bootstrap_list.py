"""The operator's list of bootstraps: a text file that people write too."""

import os
from pathlib import Path

import pytest

from swarmd.errors import ConfigError
from swarmd.protocol.signing import Identity
from swarmd.swarm.addresses import PeerAddress, parse
from swarmd.swarm.bootstrap_list import ADDRESSES_MAX, BootstrapList
from tests.swarm.nodes import seed


def at(number: int, host: str = "1.2.3.4") -> PeerAddress:
    address = parse(f"/ip4/{host}/tcp/4810/p2p/{Identity.from_seed(seed(number)).peer_id}")
    assert address is not None
    return address


def listed(folder: Path, text: str | bytes = "") -> BootstrapList:
    path = folder / "bootstrap.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return BootstrapList(path)


def test_no_file_is_an_empty_list(tmp_path: Path) -> None:
    assert BootstrapList(tmp_path / "bootstrap.txt").read() == []


def test_comments_and_empty_lines_stay(tmp_path: Path) -> None:
    text = f"# friends\n\n{at(1).text} # Ada\n  {at(2).text}  \n{at(1).text}\n"
    own = listed(tmp_path, text)
    assert own.read() == [at(1), at(2)]
    assert own.add(at(3))
    assert not own.add(at(3))
    assert own.remove(at(2).peer_id) == 1
    assert own.path.read_text() == text.replace(f"  {at(2).text}  \n", "") + f"{at(3).text}\n"


def test_all_lines_of_a_peer_are_removed_by_its_id_and_one_by_its_address(tmp_path: Path) -> None:
    own = listed(tmp_path, f"{at(1).text}\n{at(1, '5.6.7.8').text}\n{at(2).text}\n")
    assert own.remove("nobody") == 0
    assert own.remove(at(2).text) == 1
    assert own.remove(at(1).peer_id) == 2
    assert own.read() == []


@pytest.mark.parametrize(
    "text",
    ["hello", "/ip4/1.2.3.4/tcp/4810", b"\xff\xfe", "/ip4/0.0.0.0/tcp/0/p2p/" + at(1).peer_id],
)
def test_a_line_that_is_no_address_is_named_and_nothing_is_written(tmp_path: Path, text: str | bytes) -> None:
    before = text if isinstance(text, bytes) else f"# one\n{text}".encode()
    own = listed(tmp_path, before)
    for deed in (own.read, lambda: own.add(at(1)), lambda: own.remove("x")):
        with pytest.raises(ConfigError, match=r"bootstrap.txt, line 2|cannot be read"):
            deed()
    assert own.path.read_bytes() == before
    assert own.changed() is None


def test_too_many_are_refused(tmp_path: Path) -> None:
    own = listed(
        tmp_path, "\n".join(at(1, f"1.2.{n // 200}.{n % 200}").text for n in range(ADDRESSES_MAX + 1))
    )
    with pytest.raises(ConfigError, match="201 addresses"):
        own.read()


def test_one_too_many_is_refused_before_it_is_written(tmp_path: Path) -> None:
    own = listed(tmp_path, "\n".join(at(1, f"1.2.{n // 200}.{n % 200}").text for n in range(ADDRESSES_MAX)))
    before = own.path.read_text()
    with pytest.raises(ConfigError, match="201 addresses"):
        own.add(at(2))
    assert own.path.read_text() == before


def test_a_change_is_told_once(tmp_path: Path) -> None:
    own = listed(tmp_path, at(1).text)
    assert own.changed() == [at(1)]
    assert own.changed() is None
    own.path.write_text(f"{at(2).text}\n")
    os.utime(own.path, ns=(1, 1))
    assert own.changed() == [at(2)]
    own.path.unlink()
    assert own.changed() == []
    assert own.changed() is None
