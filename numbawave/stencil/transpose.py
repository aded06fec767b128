"""The adjoint of a Program, derived: every stage transposed, in reverse order, with what the gradients need.

A form's cotangent walks the form from its result to its reads: a sum passes it on, a product multiplies it by its
coefficient, a derivative becomes its transpose. Named values keep their names, so the adjoint stays as small as the
forward step.

Where every update of a field reads ``next = c * X + (constants times the field itself)`` with one parameter c, the
adjoint carries mu = c * lambda. The adjoint step is then the forward step's own shape, and no product of model and field
is read at a neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from numbawave.stencil.form import (
    Derivative,
    Field,
    Form,
    Named,
    Parameter,
    Read,
    Scaled,
    Source,
    Sum,
    add,
    children,
    derivative,
    named,
    scale,
    walk,
)
from numbawave.stencil.program import Assignment, Image, Program, Stage

_TRANSPOSED = {"centred": "centred", "forward": "backward", "backward": "forward"}


@dataclass(frozen=True)
class Adjoint:
    """The adjoint of a program.

    Attributes
    ----------
    program : Program
        Its stages run from the last to the first; images and taps say what the gradients are made of.
    scales : dict of str to Parameter
        For a forward field's name, the parameter by which its adjoint is scaled.
    """

    program: Program
    scales: dict[str, Parameter]

    def kept(self, stage: int) -> tuple[Form, ...]:
        """What history must keep of a forward stage, each form once."""
        return tuple(dict.fromkeys(image.kept for image in self.program.stages[-1 - stage].images))


def adjoint_of(field: Field) -> Field:
    """The adjoint field of a field."""
    return replace(field, name=f"adjoint_{field.name}")


def transpose(program: Program) -> Adjoint:
    """Derive the adjoint program.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Adjoint
    """
    scales = _scales(program)
    stages = tuple(_Transposition(stage, scales).stage() for stage in reversed(program.stages))
    return Adjoint(Program(f"{program.name}_adjoint", program.axes, stages), {f.name: c for f, c in scales.items()})


def _scales(program: Program) -> dict[Field, Parameter]:
    """The parameter by which each field's adjoint is scaled: one that stands nowhere but before such fields' updates.

    Elsewhere its gradient would have terms of a scaled and of an unscaled adjoint, with no common divisor.
    """
    scales = {field: c for field in program.fields if (c := _common_scale(program, field)) is not None}
    while True:
        updates = [a for stage in program.stages for a in stage.assignments]
        elsewhere = set().union(*(_other_parameters(a, scales) for a in updates))
        left = {field: c for field, c in scales.items() if c not in elsewhere}
        if left == scales:
            return scales
        scales = left


def _other_parameters(assignment: Assignment, scales: dict[Field, Parameter]) -> set[Parameter]:
    parts = split(assignment.field, assignment.form) if assignment.field in scales else None
    inside = walk(assignment.form if parts is None else parts[0].form)
    return {f for node in inside if isinstance(node, Scaled) for f in node.factors if isinstance(f, Parameter)}


def split(field: Field, form: Form) -> tuple[Scaled, list[Form]] | None:
    """``c * X`` and the constant terms, where a form has this shape."""
    terms = form.terms if isinstance(form, Sum) else (form,)
    constant = [t for t in terms if (read := t.form if isinstance(t, Scaled) and not t.factors else t) == _own(read, field)]
    products = [t for t in terms if isinstance(t, Scaled) and len(t.factors) == 1 and isinstance(t.factors[0], Parameter)]
    if field.slab is not None or len(products) != 1 or len(constant) + 1 != len(terms):
        return None
    return products[0], constant


def _own(form: Form, field: Field) -> Form | None:
    return form if isinstance(form, Read) and form.field == field else None


def _common_scale(program: Program, field: Field) -> Parameter | None:
    found = set()
    for stage in program.stages:
        form = stage.assigned(field)
        if form is not None:
            parts = split(field, form)
            found.add(parts[0].factors[0] if parts else None)
    scale_ = found.pop() if len(found) == 1 else None
    return scale_ if isinstance(scale_, Parameter) else None


class _Transposition:
    """One stage's transposition: cotangents of its nodes, gathered from results to reads."""

    def __init__(self, stage: Stage, scales: dict[Field, Parameter]) -> None:
        self.forward, self.scales = stage, scales
        self.cotangents: dict[Form, list[Form]] = {}
        self.constants: dict[Field, list[Form]] = {}
        self.images: list[Image] = []
        roots = [root for assignment in stage.assignments for root in self._seed(assignment)]
        for node in reversed(_ordered(roots)):
            self._visit(node)

    def _seed(self, assignment: Assignment) -> Iterable[Form]:
        """Start from an assignment; returns the nodes that received a cotangent."""
        field, form = assignment.field, assignment.form
        mine = Read(adjoint_of(field))
        if field not in self.scales:
            self.cotangents.setdefault(form, []).append(mine)
            return [form]
        parts = split(field, form)
        assert parts is not None
        product, constant = parts
        c = self.scales[field]
        seed = scale(mine, product.number)
        self.images.append(Image(c, product.form, seed, divisor=c))
        self.cotangents.setdefault(product.form, []).append(seed)
        for term in constant:
            number, read = (term.number, term.form) if isinstance(term, Scaled) else (1.0, term)
            assert isinstance(read, Read)
            self.constants.setdefault(field, []).append(scale(replace(mine, level=read.level), number))
        return [product.form]

    def _visit(self, node: Form) -> None:
        cotangent = add(*self.cotangents.get(node, []))
        if isinstance(node, Named):
            cotangent = named(f"adjoint_{node.name}", cotangent)
            self.cotangents[node] = [cotangent]
            self._give(node.form, cotangent)
        elif isinstance(node, Sum):
            for term in node.terms:
                self._give(term, cotangent)
        elif isinstance(node, Derivative):
            sign = -1.0 if node.order == 1 else 1.0
            moved = derivative(node.axis, node.order, _TRANSPOSED[node.kind], cotangent)  # type: ignore[arg-type]
            self._give(node.form, scale(moved, sign))
        elif isinstance(node, Scaled):
            self._give(node.form, scale(cotangent, node.number, *node.factors))
            for position, factor in enumerate(node.factors):
                if isinstance(factor, Parameter):
                    others = node.factors[:position] + node.factors[position + 1 :]
                    self.images.append(Image(factor, scale(node.form, node.number, *others), cotangent))

    def _give(self, node: Form, cotangent: Form) -> None:
        self.cotangents.setdefault(node, []).append(cotangent)

    def stage(self) -> Stage:
        """The transposed stage."""
        assignments = []
        for field in self.forward.fields:
            form = self._new_value(field)
            if form is not None and form != Read(adjoint_of(field)):
                assignments.append(Assignment(adjoint_of(field), form))
        taps = tuple((node, add(*given)) for node, given in self.cotangents.items() if isinstance(node, Source))
        return Stage(tuple(assignments), tuple(self.images), taps)

    def _new_value(self, field: Field) -> Form | None:
        mine = Read(adjoint_of(field))
        given = add(*self.cotangents.get(Read(field), []))
        older = add(*self.cotangents.get(Read(field, -1), []))
        older = older if field.levels == 1 else _one_level_back(older)
        if field in self.scales:
            given = scale(given, 1.0, self.scales[field])
        given = add(given, *self.constants.get(field, []), older)
        if self.forward.assigned(field) is not None:
            return given
        return add(mine, given) if given != add() else None


def _one_level_back(form: Form) -> Form:
    """The same form of the adjoint one step later, whose share of the older level arrives one step late."""
    if isinstance(form, Read):
        return replace(form, level=-1)
    if isinstance(form, Scaled):
        return scale(_one_level_back(form.form), form.number, *form.factors)
    return add(*(_one_level_back(term) for term in children(form)))


def _ordered(roots: Iterable[Form]) -> list[Form]:
    """Every distinct node below the roots, children before parents."""
    done: dict[Form, None] = {}

    def visit(node: Form) -> None:
        if node not in done:
            for child in children(node):
                visit(child)
            done[node] = None

    for root in roots:
        visit(root)
    return list(done)
