"""The update on CUDA against the plain pass, against the CPU, and against itself after a restart."""

import torch
from torch import Tensor

from swarmd.policy.update.learner import Learner
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.packing import first_fit
from swarmd.policy.update.passes import Trained, packed_pass, plain_pass
from swarmd.policy.update.weighting import weigh
from tests.gpu.case import DEVICE, GpuCase
from tests.gpu.rounds import SMALL, TOY, build, round_of
from tests.policy.settings import config, execution, learner_with

VOCAB = int(str(TOY["vocab_size"]))
# The large epsilon keeps Adam from dividing a gradient that is rounding by its own size, so that two runs can be compared.
SETTINGS = config(learning_rate=1e-3, adam_eps=1e-3), execution(micro_batch_tokens=96)
NARROW, WIDE = torch.bfloat16, torch.float32


def gradients(device: str, dtype: torch.dtype, *, packed: bool) -> dict[str, Tensor]:
    """Of one round, on the CPU in float32."""
    model = build(TOY, dtype, device=device, spread=0.15)
    masters = MasterWeights(model)
    run = packed_pass if packed else plain_pass
    for pack in first_fit(weigh(round_of(SMALL, VOCAB), SETTINGS[0]), SETTINGS[1].micro_batch_tokens):
        run(Trained(model, masters, *SETTINGS), pack, True)
    return {name: gradient.float().cpu() for name, gradient in masters.gradients().items()}


def difference(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """Of all gradients together, relative."""
    assert found.keys() == wanted.keys()
    apart = torch.stack([(found[name] - wanted[name]).norm() for name in wanted]).norm()
    return (apart / torch.stack([gradient.norm() for gradient in wanted.values()]).norm()).item()


def snapshot(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().float().cpu().clone() for name, p in model.named_parameters()}


def changes(learner: Learner, before: dict[str, Tensor]) -> dict[str, Tensor]:
    """What updates made of the weights, tied ones once."""
    return {name: weight - before[name] for name, weight in snapshot(learner.model).items()}


class PassesOnCuda(GpuCase):
    def test_float32_gradients_of_both_passes_are_the_cpus(self) -> None:
        wanted = gradients("cpu", WIDE, packed=False)
        for packed in (False, True):
            apart = difference(gradients(DEVICE, WIDE, packed=packed), wanted)
            self.report(
                f"{'packed' if packed else 'plain'} pass in float32: {apart:.1e} from the CPU's plain pass"
            )
            self.assertLess(apart, 1e-3)

    def test_bfloat16_costs_the_packed_pass_no_more_than_the_plain_one(self) -> None:
        wanted = gradients("cpu", WIDE, packed=False)
        plain, packed = (difference(gradients(DEVICE, NARROW, packed=way), wanted) for way in (False, True))
        self.report(f"bfloat16 from float32: plain {plain:.1e}, packed {packed:.1e}")
        self.assertLess(packed, max(1.5 * plain, 1e-2))
        self.assertLess(plain, 0.2)

    def test_the_self_check_passes_in_both_precisions(self) -> None:
        for dtype in (WIDE, NARROW):
            learner = Learner(build(TOY, dtype, spread=0.15), *SETTINGS, device=DEVICE)
            stats = learner.update(round_of(SMALL, VOCAB))
            self.report(f"{dtype}: {stats.self_check}")
            self.assertTrue(stats.fast_path, stats.self_check)


class UpdatesOnCuda(GpuCase):
    def test_three_updates_end_where_the_cpus_end(self) -> None:
        ends = []
        for device in ("cpu", DEVICE):
            learner = Learner(build(TOY, WIDE, device=device, spread=0.15), *SETTINGS, device=device)
            before = snapshot(learner.model)
            for seed in range(3):
                self.assertEqual(learner.update(round_of(SMALL, VOCAB, seed=seed)).num_steps, 1)
            ends.append(changes(learner, before))
        apart = difference(ends[1], ends[0])
        self.report(f"weight changes after 3 updates: {apart:.1e} from the CPU's")
        self.assertLess(apart, 1e-3)

    def test_a_small_step_survives_in_the_masters_of_a_bfloat16_model(self) -> None:
        learner = learner_with(build(TOY, NARROW), learning_rate=1e-6, device=DEVICE)
        name = "model.layers.0.mlp.up_proj.weight"
        before = learner.model.get_parameter(name).detach().clone()
        learner.update(round_of(SMALL, VOCAB))
        master = learner.optimizer_tensors()[f"master/{name}"]
        moved = (master != before.float()).float().mean().item()
        visible = (learner.model.get_parameter(name) != before).float().mean().item()
        self.report(
            f"learning rate 1e-6: {moved:.0%} of the masters moved, {visible:.1%} of the bfloat16 weights"
        )
        self.assertGreater(moved, 0.9)
        self.assertEqual(master.dtype, WIDE)

    def test_a_learner_restored_from_its_tensors_goes_on_as_if_it_had_not_stopped(self) -> None:
        for dtype in (WIDE, NARROW):
            learner = Learner(build(TOY, dtype), *SETTINGS, device=DEVICE)
            learner.update(round_of(SMALL, VOCAB))
            model = build(TOY, dtype)
            model.load_state_dict(learner.model.state_dict())
            restored = Learner(model, *SETTINGS, device=DEVICE)
            restored.load_optimizer_tensors(
                {n: t.cpu().clone() for n, t in learner.optimizer_tensors().items()}
            )
            before = snapshot(model)
            losses = [one.update(round_of(SMALL, VOCAB, seed=1)).loss for one in (learner, restored)]
            self.assertAlmostEqual(losses[0], losses[1], delta=1e-4)
            moves = [changes(one, before) for one in (learner, restored)]
            apart = difference(moves[1], moves[0])
            self.report(f"{dtype}: the next update differs by {apart:.1e}")
            self.assertLess(apart, 1e-3 if dtype == WIDE else 5e-2)

    def test_checkpointing_changes_no_gradient(self) -> None:
        found = []
        for checkpointing in (False, True):
            model = build(TOY, WIDE, spread=0.15)
            learner = learner_with(model, micro_batch_tokens=96, checkpointing=checkpointing, device=DEVICE)
            found.append(learner.gradients(round_of(SMALL, VOCAB))[1])
        self.assertLess(difference(found[1], found[0]), 1e-4)
