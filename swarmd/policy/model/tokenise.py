"""Text to token ids and back; promises that nobody's text ever becomes a control token.

Own completions keep the exact ids the engine sampled. Text of others is tokenised by the receiver, with its own tokenizer, and a
stranger who writes "<|im_end|>" has written ten characters, not the end of a turn.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from swarmd.policy.model.template import ChatFrame, read_frame

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Tokeniser:
    """One model's tokenizer with the rules of this project around it.

    Args:
        tokenizer: a Hugging Face tokenizer.
        eos_ids: further ids that end a completion (those of the generation config; Qwen's chat models have two).

    Raises:
        ValueError: neither the tokenizer nor `eos_ids` names an end token.
        ModelUnavailable: its chat template cannot be used.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", eos_ids: Sequence[int] = ()) -> None:
        own = tokenizer.eos_token_id
        self.eos_ids: frozenset[int] = frozenset(eos_ids) | (frozenset() if own is None else {own})
        if not self.eos_ids:
            raise ValueError("the model names no end-of-sequence token")
        # The tokenizer's own end token is the one that its chat template ends a turn with.
        self.eos_id: int = own if own is not None else next(iter(eos_ids))
        self.pad_id: int = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.eos_id
        self.has_chat_template = bool(tokenizer.chat_template)
        self._tokenizer = tokenizer
        self._frame: ChatFrame | None = None
        if self.has_chat_template:
            template, tokens = tokenizer.get_chat_template(), tokenizer.special_tokens_map
            self._frame = read_frame(template, tokens)
        # An unknown-token id stands for text; every other special id only for itself. Qwen's tokenizer names one token as unknown,
        # padding and end of text: then it is control.
        unknown = {tokenizer.unk_token_id} - {tokenizer.pad_token_id}
        self._control_ids = (frozenset(tokenizer.all_special_ids) - unknown) | self.eos_ids

    def prompt_ids(self, prompt: str) -> list[int]:
        """The ids a completion of `prompt` is conditioned on: one user turn where there is a chat template, else plain text.

        Never empty: a policy needs one token to predict from, so an empty plain prompt becomes the end token.
        """
        if self._frame is not None:
            ids = self._tokenizer(self._frame.around(prompt), add_special_tokens=False)["input_ids"]
        else:
            ids = self._tokenizer(prompt, add_special_tokens=True, split_special_tokens=True)["input_ids"]
        return list(ids) or [self.eos_id]

    def completion_ids(self, text: str, *, finished: bool, tokens_max: int) -> list[int]:
        """The ids of a completion that came as text, at most `tokens_max`; empty only for an unfinished empty text.

        A finished one ends with this model's end token; one that was cut, by its author or here, ends with nothing.
        """
        ids = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        # A second fence, for tokenizers that cannot split: a control id in text is dropped, not believed.
        ids = [token for token in ids if token not in self._control_ids]
        if finished:
            ids.append(self.eos_id)
        return ids[:tokens_max]

    def text(self, ids: Sequence[int]) -> str:
        """The text of a sampled completion, without its end token and any other control token."""
        return str(
            self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )
