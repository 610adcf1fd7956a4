"""A setting is declared once: one new line in a section, and the learner and its ranks have it, in range and in the manual."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import swarmd
from tests.policy.folders import build_folder

BEFORE = "    mask_unfinished: bool = Field("
DECLARATION = '    novelty: float = Field(0.25, ge=0, le=1, description="Tried by a test.")\n'
# From the command line's text to both ends of the process boundaries, with nothing but the functions that a node uses.
WAY = """
import sys
from pathlib import Path
import swarmd
from swarmd.config import load_config, reference
from swarmd.files.datadir import DataDir
from swarmd.errors import ConfigError
from swarmd.node.children import child_specs, place
from swarmd.policy.service import PolicyService
from swarmd.policy.update.rank import Rank
from swarmd.processes.frames import FrameReader, encode_frame
from swarmd.protocol.manifest import load_manifest

tree, model_dir, place_of = sys.argv[1:4]
assert Path(swarmd.__file__).is_relative_to(tree), swarmd.__file__
flags = {"policy.model": model_dir, "policy.device": "cpu", "swarm.solo": "true", "update.novelty": "0.75"}
config = load_config(flags=flags, environ={})
specs = child_specs(config, DataDir(Path(place_of)), seed=bytes(32), manifest=load_manifest("tiny"),
    model_dir=Path(model_dir), placement=place("auto", "cpu", 0))
(args,) = FrameReader(dict).feed(encode_frame(specs["generation"].args()))
policy = PolicyService(lambda name, data: None, **args)
policy.start()
learner = policy._learner.learner
how = list(learner.how)
rank = Rank(print, model_dir=model_dir, device="cpu", config=learner.config.model_dump_json(), how=how)
rank.start()
print(learner.config.update.novelty, rank._learner.config.update.novelty, "| `novelty` |" in reference())
try:
    load_config(flags={"update.novelty": "1.5"}, environ={})
except ConfigError as error:
    print(error.what)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one more setting."""
    root = tmp_path_factory.mktemp("tree")
    source = Path(swarmd.__file__).parent
    shutil.copytree(source, root / "swarmd", ignore=shutil.ignore_patterns("__pycache__"))
    sections = root / "swarmd" / "config" / "model_sections.py"
    text = sections.read_text()
    assert text.count(BEFORE) == 1
    sections.write_text(text.replace(BEFORE, DECLARATION + BEFORE))
    return root


def test_one_declaration_reaches_the_learner_and_its_ranks(tree: Path, tmp_path: Path) -> None:
    model_dir = build_folder(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", WAY, str(tree), str(model_dir), str(tmp_path / "data")],
        env={"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert told[0] == "0.75 0.75 True"
    assert "'update.novelty': Input should be less than or equal to 1" in told[1]
