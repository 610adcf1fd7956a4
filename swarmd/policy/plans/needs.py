"""The table of needs: what a plan keeps on the device while it generates and while it updates, in bytes. Imports no torch.

Everything that follows from shapes is exact; what depends on libraries is measured, and says where.
"""

from dataclasses import dataclass, field
from typing import Self

from swarmd.config import Config
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.plans.shape import ModelShape

MIB = 2**20
# Tokens of a typical prompt, as in the paper.
PROMPT_TOKENS = 300
# Bytes a trained parameter on the device: masters and gradients in float32.
_MASTER_BYTES = _GRADIENT_BYTES = 4
# The process itself: interpreter, torch and transformers, measured at 0.33 GiB after the imports; and what the heap and the matrix
# products' workspaces hold beside tensors, 0.4 to 0.6 more during updates of 494 M parameters (LoRA and AdamW).
CPU_OVERHEAD_BYTES = 800 * MIB
# The self-check computes one layer at a time on so many tokens. A parameter of the layer takes so many bytes, by the bytes of a
# weight: its gradient in float32, and a copy in float32 of a narrow weight. One set of gradients is kept to compare with.
_CHECK_TOKENS, _CHECK_LAYER_BYTES, _CHECK_KEPT_BYTES = 350, {4: 4, 2: 8}, 2**23 * 4
# A CUDA context with the kernels of torch and cuBLAS, and what the caching allocator cannot use. An estimate, not measured by us.
CUDA_OVERHEAD_BYTES = 800 * MIB
# The optimizer on the host: masters, gradients that are kept between steps, and two moments, all float32; and its buffers, which
# `update.optimizers.staging` divides.
_HOST_OPTIMIZER_BYTES, HOST_BUFFER_BYTES = 16, 128 * MIB
# A process with torch's CUDA libraries and vLLM, in the host's memory. An estimate, not measured by us.
HOST_OVERHEAD_BYTES = 2048 * MIB
# vLLM holds this besides weights and cache: awake workspaces and captured graphs, asleep the graphs, which it does not give back.
# An estimate, not measured by us.
ENGINE_AWAKE_BYTES, ENGINE_ASLEEP_BYTES = 700 * MIB, 450 * MIB
# Bytes an element of the logits while one token is drawn from them: float32 logits and log-probs, float64 exponentials and sums.
_DRAW_BYTES = 4 + 4 + 8 + 8
# The head's gradient in a narrow model's own precision exists in parts of this size (`update.head`), before each is added to the
# wide one. A whole one is 445 MiB at 1.5 B parameters. A quarter would be products too small to fill a GPU.
NARROW_BLOCK_BYTES = 32 * MIB
# Kinds of models (`model_type`) whose weights vLLM lays out so that a learner's parameters can be views of them.
ONE_COPY_KINDS = frozenset({"gemma2", "llama", "mistral", "phi3", "qwen2", "qwen3"})


@dataclass(frozen=True)
class Work:
    """The work of a round, in numbers.

    Attributes:
        tokens_max: of a completion.
        num_rollouts: of a round, own and external ones.
        completions: of a rollout.
        generated_at_once: completions asked for in one go: a round's own, or an evaluation's.
        generate_batch_tokens: what generation holds at once.
        prompt_tokens: of a typical prompt.
    """

    tokens_max: int
    num_rollouts: int
    completions: int
    generated_at_once: int
    generate_batch_tokens: int
    prompt_tokens: int = PROMPT_TOKENS

    @classmethod
    def of(cls, config: Config) -> Self:
        """The work that the settings ask of a device."""
        policy, experience, evaluate = config.policy, config.experience, config.evaluate
        own = experience.num_local * experience.completions
        return cls(
            tokens_max=policy.tokens_max,
            num_rollouts=experience.num_local + config.num_external,
            completions=experience.completions,
            generated_at_once=max(own, evaluate.num_questions * evaluate.completions),
            generate_batch_tokens=policy.generate_batch_tokens,
        )

    def row_tokens(self, how: Execution) -> int:
        """Tokens of the largest row that is forwarded for an update; one completion is never cut."""
        rollout_tokens = self.prompt_tokens + self.completions * self.tokens_max
        longest = max(how.micro_batch_tokens, self.prompt_tokens + self.tokens_max)
        return min(self.num_rollouts * rollout_tokens, longest)


@dataclass(frozen=True)
class Where:
    """A device, and the roles that run there.

    Attributes:
        device: `cpu`, `cuda`, `cuda:N` or `mps`.
        engine: `vllm`, or `transformers`, which samples from the learner's module.
        generates, updates: which roles are on this device.
        apart: both are, in two processes that know nothing of each other.
        one_copy: vLLM's weights are the learner's parameters; otherwise it has a copy of its own.
    """

    device: str = "cuda"
    engine: str = "vllm"
    generates: bool = True
    updates: bool = True
    apart: bool = False
    one_copy: bool = False

    @property
    def element_bytes(self) -> int:
        """Bytes of a weight: float32 on a CPU, bfloat16 on an accelerator."""
        return 4 if self.device == "cpu" else 2

    @property
    def grouped(self) -> bool:
        """Whether attention copies no key for the heads that share it; see `update.attention.takes_groups`."""
        return self.device == "cpu"


@dataclass(frozen=True)
class Need:
    """One row: bytes while generating, and while updating."""

    name: str
    generate_bytes: int = 0
    update_bytes: int = 0


@dataclass(frozen=True)
class Needs:
    """The table of one plan; `host_bytes` are in the host's memory, where that is not the device's."""

    rows: tuple[Need, ...] = field(default=())
    host_bytes: int = 0

    @property
    def generate_bytes(self) -> int:
        return sum(row.generate_bytes for row in self.rows)

    @property
    def update_bytes(self) -> int:
        return sum(row.update_bytes for row in self.rows)

    @property
    def peak_bytes(self) -> int:
        """The larger phase."""
        return max(self.generate_bytes, self.update_bytes)


def needs(shape: ModelShape, work: Work, how: Execution, where: Where) -> Needs:
    """The table of `shape` at `work`, carried out so, run `where`. Phases that do not happen there are zero."""
    live = (
        where.updates or where.engine != "vllm"
    )  # a process that only generates, with vLLM, loads no other model
    overhead = CPU_OVERHEAD_BYTES if where.device == "cpu" else CUDA_OVERHEAD_BYTES
    rows = [
        _always("weights", shape.num_parameters * where.element_bytes if live else 0),
        *(_training(shape, work, how, where) if where.updates else ()),
        *(_generation(shape, work, how, where) if where.generates else ()),
        _always("process and libraries", overhead * (2 if where.apart else 1)),
    ]
    keeps = (where.generates, where.updates)
    return Needs(
        tuple(Need(row.name, row.generate_bytes * keeps[0], row.update_bytes * keeps[1]) for row in rows),
        0 if where.device == "cpu" else _host_bytes(shape, how, where),
    )


def _host_bytes(shape: ModelShape, how: Execution, where: Where) -> int:
    """Masters, gradients and both moments of an optimizer on the host, with its buffers; and the process."""
    on_host = where.updates and how.kind.on_host
    # While vLLM generates, adapters are merged into the one copy, and the matrices under them wait on the host.
    merged = shape.num_layers * shape.num_in_layer * where.element_bytes
    merged *= where.one_copy and how.kind.adapters
    optimizer = shape.num_parameters * _HOST_OPTIMIZER_BYTES + HOST_BUFFER_BYTES
    return HOST_OVERHEAD_BYTES * (2 if where.apart else 1) + (optimizer if on_host else 0) + merged


def _always(name: str, size_bytes: float) -> Need:
    return Need(name, int(size_bytes), int(size_bytes))


def _training(shape: ModelShape, work: Work, how: Execution, where: Where) -> list[Need]:
    kind = how.kind
    trained = shape.num_lora(how.lora_rank) if kind.adapters else shape.num_parameters
    # a float32 model is its own master; the adapters are float32 themselves, and the host keeps its own
    copies = where.element_bytes < 4 or kind.adapters
    rows = [_always("master weights", trained * _MASTER_BYTES if copies and not kind.on_host else 0)]
    embedding = 0 if kind.adapters else shape.num_embedding
    moments = embedding * kind.embedding_moment_bytes + (trained - embedding) * kind.moment_bytes
    rows.append(_always("optimizer moments", moments))
    # To the host they leave one by one, but for the head's, which is added up first.
    of_head, of_layer = shape.num_embedding * _GRADIENT_BYTES, shape.num_in_layer * where.element_bytes
    rows.append(Need("gradients", 0, of_head + of_layer if kind.on_host else trained * _GRADIENT_BYTES))
    kept = activation_bytes(shape, work, how, where.element_bytes, grouped=where.grouped)
    after_head = kept + layer_backward_bytes(shape, work, how, where.element_bytes)
    in_head = kept + tile_bytes(shape, work, how, where.element_bytes)
    # The lookup's backward makes a gradient of the whole embedding, when the activations are already gone.
    at_the_end = embedding * where.element_bytes
    rows.append(Need("activations", 0, kept))
    in_check = check_bytes(shape, where.element_bytes)
    if kind.on_host:  # where a part of the row "gradients" is not there yet, or no longer
        in_head, at_the_end = in_head - of_layer, at_the_end - of_head
        in_check -= of_head + of_layer
    rows.append(Need("logits, backward", 0, max(kept, after_head, in_head, at_the_end, in_check) - kept))
    return rows


def check_bytes(shape: ModelShape, element_bytes: int) -> int:
    """What the self-check takes, before the first micro-batch."""
    in_layer = shape.num_in_layer
    activations = _CHECK_TOKENS * 4 * (4 * shape.intermediate + 10 * (shape.hidden + shape.num_attention))
    return in_layer * _CHECK_LAYER_BYTES[element_bytes] + min(_CHECK_KEPT_BYTES, 4 * in_layer) + activations


def activation_bytes(
    shape: ModelShape, work: Work, how: Execution, element_bytes: int, *, grouped: bool
) -> int:
    """Bytes that the forward keeps for the backward of one row.

    Counted with torch's saved-tensor hooks on Qwen2 shapes (hidden 256 to 896, 1 to 4 layers, 4 to 14 heads), float32 and bfloat16,
    packed rows of short and of long groups; the formula is exact to 2 % there. With checkpointing a layer keeps its input.
    """
    in_layer = _layer_bytes(shape, work, how, element_bytes, grouped)
    if how.checkpointing:
        return work.row_tokens(how) * shape.num_layers * shape.hidden * element_bytes + in_layer
    return shape.num_layers * in_layer


def _layer_bytes(shape: ModelShape, work: Work, how: Execution, element_bytes: int, grouped: bool) -> int:
    """A layer's own activations: four products of the MLP; its two norms; attention, whose keys and values are laid out anew
    for every completion with its prompt before it; and the masks.

    A norm keeps three rows in float32, four in bfloat16, which it computes in float32.
    """
    prompt, completions = work.prompt_tokens, work.completions * work.tokens_max
    copies = (work.completions * prompt + completions) / (prompt + completions)
    keys = shape.num_kv_heads * shape.head_dim if grouped else shape.num_attention
    attention = 3 * shape.num_attention + 2 * keys * (1 + copies)
    masks = (prompt + work.tokens_max) * completions / (prompt + completions)
    norms = shape.hidden * (6 if element_bytes == 4 else 8)
    return int(work.row_tokens(how) * element_bytes * (4 * shape.intermediate + norms + attention + masks))


def layer_backward_bytes(shape: ModelShape, work: Work, how: Execution, element_bytes: int) -> int:
    """Gradients of one layer's activations while the next layer's are made: three of the MLP and two of the hidden states."""
    return work.row_tokens(how) * element_bytes * (3 * shape.intermediate + 2 * shape.hidden)


def tile_bytes(shape: ModelShape, work: Work, how: Execution, element_bytes: int) -> int:
    """A tile of logits in float32, and once more while their sum of exponentials is taken; see `update.head`.

    A narrow model also has the tile, and a part of the head's gradient, in its own precision.
    """
    tile = min(how.head_tile, work.row_tokens(how)) * shape.vocab
    part = min(shape.num_embedding * element_bytes, NARROW_BLOCK_BYTES)
    narrow = tile * element_bytes + part if element_bytes < 4 else 0
    return max(tile * 8, tile * 4 + narrow)


def _generation(shape: ModelShape, work: Work, how: Execution, where: Where) -> list[Need]:
    """The engine. Its own weights and cache stay on the device during an update, unless it sleeps."""
    element_bytes, width = where.element_bytes, work.prompt_tokens + work.tokens_max
    own_weights = 0 if where.one_copy else shape.num_parameters * element_bytes
    if where.engine == "vllm":
        cache = work.generate_batch_tokens * shape.kv_bytes_per_token(element_bytes)
        if how.engine_sleeps:
            rest = Need("engine", ENGINE_AWAKE_BYTES, ENGINE_ASLEEP_BYTES)
            return [Need("engine weights", own_weights), Need("key-value cache", cache), rest]
        rest = _always("engine", ENGINE_AWAKE_BYTES)
        return [_always("engine weights", own_weights), _always("key-value cache", cache), rest]
    rows = min(work.generated_at_once, max(work.generate_batch_tokens // width, 1))
    cache, drawing = rows * width * shape.kv_bytes_per_token(element_bytes), rows * shape.vocab * _DRAW_BYTES
    if where.apart:  # nothing keeps the two processes from working at the same time
        return [
            _always("engine weights", own_weights),
            _always("key-value cache", cache),
            _always("drawing tokens", drawing),
        ]
    return [Need("key-value cache", cache), Need("drawing tokens", drawing)]
