"""The floor and the caps: gradients against a plain implementation, what they drop, hold down, forward and report."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from swarmd.config import load_config
from swarmd.errors import ConfigError
from swarmd.policy.update.caps import cap
from swarmd.policy.update.floor import Floors
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from swarmd.policy.update.prepass import Wanted
from tests.policy import plain_reference
from tests.policy.settings import config, learner_with
from tests.policy.tiny_models import VOCAB, build, rollout, round_of

# Random models of this size give a token about that: some completions lie on either side.
FLOOR = -6.5
TOKEN_FLOOR = -8.0


def flooded(*, num_completions: int = 24, num_local: int = 3, num_external: int = 3) -> list[TokenRollout]:
    """A round in which one external rollout brings far more tokens than any own one."""
    flood = rollout(random.Random(9), external=True, num_completions=num_completions)
    return [*round_of(num_local=num_local, num_external=num_external), flood]


def gradients(rollouts: Sequence[TokenRollout], **options: Any) -> tuple[float, dict[str, torch.Tensor]]:
    """Of a fresh learner; the options `mean` and `token` are the round's floors."""
    floors = Floors(**{key: options.pop(key) for key in Floors._fields if key in options})
    return learner_with(build(), **options).gradients(rollouts, floors)


def difference(rollouts: list[TokenRollout], **options: Any) -> float:
    names = {"mean": "external_logp_min", "token": "external_token_logp_min"}
    plain = {names.get(key, key): value for key, value in options.items()}
    wanted_loss, wanted = plain_reference.guarded_loss_and_gradients(build(), rollouts, **plain)
    loss, found = gradients(rollouts, **options)
    return max(abs(loss - wanted_loss) / abs(wanted_loss), plain_reference.worst_difference(found, wanted))


GUARDS: list[dict[str, float]] = [
    {"mean": FLOOR},
    {"token": TOKEN_FLOOR},
    {"external_weight_max": 1.0},
    {"external_weight_max": 0.25},
    {"external_share_max": 0.5},
    {"external_share_max": 0.01},
    {"external_weight_max": 2.0, "external_share_max": 0.6},
    {"mean": FLOOR, "external_weight_max": 1.0, "external_share_max": 0.3},
]


@pytest.mark.parametrize("options", GUARDS)
def test_every_guard_agrees_with_the_plain_implementation(options: dict[str, float]) -> None:
    assert difference(flooded(), **options) < 1e-5


@pytest.mark.parametrize("options", GUARDS)
def test_the_examples_are_not_trivial(options: dict[str, float]) -> None:
    found, plain = gradients(flooded(), **options)[1], gradients(flooded())[1]
    assert plain_reference.worst_difference(found, plain) > 1e-2


@pytest.mark.parametrize("options", [{"external_weight_max": 50.0}, {"external_share_max": 0.99}])
def test_a_cap_that_does_not_bind_changes_no_bit(options: dict[str, float]) -> None:
    found, plain = gradients(flooded(), **options)[1], gradients(flooded())[1]
    assert all(torch.equal(found[name], plain[name]) for name in plain)


# The floor.


def gibberish(seed: int = 1, *, num: int = 4, num_tokens: int = 12) -> TokenRollout:
    """Random tokens that end in something rewarded: a random model likes them no less than others, a trained one does."""
    rng = random.Random(seed)
    completions = tuple(
        TokenCompletion(tuple(rng.randrange(1, VOCAB) for _ in range(num_tokens)), 1.0 if n % 2 else -1.0)
        for n in range(num)
    )
    return TokenRollout((1, 2, 3), completions, external=True)


def trained_on(text: tuple[int, ...]) -> Learner:
    """A learner whose policy says one thing and nothing else."""
    learner = learner_with(build(), learning_rate=1e-2)
    said = TokenRollout((1, 2, 3), (TokenCompletion(text, 1.0), TokenCompletion((7, 8), -1.0)))
    for _ in range(40):
        learner.update([said])
    return learner


def test_what_the_policy_would_never_say_is_dropped_and_what_it_says_is_not() -> None:
    text = (5, 9, 13, 17)
    learner = trained_on(text)
    spoken = TokenRollout((1, 2, 3), (TokenCompletion(text, 1.0), TokenCompletion(text, -1.0)), external=True)
    assert learner.update([gibberish()], Floors(-1.0)).num_external_dropped == 4
    assert learner.update([spoken], Floors(-1.0)).num_external_dropped == 0


@pytest.mark.parametrize(("favoured", "num_dropped"), [("gibberish", 2), ("spoken", 1)])
def test_good_style_is_not_pushed_down_where_the_answers_above_it_were_dropped(
    favoured: str, num_dropped: int
) -> None:
    """Right answers in a bad manner, wrong ones in the own: the wrong ones alone would be left."""
    text = (5, 9, 13, 17)
    learner = trained_on(text)
    bad = gibberish(num=1).completions[0].ids
    sign = 1.0 if favoured == "gibberish" else -1.0
    made = (TokenCompletion(bad, sign), TokenCompletion(text, -sign))
    before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    stats = learner.update([TokenRollout((1, 2, 3), made, external=True)], Floors(-1.0))
    assert stats.num_external_dropped == num_dropped
    unchanged = all(torch.equal(before[name], value) for name, value in learner.model.state_dict().items())
    assert unchanged == (favoured == "gibberish")


def test_one_impossible_token_among_likely_ones_is_enough() -> None:
    text = (5, 9, 13, 17)
    learner = trained_on(text)
    hidden = TokenRollout(
        (1, 2, 3), (TokenCompletion((*text, 40), 1.0), TokenCompletion(text, -1.0)), external=True
    )
    assert learner.update([hidden], Floors(-20.0, -1.0)).num_external_dropped == 2
    assert learner.update([hidden], Floors(-20.0)).num_external_dropped == 0


def test_it_is_told_which_rollouts_nothing_was_left_of() -> None:
    text = (5, 9, 13, 17)
    learner = trained_on(text)
    own = TokenRollout((1, 2, 3), (TokenCompletion(text, 1.0), TokenCompletion((7, 8), -1.0)))
    spoken = replace(
        own, completions=(TokenCompletion(text, 1.0), TokenCompletion(text, -1.0)), external=True
    )
    too_long = TokenRollout((1, 2, 3), (), external=True)
    stats = learner.update(
        [own, gibberish(), spoken, too_long, replace(too_long, external=False)], Floors(-1.0)
    )
    assert stats.left_out == (1, 3)


def test_own_completions_are_never_dropped() -> None:
    learner = learner_with(build())
    stats = learner.update(round_of(num_local=2, num_external=0), Floors(-1e-9))
    assert (stats.num_external_dropped, stats.skipped) == (0, None)


def test_a_round_of_nothing_but_what_is_dropped_is_skipped() -> None:
    learner = learner_with(build())
    before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    stats = learner.update([gibberish()], Floors(-1e-9))
    assert (stats.skipped, stats.num_external_dropped, stats.num_steps) == ("zero_advantage", 4, 0)
    assert all(torch.equal(before[name], value) for name, value in learner.model.state_dict().items())


def test_what_is_dropped_thins_out_nothing() -> None:
    """Own rollouts beside dropped ones learn exactly what they learn alone."""
    own = round_of(num_local=2, num_external=0)
    alone = gradients(own)
    beside = gradients([*own, gibberish(num_tokens=60)], mean=-1e-9)
    assert plain_reference.worst_difference(beside[1], alone[1]) < 1e-6


@pytest.mark.parametrize("weighting", ["as-own", "positive", "tapered"])
def test_the_floor_holds_under_every_weighting(weighting: str) -> None:
    own = round_of(num_local=2, num_external=0)
    alone = gradients(own, external_weighting=weighting)
    beside = gradients([*own, gibberish()], mean=-1e-9, external_weighting=weighting)
    assert plain_reference.worst_difference(beside[1], alone[1]) < 1e-6


def test_several_steps_keep_what_the_first_one_kept() -> None:
    stats = learner_with(build(), epochs=3).update(flooded(), Floors(FLOOR))
    once = learner_with(build()).update(flooded(), Floors(FLOOR))
    assert stats.num_external_dropped == once.num_external_dropped > 0


class Counted(Learner):
    """Notes which completions `log_probs` forwards."""

    def log_probs(self, rollouts: Sequence[TokenRollout], wanted: Wanted) -> list[list[tuple[float, ...]]]:
        asked = [c for rollout in rollouts for c in rollout.completions if wanted(rollout, c)]
        self.asked = [*self.asked, *asked]
        return super().log_probs(rollouts, wanted)

    asked: Sequence[Any] = ()


def test_only_externals_with_an_advantage_are_forwarded_for_it() -> None:
    learner, rollouts = learner_with(build(), kind=Counted), round_of()
    learner.update(rollouts, Floors(FLOOR))
    assert learner.asked == [c for r in rollouts[2:] for c in r.completions if c.advantage]


def test_without_a_floor_there_is_no_pass_for_it() -> None:
    learner = learner_with(build(), external_weight_max=1.0, external_share_max=0.1, kind=Counted)
    learner.update(flooded())
    assert not learner.asked


# The caps.


def share_of(rollouts: Sequence[TokenRollout]) -> float:
    """Externals' part of the tokens, by the weights in front of them."""
    sums = {True: 0.0, False: 0.0}
    for found in rollouts:
        sums[found.external] += math.fsum(c.weight * len(c.ids) for c in found.completions)
    return sums[True] / (sums[True] + sums[False])


@pytest.mark.parametrize("share_max", [0.9, 0.5, 0.2, 0.01])
@pytest.mark.parametrize("num_external", [1, 5, 20])
def test_the_share_is_never_passed(share_max: float, num_external: int) -> None:
    rollouts = flooded(num_local=1, num_external=num_external, num_completions=64)
    capped = cap(rollouts, config(external_share_max=share_max))
    assert share_of(capped.rollouts) <= share_max + 1e-9
    assert capped.share == pytest.approx(share_of(capped.rollouts))


@pytest.mark.parametrize("weight_max", [1.0, 2.0, 5.0])
def test_no_external_rollout_passes_its_multiple_of_the_mean_own_one(weight_max: float) -> None:
    rollouts = flooded(num_completions=64)
    capped = cap(rollouts, config(external_weight_max=weight_max)).rollouts
    weights = [math.fsum(c.weight * len(c.ids) for c in found.completions) for found in capped]
    own = [weight for weight, found in zip(weights, capped, strict=True) if not found.external]
    assert max(weights[len(own) :]) <= weight_max * math.fsum(own) / len(own) + 1e-9


def test_what_a_cap_takes_goes_back_to_the_round() -> None:
    """However much a flood brings, the sum of the weights is that of a round without it."""
    for num_completions in (4, 64):
        rollouts = flooded(num_completions=num_completions)
        capped = cap(rollouts, config(external_weight_max=1.0, external_share_max=0.5)).rollouts
        total = math.fsum(c.weight * len(c.ids) for found in capped for c in found.completions)
        assert total == pytest.approx(sum(len(c.ids) for found in rollouts for c in found.completions))


def test_a_flood_of_tokens_leaves_own_learning_its_size() -> None:
    """The gradient of own rollouts beside a flood of empty worth, with the caps and without."""
    own = round_of(num_local=2, num_external=0)
    worthless = gibberish(num=64, num_tokens=60)
    worthless = replace(
        worthless, completions=tuple(replace(c, advantage=0.0) for c in worthless.completions)
    )
    sizes = [
        max(value.abs().max().item() for value in gradients(rollouts, **options)[1].values())
        for rollouts, options in (
            (own, {}),
            ([*own, worthless], {}),
            ([*own, worthless], {"external_weight_max": 1.0}),
        )
    ]
    assert sizes[1] < 0.02 * sizes[0]
    assert sizes[2] == pytest.approx(sizes[0] * 2 / 3, rel=1e-4)  # as beside one rollout like them


@pytest.mark.parametrize("aggregation", ["dapo", "grpo", "dr_grpo"])
def test_the_caps_hold_under_every_aggregation(aggregation: str) -> None:
    settings = config(aggregation=aggregation, tokens_max=9, external_weight_max=1.0, external_share_max=0.25)
    capped = cap(flooded(), settings)
    assert capped.num >= 1
    assert capped.share is not None
    assert capped.share <= 0.25 + 1e-9


@pytest.mark.parametrize("rollouts", [[], round_of(num_external=0), round_of(num_local=0)])
def test_without_two_sides_there_is_nothing_to_compare(rollouts: list[TokenRollout]) -> None:
    settings = config(external_weight_max=0.1, external_share_max=0.1)
    assert cap(rollouts, settings).rollouts == rollouts


def test_the_caps_report_what_they_did() -> None:
    learner = learner_with(build(), external_weight_max=1.0, external_share_max=0.4)
    stats = learner.update(flooded())
    assert (stats.external_share, stats.num_external_capped) == (pytest.approx(0.4), 4)
    plain = learner_with(build()).update(flooded())
    assert plain.num_external_capped == 0
    assert plain.external_share is not None
    assert plain.external_share > 0.6


@pytest.mark.parametrize(
    "options",
    [
        {"external_logp_min": 0.1},
        {"external_logp_min": math.nan},
        {"external_weight_max": -1.0},
        {"external_share_max": 0.0},
        {"external_share_max": 1.1},
    ],
)
def test_numbers_without_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        load_config(flags={f"update.{key}": value for key, value in options.items()}, environ={})
