"""The bout: one honest swarm, one attack after another and then all together, with quiet windows between."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from swarmd.config import load_config
from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from swarmd.experiment.swarms.reaper import Reaper
from tests.attack import checks
from tests.attack.attackers import Attackers, Scene
from tests.attack.checks import Check
from tests.attack.deeds import (
    CANNON,
    CHEAP,
    DEEDS,
    FIELDS,
    IDENTITIES_MAX,
    MUTE,
    TOGETHER,
    TOGETHER_GROUPS,
    TOGETHER_TEXT,
)
from tests.attack.ground import honest_datasets, write_manifest
from tests.attack.looks import Book, Look, book, look, losses, patient_look, records
from tests.attack.newcomers import run_newcomers
from tests.attack.probes import Probed, Probes, local_port
from tests.attack.ring import hostile_id
from tests.attack.rows import Row, row_of
from tests.attack.traps import Traps
from tests.attack.window import Window, started, window

NUM_HONEST = 4
# Between two quiet windows; a machine's pace changes within minutes.
ATTACKS_PER_QUIET = 5
# Two busy cores: a start takes half a minute.
START_S = 240.0
# After an attack: time for honest nodes to find one another again, were they driven apart.
REUNION_S = 60.0
SETTINGS = (
    "--model", "tiny", "--device", "cpu", "--set", "policy.threads=1", "--set", "evaluate.num_questions=0",
)  # fmt: skip


@dataclass
class Bout:
    """What came of it; `apart`, `idle` and `dead` by attack, `calls` of a third party that it
    named; `joined` are honest newcomers.
    """

    rows: list[Row] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    quiet: list[Window] = field(default_factory=list)
    attacked: dict[str, Window] = field(default_factory=dict)
    apart: dict[str, list[str]] = field(default_factory=dict)
    idle: dict[str, list[str]] = field(default_factory=dict)
    dead: dict[str, list[str]] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    probed: dict[str, Probed] = field(default_factory=dict)
    joined: list[LocalNode] = field(default_factory=list)

    @property
    def windows(self) -> dict[str, Window]:
        """All of them, by name."""
        return {**{f"quiet time {number + 1}": one for number, one in enumerate(self.quiet)}, **self.attacked}


def run_bout(root: Path, names: Sequence[str], seconds: float, seed: int, say: Callable[[str], None]) -> Bout:
    """Start the swarm, attack it, and judge. `names` may hold `everything`."""
    root.mkdir(parents=True)
    manifest = root / "attacked.toml"
    write_manifest(manifest)
    arguments = (*SETTINGS, "--swarm", str(manifest), "--tasks", honest_datasets())
    bout = Bout()
    with (
        Traps() as traps,
        Reaper() as reaper,
        LocalSwarm(root, NUM_HONEST, seed, arguments) as swarm,
    ):
        with started(swarm, reaper):
            wait_until_together(swarm, say)
            scene = Scene(
                manifest,
                [node.address for node in swarm.nodes],
                traps.markers,
                traps.port,
                seed,
                local_ports=[local_port(node) for node in swarm.nodes],
            )
            attack = _Attack(bout, swarm, reaper, scene, root, arguments, seconds)
            for number, name in enumerate(names):
                if number % ATTACKS_PER_QUIET == 0:
                    say("quiet ...")
                    attack.rest()
                say(f"{name} ...")
                attack.newcomers() if name == MUTE else attack.bear(name)
            say("quiet ...")
            attack.rest()
            shown = {node.name: _shown(node) for node in swarm.nodes}
            last = [patient_look(node) for node in swarm.nodes]
        honest = frozenset(node.identity.peer_id for node in [*swarm.nodes, *bout.joined])
        books = {node.name: book(node) for node in swarm.nodes}
        # One that met only mute bootstraps knows nobody.
        victims = dict(books)
        books |= {node.name: one for node in bout.joined if honest & (one := book(node)).num_scored.keys()}
        done = [record for node in swarm.nodes for record in records(node)]
        bout.rows = [
            row_of(name, text_of(name), one, bout.quiet, hostile_ids(name, seed), done)
            for name, one in bout.attacked.items()
        ]
        bout.checks += [
            checks.attacks_began(bout.idle, root / "attackers.log"),
            checks.attacks_went_on(bout.attacked),
            checks.attackers_lived(bout.dead),
            checks.no_code_ran(traps.sprung()),
            checks.scorer_found_nothing(
                [*last, *(bout.attacked[MUTE].after if MUTE in bout.attacked else ())]
            ),
            checks.nobody_restarted(last),
            checks.everybody_answers(bout.windows),
            checks.probes_were_answered(bout.probed),
            checks.no_connection_failed(last),
            checks.no_round_lost(last, *losses(swarm.nodes)),
            checks.rounds_went_on(bout.windows),
            checks.no_honest_peer_blamed(last, honest),
            checks.no_honest_peer_banned({name: texts["bans"] for name, texts in shown.items()}, honest),
            checks.no_honest_peer_ever_banned(books, honest),
            *_cheap(bout, victims, honest, seed),
            checks.honest_stay_connected(bout.apart),
            checks.third_party_spared(bout.calls, NUM_HONEST),
            checks.broken_rpcs_banned({row.name: row for row in bout.rows if row.name == FIELDS}, NUM_HONEST),
            checks.clean_terminal("".join(text for texts in shown.values() for text in texts.values())),
        ]
    return bout


@dataclass
class _Attack:
    """One window after another, into the bout."""

    bout: Bout
    swarm: LocalSwarm
    reaper: Reaper
    scene: Scene
    root: Path
    arguments: Sequence[str]
    seconds: float

    def rest(self) -> None:
        """A quiet window."""
        self.bout.quiet.append(window(self.swarm.nodes, self.seconds))

    def bear(self, name: str) -> None:
        """A window under one attack, and what is left of the swarm's connections after it."""
        scene = self.scene
        if name == TOGETHER:
            scene = replace(scene, seed=together_seed(scene.seed))
        log = self.root / "attackers.log"
        with Attackers(groups_of(name), scene, self.reaper, log) as attackers:
            attackers.wait_until_begun()
            self.bout.idle[name] = attackers.idle()
            with Probes(self.swarm.nodes, self.scene.local_ports) as probes:
                self.bout.attacked[name] = window(self.swarm.nodes, self.seconds, attackers)
            self.bout.probed[name] = probes.found
            self.bout.dead[name] = attackers.dead()
            if CANNON in attackers.counted:
                self.bout.calls[name] = attackers.counted[CANNON]["calls"]
        self.bout.apart[name] = reunited(self.swarm)

    def newcomers(self) -> None:
        """The window of newcomers with mute bootstraps."""
        found = run_newcomers(self.root / "newcomers", self.arguments, self.scene, self.reaper, self.seconds)
        self.bout.attacked[MUTE] = found.window
        self.bout.dead[MUTE] = found.dead
        self.bout.idle[MUTE] = found.idle
        self.bout.checks += found.checks
        self.bout.joined += found.nodes


def _cheap(bout: Bout, books: Mapping[str, Book], honest: frozenset[str], seed: int) -> list[Check]:
    """Whether names became proven by nothing, where that was tried."""
    if CHEAP not in bout.attacked:
        return []
    proven_rollouts = load_config(flags={}, environ={}).trust.proven_rollouts
    return [checks.cheap_names_prove_nothing(books, hostile_ids(CHEAP, seed), honest, proven_rollouts)]


def _shown(node: LocalNode) -> dict[str, str]:
    """What an operator is shown, by command."""
    commands = {"peers": ("peers",), "bans": ("peers", "bans"), "status": ("status",)}
    return {name: command_output(node, *words) for name, words in commands.items()}


def groups_of(name: str) -> Sequence[Sequence[str]]:
    """The processes of one attack."""
    return TOGETHER_GROUPS if name == TOGETHER else [[name]]


def text_of(name: str) -> str:
    """What an attack tries."""
    return DEEDS[name].text if name in DEEDS else TOGETHER_TEXT


def together_seed(seed: int) -> int:
    """All together have identities of their own, so that what they wrote is not taken for what was left of one attack."""
    return seed + 1_000_000


def hostile_ids(name: str, seed: int) -> frozenset[str]:
    """Peer ids of all identities of an attack."""
    names, seed = (list(DEEDS), together_seed(seed)) if name == TOGETHER else ([name], seed)
    return frozenset(hostile_id(one, seed, number) for one in names for number in range(IDENTITIES_MAX))


def wait_until_together(swarm: LocalSwarm, say: Callable[[str], None]) -> None:
    """Returns when every node is connected to every other and has done some rounds.

    Raises:
        RuntimeError: one ended, or it took too long.
    """
    deadline = time.monotonic() + START_S
    while True:
        looks = [look(node) for node in swarm.nodes]
        if all(one.round >= 3 for one in looks) and not _apart(swarm, looks):
            return
        ended = [node for node in swarm.nodes if not node.running]
        if ended or time.monotonic() > deadline:
            words = "\n".join(f"{node.name}: {node.output()[-1000:]}" for node in ended or swarm.nodes)
            raise RuntimeError(f"the honest swarm did not start\n{words}")
        time.sleep(1)


def reunited(swarm: LocalSwarm) -> list[str]:
    """Waits until every node is connected to every other; those that were not in time."""
    deadline = time.monotonic() + REUNION_S
    while (bad := _apart(swarm, [look(node) for node in swarm.nodes])) and time.monotonic() < deadline:
        time.sleep(1)
    return bad


def _apart(swarm: LocalSwarm, looks: Sequence[Look]) -> list[str]:
    everybody = {node.identity.peer_id for node in swarm.nodes}
    pairs = zip(swarm.nodes, looks, strict=True)
    return [node.name for node, one in pairs if not everybody - {node.identity.peer_id} <= one.peers]


def command_output(node: LocalNode, *words: str) -> str:
    """What a command about a node prints."""
    command = [sys.executable, "-m", "swarmd", *words, "--data-dir", str(node.data_dir.root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr
