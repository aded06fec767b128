"""The oracle: programs run form by form with NumPy on whole arrays; slow, short, independent of printed text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numbawave.backends.base import Advance, Coder, Direction
from numbawave.codegen.expression import Names
from numbawave.stencil.form import Derivative, Field, Form, Named, Parameter, Read, Scaled, Source, Sum
from numbawave.stencil.program import Image, Stage, coefficients
from numbawave.stencil.solution import Solution

Array = NDArray[Any]


class Reference:
    """Backend ``"reference"``. Use it to check others, not to model waves."""

    name = "reference"
    chunk = 200_000_000
    align = 1
    lanes = 1

    def loop(self, run: Any, direction: Direction, arrays: dict[str, Array], history: bool) -> Advance:
        """See ``Backend``."""
        steps = {"forward": self._forward, "adjoint": self._adjoint, "reverse": self._reverse}
        return partial(steps[direction], run, arrays, history)

    def workers(self, run: Any) -> int:
        """See ``Backend``."""
        return 1

    def copies(self, run: Any) -> int:
        """See ``Backend``."""
        return 0

    def coder(self, space: Any) -> Coder:
        """See ``Backend``."""
        from numbawave.backends.coding_cpu import CpuCoder

        return CpuCoder()

    def _forward(self, run: Any, arrays: dict[str, Array], history: bool, first: int, last: int) -> None:
        grid = _Grid(run, arrays)
        for step in range(first, last):
            keeping = history and step % run.stride == 0 and not run.solved
            for record in run.setup.forward.records:
                arrays[f"record_{record.name}"][step] = arrays[record.name].flat[arrays[f"receivers_{record.name}"]]
            channel = 0
            for place, (stage, kept) in enumerate(zip(run.setup.forward.stages, run.setup.kept, strict=True)):
                for field, (ring, cells) in grid.around(place, step) if history and run.rings else ():
                    ring[...] = field.reshape(-1)[cells]
                for solution, ring in grid.framed(place, step) if history else ():
                    ring[...] = arrays[solution.older].reshape(-1)[arrays["around_frame"]]
                values = [grid.value(form) for form in kept] if keeping else []
                grid.advance(stage)
                for target, source, update in stage.injections():
                    grid.inject(arrays[target.name].reshape(-1), update, source, step)
                for value in values:
                    grid.past(step, channel)[...] = value[:, *run.box.slices]
                    channel += 1
            for ring, edge in grid.edge(step) if history and run.rings and not run.solved else ():
                ring[...] = edge[0][edge[1]]

    def _reverse(self, run: Any, arrays: dict[str, Array], history: bool, first: int, last: int) -> None:
        grid, count = _Grid(run, arrays), len(run.setup.kept)
        for step in range(last - 1, first - 1, -1):
            for position, stage in enumerate(run.setup.reverse.stages):
                place = count - 1 - position
                for field, (ring, cells) in grid.around(place, step):
                    field.reshape(-1)[cells] = ring
                if step % run.stride == 0:
                    channel = sum(len(forms) for forms in run.setup.kept[:place])
                    for offset, form in enumerate(run.setup.kept[place]):
                        grid.past(step, channel + offset)[...] = grid.value(form)[:, *run.box.slices]
                grid.advance(stage)
                for target, source, update in stage.injections():
                    grid.inject(arrays[target.name].reshape(-1), update, source, step)
                for solution, ring in grid.framed(place, step):
                    grid.solve(solution, ring, step)
            for ring, edge in grid.edge(step) if not run.solved else ():
                edge[0][edge[1]] = ring

    def _adjoint(self, run: Any, arrays: dict[str, Array], history: bool, first: int, last: int) -> None:
        grid, scales = _Grid(run, arrays), run.setup.adjoint.scales
        kept = [form for forms in run.setup.kept for form in forms]
        for step in range(last - 1, first - 1, -1):
            for stage in run.setup.adjoint.program.stages:
                for source, form in stage.taps:
                    tapped = grid.value(form).reshape(-1)[arrays[f"cells_{source.name}"]]
                    arrays[f"gradient_{source.name}"][step] = tapped
                for image in stage.images if history and step % run.stride == 0 else ():
                    product = grid.value(image.adjoint)[:, *run.box.slices] * grid.past(step, kept.index(image.kept))
                    gradient = arrays[f"gradient_{image.parameter.name}"][..., *run.box.slices]
                    gradient += product if run.batched else product.sum(0)
                for image in stage.images if history else ():
                    for source in run.setup.forward.sources:
                        grid.image_source(image, source, step)
                grid.advance(stage)
            for record in run.setup.forward.records:
                points, residual = arrays[f"receivers_{record.name}"], arrays[f"residual_{record.name}"][step]
                if record.name in scales:
                    at = arrays[f"model_receivers_{record.name}"]
                    residual = residual * arrays[scales[record.name].name].flat[at]
                np.add.at(arrays[f"adjoint_{record.name}"].reshape(-1), points, residual)


class _Grid:
    """Forms as arrays over the padded grid of all shots."""

    def __init__(self, run: Any, arrays: dict[str, Array]) -> None:
        self.run, self.arrays = run, arrays
        self.names = Names(run.setup.forward.axes, run.setup.accuracy)
        self.inside = np.zeros(run.grid.shape, dtype=bool)
        self.inside[tuple(slice(axis.first, axis.last) for axis in run.grid.axes)] = True

    def past(self, step: int, channel: int) -> Array:
        """What history keeps of a step in a channel, ``[shot, *box]``."""
        history = self.arrays["history"]
        kept: Array = history[step // self.run.stride % len(history), channel]
        return kept

    def around(self, place: int, step: int) -> Iterator[tuple[Array, tuple[Array, Array]]]:
        """Before a forward stage, or its undoing: fields that it reads at neighbours, their part of the ring, and where."""
        for number, (stage, field) in enumerate(self.run.undo.rings):
            if stage == place:
                cells, start = self.arrays["around_core"], self.run.ring_starts[number]
                ring = self.arrays["ring"][step % len(self.arrays["ring"])]
                yield self.arrays[field.name], (ring[start : start + cells.size], cells)

    def edge(self, step: int) -> Iterator[tuple[Array, tuple[Array, Array]]]:
        """The ring's part of a step's history, and where that lies in its slot."""
        number, history = len(self.run.undo.rings), self.arrays["history"]
        ring, cells = self.arrays["ring"][step % len(self.arrays["ring"])], self.arrays["around_edge"]
        slot = history[step // self.run.stride % len(history)].reshape(-1)
        yield ring[self.run.ring_starts[number] :], (slot, cells)

    def framed(self, place: int, step: int) -> Iterator[tuple[Solution, Array]]:
        """What a forward stage is solved for, and the ring's part of it in this step."""
        starts = self.run.ring_starts[-1 - len(self.run.solved) :]
        for solution, (start, stop) in zip(self.run.solved, pairwise(starts), strict=True):
            if solution.stage == place:
                yield solution, self.arrays["ring"][step % len(self.arrays["ring"])][start:stop]

    def solve(self, solution: Solution, ring: Array, step: int) -> None:
        """Put right what undoing a stage gave where layers reach, and history by as much."""
        field, cells = self.arrays[solution.field.name].reshape(-1), self.arrays["around_frame"]
        parameter = self.arrays[solution.parameter.name].flat[self.arrays["model_around_frame"]]
        divisor, history = parameter * self.run.dtype.type(solution.undone), self.past(step, solution.channel).reshape(-1)
        quotient = np.divide(ring - field[cells], divisor, where=divisor != 0, out=np.zeros_like(ring))
        history[self.arrays["past_around_frame"]] += quotient
        field[cells] = ring

    def masked(self, value: Array) -> Array:
        """The value on computed cells, zero in the halo."""
        return np.where(self.inside, value, 0)

    def value(self, form: Form) -> Array:
        """A form at every cell, ``[shot, *grid]``; sources count as zero."""
        if isinstance(form, Read):
            return self.whole(form.field, self.arrays[f"{form.field.name}_next" if form.level else form.field.name])
        if isinstance(form, Named):
            return self.value(form.form)
        if isinstance(form, Scaled):
            product = self.value(form.form) * self.run.dtype.type(form.number)
            for factor in form.factors:
                product = product * (self.arrays[factor.name] if isinstance(factor, Parameter) else self.along(factor))
            return np.asarray(product)
        if isinstance(form, Derivative):
            return self.derivative(form)
        assert isinstance(form, Sum | Source)
        terms = [self.value(term) for term in form.terms] if isinstance(form, Sum) else []
        total: Array = sum(terms, np.zeros((self.run.shots, *self.run.grid.shape), self.run.dtype))
        return total

    def along(self, profile: Any) -> Array:
        """A profile, shaped to multiply a field."""
        position = self.names.axes.index(profile.axis)
        return self.arrays[profile.name].reshape(-1, *(1,) * (len(self.names.axes) - 1 - position))

    def derivative(self, form: Derivative) -> Array:
        """A derivative by shifted copies; what wraps around falls into the halo."""
        position, inner = self.names.axes.index(form.axis) + 1, self.value(form.form)
        total = np.zeros_like(inner)
        for after, before, weight in self.names.weights(form):
            ahead, behind = np.roll(inner, -after, position), np.roll(inner, -before, position)
            pair = ahead if after == before else ahead + behind if form.order == 2 else ahead - behind
            total += self.run.dtype.type(self.names.constants[weight]) * pair
        total *= self.run.dtype.type(self.run.grid.axes[position - 1].spacing ** -form.order)
        return total

    def whole(self, field: Field, stored: Array) -> Array:
        """A field on the whole grid, from where it is kept."""
        if field.slab is None:
            return stored
        full = np.zeros((self.run.shots, *self.run.grid.shape), stored.dtype)
        for here, there in self.ends(field, stored):
            full[here] = stored[there]
        return full

    def ends(self, field: Field, stored: Array) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Pairs of slices: in the grid, in the array that keeps both slabs of an axis."""
        position = self.names.axes.index(field.slab or "") + 1
        axis, size = self.run.grid.axes[position - 1], stored.shape[position]
        depth, lead = self.run.setup.storage_depth(axis.name), (slice(None),) * position
        low, moved = min(size, axis.slab(depth)[0] + axis.halo), axis.moved(depth)
        stop = min(size, axis.size - moved)
        return [
            ((*lead, slice(0, low)), (*lead, slice(0, low))),
            ((*lead, slice(low + moved, stop + moved)), (*lead, slice(low, stop))),
        ]

    def advance(self, stage: Stage) -> None:
        """Run a stage and rotate its buffers."""
        new = {a.field: self.masked(self.value(a.form)) for a in stage.assignments}
        for field, value in new.items():
            target = f"{field.name}_next" if stage.buffered(field) else field.name
            if field.slab is None:
                self.arrays[target][...] = value
                continue
            for here, there in self.ends(field, self.arrays[target]):
                self.arrays[target][there] = value[here]
        for name in (f.name for f in stage.fields if stage.buffered(f)):
            self.arrays[name], self.arrays[f"{name}_next"] = self.arrays[f"{name}_next"], self.arrays[name]

    def inject(self, target: Array, form: Form, source: Source, step: int) -> None:
        """Add a source's amplitude, times its coefficients in a form, at its cells."""
        for value in self.amplitude(form, source, step):
            np.add.at(target, self.arrays[f"cells_{source.name}"], value)

    def image_source(self, image: Image, source: Source, step: int) -> None:
        """Add the image of what a source injected; unlike history it is there at every step."""
        gradient = self.arrays[f"gradient_{image.parameter.name}"].reshape(-1)
        for value in self.amplitude(image.kept, source, step):
            adjoint = self.value(image.adjoint).reshape(-1)[self.arrays[f"cells_{source.name}"]]
            np.add.at(gradient, self.arrays[f"model_cells_{source.name}"], adjoint * value / self.run.stride)

    def amplitude(self, form: Form, source: Source, step: int) -> Iterator[Array]:
        """A source's amplitude times each of its coefficients in a form."""
        for number, factors in coefficients(form, source):
            value = self.arrays[f"amplitude_{source.name}"][step] * self.run.dtype.type(number)
            for factor in factors:
                value = value * self.arrays[factor.name].flat[self.arrays[f"model_cells_{source.name}"]]
            yield value
