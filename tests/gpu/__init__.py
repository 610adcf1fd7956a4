"""What only CUDA shows, with the standard library's `unittest`: `python -m tests.gpu` needs torch and transformers, nothing else.

Each test skips itself, with the reason, where something it needs is missing; pytest collects the same tests under its mark `gpu`.
"""
