"""Steps in one direction: named arrays, and the loops of a backend over them."""

from __future__ import annotations

from typing import Any

from numbawave.backends.base import Advance, Direction

Arrays = dict[str, Any]


class March:
    """Arrays that step through time.

    Parameters
    ----------
    run : Run
    direction : Direction
    arrays : dict of str to array
        By the names of the printed text; the march may exchange a field's array with that of its other time level.
    """

    def __init__(self, run: Any, direction: Direction, arrays: Arrays) -> None:
        self.run, self.direction, self.arrays = run, direction, arrays
        self._loops: dict[bool, Advance] = {}

    def go(self, first: int, last: int, history: bool) -> None:
        """Do steps ``first`` to ``last - 1``, or these backwards; ``history`` says whether they are kept or imaged."""
        run = self.run
        if history not in self._loops:
            self._loops[history] = run.backend.loop(run, self.direction, self.arrays, history)
        chunk = max(2, run.backend.chunk // (run.grid.cells * run.shots) // 2 * 2)
        for done in range(0, last - first, chunk):
            rest = min(done + chunk, last - first)
            ends = (first + done, first + rest) if self.direction == "forward" else (last - rest, last - done)
            self._loops[history](*ends)
            if run.report is not None:
                run.report(rest - done)

    @property
    def state(self) -> Arrays:
        """The arrays of the state, as they are now."""
        return {name: self.arrays[array] for name, _, array in self.run.setup.state_names}

    @property
    def views(self) -> list[Any]:
        """The parts of the state's arrays that can be other than zero."""
        return [self.arrays[array][:, *where] for array, where in self.run.state_views()]
