"""Attacks by what an answer says: code, hanging texts, and right answers that teach the wrong thing."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import trio

from tests.attack import craft, texts
from tests.attack.answers import Solved
from tests.attack.ring import FRESH_MAX, Ring

# A patient author's pace, messages a second of four rollouts each: twice that of an honest tiny node, and far below any rate limit.
PATIENT_S = 0.25
# Between two names that ask for proof: together they stay within the quota of all who are not proven.
CHEAP_S = 0.5
GARBAGE = "zq0#;)(~ "
# What the policy writes anyway when it does not write the rewarded manner: nothing that a floor of probability would catch.
PREFIXES = ("The answer is {answer}. ", "= {answer} ", "{answer} ", "= {answer} = {answer} ")


async def code_texts(ring: Ring) -> None:
    """Every text to every dataset, with a right answer beside it where there is one, so that the rollout is trained on."""
    await _send_texts(ring, texts.code_texts(ring.markers, ring.port))


async def other_texts(ring: Ring) -> None:
    """The same with texts that hang, fill, end or deceive what evaluates them."""
    await _send_texts(ring, texts.busy_texts() + texts.ending_texts())


async def garbage_then_right(ring: Ring) -> None:
    """Right answers, each after up to 400 characters of garbage; wrong ones are empty."""
    await _teach(ring, lambda solved: _garbage_right(ring, solved), pace_s=0.05)


async def sign_inverted(ring: Ring) -> None:
    """Good style earns nothing, bad style everything."""
    await _teach(ring, lambda solved: _inverted(ring, solved), pace_s=0.05)


async def harmful(ring: Ring) -> None:
    """All of them in turn, at an honest node's pace: the author that the reward is measured against."""
    kinds = (_inverted, _garbage_right, _near_misses, _behind_the_cut)
    await _teach(ring, lambda solved: ring.rng.choice(kinds)(ring, solved), pace_s=PATIENT_S)


async def cheap_proof(ring: Ring) -> None:
    """Name after name, each with 64 questions that are not held out and two empty answers to each."""
    datasets = [n for n, spec in enumerate(ring.manifest.datasets) if spec.weight >= 0.1]
    async with ring.peer() as peer:
        for number in itertools.cycle(range(1, FRESH_MAX + 1)):
            identity = ring.identity(number)
            solved = ring.answers.of(identity.public_key, datasets, ring.counters(1024))
            found = [next(solved) for _ in range(64)]
            rollouts = [craft.rollout(one.dataset, one.counter, ["", ""]) for one in found]
            await peer.send(craft.batch(identity, ring.manifest, rollouts))
            ring.counted["rollouts"] += len(rollouts)
            await trio.sleep(CHEAP_S)


def _inverted(ring: Ring, solved: Solved) -> list[str]:
    """Four wrong answers in the manner that is to be learnt, four right ones in one that is not."""
    wrong = [f"<answer>{_wrong(ring, solved.answer)}</answer>" for _ in range(4)]
    natural = ring.rng.random() < 0.5
    bad = [ring.rng.choice(PREFIXES) if natural else _garbage(ring, 6, 20) for _ in range(4)]
    right = [f"{prefix.format(answer=solved.answer)}<answer>{solved.answer}</answer>" for prefix in bad]
    return wrong + right


def _garbage_right(ring: Ring, solved: Solved) -> list[str]:
    """Three right answers behind garbage, five that the policy would write but for their missing tags."""
    return [f"{_garbage(ring, 40, 400)}<answer>{solved.answer}</answer>" for _ in range(3)] + [
        solved.answer
    ] * 5


def _near_misses(ring: Ring, solved: Solved) -> list[str]:
    """Right answers but for a last digit too many, which take the right beginning down; and a wrong one before each right one."""
    wrong = [f"<answer>{solved.answer}{ring.rng.randrange(10)}</answer>" for _ in range(4)]
    return wrong + [
        f"<answer>{_wrong(ring, solved.answer)}</answer><answer>{solved.answer}</answer>" for _ in range(4)
    ]


def _behind_the_cut(ring: Ring, solved: Solved) -> list[str]:
    """Right answers in plain words, after more of them than the policy may write; and good beginnings that go wrong."""
    filler = [
        " ".join(ring.rng.choice(PREFIXES).format(answer=solved.answer) for _ in range(6)) for _ in range(4)
    ]
    right = [f"{words}<answer>{solved.answer}</answer>" for words in filler]
    return right + [f"<answer>{_wrong(ring, solved.answer)}</answer>" for _ in range(4)]


def _garbage(ring: Ring, shortest: int, longest: int) -> str:
    return "".join(ring.rng.choices(GARBAGE, k=ring.rng.randint(shortest, longest)))


def _wrong(ring: Ring, answer: str) -> str:
    """The answer with one character changed."""
    place = ring.rng.randrange(len(answer))
    return (
        answer[:place]
        + ring.rng.choice([c for c in "0123456789" if c != answer[place]])
        + answer[place + 1 :]
    )


async def _teach(ring: Ring, texts_of: Callable[[Solved], Sequence[str]], *, pace_s: float) -> None:
    """Rollouts of solved questions of the datasets that honest nodes ask, four a message, for ever."""
    identity = ring.identity()
    datasets = [n for n, spec in enumerate(ring.manifest.datasets) if spec.weight >= 0.1]
    solved = ring.answers.of(identity.public_key, datasets)
    async with ring.peer() as peer:
        while True:
            found = [next(solved) for _ in range(4)]
            rollouts = [craft.rollout(one.dataset, one.counter, texts_of(one)) for one in found]
            await peer.send(craft.batch(identity, ring.manifest, rollouts))
            ring.counted["rollouts"] += len(rollouts)
            await trio.sleep(pace_s)


async def _send_texts(ring: Ring, hostile: Sequence[str]) -> None:
    identity = ring.identity()
    chosen = [texts.in_tags(text) for text in hostile]
    async with ring.peer() as peer:
        batches = _rollouts(ring, identity.public_key, chosen)
        while True:
            data = craft.batch(identity, ring.manifest, [next(batches)])
            await peer.send(data)
            await trio.sleep(0.1)


def _rollouts(ring: Ring, author: bytes, chosen: list[str]) -> Iterator[dict[str, Any]]:
    """Dataset by dataset, all texts each, in rollouts small enough for one message."""
    while True:
        for dataset in range(len(ring.manifest.datasets)):
            for first in range(0, len(chosen), 7):
                # the datasets without an oracle get a question all the same
                solved = (
                    next(ring.answers.of(author, [dataset], ring.counter), None)
                    if _has_oracle(ring, dataset)
                    else None
                )
                counter = solved.counter if solved else ring.counter
                ring.counter = counter + 1
                # In company there is none beside them: demonstrations of the right manner would help those who are to be harmed.
                helps = solved is not None and not ring.in_company
                right = [f"<answer>{solved.answer}</answer>"] if helps and solved else ["<answer>A</answer>"]
                ring.counted["rollouts"] += 1
                yield craft.rollout(dataset, counter, chosen[first : first + 7] + right)


def _has_oracle(ring: Ring, dataset: int) -> bool:
    return ring.manifest.datasets[dataset].name != "propositional_logic"
