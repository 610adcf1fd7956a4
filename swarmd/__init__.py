"""swarmd: post-train a language model by reinforcement learning together with a swarm of peers."""

__version__ = "0.1.0"
