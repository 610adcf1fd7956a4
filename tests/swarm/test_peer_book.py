"""The peer book never stops a node."""

import json

import pytest

from swarmd.files.checked import encode_checked
from swarmd.protocol.signing import Identity
from swarmd.swarm.addresses import PeerAddress, parse
from swarmd.swarm.peer_book import ADDRESSES_MAX, PER_NET_MAX, PeerBook
from tests.swarm.nodes import seed


def address(number: int, port: int = 4810) -> PeerAddress:
    found = parse(f"/ip4/10.0.0.1/tcp/{port}/p2p/{Identity.from_seed(seed(number)).peer_id}")
    assert found is not None
    return found


def save(book: PeerBook) -> None:
    content = book.unsaved()
    assert content is not None
    book.write(content)


def test_what_worked_is_found_again_the_freshest_first(tmp_path):
    book = PeerBook(tmp_path / "peers.json")
    book.note(address(1), 100)
    book.note(address(2), 200)
    save(book)
    assert PeerBook(tmp_path / "peers.json").addresses() == [address(2), address(1)]


def test_a_peer_has_one_address_the_last_that_worked():
    book = PeerBook(None)
    book.note(address(1, port=1), 100)
    book.note(address(1, port=2), 200)
    assert book.addresses() == [address(1, port=2)]


def test_the_book_is_bounded():
    book = PeerBook(None)
    for number in range(ADDRESSES_MAX + 5):
        book.note(address(number), number)
    assert len(book.addresses()) == ADDRESSES_MAX


def public(number: int, host: str) -> PeerAddress:
    found = parse(f"/ip4/{host}/tcp/4810/p2p/{Identity.from_seed(seed(number)).peer_id}")
    assert found is not None
    return found


def test_one_public_net_holds_four_places():
    book = PeerBook(None)
    book.note(public(99, "9.9.9.9"), 0)
    for number in range(PER_NET_MAX + 1):
        book.note(public(number, f"8.8.8.{number}"), number)
    assert book.addresses() == [public(number, f"8.8.8.{number}") for number in (4, 3, 2, 1)] + [
        public(99, "9.9.9.9")
    ]


def test_a_file_in_which_one_net_holds_all_places_is_cut_down(tmp_path):
    path = tmp_path / "peers.json"
    entries = [{"address": public(n, "8.8.8.8").text, "last_ok_s": 1} for n in range(ADDRESSES_MAX)]
    path.write_text(json.dumps({"version": 1, "peers": entries}))
    book = PeerBook(path)
    assert len(book.addresses()) == PER_NET_MAX
    assert book.unsaved() is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"version": 9, "peers": []}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version": 1, "peers": [3]}',
        b'{"version": 1, "peers": {}}',
        b'{"version": 2, "peers": []}',
        b'{"version": 1, "peers": [{"address": "", "last_ok_s": Infinity}]}',
        b'{"version": 1, "peers": [{"address": "", "last_ok_s": 1e400}]}',
    ],
)
def test_a_damaged_file_starts_an_empty_book(tmp_path, content):
    path = tmp_path / "peers.json"
    path.write_bytes(content)
    book = PeerBook(path)
    assert (book.addresses(), book.num_corrupt) == ([], 1)


@pytest.mark.parametrize("bit", range(0, 8 * 200, 7))
def test_one_bit_is_told_and_costs_the_book_and_no_more(tmp_path, bit):
    path, told = tmp_path / "peers.json", []
    book = PeerBook(path)
    book.note(address(1), 100)
    save(book)
    data = path.read_bytes()
    path.write_bytes((int.from_bytes(data) ^ 1 << bit).to_bytes(len(data)))
    book = PeerBook(path, told.append)
    assert (book.addresses(), len(told), path.exists()) == ([], 1, False)
    assert "peers.json.corrupt-1" in told[0].why


def test_a_later_swarmds_file_is_set_aside_whole(tmp_path):
    path, told = tmp_path / "peers.json", []
    path.write_bytes(encode_checked(3, {"peers": []}))
    content = path.read_bytes()
    assert PeerBook(path, told.append).addresses() == []
    assert "this program reads up to 2" in told[0].why
    assert (tmp_path / "peers.json.newer-1").read_bytes() == content


def test_one_bad_entry_costs_only_itself(tmp_path):
    path = tmp_path / "peers.json"
    entries = [{"address": "nonsense", "last_ok_s": 1}, {"address": address(1).text, "last_ok_s": 1}]
    path.write_text(json.dumps({"version": 1, "peers": entries}))
    book = PeerBook(path)
    assert (book.addresses(), book.num_corrupt) == ([address(1)], 1)


def test_a_folder_that_cannot_be_written_is_counted(tmp_path):
    (tmp_path / "file").touch()
    book = PeerBook(None)
    book.path = tmp_path / "file" / "peers.json"
    book.note(address(1), 1)
    save(book)
    assert book.num_write_errors == 1


def test_nothing_new_is_not_written():
    book = PeerBook(None)
    assert book.unsaved() is None
