"""A zygote on a kernel without landlock."""

from tests.questions.misbehaving_zygote import serve

if __name__ == "__main__":
    serve(with_landlock=False)
