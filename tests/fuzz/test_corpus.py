"""The corpus holds, without a fuzzer: every input in it goes through its target. And the targets do find what is planted."""

import pytest

from swarmd.protocol import rules
from swarmd.swarm import exchange
from tests.fuzz import behind, judged, message, peers
from tests.fuzz.finding import Finding
from tests.fuzz.make_corpus import CORPUS
from tests.fuzz.meter import CPU_S_MAX, Meter
from tests.fuzz.targets import SHARE_OF, check_of
from tests.protocol.case import GOOD
from tests.protocol.craft import MANIFEST, NOW_MS

BYTES_MAX = 200_000


@pytest.mark.parametrize("name", list(SHARE_OF))
def test_the_corpus_breaks_no_promise(name):
    files = sorted((CORPUS / name).iterdir())
    assert files
    for path in files:
        try:
            check_of(name)(path.read_bytes())
        except Exception as error:
            pytest.fail(f"python -m tests.fuzz --target {name} --replay {path}: {error!r:.300}")


def test_every_target_has_a_folder_and_every_folder_a_target():
    assert {path.name for path in CORPUS.iterdir()} == set(SHARE_OF)


def test_the_corpus_stays_small():
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) <= BYTES_MAX


def test_every_rule_is_reached_behind_the_signature_or_by_a_message(monkeypatch):
    reached = set()

    def note(*args, **kwargs):
        outcome = judged.judged(*args, **kwargs)
        reached.add(outcome.rule)
        return outcome

    for target in (behind, message):
        monkeypatch.setattr(target, "judged", note)
        for path in (CORPUS / target.__name__.rpartition(".")[2]).iterdir():
            target.check(path.read_bytes())

    assert set(rules.RULES) - {"internal", "duplicate"} <= reached


def test_a_verdict_internal_is_found(monkeypatch):
    monkeypatch.setattr(rules, "decode_body", lambda *args: 1 / 0)
    with pytest.raises(Finding, match="internal: ZeroDivisionError"):
        judged.judged(GOOD, MANIFEST, NOW_MS)


def test_a_disagreement_with_the_second_reader_is_found(monkeypatch):
    monkeypatch.setattr(judged, "SECOND_EVERY", 1)
    monkeypatch.setattr(rules, "_check_age", lambda *args: None)
    stale = behind.message_of(bytes([4, 0]))[0]
    with pytest.raises(Finding, match="second reader age_stale"):
        judged.judged(stale, MANIFEST, NOW_MS + 10**9)


def test_an_exception_of_the_peers_reader_is_found(monkeypatch):
    monkeypatch.setattr(exchange, "parse", lambda entry: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        peers.check(exchange.encode_frame(["x"]))


def test_a_slow_execution_is_found():
    clock = [0.0]

    def work():
        clock[0] += 2 * CPU_S_MAX

    with pytest.raises(Finding, match=r"100\.0 ms"):
        Meter(clock=lambda: clock[0]).timed(work)


def test_one_slow_run_of_a_fast_execution_is_no_finding():
    clock, slow = [0.0], [2 * CPU_S_MAX]

    def work():
        clock[0] += slow.pop() if slow else 0.001

    meter = Meter(clock=lambda: clock[0])
    meter.timed(work)
    assert meter.cpu_s_max == pytest.approx(0.001)
