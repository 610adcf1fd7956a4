"""The algorithm, pure: what a rollout is worth, where rollouts wait, and how they are drawn. Loads no event loop and no tensors."""
