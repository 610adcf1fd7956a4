"""The intake: what becomes of each message that a peer hands over, before anything is forwarded."""

import time
from collections import Counter
from collections.abc import Callable, Container
from functools import partial

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message

from swarmd.clients.events import Accepted
from swarmd.clock import now_ms
from swarmd.config.network_section import NetworkLimits
from swarmd.fair.flow import flow_of
from swarmd.fair.judge import Judge
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import Outcome, Verdict, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.wire import named_author
from swarmd.swarm import hardening
from swarmd.swarm.accounts import Accounts, Accusations, AuthorBudgets
from swarmd.swarm.gate import Gate
from swarmd.trust.evidence import Evidence, blame
from swarmd.trust.peer_key import key_of_multihash, peer_id_of_key


class Intake:
    """Judges messages by turns and by the rules, and keeps account of who brought them.

    Args:
        gate: whose messages are dropped.
        counters: `received`, `received_bytes`, `rate_limited` and `banned_messages` count messages.
        connected: the peers that are connected now.
        accepted: takes each message that the rules accept; non-blocking.
    """

    def __init__(
        self,
        manifest: Manifest,
        limits: NetworkLimits,
        gate: Gate,
        counters: Counter[str],
        connected: Container[str],
        accepted: Callable[[Accepted], None],
    ) -> None:
        self._manifest, self._gate, self._counters = manifest, gate, counters
        self._connected, self._accepted = connected, accepted
        self._budgets = AuthorBudgets()
        self.judge: Judge[Outcome | None] = Judge(time.thread_time)
        self.accounts = Accounts(limits.messages_per_s_max, limits.messages_burst_max)
        self.accusations = Accusations()
        self.rules: Counter[str] = Counter()
        self.seen = Seen()

    async def verdict(self, forwarder: ID, message: Message) -> hardening.Verdict | None:
        """The topic's validator, for messages of others; None where nobody judged the message."""
        peer_id, data = str(forwarder), bytes(message.data)
        account = self.accounts.of(peer_id, trio.current_time())
        self._counters["received"] += 1
        self._counters["received_bytes"] += len(data)
        outcome = None
        if self.accounts.allow(account, trio.current_time()):
            connected = str(ID(message.from_id)) in self._connected
            flow = flow_of(message.from_id, forwarder.to_bytes(), connected=connected)
            judge = partial(self._outcome, data, now_ms())
            outcome = await self.judge.verdict(flow, message.from_id, judge, bringer=forwarder.to_bytes())
        if outcome is None:
            self._counters["rate_limited"] += 1
            # No verdict: the message counts as never seen. Else a flooder could have us ignore the messages of others for good.
            return None
        self.rules[outcome.rule] += 1
        if outcome.verdict is Verdict.REJECT:
            account.rejected += 1
            by = key_of_multihash(forwarder.to_bytes())
            self.accusations.add(blame(outcome.rule, data, forwarder=by, manifest=self._manifest))
            return hardening.Verdict.REJECT
        if outcome.verdict is Verdict.IGNORE or outcome.batch is None:
            account.ignored += 1
            return hardening.Verdict.IGNORE
        author = outcome.batch.signed.header.author
        if self._gate.bans_key(author):
            # Its bringer may be honest: no ban of ours holds elsewhere. Marked as seen, or every neighbour would offer it again.
            self._counters["banned_messages"] += 1
            return hardening.Verdict.IGNORE
        account.accepted, account.gave_at = account.accepted + 1, trio.current_time()
        self._accepted(Accepted(data, peer_id, author_connected=peer_id_of_key(author) in self._connected))
        return hardening.Verdict.ACCEPT

    def accused(self, sender: ID, evidence: Evidence) -> None:
        """This peer made an RPC that no honest one makes, whatever messages were in it."""
        self.accounts.of(str(sender), trio.current_time()).rejected += 1
        self.accusations.add([(key_of_multihash(sender.to_bytes()), evidence)])

    def _outcome(self, data: bytes, received_ms: int) -> Outcome | None:
        """The rules' outcome; None where the author has had its share of our time."""
        author = named_author(data, self._manifest.limits)
        if self._budgets.refuse(author, trio.current_time()):
            return None
        began_s = time.thread_time()
        outcome = validate(data, now_ms=received_ms, seen=self.seen, manifest=self._manifest)
        self._budgets.charge(author, outcome.rule, time.thread_time() - began_s, trio.current_time())
        return outcome
