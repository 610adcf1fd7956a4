"""What many names are worth: the share of what is drawn that hostile names get, against their share of all names.

The buffer, its eviction and its draws are a node's own; rounds are virtual, and nothing is generated or scored. Each hostile name
fills its part of the buffer with informative rollouts at the start, and goes on sending more than honest authors do. `make sybils`
prints the curve, and exits 1 where a tenth of the names gets more than a fifth.
"""

import argparse
import hashlib
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swarmd.config import load_config
from swarmd.experience.buffer import SwarmBuffer
from swarmd.experience.draws import Admission
from swarmd.experience.shares import unproven_max
from swarmd.protocol.types import Completion, Header, Rollout, RolloutBatch, SignedBatch, VerifiedBatch
from tests.attack.checks import Check

NUM_HONEST = (8, 32, 128)
# Hostile names among so many honest ones; those of the goal are a tenth, as near as whole names come to it.
NAMES = {8: (1, 2, 4, 8), 32: (1, 3, 8, 16, 32), 128: (6, 14, 32, 64, 128)}
A_TENTH = {8: 1, 32: 3, 128: 14}
SHARE_MAX = 0.2
ROUNDS = 100
ROUND_MS = 5_000
NUM_LOCAL, NUM_EXTERNAL = 4, 4
# A quarter of a node's default, so that hostile names fill it within this many rounds.
BUFFER_MAX = 5_000
# A hostile name sends so many at the start, or its part of the buffer, and so many more each round.
AT_ONCE, EACH_ROUND = 2_000, 4
START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Case:
    """A swarm: how many informative rollouts all honest authors together send in a round of the node that draws.

    `fast` is how many times as many every fourth of them sends. `proven` is whether the hostile names are. `of_asked`: the goal
    is about what was asked for, because the honest authors do not send that much.
    """

    name: str
    text: str
    num_sent: float
    fast: float = 1.0
    proven: bool = True
    of_asked: bool = False


CASES = (
    Case("plenty", "honest authors send twice what is asked for", 2.0 * NUM_EXTERNAL),
    Case(
        "uneven", "the same, a quarter of them ten times as much as the others", 2.0 * NUM_EXTERNAL, fast=10.0
    ),
    Case("new", "as plenty, and the hostile names are not proven", 2.0 * NUM_EXTERNAL, proven=False),
    Case("scarce", "honest authors send half of what is asked for", 0.5 * NUM_EXTERNAL, of_asked=True),
)


@dataclass(frozen=True)
class Point:
    """One point of the curve.

    Attributes:
        share: of what was drawn, that of the hostile names; `share_of_asked` of what was asked for.
        missing: share of what was asked for that was not drawn.
        pushed_out: share of the honest informative rollouts that were evicted before they were drawn.
    """

    case: Case
    num_honest: int
    num_names: int
    guarded: bool
    share: float
    share_of_asked: float
    missing: float
    pushed_out: float

    @property
    def of_names(self) -> float:
        """Share of all names."""
        return self.num_names / (self.num_honest + self.num_names)

    @property
    def judged(self) -> float:
        """The share that the goal is about."""
        return self.share_of_asked if self.case.of_asked else self.share


def measure(case: Case, num_honest: int, num_names: int, *, guarded: bool, seed: int, rounds: int) -> Point:
    """Play the rounds: drawn by a node's defaults if `guarded`, else uniformly from everything, as published."""
    rng = random.Random(f"swarmd sybils {seed} {case.name} {num_honest} {num_names}")
    hostile = [_key(f"hostile {seed} {number}") for number in range(num_names)]
    honest = [_key(f"honest {seed} {number}") for number in range(num_honest)]
    speeds = [case.fast if place % 4 == 0 else 1.0 for place in range(num_honest)]
    rates = [case.num_sent * speed / sum(speeds) for speed in speeds]
    drawn: Counter[bytes] = Counter()
    num_sent = 0
    with tempfile.TemporaryDirectory() as folder:
        buffer = _open(Path(folder))
        counters: Counter[bytes] = Counter()

        def send(author: bytes, num: int, now_ms: int, *, proven: bool = True) -> None:
            for first in range(0, num, 500):
                made = _batch(author, counters[author], min(500, num - first), now_ms)
                counters[author] += len(made.batch.rollouts)
                rewards = [[1.0, 0.0]] * len(made.batch.rollouts)
                prompts = ["?"] * len(rewards)
                buffer.add(made, prompts, rewards, received_ms=now_ms, proven=proven)

        for number in range(rounds):
            now_ms = START_MS + number * ROUND_MS
            for place, author in enumerate(honest):
                num = _whole(rates[place], rng)
                num_sent += num
                send(author, num, now_ms)
            for author in hostile:
                num = EACH_ROUND if number else min(AT_ONCE, BUFFER_MAX // num_names)
                send(author, num, now_ms, proven=case.proven)
            admission = _admission(guarded, frozenset(honest if not case.proven else honest + hostile))
            sample = buffer.sample(NUM_EXTERNAL, rng, now_ms=now_ms, admission=admission)
            drawn.update(rollout.author for rollout in sample.rollouts)
        held = buffer.counts().by_author
        buffer.close()
    of_hostile = sum(drawn[author] for author in hostile)
    num_asked = rounds * NUM_EXTERNAL
    num_kept = sum(min(counters[author], held.get(author, 0) + drawn[author]) for author in honest)
    return Point(
        case, num_honest, num_names, guarded,
        share=of_hostile / max(1, drawn.total()),
        share_of_asked=of_hostile / num_asked,
        missing=1 - drawn.total() / num_asked,
        pushed_out=1 - num_kept / max(1, num_sent),
    )  # fmt: skip


def curve(seed: int, rounds: int, *, tenth_only: bool = False) -> Iterator[tuple[Point, Point]]:
    """Every point, drawn uniformly and by a node's defaults."""
    for case in CASES:
        for num_honest in NUM_HONEST:
            names = (A_TENTH[num_honest],) if tenth_only or case.name != "plenty" else NAMES[num_honest]
            for num_names in names:
                uniform, guarded = (
                    measure(case, num_honest, num_names, guarded=guarded, seed=seed, rounds=rounds)
                    for guarded in (False, True)
                )
                yield uniform, guarded


def judge(points: list[Point]) -> list[Check]:
    """The goal, case by case: a tenth of the names gets at most a fifth, and pushes nobody out."""
    found = []
    for case in CASES:
        tenths = [one for one in points if one.case is case and one.num_names == A_TENTH[one.num_honest]]
        told = ", ".join(f"{one.num_names} of {one.num_honest}: {one.judged:.1%}" for one in tenths)
        of = "asked for" if case.of_asked else "drawn"
        found.append(
            Check(
                f"{case.name}: a tenth of the names is at most a fifth of what is {of}",
                bool(tenths) and all(one.judged <= SHARE_MAX for one in tenths),
                told,
            )
        )
    worst = max(point.pushed_out for point in points)
    found.append(
        Check("no name pushes honest rollouts out of the buffer", worst == 0, f"{worst:.1%} at most")
    )
    return found


HEAD = "case     honest  hostile  of names   share of drawn: uniform  default   of training set   not filled   pushed out"


def line(uniform: Point, guarded: Point) -> str:
    """A row of the table."""
    of_set = guarded.share_of_asked * NUM_EXTERNAL / (NUM_LOCAL + NUM_EXTERNAL)
    return (
        f"{guarded.case.name:<7} {guarded.num_honest:>7} {guarded.num_names:>8} {guarded.of_names:>9.1%}"
        f" {uniform.share:>25.1%} {guarded.share:>8.1%} {of_set:>17.1%} {guarded.missing:>12.1%} {guarded.pushed_out:>12.1%}"
    )


def run(seed: int, rounds: int, *, tenth_only: bool = False) -> list[Check]:
    """Print the curve; what has to hold."""
    print(HEAD, flush=True)
    points = []
    for uniform, guarded in curve(seed, rounds, tenth_only=tenth_only):
        print(line(uniform, guarded), flush=True)
        points.append(guarded)
    print("\n".join(f"{case.name}: {case.text}" for case in CASES), flush=True)
    return judge(points)


def _whole(rate: float, rng: random.Random) -> int:
    """A whole number with this mean."""
    return int(rate) + (rng.random() < rate % 1)


def _admission(guarded: bool, proven: frozenset[bytes]) -> Admission:
    trust = load_config(flags={}, environ={}).trust
    if not guarded:
        return Admission(proven=lambda author: True, unproven_max=NUM_EXTERNAL)
    num_new = unproven_max(trust.unproven_share_max, num_local=NUM_LOCAL, num_external=NUM_EXTERNAL)
    return Admission(
        proven=proven.__contains__, unproven_max=num_new, author_parts_max=trust.author_parts_max
    )


def _open(folder: Path) -> SwarmBuffer:
    experience = load_config(flags={}, environ={}).experience
    return SwarmBuffer(
        folder / "buffer.sqlite",
        rollouts_max=BUFFER_MAX,
        size_bytes_max=experience.size_bytes_max,
        author_share_max=experience.author_share_max,
        uses_max=experience.uses_max,
        age_s_max=experience.age_s_max,
    )


def _key(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _batch(author: bytes, first: int, num: int, created_ms: int) -> VerifiedBatch:
    """Rollouts of an author that is taken at its word: the buffer looks at no signature."""
    completions = (Completion(text="1", finished=True), Completion(text="2", finished=True))
    rollouts = tuple(
        Rollout(dataset=0, counter=first + place, completions=completions) for place in range(num)
    )
    header = Header(
        version=1, author=author, created_ms=created_ms, counter_first=first, counter_last=first + num - 1,
        policy="tiny", policy_version=1, body_size=1, body_sha256=bytes(32),
    )  # fmt: skip
    signed = SignedBatch(header=header, header_bytes=b"", signature=b"", body=b"", data=b"data")
    return VerifiedBatch(signed=signed, batch=RolloutBatch(rollouts=rollouts))


def main() -> None:
    """Parse the options, print the curve, and exit 1 where the goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.sybils", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the draws [0]")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of the node that draws [{ROUNDS}]")
    options = parser.parse_args()
    checks = run(options.seed, options.rounds)
    print()
    for check in checks:
        print(check)
    sys.exit(0 if all(check.passed for check in checks) else 1)


if __name__ == "__main__":
    main()
