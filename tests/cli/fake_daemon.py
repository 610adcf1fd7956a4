"""A daemon that answers from a table, on a Unix socket in a thread: the client under test is blocking code."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Answers = dict[str, tuple[int, Any] | bytes]


@contextmanager
def fake_daemon(data_dir: Path, answers: Answers) -> Iterator[list[str]]:
    """Serve `answers` ("GET /v1/status" to status and document, or to raw bytes); yields the request lines that came."""
    asked = list[str]()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(data_dir / "control.sock"))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    _answer(connection, answers, asked)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield asked
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _answer(connection: socket.socket, answers: Answers, asked: list[str]) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(4096)
    head, _, body = data.partition(b"\r\n\r\n")
    if found := re.search(rb"\r\nContent-Length: (\d+)", head):
        while len(body) < int(found[1]):
            body += connection.recv(4096)
    method, target, _ = data.split(b"\r\n")[0].decode().split()
    asked.append(f"{method} {target}")
    answer = answers.get(f"{method} {target}", (404, {"error": "no such path"}))
    if isinstance(answer, tuple):
        status, document = answer
        body = json.dumps(document).encode()
        answer = f"HTTP/1.1 {status} \r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    connection.sendall(answer)
