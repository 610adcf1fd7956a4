"""The embedded policy's tokenizer: bytes, plus one token for each fixed phrase of the tasks.

A ReasoningGYM question is a long constant sentence around a few digits or letters. With one token for each constant
piece a prompt has 5-20 tokens and every digit and letter that matters stays a token of its own, so that a model of under a
million parameters can work on the task instead of on its wording. Any text round-trips, since all 256 bytes are tokens.

The phrases are found in sampled prompts, not listed here: a changed manifest needs a rebuild and nothing else.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

# transformers' Qwen2Tokenizer adds `<|endoftext|>` by itself when it is missing, one id beyond the embedding: hence our choice
END, PAD = "<|endoftext|>", "<|pad|>"
PIECE_SHARE_MIN = 0.01  # a piece seen in fewer prompts than this is content, not wording (twice as high loses " - " in mixed tasks)


def fixed_phrases(prompts_by_dataset: Mapping[str, Sequence[str]]) -> list[str]:
    """The constant pieces of at least two characters of each dataset's prompts, sorted; they contain no digits.

    The common beginning and end of a dataset's prompts are phrases, and so is what recurs between digits in the middle.
    """
    phrases: set[str] = set()
    for prompts in prompts_by_dataset.values():
        start = common_start(prompts)
        middles = [prompt[len(start) :] for prompt in prompts]
        end = common_start([middle[::-1] for middle in middles])[::-1]
        middles = [middle[: len(middle) - len(end)] for middle in middles]
        counts = Counter(piece for middle in middles for piece in set(re.split(r"\d+", middle)))
        phrases |= {start, end} | {p for p, n in counts.items() if n >= PIECE_SHARE_MIN * len(prompts)}
    return sorted(phrase for phrase in phrases if len(phrase) >= 2)


def common_start(texts: Sequence[str]) -> str:
    """The longest text that all of `texts` begin with."""
    if not texts:
        return ""
    first, last = min(texts), max(texts)  # in between, every text shares what these two share
    length = next(
        (i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first)
    )
    return first[:length]


def build_tokenizer(phrases: Iterable[str]) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer in which each of `phrases` is one token; the end token closes a completion.

    The phrases are added tokens and nothing rests on the pre-tokenizer, because transformers rebuilds it as Qwen2's own when it
    loads the tokenizer beside a Qwen2 configuration (5.19: `AutoTokenizer` returns `Qwen2Tokenizer` whatever was saved).
    """
    tokens = [END, PAD, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(phrase, normalized=False) for phrase in sorted(set(phrases))])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )
