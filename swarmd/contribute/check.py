"""Check: everything a receiver would refuse or could not learn from is found here, before anything is sent.

The ledger says what was asked, and a question is rebuilt from that. Only the answers of the file count. The sandbox scores them, as
every receiver will.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from swarmd.clients.scorer import ScoreItem, Scorer
from swarmd.contribute.ledger import Asked, State
from swarmd.contribute.lines import Line, Problem
from swarmd.experience.advantages import is_informative
from swarmd.protocol.manifest import Limits, Manifest
from swarmd.protocol.types import COMPLETION_BYTES_MAX, Completion, Rollout
from swarmd.protocol.wire import split


@dataclass(frozen=True, slots=True)
class Checked:
    """A rollout that every node takes. `reasons` counts the answers that the scorer gave 0 without scoring them, by its reason."""

    line: Line
    rollout: Rollout
    prompt: str
    rewards_G: list[float]
    reasons: Mapping[str, int]

    @property
    def informative(self) -> bool:
        """Whether anybody learns from it: its rewards are not all equal."""
        return is_informative(self.rewards_G)


@dataclass
class Review:
    """What became of the lines of a file: every line is in exactly one of these."""

    checked: list[Checked] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unanswered: list[Line] = field(default_factory=list)
    sent: list[Line] = field(default_factory=list)


async def review(
    lines: Sequence[Line],
    asked: Mapping[int, Asked],
    *,
    scorer: Scorer,
    manifest: Manifest,
    author: bytes,
) -> Review:
    """Sort the lines, and score what is answered and not sent.

    Args:
        asked: by counter, what the ledger knows.
    """
    result = Review()
    for line in lines:
        entry = asked.get(line.counter)
        what = _fault_of_address(line, entry, manifest)
        if what or entry is None:
            result.problems.append(Problem(line.number, what))
        elif entry.state is State.SENT:
            result.sent.append(line)
        elif not line.completions:
            result.unanswered.append(line)
        elif what := _fault_of_answers(line, entry, manifest.limits):
            result.problems.append(Problem(line.number, what))
        else:
            found = await _score(line, entry.dataset, scorer, manifest, author)
            (result.checked if isinstance(found, Checked) else result.problems).append(found)  # type: ignore[arg-type]
    return result


def _fault_of_address(line: Line, entry: Asked | None, manifest: Manifest) -> str:
    """Why this is no question that was asked here, or nothing."""
    if entry is None:
        return f"counter {line.counter} was never asked under this key; `swarmd contribute --ask N` asks"
    if entry.swarm != manifest.digest:
        return (
            f"counter {line.counter} was asked in another swarm (manifest {entry.swarm.hex()[:16]}), this is"
            f" {manifest.name} ({manifest.digest.hex()[:16]}); name the other with --swarm"
        )
    name = manifest.datasets[entry.dataset].name
    if line.dataset != name:
        return f"counter {line.counter} was asked of {name}, not of {line.dataset!r:.60}"
    return ""


def _fault_of_answers(line: Line, entry: Asked, limits: Limits) -> str:
    """Why nobody would take these answers, or nothing."""
    if entry.state is State.LEAVING and entry.answers != line.digest:
        return (
            f"other answers to counter {line.counter} may be out already, of a command that was cut off;"
            " send those again, or ask a new question"
        )
    num, sizes = len(line.completions), [len(text.encode()) for text in line.completions]
    if not limits.completions_min <= num <= limits.completions_max:
        return f"{num} completions, the swarm takes {limits.completions_min} to {limits.completions_max}"
    bytes_max = min(limits.completion_bytes_max, COMPLETION_BYTES_MAX)
    if max(sizes) > bytes_max:
        place = sizes.index(max(sizes)) + 1
        return f"completion {place} has {max(sizes)} bytes, the swarm takes {bytes_max}"
    if split([_rollout(line, entry.dataset)], limits).num_dropped:
        return (
            f"{sum(sizes)} bytes of completions do not fit into one message"
            f" ({limits.body_bytes_max} bytes, {limits.message_bytes_max} compressed)"
        )
    return ""


def _rollout(line: Line, dataset: int) -> Rollout:
    """What is sent: no claims of log-probabilities, for nobody measured any, and every answer is a finished one."""
    completions = tuple(Completion(text=text, finished=True) for text in line.completions)
    return Rollout(dataset=dataset, counter=line.counter, completions=completions)


async def _score(
    line: Line, dataset: int, scorer: Scorer, manifest: Manifest, author: bytes
) -> Checked | Problem:
    # one rollout a call, so that the reasons are its own
    seed = manifest.question_seed(author, dataset, line.counter)
    scores = await scorer.score([ScoreItem(dataset, seed, line.completions)])
    (prompt,), (held_out,), (rewards_G,) = scores.prompts, scores.held_out, scores.rewards_RG
    if held_out:
        return Problem(line.number, f"counter {line.counter} is a held-out question; every node drops it")
    if line.question not in (None, prompt):
        return Problem(
            line.number,
            f"this is not the question at counter {line.counter}; answer what --ask printed, or leave `question` out",
        )
    return Checked(line, _rollout(line, dataset), prompt, rewards_G, scores.reasons)
