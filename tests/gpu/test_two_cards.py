"""An update over two GPUs gives the single GPU's weights; needs two."""

import tempfile
from pathlib import Path

import torch

from swarmd.policy.model.loading import load_model
from swarmd.policy.update.learner import Learner
from tests.gpu.case import GpuCase
from tests.gpu.rounds import SMALL, TOY, build, round_of
from tests.gpu.test_learner import VOCAB, changes, difference, snapshot
from tests.policy.settings import config, execution

SETTINGS = config(learning_rate=1e-3, adam_eps=1e-3), execution(micro_batch_tokens=96)


class TwoCards(GpuCase):
    needs_cuda = True

    def test_three_updates_over_two_cards_end_where_ones_on_one_card_end(self) -> None:
        from swarmd.policy.update.parallel import ParallelLearner

        if torch.cuda.device_count() < 2:
            self.skipTest(f"{torch.cuda.device_count()} GPU, two are needed")
        with tempfile.TemporaryDirectory() as folder:
            build(TOY, torch.float32, device="cpu", spread=0.15).save_pretrained(folder)
            single = Learner(load_model(Path(folder), "cuda:0"), *SETTINGS, device="cuda:0")
            spread = ParallelLearner(
                load_model(Path(folder), "cuda:0"),
                *SETTINGS,
                devices=("cuda:0", "cuda:1"),
                model_dir=Path(folder),
            )
            self.addCleanup(spread.release)
            before = snapshot(single.model)
            for seed in range(3):
                for learner in (single, spread):
                    self.assertEqual(learner.update(round_of(SMALL, VOCAB, seed=seed)).num_steps, 1)
            apart = difference(changes(spread, before), changes(single, before))
            self.report(f"weight changes over two cards: {apart:.1e} from one card's")
            self.assertLess(apart, 5e-2)  # in bfloat16, where a weight's last bit is 0.4 % of it
