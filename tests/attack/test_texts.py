"""The texts do what they are for when they are evaluated: a text that cannot spring a trap tests nothing."""

import contextlib
import io
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attack.texts import code_texts

# LaTeX is code only behind upstream's own translation.
TRANSLATED = {6, 7}
SANDBOX = """
import os, socket, sys
from swarmd.questions.sandbox import Step, lockdown, prepare
prepare()
text = sys.argv[1]
if not lockdown("best-effort", os.getppid()) & Step.SECCOMP:
    os._exit(9)
try:
    eval(text)
except BaseException:
    os._exit(7)
os._exit(0)
"""


def evaluable(markers: Path, port: int) -> list[str]:
    texts = code_texts(markers, port)
    return [text for number, text in enumerate(texts) if number not in TRANSLATED]


def test_every_text_springs_a_trap_when_it_is_evaluated(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as trap:
        texts = evaluable(tmp_path, trap.getsockname()[1])
        for text in texts:
            before = len(list(tmp_path.iterdir()))
            with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
                eval(text, {"Symbol": type("Symbol", (), {"__init__": lambda self, name: None})})
            assert len(list(tmp_path.iterdir())) == before + 1, text


@pytest.mark.parametrize("number", [0, 1, 4, 8, 9, 12])
def test_in_the_sandbox_a_text_that_is_evaluated_dies_of_seccomp(tmp_path: Path, number: int) -> None:
    text = code_texts(tmp_path, 1)[number]
    done = subprocess.run([sys.executable, "-c", SANDBOX, text], check=False)
    if done.returncode == 9:
        pytest.skip("this machine has no seccomp")
    assert done.returncode == -31  # SIGSYS
