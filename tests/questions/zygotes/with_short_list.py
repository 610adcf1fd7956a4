"""A zygote whose filter lacks the calls that get memory: an idle worker lives, and one that scores does not."""

from tests.questions.misbehaving_zygote import serve

MEMORY = ("mmap", "munmap", "mremap", "brk", "madvise")

if __name__ == "__main__":
    serve(unlisted=MEMORY)
