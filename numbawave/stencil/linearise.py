"""The tangent of a Program: the same stages for the fields and, beside them, for their first-order changes.

Every parameter c becomes c + d_c, every source s becomes s + d_s, and first order is kept. The result is a Program again,
in the fields and their changes, so that it is transposed, printed and run like any other: Born modelling, its adjoint and
Hessian products need no code of their own.
"""

from dataclasses import replace

from numbawave.stencil.form import (
    Derivative,
    Field,
    Form,
    Named,
    Parameter,
    Read,
    Scaled,
    Source,
    add,
    children,
    derivative,
    named,
    scale,
)
from numbawave.stencil.program import Assignment, Program, Stage


def tangent_of(field: Field) -> Field:
    """The field of first-order changes of a field."""
    return replace(field, name=f"d_{field.name}")


def linearise(program: Program) -> Program:
    """Derive the tangent program.

    Parameters
    ----------
    program : Program
        A forward program with parameters ``c`` and sources ``s``.

    Returns
    -------
    Program
        Its parameters are ``c`` and ``d_c``, its fields ``u`` and ``d_u``, its sources ``s`` and ``d_s``; both fields may
        be recorded.
    """
    stages = []
    for stage in program.stages:
        changes = tuple(Assignment(tangent_of(a.field), tangent(a.form)) for a in stage.assignments)
        stages.append(Stage((*stage.assignments, *changes)))
    records = (*program.records, *(tangent_of(field) for field in program.records))
    return Program(f"{program.name}_tangent", program.axes, tuple(stages), records)


def tangent(form: Form) -> Form:
    """First-order change of a form."""
    if isinstance(form, Read):
        return replace(form, field=tangent_of(form.field))
    if isinstance(form, Source):
        return replace(form, name=f"d_{form.name}")
    if isinstance(form, Named):
        return named(f"d_{form.name}", tangent(form.form))
    if isinstance(form, Derivative):
        return derivative(form.axis, form.order, form.kind, tangent(form.form))
    if isinstance(form, Scaled):
        terms = [scale(tangent(form.form), form.number, *form.factors)]
        for position, factor in enumerate(form.factors):
            if isinstance(factor, Parameter):
                changed = replace(factor, name=f"d_{factor.name}")
                factors = (*form.factors[:position], changed, *form.factors[position + 1 :])
                terms.append(scale(form.form, form.number, *factors))
        return add(*terms)
    return add(*(tangent(term) for term in children(form)))
