"""Children that answer like the real services (`test_fakes`), at once or after a virtual time, and fail when told to."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any

import trio

from swarmd.clients.network import Accusation, NetworkOps, NetworkStats, Outside, Peer, Reach, Traffic
from swarmd.clients.policy import (
    Generated,
    OwnCompletion,
    PolicyInfo,
    PolicyOps,
    Published,
    RolledBack,
    Save,
    Saved,
    State,
    Updated,
)
from swarmd.clients.scorer import Address, Questions, ScoreItem, ScorerInfo, ScorerOps, Scores
from swarmd.clients.update_stats import UpdateStats
from swarmd.errors import ChildDied, Failure, SwarmdError
from swarmd.experience.rollouts import ScoredRollout
from swarmd.loops.record import Drawn, Round
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import RULES

GOOD, BAD = "good", "bad"
MS = 1_700_000_000_000


@dataclass
class Fault:
    """`error` instead of the next answer; `after` the operation has been carried out."""

    error: SwarmdError
    after: bool = False


class FakeChild:
    """One operation at a time, as in a process, and one of those that it serves beside them.

    `delays_s` and `gates` hold operations up, `failures` end them.
    """

    BESIDE: frozenset[str] = frozenset()
    info: Any = None
    num_restarts = 0
    pid: int | None = None
    up = True
    silent_s = 0.0

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.call_times_s: list[float] = []
        self.failures: dict[str, deque[Fault]] = {}
        self.gates: dict[str, trio.Event] = {}
        self.delays_s: Callable[[str], float] = lambda op: 0.0
        self._busy = {beside: trio.Lock() for beside in (False, True)}

    async def call(self, op: str, *, within_s: float | None = None, **args: Any) -> Any:
        self.calls.append((op, args))
        self.call_times_s.append(trio.current_time())
        with trio.move_on_after(within_s if within_s is not None else math.inf):
            return await self._answer(op, args)
        self.restart()
        raise ChildDied(f"no answer within {within_s} s")

    async def _answer(self, op: str, args: dict[str, Any]) -> Any:
        async with self._busy[op in self.BESIDE]:
            await trio.sleep(self.delays_s(op))
            if op in self.gates:
                await self.gates[op].wait()
            failures = self.failures.get(op)
            failure = failures.popleft() if failures else None
            if failure is None or failure.after:
                answer = getattr(self, op)(**args)
                if isawaitable(answer):
                    answer = await answer
            if failure is None:
                return answer
            if isinstance(failure.error, ChildDied):
                self.restart()
            raise failure.error

    async def wait_ready(self) -> Any:
        return self.info

    def restart(self) -> None:
        """What a new process knows."""

    def fail(self, op: str, *errors: SwarmdError, after: bool = False) -> None:
        self.failures.setdefault(op, deque()).extend(Fault(error, after) for error in errors)

    def asked(self, op: str) -> list[dict[str, Any]]:
        """The arguments of every call of an operation."""
        return [args for name, args in self.calls if name == op]


class FakeScorer(FakeChild, ScorerOps):
    """Questions made of their address; the reward of GOOD is 1, of anything else 0, and of what `reason_of` has a reason for."""

    BESIDE = frozenset({"score_external"})

    def __init__(self, manifest: Manifest) -> None:
        super().__init__()
        self.manifest, self.is_held_out = manifest, manifest.is_held_out
        self.reward_of = lambda text: 1.0 if text == GOOD else 0.0
        self.reason_of: Callable[[str], str | None] = lambda text: None

    def start(self) -> ScorerInfo:
        return ScorerInfo("none")

    def close(self) -> None:
        pass

    def questions(self, addresses: Sequence[Address]) -> Questions:
        prompts = [self.manifest.render(f"question {dataset} {seed}") for dataset, seed in addresses]
        return Questions(prompts, [self.is_held_out(prompt) for prompt in prompts])

    def score(self, items: Sequence[ScoreItem], deadline_s: float) -> Scores:
        reasons_RG = [[self.reason_of(text) or "" for text in item.texts] for item in items]
        rewards_RG = [
            [
                0.0 if reason else self.reward_of(text)
                for text, reason in zip(item.texts, reasons_G, strict=True)
            ]
            for item, reasons_G in zip(items, reasons_RG, strict=True)
        ]
        questions = self.questions([Address(item.dataset, item.seed) for item in items])
        return Scores(*questions, rewards_RG, reasons_RG, cpu_s=0.01, held_s=0.0)

    def score_external(self, items: Sequence[ScoreItem], deadline_s: float, held_s_max: float) -> Scores:
        return self.score(items=items, deadline_s=deadline_s)


@dataclass
class Checkpoint:
    name: str | None = None
    policy_version: int = 0
    state: dict[str, Any] = field(default_factory=dict)


class FakePolicy(FakeChild, PolicyOps):
    """Counts its updates; what it wrote into its checkpoint is all that a restart leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.saved = Checkpoint()
        self.in_background = Saved()
        self.used_staleness: list[int] = []
        self.applied_rounds: list[int] = []
        self.stats: dict[str, Any] = {}
        self.failure: Failure | None = None
        self.rollbacks: list[tuple[int, int]] = []
        self.texts = [GOOD, BAD]

    def start(self) -> PolicyInfo:
        return self.about()

    async def wait_ready(self) -> PolicyInfo:
        return self.about()

    def restart(self) -> None:
        self.version = self.saved.policy_version

    def about(self) -> PolicyInfo:
        return PolicyInfo(
            model="fake",
            num_parameters=1000,
            policy_version=self.version,
            device="cpu",
            engine="fake",
            engine_version="",
            engine_note="",
            tokens_max=8,
            mismatch="off",
            plan="",
            resumed_from=self.saved.name,
            state=self.saved.state,
        )

    def generate(
        self, prompts: Sequence[str], num_completions: int, temperature: float, tokens_max: int, seed: int
    ) -> Generated:
        texts = [self.texts[number % len(self.texts)] for number in range(num_completions)]
        completions = [OwnCompletion(text, True, (1, 2), -1.0, (-0.5, -0.5)) for text in texts]
        return Generated(self.version, [list(completions) for _ in prompts], 3 * len(prompts), 0.5, 0.0)

    def update(
        self,
        rollouts: Sequence[ScoredRollout],
        round: int,
        state: State,
        save: Save,
        policy_version: int | None = None,
    ) -> Updated:
        if policy_version not in (None, self.version):
            raise ChildDied(f"at version {self.version}, not {policy_version}")
        self.used_staleness += [self.version - r.policy_version for r in rollouts if not r.external]
        if rollouts:
            self.version += 1
            self.applied_rounds.append(round)
        num_external = sum(r.external for r in rollouts)
        stats = UpdateStats(
            loss=0.25,
            grad_norm=1.5,
            num_rollouts_local=len(rollouts) - num_external,
            num_rollouts_external=num_external,
            num_tokens_local=4 * (len(rollouts) - num_external),
            num_tokens_external=4 * num_external,
            skipped=None if rollouts else "no_data",
        )
        saved, self.in_background = self.in_background, Saved()
        if save == "background":
            self.in_background = self._save(round, state)
        elif save == "now":
            saved = self._save(round, state)
        return Updated(self.version, saved, replace(stats, **self.stats), seconds=0.5)

    def rollback(self, to_round: int | None, round: int, state: State) -> RolledBack:
        assert to_round is not None
        self.rollbacks.append((to_round, round))
        self.version += 1
        return RolledBack(self.version, self._save(round, state))

    def publish_weights(self, directory: str) -> Published:
        return Published(directory, self.version)

    def load_weights(self, path: str, policy_version: int) -> None:
        self.version = policy_version

    def _save(self, round: int, state: State) -> Saved:
        if self.failure is not None:
            return Saved(round, failure=self.failure)
        self.saved = Checkpoint(f"round-{round}", self.version, state)
        return Saved(round, self.saved.name)


class FakeNetwork(FakeChild, NetworkOps):
    """A network process with `num_peers` peers and nothing on its mind."""

    def __init__(self, num_peers: int = 1) -> None:
        super().__init__()
        self.num_peers = num_peers
        self.found: list[Accusation] = []
        self.banned: list[bytes] = []
        self.totals: dict[str, Any] = {}
        self.verdicts: dict[str, int] = {}

    async def accusations(self) -> list[Accusation]:
        found, self.found = self.found, []
        return found

    async def ban(self, keys: list[bytes]) -> int:
        self.banned = list(keys)
        return 0

    async def publish(self, data: bytes) -> Reach:
        return Reach(self.num_peers, self.num_peers)

    async def stats(self) -> NetworkStats:
        verdicts = {rule: self.verdicts.get(rule, 0) for rule in RULES}
        reach = Reach(self.num_peers, self.num_peers)
        return network_stats(verdicts=verdicts, reach=reach, **self.totals)

    async def peers(self) -> list[Peer]:
        return [peer(f"peer-{number}") for number in range(self.num_peers)]


def network_stats(**changes: Any) -> NetworkStats:
    """The counts of a network process to which nothing has happened."""
    stats = NetworkStats(
        received=0,
        rate_limited=0,
        banned_connections=0,
        banned_messages=0,
        blacklisted=0,
        verdicts={},
        reach=Reach(0, 0),
        traffic=Traffic.none(),
        heartbeat_lag_s=0.01,
        num_tasks=20,
        bootstrap={},
        outside=Outside.unknown(),
        others={},
    )
    return stats._replace(**changes)


def peer(peer_id: str, **changes: Any) -> Peer:
    """One connected peer as the network process tells of it."""
    found = Peer(peer_id, "outbound", "/ip4/127.0.0.1/tcp/1", "swarmd/0", rtt_s=0.002, connected_s=10.0)
    return found._replace(**changes)


def peer_row(peer_id: str, **changes: Any) -> dict[str, Any]:
    """The same as a row."""
    return peer(peer_id, **changes)._asdict()


def a_round(number: int = 1, *, updated: Updated | None = None, **drawn: Any) -> Round:
    """A round of own rollouts alone; change what a test is about."""
    told = Drawn(
        reward_own=0.5,
        reward_external=None,
        reward_training=0.5,
        num_generated=4,
        num_generated_informative=4,
        num_generated_tokens=16,
        num_own=4,
        num_own_informative=4,
        num_external=0,
        external_age_s=None,
        shortfall=0,
        num_over_age=0,
        num_unproven=0,
        num_held_back=0,
        num_authors=0,
        num_authors_out=0,
        num_pool=0,
        num_pool_informative=0,
        used_by_author={},
        staleness=0,
        seconds_generate=0.5,
    )
    return Round(number, MS, replace(told, **drawn), updated or Updated(number, Saved(), UpdateStats()))
