"""A whole node on CUDA: `swarmd start` with a random model of half a billion parameters; rounds, kills, resumption, its end.

In a rehearsal the same on a CPU, with a model of a toy's size.
"""

import os
import signal
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.gpu.case import DEVICE, REHEARSAL, GpuCase
from tests.gpu.node import NEEDS, free_bytes, swarm_of_one

# A start of vLLM that compiles takes minutes; after a node's end CUDA takes a moment to give everything back.
PATIENCE_S = 600.0
LEFT_BYTES_MAX = 2**28
# So large that an engine with old weights would be seen: it, and the trainer, would disagree on what was likely.
LEARNING_RATE = "1e-2" if REHEARSAL else "1e-4"
RATIO_OFF_MAX = 0.1


class NodeCase(GpuCase):
    """A node in a folder of its own, which ends with the test."""

    needs = NEEDS

    def start(self, *arguments: str) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.swarm = swarm_of_one(Path(folder.name), *arguments)
        self.enterContext(self.swarm)
        self.free = free_bytes()
        (self.node,) = self.swarm.nodes
        self.start_again()

    def start_again(self) -> None:
        """Start the node; at the first round say how long that took."""
        began, done = time.monotonic(), len(self.records())
        self.swarm.start(0)
        self.until(lambda: len(self.records()) > done, "a round")
        self.report(f"from the start to the end of a round: {time.monotonic() - began:.0f} s")

    def until(self, condition: Any, what: str) -> Any:
        from tests.e2e.watch import until

        return until(condition, what, self.node, patience_s=PATIENCE_S)

    def records(self) -> list[dict[str, Any]]:
        from tests.e2e.history import records

        return records(self.node)

    def next_rounds(self, num: int) -> None:
        done = len(self.records())
        self.until(lambda: len(self.records()) >= done + num, f"{num} further rounds")

    def kill_policy(self) -> None:
        from tests.e2e.watch import restarts, status

        before = restarts(self.node, "generation")
        os.kill(status(self.node)["workers"]["generation"]["pid"], signal.SIGKILL)
        self.until(lambda: restarts(self.node, "generation") > before, "another policy process")

    def kill_node(self) -> None:
        from tests.e2e.watch import kill_daemon

        kill_daemon(self.node)
        self.device_is_free()

    def stop(self) -> None:
        """In order: by SIGTERM, as systemd does it."""
        process = self.node.process
        process.terminate()
        self.until(lambda: process.poll() is not None, "its end")
        self.assertEqual(process.returncode, 0, self.node.output()[-2000:])
        self.assertIn("Stopped after round", self.node.output())
        self.device_is_free()

    def device_is_free(self) -> None:
        """All that the node's processes held of the device is given back."""
        if DEVICE == "cuda":
            self.until(lambda: free_bytes() > self.free - LEFT_BYTES_MAX, "the device's memory")

    def versions_follow(self) -> None:
        """Each round's policy version is the one of the round before it, and one more where a step was taken."""
        versions: dict[int, int] = {0: 0}
        for record in self.records():
            number = record["round"]
            self.assertEqual(
                record["policy_version"], versions[number - 1] + (record["skipped"] is None), record
            )
            versions[number] = record["policy_version"]


class NodeOnCuda(NodeCase):
    def used_counters(self) -> int:
        with sqlite3.connect(f"file:{self.node.data_dir.root / 'node.sqlite'}?mode=ro", uri=True) as db:
            return int(db.execute("SELECT value FROM facts WHERE name = 'next_counter'").fetchone()[0])

    def rounds_to_lose(self) -> None:
        """Two rounds more than the newest checkpoint has."""
        from tests.e2e.history import newest_checkpoint
        from tests.e2e.watch import rounds

        self.until(
            lambda: 0 < newest_checkpoint(self.node) <= rounds(self.node) - 2, "rounds after a checkpoint"
        )

    def test_it_outlives_the_death_of_its_policy_and_its_own(self) -> None:
        from tests.e2e.history import newest_checkpoint, numbers, told, went_back

        self.start("--set", "policy.engine=transformers")
        self.rounds_to_lose()
        self.kill_policy()
        self.next_rounds(3)
        self.assertEqual(len(told(self.node)), 1, self.node.output())
        self.rounds_to_lose()
        used = self.used_counters()
        self.kill_node()
        self.start_again()
        self.assertGreater(self.used_counters(), used)
        self.next_rounds(2)
        self.stop()
        # of each loss the node says to which round it went back; a round of which it kept no record may be lost with it
        losses, backs = told(self.node), went_back(self.node)
        self.assertEqual([newest for _, newest in losses], [newest for _, newest in backs])
        self.assertTrue(all(num >= back for (num, _), (back, _) in zip(losses, backs, strict=True)), losses)
        self.assertEqual(len(losses), 2)
        self.versions_follow()
        self.assertEqual(newest_checkpoint(self.node), numbers(self.node)[-1])
        self.as_planned()

    def as_planned(self) -> None:
        """Every round under the first plan, on the fast path; the device is the one that was asked for."""
        steps = [record for record in self.records() if record["skipped"] is None]
        self.assertTrue(steps, "a round with a gradient")
        self.assertEqual({record["plan"] for record in self.records()}, {"resident"})
        self.assertTrue(all(record["fast_path"] for record in steps), steps[-1]["self_check"])
        self.assertIn(f"on {DEVICE}, shared", self.node.output())
        update_s = sorted(record["seconds_update"] for record in steps)[len(steps) // 2]
        generate_s = sorted(record["seconds_generate"] for record in self.records())[len(self.records()) // 2]
        self.report(
            f"{len(self.records())} rounds; median update {update_s:.2f} s, generation {generate_s:.2f} s"
        )


class NodeWithVllmOnCuda(NodeCase):
    """On CUDA through compiled code and CUDA graphs; vLLM's CPU build has neither."""

    needs = (*NEEDS, "vllm")

    def rounds_with_new_weights(self, placement: str) -> None:
        """Steps, and that the engine writes with their weights: it and the trainer agree on what is likely."""
        given = ("policy.engine=vllm", f"policy.placement={placement}", "experience.staleness_max=0")
        settings = (*given, f"update.learning_rate={LEARNING_RATE}")
        self.start(*(part for setting in settings for part in ("--set", setting)))
        self.until(lambda: len(self.steps()) >= 4, "four steps")
        self.kill_policy()
        before = len(self.steps())
        self.until(lambda: len(self.steps()) >= before + 2, "steps with another engine")
        self.assertIn("vllm 0.", self.node.output())
        self.stop()
        self.versions_follow()
        ratios = [record["mismatch_ratio_mean"] for record in self.steps()]
        self.report(f"{placement}: trainer over engine {min(ratios):.3f} to {max(ratios):.3f}")
        self.assertLess(max(abs(ratio - 1) for ratio in ratios), RATIO_OFF_MAX)
        if DEVICE == "cuda":
            compiled = list(self.node.data_dir.cache.glob("torch_compile_cache/*"))
            self.assertTrue(compiled, "what vLLM compiled")

    def steps(self) -> list[dict[str, Any]]:
        return [record for record in self.records() if record["skipped"] is None]

    def test_it_trains_the_engines_own_weights(self) -> None:
        self.rounds_with_new_weights("shared")
        self.assertNotIn("without one copy of the weights", self.node.output())

    def test_it_hands_weights_to_the_engine_of_another_process(self) -> None:
        self.rounds_with_new_weights("split")
