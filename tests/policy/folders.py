"""Small random models in Hugging Face folders, each with a tokenizer of its own, built without a network."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXTS = ("what is one and two? the answer is <answer>3</answer>",) * 4
PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"


def build_tokenizer(
    *, vocab_size: int = 300, chat: bool = True, texts: Sequence[str] = TEXTS
) -> PreTrainedTokenizerFast:
    """Byte-level, so that every text has ids; control tokens as Qwen's; the words are those of `texts`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=PAD,
        additional_special_tokens=[TURN_START],
    )
    fast.chat_template = CHAT_TEMPLATE if chat else None
    return fast


def build_folder(
    path: Path,
    *,
    hidden: int = 32,
    layers: int = 2,
    vocab_size: int = 300,
    chat: bool = True,
    seed: int = 0,
    tied: bool = True,
) -> Path:
    """A random four-headed Qwen2, its embeddings tied unless asked otherwise."""
    torch.manual_seed(seed)
    tokenizer = build_tokenizer(vocab_size=vocab_size, chat=chat)
    config = Qwen2Config(
        vocab_size=len(tokenizer) + 4,  # padded, as real models' are
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        initializer_range=0.2,  # sharper than a fresh model, so that tokens differ in likelihood
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config.eos_token_id = [2, 0]
    model.generation_config.pad_token_id = 0
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
