"""One process of the gossip benchmark: either our whole network service or stock py-libp2p, under the same load.

Reads its orders as JSON lines and answers with JSON lines: {"number", "kind", ...} -> {"address"}; {"peers": [...]} -> {"ready"};
{"begin_ns", "seconds", ...} -> {"sent": {digest: ns}, "received": {digest: [ns, ...]}, "cpu_s", "num_copies"}. Times are of the
machine's clock. It imports nothing of the tests, so that it can be run on the `swarmd` of another revision.
"""

import hashlib
import json
import random
import resource
import sys
import time
from typing import Any

import multiaddr
import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as create_noise_key
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11, PROTOCOL_ID_V12, GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE
from libp2p.security.noise.transport import Transport as Noise
from libp2p.stream_muxer.yamux.yamux import PROTOCOL_ID as YAMUX
from libp2p.stream_muxer.yamux.yamux import Yamux
from libp2p.tools.anyio_service import background_trio_service

from swarmd.clients.events import Accepted, NetworkEvent
from swarmd.protocol.manifest import Manifest, load_manifest
from swarmd.protocol.signing import Identity
from swarmd.protocol.types import Completion, Rollout, RolloutBatch
from swarmd.swarm.hardening.quiet_logs import silence_libp2p
from swarmd.swarm.service import NetworkService

# Neighbours that a node waits for before it sends: all, or as many as a mesh has at least.
MESH_MIN = 5
# Time for the last messages to arrive after the last was sent. Late is not lost; this long is.
LINGER_S = 15.0


class Load:
    """Sealed batches of about one size, and the times of what was sent and received."""

    def __init__(self, number: int, manifest: Manifest, message_bytes: int) -> None:
        self.identity = Identity.from_seed(random.Random(number).randbytes(32))
        self.sent: dict[str, int] = {}
        self.received: dict[str, list[int]] = {}
        self._manifest, self._rng = manifest, random.Random(number)
        self._num_chars = message_bytes  # of text that hardly compresses; corrected by the first message
        self._num_chars = int(message_bytes * message_bytes / len(self._seal(0)))

    def note_received(self, data: bytes) -> None:
        self.received.setdefault(_digest(data), []).append(time.time_ns())

    async def send(self, begin_ns: int, seconds: float, per_s: float, publish: Any) -> None:
        """Publish at a steady rate, whatever the time one publish takes."""
        for index in range(int(seconds * per_s)):
            await trio.sleep(max(0.0, (begin_ns - time.time_ns()) / 1e9 + index / per_s))
            data = self._seal(index + 1)
            self.sent[_digest(data)] = time.time_ns()
            await publish(data)

    def _seal(self, counter: int) -> bytes:
        limits = self._manifest.limits
        texts = self._texts(limits.completion_bytes_max)
        completions = tuple(Completion(text=text, finished=True) for text in texts)
        size = limits.completions_max
        groups = [completions[i : i + size] for i in range(0, len(completions), size)]
        rollouts = tuple(
            Rollout(dataset=0, counter=counter * 16 + i, completions=group) for i, group in enumerate(groups)
        )
        now_ms = time.time_ns() // 1_000_000
        return self.identity.seal(
            RolloutBatch(rollouts=rollouts), created_ms=now_ms, policy="bench", policy_version=0
        )

    def _texts(self, chars_max: int) -> list[str]:
        num_texts = max(4, -(-self._num_chars // chars_max))
        size = self._num_chars // num_texts
        return ["".join(self._rng.choices(_PRINTABLE, k=size)) for _ in range(num_texts)]


_PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


async def hardened(orders: dict[str, Any], load: Load, manifest: Manifest, talk: "Talk") -> None:
    """Our network service, started and connected as a node does it."""

    def emit(event: NetworkEvent) -> None:
        if isinstance(event, Accepted):
            load.note_received(event.data)

    service = NetworkService(
        emit,
        identity_seed=random.Random(orders["number"]).randbytes(32),
        manifest=manifest.to_bytes(),
        listen=orders["listen"],
        bootstrap=orders["bootstrap"],
    )
    async with trio.open_nursery() as nursery:
        described = await nursery.start(service.run)
        talk.say({"address": described.addresses[0]})
        await talk.hear()
        while (await service.stats()).reach.mesh_peers < min(MESH_MIN, orders["num_nodes"] - 1):
            await trio.sleep(0.1)

        async def num_copies() -> int:
            gossip = (await service.stats()).to_document()["gossip"]
            assert isinstance(gossip, dict)
            return int(gossip["accept"] + gossip["duplicate"] + gossip["echo"])

        await measure(load, talk, service.publish, num_copies)
        talk.say({"stats": (await service.stats()).to_document()})
        nursery.cancel_scope.cancel()


async def stock(orders: dict[str, Any], load: Load, manifest: Manifest, talk: "Talk") -> None:
    """py-libp2p as it comes, over the same transport, encryption and mesh degrees, accepting everything."""
    key_pair = create_new_key_pair(random.Random(orders["number"]).randbytes(32))
    host = new_host(
        key_pair=key_pair,
        sec_opt={NOISE: Noise(key_pair, noise_privkey=create_noise_key().private_key)},
        muxer_opt={YAMUX: Yamux},
        listen_addrs=[multiaddr.Multiaddr(orders["listen"])],
    )
    gossipsub = GossipSub(
        protocols=[PROTOCOL_ID_V12, PROTOCOL_ID_V11],
        degree=6,
        degree_low=5,
        degree_high=12,
        heartbeat_interval=1,
    )
    pubsub = Pubsub(host, gossipsub, strict_signing=True)
    num_pushed, push = 0, pubsub.push_msg

    async def counted(*args: Any) -> None:
        nonlocal num_pushed
        num_pushed += args[0] != host.get_id()
        await push(*args)

    pubsub.push_msg = counted
    async with (
        host.run(listen_addrs=[multiaddr.Multiaddr(orders["listen"])]),
        background_trio_service(pubsub),
        background_trio_service(gossipsub),
        trio.open_nursery() as nursery,
    ):
        await pubsub.wait_until_ready()
        pubsub.set_topic_validator(manifest.topic, lambda forwarder, message: True, False)
        subscription = await pubsub.subscribe(manifest.topic)
        talk.say({"address": str(host.get_addrs()[0])})
        for address in (await talk.hear())["peers"]:
            await host.connect(info_from_p2p_addr(multiaddr.Multiaddr(address)))

        async def drain() -> None:
            own = host.get_id().to_bytes()
            while True:
                message = await subscription.get()
                if message.from_id != own:
                    load.note_received(message.data)

        nursery.start_soon(drain)
        while len(gossipsub.mesh.get(manifest.topic, ())) < min(MESH_MIN, orders["num_nodes"] - 1):
            await trio.sleep(0.1)

        async def publish(data: bytes) -> None:
            await pubsub.publish(manifest.topic, data)

        async def num_copies() -> int:
            return num_pushed

        await measure(load, talk, publish, num_copies)
        talk.say({"stats": {}})
        nursery.cancel_scope.cancel()


async def measure(load: Load, talk: "Talk", publish: Any, num_copies: Any) -> None:
    """Wait for the common start, send, wait for the rest, report."""
    talk.say({"ready": True})
    order = await talk.hear()
    before, copies_before = _cpu_s(), await num_copies()
    await load.send(order["begin_ns"], order["seconds"], order["per_s"], publish)
    end_ns = order["begin_ns"] + int(order["seconds"] * 1e9)
    num_expected = int(order["seconds"] * order["per_s"]) * (order["num_nodes"] - 1)
    with trio.move_on_after(max(0.0, (end_ns - time.time_ns()) / 1e9) + LINGER_S):
        while len(load.received) < num_expected:
            await trio.sleep(0.1)
    report = {
        "sent": load.sent,
        "received": load.received,
        "cpu_s": _cpu_s() - before,
        "num_copies": await num_copies() - copies_before,
    }
    await trio.to_thread.run_sync(
        talk.say, report
    )  # longer than a pipe: the others still need our event loop meanwhile
    await talk.hear()  # nobody leaves before everybody has everything


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Talk:
    """JSON lines with the parent."""

    async def hear(self) -> dict[str, Any]:
        line = await trio.to_thread.run_sync(sys.stdin.readline)
        if not line:
            raise SystemExit("the benchmark ended")
        return dict(json.loads(line))

    def say(self, what: dict[str, Any]) -> None:
        print(json.dumps(what), flush=True)


async def main() -> None:
    """Serve one run."""
    silence_libp2p()
    talk = Talk()
    orders = await talk.hear()
    manifest = load_manifest(orders["manifest"])
    load = Load(orders["number"], manifest, orders["message_bytes"])
    await {"hardened": hardened, "stock": stock}[orders["kind"]](orders, load, manifest, talk)


if __name__ == "__main__":
    trio.run(main)
