"""Fuzzing of everything that decodes a stranger's bytes. `make fuzz TIME=600`; `python -m tests.fuzz --help` says more.

A *target* is a function that takes any bytes and raises when a promise is broken. `targets` lists them; `session` lets libFuzzer
choose their inputs by the coverage they reach; `corpus/` holds inputs that reach much of the code, and the test replays them.
"""
