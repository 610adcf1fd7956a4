"""Stands in for `python -m swarmd.experiment.run_cell`: ends, fails, hangs or waits as it is told, with the same marks on disk."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path


def main(folder: Path, how: str, deadline_s: float) -> int:
    path = folder / "cell.json"
    document = json.loads(path.read_text())

    def ended(status: str, num_rounds: int) -> None:
        path.write_text(
            json.dumps(document | {"status": status, "num_rounds_done": num_rounds, "seconds": 1.0})
        )

    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how == "parent":
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        (folder / "child").write_text(str(child.pid))
    for number in range(1, document["rounds"] + 1):
        print(json.dumps({"round": number, "rounds": document["rounds"]}), flush=True)
        if how in ("waits", "stubborn", "parent"):
            (folder / "waits").touch()
            while time.time() < deadline_s:
                time.sleep(0.01)
            ended("stopped", number)
            return 75
        if how == "fails":
            print("something else\nthe disk is on fire", file=sys.stderr)
            return 3
    if how != "silent":
        ended("done", document["rounds"])
    print("a last word")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
