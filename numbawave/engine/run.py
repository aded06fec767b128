"""One run: arrays by name, the loop forward, and the loop back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from numbawave.backends.base import Backend
from numbawave.boundary.cpml import Damping
from numbawave.checkpoint import Forward, Schedule, uniform
from numbawave.engine.buffers import declare
from numbawave.engine.march import March
from numbawave.engine.setup import Setup
from numbawave.engine.space import HostMemory, Space
from numbawave.engine.tape import Tape
from numbawave.grid.domain import Box, Domain
from numbawave.history.base import Slots
from numbawave.history.storage import Storage
from numbawave.planning.ledger import Ledger
from numbawave.stencil.form import Field
from numbawave.stencil.program import Program

Arrays = dict[str, Any]
Given = Mapping[str, Any]


@dataclass
class Run:
    """What a run needs besides its arrays.

    Attributes
    ----------
    setup : Setup
    grid : Domain
    shots : int
    steps : int
        Internal time steps.
    dtype : numpy dtype
    damping : Damping
    backend : Backend
    cells : dict of str to ndarray of int64
        ``"cells_<source>"`` and ``"receivers_<field>"``: flat indices of points into a field of all shots, and with the
        prefix ``"model_"`` into the parameter grids.
    batched : bool
        Whether each shot has parameter grids of its own.
    stride : int
        Internal steps between two that history keeps.
    schedule : Schedule, optional
        Which steps are made again on the way back; none unless given.
    window : Box, optional
        The cells whose gradient is wanted; all computed ones unless given.
    storage : Storage, optional
        Where history is kept, and how it is coded; where the arrays are unless given.
    report : callable, optional
        Called with the number of steps done after each chunk.
    space : Space, optional
        Where the arrays live; the host's memory unless given.
    """

    setup: Setup
    grid: Domain
    shots: int
    steps: int
    dtype: np.dtype[Any]
    damping: Damping
    backend: Backend
    cells: Arrays
    batched: bool = False
    stride: int = 1
    schedule: Schedule = None  # type: ignore[assignment]
    window: Box = None  # type: ignore[assignment]
    storage: Storage = field(default_factory=Storage)
    report: Callable[[int], None] | None = None
    space: Space = None  # type: ignore[assignment]
    tape: Tape | None = field(default=None, repr=False)
    ledger: Ledger = field(default_factory=lambda: Ledger([]), repr=False)

    def __post_init__(self) -> None:
        self.space = self.space or HostMemory(self.dtype)
        self.schedule = self.schedule or uniform(self.steps, 1)
        self.window = self.window or self.grid.box("full")

    @property
    def model_step(self) -> int:
        """Elements from one shot's parameter grid to the next one's."""
        return self.grid.cells if self.batched else 0

    @property
    def slots(self) -> int:
        """Slots of history that are there at once."""
        kept = [action for action in (*self.schedule.forward, *self.schedule.backward) if isinstance(action, Forward)]
        return max(-(-k.last // self.stride) - -(-k.first // self.stride) for k in kept if k.keep)

    @property
    def box(self) -> Box:
        """The cells of which history is kept."""
        return self.grid.rows(self.window, self.backend.lanes)

    @property
    def boxed(self) -> bool:
        """Whether history leaves computed cells out."""
        return self.box != self.grid.rows(self.grid.box("full"), self.backend.lanes)

    def state_names(self) -> list[tuple[str, Field, str]]:
        """The state between two steps: public name, field, and the array that holds it."""
        found = []
        for field_ in self.setup.forward.fields:
            found.append((field_.name, field_, field_.name))
            if field_.levels == 2:
                found.append((f"{field_.name}_previous", field_, f"{field_.name}_next"))
        return found

    @property
    def slots_of(self) -> Slots:
        """What history is made of."""
        return Slots((self.setup.channels, self.shots, *self.box.shape), self.dtype.name, self.slots, self.stride)

    def state_views(self) -> Iterator[tuple[str, tuple[slice, ...]]]:
        """The parts of the state's arrays that can be other than zero: names of the arrays, and where."""
        for _, field_, array in self.state_names():
            depth = self.setup.storage_depth(field_.slab) if field_.slab else 0
            for where in self.grid.computed(field_.slab, depth):
                yield array, where

    def make(self, name: str, zero: bool = True) -> Any:
        """A buffer of the ledger."""
        buffer = self.ledger[name]
        if buffer.dtype != self.dtype.name:
            return self.space.buffer(prod(buffer.shape), buffer.dtype)
        return self.space.zeros(*buffer.shape) if zero else self.space.empty(*buffer.shape)

    def forward(self, parameters: Given, amplitudes: Given, initial: Given, keep: bool) -> tuple[Arrays, Arrays]:
        """Step through time.

        Parameters
        ----------
        parameters : mapping of str to ndarray
            Grids of the padded domain, zero outside its layers: ``[*domain.shape]`` or ``[shot, *domain.shape]``.
        amplitudes : mapping of str to ndarray
            By source, ``[step, shot * source]``.
        initial : mapping of str to ndarray
            Initial state by ``state_names``; what is absent is zero. Copied.
        keep : bool
            Whether the history for model gradients is kept, on ``self.tape``.

        Returns
        -------
        records, state : dict of str to ndarray
            By recorded field ``[step, shot * receiver]``, and the final state.
        """
        self.ledger = declare(self, keep)
        arrays = self._ahead("forward", parameters, amplitudes, initial)
        march = March(self, "forward", arrays)
        if keep:
            store = self.storage.store(self.slots_of, self.space, self.backend, partial(self.make, zero=False))
            self.tape = Tape(self.schedule, store, self.storage.states(self.space))
            arrays["history"] = self.tape.store.ring
            self.tape.forward(march)
        else:
            march.go(0, self.steps, history=False)
        return {record.name: arrays[f"record_{record.name}"] for record in self.setup.forward.records}, march.state

    def _ahead(self, group: str, parameters: Given, amplitudes: Given, initial: Given) -> Arrays:
        """The arrays of steps forward."""
        arrays = self._common(parameters)
        for name, _, array in self.state_names():
            arrays[array] = self.make(f"{group}.{array}", zero=name not in initial)
            if name in initial:
                arrays[array][...] = initial[name]
        self._buffers(group, arrays, self.setup.forward)
        for record in self.setup.forward.records:
            arrays[f"record_{record.name}"] = self.make(f"{group}.record_{record.name}", zero=False)
        for source in self.setup.forward.sources:
            arrays[f"amplitude_{source.name}"] = amplitudes[source.name]
        return arrays

    def residual(self, record: str, values: Any) -> Any:
        """Cotangents of a record as the adjoint reads them, zero for None."""
        shape = (self.steps, self.cells[f"receivers_{record}"].size)
        return self.space.zeros(*shape) if values is None else self.space.contiguous(values)

    def adjoint(
        self,
        parameters: Given,
        amplitudes: Given,
        residuals: Given,
        final: Given,
        initial: Given,
        image: bool,
        want_state: bool,
    ) -> tuple[Arrays, Arrays, Arrays]:
        """Step back through time.

        Parameters
        ----------
        parameters, amplitudes, initial : mapping of str to ndarray
            Those of the forward run; the initial state is read where steps are made again.
        residuals : mapping of str to ndarray
            Cotangents of the records, ``[step, shot * receiver]``.
        final : mapping of str to ndarray
            Cotangents of the final state; what is absent is zero.
        image : bool
            Whether the gradients of the parameter grids are wanted, by what the forward run kept on ``self.tape``.
        want_state : bool
            Whether the gradients of the initial state are wanted.

        Returns
        -------
        parameters, amplitudes, state : dict of str to ndarray
            Gradients, shaped like what they are gradients of.
        """
        arrays = self._common(parameters)
        for name, field_, array in self.state_names():
            arrays[f"adjoint_{array}"] = self._scaled(parameters, name, field_, array, final.get(name))
        self._buffers("back", arrays, self.setup.adjoint.program)
        for record in self.setup.forward.records:
            arrays[f"residual_{record.name}"] = residuals[record.name]
        for source in self.setup.forward.sources:
            arrays[f"amplitude_{source.name}"] = amplitudes[source.name]
            arrays[f"gradient_{source.name}"] = self.make(f"back.gradient_{source.name}")
        for name in (f"gradient_{parameter.name}" for parameter in self.setup.forward.parameters):
            arrays[name] = self.make(f"back.{name}") if image else self.space.zeros(0)
        march = March(self, "adjoint", arrays)
        if image:
            assert self.tape is not None
            arrays["history"] = ring = self.tape.store.ring
            ahead = partial(self._replay, parameters, amplitudes, initial, ring)
            self.tape.backward(ahead, march, initial)
        else:
            march.go(0, self.steps, history=False)
        gradients = self._gradients(arrays, parameters) if image else {}
        traces = {s.name: arrays[f"gradient_{s.name}"] for s in self.setup.forward.sources}
        state = {}
        if want_state:
            for name, field_, array in self.state_names():
                state[name] = self._unscaled(parameters, name, field_, arrays[f"adjoint_{array}"])
        return gradients, traces, state

    def _replay(self, parameters: Given, amplitudes: Given, initial: Given, ring: Any) -> March:
        """Steps forward that record nothing: there are no receivers."""
        arrays = self._ahead("again", parameters, amplitudes, initial) | {"history": ring}
        for record in self.setup.forward.records:
            arrays |= {f"{prefix}receivers_{record.name}": np.zeros(0, np.int64) for prefix in ("", "model_")}
        return March(self, "forward", arrays)

    def _common(self, parameters: Given) -> Arrays:
        arrays: Arrays = dict(parameters)
        for profile in self.setup.forward.profiles:
            axis = next(a for a in self.grid.axes if a.name == profile.axis)
            arrays[profile.name] = self.space.upload(self.damping.profile(profile, axis, self.setup.accuracy))
        return arrays | self.cells

    def _buffers(self, group: str, arrays: Arrays, program: Program) -> None:
        """A second array for every field whose stage needs one and that has not got one as its older level."""
        for stage in program.stages:
            names = [name for f in stage.fields for name in (f.name, *([f"{f.name}_next"] if stage.buffered(f) else ()))]
            for name in names:
                if name not in arrays:
                    arrays[name] = self.make(f"{group}.{name}")

    def _scaled(self, parameters: Given, name: str, field_: Field, array: str, cotangent: Any) -> Any:
        """Where the adjoint of a state's array starts."""
        start = self.make(f"back.adjoint_{array}", zero=cotangent is None)
        if cotangent is None:
            return start
        start[...] = cotangent
        self._clear_halo(start)
        if name != field_.name:
            start /= self.setup.older(field_)
        scale = self.setup.adjoint.scales.get(field_.name)
        if scale is not None:
            start *= parameters[scale.name]
        return start

    def _unscaled(self, parameters: Given, name: str, field_: Field, adjoint: Any) -> Any:
        """The gradient of an initial state's array."""
        if name != field_.name:
            adjoint *= self.dtype.type(self.setup.older(field_))
        scale = self.setup.adjoint.scales.get(field_.name)
        return adjoint if scale is None else self.space.divide(adjoint, parameters[scale.name])

    def _clear_halo(self, array: Any) -> None:
        for position, axis in enumerate(self.grid.axes, start=1):
            size = array.shape[position]
            for outside in (slice(0, axis.first), slice(size - (axis.size - axis.stop), size)):
                array[(slice(None),) * position + (outside,)] = 0.0

    def _gradients(self, arrays: Arrays, parameters: Given) -> Arrays:
        for name in parameters if self.window != self.grid.box("full") else ():
            inside = (..., *self.window.slices)
            kept = self.space.own(arrays[f"gradient_{name}"][inside])
            arrays[f"gradient_{name}"][...] = 0
            arrays[f"gradient_{name}"][inside] = kept
        images = [image for stage in self.setup.adjoint.program.stages for image in stage.images]
        for name in parameters:
            arrays[f"gradient_{name}"] *= self.dtype.type(self.stride)
            (divisor,) = {image.divisor for image in images if image.parameter.name == name} or {None}
            if divisor is not None:
                self.space.divide(arrays[f"gradient_{name}"], parameters[divisor.name])
        return {name: arrays[f"gradient_{name}"] for name in parameters}
