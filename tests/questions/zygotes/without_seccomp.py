"""A zygote on a kernel without seccomp."""

from tests.questions.misbehaving_zygote import serve

if __name__ == "__main__":
    serve(with_seccomp=False)
