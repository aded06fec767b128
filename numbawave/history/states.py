"""States between two steps, kept where history is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from numbawave.history.base import Make, Need
from numbawave.history.bay import BAYS, Bay, docks
from numbawave.history.shelf import Shelf

LOAD_BYTES = 8 * 2**20
"""A load is what one shot has of some arrays, so many bytes at least if it fits into the state."""

DOCKS = 2
"""Copies on the host of each bay."""


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
    """

    def __init__(self, space: Any, shelf: Shelf | None, make: Make) -> None:
        self.space, self.shelf, self.make = space, shelf, make
        self._kept: dict[int, list[Any]] = {}
        self._bays: list[Bay] = []

    @staticmethod
    def buffers(shapes: Sequence[tuple[int, ...]], real: str, on_device: bool) -> Iterator[Need]:
        """What states of arrays ``[shot, *box]`` take on their way to a shelf."""
        sizes = (prod(box) for shots, *box in shapes for _ in range(shots))
        size = max(ends[-1] for ends in _loads(sizes, np.dtype(real).itemsize))
        yield Need("states.moved", (size,), real, copies=BAYS)
        if on_device:
            yield Need("states.staged", (size,), real, "pinned", copies=BAYS * docks(DOCKS, on_device))

    def save(self, step: int, state: list[Any]) -> None:
        """Keep a copy of a state's arrays."""
        if self.shelf is None:
            self._kept[step] = [self.space.own(array) for array in state]
            return
        with self.shelf.threads() as pool:
            for number, load in enumerate(self._packed(state)):
                bay = self._bay(self.shelf, number)
                bay.vacate()
                for part, place in load:
                    bay.arrays[0][place].reshape(part.shape)[...] = part
                bay.send(pool, (step, number), _span(load))
            for bay in self._bays:
                bay.settle()

    def load(self, step: int, state: list[Any]) -> None:
        """Overwrite a state's arrays."""
        if self.shelf is None:
            for array, kept in zip(state, self._kept[step], strict=True):
                array[...] = kept
            return
        loads, ahead = self._packed(state), BAYS * docks(DOCKS, self.space.device is not None)
        with self.shelf.threads() as pool:
            for number, load in enumerate(loads[:ahead]):
                self._bay(self.shelf, number).fetch(pool, (step, number), _span(load))
            for number, load in enumerate(loads):
                bay, later = self._bay(self.shelf, number), number + ahead
                bay.land(_span(load))
                for part, place in load:
                    part[...] = bay.arrays[0][place].reshape(part.shape)
                bay.leave()
                if later < len(loads):
                    bay.fetch(pool, (step, later), _span(loads[later]))

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
            lane, count = self.space.lane(), docks(DOCKS, self.space.device is not None)
            self._bays = [Bay([self.make("states.moved")], lane, shelf, count) for _ in range(BAYS)]
        return self._bays[number % BAYS]

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
