from itertools import pairwise

import pytest

from numbawave.checkpoint import Forward, Reverse, bounds, fewest_bytes, uniform
from numbawave.errors import InvalidValueError
from tests.unit.checkpoint.interpreter import execute

SIZES = [(steps, segments) for steps in (1, 2, 3, 7, 12, 30, 101) for segments in range(1, min(steps, 14) + 1)]


@pytest.mark.parametrize(("steps", "segments"), SIZES)
def test_segments_cover_the_steps_and_are_nearly_equal(steps, segments):
    edges = bounds(steps, segments)
    lengths = [end - start for start, end in pairwise(edges)]
    assert (edges[0], edges[-1], len(lengths)) == (0, steps, segments)
    assert max(lengths) == -(-steps // segments)
    assert min(lengths) == steps // segments


@pytest.mark.parametrize(("steps", "segments"), SIZES)
def test_the_longer_segments_come_last(steps, segments):
    lengths = [end - start for start, end in pairwise(bounds(steps, segments))]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize(("steps", "segments"), SIZES)
def test_every_segment_but_the_last_is_run_twice(steps, segments):
    schedule = uniform(steps, segments)
    runs = execute(schedule, steps).runs
    last = bounds(steps, segments)[-2]
    assert [runs[step] for step in range(steps)] == [2] * last + [1] * (steps - last)
    assert schedule.repeated == last
    assert schedule.states == max(0, segments - 2)
    assert schedule.longest == -(-steps // segments)


def test_one_segment_is_the_plain_run():
    schedule = uniform(5, 1)
    assert schedule.forward == (Forward(0, 5, keep=True),)
    assert schedule.backward == (Reverse(0, 5),)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 10, 36, 37, 99, 100, 101, 130])
@pytest.mark.parametrize("bytes_of_state", [0, 1, 3, 10, 1000])
@pytest.mark.parametrize("bytes_a_step", [0, 1, 4, 7.5, 300])
def test_the_fewest_bytes_are_those_of_trying_every_number(steps, bytes_of_state, bytes_a_step):
    def needed(segments):
        schedule = uniform(steps, segments)
        return schedule.states * bytes_of_state + schedule.longest * bytes_a_step

    best = min(range(1, steps + 1), key=needed)  # the first one
    assert fewest_bytes(steps, bytes_a_step, bytes_of_state) == best


def test_the_fewest_bytes_are_near_the_square_root():
    assert fewest_bytes(1_000_000, 1, 4) == pytest.approx(500, abs=2)


@pytest.mark.parametrize("segments", [-1, 0, 6])
def test_a_wrong_number_of_segments_is_refused_by_its_option(segments):
    for function in (bounds, uniform):
        with pytest.raises(InvalidValueError, match=f"^checkpoint_segments = {segments}: .* steps, 5\\. Remedy"):
            function(5, segments)


@pytest.mark.parametrize(
    ("function", "values", "argument"),
    [
        (bounds, (0, 1), "steps"),
        (uniform, (-3, 1), "steps"),
        (fewest_bytes, (0, 1, 1), "steps"),
        (fewest_bytes, (5, -1, 1), "bytes_a_step"),
        (fewest_bytes, (5, float("nan"), 1), "bytes_a_step"),
        (fewest_bytes, (5, 1, -1), "bytes_of_state"),
    ],
)
def test_wrong_counts_are_refused_by_name(function, values, argument):
    with pytest.raises(InvalidValueError, match=f"^{argument} = "):
        function(*values)
