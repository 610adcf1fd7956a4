"""The data-parallel learner: a round's packs spread over several devices, one gradient, the same step on each of them.

Token weights are fixed before packing, so the sum of the ranks' gradients is the single device's gradient: nothing is averaged.
Every rank holds the whole model. This process is rank 0, and its weights are the truth. An error of one rank
ends all ranks and is raised. The next call starts fresh ranks, with these weights.
"""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from swarmd.config import Config
from swarmd.errors import ChildDied, ConfigError
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.update.collectives import add_up, checksum
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.optimizers.optimizer import Stepped
from swarmd.policy.update.packing import Pack, PromptGroup, first_fit
from swarmd.policy.update.rank import Passed
from swarmd.policy.update.ranks import Ranks, ranks_possible
from swarmd.policy.update.token_losses import TokenPass

# Weights of all ranks are compared at the first step and then at one in so many: reading them costs a hundredth of a step.
CHECK_EVERY_STEPS = 16


class ParallelLearner(Learner):
    """A learner on `devices`, the first of them this process's; ranks are started with the first round.

    Raises:
        ConfigError: torch was built without what connects processes here, or the optimizer's gradients do not wait for the others'.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        config: Config,
        how: Execution,
        *,
        devices: Sequence[str],
        model_dir: Path,
    ) -> None:
        super().__init__(model, config, how, device=devices[0])
        if not ranks_possible(self.model.device):
            raise ConfigError(
                f"the update cannot spread over {', '.join(devices)}",
                f"torch {torch.__version__} lacks torch.distributed with {'NCCL' if self.model.device.type == 'cuda' else 'gloo'}",
                "name one device in update.devices",
            )
        if how.kind.on_host:
            raise ConfigError(
                "the optimizer on the host does not work with several devices",
                "it takes each gradient as soon as it is there, before the other devices have added theirs",
                "name one device in update.devices, or another policy.plan",
            )
        self._devices, self._model_dir = tuple(devices), model_dir
        self._ranks: Ranks | None = None
        self._num_steps = 0

    def release(self) -> None:
        self._end_ranks()
        super().release()

    def weights_changed(self) -> None:
        super().weights_changed()
        self._end_ranks()

    def load_optimizer_tensors(self, tensors: dict[str, torch.Tensor]) -> str:
        self._end_ranks()
        return super().load_optimizer_tensors(tensors)

    def run_packs(self, packs: Sequence[Pack], *, fast: bool, with_gradient: bool) -> list[TokenPass]:
        """As the single learner's; with a gradient, the masters hold the sum over all ranks afterwards."""
        shares = balanced(packs, len(self._devices))
        own, *others = [[packs[place] for place in share] for share in shares]
        ranks = self._with_ranks()
        try:
            for number, share in enumerate(others):
                ranks.send(number, "run", packs=share, fast=fast, with_gradient=with_gradient)
            found = super().run_packs(own, fast=fast, with_gradient=with_gradient)
            # Nobody enters a collective before everybody has got through: a rank that is missing would be waited for.
            for passes in ranks.answers(list[Passed]):
                found += [passed.token_pass(self.model.device) for passed in passes]
            if with_gradient:
                ranks.send_all("add_up")
                self._add_up()
                ranks.answers(type(None))
        except BaseException:
            self._end_ranks()
            raise
        by_place = dict(zip(itertools.chain(*shares), found, strict=True))
        return [by_place[place] for place in range(len(packs))]

    def take_step(self, loss: Tensor) -> Stepped:
        """Every rank's optimizer step. Raises ChildDied where a rank's weights are no longer these."""
        ranks = self._ranks
        if ranks is None:
            raise ChildDied("the ranks of the update ended between gradient and step")
        check = self._num_steps % CHECK_EVERY_STEPS == 0
        try:
            ranks.send_all("step", loss=loss.item(), check=check)
            outcome = super().take_step(loss)
            sums = ranks.answers(int) if check else ranks.answers(type(None))
            if check and (own := checksum(self.masters)) and any(other != own for other in sums):
                raise ChildDied(
                    "the weights of the update's ranks have drifted apart",
                    f"checksums after step {self._num_steps + 1}: {[own, *sums]}",
                    "the next round goes on from the first device's weights; devices that are not alike can cause it",
                )
        except BaseException:
            self._end_ranks()
            raise
        self._num_steps += 1
        return outcome

    def _add_up(self) -> None:
        try:
            add_up(self.masters)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            raise ChildDied(
                "the gradients of the update's ranks could not be added up", str(error).partition("\n")[0]
            ) from error

    def _end_ranks(self) -> None:
        """The next round starts fresh ones, from the weights and the optimizer as they then are."""
        if self._ranks is not None:
            self._ranks.close()
            self._ranks = None

    def _with_ranks(self) -> Ranks:
        """The ranks, which work under the settings they were started with."""
        if self._ranks is not None and self._ranks.settings != (self.config, self.how):
            self._end_ranks()
        if self._ranks is None:
            self._ranks = Ranks(self, self._model_dir, self._devices[1:])
        return self._ranks

    def _packs(self, groups: list[PromptGroup]) -> list[Pack]:
        """Micro-batches within the same budget, cut so that every rank gets about as much."""
        share = math.ceil(sum(group.num_tokens for group in groups) / len(self._devices))
        num = math.ceil(share / self.how.micro_batch_tokens)
        return first_fit(groups, math.ceil(share / num))


def balanced(packs: Sequence[Pack], num_ranks: int) -> list[list[int]]:
    """The packs' places for each rank: the largest first, each to whoever has the fewest tokens so far."""
    shares: list[list[int]] = [[] for _ in range(num_ranks)]
    loads = [0] * num_ranks
    for place in sorted(range(len(packs)), key=lambda place: -packs[place].num_tokens):
        least = loads.index(min(loads))
        shares[least].append(place)
        loads[least] += packs[place].num_tokens
    return shares


def learner_on(
    devices: Sequence[str],
    model: PreTrainedModel,
    config: Config,
    how: Execution,
    *,
    model_dir: Path,
) -> Learner:
    """A learner on one device, or on several."""
    if len(devices) == 1:
        return Learner(model, config, how, device=devices[0])
    return ParallelLearner(model, config, how, devices=devices, model_dir=model_dir)
