"""Which of a run's shots run together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any


def batches(run: Any) -> int:
    """How many times shots are taken."""
    return -(-run.shots // run.batch) if run.batch else 1


def split(run: Any) -> Iterator[tuple[slice, Any]]:
    """The shots of a run, ``run.batch`` at a time, and a run of these alone that makes its history on the way back."""
    return (part_of(run, number) for number in range(batches(run)))


def part_of(run: Any, number: int) -> tuple[slice, Any]:
    """One of the batches, see ``split``."""
    first, last = number * run.batch, min((number + 1) * run.batch, run.shots)
    cells = {}
    for name, flat in run.cells.items():
        moved = 0 if name.startswith("model_") and not run.batched else first * run.grid.cells
        cells[name] = flat[columns(flat.size, run.shots, slice(first, last))] - moved
    return slice(first, last), replace(run, shots=last - first, batch=0, later=True, cells=cells, ring_starts=[0])


def columns(points: int, shots: int, some: slice) -> slice:
    """Where the points of some shots lie among those of all."""
    each = points // shots
    return slice(some.start * each, some.stop * each)
