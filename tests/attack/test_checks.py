"""The checks fail when they should."""

from collections import Counter

import pytest

from tests.attack import checks
from tests.attack.looks import Book, Look, gaps, parse_metrics, words_of_trouble
from tests.attack.probes import Probed
from tests.attack.rows import lost, row_of, table
from tests.attack.window import Window, grown, idle_in

SCORED = {"verify_seconds_count": 3.0}


def seen(name: str = "node-0", **facts: object) -> Look:
    cpu_s = {"daemon": 0.0, "network": 0.0, "scorer": 0.0}
    return Look(name, **{"running": True, "answers": True, "cpu_s": cpu_s, **facts})  # type: ignore[arg-type]


def window(before: Look, after: Look, **facts: object) -> Window:
    return Window(10.0, [before], [after], **facts)  # type: ignore[arg-type]


def test_a_marker_is_a_failure() -> None:
    assert not checks.no_code_ran(["text-1"]).passed
    assert checks.no_code_ran([]).passed


def test_a_restart_or_an_end_is_a_failure() -> None:
    assert not checks.nobody_restarted([seen(restarts=1)]).passed
    assert not checks.nobody_restarted([seen(running=False)]).passed
    assert checks.nobody_restarted([seen()]).passed


def test_a_failed_round_and_a_gap_are_failures() -> None:
    failed = seen(metrics={'train_skipped_steps_total{reason="failed"}': 1.0})
    assert not checks.no_round_lost([failed], {}, {}).passed
    assert not checks.no_round_lost([seen()], {"node-0": [3]}, {}).passed
    assert not checks.no_round_lost([seen()], {}, {"node-0": "Traceback"}).passed
    assert checks.no_round_lost([seen()], {"node-0": []}, {"node-0": ""}).passed


@pytest.mark.parametrize("probed", [Probed(3, ["node-0 /healthz"], 10.0), Probed()])
def test_a_probe_without_an_answer_is_a_failure(probed: Probed) -> None:
    assert checks.probes_were_answered({"bombs": Probed(3, [], 0.2)}).passed
    assert not checks.probes_were_answered({"bombs": Probed(3, [], 0.2), "squat": probed}).passed


@pytest.mark.parametrize("metrics", [{}, {'control_connections_total{end="failed",socket="tcp"}': 1.0}])
def test_a_connection_that_an_exception_ended_is_a_failure(metrics: dict[str, float]) -> None:
    well = seen(metrics={'control_connections_total{end="failed",socket="tcp"}': 0.0})
    assert checks.no_connection_failed([well]).passed
    assert not checks.no_connection_failed([well, seen("node-1", metrics=metrics)]).passed


def test_standing_still_in_a_window_is_a_failure() -> None:
    assert not checks.rounds_went_on({"bombs": window(seen(round=3), seen(round=3))}).passed
    assert checks.rounds_went_on({"bombs": window(seen(round=3), seen(round=4))}).passed


def test_a_rejected_message_counts_only_against_an_honest_peer() -> None:
    look = seen(rejected_of={"honest": 0, "hostile": 9})
    assert checks.no_honest_peer_blamed([look], frozenset({"honest"})).passed
    assert not checks.no_honest_peer_blamed([look], frozenset({"hostile"})).passed


@pytest.mark.parametrize(
    ("banned", "network_s", "passed"), [(1, 1.0, True), (0, 1.0, False), (1, 5.0, False)]
)
def test_rpcs_out_of_bounds_that_are_borne_or_cost_much_are_failures(banned, network_s, passed) -> None:
    cpu_s = {"daemon": 0.0, "network": network_s, "scorer": 0.0}
    after = seen(cpu_s=cpu_s, metrics={'trust_bans_total{by="points"}': float(banned)})
    row = row_of("fields", "", window(seen(), after), [window(seen(), seen())], frozenset())
    assert checks.broken_rpcs_banned({"fields": row}, 1).passed is passed


def test_an_escape_sequence_on_the_terminal_is_a_failure() -> None:
    assert not checks.clean_terminal("name \x1b[2J").passed
    assert checks.clean_terminal("name\n\tä").passed


@pytest.mark.parametrize(
    ("calls", "passed"),
    [({}, True), ({"cannon": 72}, True), ({"cannon": 72, "everything": 1}, False), ({"cannon": 0}, False)],
)
def test_a_third_party_that_is_called_again_and_again_is_a_failure(
    calls: dict[str, int], passed: bool
) -> None:
    assert checks.third_party_spared(calls, 4).passed is passed


def test_gaps_are_found_between_neighbours() -> None:
    assert gaps([1, 2, 4, 5]) == [2]
    assert gaps([]) == []


def test_trouble_is_found_in_what_a_node_says() -> None:
    assert words_of_trouble("round 3 failed and was skipped: x") == Counter({"failed and was skipped": 1})


def test_metrics_are_read_with_their_labels() -> None:
    metrics = parse_metrics(["# HELP x", 'swarmd_train_skipped_steps_total{reason="oom"} 2.0'])
    assert lost(metrics) == 2.0


def test_a_row_counts_what_grew_and_compares_with_quiet_time_of_the_same_length() -> None:
    # given
    quiet = window(seen(round=0), seen(round=20))
    busy = window(
        seen(round=20, used_of={"evil": 1}),
        seen(round=25, used_of={"evil": 4}, stored_of={"evil": 7}, rules={"signature": 2, "accepted": 5}),
        counted={"bombs": Counter(sent=12)},
    )
    # when
    row = row_of("bombs", "text", busy, [quiet], frozenset({"evil"}))
    # then
    assert (row.rounds, row.quiet_rounds, row.used, row.stored, row.accepted) == (5, 20.0, 3, 7, 5)
    assert "signature 2" in table([row])


def test_a_counter_that_began_anew_counts_from_zero() -> None:
    assert window(seen(round=9), seen(round=2)).num_rounds == 2


def test_an_honest_peer_in_a_list_of_bans_is_a_failure() -> None:
    lists = {"node-0": "12D3Evil for 5 min"}
    assert checks.no_honest_peer_banned(lists, frozenset({"12D3Good"})).passed
    assert not checks.no_honest_peer_banned(lists, frozenset({"12D3Evil"})).passed


def test_a_ban_of_an_honest_peer_is_a_failure_when_it_is_over_too() -> None:
    books = {"node-0": Book({"good": 9, "evil": 9}, {"good": 0, "evil": 3})}
    assert checks.no_honest_peer_ever_banned(books, frozenset({"good"})).passed
    assert not checks.no_honest_peer_ever_banned(books, frozenset({"good", "evil"})).passed


def test_standings_that_know_no_honest_node_prove_nothing() -> None:
    assert not checks.no_honest_peer_ever_banned(
        {"node-0": Book({"evil": 9}, {})}, frozenset({"good"})
    ).passed


@pytest.mark.parametrize("reason", ["forbidden_syscall", "forged_reply", "worker_died", "zygote_died"])
def test_a_worker_that_a_text_ended_or_spoke_through_is_a_failure(reason: str) -> None:
    metrics = {**SCORED, f'verify_failures_total{{reason="{reason}"}}': 1.0}
    assert not checks.scorer_found_nothing([seen(metrics=metrics)]).passed


def test_a_text_that_was_turned_away_is_none() -> None:
    metrics = {**SCORED, 'verify_failures_total{reason="refused"}': 2.0}
    check = checks.scorer_found_nothing([seen(metrics=metrics)])
    assert check.passed
    assert check.detail == "refused 2"


def test_metrics_that_were_not_read_prove_nothing_of_a_scorer() -> None:
    assert not checks.scorer_found_nothing([seen(metrics=SCORED), seen("node-1")]).passed


@pytest.mark.parametrize(("num_accepted", "passed"), [(0, True), (1, False)])
def test_who_was_handed_nothing_has_nothing_to_score(num_accepted: int, passed: bool) -> None:
    alone = seen("alone", metrics={"verify_seconds_count": 0.0}, stats={"accepted": num_accepted})
    assert checks.scorer_found_nothing([seen(metrics=SCORED), alone]).passed is passed


def test_an_attack_that_reached_nobody_is_a_failure() -> None:
    assert not checks.attacks_began({"everything": ["bombs"]}, "log").passed
    assert checks.attacks_began({"everything": []}, "log").passed


def test_an_attack_that_did_nothing_in_its_window_is_a_failure() -> None:
    for counted in ({}, {"bombs": Counter()}, {"bombs": Counter(sent=0, held=0)}):
        assert not checks.attacks_went_on({"bombs": window(seen(), seen(), counted=counted)}).passed
    assert checks.attacks_went_on(
        {"bombs": window(seen(), seen(), counted={"bombs": Counter(sent=1)})}
    ).passed


def test_what_is_held_is_no_growth() -> None:
    before, after = {"bombs": {"sent": 3, "held": 7}}, {"bombs": {"sent": 5, "held": 2}, "late": {"sent": 1}}
    found = grown(before, after)
    assert found == {"bombs": Counter(sent=2, held=2), "late": Counter(sent=1, held=0)}
    assert idle_in(grown(after, {"bombs": {"sent": 5}})) == ["bombs"]


def test_an_attacker_that_died_is_a_failure() -> None:
    assert not checks.attackers_lived({"bombs": ["bombs (exit 1)"]}).passed
    assert checks.attackers_lived({"bombs": []}).passed


def test_the_table_says_that_quiet_time_is_no_control() -> None:
    assert "not an undisturbed control" in table([])


def test_a_window_has_the_rewards_of_the_rounds_that_ended_in_it() -> None:
    records = [
        {"time_ms": at, "reward_own": reward}
        for at, reward in ((999, 0.1), (1000, 0.2), (10_999, 0.3), (11_000, 0.4))
    ]
    assert window(seen(), seen(), began_ms=1000).rewards(records) == [0.2, 0.3]


@pytest.mark.parametrize(
    ("cheap", "good", "passed"),
    [(0.0, 40.0, True), (40.0, 40.0, False), (0.0, 3.0, False), (None, 40.0, False)],
)
def test_a_name_that_is_proven_by_nothing_is_a_failure(
    cheap: float | None, good: float, passed: bool
) -> None:
    proof = {"good": good} | ({} if cheap is None else {"cheap": cheap})
    books = {"node-0": Book(dict.fromkeys(proof, 64), {}, proof)}
    check = checks.cheap_names_prove_nothing(books, frozenset({"cheap"}), frozenset({"good"}), 32)
    assert check.passed == passed
