"""`make demo`: four real nodes on this machine learn from each other. An experiment of one cell, with bars of its own.

Exits 0 when every node's reward rose and everybody used everybody's rollouts, 1 when not, 130 on Ctrl-C. Leaves no process behind.
"""

import argparse
import signal
import sys
import time
from pathlib import Path

from swarmd.errors import SwarmdError
from swarmd.experiment.running.conduct import Request, conduct
from swarmd.experiment.running.progress import Display


def main() -> None:
    """Parse the few options and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument(
        "--seed", type=int, default=0, help="chooses the nodes' identities, and so all their questions"
    )
    parser.add_argument("--minutes", type=float, default=6.0, help="the longest it may take")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    options = parser.parse_args()
    # said outright: a job in the background inherits an ignored SIGINT
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    request = Request(
        preset="demo",
        seeds=f"{options.seed},",
        rounds=options.rounds,
        num_nodes=options.nodes,
        minutes=options.minutes,
        folder=options.runs / time.strftime("%Y%m%d-%H%M%S"),
    )
    try:
        sys.exit(run(request))
    except KeyboardInterrupt:
        print("\nstopped; no process is left behind", flush=True)
        sys.exit(130)
    except SwarmdError as error:
        print(f"swarmd: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def run(request: Request) -> int:
    """Run the cell, write the experiment's report, and judge the nodes one by one. Returns the exit code."""
    code = conduct(
        request, argv=[sys.executable, "-m", "swarmd.experiment.demo", *sys.argv[1:]], display=Display()
    )
    if code:
        print("\nNOT shown: the run did not come to its end", flush=True)
        return 130 if code == 130 else 1
    from swarmd.experiment.reporting.document import to_markdown
    from swarmd.experiment.reporting.learned import shortcomings, table
    from swarmd.experiment.reporting.results import read_experiment

    assert request.folder is not None
    (cell,) = read_experiment(request.folder).cells
    missing = shortcomings(cell)
    verdict = (
        ["NOT shown:", *missing]
        if missing
        else ["Every node's reward rose, and every node used rollouts of every other."]
    )
    print("\n" + "\n".join([to_markdown([table(cell)]), *verdict]), flush=True)
    return 1 if missing else 0


if __name__ == "__main__":
    main()
