"""From a graph and a memory limit to a schedule."""
