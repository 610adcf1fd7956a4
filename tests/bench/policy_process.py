"""A policy process as the daemon has one: started with its service's name, asked over its socket."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from swarmd.processes.frames import FrameReader, Request, Told, encode_frame


class Side:
    """A process, and the wall seconds of its last operation from question to answer."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self._pid, self._sock, self._reader, self._number = process.pid, sock, FrameReader(Told), 0
        self.seconds = 0.0

    def ask(self, op: str, **args: Any) -> Any:
        self._number += 1
        began_s = time.perf_counter()
        self._sock.sendall(encode_frame(Request(self._number, op, args)))
        while True:
            data = self._sock.recv(1 << 20)
            if not data:
                sys.exit(f"the process of {op} ended")
            for told in self._reader.feed(data):
                if told.error is not None:
                    sys.exit(f"{op} failed: {told.error.error()}")
                if told.of == self._number:
                    self.seconds = time.perf_counter() - began_s
                    return told.value

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def side(service: str, **args: Any) -> Iterator[Side]:
    """Start a process and its service with these arguments."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-W", "ignore", "-m", "swarmd.processes.child", str(theirs.fileno()), service]
    with ours, subprocess.Popen(command, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        try:
            found = Side(process, ours)
            found.ask("start", **args)
            yield found
        finally:
            process.kill()
