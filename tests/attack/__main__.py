"""`make attack`: hostile peers against a swarm of real nodes; a row for each attack, and what has to hold. Exits 1 otherwise."""

import argparse
import json
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.attack.bout import TOGETHER, run_bout
from tests.attack.deeds import DEEDS
from tests.attack.rows import table


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="this attack; may be repeated: " + ", ".join([*DEEDS, TOGETHER]),
    )
    parser.add_argument("--seconds", type=float, default=15.0, help="of each window [15]")
    parser.add_argument("--quick", action="store_true", help="windows of 6 s, one seed of few rounds")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the identities of the swarm that is attacked bit by bit"
    )
    parser.add_argument(
        "--out", type=Path, default=None, metavar="DIR", help="where everything is left [runs/attack-TIME]"
    )
    options = parser.parse_args()
    names = options.only or [*DEEDS, TOGETHER]
    if unknown := [name for name in names if name not in DEEDS and name != TOGETHER]:
        parser.error(f"no attack {', '.join(unknown)}")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    out = (options.out or Path("runs") / time.strftime("attack-%Y%m%d-%H%M%S")).absolute()
    try:
        sys.exit(run(out, names, 6.0 if options.quick else options.seconds, options.seed))
    except KeyboardInterrupt:
        print("\nstopped; no process is left behind", flush=True)
        sys.exit(130)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def run(out: Path, names: list[str], seconds: float, seed: int) -> int:
    """Everything; returns the exit code."""
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {line}", flush=True)

    bout = run_bout(out / "bout", names, seconds, seed, say)
    print("\n" + table(bout.rows) + "\n")
    for check in bout.checks:
        print(check)
    report = {"rows": [asdict(row) for row in bout.rows], "checks": [asdict(check) for check in bout.checks]}
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"\nreport   {out / 'report.json'}   {time.monotonic() - began:.0f} s")
    return 0 if all(check.passed for check in bout.checks) else 1


if __name__ == "__main__":
    main()
