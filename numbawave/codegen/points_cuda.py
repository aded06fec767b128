"""What CUDA threads do at points: in kernels of their own, or as owners of cells in a sweep."""

import re
from collections.abc import Sequence

from numbawave.codegen.expression import Names
from numbawave.codegen.layout import INDENT, indent
from numbawave.codegen.points import Task
from numbawave.codegen.region import flat
from numbawave.stencil.program import Stage


def points_kernel(title: str, names: Names, task: Task, shared: bool) -> str:
    """Print the kernel that does a task at points.

    Parameters
    ----------
    title : str
    names : Names
    task : Task
    shared : bool
        Whether points may share a cell: a thread then owns a cell of those written to, and takes its points in order.

    Returns
    -------
    str
    """
    owner = "model_" * any("[m] +=" in line or "[m] -=" in line for line in task.lines) + task.cells
    model = [f"m = index(model_{task.cells}[q])"] if task.on_model else []
    inner = [f"i = index({task.cells}[q])", *model, *task.lines]
    number = "index(cuda.blockIdx.x) * index(cuda.blockDim.x) + index(cuda.threadIdx.x)"
    start = [("at = " + task.at), *(["slot = " + task.slot] if task.slot else [])]
    start = [re.sub(r"\bstep\b", "clock[0]", line) for line in start]
    if shared:
        body = [f"cell = {number}", f"if cell + n1 >= index(first_{owner}.size):", f"{INDENT}return", *start]
        body += [f"for k in range(index(first_{owner}[cell]), index(first_{owner}[cell + n1])):"]
        body += indent([f"q = index(order_{owner}[k])", *inner])
    else:
        body = [f"q = {number}", f"if q >= index({task.cells}.size):", f"{INDENT}return", *start, *inner]
    tables = [f"first_{owner}", f"order_{owner}"] if shared else []
    given = ["clock", *tables, *task.arrays, *task.integers, *task.scalars(names)]
    return "\n".join([f"@kernel\ndef {title}({', '.join(given)}):", *indent(body)])


def spots(names: Names, stage: Stage, tasks: Sequence[Task], looped: bool) -> list[str]:
    """What the thread that owns a cell does at the points in it, for its shot or for every one of its shots.

    A word of ``spots`` has a bit for each of 32 cells, and above these the number of cells with points before them.
    """
    if not tasks:
        return []
    found = [line for task in tasks for line in _at_cell(stage, task)]
    text, cell = "\n".join(found), flat(names.axes, None, None)
    for name in re.findall(r"(\w+)(?:\[|\.size)", text):
        names.arrays |= {name: None} if name != "clock" else {}
    spot, mine = ("spot", "mine") if looped else ("shot", "shot")
    at_points = [
        "row = (word >> n32) + index(cuda.popc(word & (bit - n1)))",
        *([f"m = {spot} * model_step + {cell}"] if "[m]" in text or "[g]" in text else []),
        *([f"g = m + {mine} * gradient_step"] if "[g]" in text else []),
        *found,
    ]
    inner = [
        f"i = {spot} * cells + {cell}",
        f"word, bit = index({names.array('spots')}[i >> n5]), n1 << (i & n31)",
        "if word & bit:",
        *indent(at_points),
    ]
    if not looped:
        return inner
    return ["spot = mine", "while spot < shots:", *indent([*inner, "spot = coordinate(spot + shot_step)"])]


def _at_cell(stage: Stage, task: Task) -> list[str]:
    """A task's lines for the points of a cell, in their order; what a stage buffers is still called next."""
    lines = [re.sub(r"^(gradient_\w+)\[m\] ([-+])=", r"\1[g] \2=", line) for line in task.lines]
    for field in stage.fields:
        if field.name in task.changes and stage.buffered(field):
            lines = [re.sub(rf"\b{field.name}\[i\]", f"{field.name}_next[i]", line) for line in lines]
    at = re.sub(r"\bstep\b", "clock[0]", task.at)
    loop = f"for k in range(index(starts_{task.cells}[row]), index(starts_{task.cells}[row + n1])):"
    return [f"at = {at}", loop, *indent([f"q = index(points_{task.cells}[k])", *lines])]
