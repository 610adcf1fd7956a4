"""One target under libFuzzer (by way of Atheris), in a process of its own: `python -m tests.fuzz.session TARGET SECONDS FOLDER`.

libFuzzer keeps every input that reached something new in FOLDER/corpus, writes a crash to FOLDER, and ends the process itself; the
figures are therefore written to FOLDER/figures.json while it runs.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import atheris

from tests.fuzz.targets import COVERED, check_of

CORPUS = Path(__file__).parent / "corpus"
# Above every limit of size that a target has, `message_bytes_max` (60,000) the largest.
INPUT_BYTES_MAX = 65_536
# Memory before is that of a process that has only begun: imports, the first of every cache.
WARM_UP_SHARE = 0.1
LOOK_S = 1.0
HANG_S, MEMORY_MIB_MAX = 10, 2048


class Figures:
    """Counts executions and writes what was measured, about once a second."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._start_s, self._seconds = path, time.monotonic(), seconds
        self._next_s = self._start_s + LOOK_S
        self._num = self._warm_bytes = self._bytes_max = 0

    def count(self) -> None:
        """One execution is over."""
        self._num += 1
        if time.monotonic() >= self._next_s:
            self._look()

    def _look(self) -> None:
        from tests.fuzz.meter import METER, resident_bytes

        now_s, resident = time.monotonic(), resident_bytes()
        self._next_s = now_s + LOOK_S
        if now_s - self._start_s < WARM_UP_SHARE * self._seconds or not self._warm_bytes:
            self._warm_bytes = resident
        self._bytes_max = max(self._bytes_max, resident)
        figures = {
            "executions": self._num,
            "elapsed_s": now_s - self._start_s,
            "cpu_s": time.process_time(),
            "slowest_cpu_ms": METER.cpu_s_max * 1000,
            "slowest_wall_ms": METER.wall_s_max * 1000,
            "mean_cpu_ms": METER.cpu_s_sum / max(METER.num_calls, 1) * 1000,
            "growth_mb": max(0, self._bytes_max - self._warm_bytes) / 1e6,
            "resident_mb": resident / 1e6,
        }
        self._path.write_text(json.dumps(figures))


def main(name: str, seconds: int, folder: Path) -> None:
    """Fuzz; does not return."""
    with atheris.instrument_imports(include=list(COVERED[name])):
        check: Callable[[bytes], None] = check_of(name)
    found = folder / "corpus"
    found.mkdir(parents=True, exist_ok=True)
    figures = Figures(folder / "figures.json", seconds)

    def execute(data: bytes) -> None:
        check(data)
        figures.count()

    arguments = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={HANG_S}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-artifact_prefix={folder}/",
        f"-dict={Path(__file__).parent / 'words.dict'}",
        "-print_final_stats=1",
        str(found),
        str(CORPUS / name),
    ]
    atheris.Setup([sys.argv[0], *arguments], execute)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
