"""A run of any program on random arrays: what every contract needs, whatever the equation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pytest

from numbawave.backends import BACKENDS, simulated
from numbawave.boundary.cpml import Cpml, Damping
from numbawave.checkpoint import uniform
from numbawave.engine.run import Run
from numbawave.engine.setup import Setup, derive
from numbawave.engine.space import HostMemory, Space
from numbawave.equations import EQUATIONS
from numbawave.grid.axes import axis_names
from numbawave.grid.domain import Region
from numbawave.history.storage import Storage
from numbawave.stencil.form import Field, Scaled, walk
from numbawave.stencil.linearise import linearise
from numbawave.stencil.program import Program
from numbawave.stencil.trace import Trace, trace
from tests.contract import acoustic

Array = np.ndarray
Arrays = dict[str, Array]

UPDATES: dict[str, Callable[[Trace], None]] = {name: equation.update for name, equation in EQUATIONS.items()}
UPDATES = dict(sorted({"acoustic_page": acoustic.update, **UPDATES}.items()))
"""Every equation of the package, and the page that the tests keep."""

WIDTHS = ((1, 2), (3, 1), (2, 3))
SHAPE = (2, 4, 5)
SPACING = (1.0, 1.3, 0.9)


@dataclass(frozen=True)
class Case:
    """What a contract is tested on."""

    equation: str
    ndim: int
    accuracy: int = 4
    backend: str = "reference"
    dtype: str = "float64"
    widths: tuple[tuple[int, int], ...] = WIDTHS
    shape: tuple[int, ...] = SHAPE
    batched: bool = False
    stride: int = 1
    steps: int = 7
    shots: int = 2
    align: int | None = None
    region: Region = "full"
    segments: int = 1
    undo: bool = False
    storage: Storage = field(default_factory=Storage)
    together: bool = True
    """Whether the first two points of a shot are one cell; else no two points of a kind are, whatever their shots."""

    def __str__(self) -> str:
        plain = Case(self.equation, self.ndim)
        names = [field.name for field in fields(self)][2:]
        changed = [f"{n}={getattr(self, n)}" for n in names if getattr(self, n) != getattr(plain, n)]
        return "-".join([self.equation, f"{self.ndim}d", *changed]).replace(" ", "")


@lru_cache
def program(equation: str, ndim: int, absorbing: frozenset[str]) -> Program:
    """The traced program of an equation."""
    return trace(equation, UPDATES[equation], axis_names(ndim), {axis: Cpml() for axis in sorted(absorbing)})


@lru_cache
def setup(equation: str, ndim: int, absorbing: frozenset[str], accuracy: int, tangent: bool) -> Setup:
    """The setup of an equation or of its tangent; one object a case, as compiled code is found by it."""
    forward = program(equation, ndim, absorbing)
    return derive(linearise(forward) if tangent else forward, accuracy)


def space(case: Case) -> Space:
    """Where the arrays live: on the GPU for its backend, else, and in the simulator, in the host's memory."""
    if case.backend != "cuda" or simulated():
        return HostMemory(np.dtype(case.dtype))
    import torch

    from numbawave.torch_bridge.space import DeviceTensors

    return DeviceTensors(getattr(torch, case.dtype), 0)


@dataclass
class Experiment:
    """A run with random parameters, amplitudes and initial state; ``tangent`` runs the linearised program instead."""

    case: Case
    tangent: bool = False
    seed: int = 5

    @cached_property
    def run(self) -> Run:
        case, n = self.case, self.case.ndim
        widths, axes = case.widths[-n:], axis_names(n)
        absorbing = frozenset(axis for axis, width in zip(axes, widths, strict=True) if sum(width))
        found = setup(case.equation, n, absorbing, case.accuracy, self.tangent)
        grid = found.domain(case.shape[-n:], widths, SPACING[-n:], case.align or BACKENDS[case.backend]().align)
        names = {"cells": found.forward.sources, "receivers": found.forward.records}
        cells: Arrays = {}
        for prefix, things in names.items():
            for thing in things:
                flat, model = self._points(grid, 2 if prefix == "cells" else 3)
                cells[f"{prefix}_{thing.name}"], cells[f"model_{prefix}_{thing.name}"] = flat, model
        damping = Damping(0.3, 1.5, 0.2)
        backend = BACKENDS[case.backend]()
        undo = setup(case.equation, n, frozenset(), case.accuracy, self.tangent) if case.undo else None
        return Run(found, grid, case.shots, case.steps, np.dtype(case.dtype), damping, backend, cells, case.batched,
                   case.stride, uniform(case.steps, case.segments), grid.box(case.region), undo, case.storage,
                   space=space(case))  # fmt: skip

    def _points(self, grid: Any, count: int) -> tuple[Array, Array]:
        """Cells of points: the first two of each shot are one cell, the same for sources and receivers, if ``together``."""
        case, rng = self.case, np.random.default_rng(3)
        shape = case.shape[-case.ndim :]
        at = np.stack([rng.integers(0, n, (case.shots, 1)) for n in shape], -1).repeat(count, 1)
        rng = np.random.default_rng(4)
        more = np.stack([rng.integers(0, n, (case.shots, count)) for n in shape], -1)
        at[:, 2:] = more[:, 2:]
        if not case.together:
            every = rng.permutation(np.prod(shape, dtype=int))[: case.shots * count]
            at = np.stack(np.unravel_index(every.reshape(case.shots, count), shape), -1)
        at = at + [axis.origin for axis in grid.axes]
        flat = np.ravel_multi_index(tuple(np.moveaxis(at, -1, 0)), grid.shape)
        shot = np.arange(case.shots)[:, None] * grid.cells
        return (flat + shot).ravel(), (flat + (shot if case.batched else 0)).ravel()

    def random(self, *shape: int, seed: int = 0) -> Array:
        """Normal random numbers of the run's dtype."""
        return np.random.default_rng((self.seed, seed)).standard_normal(shape).astype(self.run.dtype)

    @cached_property
    def parameters(self) -> Arrays:
        """Grids, positive on the model and its layers and zero elsewhere; a change ``d_*`` has either sign."""
        found = {}
        for k, parameter in enumerate(self.run.setup.forward.parameters):
            values = np.random.default_rng((self.seed, k)).random(self._grids_shape)
            if parameter.name.startswith("d_"):
                values = 20 * (values - 0.5)
            found[parameter.name] = self.inside(0.05 + 0.1 * values)
        return found

    @property
    def _grids_shape(self) -> tuple[int, ...]:
        return (*((self.case.shots,) if self.case.batched else ()), *self.run.grid.shape)

    @cached_property
    def amplitudes(self) -> Arrays:
        """By source, ``[step, shot * source]``."""
        sources = self.run.setup.forward.sources
        sizes = {s.name: self.run.cells[f"cells_{s.name}"].size for s in sources}
        return {name: self.random(self.case.steps, n, seed=100 + k) for k, (name, n) in enumerate(sizes.items())}

    @cached_property
    def initial(self) -> Arrays:
        """A random state, memory variables included."""
        return self.random_state(200)

    def random_state(self, seed: int) -> Arrays:
        """Random wavefields on the model and its layers, random memory where a profile lets it be other than zero."""
        found = {}
        for k, (name, field_, _) in enumerate(self.run.setup.state_names):
            full = self.inside(self.random(self.case.shots, *self.run.grid.shape, seed=seed + k))
            found[name] = self.compact(field_, full * self._remembered(field_))
        return found

    def inside(self, values: Array) -> Array:
        """Zero in the halo and in dead cells."""
        kept = np.zeros_like(values, dtype=self.run.dtype)
        kept[(..., *self.run.grid.interior)] = values[(..., *self.run.grid.interior)]
        return kept

    def kept(self, field_: Field) -> tuple[Array, Array]:
        """Where along its axis a memory variable's values lie in its array, and in the grid."""
        axis = next(a for a in self.run.grid.axes if a.name == field_.slab)
        size = self.run.setup.field_shape(self.run.grid, field_)[self.run.grid.axes.index(axis)]
        depth, there = self.run.setup.storage_depth(axis.name), np.arange(size)
        here = np.where(there < axis.slab(depth)[0] + axis.halo, there, there + axis.moved(depth))
        return there[here < axis.size], here[here < axis.size]

    def compact(self, field_: Field, full: Array) -> Array:
        """A field as the run keeps it, from the whole grid."""
        if field_.slab is None:
            return full
        shape, position = self.run.setup.field_shape(self.run.grid, field_), self._position(field_)
        stored, (there, here) = np.zeros((len(full), *shape), full.dtype), self.kept(field_)
        np.moveaxis(stored, position, 0)[there] = np.moveaxis(full, position, 0)[here]
        return stored

    def expand(self, field_: Field, stored: Array) -> Array:
        """A field on the whole grid, from as the run keeps it."""
        if field_.slab is None:
            return stored
        full, position = np.zeros((self.case.shots, *self.run.grid.shape), stored.dtype), self._position(field_)
        there, here = self.kept(field_)
        np.moveaxis(full, position, 0)[here] = np.moveaxis(stored, position, 0)[there]
        return full

    def _position(self, field_: Field) -> int:
        return 1 + self.run.setup.forward.axes.index(field_.slab or "")

    def _remembered(self, field_: Field) -> Array | float:
        if field_.slab is None:
            return 1.0
        forms = [f for stage in self.run.setup.forward.stages for form in stage.forms for f in walk(form)]
        by = next(f.factors[-1] for f in forms if isinstance(f, Scaled) and getattr(f.form, "field", None) == field_)
        axis = self.run.grid.axes[self._position(field_) - 1]
        values = self.run.damping.profile(by, axis, self.case.accuracy) != 0
        return values.reshape(-1, *(1,) * (self.case.ndim - self._position(field_)))

    def forward(self, keep: bool = False, parameters: Mapping[str, Array] | None = None) -> tuple[Arrays, Arrays]:
        """Records and final state."""
        records, final = self.run.forward(*self._up(parameters or self.parameters, self.amplitudes, self.initial), keep)
        return self._down(records), self._down(final)

    @cached_property
    def cotangents(self) -> tuple[Arrays, Arrays]:
        """Random cotangents of records and final state."""
        records = self.run.setup.forward.records
        sizes = {r.name: self.run.cells[f"receivers_{r.name}"].size for r in records}
        residuals = {name: self.random(self.case.steps, n, seed=300 + k) for k, (name, n) in enumerate(sizes.items())}
        return residuals, self.random_state(400)

    @property
    def history(self) -> Any:
        """What the forward run kept."""
        assert self.run.tape is not None
        return self.run.tape.store.ring

    def adjoint(self, image: bool = True) -> tuple[Arrays, Arrays, Arrays]:
        """Gradients of parameters, amplitudes and initial state, after a forward run that kept history."""
        given = self._up(self.parameters, self.amplitudes, *self.cotangents, self.initial)
        gradients, traces, initial = self.run.adjoint(*given, image, True)
        return self._down(gradients), self._down(traces), self._down(initial)

    def _up(self, *given: Mapping[str, Array]) -> list[Mapping[str, Any]]:
        """Arrays where the run has its own."""
        if self.run.space.device is None:
            return list(given)
        return [{name: self.run.space.upload(value) for name, value in arrays.items()} for arrays in given]

    def _down(self, found: Mapping[str, Any]) -> Arrays:
        """NumPy arrays of what a run gave."""
        return {name: value if isinstance(value, np.ndarray) else value.cpu().numpy() for name, value in found.items()}


def inner(*pairs: tuple[Mapping[str, Array], Mapping[str, Array]]) -> tuple[float, float]:
    """Inner product over all names of all pairs, and the sum of the products' sizes: the scale of its rounding."""
    products = [a[name].astype("f8") * b[name] for a, b in pairs for name in a]
    return float(sum(p.sum() for p in products)), float(sum(np.abs(p).sum() for p in products))


BROAD = [Case(equation, ndim, accuracy) for equation in UPDATES for ndim in (1, 2, 3) for accuracy in (2, 4, 6, 8)]
"""Every equation, dimension and accuracy, on the oracle."""

EDGES = [
    Case(equation, ndim, **changes)  # type: ignore[arg-type]
    for equation in UPDATES
    for ndim, changes in (
        (1, {"widths": ((0, 3),)}),
        (2, {"widths": ((0, 0), (3, 0))}),
        (2, {"widths": ((0, 0), (0, 0)), "accuracy": 8}),
        (2, {"batched": True}),
        (2, {"shape": (1, 1)}),
        (2, {"shape": (21, 35), "steps": 5}),
        (3, {"widths": ((1, 0), (0, 0), (0, 1)), "batched": True, "shape": (2, 3, 4)}),
    )
]
"""One face alone, none, one-celled layers and models, a model a shot; slabs that meet and that do not."""

CPU = [
    *(Case("scalar", ndim, backend="cpu") for ndim in (1, 2, 3)),
    *(Case(equation, ndim, backend="cpu") for equation in UPDATES if equation != "scalar" for ndim in (2, 3)),
    *(Case(equation, 2, backend="cpu", batched=True) for equation in UPDATES),
    *(Case(equation, 2, backend="cpu", shape=(21, 35), steps=5) for equation in UPDATES),
    *(Case("scalar", 2, backend="cpu", stride=stride) for stride in (2, 3)),
    Case("scalar", 2, 8, backend="cpu", widths=((0, 3), (2, 0))),
    Case("scalar", 2, backend="cpu", dtype="float32"),
]
"""A few on every way that printed text can differ: each compiles for some seconds the first time."""

PLAIN_CUDA = [Case(equation, ndim, backend="cuda") for equation in UPDATES for ndim in (1, 2, 3)]
"""Every equation and dimension, on the GPU."""

CUDA = [
    *PLAIN_CUDA,
    *(
        Case(equation, ndim, backend="cuda", **changes)  # type: ignore[arg-type]
        for equation in UPDATES
        for ndim, changes in (
            (2, {"accuracy": 8, "widths": ((0, 3), (2, 0)), "shots": 1}),
            (2, {"batched": True}),
            (2, {"stride": 2, "steps": 8}),
            (2, {"stride": 3}),
            (2, {"shape": (21, 35), "steps": 3, "shots": 1}),
        )
    ),
    *(
        Case("scalar", ndim, backend="cuda", **changes)  # type: ignore[arg-type]
        for ndim, changes in (
            (1, {"accuracy": 2, "widths": ((0, 3),)}),
            (1, {"accuracy": 8, "shape": (70,), "batched": True, "stride": 2}),
            (2, {"accuracy": 2}),
            (2, {"accuracy": 6, "dtype": "float32"}),
            (2, {"widths": ((0, 0), (3, 0)), "shots": 3}),
            (2, {"widths": ((0, 0), (0, 0)), "steps": 12}),
            (1, {"together": False, "shape": (9,)}),
            (2, {"together": False}),
            (2, {"together": False, "batched": True, "shots": 3}),
            (3, {"together": False, "steps": 4}),
            (2, {"shape": (1, 1), "shots": 1}),
            (2, {"shape": (1, 1), "shots": 5, "steps": 4}),
            (3, {"accuracy": 2, "shape": (1, 1, 1), "steps": 4}),
            (3, {"accuracy": 6, "widths": ((2, 0), (0, 1), (0, 0)), "shots": 1, "steps": 4, "stride": 3}),
            (3, {"accuracy": 8, "widths": ((0, 0), (0, 0), (0, 0)), "shots": 1, "steps": 3, "dtype": "float32"}),
            (3, {"widths": ((1, 0), (0, 0), (0, 1)), "batched": True, "shape": (2, 3, 4), "steps": 4}),
            (3, {"widths": ((1, 1), (1, 1), (1, 1)), "shape": (8, 7, 33), "steps": 2, "shots": 1, "accuracy": 2}),
        )
    ),
]
"""The same on the GPU, and every kind of grid: its text is compiled soon, and in the simulator not at all."""

COMPILED = CPU + CUDA

EQUATIONS_ON = [
    Case(equation, len(shape), backend=backend, shape=shape)
    for backend, shapes in (
        ("reference", ((9, 41), (7, 8, 9))),
        ("cpu", ((9, 41),)),
        ("cuda", ((20,), (7, 18), (5, 6, 7))),
    )
    for equation in UPDATES
    for shape in shapes
]
"""Every equation on every backend: on grids where the model's own cells fill blocks of a row only in part."""


def marked(cases: Iterable[Case]) -> list[Any]:
    """Parameters of a test, with the marker of those that run on the GPU."""
    return [pytest.param(case, marks=[pytest.mark.gpu] if case.backend == "cuda" else [], id=str(case)) for case in cases]
