"""A node with a canary over fakes, whose policy falls and rises as a test says."""

from typing import Any

from swarmd.loops.canary.memory import Memory
from tests.loops.fakes import BAD, GOOD
from tests.loops.parts import Loops, external_rollout, own_batch


class Watched(Loops):
    """A node with a canary every other round, whose policy answers well until `fall` is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.external = [external_rollout(counter) for counter in range(4)]
        self.learner.texts = self.generator.texts = [GOOD]
        self.watch()

    def watch(self) -> None:
        """The loop and its canary, as after a start on the learner's checkpoint."""
        self.watcher = self.canary()
        self.loop = self.update(canary=self.watcher)

    @property
    def memory(self) -> Memory:
        return self.watcher.memory

    def fall(self) -> None:
        self.generator.texts = [BAD]

    def rise(self) -> None:
        self.generator.texts = [GOOD]

    def look(self, *rewards: list[float]) -> None:
        """The rewards of the next answers that are scored; all later ones are right."""
        answers = iter([reward for look in rewards for reward in look])
        self.scorer.reward_of = lambda text: next(answers, 1.0)

    async def rounds(self, num: int) -> None:
        """So many updates; a round that went back is no update."""
        for _ in range(num):
            own = own_batch(self.learner.version)
            self.progress.put_own(own)
            await self.progress.take_own()
            await self.loop.one(own)

    async def fallen(self) -> None:
        """Good at round 2, and then bad at round 4, which is answered."""
        await self.loop.begin()
        await self.rounds(2)
        self.fall()
        await self.rounds(2)

    def checks(self) -> dict[str, float]:
        verdicts = ("good", "low", "fallen")
        return {v: self.count("trust_canary_checks_total", verdict=v) for v in verdicts}
