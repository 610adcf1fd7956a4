"""A zygote on a machine where the scorer of one dataset makes a system call that is on no list."""

from tests.questions.misbehaving_zygote import serve

if __name__ == "__main__":
    serve(strange="lcm")
