"""Writes proto/vectors/*.json: `python -m tests.protocol.make_vectors` from the repository's root.

Deterministic: fixed keys, a fixed clock, zstd frames that are stored rather than compressed (one recorded exception). All bytes
are hex. `test_vectors` fails when the files and this script disagree, so a change of the wire shows in a file under review.
"""

import hashlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from swarmd.protocol.manifest import DatasetSpec, Manifest
from swarmd.protocol.rules import RULES
from swarmd.protocol.signing import DOMAIN, Identity, duplicate_key
from swarmd.protocol.types import INTEGER_MAX
from tests.protocol.case import COMPRESSED_BODY, GOOD
from tests.protocol.cases import all_cases
from tests.protocol.craft import (
    ALICE,
    MALLORY,
    MANIFEST,
    NOW_MS,
    pack,
    plain_batch,
    plain_header,
    signed,
    stored_frame,
)
from tests.protocol.inference_cases import inference_cases
from tests.protocol.json_cases import json_cases
from tests.protocol.limit_cases import limit_cases
from tests.protocol.manifest_cases import manifest_cases
from tests.protocol.match_cases import match_cases
from tests.protocol.peer_cases import peer_cases
from tests.protocol.toml_cases import toml_cases

FOLDER = Path(__file__).parents[2] / "proto" / "vectors"
SEEDS = (bytes(range(32)), bytes(range(32, 64)), bytes(32), b"\xff" * 32)
SMALL = Manifest(
    name="small",
    datasets=(
        DatasetSpec(name="gcd", golden="49677a2013ff4ae9d8015100288b2992989bce28850fd6a39ac78792eda9f007"),
    ),
    prompt_template="{question}",
    answer_format="plain",
    scorer_version=7,
    epoch=2,
    held_out_per_mille=500,
)


@cache
def vectors() -> dict[str, dict[str, Any]]:
    """The contents of every file, by its name without the ending."""
    return {
        "identity": _identity(),
        "manifest": _manifest(),
        "golden": _golden(),
        "questions": _questions(),
        "inference": _inference(),
        "messages": _messages(),
        "rules": _rules(),
        "limits": _limits(),
        "manifest_bytes": _manifest_bytes(),
        "manifest_toml": _manifest_toml(),
        "peers": _peers(),
    }


def text_of(vector: dict[str, Any]) -> str:
    """A file's text."""
    return json.dumps(vector, indent=1, ensure_ascii=True, default=_hex) + "\n"


def _hex(value: Any) -> str:
    if not isinstance(value, bytes):
        raise TypeError(f"no vector holds a {type(value).__name__}")
    return value.hex()


def _identity() -> dict[str, Any]:
    identities = [(seed, Identity.from_seed(seed)) for seed in SEEDS]
    return {
        "about": "An Ed25519 seed, its public key, and the libp2p peer id of that key.",
        "cases": [
            {"seed": seed, "public_key": identity.public_key, "peer_id": identity.peer_id}
            for seed, identity in identities
        ],
    }


def _manifest() -> dict[str, Any]:
    prompts = ["What is 1 + 1?", "What is 1 + 2?", "", "naïve ✓", *(f"prompt {i}" for i in range(24))]
    return {
        "about": "A manifest's fields, its canonical bytes, its digest and topic, and whether it holds a prompt out.",
        "cases": [
            {
                "fields": manifest.model_dump(),
                "bytes": manifest.to_bytes(),
                "digest": manifest.digest,
                "topic": manifest.topic,
                "held_out": {prompt: manifest.is_held_out(prompt) for prompt in prompts},
            }
            for manifest in (MANIFEST, SMALL)
        ],
    }


@cache
def _golden() -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.protocol.golden_items"], capture_output=True, check=True
    )
    return {
        "about": "What reasoning_gym 0.1.25 makes of the known seeds, as canonical JSON, and the golden digest over it.",
        "forms": json_cases(),
        "cases": json.loads(ran.stdout),
    }


def _questions() -> dict[str, Any]:
    cases = []
    for manifest in (MANIFEST, SMALL):
        for author in (ALICE.public_key, MALLORY.public_key, bytes(32)):
            for dataset in range(len(manifest.datasets)):
                for counter in (0, 1, 40, 2**32, INTEGER_MAX):
                    cases.append(
                        {
                            "manifest_digest": manifest.digest,
                            "epoch": manifest.epoch,
                            "author": author,
                            "dataset": dataset,
                            "counter": counter,
                            "seed": manifest.question_seed(author, dataset, counter),
                        }
                    )
    return {
        "about": "The seed of the question at an address, for the manifests of manifest.json.",
        "cases": cases,
    }


def _inference() -> dict[str, Any]:
    return {
        "about": "Premises over their variables, the facts, the right answer (null: no question), and what answers earn.",
        "cases": inference_cases(),
    }


def _messages() -> dict[str, Any]:
    content = pack(plain_batch())
    cases = []
    for name, seed, swarm, body in (
        ("stored body", SEEDS[0], MANIFEST.digest, stored_frame(content)),
        ("compressed body, to be decoded only", SEEDS[0], MANIFEST.digest, COMPRESSED_BODY),
        ("another author, no swarm named", SEEDS[1], ..., stored_frame(content)),
    ):
        identity = Identity.from_seed(seed)
        header = plain_header(body, identity, swarm=swarm)
        header_bytes = pack(header)
        cases.append(
            {
                "name": name,
                "seed": seed,
                "header": header,
                "header_bytes": header_bytes,
                "signed_bytes": DOMAIN + identity.public_key + header_bytes,
                "signature": identity.sign(header_bytes),
                "batch": plain_batch(),
                "content": content,
                "body": body,
                "body_sha256": hashlib.sha256(body).digest(),
                "message": signed(header, body, identity),
                "duplicate_key": duplicate_key(identity.public_key, header_bytes),
            }
        )
    return {"about": "From values to a message, step by step, and back.", "cases": cases}


def _rules() -> dict[str, Any]:
    return {
        "about": "Judge `message` at `now_ms` after `before`; the verdict and rule must be those given.",
        "rules": [rule for rule in RULES if rule != "internal"],
        "manifest": MANIFEST.to_bytes(),
        "now_ms": NOW_MS,
        "good": GOOD,
        "cases": [
            {
                "name": case.name,
                "rule": case.rule,
                "verdict": case.verdict.value,
                "keeps": case.keeps,
                "before": case.before,
                "message": case.message,
            }
            for case in all_cases()
        ],
    }


def _limits() -> dict[str, Any]:
    cases = [*limit_cases(), *match_cases()]
    manifests = {case.manifest.digest: case.manifest for case in cases}
    return {
        "about": "Judge `message` and `zeros` zero bytes behind it at `now_ms` by the manifest of that digest; empty memory.",
        "manifests": {digest.hex(): manifest.to_bytes() for digest, manifest in manifests.items()},
        "cases": [
            {
                "limit": case.limit,
                "name": case.name,
                "rule": case.rule,
                "verdict": case.verdict.value,
                "manifest": case.manifest.digest,
                "now_ms": case.now_ms,
                "message": case.message.rstrip(b"\0"),
                "zeros": len(case.message) - len(case.message.rstrip(b"\0")),
            }
            for case in cases
        ],
    }


def _manifest_bytes() -> dict[str, Any]:
    return {
        "about": "Whether bytes are the canonical bytes of a manifest.",
        "cases": [{"name": case.name, "good": case.good, "bytes": case.data} for case in manifest_cases()],
    }


def _manifest_toml() -> dict[str, Any]:
    return {
        "about": "A TOML document, and the canonical bytes and digest of the manifest in it; null: it is none.",
        "cases": [
            {
                "name": case.name,
                "toml": case.document,
                "bytes": case.manifest and case.manifest.to_bytes(),
                "digest": case.manifest and case.manifest.digest,
            }
            for case in toml_cases()
        ],
    }


def _peers() -> dict[str, Any]:
    return {
        "about": "A frame of /swarmd/peers/1 with its length, and the addresses and agent that count; null: refused.",
        "cases": [
            {
                "name": case.name,
                "frame": case.frame,
                "addresses": case.told[0] if case.told else None,
                "agent": case.told[1] if case.told else None,
            }
            for case in peer_cases()
        ],
    }


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, vector in vectors().items():
        (FOLDER / f"{name}.json").write_text(text_of(vector))


if __name__ == "__main__":
    main()
