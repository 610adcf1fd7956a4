"""What the parts of a round wait for and copy, on the pretend device: `python -m tests.bench.round_counts MODEL_DIR ASKED`.

`ASKED` is JSON: the arguments of `generate`, and the prompts and texts of external rollouts. Prints one JSON object: the parts.
"""

import json
import sys
from collections import Counter
from typing import Any

import torch
from transformers import PreTrainedModel

from swarmd.policy.generation.shared_weights import load_beside
from tests.bench.round_parts import TimedPolicy
from tests.bench.round_work import training_set
from tests.policy.pretend import device
from tests.policy.pretend.device import DEVICE, Pretend, put_on_device
from tests.policy.settings import config


def counted() -> Counter[str]:
    """Everything that the device has counted so far."""
    now = device.counts
    return Counter(
        waits=sum(now.syncs.values()),
        uploads=sum(now.uploads.values()),
        background=sum(now.background.values()),
    )


class PretendPolicy(TimedPolicy):
    """Its model is on the pretend device."""

    counted = staticmethod(counted)

    def _live_model(self) -> PreTrainedModel:
        if self._model is None:
            self._model, _ = load_beside(self._engine, self._model_dir, "cpu")
            put_on_device(self._model.to(torch.bfloat16))
        return self._model


def main(folder: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The parts of a second round; the first one checks and chooses."""
    policy = PretendPolicy(
        lambda event: None,
        roles=["generate", "update"],
        model_dir=folder,
        device=str(DEVICE),
        config=config(
            tokens_max=asked["generate"]["tokens_max"], engine="transformers", threads=1
        ).model_dump_json(),
        checkpoints_dir=None,
    )
    with Pretend():
        policy.start()
        for number in (1, 2):
            policy.parts()
            made = policy.generate(**asked["generate"])
            policy.update(
                training_set(asked["generate"]["prompts"], made, asked["external"]), number, {}, "no"
            )
        return policy.parts()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))
