"""From a model to a graph with sizes and times."""

from rematopt.profiler.profiling import profile, trace, versions

__all__ = ["profile", "trace", "versions"]
