"""`contribute`: what is asked, what a check says, what is refused, and whose swarm it is; the scorer is the real one."""

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from swarmd.cli.contribute import instructions, summary, table
from swarmd.cli.main import swarmd
from swarmd.contribute.check import Checked, Review
from swarmd.contribute.lines import Line
from swarmd.errors import ConfigError, Locked, StateError
from swarmd.files.datadir import DataDir
from swarmd.files.lock import Lock
from swarmd.protocol.manifest import load_manifest
from swarmd.protocol.types import Completion, Rollout
from tests.cli.fake_daemon import Answers, fake_daemon
from tests.cli.test_look import HOSTILE
from tests.cli.test_look import status as node_status
from tests.loops.parts import MANIFEST

PRODUCTS = [dataset.name for dataset in MANIFEST.datasets].index("products")


def run(folder: Path, *arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(swarmd, ["contribute", *arguments, "--data-dir", str(folder)], input=given)


def ask(folder: Path, num: int = 3, *arguments: str) -> list[dict[str, Any]]:
    said = run(folder, "--ask", str(num), *arguments)
    assert said.exit_code == 0, said.stderr
    return [json.loads(line) for line in said.stdout.splitlines()]


@pytest.fixture(scope="module")
def asked_before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A folder in which two questions were asked, and their lines. Asking starts a scorer."""
    folder = tmp_path_factory.mktemp("asked")
    return folder, ask(folder, 2)


@pytest.fixture
def lines(asked_before: tuple[Path, list[dict[str, Any]]], tmp_path: Path) -> list[dict[str, Any]]:
    """Two questions that were asked in this test's folder."""
    folder, lines = asked_before
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return [dict(line) for line in lines]


def fill(folder: Path, lines: list[dict[str, Any]], *completions: str) -> str:
    """A file with these answers to every question."""
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps({**line, "completions": list(completions)}) + "\n" for line in lines))
    return str(path)


def refused(said: Result) -> ConfigError:
    assert isinstance(said.exception, ConfigError), said.output
    return said.exception


def node(**changes: Any) -> Answers:
    """A running node's answers."""
    status = node_status()
    status["swarm"] |= changes
    return {
        "GET /v1/status": (200, status),
        "GET /v1/manifest": (200, {"manifest": MANIFEST.to_bytes().hex()}),
    }


def checked(prompt: str, *rewards: float, reasons: dict[str, int] | None = None) -> Checked:
    rollout = Rollout(
        dataset=PRODUCTS,
        counter=7,
        completions=tuple(Completion(text="x", finished=True) for _ in rewards),
    )
    return Checked(Line(3, "products", 7, None, ()), rollout, prompt, list(rewards), reasons or {})


# ---------------------------------------------------------------- asking


def test_questions_are_lines_to_fill_in(tmp_path: Path) -> None:
    lines = ask(tmp_path)
    assert [list(line) for line in lines] == [["dataset", "counter", "question", "completions"]] * 3
    assert all(line["completions"] == [] and line["question"] for line in lines)
    assert {line["counter"] for line in lines}.isdisjoint({line["counter"] for line in ask(tmp_path)})


def test_tasks_are_the_only_ones_asked(tmp_path: Path) -> None:
    assert {line["dataset"] for line in ask(tmp_path, 40, "--tasks", "products, lcm")} == {"products", "lcm"}


def test_an_unknown_task_is_told(tmp_path: Path) -> None:
    assert "no dataset 'nothing'" in str(refused(run(tmp_path, "--ask", "1", "--tasks", "nothing")))


@pytest.mark.parametrize(
    ("answer_format", "num"), [("tags", 3), ("plain", 2)], ids=["with tags", "plain text"]
)
def test_who_answers_is_told_what_counts(answer_format: str, num: int) -> None:
    manifest = MANIFEST.model_copy(update={"answer_format": answer_format})
    told = instructions(manifest)
    assert len(told) == num
    assert "Write 2 to 64 answers" in told[0]


# ---------------------------------------------------------------- checking


def test_a_check_shows_what_each_answer_earns_and_sends_nothing(tmp_path: Path) -> None:
    lines = ask(tmp_path, 1, "--tasks", "products")
    right = math.prod(map(int, re.findall(r"\d+", lines[0]["question"])))
    file = fill(tmp_path, lines, f"<answer>{right}</answer>", "<answer>no</answer>", "no tags")
    said = run(tmp_path, file, "--check")
    assert said.exit_code == 0
    head, row, told = said.stdout.splitlines()
    assert head.split() == ["line", "dataset", "counter", "question", "rewards"]
    assert row.split()[:3] == ["1", "products", str(lines[0]["counter"])]
    assert "1.00 0.00 0.00  informative (1 no answer)" in row
    assert told == "1 informative"


def test_equal_rewards_are_not_sent(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    said = run(tmp_path, fill(tmp_path, lines, "<answer>no</answer>", "nor this"))
    assert "nobody learns from it" in said.stdout
    assert "2 with equal rewards" in said.stdout
    assert "nothing that anybody would learn from" in str(refused(said))


def test_unless_all_are_asked_for(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    file = fill(tmp_path, lines, "<answer>no</answer>", "nor this")
    assert run(tmp_path, file, "--all", "--check").exit_code == 0


def test_what_is_not_answered_is_counted(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    said = run(tmp_path, fill(tmp_path, lines))
    assert said.stdout == "2 not answered yet\n"
    assert "2 questions without answers" in str(refused(said))


def test_every_faulty_line_is_named_and_nothing_is_sent(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    lines[1]["counter"] = 10**6
    said = str(refused(run(tmp_path, fill(tmp_path, lines, "4"))))
    assert "2 lines of" in said
    assert "line 1: 1 completions, the swarm takes 2 to 64" in said
    assert "line 2: counter 1000000 was never asked under this key" in said


def test_many_faults_are_cut_short(tmp_path: Path) -> None:
    said = str(refused(run(tmp_path, "-", given="x\n" * 50)))
    assert "50 lines of - cannot be sent" in said
    assert len(said.splitlines()) == 23
    assert "and 30 more" in said


def test_lines_come_from_standard_input_too(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    file = fill(tmp_path, lines)
    assert run(tmp_path, "-", given=Path(file).read_text()).stdout == "2 not answered yet\n"


@pytest.mark.parametrize("name", ["nothing.jsonl", "."])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    assert "cannot read" in str(refused(run(tmp_path, str(tmp_path / name))))


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["file", "--ask", "1"],
        ["file", "--tasks", "products"],
        ["--ask", "0"],
        ["--ask", "1001"],
        ["--ask", "x"],
        ["file", "--wait", "0"],
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    assert run(tmp_path, *arguments).exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "x" * 65, "naïve", "a\nb", HOSTILE])
def test_a_name_that_does_not_fit_the_wire_is_refused(tmp_path: Path, name: str) -> None:
    said = str(refused(run(tmp_path, "file", "--policy", name)))
    assert said.replace("\n", "").isprintable()


# ---------------------------------------------------------------- the table


def test_nothing_in_the_table_can_drive_a_terminal() -> None:
    lines = table(MANIFEST, [checked(HOSTILE + "x" * 500, 1.0, 0.0)])
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) <= 110


def test_many_rewards_are_summed_up() -> None:
    (_, row) = table(MANIFEST, [checked("q", *[0.25] * 10, 1.0)])
    assert "0.25 to 1.00, mean 0.32 of 11  informative" in row


def test_reasons_are_told() -> None:
    (_, row) = table(MANIFEST, [checked("q", 0.0, 0.0, reasons={"no_answer": 1, "oversize": 1})])
    assert row.endswith("all equal: nobody learns from it (1 no answer, 1 oversize)")


def test_an_empty_file_is_nothing_to_tell() -> None:
    assert summary(Review()) == []


# ---------------------------------------------------------------- whose swarm


def test_beside_a_node_its_swarm_is_taken_and_its_lock_left_alone(tmp_path: Path) -> None:
    lock = Lock(DataDir(tmp_path))
    with fake_daemon(tmp_path, node()):
        said = run(tmp_path, "--ask", "1", "--set", "policy.model=Qwen2.5-0.5B")
    lock.release()
    assert said.exit_code == 0, said.stderr
    assert json.loads(said.stdout)["dataset"] in {dataset.name for dataset in MANIFEST.datasets}


def test_a_node_that_is_still_starting_is_not_worked_beside(tmp_path: Path) -> None:
    lock = Lock(DataDir(tmp_path))
    assert isinstance(run(tmp_path, "--ask", "1").exception, Locked)
    lock.release()


def test_a_node_of_another_swarm_is_told(tmp_path: Path) -> None:
    with fake_daemon(tmp_path, node()):
        assert "is of the swarm tiny" in str(refused(run(tmp_path, "--ask", "1", "--swarm", "reasoning")))


def test_a_node_alone_shares_nothing(tmp_path: Path) -> None:
    with fake_daemon(tmp_path, node(solo=True)):
        assert "has no network" in str(refused(run(tmp_path, "--ask", "1")))


def test_a_question_of_one_swarm_is_no_question_of_another(
    tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    file = fill(tmp_path, lines[:1], "4", "5")
    said = str(refused(run(tmp_path, file, "--swarm", "reasoning")))
    assert "was asked in another swarm" in said
    assert load_manifest("reasoning").digest.hex()[:16] in said


@pytest.mark.usefixtures("lines")
def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "identity.key").chmod(0o644)
    assert isinstance(run(tmp_path, "--ask", "1").exception, StateError)
