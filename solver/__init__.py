"""From a graph and a memory limit to a schedule."""

from rematopt.solver.problem import Problem, SolveResult, Strategy
from rematopt.solver.progress import Progress
from rematopt.solver.registry import STRATEGIES, create
from rematopt.solver.solve import solve

__all__ = ["STRATEGIES", "Problem", "Progress", "SolveResult", "Strategy", "create", "solve"]
