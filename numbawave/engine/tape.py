"""The past of a run: kept while it goes forward, made again and brought back while it goes back."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from numbawave.checkpoint import Action, Drop, Forward, Load, Reverse, Save, Schedule
from numbawave.engine.march import March
from numbawave.engine.replay import Replay
from numbawave.engine.reversal import store_of, surround
from numbawave.history.base import Store
from numbawave.history.states import States


class Tape:
    """What a run keeps of its steps forward for those back.

    Parameters
    ----------
    schedule : Schedule
    store : Store
        Takes the history of one segment at a time.
    states : States
    """

    def __init__(self, schedule: Schedule, store: Store, states: States) -> None:
        self.schedule, self.store, self.states = schedule, store, states
        self._ready = False

    @property
    def repeats(self) -> bool:
        """Whether going back may need steps forward again."""
        return not self.store.lasts or any(isinstance(action, Forward) for action in self.schedule.backward)

    def forward(self, ahead: March) -> None:
        """Go forward."""
        try:
            self._play(self.schedule.forward, lambda: ahead, None, {})
            self._ready = True
        finally:
            if not self._ready:
                self.close()

    def backward(self, replay: Replay, initial: Mapping[str, Any]) -> None:
        """Go back. What is used up by it is made again, from the initial state, should it be asked for once more.

        Parameters
        ----------
        replay : Replay
        initial : mapping of str to array
            The state at step 0; what is absent is zero.
        """
        again = () if self._ready else (Load(0), *self.schedule.forward)
        self._ready = not self.repeats  # also should this pass fail on its way
        try:
            self._play((*again, *self.schedule.backward), replay.ahead, replay.back, initial)
        finally:
            if not self._ready:
                self.close()

    def close(self) -> None:
        """Give back all that is kept."""
        self._ready = False
        self.states.close()  # first, as it may have borrowed of the other
        self.store.close()

    def _play(self, actions: Iterable[Action], ahead: Callable[[], March], back: Any, initial: Mapping[str, Any]) -> None:
        for action in actions:
            match action:
                case Forward(first, last, keep) if keep:
                    self.store.write(first, last, partial(ahead().go, history=True))
                    self.store.wrote(ahead())
                case Forward(first, last):
                    ahead().go(first, last, history=False)
                case Save(step):
                    self.states.save(step, ahead().views)
                case Load(0):
                    for name, array in ahead().state.items():
                        array[...] = initial.get(name, 0)
                case Load(step):
                    self.states.load(step, ahead().views)
                case Drop(step):
                    self.states.drop(step)
                case Reverse(first, last):
                    self.store.read(first, last, back)


def tape_of(run: Any) -> Tape:
    """An empty tape for a run."""
    if run.undo is not None and not run.inner_ring:
        surround(run)
    held = weakref.proxy(run)  # see ``store_of``
    store = store_of(run)
    states = run.storage.states(run.space, lambda name: held.make(name, zero=False), store)
    return Tape(run.schedule, store, states)
