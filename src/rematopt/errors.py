"""Every exception that rematopt raises on purpose.

All derive from :class:`RematoptError`, so that a caller (the command line among them) can tell a
clear refusal from a defect. Each message names the argument, what was expected and what to do.
"""

from __future__ import annotations


class RematoptError(Exception):
    """Base class of rematopt's errors."""


class InvalidInputError(RematoptError, ValueError):
    """An argument has a value that cannot be used (a limit, a factory, a strategy name)."""


class ArtefactError(RematoptError):
    """A file is not the artefact that was expected, is damaged, or of an unknown schema version."""


class InvalidScheduleError(RematoptError):
    """A schedule breaks a rule of the simulator; the message names the first violation."""


class InfeasibleLimitError(RematoptError):
    """No schedule fits the memory limit.

    Parameters
    ----------
    message : str
        What was asked, the smallest feasible limit and what causes it.
    smallest_limit_bytes : int
        The smallest limit for which a schedule is known.
    """

    def __init__(self, message: str, smallest_limit_bytes: int) -> None:
        super().__init__(message)
        self.smallest_limit_bytes = smallest_limit_bytes


class UnsupportedModelError(RematoptError):
    """The model cannot be captured whole; the message names the construct and the way out."""


class ScheduleMismatchError(RematoptError):
    """A schedule was made for another graph; the message says what differs."""


class RecomputationError(RematoptError):
    """A recomputed tensor differs from the one it replaces; the message names op, module and step."""


class SolverUnavailableError(RematoptError):
    """A solver that was asked for is not installed; the message gives the pip command."""
