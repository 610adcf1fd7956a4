"""The second reader, written from the prose alone, agrees with every vector."""

import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.second import ed25519, golden, inference, manifest, peers
from tests.protocol.second.formats import Bad, Msgpack
from tests.protocol.second.judge import judge
from tests.protocol.second.zstd import zstd_content

VECTORS = Path(__file__).parents[2] / "proto" / "vectors"
RULES: dict[str, Any] = json.loads((VECTORS / "rules.json").read_text())
LIMITS: dict[str, Any] = json.loads((VECTORS / "limits.json").read_text())


@pytest.mark.parametrize("case", RULES["cases"], ids=lambda case: f"{case['rule']}: {case['name']}")
def test_the_second_reader_agrees(case):
    memory: set[bytes] = set()
    for earlier in case["before"]:
        judge(bytes.fromhex(earlier), RULES["now_ms"], memory, bytes.fromhex(RULES["manifest"]))

    rule = judge(bytes.fromhex(case["message"]), RULES["now_ms"], memory, bytes.fromhex(RULES["manifest"]))

    assert rule == case["rule"]


@pytest.mark.parametrize("case", LIMITS["cases"], ids=lambda case: f"{case['limit']}: {case['name']}")
def test_the_second_reader_agrees_on_every_limit(case):
    data = bytes.fromhex(LIMITS["manifests"][case["manifest"]])
    message = bytes.fromhex(case["message"]) + bytes(case["zeros"])
    assert judge(message, case["now_ms"], set(), data) == case["rule"]


def file(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text())


@pytest.mark.parametrize("case", file("manifest_bytes")["cases"], ids=lambda case: case["name"])
def test_the_second_reader_agrees_on_what_is_a_manifest(case):
    if case["good"]:
        assert manifest.packed(manifest.read(bytes.fromhex(case["bytes"]))).hex() == case["bytes"]
    else:
        with pytest.raises(Bad):
            manifest.read(bytes.fromhex(case["bytes"]))


@pytest.mark.parametrize("case", file("manifest_toml")["cases"], ids=lambda case: case["name"])
def test_the_second_reader_agrees_on_every_document(case):
    if case["bytes"] is None:
        with pytest.raises(Bad):
            manifest.from_toml(case["toml"])
    else:
        data = manifest.from_toml(case["toml"])
        assert (data.hex(), manifest.digest(data).hex()) == (case["bytes"], case["digest"])


@pytest.mark.parametrize("case", file("manifest")["cases"], ids=lambda case: case["topic"])
def test_the_second_reader_agrees_on_digest_topic_and_held_out_prompts(case):
    data = bytes.fromhex(case["bytes"])
    fields = manifest.read(data)
    assert fields == case["fields"]
    assert manifest.packed(case["fields"]) == data
    assert (manifest.digest(data).hex(), manifest.topic(data)) == (case["digest"], case["topic"])
    told = {prompt: manifest.is_held_out(fields["held_out_per_mille"], prompt) for prompt in case["held_out"]}
    assert told == case["held_out"]


@pytest.mark.parametrize("case", file("questions")["cases"])
def test_the_second_reader_agrees_on_every_seed(case):
    digest, author = bytes.fromhex(case["manifest_digest"]), bytes.fromhex(case["author"])
    assert manifest.seed(digest, case["epoch"], author, case["dataset"], case["counter"]) == case["seed"]


@pytest.mark.parametrize("case", file("golden")["cases"], ids=lambda case: case["name"])
def test_the_second_reader_agrees_on_every_golden_digest(case):
    lines = [line["json"] for line in case["lines"]]
    assert [line["seed"] for line in case["lines"]] == list(golden.SEEDS)
    assert [golden.said_again(line) for line in lines] == lines
    assert golden.digest(lines) == case["golden"]


@pytest.mark.parametrize("case", file("golden")["forms"], ids=lambda case: case["json"])
def test_the_second_reader_writes_every_value_in_the_one_form(case):
    read: dict[str, Any] = {
        "text": lambda value: "".join(map(chr, value)),
        "float": lambda value: struct.unpack(">d", bytes.fromhex(value))[0],
        "integer": int,
    }
    assert golden.form(read[case["kind"]](case["value"])) == case["json"]


def test_the_second_reader_writes_floats_as_the_form_has_them():
    for number in range(200):
        bits = int.from_bytes(hashlib.sha256(number.to_bytes(4, "big")).digest()[:8], "big")
        for value in (struct.unpack(">d", bits.to_bytes(8, "big"))[0], bits / 2**60, bits % 10**6 / 10**4):
            if math.isfinite(value):
                assert golden.form(value) == json.dumps(value)


@pytest.mark.parametrize("case", file("inference")["cases"], ids=lambda case: case["name"])
def test_the_second_reader_agrees_on_what_an_inference_earns(case):
    given = case["premises"], case["variables"]
    assert sorted(map(inference.written, inference.facts(*given))) == case["facts"]
    assert inference.right(*given) == case["right"]
    assert {answer: inference.reward(answer, *given) for answer in case["answers"]} == case["answers"]


@pytest.mark.parametrize("case", file("peers")["cases"], ids=lambda case: case["name"])
def test_the_second_reader_agrees_on_every_frame(case):
    if case["addresses"] is None:
        with pytest.raises(Bad):
            peers.read(bytes.fromhex(case["frame"]))
    else:
        assert peers.read(bytes.fromhex(case["frame"])) == (case["addresses"], case["agent"])


@pytest.mark.parametrize("case", file("messages")["cases"], ids=lambda case: case["name"])
def test_the_second_reader_opens_every_message(case):
    message = bytes.fromhex(case["message"])
    size = int.from_bytes(message[1:3], "big")
    header, body = message[67 : 67 + size], message[67 + size :]
    author = bytes.fromhex(case["header"]["author"])
    assert header.hex() == case["header_bytes"]
    assert (b"swarmd/1/header\0" + author + header).hex() == case["signed_bytes"]
    assert ed25519.verify(author, bytes.fromhex(case["signed_bytes"]), message[3:67])
    assert zstd_content(body, 4096).hex() == case["content"]
    assert Msgpack(bytes.fromhex(case["content"]), 100).whole() == case["batch"]
    assert hashlib.sha256(b"swarmd/1/duplicate\0" + author + header).hexdigest() == case["duplicate_key"]


@pytest.mark.parametrize("case", file("identity")["cases"], ids=lambda case: case["peer_id"])
def test_the_second_reader_knows_every_identity(case):
    assert ed25519.public_key(bytes.fromhex(case["seed"])).hex() == case["public_key"]
    assert peers.peer_id(bytes.fromhex(case["public_key"])) == case["peer_id"]
    assert peers.is_peer_id(case["peer_id"])


def test_it_shares_no_code_with_the_first():
    for path in (Path(__file__).parent / "second").glob("*.py"):
        assert "from swarmd" not in path.read_text()
        assert "import swarmd" not in path.read_text()


def test_no_file_of_vectors_is_left_out():
    here = Path(__file__).read_text()
    for path in VECTORS.glob("*.json"):
        assert f'file("{path.stem}")' in here or f'"{path.name}"' in here, path.name
