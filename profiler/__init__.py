"""From a model to a graph with sizes and times."""

from rematopt.profiler.profiling import profile, sizes_only, trace, versions
from rematopt.profiler.rates import DEVICES, Rates

__all__ = ["DEVICES", "Rates", "profile", "sizes_only", "trace", "versions"]
