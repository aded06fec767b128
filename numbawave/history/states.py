"""States between two steps, kept where history is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from numbawave.history.base import Make, Need
from numbawave.history.bay import Bay
from numbawave.history.shelf import Shelf

BAYS = 2
"""Parts of a state that are on their way at once; a part is what one shot has of an array."""


def docks(on_device: bool) -> int:
    """Copies on the host of each bay."""
    return 2 if on_device else 1


class States:
    """Copies of states by step.

    Parameters
    ----------
    space : Space
    shelf : Shelf or None
        Where they go; where the run's arrays are for None.
    make : callable
    """

    def __init__(self, space: Any, shelf: Shelf | None, make: Make) -> None:
        self.space, self.shelf, self.make = space, shelf, make
        self._kept: dict[int, list[Any]] = {}
        self._bays: list[Bay] = []

    @staticmethod
    def buffers(shapes: Sequence[tuple[int, ...]], real: str, on_device: bool) -> Iterator[Need]:
        """What states of arrays ``[shot, *box]`` take on their way to a shelf."""
        size = max(prod(shape[1:]) for shape in shapes)
        yield Need("states.moved", (size,), real, copies=BAYS)
        if on_device:
            yield Need("states.staged", (size,), real, "pinned", copies=BAYS * docks(on_device))

    def save(self, step: int, state: list[Any]) -> None:
        """Keep a copy of a state's arrays."""
        if self.shelf is None:
            self._kept[step] = [self.space.own(array) for array in state]
            return
        with self.shelf.threads() as pool:
            for number, part in enumerate(_parts(state)):
                bay, spans = self._bay(self.shelf, number), _spans(part)
                bay.vacate()
                bay.views(spans)[0].reshape(part.shape)[...] = part
                bay.send(pool, (step, number), spans)
            for bay in self._bays:
                bay.settle()

    def load(self, step: int, state: list[Any]) -> None:
        """Overwrite a state's arrays."""
        if self.shelf is None:
            for array, kept in zip(state, self._kept[step], strict=True):
                array[...] = kept
            return
        parts, ahead = list(_parts(state)), BAYS * docks(self.space.device is not None)
        with self.shelf.threads() as pool:
            for number, part in enumerate(parts[:ahead]):
                self._bay(self.shelf, number).fetch(pool, (step, number), _spans(part))
            for number, part in enumerate(parts):
                bay, spans, later = self._bay(self.shelf, number), _spans(part), number + ahead
                bay.land(spans)
                part[...] = bay.views(spans)[0].reshape(part.shape)
                bay.leave()
                if later < len(parts):
                    bay.fetch(pool, (step, later), _spans(parts[later]))

    def drop(self, step: int) -> None:
        """Forget a state."""
        self._kept.pop(step, None)
        if self.shelf is not None:
            self.shelf.drop(step)

    def close(self) -> None:
        """Forget all."""
        self._kept.clear()
        for bay in self._bays:
            bay.close()
        self._bays = []
        if self.shelf is not None:
            self.shelf.close()

    def _bay(self, shelf: Shelf, number: int) -> Bay:
        if not self._bays:
            lane, count = self.space.lane(), docks(self.space.device is not None)
            self._bays = [Bay([self.make("states.moved")], lane, shelf, count) for _ in range(BAYS)]
        return self._bays[number % BAYS]


def _parts(state: list[Any]) -> Iterator[Any]:
    for array in state:
        yield from array


def _spans(part: Any) -> list[slice]:
    return [slice(0, prod(part.shape))]
