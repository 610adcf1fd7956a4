"""The two ways to have a swarm on one machine: real processes, and one process in virtual time."""
