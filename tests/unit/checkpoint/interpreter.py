"""Runs a schedule on a state that is a step's number, and checks every action's right to be there."""

from collections import Counter
from dataclasses import dataclass, field
from functools import singledispatchmethod

from numbawave.checkpoint import Drop, Forward, Load, Reverse, Save, Schedule


@dataclass
class Interpreter:
    current: int = 0
    remaining: int = 0
    kept: Forward | None = None
    saved: set[int] = field(default_factory=set)
    most_saved: int = 0
    longest: int = 0
    runs: Counter[int] = field(default_factory=Counter)

    @singledispatchmethod
    def do(self, action):
        raise AssertionError(f"not an action: {action}")

    @do.register
    def _(self, action: Forward):
        assert self.current == action.first < action.last
        self.runs.update(range(action.first, action.last))
        self.current = action.last
        self.kept = action if action.keep else None

    @do.register
    def _(self, action: Save):
        assert self.current == action.step
        assert action.step > 0
        assert action.step not in self.saved
        self.saved.add(action.step)
        self.most_saved = max(self.most_saved, len(self.saved))

    @do.register
    def _(self, action: Load):
        assert action.step in self.saved | {0}
        self.current = action.step

    @do.register
    def _(self, action: Drop):
        self.saved.remove(action.step)

    @do.register
    def _(self, action: Reverse):
        assert self.kept == Forward(action.first, action.last, keep=True)
        assert action.last == self.remaining
        self.remaining = action.first
        self.longest = max(self.longest, action.last - action.first)
        self.kept = None

    def run(self, actions):
        for action in actions:
            waiting = self.kept
            self.do(action)
            assert waiting is None or isinstance(action, Reverse), "kept history is reversed at once"


def execute(schedule: Schedule, steps: int) -> Interpreter:
    """Run the schedule to its end, and compare what it says of itself with what happened."""
    run = Interpreter(remaining=steps)
    run.run(schedule.forward)
    assert run.current == steps
    assert schedule.forward[-1] == run.kept
    assert not any(isinstance(action, Reverse | Load | Drop) for action in schedule.forward)
    assert isinstance(schedule.backward[0], Reverse)
    run.run(schedule.backward)
    assert (run.remaining, run.saved, run.kept) == (0, set(), None)
    assert set(run.runs) == set(range(steps))
    assert schedule.states == run.most_saved
    assert schedule.longest == run.longest
    assert schedule.repeated == run.runs.total() - steps
    return run
