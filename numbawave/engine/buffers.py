"""The buffers of a run, from which its ledger is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

from numbawave.engine.replay import field_shapes, shared_arrays
from numbawave.engine.reversal import core, inner_grid, undone_at_once
from numbawave.engine.shots import part_of
from numbawave.history.states import States
from numbawave.planning.ledger import Buffer, Ledger, Moment

FORWARD, BACKWARD = Moment.FORWARD, Moment.BACKWARD


def declare(run: Any, keep: bool) -> Ledger:
    """The ledger of a run; ``keep`` says whether it keeps history for a backward pass that images."""
    found = list(_given(run))
    if run.batch:
        found += [*_of_all(run, keep), *_of_batch(run, keep)]
    else:
        kept = list(_kept(run)) if keep else []
        kept = [replace(buffer, first=BACKWARD) for buffer in kept] if run.later else kept
        found += [*_ahead(run, keep), *kept, *(_back(run, keep) if run.back else ())]
    return Ledger(found)


def _given(run: Any) -> Iterator[Buffer]:
    """Parameter grids and amplitudes, made from the caller's, and the gradients that go back to these."""
    real = run.real
    for parameter in run.setup.forward.parameters:
        yield Buffer(f"given.{parameter.name}", _model(run, run.grid), real, given=True)
    for source in run.setup.forward.sources:
        yield Buffer(f"given.amplitude_{source.name}", _traces(run, f"cells_{source.name}"), real, given=True)


def _of_all(run: Any, keep: bool) -> Iterator[Buffer]:
    """Results of all shots, where these run in batches."""
    real = run.real
    for _, field, array in run.setup.state_names:
        shape = (run.shots, *run.setup.field_shape(run.grid, field))
        yield Buffer(f"all.{array}", shape, real, result=True)
        if run.back and run.to_start:
            yield Buffer(f"all.adjoint_{array}", shape, real, first=BACKWARD)
    for record in run.setup.forward.records:
        yield Buffer(f"all.record_{record.name}", _traces(run, f"receivers_{record.name}"), real)
    for source in run.setup.forward.sources if run.back else ():
        yield Buffer(f"all.gradient_{source.name}", _traces(run, f"cells_{source.name}"), real, first=BACKWARD)
    for parameter in run.setup.forward.parameters if keep else ():
        yield Buffer(f"all.gradient_{parameter.name}", _model(run, run.grid), real, first=BACKWARD)


def _of_batch(run: Any, keep: bool) -> Iterator[Buffer]:
    """What the largest batch takes, which is gone when the next one begins."""
    part = part_of(run, 0)[1]
    for buffer in declare(part, keep):
        if not buffer.given:
            yield replace(buffer, last=FORWARD, result=False) if buffer.first == FORWARD else buffer
    for source in run.setup.forward.sources:
        yield Buffer(f"batch.amplitude_{source.name}", _traces(part, f"cells_{source.name}"), run.real)


def _model(run: Any, grid: Any) -> tuple[int, ...]:
    """The shape of a parameter on a grid."""
    return (*((run.shots,) if run.batched else ()), *grid.shape)


def _traces(run: Any, points: str) -> tuple[int, ...]:
    """The shape of what a step has at points."""
    return (run.steps, run.cells[points].size)


def _profiles(run: Any, use: str) -> Buffer:
    """The profiles of the absorbing layers."""
    longest = max(axis.size for axis in run.grid.axes)
    return Buffer(f"{use}.profiles", (len(run.setup.forward.profiles), longest), run.real, given=True)


def _ahead(run: Any, keep: bool) -> Iterator[Buffer]:
    """Steps forward, and those made again on the way back; the final state and the records are results."""
    real, results = run.real, {array for _, _, array in run.setup.state_names}
    again = int(
        run.later or run.schedule.repeated > 0
    )  # else steps are made again in a second backward pass only, if there is one
    lent = shared_arrays(run) if keep else {}
    for name, shape in field_shapes(run, run.setup.forward):
        last = BACKWARD if name in results else FORWARD
        yield Buffer(f"forward.{name}", shape, real, last=last, result=name in results)
        if keep and name not in lent:
            yield Buffer(f"again.{name}", shape, real, first=BACKWARD, copies=again)
    yield replace(_profiles(run, "forward"), last=FORWARD)
    if keep:
        yield replace(_profiles(run, "again"), first=BACKWARD, copies=again)
    for record in run.setup.forward.records:
        yield Buffer(f"forward.record_{record.name}", _traces(run, f"receivers_{record.name}"), real)
        if keep:
            yield Buffer(f"again.record_{record.name}", (run.steps, 0), real, first=BACKWARD)


def _kept(run: Any) -> Iterator[Buffer]:
    """History of a segment, and states."""
    slots, real = (run.slots_of if run.undo is None else run.ring_of), run.real
    for need in run.storage.buffers(slots, run.space.device is not None):
        name = need.name if run.undo is None else need.name.replace("history", "ring", 1)
        yield Buffer(name, need.shape, need.dtype, need.place, copies=need.copies)
    if run.undo is not None:
        first = BACKWARD if run.solved else FORWARD
        yield Buffer("history", (undone_at_once(run), *run.slots_of.shape), real, first=first)
        yield from _listed(run)
        grid = inner_grid(run)
        for name in run.undo.reverse.arrays:
            yield Buffer(f"undo.{name}", (run.shots, *grid.shape), real)
        for parameter in run.undo.forward.parameters:
            yield Buffer(f"undo.{parameter.name}", _model(run, grid), real, first=BACKWARD)
    if run.schedule.states:
        on_device = run.space.device is not None
        boxes = state_boxes(run)
        place = run.storage.place(on_device)
        yield Buffer("states", (run.shots, sum(map(prod, boxes))), real, place, copies=run.schedule.states)
        if place != "device":
            lent = run.storage.spare(slots, on_device)
            for need in States.buffers([(run.shots, *box) for box in boxes], real, on_device, lent):
                yield Buffer(need.name, need.shape, need.dtype, need.place, copies=need.copies)


def _listed(run: Any) -> Iterator[Buffer]:
    """Indices of the cells around the core, for steps forward and for those undone; see ``reversal.around``."""
    near, frame = run.ring_starts[1], run.window.cells * run.shots - core(run).cells * run.shots
    there = 3 * frame if run.solved else frame * run.setup.channels
    here = frame if run.solved else there
    on_device = run.space.device is not None
    last = BACKWARD if not on_device or run.later or run.schedule.repeated else FORWARD
    yield Buffer("ring.cells", (near + here,), "int64", last=last, given=True)
    yield Buffer("undo.cells", (near + there,), "int64", first=BACKWARD if on_device else FORWARD, given=True)


def state_boxes(run: Any) -> list[tuple[int, ...]]:
    """The shapes of what a shot has of a saved state."""
    return [tuple(end.stop - end.start for end in where) for _, where in run.state_views()]


def state_bytes(run: Any) -> int:
    """Bytes of a state as it is saved: wavefields of all time levels and the layers' memory, of all shots."""
    return int(sum(map(prod, state_boxes(run))) * run.shots * run.dtype.itemsize)


def _back(run: Any, keep: bool) -> Iterator[Buffer]:
    """Steps back."""
    real = run.real
    for name, shape in field_shapes(run, run.setup.adjoint.program, "adjoint_"):
        yield Buffer(f"back.{name}", shape, real, first=BACKWARD)
    yield replace(_profiles(run, "back"), first=BACKWARD)
    for source in run.setup.forward.sources:
        yield Buffer(f"back.gradient_{source.name}", _traces(run, f"cells_{source.name}"), real, first=BACKWARD)
    for record in run.setup.forward.records:
        yield Buffer(f"back.residual_{record.name}", _traces(run, f"receivers_{record.name}"), real, first=BACKWARD)
    for parameter in run.setup.forward.parameters:
        name = f"gradient_{parameter.name}"
        yield Buffer(f"back.{name}", _model(run, run.grid) if keep else (0,), real, first=BACKWARD)
        copies = run.backend.copies(run) if keep else 0
        if copies:
            yield Buffer(f"back.copies_{name}", (copies, run.grid.cells), real, first=BACKWARD)
