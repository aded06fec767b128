from heapq import heappop, heappush
from itertools import pairwise

import pytest

from numbawave.checkpoint import Reverse, binomial, bounds, segments_for, uniform
from numbawave.errors import InvalidValueError
from tests.unit.checkpoint.interpreter import execute

SMALL = [
    (steps, segments, states)
    for segments in range(1, 8)
    for states in range(5)
    for steps in (*range(segments, 2 * segments), 5 * segments + 1, 40 * segments - 1)
]
LARGE = [(66, 66, 10), (100, 66, 10), (1000, 78, 10), (5000, 200, 3), (90, 90, 0), (700, 700, 1), (2500, 2500, 5000)]


def fewest_repeated(steps, segments, states):
    """Dijkstra's search through everything that can be done, useful or not, one segment at a time."""
    lengths = [end - start for start, end in pairwise(bounds(steps, segments))]
    queue, seen = [(0, 0, segments, ())], set()
    while queue:
        run, at, remaining, saved = heappop(queue)
        if remaining == 0:
            return run - steps
        if (at, remaining, saved) in seen:
            continue
        seen.add((at, remaining, saved))
        if at < segments:
            heappush(queue, (run + lengths[at], at + 1, remaining, saved))
        if at + 1 == remaining:
            heappush(queue, (run + lengths[at], at + 1, remaining - 1, saved))
        if at not in (0, *saved) and len(saved) < states:
            heappush(queue, (run, at, remaining, tuple(sorted((*saved, at)))))
        for step in saved:
            heappush(queue, (run, at, remaining, tuple(other for other in saved if other != step)))
        for step in (0, *saved):
            heappush(queue, (run, step, remaining, saved))
    raise AssertionError("step 0 can always be reached")


def most_runs(steps, segments, states):
    return max(execute(binomial(steps, segments, states), steps).runs.values())


@pytest.mark.parametrize(("steps", "segments", "states"), SMALL)
def test_no_other_schedule_repeats_fewer_steps(steps, segments, states):
    assert binomial(steps, segments, states).repeated == fewest_repeated(steps, segments, states)


@pytest.mark.parametrize(("steps", "segments", "states"), SMALL + LARGE)
def test_the_schedule_runs_and_keeps_to_its_segments_and_states(steps, segments, states):
    schedule = binomial(steps, segments, states)
    execute(schedule, steps)
    assert schedule.states <= states
    reversed_ones = [(action.first, action.last) for action in schedule.backward if isinstance(action, Reverse)]
    assert reversed_ones == list(pairwise(bounds(steps, segments)))[::-1]


@pytest.mark.parametrize(("steps", "segments"), [(5, 1), (5, 2), (7, 3), (31, 12), (40, 40)])
@pytest.mark.parametrize("more", [0, 1, 100])
def test_with_enough_states_it_is_the_uniform_schedule(steps, segments, more):
    assert binomial(steps, segments, max(0, segments - 2) + more) == uniform(steps, segments)


def test_without_states_every_sweep_starts_at_step_0():
    assert binomial(50, 5, 0).repeated == 10 * (4 + 3 + 2 + 1)


@pytest.mark.parametrize("segments", [9, 20, 41])
def test_every_further_state_saves_steps_until_there_are_enough(segments):
    repeated = [binomial(3 * segments + 1, segments, states).repeated for states in range(segments)]
    assert repeated[: segments - 1] == sorted(set(repeated), reverse=True)
    assert repeated[-1] == repeated[-2]


@pytest.mark.parametrize("states", range(9))
def test_no_segment_is_run_more_than_three_times(states):
    segments = segments_for(states)
    assert most_runs(7 * segments, segments, states) <= 3
    assert segments_for(states) == segments_for(states - 1) + states + 1 if states else segments == 1


@pytest.mark.parametrize("states", range(9))
def test_the_most_segments_for_two_and_three_runs(states):
    for runs, most in ((2, states + 2), (3, (states + 2) * (states + 3) // 2)):
        assert most_runs(7 * most, most, states) == runs
        assert most_runs(7 * (most + 1), most + 1, states) == runs + 1


@pytest.mark.parametrize(
    ("function", "values", "argument"),
    [
        (binomial, (5, 2, -1), "checkpoint_states"),
        (binomial, (5, 6, 1), "checkpoint_segments"),
        (binomial, (5, 0, 1), "checkpoint_segments"),
        (binomial, (0, 1, 1), "steps"),
        (segments_for, (-1,), "checkpoint_states"),
    ],
)
def test_wrong_counts_are_refused_by_name(function, values, argument):
    with pytest.raises(InvalidValueError, match=f"^{argument} = "):
        function(*values)
