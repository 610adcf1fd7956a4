"""The choice: the first plan that fits with its margin, and a refusal that helps."""

import json

import pytest

from swarmd.config import UpdateSection
from swarmd.errors import ConfigError, OutOfMemory
from swarmd.policy.plans.choice import MARGIN, Choice, choose, price
from swarmd.policy.plans.ladder import ladder
from swarmd.policy.plans.needs import Where
from swarmd.policy.plans.room import Holder, Room
from swarmd.policy.plans.words import document, required, screen, start_line
from tests.policy.plans.shapes import WORK, half_billion

GIB = 2**30
PRICED = price(half_billion(), WORK, Where("cuda", "vllm"), ladder(UpdateSection(), "cuda", can_sleep=True))
PEAKS = {priced.plan.name: priced.needs.peak_bytes for priced in PRICED}


def chosen(free_bytes: float | None, **options: str) -> Choice:
    room = Room(24 * GIB, None if free_bytes is None else int(free_bytes), (Holder(7, "ollama", 3 * GIB),))
    return choose("cuda", room, PRICED, **options)  # type: ignore[arg-type]


def test_with_room_for_all_nothing_is_given_up() -> None:
    assert required(chosen(80 * GIB)).plan.name == "resident"


@pytest.mark.parametrize("name", [name for name in PEAKS if name != "lora"])
def test_a_plan_is_taken_when_its_peak_and_the_margin_are_free(name: str) -> None:
    enough = PEAKS[name] * (1 + MARGIN) + 1
    assert PEAKS[required(chosen(enough)).plan.name] == PEAKS[name]
    short = choose("cuda", Room(None, int(enough - 2 * MARGIN * PEAKS[name])), PRICED)
    assert short.chosen is None or short.chosen.needs.peak_bytes < PEAKS[name]


def test_none_fits_and_the_message_says_what_would_help() -> None:
    with pytest.raises(OutOfMemory, match=r"2\.0 GiB are free") as caught:
        required(chosen(2 * GIB))
    assert caught.value.exit_code == 14
    assert "optimizer moments" in caught.value.why
    assert "pid 7 ollama holds 3.0 GiB" in caught.value.why
    assert "which others hold" in caught.value.fix


def test_a_card_that_is_too_small_asks_for_a_smaller_model() -> None:
    with pytest.raises(OutOfMemory) as caught:
        required(choose("cuda", Room(2 * GIB, 2 * GIB), PRICED))
    assert "smaller model" in caught.value.fix


def test_a_plan_can_be_forced_and_a_warning_goes_with_it() -> None:
    forced = chosen(2 * GIB, wanted="time-share")
    assert (required(forced).plan.name, forced.forced) == ("time-share", True)
    assert start_line(forced).splitlines()[1].startswith("! memory")
    assert "forced: by these figures it does not fit" in screen(forced, "half")


def test_a_forced_plan_that_fits_needs_no_warning() -> None:
    assert len(start_line(chosen(80 * GIB, wanted="lora")).splitlines()) == 1


def test_a_plan_that_is_not_here_cannot_be_forced() -> None:
    with pytest.raises(ConfigError, match="no plan 'fast'"):
        chosen(2 * GIB, wanted="fast")


def test_where_nobody_knows_the_room_the_first_plan_is_tried() -> None:
    choice = choose("mps", Room(None, None, why="nobody tells"), PRICED)
    assert required(choice).plan.name == "resident"
    assert "nobody tells" in start_line(choice)
    assert "nobody tells" in screen(choice, "half")


@pytest.mark.parametrize(
    ("last", "found"), [("checkpointing", "checkpointing"), ("no-such", "resident"), (None, "resident")]
)
def test_a_restart_begins_where_the_last_run_had_stepped_down_to(last: str | None, found: str) -> None:
    choice = choose("cuda", Room(80 * GIB, 80 * GIB), PRICED, last=last)
    assert required(choice).plan.name == found


def test_the_start_says_both_phases_and_the_room() -> None:
    update, generation = (PRICED[0].needs.update_bytes / GIB, PRICED[0].needs.generate_bytes / GIB)
    told = (
        f"✓ memory     plan resident: update {update:.1f} GiB, generation {generation:.1f} GiB, of 80.0 GiB"
    )
    assert start_line(chosen(80 * GIB)) == told


@pytest.mark.parametrize("free_bytes", [80 * GIB, 2 * GIB, None])
def test_the_document_is_json_and_adds_up(free_bytes: int | None) -> None:
    found = json.loads(json.dumps(document(chosen(free_bytes), "half"), allow_nan=False))
    assert (found["schema"], len(found["plans"])) == (1, 7)
    for plan in found["plans"]:
        assert plan["peak_bytes"] == max(plan["generate_bytes"], plan["update_bytes"])
        assert sum(row["update_bytes"] for row in plan["rows"]) == plan["update_bytes"]


HOST = {priced.plan.name: priced.needs.host_bytes for priced in PRICED}


def on_card(size_gib: float, host_gib: float) -> Choice:
    host = Room(int(host_gib * GIB), int(host_gib * GIB))
    return choose("cuda", Room(int(size_gib * GIB), int(size_gib * GIB)), PRICED, host=host)


def test_the_optimizer_on_the_host_needs_sixteen_bytes_a_parameter_there() -> None:
    extra = HOST["host-optimizer"] - HOST["resident"]
    assert extra == 16 * half_billion().num_parameters + 128 * 2**20
    assert len({size for name, size in HOST.items() if name != "host-optimizer"}) == 1


def test_a_host_without_room_for_its_optimizer_gets_the_next_plan() -> None:
    assert required(on_card(7.5, 16)).plan.name == "host-optimizer"
    assert required(on_card(7.5, 8)).plan.name == "lora"


def test_a_host_that_has_room_for_no_plan_is_named_with_its_need() -> None:
    with pytest.raises(OutOfMemory, match=r"on the host: the smallest plan, .* needs 2\.2 GiB") as caught:
        required(on_card(24, 1))
    assert "on the host" in caught.value.why


def test_a_table_has_the_hosts_memory_under_the_devices() -> None:
    lines = screen(on_card(7.5, 8), "half").splitlines()
    (host,) = [line for line in lines if line.startswith("on the host")]
    assert host.split()[-7:] == ["2.00", "2.00", "2.00", "2.00", "2.00", "9.49", "2.00"]
    (verdict,) = [line for line in lines if line.startswith("of 8.0 free")]
    assert verdict.split()[-7:] == ["fits"] * 5 + ["no", "fits"]
