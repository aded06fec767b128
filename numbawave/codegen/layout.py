"""What every printed text has: its indent, its head, the comment of a stage, and the strides that its lines use."""

import re
from collections.abc import Mapping, Sequence

from numbawave.stencil.form import show
from numbawave.stencil.program import Stage

INDENT = "    "

History = frozenset[str]
"""How kernels touch history: empty for never, else ``"kept"``, with ``"some"`` if in one step of several, and with
``"boxed"`` if in a box of cells only; with ``"ring"`` where the fields around that box are kept, at each step. Then
``"solved"`` says that these alone are, and that undoing steps finds from them what history keeps there."""


def indent(lines: Sequence[str], depth: int = 1) -> list[str]:
    """The lines, further to the right."""
    return [INDENT * depth + line for line in lines]


def module_head(title: str, imports: str, real: str, constants: Mapping[str, float], code: str) -> str:
    """The docstring of a printed module, its imports, its constants and the integers ``n1, n2 ...`` of its code."""
    integers = sorted(set(re.findall(r"\bn\d+\b", code)), key=lambda n: int(n[1:]))
    lines = [f'"""{title}"""', "", "import numpy as np", "", imports, "", f"real = np.{real}", "index = np.uint64"]
    lines += ["coordinate = np.uint32"] if "coordinate(" in code else []
    lines += [f"{constant} = real({value!r})" for constant, value in sorted(constants.items())]
    return "\n".join([*lines, *(f"{n} = index({n[1:]})" for n in integers)]) + "\n"


def stage_comment(stage: Stage, image: bool) -> list[str]:
    """What a stage does, as comments."""
    lines = [f"# {a.field.name} <- {show(a.form)}" for a in stage.assignments if a.field.slab is None]
    return lines + [f"# gradient_{p.parameter.name} += history * {show(p.adjoint)}" for p in stage.images if image]


def strides(axes: tuple[str, ...], lines: Sequence[str]) -> list[str]:
    """The strides ``z1, z2 ...`` that the lines use, in cells."""
    used = set(re.findall(r"\b[zyx]\d\b", "\n".join(lines)))
    found = []
    for position, axis in enumerate(axes):
        stride = " * ".join(f"n{faster}" for faster in axes[position + 1 :]) or "n1"
        found += [f"{axis}{k} = {stride}" + (f" * n{k}" if k > 1 else "") for k in range(1, 9) if f"{axis}{k}" in used]
    return found
