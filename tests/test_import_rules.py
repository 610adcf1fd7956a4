"""The import table of docs/ARCHITECTURE.md against the code, twice: the syntax tree, and what a fresh interpreter has loaded."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.measure.cycles import circles, import_cycles, imports
from tests.measure.source import ROOT, Source, read_tree

PACKAGE = Path(__file__).parent.parent / "swarmd"

# What a room may import besides itself, the standard library and the package's own version.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "recent": set(),
    "clock": set(),
    "printable": set(),
    "garbage": set(),
    "files": {"errors"},
    "optimizers": set(),
    "config": {"errors", "files", "optimizers", "pydantic"},
    "metrics": {"optimizers", "prometheus_client"},
    "protocol": {"errors", "files", "garbage", "recent", "msgpack", "pydantic", "zstandard", "nacl"},
    "experience": {"protocol", "files", "recent", "errors"},
    "fair": {"recent", "trio"},
    "trust": {"protocol", "fair", "files", "recent", "errors", "pydantic"},
    "questions": {"clients", "protocol", "recent", "errors", "reasoning_gym", "numpy"},
    "policy": {"clients", "processes", "protocol", "experience", "config", "optimizers", "errors", "files", "garbage", "tiny",
               "jinja2", "torch", "transformers", "safetensors", "huggingface_hub", "tokenizers", "tqdm", "vllm", "peft",
               "bitsandbytes"},
    "swarm": {"clients", "clock", "protocol", "trust", "fair", "files", "recent", "config", "errors", "metrics", "trio",
              "libp2p", "multiaddr", "cryptography", "nacl", "msgpack", "google", "zeroconf", "ifaddr"},
    "processes": {"errors", "files", "garbage", "trio", "msgpack", "pydantic"},
    "clients": {"errors", "experience", "processes", "trio"},
    "loops": {"clients", "protocol", "experience", "trust", "fair", "recent", "config", "errors", "metrics", "trio"},
    "control": {"protocol", "config", "errors", "metrics", "files", "trio", "h11"},
    "contribute": {"clients", "clock", "protocol", "experience", "loops", "control", "processes", "config", "errors", "policy",
                   "files", "node", "trio"},
}  # fmt: skip

# What must not even be loaded by importing any module of a room.
MUST_NOT_LOAD: dict[str, set[str]] = {
    "protocol": {"trio", "libp2p", "torch", "vllm"},
    "experience": {"trio", "libp2p", "torch", "vllm"},
    "trust": {"trio", "libp2p", "torch", "vllm"},
    "fair": {"libp2p", "torch", "vllm"},
    "questions": {"trio", "libp2p", "torch"},
    # httpcore, which transformers loads through huggingface_hub, imports trio where it is installed; our own code may not (above)
    "policy": {"libp2p", "reasoning_gym"},
    "swarm": {"torch", "vllm", "transformers", "reasoning_gym"},
    "processes": {"libp2p", "torch"},
    "clients": {"libp2p", "torch", "vllm"},
    "loops": {"libp2p", "torch", "vllm"},
    "control": {"libp2p", "torch"},
    "node": {"torch", "vllm", "libp2p", "reasoning_gym", "transformers"},
    "contribute": {"torch", "vllm", "libp2p", "reasoning_gym", "transformers"},
    "cli": {"torch", "vllm", "libp2p", "reasoning_gym", "transformers"},
    "errors": {"trio", "libp2p", "torch", "vllm", "pydantic"},
    "config": {"trio", "libp2p", "torch", "vllm"},
}


def modules_of(room: str) -> list[Path]:
    place = PACKAGE / room
    return sorted(place.rglob("*.py")) if place.is_dir() else [PACKAGE / f"{room}.py"]


def imported_names(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            names |= (
                {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module == "swarmd"
                else {node.module or ""}
            )
    return names


def room_or_package(name: str) -> str | None:
    parts = name.split(".")
    if parts[0] == "swarmd":
        return None if len(parts) == 1 or parts[1].startswith("__") else parts[1]
    return None if parts[0] in sys.stdlib_module_names else parts[0]


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_the_table_allows(room: str) -> None:
    found = {
        (path.name, target)
        for path in modules_of(room)
        for name in imported_names(path)
        if (target := room_or_package(name)) is not None and target != room and target not in MAY_IMPORT[room]
    }
    assert not found


def sources() -> list[Source]:
    found = read_tree(str(ROOT))
    return [Source(path, text) for path, text in found.items() if path.startswith("swarmd/")]


def test_no_modules_import_in_a_circle() -> None:
    """An import inside a function counts: it hides a circle, it does not break it."""
    assert import_cycles(sources()) == []


def test_no_rooms_import_in_a_circle() -> None:
    rooms: dict[str, set[str]] = {}
    for source in sources():
        room = source.module.partition(".")[2].partition(".")[0]
        targets = {name.split(".")[1] for name in imports(source) if name.startswith("swarmd.")}
        rooms.setdefault(room, set()).update(targets - {room})
    assert circles(rooms) == []


@pytest.mark.parametrize("room", MUST_NOT_LOAD)
def test_importing_a_room_loads_nothing_heavy(room: str) -> None:
    # late imports inside functions are allowed; what a plain import of every module loads is not.
    # policy and swarm hold modules whose very purpose is torch or libp2p: they may load those, but nothing that is ruled out.
    modules = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in modules_of(room)
    ]
    script = f"import sys\nfor m in {modules!r}: __import__(m)\nprint(' '.join({MUST_NOT_LOAD[room]!r} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["status", "--data-dir", "/nonexistent"], ["peers", "--data-dir", "/nonexistent"]],
)
def test_looking_commands_load_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys\nsys.argv = ['swarmd', *sys.argv[1:]]\nfrom swarmd.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('LOADED', *({'torch','transformers','vllm','libp2p','reasoning_gym'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.stdout.splitlines()[-1] == "LOADED"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_there_is_no_pickle_anywhere(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported_names(path)} & {
        "pickle",
        "shelve",
        "dill",
        "cloudpickle",
        "marshal",
    }
    assert "torch.load(" not in path.read_text()
