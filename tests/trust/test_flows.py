"""Flows: the proven and those who bring their own messages answer for themselves, and who shares scoring time waits for it."""

import pytest

from swarmd.fair.flow import Flow
from swarmd.protocol.signing import Identity
from swarmd.trust.flows import Flows
from swarmd.trust.quotas import QuotaLimits, Quotas
from tests.loops.parts import MANIFEST, OTHER, Loops, sealed
from tests.loops.test_ingest import ALLOWED

BRINGER = Identity.from_seed(b"b" * 32).peer_id
PROVEN_FLOW = Flow(OTHER.public_key, own=True, shares=False)
NEW_FLOW = Flow(OTHER.peer_id.encode(), own=True)
BRINGERS_FLOW = Flow(BRINGER.encode(), own=False)


class Clock:
    """Unix milliseconds, set by a test."""

    ms = 0

    def __call__(self) -> int:
        return self.ms


def flows(*, proven: bool = False, cpu_ms_per_s: float = 250.0) -> Flows:
    trust = Loops().trust
    trust.standings.proven_rollouts = 10
    trust.standings.scored(OTHER.public_key, num_rollouts=10 if proven else 9)
    limits = QuotaLimits(bytes_per_s=1e6, tokens_per_s=1e6, cpu_ms_per_s=cpu_ms_per_s, burst_s=40)
    trust.quotas = Quotas(limits, trust.standings.proven)
    return Flows(trust, MANIFEST.limits, Clock())


@pytest.mark.parametrize(
    ("proven", "bringer", "connected", "flow"),
    [
        (True, BRINGER, False, PROVEN_FLOW),
        (True, OTHER.peer_id, True, PROVEN_FLOW),
        (False, OTHER.peer_id, False, NEW_FLOW),
        (False, BRINGER, True, NEW_FLOW),
        (False, BRINGER, False, BRINGERS_FLOW),
    ],
)
def test_who_answers_for_a_message(proven: bool, bringer: str, connected: bool, flow: Flow) -> None:
    found = flows(proven=proven).of(sealed(ALLOWED[:1]), bringer, author_connected=connected)
    assert found == (flow, OTHER.public_key)


@pytest.mark.parametrize("message", [b"", b"\x00" * 100, sealed(ALLOWED[:1])[:50]])
def test_for_what_names_no_author_its_bringer_answers(message: bytes) -> None:
    assert flows().of(message, BRINGER, author_connected=True) == (BRINGERS_FLOW, b"")


def test_who_shares_waits_when_it_is_used_up_and_until_the_debt_is_paid() -> None:
    found, clock = flows(cpu_ms_per_s=250.0), Clock()
    found = Flows(found.trust, found.limits, clock)
    assert not found.held()
    found.trust.quotas.charge_scoring(
        b"stranger" * 4, 11.0, 0.0
    )  # of 10 s: 1 s of debt at a quarter of a core
    clock.ms = 4000
    assert found.held()
    clock.ms = 4010
    assert not found.held()
