"""Nothing mixes host and device, and the host waits for the device only where it must: counted on a pretend device."""

import json
import subprocess
import sys
from typing import Any

import pytest

from swarmd.optimizers import OPTIMIZERS

Found = dict[str, dict[str, Any]]

EXACT = ["float32 adamw", "float32 host", "float32 lora"]
UPDATES = [*EXACT, "resident", *(kind.name for kind in OPTIMIZERS), "deep", "cut small", "without float64"]
# One for loss and norm, before the step; one for the statistics, at the end.
UPDATE_SYNCS = 2


@pytest.fixture(scope="module")
def found() -> Found:
    done = subprocess.run(
        [sys.executable, "-m", "tests.policy.pretend.scenarios"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    result: Found = json.loads(done.stdout.splitlines()[-1])
    return result


def num(counts: dict[str, int]) -> int:
    return sum(counts.values())


def in_file(counts: dict[str, int], name: str) -> int:
    return sum(count for place, count in counts.items() if name in place)


def test_the_pretend_device_refuses_and_counts(found: Found) -> None:
    mixed = found["mixed"]
    assert mixed["refused"] == 3
    assert (num(mixed["syncs"]), num(mixed["uploads"])) == (5, 1)


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_waits_twice(found: Found, name: str) -> None:
    assert num(found[f"update {name}"]["syncs"]) == UPDATE_SYNCS, found[f"update {name}"]["syncs"]


def test_floors_cost_one_wait_more(found: Found) -> None:
    assert num(found["update with floors"]["syncs"]) == UPDATE_SYNCS + 1


@pytest.mark.parametrize("name", UPDATES)
def test_a_pack_is_two_uploads(found: Found, name: str) -> None:
    update = found[f"update {name}"]
    assert num(update["uploads"]) == 2 * update["packs"], update["uploads"]


def test_more_packs_are_no_more_waits(found: Found) -> None:
    assert found["update cut small"]["packs"] > found["update resident"]["packs"]


def test_the_optimizer_on_the_host_copies_in_the_background(found: Found) -> None:
    assert found["update host"]["background"] > 2 * 26  # a gradient and a weight of each tensor
    assert found["update adamw"]["background"] == 0


def test_the_self_check_waits_once_for_a_completion_of_a_layer_that_it_computes_plainly(found: Found) -> None:
    """transformers looks whether positions begin anew, in float32 and in bfloat16. One wait more reads the result."""
    assert found["update resident"]["first_syncs"] <= UPDATE_SYNCS + 2 * (2 * 6) + 1
    assert found["update deep"]["first_syncs"] <= UPDATE_SYNCS + 4 * (2 * 6) + 1


@pytest.mark.parametrize("name", [*UPDATES, "with floors"])
def test_an_update_on_the_device_is_the_cpus(found: Found, name: str) -> None:
    exact = "float32" in name
    update = found[f"update {name}"]
    assert update["logp_apart"] < (1e-4 if exact else 0.05)
    assert update["apart"] < (1e-3 if exact else 0.15)  # of the way that the weights went


@pytest.mark.parametrize("name", ["generate", "generate deep"])
def test_a_step_of_decoding_waits_once_and_uploads_once(found: Found, name: str) -> None:
    """The host must know which rows have ended before it can give their places away, and tells the next step in one upload."""
    made = found[name]
    begun = in_file(made["syncs"], "_draw") - made["steps"]
    assert 0 < begun <= 2 * made["prefills"]
    assert num(made["syncs"]) == made["steps"] + begun + made["prefills"], made["syncs"]
    assert num(made["uploads"]) == 1 + made["steps"] + begun + made["prefills"], made["uploads"]


@pytest.mark.parametrize("name", ["generate padded", "generate padded deep"])
def test_transformers_own_cache_waits_once_more_a_step(found: Found, name: str) -> None:
    """transformers asks whether the mask hides anything."""
    made = found[name]
    begun = in_file(made["syncs"], "_draw") - made["steps"]
    assert 2 * made["steps"] < num(made["syncs"]) <= 2 * (made["steps"] + made["prefills"]) + begun, made[
        "syncs"
    ]


@pytest.mark.parametrize("name", ["generate", "generate deep", "generate padded", "generate without float64"])
def test_the_device_samples_what_the_cpu_samples(found: Found, name: str) -> None:
    assert found[name]["same"]


def test_a_device_without_float64_draws_on_the_host(found: Found) -> None:
    """As MPS. The logits come down, and two columns of numbers."""
    made = found["generate without float64"]
    begun = in_file(found["generate"]["syncs"], "_draw") - made["steps"]
    assert in_file(made["syncs"], "_draw") == 3 * (made["steps"] + begun)


def test_weights_are_handed_over_a_transfer_a_tensor(found: Found) -> None:
    given = found["hand-over"]
    assert (num(given["syncs"]), num(given["uploads"])) == (given["tensors"], given["tensors"])
    assert given["same"]
