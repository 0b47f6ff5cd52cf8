"""Why a training step needs the memory it needs, and what less would cost."""

from rematopt.explanation.explain import explain
from rematopt.explanation.explanation import Explanation

__all__ = ["Explanation", "explain"]
