"""What a backend is."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np

from numbawave.codegen.layout import History

Direction = Literal["forward", "adjoint", "reverse"]
"""In reverse a run without layers undoes its steps, with what is around it loaded from a ring."""
Advance = Callable[[int, int], None]


class Coder(Protocol):
    """Quantises flat arrays, and brings them back; see ``codegen.coding``."""

    def encode(self, values: Any, coding: str, codes: Any, scales: Any) -> None:
        """Overwrite codes and scales."""

    def decode(self, codes: Any, coding: str, scales: Any, values: Any) -> None:
        """Overwrite values."""

    def close(self) -> None:
        """Forget the arrays."""


class Backend(Protocol):
    """Runs programs over named arrays.

    The arrays are those of the printed text: fields and their ``_next`` buffers, parameters, profiles, points,
    amplitudes, records, history.

    Attributes
    ----------
    name : str
    chunk : int
        Cell updates in one call of ``advance``, a fraction of a second: between calls Ctrl-C and progress are served.
    align : int
        Rows of the grid start at multiples of so many elements; see ``Axis``.
    lanes : int
        Rows of history are so many elements long, or a multiple.
    """

    name: str
    chunk: int
    align: int
    lanes: int

    def loop(self, run: Any, direction: Direction, arrays: dict[str, Any], history: bool) -> Advance:
        """Make ready to step through time.

        Returns
        -------
        callable
            ``advance(first, last)`` does steps ``first`` to ``last - 1``, the adjoint those from the last to the first,
            and leaves the newest value of each field under the field's own name. ``history`` says whether steps are kept
            (forward) or imaged (adjoint).
        """

    def coder(self, space: Any) -> Coder:
        """The quantisers of history for arrays of a space."""

    def workers(self, run: Any) -> int:
        """Threads of the host among which the cells of a step are shared; 1 on a device."""

    def copies(self, run: Any) -> int:
        """Copies of each parameter's gradient that a run back adds up at its end, ``back.copies_*`` of its ledger."""


def history_use(run: Any, direction: Direction, history: bool) -> History:
    """How a run's kernels touch history."""
    if not history:
        return frozenset()
    if direction == "forward" and run.solved:
        return frozenset(["ring", "solved"])
    ring = ["ring"] * (direction == "forward" and run.rings) + ["solved"] * (direction == "reverse" and bool(run.solved))
    return frozenset(["kept", *["some"] * (run.stride > 1), *["boxed"] * run.boxed, *ring])


def grid_values(run: Any, program: Any) -> dict[str, Any]:
    """The integers and scalars that printed kernels take, by name."""
    found = {"shots": run.shots, "cells": run.grid.cells, "model_step": run.model_step, "past": run.box.cells}
    for axis, first, stop in zip(run.grid.axes, run.box.first, run.box.stop, strict=True):
        found |= {f"{axis.name}_from": first, f"{axis.name}_to": stop, f"{axis.name}_past": stop - first}
        low, high = axis.slab(run.setup.depth(program, axis.name))
        found |= {
            f"n{axis.name}": axis.size,
            f"{axis.name}_first": axis.first,
            f"{axis.name}_last": axis.last,
        }
        found |= {
            f"{axis.name}_rows": axis.last - axis.first,
            f"{axis.name}_low": low,
            f"{axis.name}_high": high,
        }
        depth = run.setup.storage_depth(axis.name)
        found |= {f"{axis.name}_slab": axis.slab_size(depth), f"{axis.name}_moved": axis.moved(depth)}
    found |= {"slot_size": run.slots_of.size, "channel_size": run.shots * run.box.cells, "ring_size": run.ring_starts[-1]}
    found |= {f"ring_start_{k}": start for k, start in enumerate(run.ring_starts)}
    values: dict[str, Any] = {name: np.uint64(value) for name, value in found.items()}
    values["per_stride"] = run.dtype.type(1.0 / run.stride)
    for axis in run.grid.axes:
        values[f"per_{axis.name}"] = run.dtype.type(1.0 / axis.spacing)
        values[f"per_{axis.name}{axis.name}"] = run.dtype.type(1.0 / axis.spacing**2)
    return values


def exchange(program: Any, arrays: dict[str, Any], steps: int) -> None:
    """Leave newest values under the fields' own names, as so many steps with local names had them."""
    for stage in program.stages:
        for name in (f.name for f in stage.fields if stage.buffered(f) and steps % 2):
            arrays[name], arrays[f"{name}_next"] = arrays[f"{name}_next"], arrays[name]
