"""What goes wrong at a start: one clear message, the documented exit code, and nothing lost."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.e2e.watch import FAST


def start(
    data_dir: Path, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "swarmd",
        "start",
        "--data-dir",
        str(data_dir),
        "--metrics-port",
        "0",
        *FAST,
        *arguments,
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **(env or {})}
    )


def said(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("swarmd: ") == 1
    for word in words:
        assert word in result.stderr


def test_unknown_model(tmp_path: Path) -> None:
    said(start(tmp_path, "--model", "Qwen2.5-0.6B"), 13, "Qwen2.5-0.6B", "Qwen2.5-0.5B")


def test_unknown_setting(tmp_path: Path) -> None:
    said(start(tmp_path, "--set", "swarm.lisen=x"), 2, "swarm.lisen", "did you mean 'swarm.listen'?")


def test_unknown_setting_in_the_environment(tmp_path: Path) -> None:
    said(start(tmp_path, env={"SWARMD_SWARM__PROT": "1"}), 2, "swarm.prot", "SWARMD_SWARM__PROT")


def test_malformed_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[swarm\n")
    said(start(tmp_path), 2, "config.toml", "not valid TOML")


def test_unreadable_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()  # as root, permissions do not keep anybody out
    said(start(tmp_path), 2, "cannot read", "config.toml")


def test_malformed_bootstrap(tmp_path: Path) -> None:
    said(start(tmp_path, "--bootstrap", "/ip4/127.0.0.1/tcp/1"), 2, "/ip4/127.0.0.1/tcp/1", "p2p")


def test_unknown_swarm(tmp_path: Path) -> None:
    said(start(tmp_path, "--swarm", "nowhere"), 2, "nowhere", "tiny")


def test_damaged_identity(tmp_path: Path) -> None:
    (tmp_path / "identity.key").write_bytes(b"short")
    (tmp_path / "identity.key").chmod(0o600)
    said(start(tmp_path), 16, "identity.key", "5 bytes")
    assert (tmp_path / "identity.key").read_bytes() == b"short"


def test_taken_port(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said(start(tmp_path, "--listen", f"/ip4/127.0.0.1/tcp/{port}"), 11, str(port))
