"""History made again by running the wave backwards.

Inside the model, as far as the layers do not reach, nothing is lost: steps can be undone. What comes in from around this
core was kept at each step. So was the history of the cells between it and the layers, unless the fields there, kept in its
stead, say what it was: then these serve for both.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numbawave.engine.march import March
from numbawave.engine.setup import Setup
from numbawave.grid.domain import Box, Domain
from numbawave.history.base import Plain, Store, Walk
from numbawave.history.parts import parts, slots_at_once

Cells = NDArray[np.int64]


def undone_at_once(run: Any) -> int:
    """Slots of history that are made before they are read."""
    return min(16, slots_at_once(run.slots_of.bytes, run.slots))


def inner_grid(run: Any) -> Domain:
    """The grid of the box, without layers; its halo holds what is around."""
    spacing = tuple(axis.spacing for axis in run.grid.axes)
    return run.undo.domain(run.box.shape, ((0, 0),) * len(spacing), spacing, run.backend.align)  # type: ignore[no-any-return]


def inner_box(run: Any, grid: Domain) -> Box:
    """Where the window lies in that grid; on a CPU the box's rows may be longer."""
    return _moved(run.window, _move(run, grid))


def core(run: Any) -> Box:
    """The cells of the window that no layer reaches: there steps can be undone."""
    first, stop = list(run.window.first), list(run.window.stop)
    for position, axis in enumerate(run.grid.axes):
        depth = run.setup.depth(run.setup.forward, axis.name)
        first[position] = max(first[position], axis.origin + depth) if axis.low else first[position]
        stop[position] = min(stop[position], axis.origin + axis.cells - depth) if axis.high else stop[position]
    return Box(tuple(first), tuple(max(ends) for ends in zip(first, stop, strict=True)))


def around(run: Any) -> tuple[dict[str, Cells], dict[str, Cells]]:
    """Cells that undoing needs: flat indices into fields of the run, and of the inner grid.

    ``around_core``: next to the core, as far as stages read. The others lie in the window but not in its core: where
    history is found by the fields, ``around_frame``, and in the inner grid ``model_around_frame`` into parameters and
    ``past_around_frame`` into a channel of history; then ``around_core`` leaves these out. Else ``around_edge``, indices
    into a slot of history, the same for both.
    """
    grid, every = inner_grid(run), np.arange(run.shots)[:, None]
    move = _move(run, grid)
    frame = _frame(run, grid, move)
    lists = {"around_core": _inside(_near(run, grid, move))} | ({"around_frame": _inside(frame)} if run.solved else {})
    here, there = (
        {name: _listed(_flat(cells, by, domain) + every * domain.cells) for name, cells in lists.items()}
        for domain, by in ((run.grid, move), (grid, np.zeros_like(move)))
    )
    past = np.flatnonzero(frame[grid.interior])
    if run.solved:
        model = _flat(lists["around_frame"], np.zeros_like(move), grid)
        there["model_around_frame"] = _listed(model + every * grid.cells * run.batched)
        there["past_around_frame"] = _listed(past + every * run.box.cells)
    else:
        edge = _listed(past + np.arange(run.setup.channels * run.shots)[:, None] * run.box.cells)
        here["around_edge"] = there["around_edge"] = edge
    return here, there


def unwind(run: Any, undo: Setup) -> None:
    """Let history in a run's window be made by undoing steps; ``undo`` is the setup of its equation without layers.

    What is kept of the edge of the window are the fields there, if these say what history was, and if they come back bit
    by bit: it is a small difference of large values.

    Raises
    ------
    EquationError
        If a step of the equation cannot be undone.
    """
    exact = run.storage.compression is None or run.storage.compression.lossless
    run.undo, run.inner_ring = (undo if undo.reverse else None), {}
    run.solved = undo.solutions if exact and undo.solutions == run.setup.solutions else ()
    run.ring_starts = [0, *accumulate(ring_sizes(run))]


def ring_sizes(run: Any) -> list[int]:
    """Cells of each array of a ring, counted without listing them: next to the core for each, and of the frame."""
    inside, width = core(run), run.undo.halo
    frame, near = run.window.cells - inside.cells, 0
    for k, ends in enumerate(zip(inside.first, inside.stop, run.window.first, run.window.stop, strict=True)):
        low, high, first, stop = ends
        shared = sum(max(0, min(b, stop) - max(a, first)) for a, b in ((low - width, low), (high, high + width)))
        near += (2 * width - shared * bool(run.solved)) * prod(inside.shape[:k] + inside.shape[k + 1 :])
    each = len(run.solved) or run.setup.channels
    frames = [frame * run.shots] * each if run.solved else [frame * run.shots * each]
    return [near * run.shots] * len(run.undo.rings) + frames


def surround(run: Any) -> None:
    """List the cells around a run's core, for its kernels."""
    ring, run.inner_ring = around(run)
    run.cells = run.cells | ring


def _near(run: Any, grid: Domain, move: Cells) -> NDArray[np.bool_]:
    """The cells of the inner grid next to the core, as far as stages read; without those of the frame, if it is kept."""
    width, inside, near = run.undo.halo, _moved(core(run), move), np.zeros(grid.shape, bool)
    for position in range(len(grid.axes)):
        low, high = inside.first[position], inside.stop[position]
        for ends in ((low - width, low), (high, high + width)):
            near[(*inside.slices[:position], slice(*ends), *inside.slices[position + 1 :])] = True
    if run.solved:
        near[_moved(run.window, move).slices] = False
    return near


def _frame(run: Any, grid: Domain, move: Cells) -> NDArray[np.bool_]:
    """The cells of the inner grid that lie in the window but not in its core."""
    frame = np.zeros(grid.shape, bool)
    frame[_moved(run.window, move).slices] = True
    frame[_moved(core(run), move).slices] = False
    return frame


def _inside(mask: NDArray[np.bool_]) -> tuple[Cells, ...]:
    """The cells of a mask, an array an axis: several times faster than ``numpy.nonzero``."""
    return np.unravel_index(np.flatnonzero(mask), mask.shape)


def _flat(cells: tuple[Cells, ...], move: Cells, grid: Domain) -> Cells:
    """Flat indices of cells of one shot, once they are moved."""
    return np.ravel_multi_index([at - by for at, by in zip(cells, move, strict=True)], grid.shape)  # type: ignore[no-any-return]


def _listed(cells: Cells) -> Cells:
    return cells.reshape(-1).astype(np.int64, copy=False)


def _move(run: Any, grid: Domain) -> Cells:
    """From the run's cells to those of the inner grid."""
    move: Cells = np.array([axis.first for axis in grid.axes]) - np.array(run.box.first)
    return move


def _moved(box: Box, move: Cells) -> Box:
    return Box(tuple(int(k) for k in box.first + move), tuple(int(k) for k in box.stop + move))


class Reversal(Plain):
    """A store that keeps what is around a box, and makes the history inside by undoing the steps.

    Parameters
    ----------
    run : Run
    ring : Store
        Keeps what is around.
    """

    lasts = False

    def __init__(self, run: Any, ring: Store) -> None:
        self._run, self.kept = weakref.ref(run), ring  # the run holds the store
        self.each = undone_at_once(run)
        self._ring: Any = None
        self._state: dict[str, Any] = {}
        self._given: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
        self._march: March | None = None

    @property
    def run(self) -> Any:
        """The run of this store."""
        return self._run()

    @property
    def kept_bytes(self) -> int:
        """See ``Store``."""
        return self.kept.kept_bytes

    @property
    def coding_seconds(self) -> float:
        """See ``Store``."""
        return self.kept.coding_seconds

    @property
    def ring(self) -> Any:
        """See ``Store``."""
        if self._ring is None:
            self._ring = self.run.make("history", zero=False)
        return self._ring

    def write(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        self.kept.write(first, last, walk)

    def wrote(self, ahead: March) -> None:
        """Take the state inside the box, from which steps will be undone."""
        inside, box = inner_box(self.run, self._inner.grid).slices, self.run.window.slices
        for field in self.run.undo.forward.fields:
            ends = [("", "_next"), ("_next", "")] if field.levels == 2 else [("", "")]
            for end, other in ends:  # backwards the newest value is what the oldest one was
                name, array = f"{field.name}{end}", ahead.arrays[f"{field.name}{other}"]
                if name not in self._state:
                    self._state[name] = self.run.make(f"undo.{name}")
                taken = self._state if self._march is None else self._march.arrays
                taken[name][:, *inside] = array[:, *box]

    @property
    def written(self) -> dict[str, Any]:
        """What steps forward write; history, too, where it is needed to say what it is around the core."""
        return {"ring": self.kept.ring} | ({} if self.run.solved else {"history": self.ring})

    def attach(self, parameters: Mapping[str, Any], amplitudes: Mapping[str, Any]) -> None:
        """What steps backwards read besides."""
        self._given, self._march = (parameters, amplitudes), None

    def read(self, first: int, last: int, walk: Walk) -> None:
        """See ``Store``."""
        march = self._march = self._march or self._backwards()

        def both(start: int, stop: int) -> None:
            for part in reversed(list(parts(start, stop, self.each, self.run.stride))):
                march.go(part.first, part.last, history=True)
                walk(part.first, part.last)

        self.kept.read(first, last, both)

    def lend(self, size: int) -> list[Any]:
        """See ``Store``."""
        return self.kept.lend(size)

    def close(self) -> None:
        """See ``Store``."""
        self._ring, self._march, self._state, self._given = None, None, {}, ({}, {})
        self.kept.close()

    @cached_property
    def _inner(self) -> Any:
        """The run inside the box."""
        run, grid = self.run, inner_grid(self.run)
        cells, move = dict(run.inner_ring), _move(run, grid)
        for source in run.undo.forward.sources:
            name = f"cells_{source.name}"
            shot, flat = np.divmod(run.cells[name], run.grid.cells)
            at = np.stack(np.unravel_index(flat, run.grid.shape), -1) + move
            # One outside the box comes to lie in its halo: what is read of that is what was kept.
            inside = np.ravel_multi_index(tuple(at.T), grid.shape, mode="clip").astype(np.int64)
            cells[name] = inside + shot * grid.cells
            cells[f"model_{name}"] = inside + (shot * grid.cells if run.batched else 0)
        window = grid.box("full")
        return replace(run, setup=run.undo, grid=grid, cells=cells, window=window, report=None, tape=None)

    def _backwards(self) -> March:
        """The steps backwards, from the state that was taken."""
        parameters, amplitudes = self._given
        inside, box = inner_box(self.run, self._inner.grid).slices, self.run.window.slices
        arrays: dict[str, Any] = self._inner.cells | {f"amplitude_{name}": value for name, value in amplitudes.items()}
        for parameter in self.run.undo.forward.parameters:
            arrays[parameter.name] = self.run.make(f"undo.{parameter.name}")
            arrays[parameter.name][..., *inside] = parameters[parameter.name][..., *box]
        for name in self.run.undo.reverse.arrays:
            if name not in self._state:
                self._state[name] = self.run.make(f"undo.{name}")
        return March(self._inner, "reverse", arrays | self._state | {"history": self.ring, "ring": self.kept.ring})


def store_of(run: Any) -> Store:
    """The store of a run's history."""
    held = weakref.proxy(run)  # a store that held its run would stay, with its file, until garbage is collected

    def make(name: str) -> Any:
        return held.make(name if held.undo is None else name.replace("history", "ring", 1), zero=False)

    slots = run.slots_of if run.undo is None else run.ring_of
    kept = run.storage.store(slots, run.space, run.backend, make)
    return kept if run.undo is None else Reversal(run, kept)
