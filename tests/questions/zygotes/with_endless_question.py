"""A zygote whose generators compute for ever on one seed, and catch every exception on the way."""

from swarmd.questions import zygote
from swarmd.questions.family import Item
from swarmd.questions.regenerate import QuestionSource
from tests.questions.misbehaving_zygote import serve

ENDLESS = 13


def _item(self: QuestionSource, seed: int) -> Item:
    while seed == ENDLESS:
        try:
            sum(range(1000))
        except Exception:
            continue
    return _genuine(self, seed)


if __name__ == "__main__":
    _genuine = QuestionSource.item
    QuestionSource.item = _item  # type: ignore[method-assign]
    zygote.ITEM_CPU_S_MAX = 0.05
    serve()
