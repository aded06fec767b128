"""One run: arrays by name, the loop forward, and the loop back."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from numbawave.backends.base import Backend
from numbawave.boundary.cpml import Damping
from numbawave.checkpoint import Forward, Schedule, uniform
from numbawave.engine.buffers import declare
from numbawave.engine.march import Arrays, March
from numbawave.engine.replay import Replay
from numbawave.engine.reversal import Reversal, unwind
from numbawave.engine.scaling import finish, gradients, start
from numbawave.engine.setup import Setup
from numbawave.engine.space import HostMemory, Space
from numbawave.engine.tape import Tape, tape_of
from numbawave.grid.domain import Box, Domain
from numbawave.history.base import Slots
from numbawave.history.storage import Storage
from numbawave.planning.ledger import Ledger
from numbawave.stencil.program import Program
from numbawave.stencil.solution import Solution

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
    undo : Setup, optional
        That of the equation without layers, where history in the window is made by undoing steps instead of being kept.
    storage : Storage, optional
        Where history is kept, and how it is coded; where the arrays are unless given.
    batch : int
        Shots that run together; all for 0. See ``engine.batches``.
    later : bool
        Whether history is made on the way back, by steps that are made again.
    report : callable, optional
        Called with the number of steps done after each chunk.
    advice : callable, optional
        Says for a number of bytes which levers would make the run fit.
    space : Space, optional
        Where the arrays live; the host's memory unless given.
    back, to_start : bool
        Whether there are steps back, and whether the initial state's gradient is wanted of them.
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
    undo: Setup | None = None
    storage: Storage = field(default_factory=Storage)
    batch: int = 0
    later: bool = False
    report: Callable[[int], None] | None = None
    advice: Callable[[int], str] | None = None
    space: Space = None  # type: ignore[assignment]
    back: bool = True
    to_start: bool = True
    ring_starts: list[int] = field(default_factory=lambda: [0], repr=False)
    inner_ring: Arrays = field(default_factory=dict, repr=False)
    solved: tuple[Solution, ...] = field(default=(), repr=False)
    tape: Tape | None = field(default=None, repr=False)
    ledger: Ledger = field(default_factory=lambda: Ledger([]), repr=False)

    def __post_init__(self) -> None:
        self.space = self.space or HostMemory(self.dtype)
        self.schedule = self.schedule or uniform(self.steps, 1)
        self.window = self.window or self.grid.box("full")
        if self.undo is not None and self.ring_starts == [0]:
            unwind(self, self.undo)

    @cached_property
    def real(self) -> str:
        """The dtype's name, which NumPy makes anew whenever it is asked."""
        return self.dtype.name

    @property
    def model_step(self) -> int:
        """Elements from one shot's parameter grid to the next one's."""
        return self.grid.cells if self.batched else 0

    @property
    def slots(self) -> int:
        """Slots of history that are there at once."""
        kept = (a for a in (*self.schedule.forward, *self.schedule.backward) if isinstance(a, Forward) and a.keep)
        return max(-(-k.last // self.stride) - -(-k.first // self.stride) for k in kept)

    @property
    def box(self) -> Box:
        """The cells of which history is kept."""
        return self.grid.rows(self.window, self.backend.lanes)

    @property
    def boxed(self) -> bool:
        """Whether history leaves computed cells out."""
        return self.box != self.grid.rows(self.grid.box("full"), self.backend.lanes)

    @property
    def rings(self) -> bool:
        """Whether what is around the window's core is kept at each step."""
        return self.undo is not None

    @property
    def ring_of(self) -> Slots:
        """What the ring of a segment is made of."""
        return Slots((self.ring_starts[-1],), self.real, self.schedule.longest, 1)

    @property
    def slots_of(self) -> Slots:
        """What history is made of."""
        return Slots((self.setup.channels, self.shots, *self.box.shape), self.real, self.slots, self.stride)

    def state_views(self) -> Iterator[tuple[str, tuple[slice, ...]]]:
        """The parts of the state's arrays that can be other than zero: names of the arrays, and where."""
        for _, field_, array in self.setup.state_names:
            depth = self.setup.storage_depth(field_.slab) if field_.slab else 0
            for where in self.grid.computed(field_.slab, depth):
                yield array, where

    def make(self, name: str, zero: bool = True) -> Any:
        """A buffer of the ledger."""
        buffer = self.ledger[name]
        if buffer.dtype != self.real:
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
        keep = keep and not self.later
        self.tape = tape_of(self) if keep else None
        arrays = self._ahead("forward", parameters, amplitudes, initial)
        march = March(self, "forward", arrays)
        if self.tape is not None:
            arrays |= self._written()
            self.tape.forward(march)
        else:
            march.go(0, self.steps, history=False)
        return {record.name: arrays[f"record_{record.name}"] for record in self.setup.forward.records}, march.state

    def _written(self) -> Arrays:
        """What steps forward write for those back."""
        store = self.tape.store if self.tape is not None else None
        return store.written if isinstance(store, Reversal) else {"history": store.ring} if store is not None else {}

    def _ahead(self, group: str, parameters: Given, amplitudes: Given, initial: Given, lent: Container[str] = ()) -> Arrays:
        """The arrays of steps forward, without those that are lent."""
        arrays = self._common(parameters, amplitudes)
        for name, _, array in self.setup.state_names:
            if array not in lent:
                arrays[array] = self.make(f"{group}.{array}", zero=name not in initial)
            if name in initial:
                arrays[array][...] = initial[name]
        self._buffers(group, arrays, self.setup.forward, lent)
        for record in self.setup.forward.records:
            arrays[f"record_{record.name}"] = self.make(f"{group}.record_{record.name}", zero=False)
        return arrays

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
        self.tape = tape_of(self) if image and self.later else self.tape
        arrays = self._common(parameters, amplitudes)
        for name, field_, array in self.setup.state_names:
            arrays[f"adjoint_{array}"] = start(self, parameters, name, field_, array, final.get(name))
        self._buffers("back", arrays, self.setup.adjoint.program)
        for record in self.setup.forward.records:
            arrays[f"residual_{record.name}"] = residuals[record.name]
        for source in self.setup.forward.sources:
            arrays[f"gradient_{source.name}"] = self.make(f"back.gradient_{source.name}")
        for name in (f"gradient_{parameter.name}" for parameter in self.setup.forward.parameters):
            arrays[name] = self.make(f"back.{name}") if image else self.space.zeros(0)
        march = March(self, "adjoint", arrays)
        if image:
            assert self.tape is not None
            arrays["history"] = self.tape.store.ring
            self.tape.store.attach(parameters, amplitudes)
            self.tape.backward(Replay(self, march, partial(self._again, parameters, amplitudes)), initial)
            if self.later:
                self.tape.close()
        else:
            march.go(0, self.steps, history=False)
        ends = [f"adjoint_{array}" for _, _, array in self.setup.state_names] if want_state else []
        arrays = {name: array for name, array in arrays.items() if name.startswith("gradient_") or name in ends}
        del march  # with all other arrays: what follows may take their room
        found = gradients(self, arrays, parameters) if image else {}
        traces = {s.name: arrays[f"gradient_{s.name}"] for s in self.setup.forward.sources}
        state = {}
        if want_state:
            for name, field_, array in self.setup.state_names:
                state[name] = finish(self, parameters, name, field_, arrays[f"adjoint_{array}"])
        return found, traces, state

    def _again(self, parameters: Given, amplitudes: Given, lent: Container[str]) -> Arrays:
        """The arrays of steps forward that record nothing, for there are no receivers, without those lent."""
        arrays = self._ahead("again", parameters, amplitudes, {}, lent) | self._written()
        for record in self.setup.forward.records:
            arrays |= {f"{prefix}receivers_{record.name}": np.zeros(0, np.int64) for prefix in ("", "model_")}
        return arrays

    def _common(self, parameters: Given, amplitudes: Given) -> Arrays:
        arrays = dict(parameters) | self.cells | {f"amplitude_{name}": value for name, value in amplitudes.items()}
        sizes, profiles = {axis.name: axis.size for axis in self.grid.axes}, self.setup.forward.profiles
        rows = self.space.upload(self.damping.profiles(profiles, self.grid.axes, self.setup.accuracy))
        return arrays | {p.name: rows[k, : sizes[p.axis]] for k, p in enumerate(profiles)}

    def _buffers(self, group: str, arrays: Arrays, program: Program, lent: Container[str] = ()) -> None:
        """The arrays of a program's fields that are neither there, as parts of the state, nor lent."""
        for name in program.arrays:
            if name not in arrays and name not in lent:
                arrays[name] = self.make(f"{group}.{name}")
