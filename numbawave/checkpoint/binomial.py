"""Fewer saved states than segments: some segments are run several times, as few steps as can be.

Source: A. Griewank and A. Walther, Algorithm 799: revolve, ACM Transactions on Mathematical Software 26 (2000),
19-45, https://doi.org/10.1145/347837.347846. Its steps are segments here, which may differ in length by one step; the
segment that a sweep reaches last has its history kept at once, and is not run again; and the state of step 0 is free.
"""

from functools import lru_cache

from numbawave.checkpoint.actions import Action, Drop, Forward, Load, Reverse, Save, Schedule
from numbawave.checkpoint.uniform import bounds, uniform
from numbawave.errors import InvalidValueError


@lru_cache(maxsize=16)
def binomial(steps: int, segments: int, states: int) -> Schedule:
    """Reverse the segments with a limited number of saved states and the fewest repeated steps.

    With ``states >= segments - 2`` this is `uniform`. Not for thousands of segments: finding the schedule takes time
    in proportion to ``segments**2 * states``, a fifth of a second for 200 segments and 10 states.

    Parameters
    ----------
    steps : int
        Number of time steps.
    segments : int
        Number of segments; see `segments_for`.
    states : int
        The most saved states alive at once. With 0 every sweep starts at step 0.

    Returns
    -------
    Schedule
        No other one with these segments and states repeats fewer steps.

    Raises
    ------
    InvalidValueError
        If the number of states is negative, or as in `bounds`.
    """
    edges = bounds(steps, segments)
    _check(states)
    if states >= segments - 2:
        return uniform(steps, segments)
    splits = _splits(edges, states)
    actions: list[Action] = []
    reached = 0
    pending = [(0, segments, states)]  # segments still to reverse, and states still free for them; the last ones last
    while pending:
        first, last, free = pending.pop()
        start = edges[first]
        if reached != first:
            actions += [Load(start)] + [Drop(start)] * (first > 0 and last - first == 1)
        if last - first == 1:
            actions += [Forward(start, edges[last], keep=True), Reverse(start, edges[last])]
            reached = last
        else:
            reached = splits[free][first][last]
            actions += [Forward(start, edges[reached], keep=False)]
            actions += [Save(edges[reached])] * (last - reached > 1)
            pending += [(first, reached, free), (reached, last, free - 1)]
    turn = next(number for number, action in enumerate(actions) if isinstance(action, Reverse))
    return Schedule(tuple(actions[:turn]), tuple(actions[turn:]))


def segments_for(states: int) -> int:
    """Number of segments that suits a number of saved states: with it no segment need be run more than three times.

    That is once in the forward pass and twice in the adjoint's. With ``s`` states, and step 0's for nothing, as many
    as ``(s + t)! / ((s + 1)! (t - 1)!)`` segments can be reversed with at most ``t`` runs of each: ``s + 2`` with two,
    which is `uniform`, and ``(s + 2) (s + 3) / 2`` with three. Here step 0's state is counted as one of the ``s``.

    Parameters
    ----------
    states : int
        The most saved states alive at once.

    Returns
    -------
    int
        ``(states + 1) * (states + 2) / 2``.

    Raises
    ------
    InvalidValueError
        If the number of states is negative.
    """
    _check(states)
    return (states + 1) * (states + 2) // 2


def _check(states: int) -> None:
    if states < 0:
        raise InvalidValueError("checkpoint_states", states, "must not be negative", "use 0 for the least memory")


def _splits(edges: tuple[int, ...], states: int) -> list[list[list[int]]]:
    """Where to run to first, ``[free states][first][last]``, to reverse the segments from ``first`` to ``last``.

    The run saves its state there, unless only one segment is left; reverses what follows with a state less; and begins
    again at ``first`` with what precedes. The fewest steps for this, c, are
    ``c[s][first][last] = min over split of edges[split] - edges[first] + c[s][first][split] + c[s - 1][split][last]``.
    They obey the quadrangle inequality (induction over s and the length, after adding ``edges[last]`` to c), so that
    the first best split grows with ``first`` and with ``last``: Knuth's bounds, and few splits to try.
    """
    n = len(edges) - 1
    below = [[0] * first + [0, edges[first + 1] - edges[first]] + [0] * (n - first - 1) for first in range(n)]
    splits = []
    for free in range(states + 1):
        cost = [[0] * (n + 1) for _ in range(n)]
        split = [[0] * (n + 1) for _ in range(n + 1)]
        # Every state in use has a segment before its own, and so nothing starts earlier than this.
        for first in reversed(range(states - free, n)):
            for last in range(first + 1, n + 1):
                if last - first <= free + 2:  # room for a state at every start: the last one is run once, others twice
                    cost[first][last] = edges[last] + edges[last - 1] - 2 * edges[first]
                    split[first][last] = first + 1
                    continue
                low, high = (split[first][last - 1], split[first + 1][last]) if free else (last - 1, last - 1)
                cost[first][last], split[first][last] = min(
                    (edges[at] - edges[first] + cost[first][at] + below[at][last], at) for at in range(low, high + 1)
                )
        splits.append(split)
        below = cost
    return splits
