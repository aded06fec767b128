"""What a checkpointed run does, one action after the other, and the schedule that lists them."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Forward:
    """Step the current state, which is that of ``first``, to that of ``last``.

    Attributes
    ----------
    first, last : int
        Steps done before and after.
    keep : bool
        Whether the history of these steps is kept, for the `Reverse` that follows.
    """

    first: int
    last: int
    keep: bool


@dataclass(frozen=True)
class Save:
    """Keep a copy of the current state, which is that of ``step``."""

    step: int


@dataclass(frozen=True)
class Load:
    """Make the state of ``step`` the current one: a saved state, or that of step 0, which the caller has."""

    step: int


@dataclass(frozen=True)
class Drop:
    """Forget the saved state of ``step``; it is not needed any more."""

    step: int


@dataclass(frozen=True)
class Reverse:
    """Run the adjoint of the steps whose history has just been kept, from ``last`` back to ``first``."""

    first: int
    last: int


Action: TypeAlias = Forward | Save | Load | Drop | Reverse
"""One thing to do. The state of step 0 is neither saved nor dropped."""


@dataclass(frozen=True)
class Schedule:
    """The actions of a run and of its adjoint; one segment's history is alive at a time.

    Attributes
    ----------
    forward : tuple of Action
        From step 0 to the last step. It ends with the last segment, whose history is kept at once.
    backward : tuple of Action
        From the last step to step 0. It begins with that segment's `Reverse`.
    """

    forward: tuple[Action, ...]
    backward: tuple[Action, ...]

    @property
    def longest(self) -> int:
        """Steps of the longest segment whose history is kept."""
        return max(action.last - action.first for action in self.backward if isinstance(action, Reverse))

    @property
    def states(self) -> int:
        """Most saved states alive at once; that of step 0 is not counted."""
        most = alive = 0
        for action in self.forward + self.backward:
            alive += isinstance(action, Save) - isinstance(action, Drop)
            most = max(most, alive)
        return most

    @property
    def repeated(self) -> int:
        """Steps run forward beyond the first time, in all: the schedule's price in time."""
        runs = [action for action in self.forward + self.backward if isinstance(action, Forward)]
        return sum(run.last - run.first for run in runs) - max(run.last for run in runs)
