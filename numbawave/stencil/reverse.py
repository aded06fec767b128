"""A Program run backwards in time, where it loses nothing: each stage undone, the last one first."""

from numbawave.errors import EquationError
from numbawave.stencil.form import Field, Form, Read, Sum, add, scale, walk
from numbawave.stencil.program import Assignment, Program, Stage, coefficients


def reverse(program: Program) -> Program:
    """Derive the program that undoes a step.

    A field of two levels is stepped back by its own update: where ``new = F - old``, also ``old = F - new``, so that its
    two arrays only change their parts. Any other field, with ``new = old + G``, has ``old = new - G``.

    Parameters
    ----------
    program : Program
        A forward program, without absorbing layers.

    Returns
    -------
    Program

    Raises
    ------
    EquationError
        If a stage cannot be undone; the message says why.
    """
    stages = []
    for stage in reversed(program.stages):
        written = [assignment.field for assignment in stage.assignments]
        stages.append(Stage(tuple(Assignment(a.field, _undone(program, a, written)) for a in stage.assignments)))
    return Program(program.name, program.axes, tuple(stages))


def _undone(program: Program, assignment: Assignment, written: list[Field]) -> Form:
    field, form = assignment.field, assignment.form
    if field.levels == 2:
        older = [(number, factors) for number, factors in coefficients(form, Read(field, -1))]
        if older == [(-1.0, ())] and not any(_reads(form, other) for other in written if other != field):
            return form
        raise _refusal(program, field, "its oldest value does not enter with the factor -1, as in a wave without loss")
    terms = form.terms if isinstance(form, Sum) else (form,)
    rest = [term for term in terms if term != Read(field)]
    if len(rest) != len(terms) - 1:
        raise _refusal(program, field, "its old value does not enter with the factor 1, as in a wave without loss")
    if any(_reads(term, other) for term in rest for other in written):
        raise _refusal(program, field, "its change depends on what the same stage overwrites")
    return add(Read(field), scale(add(*rest), -1.0))


def _reads(form: Form, field: Field) -> bool:
    return any(isinstance(node, Read) and node.field == field for node in walk(form))


def _refusal(program: Program, field: Field, why: str) -> EquationError:
    return EquationError(program.name, field.name, f"cannot be run backwards: {why}", "use checkpoints instead")
