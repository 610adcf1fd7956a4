"""Questions and their scores: regenerate a question from its address, and score completions for it behind a sandbox.

`service.ScorerService` is what the scorer child serves. It holds the manifest: a **zygote** (`zygote.py`) imports the datasets
once, and every `score` call gets one forked, locked-down **worker** (`worker.py`) that is killed afterwards.
reasoning_gym is imported in the zygote only.
"""
