"""Looking at a node: a small HTTP API over a local socket, and /metrics, /healthz, /readyz on loopback."""
