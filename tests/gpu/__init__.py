"""What only CUDA shows, with `unittest`: `python -m tests.gpu` needs torch, transformers and pydantic, nothing else.

Each test skips itself, with the reason, where something it needs is missing; pytest collects the same tests under its mark `gpu`.
"""
