"""From a checkpoint to a live model and its learner, also under another optimizer than the one that wrote it."""

from pathlib import Path

from torch import nn

from swarmd.policy.state.checkpoints import MODEL_FILE, read_optimizer
from swarmd.policy.state.weights import load_weights, stands_on
from swarmd.policy.update.learner import Learner


def load_checkpoint(folder: Path, model: nn.Module, learner: Learner) -> str:
    """Take a checkpoint's weights, and what the learner's optimizer needs.

    Weights always carry over. Moments and adapters do where the same kind of optimizer saved them; where not they start at zero,
    and the return value says so in words for the operator. Otherwise it is empty.

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
