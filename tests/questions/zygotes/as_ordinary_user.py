"""A zygote of an ordinary user."""

from tests.questions.misbehaving_zygote import serve

if __name__ == "__main__":
    serve(as_root=False)
