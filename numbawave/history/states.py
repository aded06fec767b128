"""States between two steps, kept where history is."""

from __future__ import annotations

from typing import Any

from numbawave.history.shelf import Shelf, pieces


class States:
    """Copies of states by step.

    Parameters
    ----------
    space : Space
    shelf : Shelf or None
        Where they go; where the run's arrays are for None.
    """

    def __init__(self, space: Any, shelf: Shelf | None) -> None:
        self.space, self.shelf = space, shelf
        self._kept: dict[int, list[Any]] = {}

    def save(self, step: int, state: list[Any]) -> None:
        """Keep a copy of a state's arrays."""
        if self.shelf is None:
            self._kept[step] = [self.space.own(array) for array in state]
            return
        for number, array in enumerate(state):
            for position, piece in enumerate(pieces([self.space.on_host(array).reshape(-1)])):
                self.shelf.put((step, number, position), piece)

    def load(self, step: int, state: list[Any]) -> None:
        """Overwrite a state's arrays."""
        for number, array in enumerate(state):
            if self.shelf is None:
                array[...] = self._kept[step][number]
                continue
            values = self.space.host_like(array)
            for position, piece in enumerate(pieces([values.reshape(-1)])):
                self.shelf.get((step, number, position), piece)
            self.space.fill(array, values)

    def drop(self, step: int) -> None:
        """Forget a state."""
        self._kept.pop(step, None)
        if self.shelf is not None:
            self.shelf.drop(step)

    def close(self) -> None:
        """Forget all."""
        self._kept.clear()
        if self.shelf is not None:
            self.shelf.close()
