"""A zygote of an ordinary user whose filter lacks the calls that get memory."""

from tests.questions.misbehaving_zygote import serve
from tests.questions.zygotes.with_short_list import MEMORY

if __name__ == "__main__":
    serve(unlisted=MEMORY, as_root=False)
