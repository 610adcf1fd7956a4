"""Generation: engines that sample completions from the policy."""
