"""States between two steps, kept where history is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from numbawave.history.base import Make, Need
from numbawave.history.bay import BAYS, Bay, Dock, docks
from numbawave.history.shelf import Shelf

LOAD_BYTES = 8 * 2**20
"""A load is what one shot has of some arrays, so many bytes at least if it fits into the state."""

Load = list[tuple[Any, slice]]
"""Arrays, and where each lies in what moves at once."""


class States:
    """Copies of states by step.

    Parameters
    ----------
    space : Space
    shelf : Shelf or None
        Where they go; where the run's arrays are for None.
    make : callable
    lend : callable, optional
        See ``Store``: nobody else uses what it gives while states are saved or loaded.
    """

    def __init__(self, space: Any, shelf: Shelf | None, make: Make, lend: Callable[[int], list[Any]] | None = None) -> None:
        self.space, self.shelf, self.make, self.lend = space, shelf, make, lend
        self._kept: dict[int, list[Any]] = {}
        self._bays: list[Bay] = []
        self._docks: list[Dock] = []

    @staticmethod
    def buffers(shapes: Sequence[tuple[int, ...]], real: str, on_device: bool, lent: int = 0) -> Iterator[Need]:
        """What states of arrays ``[shot, *box]`` take on their way to a shelf, if so many bytes are lent."""
        itemsize = np.dtype(real).itemsize
        size = max(ends[-1] for ends in _loads((prod(box) for shots, *box in shapes for _ in range(shots)), itemsize))
        if lent < size * itemsize:
            yield Need("states.moved", (size,), real, copies=BAYS)
        if on_device:
            yield Need("states.staged", (size,), real, "pinned", copies=docks(on_device))

    def save(self, step: int, state: list[Any]) -> None:
        """Keep a copy of a state's arrays."""
        if self.shelf is None:
            self._kept[step] = [self.space.own(array) for array in state]
            return
        loads = self._packed(state)
        self._berth(self.shelf, loads)
        with self.shelf.threads() as pool:
            for number, load in enumerate(loads):
                bay, dock = self._at(number)
                dock.settle()
                bay.vacate()
                for part, place in load:
                    bay.arrays[0][place].reshape(part.shape)[...] = part
                bay.out(_span(load), dock, [0])
                dock.send(pool, (step, number), _span(load))
            for dock in self._docks:
                dock.settle()

    def load(self, step: int, state: list[Any]) -> None:
        """Overwrite a state's arrays."""
        if self.shelf is None:
            for array, kept in zip(state, self._kept[step], strict=True):
                array[...] = kept
            return
        loads = self._packed(state)
        self._berth(self.shelf, loads)
        ahead = len(self._docks)
        for bay in self._bays:
            bay.leave()
        with self.shelf.threads() as pool:
            for number, load in enumerate(loads[:ahead]):
                self._at(number)[1].fetch(pool, (step, number), _span(load))
            for number, load in enumerate(loads):
                (bay, dock), later = self._at(number), number + ahead
                dock.settle()
                bay.back(_span(load), dock, [0])
                for part, place in load:
                    part[...] = bay.arrays[0][place].reshape(part.shape)
                bay.leave()
                if later < len(loads):
                    dock.fetch(pool, (step, later), _span(loads[later]))

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
        self._bays, self._docks = [], []
        if self.shelf is not None:
            self.shelf.close()

    def _berth(self, shelf: Shelf, loads: list[Load]) -> None:
        """Make what loads go through, or borrow it, where that has not been done yet."""
        if not self._bays:
            size, lane = max(load[-1][1].stop for load in loads), self.space.lane()
            arrays = (self.lend(size) if self.lend else []) or [self.make("states.moved") for _ in range(BAYS)]
            self._bays = [Bay([array], lane) for array in arrays]
            count = docks(self.space.device is not None)
            self._docks = [Dock([lane.staged(arrays[number % BAYS], 1)], shelf) for number in range(count)]

    def _at(self, number: int) -> tuple[Bay, Dock]:
        """Where a load goes through."""
        return self._bays[number % BAYS], self._docks[number % len(self._docks)]

    @staticmethod
    def _packed(state: list[Any]) -> list[Load]:
        """What each shot has of each array, and where in which load it lies."""
        parts = [part for array in state for part in array]
        found, place = [], iter(parts)
        for ends in _loads((prod(part.shape) for part in parts), parts[0].dtype.itemsize):
            found.append([(next(place), slice(*between)) for between in pairwise([0, *ends])])
        return found


def _loads(sizes: Iterable[int], itemsize: int) -> Iterator[list[int]]:
    """Parts in turn, as many together as make a load: where in it each of them ends."""
    ends: list[int] = []
    for size in sizes:
        ends.append((ends[-1] if ends else 0) + size)
        if ends[-1] * itemsize >= LOAD_BYTES:
            yield ends
            ends = []
    if ends:
        yield ends


def _span(load: Load) -> list[slice]:
    return [slice(0, load[-1][1].stop)]
