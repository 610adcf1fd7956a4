"""Real nodes: separate processes, real sockets, the embedded policy."""
