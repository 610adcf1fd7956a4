"""Which checkpoint a policy goes on from, and from the checkpoint to a live model and its learner."""

from pathlib import Path

from torch import nn

from swarmd.errors import StateError
from swarmd.policy.state.checkpoints import MODEL_FILE, Found, newest_valid, read_optimizer, recover
from swarmd.policy.state.weights import load_weights, stands_on
from swarmd.policy.update.learner import Learner


def newest_of(directory: Path, model: str, *, writes: bool) -> Found:
    """The newest good checkpoint of `model`. Only the one process that `writes` checkpoints may tidy the folder up.

    Raises:
        StateError: there are some and none is good, or the newest is another model's or a later program's.
    """
    found = (recover if writes else newest_valid)(directory)
    if found.path is None and found.skipped and not writes:
        # Rounds went by while a large one was read, and each was replaced. To go on with the first weights would be silent.
        raise StateError(f"no checkpoint in {directory} could be read", "; ".join(found.skipped))
    if found.path is not None and found.model != model:
        raise StateError(
            f"the checkpoints in {directory} are of model {found.model}, not {model}",
            "a checkpoint holds one model's weights and optimizer",
            f"go on with --model {found.model}, or move the checkpoints away to start afresh",
        )
    return found


def load_checkpoint(folder: Path, model: nn.Module, learner: Learner) -> str:
    """Take a checkpoint's weights, and what the learner's optimizer needs; the optimizer may be another than the one that saved.

    Weights always carry over. Moments and adapters carry over where the same kind of optimizer saved them. Where they start at
    zero the return value says so in words for the operator; otherwise it is empty.

    Raises:
        StateError: the files cannot be read, or are another model's.
    """
    file = folder / MODEL_FILE
    tensors = read_optimizer(folder)
    if not learner.needs_weights(tensors):
        if stands_on(model, file):
            return learner.load_optimizer_tensors(tensors)
        load_weights(model, file)
        learner.weights_changed()
        return "the adapters start at zero, on the merged weights: the model's folder no longer holds what they were made on"
    load_weights(model, file)
    learner.weights_changed()
    return learner.load_optimizer_tensors(tensors)
