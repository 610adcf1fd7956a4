"""Needs: what follows from shapes does exactly, and activations are those that torch keeps."""

from dataclasses import replace

import pytest
import torch

from swarmd.config import UpdateSection
from swarmd.policy.plans.choice import price
from swarmd.policy.plans.ladder import Execution, ladder
from swarmd.policy.plans.needs import Need, Needs, Where, activation_bytes, needs
from swarmd.policy.plans.shape import ModelShape
from swarmd.policy.update import attention
from swarmd.policy.update.attention import layout_of, prompt_sharing, takes_groups
from swarmd.policy.update.packing import Pack, PromptGroup, TokenCompletion, WeighedCompletion, collate
from tests.policy.plans.shapes import WORK, half_billion
from tests.policy.tiny_models import build

GPU, CPU = Where("cuda", "vllm"), Where("cpu", "transformers")
ONE_COPY = Where("cuda", "vllm", one_copy=True)
PARAMETERS = 494_032_768
HOW = Execution(4096)


def row(table: Needs, name: str) -> Need:
    return next(row for row in table.rows if row.name == name)


def test_what_is_kept_a_parameter_on_a_gpu() -> None:
    table = needs(half_billion(), WORK, HOW, GPU)
    kept = {
        name: row(table, name).update_bytes / PARAMETERS
        for name in ("weights", "master weights", "gradients")
    }
    assert kept == {"weights": 2, "master weights": 4, "gradients": 4}
    assert row(table, "optimizer moments").update_bytes == 8 * PARAMETERS


def test_a_float32_model_is_its_own_master() -> None:
    table = needs(half_billion(), WORK, HOW, CPU)
    assert (row(table, "weights").update_bytes, row(table, "master weights").update_bytes) == (
        4 * PARAMETERS,
        0,
    )


def test_gradients_are_gone_while_generating_and_moments_are_not() -> None:
    table = needs(half_billion(), WORK, HOW, GPU)
    assert row(table, "gradients").generate_bytes == row(table, "activations").generate_bytes == 0
    assert row(table, "optimizer moments").generate_bytes == 8 * PARAMETERS


def test_the_engines_cache_is_exactly_the_tokens_it_may_hold() -> None:
    table = needs(half_billion(), replace(WORK, generate_batch_tokens=1000), HOW, GPU)
    assert row(table, "key-value cache").generate_bytes == 1000 * 12 * 1024


def test_an_engine_that_sleeps_gives_weights_and_cache_back() -> None:
    awake, asleep = (
        needs(half_billion(), WORK, HOW._replace(engine_sleeps=sleeps), GPU) for sleeps in (False, True)
    )
    saved = awake.update_bytes - asleep.update_bytes
    assert saved > row(awake, "engine weights").update_bytes + row(awake, "key-value cache").update_bytes
    assert awake.generate_bytes == asleep.generate_bytes


def test_an_engine_with_the_learners_weights_gives_the_cache_back_and_keeps_those() -> None:
    awake, asleep = (
        needs(half_billion(), WORK, HOW._replace(engine_sleeps=sleeps), ONE_COPY) for sleeps in (False, True)
    )
    assert row(awake, "engine weights") == row(asleep, "engine weights") == Need("engine weights")
    assert row(awake, "weights") == row(asleep, "weights") == Need("weights", 2 * PARAMETERS, 2 * PARAMETERS)
    cache, rest = (
        row(awake, name).update_bytes - row(asleep, name).update_bytes
        for name in ("key-value cache", "engine")
    )
    assert awake.update_bytes - asleep.update_bytes == cache + rest
    assert (row(asleep, "key-value cache").update_bytes, cache > 0, rest > 0) == (0, True, True)


def test_one_copy_saves_the_other_wherever_that_would_be() -> None:
    for sleeps in (False, True):
        how = HOW._replace(engine_sleeps=sleeps)
        two, one = (needs(half_billion(), WORK, how, where) for where in (GPU, ONE_COPY))
        assert two.generate_bytes - one.generate_bytes == 2 * PARAMETERS
        assert two.update_bytes - one.update_bytes == (0 if sleeps else 2 * PARAMETERS)


def test_the_shared_module_is_counted_once() -> None:
    assert all(row.name != "engine weights" for row in needs(half_billion(), WORK, HOW, CPU).rows)


def test_two_processes_on_one_device_need_both_all_the_time() -> None:
    table = needs(half_billion(), WORK, HOW, replace(CPU, apart=True))
    assert row(table, "engine weights") == Need("engine weights", 4 * PARAMETERS, 4 * PARAMETERS)


def test_a_phase_that_happens_elsewhere_needs_nothing() -> None:
    assert needs(half_billion(), WORK, HOW, replace(GPU, generates=False)).generate_bytes == 0
    alone = needs(half_billion(), WORK, HOW, replace(GPU, updates=False))
    assert (alone.update_bytes, row(alone, "weights").generate_bytes) == (0, 0)


def test_a_round_smaller_than_a_micro_batch_is_the_row() -> None:
    work = replace(WORK, prompt_tokens=10, tokens_max=5, completions=2, num_rollouts=2)
    assert work.row_tokens(HOW) == 2 * (10 + 2 * 5)
    assert replace(work, num_rollouts=1000).row_tokens(HOW) == 4096
    assert replace(work, num_rollouts=1000).row_tokens(Execution(4)) == 15


@pytest.mark.parametrize(
    "where",
    [GPU, ONE_COPY, CPU, Where("cuda", "transformers")],
    ids=["vllm", "vllm, one copy", "cpu", "transformers"],
)
def test_every_plan_needs_less_for_an_update_than_the_one_before(where: Where) -> None:
    plans = ladder(UpdateSection(), where.device, can_sleep=where.engine == "vllm")
    peaks = [priced.needs.update_bytes for priced in price(half_billion(), WORK, where, plans)]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == len(peaks)


SHAPES = [
    {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "num_key_value_heads": 1},
    {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4},
    {"hidden_size": 96, "intermediate_size": 512, "num_attention_heads": 6, "num_key_value_heads": 2},
]


@pytest.mark.parametrize("grouped", [False, True], ids=["keys copied", "keys shared"])
@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "checkpointing"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("sizes", SHAPES, ids=lambda sizes: str(sizes["hidden_size"]))
def test_activations_are_those_that_torch_keeps(
    sizes: dict[str, int],
    dtype: torch.dtype,
    checkpointing: bool,
    grouped: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention, "takes_groups", lambda device: grouped)
    # given two depths of a model, so that what does not belong to a layer cancels
    kept = [kept_bytes(sizes, layers, dtype, checkpointing) for layers in (2, 4)]
    # when
    expected = [formula(sizes, layers, dtype.itemsize, checkpointing, grouped) for layers in (2, 4)]
    # then
    assert kept[1] - kept[0] == pytest.approx(expected[1] - expected[0], rel=0.03)


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
def test_the_table_counts_copies_of_keys_where_attention_makes_them(device: str) -> None:
    assert Where(device).grouped == takes_groups(torch.device(device))


PROMPT, COMPLETION, COMPLETIONS, ROLLOUTS = 90, 61, 4, 2


def formula(
    sizes: dict[str, int], layers: int, element_bytes: int, checkpointing: bool, grouped: bool
) -> int:
    shape = ModelShape(
        sizes["hidden_size"], sizes["intermediate_size"], layers, sizes["num_attention_heads"],
        sizes["num_key_value_heads"], sizes["hidden_size"] // sizes["num_attention_heads"], 300, True, 0, False,
    )  # fmt: skip
    work = replace(
        WORK,
        prompt_tokens=PROMPT,
        tokens_max=COMPLETION - 1,
        completions=COMPLETIONS,
        num_rollouts=ROLLOUTS,
    )
    how = HOW._replace(checkpointing=checkpointing)
    return activation_bytes(shape, work, how, element_bytes, grouped=grouped)


def kept_bytes(sizes: dict[str, int], layers: int, dtype: torch.dtype, checkpointing: bool) -> int:
    """Bytes that one packed row's forward saves for its backward, parameters aside."""
    model = build("qwen-tied", dtype=dtype, num_hidden_layers=layers, **sizes)
    if checkpointing:
        model.gradient_checkpointing_enable()
        model.train()
    pack = Pack()
    for _ in range(ROLLOUTS):
        completions = [
            WeighedCompletion(index, TokenCompletion((5,) * COMPLETION, 1.0), 1.0, False)
            for index in range(COMPLETIONS)
        ]
        pack.add(PromptGroup((7,) * PROMPT, tuple(completions)))
    tensors = collate(pack, model.device, torch.float32)
    layout = layout_of(tensors.segments, tensors.groups_T, tensors.members_T)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def pack_hook(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with prompt_sharing(model), torch.autograd.graph.saved_tensors_hooks(pack_hook, lambda tensor: tensor):
        hidden = model.base_model(
            input_ids=tensors.ids_T[None],
            position_ids=tensors.positions_T[None],
            use_cache=False,
            layout=layout,
        ).last_hidden_state
    assert hidden.requires_grad
    return sum(kept.values())
