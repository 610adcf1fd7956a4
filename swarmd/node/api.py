"""A running node's answers on its two sockets: documents and commands for its operator, three paths for everybody else."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import trio

from swarmd.clients.network import PUBLISH_S, Network, NetworkInfo
from swarmd.clients.policy import PolicyInfo
from swarmd.clients.scorer import ScorerInfo
from swarmd.clients.worker import Worker, started
from swarmd.control.http import Request, Response, as_json
from swarmd.control.server import Routes
from swarmd.errors import LocalError
from swarmd.loops.bans import Bans
from swarmd.loops.ports import NowMs
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
from swarmd.node.health import Health
from swarmd.node.status import SCHEMA, About, id_document, peers_document, status_document
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import validate
from swarmd.protocol.seen import Seen
from swarmd.trust.peer_key import key_of

# /metrics takes 5 ms to write. A client that asks for it without pause costs one writing a second.
METRICS_AGE_S_MAX = 1.0
# Ten years, in seconds. A longer ban is one without `for_s`.
BAN_S_MAX = 315_360_000


@dataclass
class Api:
    """Handlers over what the loops leave in `progress` and what the children said when they started.

    Served from the first moment of a start, so that `swarmd status` answers while a model is loading.
    """

    facts: About
    children: Mapping[str, Worker]
    progress: Progress
    metrics: Metrics
    now_ms: NowMs
    manifest: Manifest
    bans: Bans
    health: Health
    _written: bytes = field(init=False, default=b"")  # /metrics
    _written_s: float = field(init=False, default=-math.inf)

    def operator_routes(self) -> Routes:
        """For the Unix socket, which only the operator can open."""
        return {
            ("GET", "/v1/status"): self._status,
            ("GET", "/v1/peers"): self._peers,
            ("GET", "/v1/id"): self._id,
            ("GET", "/v1/rounds"): self._rounds,
            ("GET", "/v1/manifest"): self._manifest,
            ("POST", "/v1/stop"): self._stop,
            ("GET", "/v1/bans"): self._bans,
            ("POST", "/v1/ban"): self._ban,
            ("POST", "/v1/unban"): self._unban,
            ("POST", "/v1/publish"): self._publish,
            **self.public_routes(),
        }

    def public_routes(self) -> Routes:
        """For Prometheus and probes."""
        return {
            ("GET", "/metrics"): self._metrics,
            ("GET", "/healthz"): self._healthz,
            ("GET", "/readyz"): self._readyz,
        }

    def about(self) -> About:
        """The facts of the node as far as its children have told them."""
        generation = started(self.children["generation"], PolicyInfo)
        scorer = started(self.children["scorer"], ScorerInfo)
        network = started(self.children["network"], NetworkInfo) if "network" in self.children else None
        about = self.facts
        if generation:
            engine = f"{generation.engine} {generation.engine_version}".strip()
            about = replace(
                about, num_parameters=generation.num_parameters, device=generation.device, engine=engine
            )
        if scorer:
            about = replace(about, sandbox=scorer.sandbox)
        return replace(about, addresses=tuple(network.addresses)) if network else about

    async def _status(self, request: Request) -> Response:
        return as_json(
            status_document(self.about(), self.progress, self.children, self.now_ms(), self.health.problems)
        )

    async def _peers(self, request: Request) -> Response:
        return as_json(peers_document(self.progress, self.bans.standing_of))

    async def _id(self, request: Request) -> Response:
        return as_json(id_document(self.about()))

    async def _rounds(self, request: Request) -> Response:
        last = request.query.get("last", "100")
        if not (last.isascii() and last.isdigit() and len(last) < 9):
            return as_json({"error": "last is a number"}, 400)
        history = self.progress.history
        rounds = list(history.rounds)[-int(last) :] if int(last) else []
        return as_json(
            {"rounds": [done.to_record() for done in rounds], "evaluations": list(history.evaluations)}
        )

    async def _stop(self, request: Request) -> Response:
        self.progress.request_stop(evaluate=request.query.get("evaluate") == "1")
        return as_json({"stopping": True})

    async def _bans(self, request: Request) -> Response:
        return as_json({"schema": SCHEMA, "bans": self.bans.listed()})

    async def _ban(self, request: Request) -> Response:
        """Ban a peer for the operator; `for_s` seconds, or until it is unbanned."""
        for_s = request.query.get("for_s")
        if for_s is not None and not (
            for_s.isascii() and for_s.isdigit() and len(for_s) <= 12 and 0 < int(for_s) <= BAN_S_MAX
        ):
            return as_json({"error": f"for_s is a number of seconds up to {BAN_S_MAX}"}, 400)
        try:
            key = key_of(request.query.get("peer_id", ""))
            if key.hex() == self.facts.public_key:
                return as_json({"error": "that is this node's own id"}, 409)
            await self.bans.ban(
                key, for_s=None if for_s is None else float(for_s), reason=request.query.get("reason", "")
            )
        except ValueError as error:
            return as_json({"error": str(error)}, 400)
        except (OSError, LocalError) as error:
            return as_json(
                {"error": f"banned until the next restart only, it could not be written: {error}"}, 500
            )
        return as_json({"banned": True})

    async def _unban(self, request: Request) -> Response:
        try:
            found = await self.bans.unban(key_of(request.query.get("peer_id", "")))
        except ValueError as error:
            return as_json({"error": str(error)}, 400)
        except (OSError, LocalError) as error:
            return as_json(
                {"error": f"lifted until the next restart only, it could not be written: {error}"}, 500
            )
        if not found:
            return as_json({"error": "this peer is not banned; `swarmd peers bans` lists those who are"}, 404)
        return as_json({"banned": False})

    async def _manifest(self, request: Request) -> Response:
        return as_json({"manifest": self.manifest.to_bytes().hex()})

    async def _publish(self, request: Request) -> Response:
        """Give a message that `swarmd contribute` sealed to the swarm; it must be of this node's own key and keep every rule."""
        if "network" not in self.children:
            return as_json({"error": "this node has no network (swarm.solo)"}, 409)
        outcome = validate(request.body, now_ms=self.now_ms(), seen=Seen(), manifest=self.manifest)
        if outcome.batch is None:
            return as_json({"error": f"refused by rule {outcome.rule}: {outcome.detail}"}, 400)
        if outcome.batch.signed.header.author.hex() != self.facts.public_key:
            return as_json({"error": "signed by another key than this node's"}, 403)
        reach = None
        try:
            # a child that is being replaced is waited for without end
            with trio.move_on_after(2 * PUBLISH_S):
                reach = await Network(self.children["network"]).publish(request.body)
        except LocalError as error:
            self.metrics.published.labels("failed").inc()
            return as_json({"error": str(error)}, 503)
        if reach is None:
            self.metrics.published.labels("failed").inc()
            return as_json({"error": "the network process is being replaced"}, 503)
        self.metrics.published.labels("ok" if reach.subscribers else "no_peers").inc()
        if reach.subscribers:
            num = len(outcome.batch.batch.rollouts)
            self.metrics.rollouts_shared.inc(num)
            self.progress.history.num_shared += num
        return as_json(reach._asdict())

    async def _metrics(self, request: Request) -> Response:
        if (now_s := trio.current_time()) > self._written_s + METRICS_AGE_S_MAX:
            self._written, self._written_s = self.metrics.render(), now_s
        return Response(self._written, content_type="text/plain; version=0.0.4; charset=utf-8")

    async def _healthz(self, request: Request) -> Response:
        if self.health.healthy:
            return Response(b"ok\n")
        codes = [problem.code for problem in self.health.problems if problem.unhealthy]
        return Response(f"not healthy: {', '.join(codes)}\n".encode(), 503)

    async def _readyz(self, request: Request) -> Response:
        down = [name for name, child in self.children.items() if not child.up]
        return Response(f"not ready: {', '.join(down)}\n".encode(), 503) if down else Response(b"ready\n")
