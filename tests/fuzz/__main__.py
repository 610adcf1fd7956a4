"""`python -m tests.fuzz`: every target in turn, one process at a time, with a line of figures each; or one input again.

Exit code 1 when anything was found: a crash, an input over the time limit, or memory growth over GROWTH_MB_MAX.
"""

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.fuzz.targets import SHARE_OF, check_of

RUNS = Path("runs") / "fuzz"
# What the project promises: a stranger's bytes make nothing grow.
GROWTH_MB_MAX = 50.0
# Atheris loads and instruments before its clock starts, and looks at the clock only between executions: on a busy machine, long.
START_S_MAX = 300
HEAD = (
    f"{'target':<11}{'executions':>11}{'per s':>8}{'per CPU s':>11}{'slowest':>10}{'(by clock)':>12}"
    f"{'growth':>10}{'corpus':>8}{'edges':>7}{'new':>6}"
)


@dataclass(frozen=True)
class Report:
    """What one target's session came to; `found` names the files that break a promise."""

    figures: dict[str, Any]
    edges: int
    new_edges: int
    corpus: int
    found: list[Path]
    log: Path


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--time", type=int, default=60, help="seconds for all targets together (default 60)")
    parser.add_argument(
        "--target", choices=list(SHARE_OF), action="append", help="only this one; may be repeated"
    )
    parser.add_argument("--replay", type=Path, help="run one target on one file, without a fuzzer")
    options = parser.parse_args()
    names = options.target or list(SHARE_OF)
    if options.replay:
        for name in names:
            check_of(name)(options.replay.read_bytes())
            print(f"{name}: nothing wrong")
        return 0
    if find_spec("atheris") is None:
        print(
            "fuzzing needs Atheris, which there is for Linux on x86-64: `make fuzz` installs it; --replay does without"
        )
        return 2
    return fuzz(names, options.time)


def fuzz(names: list[str], seconds: int) -> int:
    """One session a target; prints a table."""
    shares = sum(SHARE_OF[name] for name in names)
    print(HEAD, flush=True)
    bad, executions, elapsed_s, cpu_s = 0, 0, 0.0, 0.0
    for name in names:
        report = session(name, max(1, seconds * SHARE_OF[name] // shares))
        print(_line(name, report), flush=True)
        executions += report.figures.get("executions", 0)
        elapsed_s += report.figures.get("elapsed_s", 0.0)
        cpu_s += report.figures.get("cpu_s", 0.0)
        growth_mb = report.figures.get("growth_mb", 0.0)
        bad += bool(report.found) or not report.figures or growth_mb > GROWTH_MB_MAX
        if not report.figures:
            print(f"  did not start; see {report.log}")
        if growth_mb > GROWTH_MB_MAX:
            print(f"  memory grew by {growth_mb:.0f} MB, at most {GROWTH_MB_MAX:.0f}")
        for path in report.found:
            print(f"  FOUND, see {report.log}; again: python -m tests.fuzz --target {name} --replay {path}")
    print(
        f"{executions} executions in {elapsed_s:.0f} s, {executions / max(elapsed_s, 1):.0f} a second "
        f"({executions / max(cpu_s, 1):.0f} a second of CPU time); targets with a finding: {bad}"
    )
    return 1 if bad else 0


def session(name: str, seconds: int) -> Report:
    """Run one target in a child process."""
    folder = RUNS / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.json").unlink(missing_ok=True)
    before, log = _artifacts(folder), folder / "log"
    command = [sys.executable, "-m", "tests.fuzz.session", name, str(seconds), str(folder)]
    with log.open("wb") as out:
        try:
            code = subprocess.run(
                command, stdout=out, stderr=out, timeout=seconds + START_S_MAX, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    text = log.read_text(errors="replace")
    found = sorted(_artifacts(folder) - before)
    if code != 0 and not found:
        found = [log]
    figures_path = folder / "figures.json"
    figures = json.loads(figures_path.read_text()) if figures_path.exists() else {}
    if count := re.search(r"stat::number_of_executed_units: (\d+)", text):
        figures["executions"] = int(count.group(1))
    edges = [int(number) for number in re.findall(r"\bcov: (\d+)", text)]
    return Report(
        figures=figures,
        edges=edges[-1] if edges else 0,
        new_edges=edges[-1] - _edges_of_corpus(text) if edges else 0,
        corpus=len(list((folder / "corpus").glob("*"))),
        found=found,
        log=log,
    )


def _artifacts(folder: Path) -> set[Path]:
    return {path for kind in ("crash-*", "timeout-*", "oom-*", "leak-*") for path in folder.glob(kind)}


def _edges_of_corpus(text: str) -> int:
    """Edges that the corpus reached before the first new input."""
    match = re.search(r"INITED\s+cov: (\d+)", text)
    return int(match.group(1)) if match else 0


def _line(name: str, report: Report) -> str:
    figures = report.figures
    num, elapsed_s = figures.get("executions", 0), figures.get("elapsed_s", 0.0)
    cpu_s = figures.get("cpu_s", 0.0)
    return (
        f"{name:<11}{num:>11}{num / max(elapsed_s, 1):>8.0f}{num / max(cpu_s, 1):>11.0f}{figures.get('slowest_cpu_ms', 0):>7.2f} ms"
        f"{figures.get('slowest_wall_ms', 0):>9.2f} ms{figures.get('growth_mb', 0):>7.1f} MB"
        f"{report.corpus:>8}{report.edges:>7}{report.new_edges:>6}"
    )


if __name__ == "__main__":
    sys.exit(main())
