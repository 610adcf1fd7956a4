"""The page of a stranger's message against the code: files, constants, numbers with units, counters, points, and the order."""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from swarmd.clients.network import NetworkStats
from swarmd.config import Config, known_keys
from swarmd.metrics import Metrics
from swarmd.protocol.rules import RULES
from swarmd.trust.evidence import POINTS
from swarmd.trust.standing import Standing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "a-strangers-message.md").read_text()
# A number, its unit, and the constant or setting that holds it.
BOUND = re.compile(r"(-?\d[\d,.]*)((?: [^(`]*(?:`\w+`[^(`]*)?)?) ?\(`([\w.]+)`\)")
FACTORS = {"KiB": 2**10, "MiB": 2**20, "ms": 1e-3, "%": 1e-2}
NO_RULE = {"accepted", "internal"}
ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.LShift: lambda left, right: left * 2**right,
}


class Row(NamedTuple):
    number: str
    gate: str
    refuses: str
    bound: str
    code: str
    counted: str
    sender: str

    @property
    def files(self) -> list[str]:
        return re.findall(r"`([\w/]+\.py)`", self.code)


ROWS = [Row(*line.strip("| ").split(" | ")) for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
PLACE = {row.gate: place for place, row in enumerate(ROWS)}
# Where a function passes several gates: what it calls for each, in the order of the page.
ORDERS: list[tuple[str, str, dict[str, str]]] = [
    ("swarm/hardening/inbound_limit.py", "handle", {"Places": "places.refusal(", "Handshake": "_upgrade("}),
    (
        "swarm/hardening/rpc_reader.py",
        "_read",
        {"RPC budget": "paid_off(", "Frame": "frames.feed(", "RPC fields": "_handle_frame("},
    ),
    (
        "swarm/hardening/rpc_reader.py",
        "_handle_frame",
        {
            "RPC fields": "check(rpc",
            "Control": "control.take(",
            "Graylist": "is_graylisted(",
            "Address record": "consume_record(",
            "Places of a peer": "await take(",
        },
    ),
    (
        "swarm/hardening/in_flight.py",
        "_obstacle",
        {"Blacklist": "is_peer_blacklisted(", "Ids seen": "_is_known(", "Peer score": "allow_publish("},
    ),
    (
        "swarm/hardening/in_flight.py",
        "judge",
        {
            "Blacklist": "_obstacle(",
            "Pubsub signature": "_signed(",
            "Deadline of a verdict": "verdict_on(",
        },
    ),
    (
        "swarm/intake.py",
        "verdict",
        {
            "Rate of a forwarder": "accounts.allow(",
            "Judge": "judge.verdict(",
            "Banned author": "bans_key(",
            "Outbox": "_accepted(",
        },
    ),
    ("swarm/intake.py", "_outcome", {"Time of an author": "_budgets.refuse(", "Framing": "validate("}),
    ("loops/ingest.py", "_admitted", {"Rules again": "validate(", "Ban": "_refusal("}),
    ("loops/ingest.py", "_refusal", {"Ban": ".banned(", "Quotas": "quotas.take("}),
    (
        "loops/ingest.py",
        "_take_in",
        {"Question": "_score(", "Time of a worker": '"deadline"', "Held out": "held_out", "Once": "_store"},
    ),
    ("experience/draws.py", "find", {"Ban at the draw": ".banned(", "Return after a fall": ".admitted("}),
    ("experience/draws.py", "_draw_useful", {"Equal parts": "rooms(", "Unproven share": "limits={UNPROVEN"}),
    (
        "loops/externals.py",
        "sample",
        {"Age and use": "self.draw", "Size of the training set": "within_bytes("},
    ),
    (
        "policy/update/prepass.py",
        "prepare",
        {"Floors": "_above_floors(", "Weights": "external.weight(", "Caps": " cap("},
    ),
]


@cache
def numbers_of(file: str) -> dict[str, float]:
    """Every name of a module, of its classes, and of keywords in its calls, to which a plain number is given."""
    found: dict[str, float] = {}
    for node in ast.walk(ast.parse((ROOT / "swarmd" / file).read_text())):
        for name, value in _given(node):
            if (number := _number(value, found)) is not None:
                found.setdefault(name, number)
    return found


def _number(node: ast.expr, known: dict[str, float]) -> float | None:
    """A number, or arithmetic of numbers and of names that are known."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Field"
        and node.args
    ):
        return _number(node.args[0], known)  # a setting's default
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand, known)
        return None if value is None else -value
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        left, right = _number(node.left, known), _number(node.right, known)
        return None if left is None or right is None else ARITHMETIC[type(node.op)](left, right)
    return None


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from (
                    (one.id, value)
                    for one, value in zip(target.elts, node.value.elts, strict=True)
                    if isinstance(one, ast.Name)
                )
            elif isinstance(target, ast.Name):
                yield target.id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg, node.value


def held_by(name: str, files: list[str]) -> float:
    """The number that a constant of these files, or a setting, holds."""
    if name in known_keys():
        section, _, key = name.partition(".")
        return float(getattr(getattr(Config(), section), key))
    (value,) = [numbers_of(file)[name] for file in files if name in numbers_of(file)]
    return float(value)


def printed(number: str, unit: str, name: str) -> float:
    """The same as the page has it; a name that ends in a unit has to be printed in that unit."""
    word = (unit.split() or [""])[0]
    parts = name.rpartition(".")[2].upper().split("_")
    if "BYTES" in parts:
        assert word in ("bytes", "KiB", "MiB"), f"{name} is in bytes"
    elif "MS" in parts:
        assert word == "ms", f"{name} is in milliseconds"
        return float(number)
    elif "S" in parts and "PER" not in parts:
        assert word in ("s", "ms"), f"{name} is in seconds"
    return float(number.replace(",", "")) * FACTORS.get(word, 1)


def body_of(file: str, function: str) -> str:
    source = (ROOT / "swarmd" / file).read_text()
    (found,) = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
    ]
    return "\n".join(ast.unparse(statement) for statement in found.body).replace("'", '"')


def names_in(file: str, table: str) -> set[str]:
    """The texts of a tuple of names in a module, read without loading libp2p."""
    tree = ast.parse((ROOT / "swarmd" / file).read_text())
    (value,) = [value for node in ast.walk(tree) for name, value in _given(node) if name == table]
    return set(ast.literal_eval(value))


@cache
def series() -> str:
    """The exposition text of a node that has met nobody."""
    return Metrics(rules=RULES).render().decode()


@cache
def network_counters() -> set[str]:
    folder = "swarm/hardening"
    gossip = names_in(f"{folder}/pubsub.py", "PUBSUB_COUNTERS") | names_in(
        f"{folder}/gossipsub.py", "ROUTER_COUNTERS"
    )
    host = names_in(f"{folder}/__init__.py", "HOST_COUNTERS")
    own = names_in("swarm/stats.py", "COUNTERS") | set(NetworkStats._fields)
    return own | {f"gossip.{name}" for name in gossip} | {f"host.{name}" for name in host}


def reasons_of_scores() -> set[str]:
    return {name.lower() for name in numbers_of("questions/scorers.py")}


def test_the_rows_are_numbered_and_the_page_says_how_many_there_are() -> None:
    assert [row.number for row in ROWS] == [str(number) for number in range(1, len(ROWS) + 1)]
    assert len(PLACE) == len(ROWS) >= 50
    assert f"passes all {len(ROWS)} " in PAGE


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.gate)
def test_a_row_is_true(row: Row) -> None:
    assert row.files
    assert all((ROOT / "swarmd" / file).is_file() for file in row.files)
    bounds = BOUND.findall(row.bound)
    for number, unit, name in bounds:
        assert printed(number, unit, name) == pytest.approx(held_by(name, row.files)), name
    rest = BOUND.sub("", row.bound)
    assert bounds or rest == "none of its own"
    assert not re.search(r"(?<!in )\d", rest), f"a number that nothing holds: {rest}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.gate)
def test_what_a_row_counts_is_counted(row: Row) -> None:
    for name in re.findall(r"`([^`]+)`", row.counted):
        if name.startswith("swarmd_verify_failures"):
            assert (
                re.fullmatch(r'swarmd_verify_failures_total\{reason="(\w+)"\}', name)[1]
                in reasons_of_scores()
            )  # type: ignore[index]
        elif name.startswith("swarmd_"):
            assert f"\n{name} " in series(), name
        elif row.counted.startswith("the standing's"):
            assert name in {field.name for field in fields(Standing)}, name
        else:
            assert name in network_counters(), name


@pytest.mark.parametrize("row", [row for row in ROWS if "points" in row.sender], ids=lambda row: row.gate)
def test_points_are_those_of_the_evidence(row: Row) -> None:
    kinds = re.findall(r'evidence_total\{kind="(\w+)"\}', row.counted)
    said = [float(number) for number in re.findall(r"(\d+)(?= points|;|$)", row.sender)]
    assert said
    assert {POINTS[kind] for kind in kinds} <= {*said}  # type: ignore[index]
    assert {*said} <= {POINTS[kind] for kind in kinds} | {POINTS["forwarded_reject"]}  # type: ignore[index]


def test_the_rules_come_in_their_order() -> None:
    rules = [name for row in ROWS for name in re.findall(r"`(\w+)`", row.refuses) if name in RULES]
    assert rules == [rule for rule in RULES if rule not in NO_RULE]


def test_the_quotas_are_named_in_the_order_in_which_they_are_asked() -> None:
    (row,) = [row for row in ROWS if row.gate == "Quotas"]
    tree = ast.parse((ROOT / "swarmd" / "trust" / "quotas.py").read_text())
    (quotas,) = [value for node in ast.walk(tree) for name, value in _given(node) if name == "QUOTAS"]
    assert re.findall(r"`(\w+)`", row.refuses) == list(ast.literal_eval(quotas))


@pytest.mark.parametrize(("file", "function", "calls"), ORDERS, ids=lambda value: str(value)[:40])
def test_gates_of_one_function_come_in_its_order(file: str, function: str, calls: dict[str, str]) -> None:
    body = body_of(file, function)
    places = [body.index(call) for call in calls.values()]
    assert places == sorted(places)
    rows = [PLACE[gate] for gate in calls]
    assert rows == sorted(rows)


@pytest.mark.parametrize(
    ("true", "false"),
    [
        ("100 inbound (`inbound_max`)", "101 inbound (`inbound_max`)"),
        ("5 ms of one loop turn (`TURN_S`)", "5 s of one loop turn (`TURN_S`)"),
        ("512 MiB (`experience.size_bytes_max`)", "512 KiB (`experience.size_bytes_max`)"),
        ("256 messages (`INBOX_MAX`)", "256 messages (`INBOX_MOST`)"),
        ("4 (`STREAMS_PER_PEER_MAX`)", "4 (`STREAMS_PER_PEER_MAX`), 7 more"),
    ],
)
def test_a_wrong_bound_does_not_pass(true: str, false: str) -> None:
    (row,) = [row for row in ROWS if true in row.bound]
    test_a_row_is_true(row)
    with pytest.raises((AssertionError, ValueError)):
        test_a_row_is_true(row._replace(bound=row.bound.replace(true, false)))
