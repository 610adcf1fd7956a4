"""The four verbs as independent trio tasks: generate, share, ingest, update; and observe, which only looks.

None waits for a peer. What they share is `Progress`; what they call are child processes behind the small types in `ports`.
"""
