"""A policy service on a folder, and rollouts to feed it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swarmd.clients.events import PolicyEvent
from swarmd.clients.policy import OwnCompletion
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.policy.plans.ladder import Execution, Plan
from swarmd.policy.service import PolicyService
from tests.policy.settings import config

SETTINGS = {"learning_rate": 1e-3, "tokens_max": 24, "threads": 1}


def service(
    model_dir: Path,
    *,
    roles: tuple[str, ...] = ("generate", "update"),
    checkpoints: Path | None = None,
    published: Path | None = None,
    events: list[PolicyEvent] | None = None,
    plan: str = "auto",
    plans: Sequence[str] = (),
    plan_key: str = "",
    how: Execution | None = None,
    **settings: Any,
) -> PolicyService:
    """Built, not started. `how`: the only plan is to carry updates out so."""
    sink = events if events is not None else []
    policy = PolicyService(
        sink.append,
        roles=roles,
        model_dir=str(model_dir),
        device="cpu",
        config=config(**SETTINGS | settings).model_dump_json(),
        checkpoints_dir=str(checkpoints) if checkpoints else None,
        published_dir=str(published) if published else None,
        plan=plan,
        plans=plans,
        plan_key=plan_key,
    )
    if how is not None:
        policy._plans = (Plan("resident", how),)
    return policy


def started(model_dir: Path, **options: Any) -> PolicyService:
    policy = service(model_dir, **options)
    policy.start()
    return policy


def scored(made: OwnCompletion, reward: float) -> ScoredCompletion:
    """A completion of our own with its reward."""
    measured = (made.token_ids, made.logprob_sum, made.num_tokens, made.token_logps)
    return ScoredCompletion(made.text, made.finished, reward, *measured)


def own_rollout(policy: PolicyService, prompt: str, *, seed: int = 1, counter: int = 0) -> ScoredRollout:
    """Four completions of `policy`, every second one a success, with their ids."""
    (completions,) = policy.generate([prompt], 4, 1.0, 12, seed).completions_RG
    return rollout(
        prompt, [scored(made, float(n % 2)) for n, made in enumerate(completions)], counter=counter
    )


def rollout(
    prompt: str, completions: list[ScoredCompletion], *, counter: int = 0, external: bool = False
) -> ScoredRollout:
    return ScoredRollout(
        author=b"b" * 32 if external else b"a" * 32,
        dataset=0,
        counter=counter,
        prompt=prompt,
        completions=tuple(completions),
        created_ms=0,
        policy_version=0,
        external=external,
    )


def as_external(own: ScoredRollout) -> ScoredRollout:
    """What another node makes of a rollout: the text, its own scores, no ids."""
    completions = [
        ScoredCompletion(text=c.text, finished=c.finished, reward=c.reward) for c in own.completions
    ]
    return rollout(own.prompt, completions, counter=own.counter, external=True)


def parameters(policy: PolicyService) -> dict[str, Any]:
    return {name: tensor.clone() for name, tensor in policy._model.state_dict().items()}
