"""The generator: the policy process that answers questions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from swarmd.clients.patience import Patience
from swarmd.clients.policy import Generated, PolicyOps, Published
from swarmd.clients.worker import Worker, ask

# Half a billion parameters take seconds to write or to read.
HAND_OVER_S = 600.0


@dataclass(frozen=True)
class Generator:
    """Calls a process that generates; completions are sampled at `temperature`, and have at most `tokens_max` tokens.

    All operations raise LocalError when the process died, does not answer, or cannot do it.
    """

    worker: Worker
    temperature: float
    tokens_max: int
    _patience: Patience = field(default_factory=Patience)

    async def generate(self, prompts: Sequence[str], num_completions: int, *, seed: int) -> Generated:
        """So many completions for each prompt; equal arguments and weights give equal completions."""
        return await self._patience.with_it(
            lambda within_s: ask(
                self.worker,
                within_s,
                PolicyOps.generate,
                prompts=prompts,
                num_completions=num_completions,
                temperature=self.temperature,
                tokens_max=self.tokens_max,
                seed=seed,
            )
        )

    async def load_weights(self, published: Published) -> None:
        """Take published weights."""
        await ask(
            self.worker,
            HAND_OVER_S,
            PolicyOps.load_weights,
            path=published.path,
            policy_version=published.policy_version,
        )
