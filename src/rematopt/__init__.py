"""Train a PyTorch model inside a memory limit at the least extra time."""
