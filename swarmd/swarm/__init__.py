"""The network room: one process that holds py-libp2p, gossips signed batches and finds peers.

`NetworkService` (service.py) is its only door. Everything here speaks trio; nothing here loads torch.
"""
