"""From a profile, and a schedule if there is one, to an explanation."""

from __future__ import annotations

from rematopt.errors import InvalidInputError, ScheduleMismatchError
from rematopt.explanation.advice import Facts, advice
from rematopt.explanation.explanation import Explanation
from rematopt.explanation.peak import peak_of
from rematopt.front import Front, pareto, without_limit
from rematopt.graph import Graph
from rematopt.profile import Profile
from rematopt.reserved import reserved_of
from rematopt.schedule import Schedule
from rematopt.solver.bounds import peak_floor


def explain(
    profile: Profile | Graph,
    schedule: Schedule | None = None,
    *,
    limits: int = 5,
    time_limit: float = 10.0,
    jobs: int = -1,
    progress: bool | None = None,
) -> Explanation:
    """Explain where the memory of a training step goes, and what less would cost.

    Parameters
    ----------
    profile : Profile or Graph
        The step.
    schedule : Schedule, optional
        The schedule to explain; by default the one that runs every op once.
    limits : int
        Memory limits to solve for, from the smallest feasible one to the unplanned peak; 0 for none.
    time_limit : float
        Seconds for each of them.
    jobs : int
        Limits solved at the same time; -1 for one a CPU.
    progress : bool, optional
        Whether to show a bar on stderr; by default if that is a terminal.

    Raises
    ------
    InvalidInputError
        If the graph has no ops, or ``limits`` is 1 or negative.
    ScheduleMismatchError
        If the schedule was made for another graph.

    Examples
    --------
    >>> import rematopt, rematopt.zoo
    >>> model, args, kwargs = rematopt.zoo.mlp(batch=64, width=32, depth=2)
    >>> found = rematopt.explain(rematopt.profile(model, args, kwargs), limits=0)
    >>> found.peak.phase
    <Phase.BACKWARD: 'backward'>
    """
    graph = profile.graph if isinstance(profile, Profile) else profile
    if not graph.ops:
        raise InvalidInputError("the graph has no ops; profile a model that computes something")
    if limits < 0 or limits == 1:
        raise InvalidInputError(f"limits={limits}: give 2 or more to spread over the range, or 0 for none")
    if schedule is not None and schedule.fingerprint != graph.fingerprint:
        raise ScheduleMismatchError("the schedule was made for another graph than this profile's; solve this profile")
    unplanned = without_limit(graph, "store-all")
    explained = schedule or unplanned
    front = pareto(graph, limits, time_limit=time_limit, jobs=jobs, progress=progress) if limits else Front(points=())
    device = profile.device if isinstance(profile, Profile) else ""
    reserved = None if device.startswith("cpu") or not device else reserved_of(graph, explained.steps)
    peak, floor = peak_of(graph, explained.steps), peak_floor(graph)
    facts = Facts(
        graph=graph,
        peak=peak,
        floor=floor,
        unplanned_peak_bytes=unplanned.peak_bytes,
        smallest_limit_bytes=front.schedules[0].peak_bytes if front.schedules else None,
        reserved=reserved,
    )
    return Explanation(
        graph=graph,
        device=device,
        schedule=explained,
        unplanned=unplanned,
        peak=peak,
        floor=floor,
        front=front,
        advice=advice(facts),
        reserved=reserved,
    )
