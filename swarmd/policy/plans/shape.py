"""A model's shape, out of its config.json and the headers of its weights: all that memory arithmetic asks. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass

from swarmd.policy.model.folder import ResolvedModel

# The names that architectures of transformers use for one and the same number.
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "num_heads")
_INTERMEDIATE = ("intermediate_size", "n_inner", "ffn_dim")


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder, and its parameters by kind.

    Attributes:
        hidden, intermediate, num_layers, num_heads, num_kv_heads, head_dim, vocab: as transformers means them.
        tied: whether the head is the embedding.
        num_parameters: all; counted where the weights' headers are there, computed from the sizes otherwise.
        counted: which of the two.
    """

    hidden: int
    intermediate: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    num_parameters: int
    counted: bool

    @property
    def num_embedding(self) -> int:
        """Parameters of the embedding; the head has as many again unless it is tied."""
        return self.vocab * self.hidden

    @property
    def num_in_layer(self) -> int:
        """Parameters of one layer, about."""
        return (self.num_parameters - self.num_embedding * (1 if self.tied else 2)) // self.num_layers

    @property
    def num_attention(self) -> int:
        """Width of all query heads together."""
        return self.num_heads * self.head_dim

    def kv_bytes_per_token(self, element_bytes: int) -> int:
        """Bytes of one token in a key-value cache."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * element_bytes

    def num_lora(self, rank: int) -> int:
        """Parameters of adapters of `rank` beside every linear layer but the head: rank x (inputs + outputs) each."""
        hidden, queries, keys = self.hidden, self.num_attention, self.num_kv_heads * self.head_dim
        attention = 2 * (hidden + queries) + 2 * (hidden + keys)
        return rank * self.num_layers * (attention + 3 * (hidden + self.intermediate))


def read_shape(model: ResolvedModel) -> ModelShape | None:
    """The shape of a model that `resolve_model` found; nothing is downloaded. None where its config names the sizes otherwise."""
    return shape_of(model.config, num_parameters=model.num_parameters)


def shape_of(config: Mapping[str, object], *, num_parameters: int | None = None) -> ModelShape | None:
    """The shape that a config.json describes; None where a size is missing under every name that we know.

    `num_parameters` is that of the weights' headers, where they are known.
    """
    hidden, layers, heads = (_number(config, names) for names in (_HIDDEN, _LAYERS, _HEADS))
    vocab = _number(config, ("vocab_size",))
    if not (hidden and layers and heads and vocab):
        return None
    intermediate = _number(config, _INTERMEDIATE) or 4 * hidden
    kv_heads = _number(config, ("num_key_value_heads",)) or heads
    head_dim = _number(config, ("head_dim",)) or hidden // heads
    in_layers = layers * _num_in_layer(config, hidden, intermediate, heads, kv_heads, head_dim)
    computed = {tied: in_layers + hidden + vocab * hidden * (1 if tied else 2) for tied in (True, False)}
    tied = bool(config.get("tie_word_embeddings", "n_embd" in config))
    if num_parameters:  # the file decides where the config leaves it to the architecture
        tied = min(computed, key=lambda either: (abs(computed[either] - num_parameters), either != tied))
    return ModelShape(
        hidden=hidden,
        intermediate=intermediate,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        vocab=vocab,
        tied=tied,
        num_parameters=num_parameters or computed[tied],
        counted=bool(num_parameters),
    )


def _num_in_layer(
    config: Mapping[str, object], hidden: int, intermediate: int, heads: int, kv_heads: int, head_dim: int
) -> int:
    """Attention, gated MLP, two norms, and the biases that Qwen2 alone of the common families has."""
    queries, keys = heads * head_dim, kv_heads * head_dim
    qwen2 = config.get("model_type") == "qwen2"
    biases = queries + 2 * keys if config.get("attention_bias", qwen2) else 0
    head_norms = 2 * head_dim if config.get("model_type") == "qwen3" else 0
    return 2 * hidden * (queries + keys) + biases + 3 * hidden * intermediate + 2 * hidden + head_norms


def _number(config: Mapping[str, object], names: tuple[str, ...]) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and value > 0:
            return value
    return 0
