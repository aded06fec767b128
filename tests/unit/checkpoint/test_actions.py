from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from numbawave.checkpoint import Action, Drop, Forward, Load, Reverse, Save, Schedule

SCHEDULE = Schedule(
    forward=(Forward(0, 3, keep=False), Save(3), Forward(3, 5, keep=False), Forward(5, 9, keep=True)),
    backward=(
        *(Reverse(5, 9), Load(3), Drop(3), Forward(3, 5, keep=True), Reverse(3, 5)),
        *(Load(0), Forward(0, 3, keep=True), Reverse(0, 3)),
    ),
)


def test_a_schedules_numbers_come_from_its_actions():
    assert (SCHEDULE.longest, SCHEDULE.states, SCHEDULE.repeated) == (4, 1, 5)


def test_a_single_segment_repeats_and_saves_nothing():
    schedule = Schedule((Forward(0, 4, keep=True),), (Reverse(0, 4),))
    assert (schedule.longest, schedule.states, schedule.repeated) == (4, 0, 0)


def test_schedules_and_actions_are_keys():
    assert len({SCHEDULE, Schedule(SCHEDULE.forward, SCHEDULE.backward)}) == 1
    assert {type(action) for action in SCHEDULE.forward + SCHEDULE.backward} == set(get_args(Action))
    with pytest.raises(FrozenInstanceError):
        SCHEDULE.forward[1].step = 4
