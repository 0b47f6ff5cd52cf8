"""From a model to a graph with sizes and times."""

from rematopt.profiler.profiling import profile

__all__ = ["profile"]
