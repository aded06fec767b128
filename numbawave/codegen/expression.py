"""Forms as lines of code: each value that is used twice is computed once and has a name."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, count

from numbawave.grid.weights import centred_first, centred_second, half_point
from numbawave.stencil.form import (
    ZERO,
    Derivative,
    Factor,
    Form,
    Named,
    Parameter,
    Profile,
    Read,
    Scaled,
    Source,
    Sum,
    add,
    derivative,
    is_zero,
    named,
    scale,
)

Shift = tuple[int, ...]
"""Whole cells by which a form is evaluated away from the point, an entry an axis."""


@dataclass
class Names:
    """What one printed module has used so far: constants, and the arrays and scalars of the function in hand.

    Along ``march``, if there is such an axis, a thread keeps values of its column: ``queued`` says which, by field, and
    ``ahead`` which elements it reads one plane early, by what they are called.
    """

    axes: tuple[str, ...]
    accuracy: int
    constants: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, None] = field(default_factory=dict)
    scalars: dict[str, None] = field(default_factory=dict)
    march: str | None = None
    queued: dict[str, set[int]] = field(default_factory=dict)
    ahead: dict[str, str] = field(default_factory=dict)

    def array(self, name: str) -> str:
        """Use an array argument."""
        self.arrays[name] = None
        return name

    def scalar(self, name: str) -> str:
        """Use a scalar argument."""
        self.scalars[name] = None
        return name

    def constant(self, value: float, name: str | None = None) -> str:
        """Use a constant of the module; it carries the run's dtype."""
        if name is None:
            same = (known for known, number in self.constants.items() if number == value and known.startswith("k"))
            name = next(same, None) or (f"k{int(value)}" if value == int(value) else f"k_{len(self.constants)}")
        self.constants[name] = value
        return name

    def offset(self, base: str, shift: Shift) -> str:
        """An index moved by a shift, by way of the strides ``z1, z2 ...``."""
        for axis, k in zip(self.axes, shift, strict=True):
            base = self.along(base, axis, k)
        return base

    @staticmethod
    def along(base: str, axis: str, k: int) -> str:
        """An index moved along one axis."""
        return f"{base} {'+' if k > 0 else '-'} {axis}{abs(k)}" if k else base

    def column(self, name: str, k: int) -> str:
        """A field's value ``k`` cells further on along the marching axis."""
        return f"{name}_{self.march}{'p' if k > 0 else 'm'}{abs(k)}" if k else f"{name}_here"

    def early(self, element: str) -> str:
        """An element that no neighbour reads, by the name under which a marching thread has it already."""
        if self.march is None:
            return element
        array, _, index = element.partition("[")
        name = "_".join([array, *re.findall(r"h(\d+)", index), "now"])
        self.ahead[name] = element
        return name

    def queue(self, form: Read, shift: Shift) -> str | None:
        """The name of a value that a marching thread keeps, None for any other."""
        if self.march is None or form.level or form.field.slab is not None:
            return None
        if any(k for axis, k in zip(self.axes, shift, strict=True) if axis != self.march):
            return None
        k = shift[self.axes.index(self.march)]
        self.queued.setdefault(form.field.name, set()).add(k)
        return self.column(form.field.name, k)

    def weights(self, node: Derivative) -> list[tuple[int, int, str]]:
        """A derivative's pairs of neighbours with their weight: (after, before, constant)."""
        if node.order == 2:
            values = centred_second(self.accuracy)
            return [(k, -k, self.constant(w, f"second_{k}")) for k, w in enumerate(values)]
        if node.kind == "centred":
            return [(k, -k, self.constant(w, f"first_{k}")) for k, w in enumerate(centred_first(self.accuracy), 1)]
        ahead = 1 if node.kind == "forward" else 0
        values = half_point(self.accuracy)
        return [(k + ahead, ahead - 1 - k, self.constant(w, f"half_{k + 1}")) for k, w in enumerate(values)]


class Body:
    """The lines that evaluate some forms at one point.

    Parameters
    ----------
    names : Names
    forms : sequence of Form
        What will be asked for; needed beforehand to know which values are used more than once.
    """

    def __init__(self, names: Names, forms: list[Form]) -> None:
        self.names = names
        self.lines: list[str] = []
        self._uses: Counter[tuple[Form | Factor, Shift]] = Counter()
        self._known: dict[tuple[Form | Factor, Shift], str] = {}
        self._taken: set[str] = set()
        self._here: Shift = (0,) * len(names.axes)
        for form in forms:
            self._count(form, self._here)

    def value(self, form: Form) -> str:
        """The expression of a form at the point; the lines that it needs are added."""
        return self._value(form, self._here)

    def _count(self, form: Form | Factor, shift: Shift) -> None:
        self._uses[form, shift] += 1
        if self._uses[form, shift] == 1:
            for child, moved in self._below(form, shift):
                self._count(child, moved)

    def _below(self, form: Form | Factor, shift: Shift) -> list[tuple[Form | Factor, Shift]]:
        if isinstance(form, Derivative):
            pairs = [(a, b) for a, b, _ in self.names.weights(form)]
            steps = [k for a, b in pairs for k in dict.fromkeys((a, b))]
            return [(form.form, self._moved(shift, form.axis, k)) for k in steps]
        if isinstance(form, Sum):
            return [(term, shift) for term in form.terms]
        if isinstance(form, Scaled):
            return [*((factor, self._seen(factor, shift)) for factor in form.factors), (form.form, shift)]
        return [(form.form, shift)] if isinstance(form, Named) else []

    def _seen(self, factor: Factor, shift: Shift) -> Shift:
        """The part of a shift that matters to a factor: a profile's own axis."""
        own = self.names.axes if isinstance(factor, Parameter) else (factor.axis,)
        return tuple(k if axis in own else 0 for axis, k in zip(self.names.axes, shift, strict=True))

    def _moved(self, shift: Shift, axis: str, k: int) -> Shift:
        position = self.names.axes.index(axis)
        return (*shift[:position], shift[position] + k, *shift[position + 1 :])

    def _value(self, form: Form | Factor, shift: Shift) -> str:
        key = form, shift
        if key not in self._known:
            text = self._text(form, shift)
            if isinstance(form, Named) or (self._uses[key] > 1 and not text.isidentifier()):
                name = self._name(form, shift)
                self.lines.append(f"{name} = {_bare(text)}")
                text = name
            self._known[key] = text
        return self._known[key]

    def _name(self, form: Form | Factor, shift: Shift) -> str:
        where = "".join(
            f"_{axis}{'p' if k > 0 else 'm'}{abs(k)}" for axis, k in zip(self.names.axes, shift, strict=True) if k
        )
        stem = form.name if isinstance(form, Named | Parameter | Profile) else "value"
        if isinstance(form, Read):
            stem = f"old_{form.field.name}" if form.level else form.field.name
        base = f"{stem}{where}" if where or isinstance(form, Named) else f"{stem}_here"
        name = next(c for c in chain([base], (f"{base}_{n}" for n in count(2))) if c not in self._taken)
        self._taken.add(name)
        return name

    def _text(self, form: Form | Factor, shift: Shift) -> str:
        if isinstance(form, Parameter | Profile):
            return self._coefficient(form, shift)
        if isinstance(form, Read):
            queued = self.names.queue(form, shift)
            if queued is not None:
                return queued
            name = f"{form.field.name}_next" if form.level else form.field.name
            index = "i" if form.field.slab is None else f"j_{form.field.slab}"
            element = f"{self.names.array(name)}[{self.names.offset(index, shift)}]"
            return self.names.early(element) if form.level else element
        if isinstance(form, Named):
            return self._value(form.form, shift)
        if isinstance(form, Derivative):
            return self._derivative(form, shift)
        if isinstance(form, Scaled):
            return self._product(form, shift)
        assert isinstance(form, Sum)
        return "(" + signed([self._value(term, shift) for term in form.terms]) + ")"

    def _derivative(self, form: Derivative, shift: Shift) -> str:
        terms = []
        for after, before, weight in self.names.weights(form):
            ahead = self._value(form.form, self._moved(shift, form.axis, after))
            if after == before:
                terms.append(f"{weight} * {_factor(ahead)}")
                continue
            behind = self._value(form.form, self._moved(shift, form.axis, before))
            terms.append(f"{weight} * ({signed([ahead, behind if form.order == 2 else '-' + behind])})")
        return f"{self.names.scalar(f'per_{form.axis * form.order}')} * ({signed(terms)})"

    def _product(self, form: Scaled, shift: Shift) -> str:
        factors = [] if abs(form.number) == 1.0 else [self.names.constant(abs(form.number))]
        factors += [self._value(factor, self._seen(factor, shift)) for factor in form.factors]
        factors.append(_factor(self._value(form.form, shift)))
        return ("-" if form.number < 0 else "") + " * ".join(factors)

    def _coefficient(self, factor: Factor, shift: Shift) -> str:
        name = self.names.array(factor.name)
        if isinstance(factor, Parameter):
            element = f"{name}[{self.names.offset('m', shift)}]"
            return element if any(shift) else self.names.early(element)
        k = shift[self.names.axes.index(factor.axis)]
        return f"{name}[{factor.axis}{f' {chr(43) if k > 0 else chr(45)} n{abs(k)}' if k else ''}]"


def signed(terms: list[str]) -> str:
    """Terms as a sum, with minus signs in place."""
    return " + ".join(terms).replace("+ -", "- ")


def _factor(text: str) -> str:
    """The text as a product's last factor: the product rounds alike whether this value has a name or not."""
    return f"({text})" if " * " in text and not text.startswith("(") else text


def _bare(text: str) -> str:
    """The text without one pair of brackets around the whole of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


def without_sources(form: Form) -> Form:
    """The form without its sources, which act at their own cells and are not part of a sweep over the grid."""
    if isinstance(form, Source):
        return ZERO
    if isinstance(form, Sum):
        return add(*(without_sources(term) for term in form.terms))
    if isinstance(form, Scaled):
        return scale(without_sources(form.form), form.number, *form.factors)
    if isinstance(form, Named):
        return named(form.name, without_sources(form.form))
    if isinstance(form, Derivative) and not is_zero(form):
        return derivative(form.axis, form.order, form.kind, without_sources(form.form))
    return form
