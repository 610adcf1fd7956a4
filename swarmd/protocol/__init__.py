"""The contract between nodes: types, bytes, signatures, rules, manifest.

Pure: no clock, no socket, no file but the manifests that ship with it. `proto/` says the same
in prose, for other implementations; where the two disagree, one of them has a bug.
"""
