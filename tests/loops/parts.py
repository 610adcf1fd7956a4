"""One node's loops over fakes, wired as `swarmd.node.life` wires the real ones."""

import itertools
import math
from collections.abc import AsyncIterable, Callable, Collection
from typing import Any, Literal

import trio
from prometheus_client import CollectorRegistry

from swarmd.clients.generator import Generator
from swarmd.clients.learner import HandOver, Learner
from swarmd.clients.network import Network
from swarmd.clients.scorer import Scorer
from swarmd.experience.buffer import AddResult, Sample
from swarmd.experience.own import OwnExperience
from swarmd.experience.pools import LocalPool
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.experience.seeds import Seeds
from swarmd.loops.answers import OwnRollouts
from swarmd.loops.ask import Ask
from swarmd.loops.bans import Bans
from swarmd.loops.canary.go_back import Canary
from swarmd.loops.canary.measure import Measure
from swarmd.loops.canary.memory import Bounds, Memory
from swarmd.loops.canary.watch import Unwatched, Watch
from swarmd.loops.evaluate import Evaluate, Evaluations
from swarmd.loops.externals import Draw, Externals
from swarmd.loops.generate import Generate
from swarmd.loops.ingest import Ingest
from swarmd.loops.pace import Pace
from swarmd.loops.progress import Progress
from swarmd.loops.record import Round
from swarmd.loops.share import Share
from swarmd.loops.training import Training
from swarmd.loops.update import NoteUse, Update
from swarmd.metrics import Metrics
from swarmd.protocol.manifest import Manifest, load_manifest
from swarmd.protocol.rules import RULES
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import Identity
from swarmd.protocol.types import Completion, Rollout, RolloutBatch
from swarmd.trust.proof import Text
from swarmd.trust.quotas import Quotas
from swarmd.trust.standing import Standings
from swarmd.trust.trust import Trust
from tests.loops.fakes import BAD, GOOD, MS, FakeNetwork, FakePolicy, FakeScorer

MANIFEST = load_manifest("tiny")
ME, OTHER = Identity.from_seed(b"m" * 32), Identity.from_seed(b"o" * 32)


async def inline(function: Callable[..., Any], *args: Any) -> Any:
    """`run_blocking` without a thread, which a virtual clock would not wait for."""
    await trio.lowlevel.checkpoint()
    return function(*args)


def value(metrics: Metrics, name: str, **labels: str) -> float:
    """A series of `swarmd_<name>`; NaN where there is none."""
    registry: CollectorRegistry = metrics.registry
    found = registry.get_sample_value(f"swarmd_{name}", labels)
    return math.nan if found is None else found


def own_batch(version: int = 0, num: int = 1) -> OwnExperience:
    """Own rollouts with unequal rewards, two tokens a completion."""
    completions = (ScoredCompletion(GOOD, True, 1.0, (1, 2)), ScoredCompletion(BAD, True, 0.0, (1, 2)))
    rollouts = [
        ScoredRollout(ME.public_key, 0, counter, "q", completions, MS, version, external=False)
        for counter in range(num)
    ]
    return OwnExperience.of(rollouts, num_kept=num, num_tokens=4 * num, seconds=0.5)


def external_rollout(counter: int = 0) -> ScoredRollout:
    completions = (ScoredCompletion(GOOD, True, 1.0), ScoredCompletion(BAD, True, 0.0))
    return ScoredRollout(OTHER.public_key, 0, counter, "q", completions, MS, 7, external=True)


def sealed(counters: list[int], *, identity: Identity = OTHER, manifest: Manifest = MANIFEST) -> bytes:
    """A message of another node, as it comes from the network."""
    completions = (Completion(text=GOOD, finished=True), Completion(text=BAD, finished=True))
    rollouts = tuple(Rollout(dataset=0, counter=counter, completions=completions) for counter in counters)
    return identity.seal(
        RolloutBatch(rollouts=rollouts), created_ms=MS, policy="fake", policy_version=0, swarm=manifest.digest
    )


def unlimited() -> Trust:
    """No quotas and no bans, and an author is proven by two rollouts."""
    standings = Standings(proven_rollouts=2)
    return Trust(standings, Quotas(None, standings.proven))


class Loops:
    """Every part of a node's loops; change what a test is about."""

    def __init__(self, *, manifest: Manifest = MANIFEST, staleness_max: int = 0, split: bool = False) -> None:
        self.manifest = manifest
        self.metrics = Metrics([d.name for d in manifest.datasets], RULES, monotonic_s=lambda: 0.0)
        self.progress = Progress(LocalPool(staleness_max=staleness_max))
        self.scorer, self.network, self.learner = FakeScorer(manifest), FakeNetwork(), FakePolicy()
        self.generator = FakePolicy() if split else self.learner
        self.split = split
        self.seeds = Seeds(b"m" * 32, manifest.digest)
        self.trust = unlimited()
        self.trust.own_work.observe(Text.of([GOOD, BAD], ["", ""]), informative=True)
        self.later_s = 0.0
        self.reserved: list[int] = []
        self.external: list[ScoredRollout] = []
        self.records: list[dict[str, Any]] = []
        self.quarantined: list[set[bytes]] = []
        self.said: list[str] = []
        self.stored: list[tuple[list[str], list[list[float]]]] = []
        self._counter = itertools.count()

    @property
    def generating(self) -> Generator:
        return Generator(self.generator, temperature=1.0, tokens_max=8)

    @property
    def scoring(self) -> Scorer:
        return Scorer(self.scorer, deadline_s=20.0)

    def reserve(self, num: int) -> int:
        self.reserved += [next(self._counter) for _ in range(num)]
        return self.reserved[-num]

    def draw(self, num: int, rng: Any, own: Any, admitted: Any) -> Sample:
        authors = {rollout.author for rollout in self.external}
        may_come = admitted(authors)
        drawn = [rollout for rollout in self.external if rollout.author in may_come][:num]
        num_out = len(authors) - len(may_come)
        return Sample(
            drawn,
            len(self.external),
            len(self.external),
            num - len(drawn),
            num_authors=len(authors),
            num_authors_out=num_out,
        )

    def add(self, verified: Any, prompts: list[str], rewards_RG: list[list[float]]) -> AddResult:
        self.stored.append((prompts, rewards_RG))
        return AddResult(len(prompts), 0, 0)

    def ask(self) -> Ask:
        return Ask(self.scoring, self.manifest, ME.public_key, self.seeds, self.reserve, inline)

    def generate(
        self, *, outbox: trio.MemorySendChannel[OwnRollouts] | None = None, generations_max: int = 1
    ) -> Generate:
        return Generate(
            generator=self.generating,
            ask=self.ask(),
            scorer=self.scoring,
            author=ME.public_key,
            seeds=self.seeds,
            progress=self.progress,
            trust=self.trust,
            metrics=self.metrics,
            outbox=outbox,
            now_ms=lambda: MS,
            num_rollouts=4,
            num_completions=2,
            generations_max=generations_max,
        )

    def share(self, outbox: trio.MemoryReceiveChannel[OwnRollouts]) -> Share:
        return Share(
            outbox, Network(self.network), ME, self.manifest, "fake", self.progress.history, self.metrics
        )

    def ingest(self, inbox: AsyncIterable[bytes], *, source: Literal["swarm", "own"] = "swarm") -> Ingest:
        return Ingest(
            inbox=inbox,
            scorer=self.scoring,
            manifest=self.manifest,
            author=ME.public_key,
            seen=Seen(),
            add=lambda *args: self.add(*args),
            run_blocking=inline,
            progress=self.progress,
            metrics=self.metrics,
            now_ms=lambda: MS,
            trust=self.trust,
            source=source,
        )

    def bans(
        self,
        *,
        save: Callable[[bytes], None] = lambda content: None,
        save_bans: Callable[[bytes], None] = lambda content: None,
    ) -> Bans:
        return Bans(
            standings=self.trust.standings,
            own=ME.public_key,
            network=Network(self.network),
            save=save,
            save_bans=save_bans,
            run_blocking=inline,
            shown=self.progress.shown,
            metrics=self.metrics,
            now_ms=lambda: MS + round(self.later_s * 1000),
        )

    def evaluate(self, *, num_questions: int = 8) -> Evaluate:
        return Evaluate(
            generator=self.generating,
            scorer=self.scoring,
            manifest=self.manifest,
            now_ms=lambda: MS,
            num_questions=num_questions,
            num_completions=2,
        )

    def canary(self, *, every_rounds: int = 2, num_questions: int = 16) -> Canary:
        measure = Measure(
            evaluate=self.evaluate(num_questions=num_questions),
            seeds=self.seeds,
            bounds=Bounds(drop_max=0.05, errors_max=5.0),
            metrics=self.metrics,
        )
        return Canary(
            measure=measure,
            every_rounds=every_rounds,
            memory=Memory.from_state(self.learner.saved.state.get("canary"), measure.key),
            quarantine=self.quarantine,
            run_blocking=inline,
            progress=self.progress,
            metrics=self.metrics,
            say=self.said.append,
        )

    def quarantine(self, authors: Collection[bytes]) -> int:
        self.quarantined.append(set(authors))
        return 3

    def update(
        self,
        *,
        rounds_max: int | None = None,
        checkpoint_every_rounds: int = 1,
        checkpoint_interval_s: float = 0.0,
        num_external: int = 4,
        draw: Draw | None = None,
        canary: Watch | None = None,
        evaluate: Evaluate | None = None,
        evaluate_every_rounds: int = 0,
        on_round: Callable[[Round], None] | None = None,
        on_evaluation: Callable[[dict[str, Any]], None] = lambda result: None,
        note_use: NoteUse = lambda used, left_out: None,
    ) -> Update:
        canary = Unwatched() if canary is None else canary
        at, metrics = self.progress, self.metrics
        return Update(
            training=Training(
                learner=Learner(self.learner),
                of_node=lambda: {"manifest": self.manifest.digest.hex()},
                progress=at,
                metrics=metrics,
                now_ms=lambda: MS,
                say=self.said.append,
                pace=Pace(
                    checkpoint_every_rounds,
                    checkpoint_interval_s,
                    saved_round=None if at.history.rounds else at.round or None,
                ),
                rounds_max=rounds_max,
                bring=HandOver(Learner(self.learner), self.generating, "here") if self.split else None,
                watcher=canary,
            ),
            externals=Externals(draw or self.draw, inline, self.seeds, num_external),
            canary=canary,
            evaluations=Evaluations(evaluate, evaluate_every_rounds, at, metrics, on_evaluation),
            manifest=self.manifest,
            progress=at,
            metrics=metrics,
            now_ms=lambda: MS,
            on_round=on_round or (lambda done: self.records.append(done.to_record())),
            note_use=note_use,
        )

    def count(self, name: str, **labels: str) -> float:
        return value(self.metrics, name, **labels)
