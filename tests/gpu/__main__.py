"""`python -m tests.gpu [--rehearse] [name ...]`: every test that needs CUDA, its figures, what was skipped and why.

A name picks the tests whose id contains it. `--rehearse` runs them on the CPU at sizes of a toy, which shows nothing about a GPU.
Exit status: 0 when something was shown and nothing failed, 1 when a test failed, 5 when nothing was shown.
"""

import argparse
import os
import sys
import time
import traceback
import unittest
from collections import Counter
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).parent
OPTIONAL = ("pytest", "msgpack", "vllm", "bitsandbytes", "peft", "flash_attn", "pynvml")
NOTHING_SHOWN = 5
ErrorInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class Printed(unittest.TestResult):
    """One line as a test starts, its figures below it, one line as it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: Counter[str] = Counter()
        self.passed = 0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._started = time.perf_counter()
        print(f"  {test.id().removeprefix('tests.gpu.')}", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed += 1
        self._end("ok")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.reasons[reason] += 1
        self._end(f"skipped: {reason}")

    def addFailure(self, test: unittest.TestCase, err: ErrorInfo) -> None:
        super().addFailure(test, err)
        self._broke("FAILED", err)

    def addError(self, test: unittest.TestCase, err: ErrorInfo) -> None:
        super().addError(test, err)
        self._broke("ERROR", err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: ErrorInfo | None) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._broke(f"FAILED {subtest.id().partition(' ')[2]}", err)

    def _broke(self, word: str, err: ErrorInfo) -> None:
        self._end(word)
        traceback.print_exception(*err, limit=-6, file=sys.stdout)

    def _end(self, word: str) -> None:
        print(f"      {word} ({time.perf_counter() - self._started:.1f} s)", flush=True)


def chosen(suite: unittest.TestSuite, names: list[str]) -> unittest.TestSuite:
    """The tests whose id contains one of `names`, or all."""
    picked = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            picked.addTests(chosen(test, names))
        elif not names or any(name in test.id() for name in names):
            picked.addTest(test)
    return picked


def describe() -> str:
    import torch
    import transformers

    from tests.gpu.case import DEVICE, missing

    lines = [f"torch {torch.__version__}, transformers {transformers.__version__}"]
    for number in range(torch.cuda.device_count() if DEVICE == "cuda" else 0):
        properties = torch.cuda.get_device_properties(number)
        lines.append(f"cuda:{number} {properties.name}, {properties.total_memory / 2**30:.1f} GiB")
    lines.append(f"not installed: {', '.join(missing(*OPTIONAL)) or 'nothing that a test asks for'}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, at sizes of a toy")
    parser.add_argument("names", nargs="*", help="run the tests whose id contains one of these")
    options = parser.parse_args(arguments)
    if options.rehearse:
        os.environ["SWARMD_GPU_REHEARSAL"] = "1"
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    print(describe())
    found = unittest.defaultTestLoader.discover(
        str(HERE), pattern="test_*.py", top_level_dir=str(HERE.parent.parent)
    )
    result = Printed()
    chosen(found, options.names).run(result)
    broken = len(result.failures) + len(result.errors)
    print(f"\n{result.passed} passed, {broken} failed, {len(result.skipped)} skipped")
    for reason, count in result.reasons.most_common():
        print(f"  {count} skipped: {reason}")
    if broken:
        return 1
    if not result.passed:
        print("Nothing was shown: no test ran.")
        return NOTHING_SHOWN
    if options.rehearse:
        print("A rehearsal on the CPU: nothing was shown about a GPU.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
