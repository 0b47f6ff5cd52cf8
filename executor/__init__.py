"""From a schedule to training."""
