"""Memory plans: what a model needs on this device, which ways of training it there are, and the first that fits. No torch."""
