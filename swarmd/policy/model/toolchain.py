"""What Triton needs of the system: at its first use on CUDA it compiles a little C for this very Python. vLLM needs Triton there.

The rules are those of `triton/runtime/build.py`. Imports none of it.
"""

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

Which = Callable[[str], str | None]
# Each package manager's command for a compiler, and its package with the headers of Python `{0}`.
_INSTALL = {
    "apt-get": ("apt install gcc", "python{0}-dev"),
    "dnf": ("dnf install gcc", "python3-devel"),
    "pacman": ("pacman -S gcc", "python"),
}


def toolchain_trouble(
    *, environ: Mapping[str, str] = os.environ, which: Which = shutil.which, include: Path | None = None
) -> tuple[str, str]:
    """What Triton would not find here, and the fix; both empty where it finds everything.

    Args:
        environ: its `CC` names the compiler.
        which: finds a program.
        include: the folder of Python's headers; this interpreter's own when None.
    """
    include = include or _include()
    named = environ.get("CC")
    lacking = []
    if not any(which(name) for name in ((named,) if named else ("gcc", "clang"))):
        lacking.append(f"the C compiler {named} (CC)" if named else "a C compiler")
    headers = (include / "Python.h").is_file()
    if not headers:
        lacking.append(f"{include / 'Python.h'}")
    if not lacking:
        return "", ""
    return " and ".join(lacking), _fix(which, headers)


def _fix(which: Which, headers: bool) -> str:
    release = f"{sys.version_info.major}.{sys.version_info.minor}"
    for manager, (compiler, package) in _INSTALL.items():
        if which(manager):
            return compiler if headers else f"{compiler} {package.format(release)}"
    return "install gcc" + ("" if headers else f" and the headers of Python {release}")


def _include() -> Path:
    scheme = sysconfig.get_default_scheme()
    # Debian's own scheme has no headers.
    return Path(sysconfig.get_paths("posix_prefix" if scheme == "posix_local" else scheme)["include"])
