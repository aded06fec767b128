"""What a run does, counted before it starts: the legs from which its time is expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from numbawave.checkpoint import Action, Forward, Load, Save
from numbawave.engine.reversal import inner_grid
from numbawave.planning.ledger import Ledger, Moment
from numbawave.planning.seconds import Counts, Leg

Legs = tuple[Leg, ...]


def forward_legs(run: Any, ledger: Ledger, keep: bool) -> Legs:
    """The legs of a run forward.

    Parameters
    ----------
    run : Run
    ledger : Ledger
        Its buffers.
    keep : bool
        Whether it keeps history.
    """
    actions = run.schedule.forward if keep else (Forward(0, run.steps, keep=False),)
    return (Leg("forward", Counts(calls=1, fresh=_fresh(ledger, Moment.FORWARD))), *_ahead(run, actions))


def backward_legs(run: Any, ledger: Ledger, image: bool) -> Legs:
    """The legs of a run back; ``image`` says whether it reads history. See ``forward_legs``."""
    start = Leg("adjoint", Counts(calls=1, fresh=_fresh(ledger, Moment.BACKWARD)))
    if not image:
        return start, Leg("adjoint", _steps(run, run.setup.adjoint.program, run.grid, run.steps))
    slots, legs = -(-run.steps // run.stride), [start, *_ahead(run, run.schedule.backward)]
    counts = _steps(run, run.setup.adjoint.program, run.grid, run.steps)
    moved = slots * run.slots_of.bytes
    if run.undo is not None:
        undone = _steps(run, run.undo.reverse, inner_grid(run), run.steps)
        legs.append(Leg("forward", undone._replace(values=slots * run.slots_of.size)))
        counts, moved = counts._replace(ring=run.steps * run.ring_of.size), run.steps * run.ring_of.bytes
    legs.append(Leg("adjoint", counts._replace(values=slots * run.slots_of.size), read=moved))
    return tuple(legs)


def _ahead(run: Any, actions: Iterable[Action]) -> Iterator[Leg]:
    """Steps forward, those without and those with history, and states."""
    actions = tuple(actions)
    plain, kept = ([a for a in actions if isinstance(a, Forward) and a.keep == keep] for keep in (False, True))
    states = sum(isinstance(a, Save) or (isinstance(a, Load) and a.step > 0) for a in actions)
    steps = sum(a.last - a.first for a in plain)
    yield Leg("forward", _steps(run, run.setup.forward, run.grid, steps), states=states * saved_bytes(run))
    steps = sum(a.last - a.first for a in kept)
    slots = sum(-(-a.last // run.stride) - -(-a.first // run.stride) for a in kept)
    counts = _steps(run, run.setup.forward, run.grid, steps)._replace(values=slots * run.slots_of.size)
    if run.undo is None:
        yield Leg("forward", counts, written=slots * run.slots_of.bytes)
    else:
        yield Leg("forward", counts._replace(ring=steps * run.ring_of.size), written=steps * run.ring_of.bytes)


def saved_bytes(run: Any) -> int:
    """Bytes of a state as it is saved."""
    size = sum(prod(end.stop - end.start for end in where) for _, where in run.state_views())
    return int(size * run.shots * run.dtype.itemsize)


def _steps(run: Any, program: Any, grid: Any, steps: int) -> Counts:
    sizes = [axis.last - axis.first for axis in grid.axes]
    cells, share, in_slabs = prod(sizes), run.shots * steps / run.backend.workers(run), 0
    for axis, size in zip(grid.axes, sizes, strict=True):
        if axis.absorbs:
            low, high = axis.slab(run.setup.depth(program, axis.name))
            in_slabs += cells // size * (low - axis.first + axis.last - high)
    return Counts(steps=steps, cells=cells * share, slabs=in_slabs * share)


def _fresh(ledger: Ledger, moment: Moment) -> int:
    """Bytes that a pass allocates where the model lies."""
    return sum(b.bytes for b in ledger if b.first == moment and b.place == "device" and not b.given)
