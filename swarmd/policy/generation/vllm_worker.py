"""A mixin for the worker of vLLM, which finds it by its dotted name: shows its weights, takes new ones. Imports nothing heavy."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class TakesWeights:
    """Methods beside vLLM's own, called by name through `collective_rpc`; the prefix keeps clear of vLLM's names."""

    reload_weights: "Callable[..., None]"
    model_runner: "GPUModelRunner"

    def swarmd_tensors(self) -> dict[str, "Tensor"]:
        """The live parameters by vLLM's names; a tied one under each of its names."""
        model = self.model_runner.get_model()
        return {name: one.data for name, one in model.named_parameters(remove_duplicate=False)}

    def swarmd_take_weights(self, tensors: Iterator[tuple[str, "Tensor"]]) -> None:
        """Replace the weights in place by `tensors`, which carry the names and shapes of the model's folder.

        vLLM itself complains of nothing: a missing tensor stays empty, and one of a wrong shape leaves a worker that no later
        reload mends. The caller has checked both.
        """
        self.reload_weights(weights_iterator=tensors)
        self._repack_tied_head()

    def _repack_tied_head(self) -> None:
        """On a CPU the head is multiplied from a packed copy, which a reload makes anew for layers with weights of their own.

        A head that is the embedding has none, and would go on answering with the old ones (vLLM 0.32 and 0.33).
        """
        from vllm.platforms import current_platform

        head = getattr(self.model_runner.get_model(), "lm_head", None)
        if not current_platform.is_cpu() or head is None:
            return
        if getattr(self.model_runner.model_config.hf_text_config, "tie_word_embeddings", False):
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(head, remove_weight=False)
