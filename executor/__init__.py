"""From a schedule to training."""

from rematopt.executor.install import Handle, apply
from rematopt.executor.measuring import Measurement, measure, measure_curve

__all__ = ["Handle", "Measurement", "apply", "measure", "measure_curve"]
