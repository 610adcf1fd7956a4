"""A model hub on this machine: enough of the real one's HTTP interface for its own client to resolve and download."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

REVISION = "c0ffee" + "0" * 34
PUBLIC, GATED, PRIVATE, BROKEN, FORBIDDEN = (
    "org/model",
    "org/gated",
    "org/private",
    "org/broken",
    "org/forbidden",
)


@contextmanager
def fake_hub(folder: Path) -> Iterator[str]:
    """Serve `folder` as `org/model`, and four others that refuse; gives the endpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"folder": folder}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    folder: Path
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/api/models").lstrip("/")
        repo_id = "/".join(path.split("/")[:2])
        if repo_id != PUBLIC:
            self._refuse(repo_id)
        elif "/resolve/" in path:
            self._file(path.rpartition("/")[2])
        elif "/tree/" in path:
            self._json([self._entry(file) for file in self._files()])
        else:
            siblings = [{"rfilename": file.name} for file in self._files()]
            self._json({"id": PUBLIC, "modelId": PUBLIC, "sha": REVISION, "siblings": siblings})

    do_HEAD = do_GET

    def _files(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.is_file())

    def _entry(self, file: Path) -> dict[str, Any]:
        oid = hashlib.sha1(file.read_bytes()).hexdigest()
        return {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": oid}

    def _file(self, name: str) -> None:
        file = self.folder / name
        if not file.is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        data = file.read_bytes()
        etag = f'"{hashlib.sha1(data).hexdigest()}"'
        self._send(200, data, {"ETag": etag, "X-Repo-Commit": REVISION, "Accept-Ranges": "bytes"})

    def _refuse(self, repo_id: str) -> None:
        refusals = {
            GATED: (403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."}),
            PRIVATE: (401, {"X-Error-Message": "Invalid username or password."}),
            FORBIDDEN: (403, {"X-Error-Message": "Forbidden."}),
            BROKEN: (502, {}),
        }
        status, headers = refusals.get(repo_id, (404, {"X-Error-Code": "RepoNotFound"}))
        self._send(status, b"{}", headers)

    def _json(self, content: Any) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
