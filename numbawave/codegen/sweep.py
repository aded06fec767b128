"""What one pass over the grid does at a point: the same lines for every shell."""

from collections.abc import Sequence
from dataclasses import dataclass

from numbawave.codegen.expression import Body, Names, without_sources
from numbawave.stencil.form import Form, Read, is_zero
from numbawave.stencil.parts import part
from numbawave.stencil.program import Stage


@dataclass(frozen=True)
class Store:
    """A value and where it goes.

    Attributes
    ----------
    target : str
        An array's element.
    value : str
        The name of a local value, or an expression.
    added : bool
        Whether it is added to what is there; else it replaces that.
    factor : str
        The channel of history by which an image is multiplied, with its sign of multiplication.
    """

    target: str
    value: str
    added: bool
    factor: str = ""

    @property
    def array(self) -> str:
        """Name of the array."""
        return self.target.split("[")[0]

    def __str__(self) -> str:
        return f"{self.target} {'+=' if self.added else '='} {self.factor}{self.value}"


@dataclass(frozen=True)
class Pass:
    """One pass over the grid: lines that assign local names, and the stores that follow."""

    lines: tuple[str, ...]
    stores: tuple[Store, ...]


def sweep(names: Names, stage: Stage, axis: str | None, kept: Sequence[Form], keep: bool, image: bool) -> Pass:
    """What the plain pass (axis None) or the pass over an axis's slabs does at a point.

    Parameters
    ----------
    names : Names
    stage : Stage
    axis : str or None
    kept : sequence of Form
        The history channels of the stage.
    keep : bool
        Whether a forward stage writes them.
    image : bool
        Whether an adjoint stage adds its images to the gradients.

    Returns
    -------
    Pass
        Empty if there is nothing to do.
    """
    outputs = [*_fields(stage, axis)]
    if keep:
        outputs += [(f"history[h{k} + p]", "", part(form, axis)) for k, form in enumerate(kept)]
    outputs = [(target, factor, without_sources(form)) for target, factor, form in outputs]
    if image:
        for product in stage.images:
            channel = f"history[h{kept.index(product.kept)} + p] * "
            outputs.append((f"gradient_{product.parameter.name}[m]", channel, part(product.adjoint, axis)))
    outputs = [(target, factor, form) for target, factor, form in outputs if _needed(target, factor, form, axis)]
    body = Body(names, [form for _, _, form in outputs])
    stores = []
    for target, factor, form in outputs:
        value = names.constant(0.0, "k0") if is_zero(form) else body.value(form)
        array = names.array(target.split("[")[0])
        added = bool(factor) or (axis is not None and not target.endswith(f"[j_{axis}]"))
        if factor:
            names.array("history")
        if (factor or len(outputs) > 1) and not value.isidentifier():
            # Two channels of history, or two images of a parameter, go to one array: each value needs its own name.
            again = sum(line.startswith(f"new_{array}") for line in body.lines)
            name = f"new_{array}" + (f"_{again + 1}" if again else "")
            body.lines.append(f"{name} = {value}")
            value = name
        stores.append(Store(target, value, added, factor))
    return Pass(tuple(body.lines), tuple(stores))


def _fields(stage: Stage, axis: str | None) -> list[tuple[str, str, Form]]:
    outputs = []
    for assignment in stage.assignments:
        field = assignment.field
        if field.slab is not None and field.slab != axis:
            continue
        name = f"{field.name}_next" if stage.buffered(field) else field.name
        if not (axis is None and name == field.name and part(assignment.form, None) == Read(field)):
            outputs.append((f"{name}[{'i' if field.slab is None else f'j_{axis}'}]", "", assignment.part(axis)))
    return outputs


def _needed(target: str, factor: str, form: Form, axis: str | None) -> bool:
    """Adding zero is left out; setting to zero is not."""
    return not is_zero(form) or (axis is None and not factor)
