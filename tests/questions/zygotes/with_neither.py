"""A zygote on a kernel with neither landlock nor seccomp (gVisor, macOS)."""

from tests.questions.misbehaving_zygote import serve

if __name__ == "__main__":
    serve(with_landlock=False, with_seccomp=False)
