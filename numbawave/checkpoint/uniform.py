"""Segments of equal length, each run once more: the state at the start of every one is saved."""

from itertools import pairwise
from math import isqrt

from numbawave.checkpoint.actions import Action, Drop, Forward, Load, Reverse, Save, Schedule
from numbawave.errors import InvalidValueError


def bounds(steps: int, segments: int) -> tuple[int, ...]:
    """Divide the steps into segments of nearly equal length.

    Parameters
    ----------
    steps : int
        Number of time steps.
    segments : int
        Number of segments; at most one for each step.

    Returns
    -------
    tuple of int
        Where segments start and end: ``segments + 1`` numbers from 0 to ``steps``. The longer segments, by one step,
        come last, where they are run again the least.

    Raises
    ------
    InvalidValueError
        If there is no step, no segment, or a segment without steps.
    """
    if steps < 1:
        raise InvalidValueError("steps", steps, "must be at least 1", "run at least one time step")
    if not 1 <= segments <= steps:
        rule = f"must be from 1 to the number of time steps, {steps}"
        raise InvalidValueError("checkpoint_segments", segments, rule, "use 1 for no checkpoints, fewer for less work")
    length, n_longer = divmod(steps, segments)
    n_shorter = segments - n_longer
    return tuple(segment * length + max(0, segment - n_shorter) for segment in range(segments + 1))


def uniform(steps: int, segments: int) -> Schedule:
    """Save the state at the start of every segment, and run each segment but the last once more.

    No schedule with these segments repeats fewer steps. Where its states do not fit, see `binomial`.

    Parameters
    ----------
    steps : int
        Number of time steps.
    segments : int
        Number of segments. All but the first, which starts with the caller's state, and the last, which is not run
        again, need a saved state.

    Returns
    -------
    Schedule

    Raises
    ------
    InvalidValueError
        As in `bounds`.
    """
    *others, last = pairwise(bounds(steps, segments))
    forward: list[Action] = []
    backward: list[Action] = [Reverse(*last)]
    for start, end in others:
        forward += [Save(start)] * (start > 0) + [Forward(start, end, keep=False)]
    for start, end in reversed(others):
        backward += [Load(start)] + [Drop(start)] * (start > 0) + [Forward(start, end, keep=True), Reverse(start, end)]
    return Schedule((*forward, Forward(*last, keep=True)), tuple(backward))


def fewest_bytes(steps: int, bytes_a_step: float, bytes_of_state: float) -> int:
    """Choose the number of segments with which `uniform` needs the least memory.

    What is alive at the peak is every saved state and the longest segment's history. The choice is near
    ``sqrt(steps * bytes_a_step / bytes_of_state)``.

    Parameters
    ----------
    steps : int
        Number of time steps.
    bytes_a_step : float
        Bytes of history that a step leaves, on average.
    bytes_of_state : float
        Bytes of a saved state.

    Returns
    -------
    int
        Number of segments; of those that need the same memory the fewest.

    Raises
    ------
    InvalidValueError
        If there is no step, or a size is negative.
    """
    if steps < 1:
        raise InvalidValueError("steps", steps, "must be at least 1", "run at least one time step")
    for argument, size in (("bytes_a_step", bytes_a_step), ("bytes_of_state", bytes_of_state)):
        if not size >= 0:
            raise InvalidValueError(argument, size, "must not be negative", "count the bytes")

    def needed(segments: int) -> float:
        return max(0, segments - 2) * bytes_of_state + -(-steps // segments) * bytes_a_step

    # The least memory for a given longest segment is that of the fewest segments with it. Of these there are few: up
    # to the root of steps either the number of segments is small, or the longest segment is.
    root = isqrt(steps) + 1
    few = {min(segments, steps) for segments in range(1, root + 1)}
    short = {-(-steps // longest) for longest in range(1, root + 1)}
    return min(few | short, key=lambda segments: (needed(segments), segments))
