"""The scorer child's service: prompts for addresses of questions, and rewards for completions, within a deadline.

Plain blocking code. Other people's completions are scored in a thread of their own, so own questions and scores never wait for a
stranger's worker. In this process a completion is a string that is passed on, and a worker answers with numbers. Whatever a worker
or the zygote does, a call ends, and unscored completions get 0 and a reason.
"""

import math
import time
from collections.abc import Sequence
from typing import get_args

from swarmd.clients.scorer import Address, Questions, ScoreItem, ScorerInfo, ScorerOps, Scores
from swarmd.errors import ConfigError, IncompatibleSwarm, LocalError
from swarmd.protocol.manifest import Manifest
from swarmd.questions.datasets import SCORER_VERSION, check_dataset
from swarmd.questions.proof import Proof, prove
from swarmd.questions.regenerate import SEED_LIMIT
from swarmd.questions.sandbox import CONTAINED, SandboxMode, describe, missing
from swarmd.questions.scorers import Reason, Score
from swarmd.questions.scoring import score_items
from swarmd.questions.seal import setup_of
from swarmd.questions.zygote_process import ZygoteDied, ZygoteProcess

# Questions of one call. A round or a peer's batch has a few hundred; nobody is to ask for a million.
ITEMS_MAX = 4096


class ScorerService(ScorerOps):
    """Regenerates questions and scores completions. See the module text for what it promises.

    Args:
        emit: not used; a scorer has no events.
        manifest: `Manifest.to_bytes()`.
        sandbox: `best-effort` takes what the kernel offers and our own scorers survive, `require` refuses to start without all of
            it, `off` takes none of it.
        zygote: the module run as the zygote; tests put one with misbehaving scorers here.
    """

    BESIDE = frozenset({"score_external"})
    """Served in a second thread (`swarmd.processes.child`)."""

    def __init__(
        self,
        emit: object,
        *,
        manifest: bytes,
        sandbox: SandboxMode,
        zygote: str = "swarmd.questions.zygote",
    ) -> None:
        if sandbox not in get_args(SandboxMode):
            raise ConfigError(
                f"sandbox is {sandbox!r}", fix=f"it must be one of {', '.join(get_args(SandboxMode))}"
            )
        self._manifest = Manifest.from_bytes(manifest)
        self._sandbox: SandboxMode = sandbox
        self._module = zygote
        self._zygote = ZygoteProcess(setup_of(self._manifest, sandbox=sandbox), zygote)

    def start(self) -> ScorerInfo:
        """Check the manifest, start and test the zygote, and score known items of every dataset in a locked-down worker.

        Raises:
            IncompatibleSwarm: scorer version, a dataset this build does not offer, or known items that came out differently.
            ConfigError: parameters out of bounds, or a manifest without golden digests.
            LocalError: `require` on a machine that cannot, a lockdown that our own scorers do not survive, or no zygote.
        """
        if self._manifest.scorer_version != SCORER_VERSION:
            raise IncompatibleSwarm(
                f"the swarm scores with version {self._manifest.scorer_version}, this build with {SCORER_VERSION}",
                fix="install the release of swarmd that the swarm names",
            )
        for spec in self._manifest.datasets:
            check_dataset(spec.name, spec.params, spec.reward)
        if unsealed := [spec.name for spec in self._manifest.datasets if not spec.golden]:
            raise ConfigError(
                f"the manifest is a draft: no golden digest for {', '.join(unsealed)}",
                "without one, nodes whose generators differ would meet and score each other wrong",
                "`swarmd manifest seal FILE` writes the digests; all nodes need the sealed file",
            )
        self._zygote.start()
        proof, refused = self._prove()
        steps = proof.steps
        line = describe(steps, self._sandbox, refused)
        if self._sandbox == "require" and steps & CONTAINED != CONTAINED:
            self.close()
            raise LocalError(
                f"the sandbox is not complete: this machine lacks {', '.join(missing(steps))}",
                'questions.sandbox = "require" wants every step',
                'use a kernel with landlock and seccomp, or questions.sandbox = "best-effort": reviewed scorers, which run no code',
            )
        return ScorerInfo(line)

    def questions(self, addresses: Sequence[Address]) -> Questions:
        """The questions at these addresses.

        Raises:
            ConfigError: an address outside the manifest or [0, 2^31), or more than `ITEMS_MAX`.
            LocalError: two zygotes in a row died over it.
        """
        return self._questions(addresses)[0]

    def score(self, items: Sequence[ScoreItem], deadline_s: float) -> Scores:
        """Rewards of this node's completions. `deadline_s` is wall time for the call. Raises as `questions`."""
        return self._score(items, deadline_s, math.inf)

    def score_external(self, items: Sequence[ScoreItem], deadline_s: float, held_s_max: float) -> Scores:
        """As `score`, for other people's completions. Past `held_s_max` of `held_s` the reason is `deadline` too."""
        return self._score(items, deadline_s, held_s_max)

    def close(self) -> None:
        self._zygote.close()

    def _score(self, items: Sequence[ScoreItem], deadline_s: float, held_s_max: float) -> Scores:
        ends = time.monotonic() + deadline_s
        started_cpu_s = time.thread_time()
        _require_text(items)
        questions, asking_cpu_s = self._questions([Address(item.dataset, item.seed) for item in items])
        scored = score_items(self._zygote, items, ends, held_s_max)
        return Scores(
            *questions,
            rewards_RG=[[score.reward for score in scores] for scores in scored.scores_RG],
            reasons_RG=[[_reason(score) for score in scores] for scores in scored.scores_RG],
            cpu_s=time.thread_time() - started_cpu_s + asking_cpu_s + scored.cpu_s,
            held_s=scored.held_s,
        )

    def _questions(self, addresses: Sequence[Address]) -> tuple[Questions, float]:
        """The questions, and the CPU seconds that they cost the zygote."""
        self._require_of_manifest(addresses)
        questions, cpu_s = self._ask_questions(addresses)
        prompts = ["" if question is None else self._manifest.render(question) for question in questions]
        held_out = [not prompt or self._manifest.is_held_out(prompt) for prompt in prompts]
        return Questions(prompts, held_out), cpu_s

    def _prove(self) -> tuple[Proof, str]:
        """The proof that holds; and what seccomp did to our own scorers, where `best-effort` has to go without seccomp."""
        names = [spec.name for spec in self._manifest.datasets]
        proof = prove(self._zygote, names)
        if not proof.faults:
            return proof, ""
        refused = str(proof)
        if self._sandbox == "best-effort":
            self._zygote.close()
            self._zygote = ZygoteProcess(
                setup_of(self._manifest, sandbox=self._sandbox, seccomp=False), self._module
            )
            self._zygote.start()
            proof = prove(self._zygote, names)
            if not proof.faults:
                return proof, refused
        self.close()
        raise LocalError(
            f"the sandbox stops our own scorers ({proof})",
            "known texts came out otherwise in a locked-down worker than outside of one: this kernel, libc or Python needs what the"
            " lockdown withholds, and honest authors would be blamed for it",
            "report it with their versions; "
            + (
                'questions.sandbox = "best-effort" goes without seccomp'
                if self._sandbox == "require"
                else "until then another machine has to do"
            ),
        )

    def _ask_questions(self, addresses: Sequence[Address]) -> tuple[list[str | None], float]:
        for _ in range(2):
            number = self._zygote.num_starts
            try:
                return self._zygote.questions(addresses)
            except ZygoteDied:
                self._zygote.replace(number)
        raise LocalError("the scorer's zygote died twice while it regenerated questions")

    def _require_of_manifest(self, addresses: Sequence[Address]) -> None:
        if len(addresses) > ITEMS_MAX:
            raise ConfigError(f"{len(addresses)} questions in one call (limit {ITEMS_MAX})")
        num_datasets = len(self._manifest.datasets)
        for dataset, seed in addresses:
            if type(dataset) is not int or not 0 <= dataset < num_datasets:
                raise ConfigError(f"dataset number {dataset!r:.40}: the manifest has {num_datasets}")
            if type(seed) is not int or not 0 <= seed < SEED_LIMIT:
                raise ConfigError(f"seed {seed!r:.40} is not an integer from 0 to {SEED_LIMIT - 1}")


def _reason(score: Score) -> str:
    """The reason's name, empty where it was simply scored."""
    return "" if score.reason is Reason.SCORED else score.reason.name.lower()


def _require_text(items: Sequence[ScoreItem]) -> None:
    if not all(type(text) is str for item in items for text in item.texts):
        raise ConfigError("a completion is not a string")
