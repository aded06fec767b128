"""What a run does, counted before it starts: the legs from which its time is expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

from numbawave.checkpoint import Action, Forward, Load, Save
from numbawave.engine.buffers import declare, state_bytes
from numbawave.engine.reversal import inner_grid
from numbawave.engine.shots import part_of
from numbawave.planning.ledger import Ledger, Moment
from numbawave.planning.seconds import Counts, Leg

Legs = tuple[Leg, ...]


def legs(run: Any, keep: bool) -> tuple[Legs, Legs]:
    """The legs of a run forward, and those back.

    Parameters
    ----------
    run : Run
    keep : bool
        Whether it keeps history.
    """
    if run.batch:
        return _in_batches(run, keep)
    ledger = declare(run, keep)
    actions = run.schedule.forward if keep and not run.later else (Forward(0, run.steps, keep=False),)
    first = Leg("forward", Counts(calls=1, fresh=_fresh(ledger, Moment.FORWARD)))
    return (first, *_ahead(run, actions)), tuple(_back(run, keep, ledger)) if run.back else ()


def _in_batches(run: Any, keep: bool) -> tuple[Legs, Legs]:
    """The legs of all batches: full ones, and what is left."""
    full, rest = divmod(run.shots, run.batch)
    found: tuple[Legs, Legs] = ((), ())
    for times, number in ((full, 0), (int(rest > 0), full)):
        if times:
            ahead, behind = legs(part_of(run, number)[1], keep)
            more = (tuple(replace(leg, times=times) for leg in each) for each in (ahead, behind))
            found = (found[0] + next(more), found[1] + next(more))
    return found


def _back(run: Any, image: bool, ledger: Ledger) -> Iterator[Leg]:
    yield Leg("adjoint", Counts(calls=1, fresh=_fresh(ledger, Moment.BACKWARD)))
    counts = _steps(run, run.setup.adjoint.program, run.grid, run.steps)
    if not image:
        yield Leg("adjoint", counts)
        return
    yield from _ahead(run, (*(run.schedule.forward if run.later else ()), *run.schedule.backward))
    slots = -(-run.steps // run.stride)
    counts = counts._replace(parts=_parts(run, (*run.schedule.forward, *run.schedule.backward)))
    moved = slots * run.slots_of.bytes
    if run.undo is not None:
        undone = _steps(run, run.undo.reverse, inner_grid(run), run.steps)
        yield Leg("forward", undone._replace(values=slots * run.slots_of.size, parts=counts.parts))
        counts, moved = _gathering(run, counts), run.steps * run.ring_of.bytes
    yield Leg("adjoint", counts._replace(values=slots * run.slots_of.size), read=moved)


def _ahead(run: Any, actions: Iterable[Action]) -> Iterator[Leg]:
    """Steps forward, those without and those with history, and states."""
    actions = tuple(actions)
    plain, kept = ([a for a in actions if isinstance(a, Forward) and a.keep == keep] for keep in (False, True))
    states = sum(isinstance(a, Save) or (isinstance(a, Load) and a.step > 0) for a in actions)
    steps = sum(a.last - a.first for a in plain)
    counts = _steps(run, run.setup.forward, run.grid, steps)._replace(parts=len(plain))
    yield Leg("forward", counts, states=states * state_bytes(run))
    steps = sum(a.last - a.first for a in kept)
    slots = sum(run.slots_of.number(a.first, a.last) for a in kept)
    values = 0 if run.solved else slots * run.slots_of.size
    counts = _steps(run, run.setup.forward, run.grid, steps)._replace(values=values, parts=_parts(run, kept))
    if run.undo is None:
        yield Leg("forward", counts, written=slots * run.slots_of.bytes)
    else:
        yield Leg("forward", _gathering(run, counts), written=steps * run.ring_of.bytes)


def _gathering(run: Any, counts: Counts) -> Counts:
    """The same steps with what is around the box, each."""
    return counts._replace(gathered=counts.steps, ring=counts.steps * run.ring_of.size)


def _parts(run: Any, actions: Iterable[Action]) -> int:
    """The parts of all segments whose history is kept."""
    slots, on_device = run.slots_of if run.undo is None else run.ring_of, run.space.device is not None
    kept = (action for action in actions if isinstance(action, Forward) and action.keep)
    return sum(run.storage.parts(slots, action.first, action.last, on_device) for action in kept)


def _steps(run: Any, program: Any, grid: Any, steps: int) -> Counts:
    sizes = [axis.last - axis.first for axis in grid.axes]
    cells, share, in_slabs = prod(sizes), run.shots * steps / run.backend.workers(run), 0
    for axis, size in zip(grid.axes, sizes, strict=True):
        if axis.absorbs:
            low, high = axis.slab(run.setup.depth(program, axis.name))
            in_slabs += cells // size * (low - axis.first + axis.last - high)
    layered = steps if any(axis.absorbs for axis in grid.axes) else 0
    return Counts(steps=steps, layered=layered, cells=cells * share, slabs=in_slabs * share)


def _fresh(ledger: Ledger, moment: Moment) -> int:
    """Bytes that a pass allocates where the model lies."""
    return sum(b.bytes for b in ledger if b.first == moment and b.place == "device" and not b.given)
