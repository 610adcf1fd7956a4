"""A model cut down to one of its layers and a few of its tokens, in a precision of choice: small enough to compute several times.

The cut model is of the same class and runs the same code, so it takes and refuses what the whole model does.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel


def layers_of(model: PreTrainedModel) -> nn.ModuleList:
    """The model's layers. Raises TypeError where its body has no list of them."""
    num = model.config.get_text_config().num_hidden_layers
    for child in model.base_model.children():
        if isinstance(child, nn.ModuleList) and len(child) == num:
            return child
    raise TypeError(f"{type(model.base_model).__name__} has no list of its {num} layers")


def one_layer(model: PreTrainedModel, number: int, tokens_V: Tensor, dtype: torch.dtype) -> PreTrainedModel:
    """The model with its layer `number` alone and with the tokens `tokens_V` alone; a token's id is its place there.

    A weight that has `dtype` already is shared, any other is copied. Gradients are the cut model's own.
    """
    layers, config = layers_of(model), deepcopy(model.config)
    text = config.get_text_config()
    if getattr(text, "layer_types", None):
        text.layer_types = [text.layer_types[number]]
    # `deepcopy` takes what this dictionary has for an object's number instead of copying the object.
    instead: dict[int, object] = {id(model.config): config, id(model.config.get_text_config()): text}
    others = {id(p) for place, layer in enumerate(layers) if place != number for p in layer.parameters()}
    words = (model.get_input_embeddings(), model.get_output_embeddings())
    by_token = {id(getattr(module, name, None)) for module in words for name in ("weight", "bias")}
    for parameter in model.parameters():
        if id(parameter) not in others:
            kept = parameter.detach()[tokens_V] if id(parameter) in by_token else parameter.detach()
            instead[id(parameter)] = nn.Parameter(kept.to(dtype), parameter.requires_grad)
    instead[id(layers)] = nn.ModuleList([deepcopy(layers[number], instead)])
    cut: PreTrainedModel = deepcopy(model, instead)
    if hasattr(embedding := cut.get_input_embeddings(), "padding_idx"):
        embedding.padding_idx = None  # an id of the whole vocabulary
    return cut
