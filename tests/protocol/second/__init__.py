"""A second, slow reader of the protocol, written from `proto/` with the standard library alone.

It shares neither code nor dependency with `swarmd.protocol`. Where both agree, on every vector and under fuzzing, the prose says
enough, and no verdict hangs on a habit of msgpack, zstandard, pydantic or libsodium.
"""
