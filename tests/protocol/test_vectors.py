"""The vectors hold both ways: our encoder writes their bytes, our decoder reads their values, our rules give their verdicts."""

import hashlib
import json
from typing import Any

import pytest

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.protocol.manifest import Limits, Manifest
from swarmd.protocol.rules import RULES, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import DOMAIN, Identity, duplicate_key, peer_id_of, verify
from swarmd.protocol.types import Header, RolloutBatch
from swarmd.protocol.wire import (
    decode_body,
    decode_header,
    decode_message,
    encode_body,
    encode_header,
    encode_message,
)
from tests.protocol.make_schema import FOLDER as SCHEMA_FOLDER
from tests.protocol.make_schema import MODELS, schema_text
from tests.protocol.make_vectors import FOLDER, text_of, vectors

FILES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))
}
HEADER_BYTES_FIELDS = ("author", "body_sha256", "swarm")


def cases(file: str) -> list[Any]:
    return [
        pytest.param(case, id=str(case.get("name", index))) for index, case in enumerate(FILES[file]["cases"])
    ]


def header_of(case: dict[str, Any]) -> Header:
    fields = {
        key: bytes.fromhex(value) if key in HEADER_BYTES_FIELDS else value
        for key, value in case["header"].items()
    }
    return Header(**fields)


def batch_of(case: dict[str, Any]) -> RolloutBatch:
    return RolloutBatch.model_validate_json(json.dumps(case["batch"]))


@pytest.mark.parametrize("name", sorted(vectors()))
def test_the_file_is_what_the_generator_writes(name):
    assert (FOLDER / f"{name}.json").read_text() == text_of(vectors()[name])


@pytest.mark.parametrize("case", cases("identity"))
def test_identity(case):
    identity = Identity.from_seed(bytes.fromhex(case["seed"]))
    assert identity.public_key.hex() == case["public_key"]
    assert peer_id_of(identity.public_key) == case["peer_id"]


@pytest.mark.parametrize("case", cases("manifest"))
def test_manifest(case):
    read = Manifest.from_bytes(bytes.fromhex(case["bytes"]))
    built = Manifest.model_validate(case["fields"])
    assert read == built
    assert (built.to_bytes().hex(), built.digest.hex(), built.topic) == (
        case["bytes"],
        case["digest"],
        case["topic"],
    )
    assert {prompt: read.is_held_out(prompt) for prompt in case["held_out"]} == case["held_out"]


@pytest.mark.parametrize("case", cases("manifest_bytes"))
def test_what_is_a_manifest(case):
    data = bytes.fromhex(case["bytes"])
    if case["good"]:
        assert Manifest.from_bytes(data).to_bytes() == data
    else:
        with pytest.raises((ConfigError, IncompatibleSwarm)):
            Manifest.from_bytes(data)


@pytest.mark.parametrize("case", cases("manifest_toml"))
def test_the_manifest_in_a_document(case):
    if case["bytes"] is None:
        with pytest.raises((ConfigError, IncompatibleSwarm)):
            Manifest.from_toml(case["toml"].encode())
    else:
        read = Manifest.from_toml(case["toml"].encode())
        assert (read.to_bytes().hex(), read.digest.hex()) == (case["bytes"], case["digest"])


@pytest.mark.parametrize("case", cases("golden"))
def test_golden_digests_follow_from_the_prose(case):
    seeds = [0, 1, 2**31 - 1] + [k * 2654435761 % 2**31 for k in range(1, 30)]
    assert [line["seed"] for line in case["lines"]] == seeds
    document = b"swarmd/1/golden\0" + b"".join(line["json"].encode() + b"\n" for line in case["lines"])
    assert hashlib.sha256(document).hexdigest() == case["golden"]
    assert all(json.dumps(json.loads(line["json"]), sort_keys=True) == line["json"] for line in case["lines"])


@pytest.mark.parametrize("case", cases("questions"))
def test_question_seeds(case):
    manifests = [Manifest.from_bytes(bytes.fromhex(other["bytes"])) for other in FILES["manifest"]["cases"]]
    (manifest,) = [m for m in manifests if m.digest.hex() == case["manifest_digest"]]
    assert manifest.epoch == case["epoch"]
    assert (
        manifest.question_seed(bytes.fromhex(case["author"]), case["dataset"], case["counter"])
        == case["seed"]
    )


@pytest.mark.parametrize("case", cases("messages"))
def test_values_become_the_messages_bytes(case):
    identity = Identity.from_seed(bytes.fromhex(case["seed"]))
    header_bytes = encode_header(header_of(case))
    signature = identity.sign(header_bytes)
    assert header_bytes.hex() == case["header_bytes"]
    assert (DOMAIN + identity.public_key + header_bytes).hex() == case["signed_bytes"]
    assert signature.hex() == case["signature"]
    assert encode_message(header_bytes, signature, bytes.fromhex(case["body"])).hex() == case["message"]
    assert duplicate_key(identity.public_key, header_bytes).hex() == case["duplicate_key"]


@pytest.mark.parametrize("case", cases("messages"))
def test_the_messages_bytes_become_values(case):
    limits = Manifest.from_bytes(bytes.fromhex(FILES["rules"]["manifest"])).limits
    signed = decode_message(bytes.fromhex(case["message"]), limits)
    assert signed.header == header_of(case)
    assert (signed.body or b"").hex() == case["body"]
    assert verify(signed.header.author, signed.header_bytes, signed.signature)
    assert decode_body(bytes.fromhex(case["body"]), limits) == batch_of(case)


@pytest.mark.parametrize("case", cases("messages"))
def test_an_encoded_body_holds_the_vectors_content(case):
    import zstandard

    content = zstandard.decompress(encode_body(batch_of(case)))
    assert content.hex() == case["content"]


@pytest.mark.parametrize("case", cases("rules"))
def test_rule(case):
    manifest, seen = Manifest.from_bytes(bytes.fromhex(FILES["rules"]["manifest"])), Seen()
    for earlier in case["before"]:
        validate(bytes.fromhex(earlier), now_ms=FILES["rules"]["now_ms"], seen=seen, manifest=manifest)

    outcome = validate(
        bytes.fromhex(case["message"]), now_ms=FILES["rules"]["now_ms"], seen=seen, manifest=manifest
    )

    assert (outcome.verdict.value, outcome.rule) == (case["verdict"], case["rule"])
    assert (outcome.batch is not None) == (case["verdict"] == "accept")


@pytest.mark.parametrize("case", cases("limits"))
def test_limit(case):
    manifest = Manifest.from_bytes(bytes.fromhex(FILES["limits"]["manifests"][case["manifest"]]))
    message = bytes.fromhex(case["message"]) + bytes(case["zeros"])
    outcome = validate(message, now_ms=case["now_ms"], seen=Seen(), manifest=manifest)
    assert (outcome.verdict.value, outcome.rule) == (case["verdict"], case["rule"])


@pytest.mark.parametrize("case", [c for c in cases("rules") if c.values[0]["rule"] == "accepted"])
def test_what_is_accepted_can_be_said_again(case):
    limits = Manifest.from_bytes(bytes.fromhex(FILES["rules"]["manifest"])).limits
    signed = decode_message(bytes.fromhex(case["message"]), limits)
    batch = decode_body(signed.body or b"", limits)
    assert decode_header(encode_header(signed.header)) == signed.header
    assert decode_body(encode_body(batch), limits) == batch
    assert encode_message(signed.header_bytes, signed.signature, signed.body) == signed.data


def test_every_rule_is_broken_by_a_vector_and_just_kept_by_another():
    rules = set(RULES) - {"internal", "accepted"}
    assert {case["rule"] for case in FILES["rules"]["cases"]} == rules | {"accepted"}
    for case in FILES["rules"]["cases"]:
        if case["keeps"]:  # it gets past the rule that it keeps
            assert RULES.index(case["rule"]) > RULES.index(case["keeps"]), case["name"]
            rules.discard(case["keeps"])
    assert rules == set()


def test_every_limit_has_a_vector_at_it_and_one_past_it():
    at: dict[str, set[str]] = {}
    for case in FILES["limits"]["cases"]:
        at.setdefault(case["limit"], set()).add(case["rule"])
    past = {
        "message_bytes_max": "message_size",
        "body_bytes_max": "body_frame",
        "header_bytes_max": "message_decode",
        "rollouts_max": "rollouts_count",
        "completions_min": "completions_count",
        "completions_max": "completions_count",
        "completion_bytes_max": "completion_size",
        "counter_span_max": "counter_range",
        "age_s_max": "age_stale",
        "skew_s_max": "age_future",
    }
    assert set(past) == set(Limits.model_fields)
    for limit, rule in past.items():
        assert rule in at[limit], limit
        assert any(RULES.index(other) > RULES.index(rule) for other in at[limit]), limit


def test_there_are_vectors_for_every_kind_of_attack_on_the_decoder():
    names = " | ".join(case["name"] for case in FILES["rules"]["cases"])
    for kind in (
        "cut",
        "a byte too many",
        "key twice",
        "deep",
        "4 GiB",
        "4 billion",
        "a bomb",
        "cofactor",
        "another's",
    ):
        assert kind in names, kind


def test_the_schema_bounds_a_parameters_name_and_integers():
    params = json.loads(schema_text("manifest"))["$defs"]["DatasetSpec"]["properties"]["params"]
    assert params["additionalProperties"] is False
    (value,) = params["patternProperties"].values()
    lists = next(branch for branch in value["anyOf"] if branch.get("type") == "array")
    for branches in (value["anyOf"], lists["items"]["anyOf"]):
        (whole,) = [branch for branch in branches if branch.get("type") == "integer"]
        (number,) = [branch for branch in branches if branch.get("type") == "number"]
        assert (whole["minimum"], whole["maximum"]) == (-(2**53) + 1, 2**53 - 1)
        assert number["not"] == {"type": "integer"}  # else it would take every integer


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_schema_is_what_the_models_say(name):
    assert (SCHEMA_FOLDER / f"{name}.json").read_text() == schema_text(name)
