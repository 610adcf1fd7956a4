"""What only CUDA shows; each test skips itself, with the reason, where there is none."""
