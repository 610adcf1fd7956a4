"""The process around vLLM: its environment before the import, how it keeps matrices, and crashes that end the process."""

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def prepare_environment() -> None:
    """Set what vLLM reads from the environment when it is first imported; what the operator has set stays.

    One process, no telemetry, no network, nobody's plugins, logs to stderr.
    """
    wanted = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_PLUGINS": "",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_LOGGING_STREAM": "ext://sys.stderr",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    for name, value in wanted.items():
        os.environ.setdefault(name, value)


@contextmanager
def unpacked(wanted: bool) -> Iterator[None]:
    """Within the block vLLM's CPU build multiplies matrices as they are, instead of from packed copies that replace them."""
    from vllm import _custom_ops

    packs = _custom_ops._supports_onednn
    _custom_ops._supports_onednn = packs and not wanted
    try:
        yield
    finally:
        _custom_ops._supports_onednn = packs


@contextmanager
def inspected_here() -> Iterator[None]:
    """Within the block vLLM looks at a model's class in this process.

    By itself it starts another process for this, lest the first one initialise CUDA. That process imports everything once more,
    which takes seven CPU seconds at the first start in a data directory. Here the engine computes in the process that starts it.
    """
    from vllm.model_executor.models import registry

    elsewhere = registry._run_in_subprocess
    registry._run_in_subprocess = lambda fn: fn()
    try:
        yield
    finally:
        registry._run_in_subprocess = elsewhere


def restore_crash_signals() -> None:
    """Let a crash end the process at once. A library under vLLM answers it with a backtrace of its own, which may wait for ever.

    It allocates memory within the signal handler; when the crash came while memory was being allocated, nothing goes on and
    nothing ends. Python's own handler only writes, and then lets the process die.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    faulthandler.disable()
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT):
        signal.signal(number, signal.SIG_DFL)
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)
