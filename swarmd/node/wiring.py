"""How the loops are made out of a node's parts: the same for a daemon and for a node of a simulation."""

import random
from collections.abc import AsyncIterable, Callable, Sequence
from functools import partial

import trio

from swarmd.clients.learner import HandOver
from swarmd.clients.network import Network
from swarmd.experience.advantages import level
from swarmd.experience.buffer import Sample
from swarmd.experience.draws import Admission
from swarmd.experience.rollouts import ScoredRollout
from swarmd.experience.schema import Whose
from swarmd.experience.seeds import Seeds
from swarmd.experience.shares import unproven_max
from swarmd.files.atomic import write_atomically
from swarmd.loops.answers import OwnRollouts
from swarmd.loops.ask import Ask
from swarmd.loops.bans import Bans
from swarmd.loops.canary.go_back import Canary
from swarmd.loops.canary.measure import Measure, questions_author
from swarmd.loops.canary.memory import Bounds, Memory
from swarmd.loops.canary.watch import Unwatched
from swarmd.loops.evaluate import HELD_OUT_AUTHOR, Evaluate, Evaluations
from swarmd.loops.externals import Admitted, Draw, Externals
from swarmd.loops.generate import Generate
from swarmd.loops.ingest import Ingest
from swarmd.loops.observe import Observe
from swarmd.loops.report import Report
from swarmd.loops.share import Share
from swarmd.loops.training import Training
from swarmd.loops.update import Update
from swarmd.node.parts import Node
from swarmd.protocol.seen import Seen


def make_generate(node: Node, outbox: trio.MemorySendChannel[OwnRollouts] | None) -> Generate:
    """The generation loop; `outbox` None shares nothing."""
    experience, seeds = node.config.experience, Seeds(node.seed, node.manifest.digest)
    ask = Ask(
        scorer=node.scorer,
        manifest=node.manifest,
        author=node.identity.public_key,
        seeds=seeds,
        reserve_counters=node.counter.reserve,
        run_blocking=node.run_blocking,
        datasets=node.datasets,
    )
    return Generate(
        generator=node.generator,
        ask=ask,
        scorer=node.scorer,
        author=node.identity.public_key,
        seeds=seeds,
        progress=node.progress,
        trust=node.trust,
        metrics=node.metrics,
        outbox=outbox,
        now_ms=node.now_ms,
        num_rollouts=experience.num_local,
        num_completions=experience.completions,
        generations_max=experience.dynamic_sampling,
        reward_spread_min=experience.reward_spread_min,
    )


def make_share(
    node: Node,
    network: Network | None,
    outbox: trio.MemoryReceiveChannel[OwnRollouts],
    ingest: Callable[[bytes], None],
) -> Share:
    """The sharing loop; `ingest` gets the node's own messages where they stand in for external ones."""
    return Share(
        outbox=outbox,
        network=network,
        identity=node.identity,
        manifest=node.manifest,
        policy_name=node.config.policy.model[-64:],
        history=node.progress.history,
        metrics=node.metrics,
        on_message=ingest if node.config.experience.source == "own" else lambda message: None,
    )


def make_ingest(
    node: Node, inbox: AsyncIterable[bytes], more: Callable[[], bytes | None] = lambda: None
) -> Ingest:
    """The ingest loop; `more` gives another message of the author whose message came last."""
    spread_min = node.config.experience.reward_spread_min
    return Ingest(
        inbox=inbox,
        more=more,
        scorer=node.scorer,
        manifest=node.manifest,
        author=node.identity.public_key,
        seen=Seen(),
        add=lambda verified, prompts, rewards: node.buffer.add(
            verified,
            prompts,
            [level(rewards_G, spread_min) for rewards_G in rewards],
            received_ms=node.now_ms(),
            proven=node.trust.standings.proven(verified.signed.header.author),
        ),
        run_blocking=node.run_blocking,
        progress=node.progress,
        metrics=node.metrics,
        now_ms=node.now_ms,
        source=node.config.experience.source,
        trust=node.trust,
        reward_spread_min=spread_min,
    )


def make_bans(node: Node) -> Bans:
    return Bans(
        standings=node.trust.standings,
        own=node.identity.public_key,
        network=node.network,
        save=partial(write_atomically, node.data_dir.standings),
        save_bans=partial(write_atomically, node.data_dir.bans),
        run_blocking=node.run_blocking,
        shown=node.progress.shown,
        metrics=node.metrics,
        now_ms=node.now_ms,
    )


def make_update(node: Node) -> Update:
    config, metrics, progress = node.config, node.metrics, node.progress
    report = Report(node.data_dir.rounds, node.data_dir.evaluations, progress.shown, node.say)
    watched = config.trust.canary == "on" and config.num_external
    canary = _canary(node) if watched else Unwatched()
    evaluate = _evaluate(node, config.evaluate.num_questions, config.evaluate.completions)
    return Update(
        training=Training(
            learner=node.learner,
            of_node=lambda: {
                "identity": node.identity.public_key.hex(),
                "manifest": node.manifest.digest.hex(),
                "next_counter": node.counter.next_counter,
            },
            progress=progress,
            metrics=metrics,
            now_ms=node.now_ms,
            say=node.say,
            pace=node.pace,
            rounds_max=node.rounds_max,
            bring=HandOver(node.learner, node.generator, str(node.weights_dir))
            if node.placement.kind == "split"
            else None,
            watcher=canary,
        ),
        externals=Externals(
            draw=_draw(node),
            run_blocking=node.run_blocking,
            seeds=Seeds(node.seed, node.manifest.digest),
            num=config.num_external,
        ),
        canary=canary,
        evaluations=Evaluations(
            evaluate=evaluate if config.evaluate.num_questions else None,
            every_rounds=config.evaluate.every_rounds,
            progress=progress,
            metrics=metrics,
            tell=report.evaluation,
        ),
        manifest=node.manifest,
        progress=progress,
        metrics=metrics,
        now_ms=node.now_ms,
        on_round=report.round,
        note_use=node.trust.note_use,
    )


def _evaluate(
    node: Node, num_questions: int, num_completions: int, author: bytes = HELD_OUT_AUTHOR
) -> Evaluate:
    return Evaluate(
        generator=node.generator,
        scorer=node.scorer,
        manifest=node.manifest,
        now_ms=node.now_ms,
        num_questions=num_questions,
        num_completions=num_completions,
        author=author,
    )


def _canary(node: Node) -> Canary:
    """The canary on questions of this node's own, with what it remembers of an earlier run."""
    trust, seeds = node.config.trust, Seeds(node.seed, node.manifest.digest)
    measure = Measure(
        evaluate=_evaluate(node, trust.canary_questions, 1, questions_author(seeds)),
        seeds=seeds,
        bounds=Bounds(trust.canary_drop_max, trust.canary_errors_max),
        metrics=node.metrics,
    )
    return Canary(
        measure=measure,
        every_rounds=trust.canary_rounds,
        memory=Memory.from_state(node.resumed.state.get("canary"), measure.key),
        quarantine=node.buffer.quarantine,
        run_blocking=node.run_blocking,
        progress=node.progress,
        metrics=node.metrics,
        say=node.say,
    )


def _draw(node: Node) -> Draw:
    """Draws from the buffer. With `experience.source = own` it draws own rollouts, but none as new as the round."""
    author = node.identity.public_key

    def draw(num: int, rng: random.Random, own: Sequence[ScoredRollout], admitted: Admitted) -> Sample:
        whose = Whose(author, others=True)
        if node.config.experience.source == "own":
            whose = Whose(author, others=False, counter_max=min(rollout.counter for rollout in own))
        admission = _admission(node, admitted) if whose.others else None
        return node.buffer.sample(num, rng, now_ms=node.now_ms(), whose=whose, admission=admission)

    return draw


def _admission(node: Node, admitted: Admitted) -> Admission:
    trust, standings, now_s = node.config.trust, node.trust.standings, node.now_ms() / 1000
    experience = node.config.experience
    return Admission(
        proven=standings.proven,
        unproven_max=unproven_max(
            trust.unproven_share_max,
            num_local=experience.num_local,
            num_external=node.config.num_external,
        ),
        left_out=standings.left_out,
        banned=lambda author: standings.banned(author, now_s),
        author_parts_max=trust.author_parts_max,
        admitted=admitted,
    )


def make_observe(node: Node) -> Observe:
    return Observe(
        network=node.network,
        counts=node.buffer.counts,
        run_blocking=node.run_blocking,
        workers_up=lambda: {name: child.up for name, child in node.children.items()},
        history=node.progress.history,
        shown=node.progress.shown,
        metrics=node.metrics,
    )
