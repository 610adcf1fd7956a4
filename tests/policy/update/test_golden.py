"""Loss and every parameter's gradient against an independent plain implementation; wrong implementations must differ."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from swarmd.config import Config
from swarmd.policy.update import learner as learner_module
from swarmd.policy.update import passes, token_losses, weighting
from swarmd.policy.update.packing import TokenRollout
from swarmd.policy.update.self_check import SelfCheck
from tests.policy import plain_reference
from tests.policy.settings import learner_with
from tests.policy.tiny_models import KINDS, build, round_of

LIMITS = {torch.float32: 1e-5, torch.float64: 1e-6}  # transformers' norms are float32 even in a float64 model


def differences(
    kind: str = "qwen-tied",
    rollouts: list[TokenRollout] | None = None,
    *,
    reference: list[TokenRollout] | None = None,
    dtype: torch.dtype = torch.float32,
    padded: bool = False,
    off_policy: bool = False,
    **settings: Any,
) -> tuple[float, float]:
    """Relative difference of the loss and of the worst parameter gradient."""
    rollouts = round_of() if rollouts is None else rollouts
    model = build(kind, dtype=dtype)
    if off_policy:
        rollouts = plain_reference.off_policy(model, rollouts)
    learner = learner_with(model, **{"tokens_max": 12, **settings})
    wanted_loss, wanted = plain_reference.loss_and_gradients(
        model,
        reference or rollouts,
        aggregation=learner.config.update.aggregation,
        completion_tokens_max=12,
        temperature=learner.config.policy.temperature,
        padded=padded,
    )
    loss, gradients = learner.gradients(rollouts)
    return abs(loss - wanted_loss) / abs(wanted_loss), plain_reference.worst_difference(gradients, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("aggregation", ["dapo", "grpo", "dr_grpo"])
@pytest.mark.parametrize("off_policy", [False, True])
def test_agrees_with_the_plain_implementation(kind: str, aggregation: str, off_policy: bool) -> None:
    found = differences(kind, off_policy=off_policy, aggregation=aggregation)
    assert max(found) < LIMITS[torch.float32]


@pytest.mark.parametrize("micro_batch_tokens", [1, 12, 40, 4096])
@pytest.mark.parametrize("head_tile", [1, 7, 1024])
def test_agrees_at_every_micro_batch_and_tile(micro_batch_tokens: int, head_tile: int) -> None:
    found = differences(off_policy=True, micro_batch_tokens=micro_batch_tokens, head_tile=head_tile)
    assert max(found) < 1e-5


@pytest.mark.parametrize(("num_local", "num_external"), [(3, 0), (0, 3), (1, 3)])
@pytest.mark.parametrize("padded", [False, True])
def test_agrees_for_local_and_external_rollouts(num_local: int, num_external: int, padded: bool) -> None:
    rollouts = round_of(num_local=num_local, num_external=num_external)
    assert max(differences(rollouts=rollouts, padded=padded)) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_agrees_in_float64(kind: str) -> None:
    assert max(differences(kind, off_policy=True, dtype=torch.float64)) < LIMITS[torch.float64]


def test_agrees_at_another_temperature() -> None:
    assert max(differences("qwen-untied", off_policy=True, temperature=0.7)) < 1e-5


def test_agrees_when_only_some_completions_bring_old_log_probs() -> None:
    rollouts = [*plain_reference.off_policy(build(), round_of(1, num_external=0)), *round_of(2, num_local=0)]
    assert max(differences(rollouts=rollouts)) < 1e-5


def test_the_plain_path_agrees_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_module, "check_packed_pass", lambda *_: SelfCheck(False, "off"))
    assert max(differences(off_policy=True, temperature=0.7)) < 1e-5


# Deliberate mistakes: each must be seen by the comparison above.


def _without_eos(rollouts: list[TokenRollout]) -> list[TokenRollout]:
    def cut(rollout: TokenRollout) -> TokenRollout:
        kept = tuple(replace(c, ids=c.ids[:-1]) if c.finished else c for c in rollout.completions)
        return replace(rollout, completions=kept)

    return [cut(rollout) for rollout in rollouts]


def test_a_missing_eos_is_seen() -> None:
    assert min(differences(rollouts=_without_eos(round_of()), reference=round_of())) > 1e-3


def _swapped_clip(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, clip_low, clip_high: real(*args, clip_low=clip_high, clip_high=clip_low)


def _clip_on_the_wrong_side(real: Callable[..., Any]) -> Callable[..., Any]:
    def mutant(logps: Any, old: Any, advantages: Any, **clip: float) -> Any:
        found = real(logps, old, -advantages, **clip)
        return found._replace(loss_N=-found.loss_N, slope_N=-found.slope_N)

    return mutant


@pytest.mark.parametrize("mutant", [_swapped_clip, _clip_on_the_wrong_side])
def test_a_wrong_clip_is_seen(monkeypatch: pytest.MonkeyPatch, mutant: Callable[..., Any]) -> None:
    monkeypatch.setattr(token_losses, "clipped_loss", mutant(token_losses.clipped_loss))
    assert min(differences(off_policy=True)) > 1e-4


def test_a_normaliser_counted_after_dropping_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def weigh_late(rollouts: list[TokenRollout], settings: Config) -> Any:
        live = [replace(r, completions=tuple(c for c in r.completions if c.advantage)) for r in rollouts]
        return weighting.weigh(live, settings)

    monkeypatch.setattr(learner_module, "weigh", weigh_late)
    assert min(differences()) > 1e-3


def _positions_run_on(found: Any) -> Any:
    return replace(found, positions_T=torch.arange(len(found.ids_T)))


def _predicted_by_itself(found: Any) -> Any:
    return replace(found, predictors_N=(found.predictors_N + 1).clamp(max=len(found.ids_T) - 1))


def _first_token_unpredicted(found: Any) -> Any:
    return replace(
        found, weights_N=found.weights_N * (found.positions_T[found.predictors_N] > found.positions_T[0])
    )


@pytest.mark.parametrize("mutate", [_positions_run_on, _predicted_by_itself, _first_token_unpredicted])
def test_wrong_places_are_seen(monkeypatch: pytest.MonkeyPatch, mutate: Callable[[Any], Any]) -> None:
    real = passes.collate
    monkeypatch.setattr(learner_module, "check_packed_pass", lambda *_: SelfCheck(True, "forced"))
    monkeypatch.setattr(passes, "collate", lambda *args: mutate(real(*args)))
    rollouts = [replace(r, prompt_ids=r.prompt_ids[:1]) for r in round_of()]
    assert differences(rollouts=rollouts, off_policy=True)[1] > 1e-3


def _see_everything(layout: Any) -> Any:
    return tuple(replace(block, visible_QK=torch.ones_like(block.visible_QK).tril()) for block in layout)


def test_a_leak_between_completions_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = passes.layout_of
    monkeypatch.setattr(learner_module, "check_packed_pass", lambda *_: SelfCheck(True, "forced"))
    monkeypatch.setattr(passes, "layout_of", lambda *args: _see_everything(real(*args)))
    assert differences(off_policy=True)[1] > 1e-3


@pytest.mark.parametrize("mutate", [_positions_run_on, _predicted_by_itself])
@pytest.mark.usefixtures("own_self_check")
def test_the_self_check_sees_a_broken_fast_path_and_trains_without_it(
    monkeypatch: pytest.MonkeyPatch, mutate: Callable[[Any], Any]
) -> None:
    real = passes.collate
    monkeypatch.setattr(passes, "collate", lambda *args: mutate(real(*args)))
    learner = learner_with(build())
    stats = learner.update(round_of())
    assert not stats.fast_path
    assert stats.skipped is None


@pytest.mark.usefixtures("own_self_check")
def test_the_self_check_compares_gradients_also_when_it_is_first_asked_for_log_probs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = passes.head_pass

    def too_steep(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        return replace(
            found, hidden_grad_ND=None if found.hidden_grad_ND is None else 1.5 * found.hidden_grad_ND
        )

    monkeypatch.setattr(passes, "head_pass", too_steep)
    learner = learner_with(build())
    learner.log_probs(round_of())
    assert not learner.update(round_of()).fast_path
