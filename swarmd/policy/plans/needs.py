"""The table of needs: what a plan keeps on the device while it generates and while it updates, in bytes. Imports no torch.

Everything that follows from shapes is exact; what depends on libraries is measured, and says where.
"""

from dataclasses import dataclass, field

from swarmd.policy.plans.shape import ModelShape

MIB = 2**20
# Bytes a trained parameter on the device: masters and gradients in float32, moments of Adam.
# 8 bit: two bytes, and two float32 scales for each block of 256 values.
_MASTER_BYTES = _GRADIENT_BYTES = 4
_MOMENT_BYTES = {"adamw": 8.0, "adam-8bit": 2 + 8 / 256, "host": 0.0, "lora": 8.0}
# The process itself: interpreter, torch and transformers, measured at 0.33 GiB after the imports; and what the heap and the matrix
# products' workspaces hold beside tensors, 0.4 to 0.6 more during updates of 494 M parameters (LoRA and AdamW).
CPU_OVERHEAD_BYTES = 800 * MIB
# The self-check's longest sequence, whose logits the plain pass computes at every position: as logits, as their gradient, and once
# in between. Measured: 0.33 GiB above the later updates, with LoRA on a CPU.
_CHECK_TOKENS, _CHECK_BYTES = 184, 3 * 4
# A CUDA context with the kernels of torch and cuBLAS, and what the caching allocator cannot use. An estimate, not measured by us.
CUDA_OVERHEAD_BYTES = 800 * MIB
# What vLLM holds besides weights and cache, awake (workspaces, captured graphs) and asleep. An estimate, not measured by us.
ENGINE_AWAKE_BYTES, ENGINE_ASLEEP_BYTES = 700 * MIB, 300 * MIB
# Bytes an element of the logits while one token is drawn from them: float32 logits and log-probs, float64 exponentials and sums.
_DRAW_BYTES = 4 + 4 + 8 + 8


@dataclass(frozen=True)
class Work:
    """What is generated and trained on, and how it is cut.

    Attributes:
        prompt_tokens: of a typical prompt; 300 are the paper's.
        tokens_max: of a completion.
        num_local, num_external, completions: the mix I/J and L.
        generated_at_once: completions asked for in one go: a round's own, or an evaluation's.
        micro_batch_tokens, head_tile, gradient_checkpointing, optimizer, lora_rank: see `UpdateSettings`.
        generate_batch_tokens: what generation holds at once.
        engine_sleeps: during an update.
    """

    prompt_tokens: int = 300
    tokens_max: int = 256
    num_local: int = 4
    num_external: int = 4
    completions: int = 8
    generated_at_once: int = 256
    micro_batch_tokens: int = 4096
    head_tile: int = 1024
    gradient_checkpointing: bool = False
    optimizer: str = "adamw"
    lora_rank: int = 32
    generate_batch_tokens: int = 16384
    engine_sleeps: bool = False

    @property
    def rollout_tokens(self) -> int:
        """Forwarded tokens of one rollout, its prompt once."""
        return self.prompt_tokens + self.completions * self.tokens_max

    @property
    def row_tokens(self) -> int:
        """Tokens of the largest row that is forwarded for an update; one completion is never cut."""
        round_tokens = (self.num_local + self.num_external) * self.rollout_tokens
        return min(round_tokens, max(self.micro_batch_tokens, self.prompt_tokens + self.tokens_max))


@dataclass(frozen=True)
class Where:
    """What runs on the device, and how.

    Attributes:
        device: `cpu`, `cuda`, `cuda:N` or `mps`.
        engine: `vllm`, which has weights of its own, or `transformers`, which samples from the learner's.
        generates, updates: which roles are on this device.
        apart: both are, in two processes that know nothing of each other.
    """

    device: str = "cuda"
    engine: str = "vllm"
    generates: bool = True
    updates: bool = True
    apart: bool = False

    @property
    def element_bytes(self) -> int:
        """Of a weight: float32 on a CPU, bfloat16 on an accelerator."""
        return 4 if self.device == "cpu" else 2


@dataclass(frozen=True)
class Need:
    """One row: bytes while generating, and while updating."""

    name: str
    generate_bytes: int = 0
    update_bytes: int = 0


@dataclass(frozen=True)
class Needs:
    """The table of one plan."""

    rows: tuple[Need, ...] = field(default=())

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


def needs(shape: ModelShape, work: Work, where: Where) -> Needs:
    """The table of `shape` at `work`, run `where`. Phases that do not happen there are zero."""
    live = (
        where.updates or where.engine != "vllm"
    )  # a process that only generates, with vLLM, loads no other model
    overhead = CPU_OVERHEAD_BYTES if where.device == "cpu" else CUDA_OVERHEAD_BYTES
    rows = [
        _always("weights", shape.num_parameters * where.element_bytes if live else 0),
        *(_training(shape, work, where) if where.updates else ()),
        *(_generation(shape, work, where) if where.generates else ()),
        _always("process and libraries", overhead * (2 if where.apart else 1)),
    ]
    keeps = (where.generates, where.updates)
    return Needs(
        tuple(Need(row.name, row.generate_bytes * keeps[0], row.update_bytes * keeps[1]) for row in rows)
    )


def _always(name: str, size_bytes: float) -> Need:
    return Need(name, int(size_bytes), int(size_bytes))


def _training(shape: ModelShape, work: Work, where: Where) -> list[Need]:
    trained = shape.num_lora(work.lora_rank) if work.optimizer == "lora" else shape.num_parameters
    # a float32 model is its own master; the adapters are float32 themselves, and the host keeps its own
    copies = where.element_bytes < 4 or work.optimizer == "lora"
    on_host = work.optimizer == "host"
    rows = [_always("master weights", trained * _MASTER_BYTES if copies and not on_host else 0)]
    # 8 bits are not for the embedding, whose rows are seldom touched: see `optimizers.adam_8bit.moments_in_full`
    in_full = shape.num_embedding if work.optimizer == "adam-8bit" else 0
    narrow_bytes = (trained - in_full) * _MOMENT_BYTES[work.optimizer]
    rows.append(_always("optimizer moments", in_full * _MOMENT_BYTES["adamw"] + narrow_bytes))
    # To the host they leave one by one, but for the head's, which is added up first.
    on_their_way = shape.num_embedding * _GRADIENT_BYTES + shape.num_in_layer * where.element_bytes
    rows.append(Need("gradients", 0, on_their_way if on_host else trained * _GRADIENT_BYTES))
    kept = activation_bytes(shape, work, where.element_bytes)
    after_head = kept + layer_backward_bytes(shape, work, where.element_bytes)
    in_head = kept + tile_bytes(shape, work, where.element_bytes)
    # The lookup's backward makes a gradient of the whole embedding, when the activations are already gone.
    at_the_end = 0 if work.optimizer == "lora" else shape.num_embedding * where.element_bytes
    rows.append(Need("activations", 0, kept))
    in_check = kept + _CHECK_TOKENS * shape.vocab * _CHECK_BYTES
    rows.append(Need("logits, backward", 0, max(after_head, in_head, at_the_end, in_check) - kept))
    return rows


def activation_bytes(shape: ModelShape, work: Work, element_bytes: int) -> int:
    """What the forward keeps for the backward of one row.

    Counted with torch's saved-tensor hooks on Qwen2 shapes (hidden 256 to 896, 1 to 4 layers, 4 to 14 heads), float32 and bfloat16,
    packed rows of short and of long groups; the formula is exact to 2 % there. With checkpointing a layer keeps its input.
    """
    tokens = work.row_tokens
    if work.gradient_checkpointing:
        return tokens * shape.num_layers * shape.hidden * element_bytes + _layer_bytes(
            shape, work, element_bytes
        )
    return shape.num_layers * _layer_bytes(shape, work, element_bytes)


def _layer_bytes(shape: ModelShape, work: Work, element_bytes: int) -> int:
    """A layer's own activations: four products of the MLP; its two norms; attention, whose keys and values are laid out anew
    for every completion with its prompt before it; and the masks.

    A norm keeps three rows in float32, four in bfloat16, which it computes in float32.
    """
    prompt, completions = work.prompt_tokens, work.completions * work.tokens_max
    copies = (work.completions * prompt + completions) / (prompt + completions)
    attention = shape.num_attention * (5 + 2 * copies)
    masks = (prompt + work.tokens_max) * completions / (prompt + completions)
    norms = shape.hidden * (6 if element_bytes == 4 else 8)
    return int(work.row_tokens * element_bytes * (4 * shape.intermediate + norms + attention + masks))


def layer_backward_bytes(shape: ModelShape, work: Work, element_bytes: int) -> int:
    """Gradients of one layer's activations while the next layer's are made: three of the MLP and two of the hidden states."""
    return work.row_tokens * element_bytes * (3 * shape.intermediate + 2 * shape.hidden)


def tile_bytes(shape: ModelShape, work: Work, element_bytes: int) -> int:
    """A tile of logits in float32, and once more while their sum of exponentials is taken; see `update.head`.

    A narrow model also has the tile, and the gradient of the head, in its own precision.
    """
    tile = min(work.head_tile, work.row_tokens) * shape.vocab
    narrow = tile * element_bytes + shape.num_embedding * element_bytes if element_bytes < 4 else 0
    return max(tile * 8, tile * 4 + narrow)


def _generation(shape: ModelShape, work: Work, where: Where) -> list[Need]:
    """The engine. What it has for itself stays there during an update, unless it sleeps."""
    element_bytes, width = where.element_bytes, work.prompt_tokens + work.tokens_max
    own_weights = shape.num_parameters * element_bytes
    if where.engine == "vllm":
        cache = work.generate_batch_tokens * shape.kv_bytes_per_token(element_bytes)
        if work.engine_sleeps:
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
