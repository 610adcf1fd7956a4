"""Makes the data directory that a version leaves behind: `python -m tests.upgrade.keep`, once before each release.

Two real nodes share rollouts for a few rounds; the first one's directory goes into `VERSION.tar.xz` beside this file, with the
model's folder and the swarm's manifest. The model is as small as a Qwen2 can be, so that the archive is too.
"""

import os
import sys
import tarfile
import tempfile
from pathlib import Path

from transformers import AutoTokenizer

from swarmd import __version__
from swarmd.experiment.swarms.local_swarm import LocalSwarm
from swarmd.tiny import model_dir
from tests.e2e.manifests import sealed_toml
from tests.e2e.test_unlike_nodes import MANIFEST, SETTINGS, build
from tests.e2e.watch import rounds, status, until

HERE = Path(__file__).parent
# Named as the node is told them, from the folder in which all lies.
ARGUMENTS = (*SETTINGS, "--model", "./model", "--swarm", "./swarm.toml", "--set", "checkpoint.keep=1")
NODE, BANNED = "node-0", "12D3KooWBmwkafWE2fqfzS96VoTZgpGp6aJsF4N7eHAs5SHjDZ6H"
LEFT_OUT = {"cache", "logs", "output.log", "lock", "control.sock"}


def main() -> None:
    """Run the nodes and write the archive."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.chdir(root)
        build(root / "model", AutoTokenizer.from_pretrained(model_dir()), hidden=32, layers=1)
        (root / "swarm.toml").write_bytes(sealed_toml(MANIFEST))
        with LocalSwarm(root, 2, arguments=ARGUMENTS) as swarm:
            swarm.start()
            node = swarm.nodes[0]
            until(
                lambda: rounds(node) >= 5 and status(node)["buffer"]["num_rollouts"], "rounds", *swarm.nodes
            )
            assert node.ask(f"/v1/ban?peer_id={BANNED}&reason=kept", method="POST"), "the ban failed"
            swarm.stop(evaluate=False)
        target = HERE / f"{__version__}.tar.xz"
        with tarfile.open(target, "w:xz") as archive:
            for name in ("model", "swarm.toml", NODE):
                archive.add(root / name, name, filter=_kept)
    print(f"{target}: {target.stat().st_size / 1e3:.0f} kB", file=sys.stderr)


def _kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without what a start makes anew, and without the names of this machine's users."""
    if LEFT_OUT & set(Path(info.name).parts):
        return None
    info.uname = info.gname = ""
    info.uid = info.gid = 0
    return info


if __name__ == "__main__":
    main()
