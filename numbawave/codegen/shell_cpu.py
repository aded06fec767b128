"""The CPU shell: printed functions that sweep rows of the grid, and the loop over time around them.

A thread owns rows, a row being all cells along the fastest axis, for every shot: nothing is written by two threads, and a
gradient shared by the shots is added up in one order. In a row the plain pass runs first, then the passes over the slabs
that the row meets, while the row is in the cache.
"""

from collections.abc import Sequence

from numbawave.codegen.expression import Names
from numbawave.codegen.layout import INDENT, indent, stage_comment, strides
from numbawave.codegen.sweep import Pass, sweep
from numbawave.grid.domain import FACE_LANES, LANES
from numbawave.stencil.form import Form
from numbawave.stencil.program import Stage


def rows_function(
    name: str,
    names: Names,
    stage: Stage,
    kept: Sequence[Form],
    first_channel: int,
    *,
    keep: bool,
    image: bool,
) -> str:
    """Print the function that runs one stage over some rows.

    Parameters
    ----------
    name : str
        Of the function.
    names : Names
        Receives the arrays and scalars that the function takes.
    stage : Stage
    kept : sequence of Form
        The stage's history channels.
    first_channel : int
        Number of the first of them.
    keep, image : bool
        Whether history is written (forward) or read (adjoint).

    Returns
    -------
    str
        The function's text. Its arguments are named after ``row_arguments(names)``.
    """
    axes = names.axes
    inner: list[str] = _blocks("x_first", "x_last", LANES, _lines(sweep(names, stage, None, kept, keep, image)))
    for axis in axes:
        lines = _lines(sweep(names, stage, axis, kept, keep, image)) if axis in stage.slabs() else []
        if lines:
            inner += _ends(axes, lines) if axis == "x" else _slab(axes, axis, lines)
    channels = (
        [f"h{k} = kept + index({first_channel + k}) * shots * cells" for k in range(len(kept))] if keep or image else []
    )
    body = [*stage_comment(stage, image), *strides(axes, inner), *channels, "for row in range(first_row, last_row):"]
    place = ["rest = row"]
    for axis in reversed(axes[:-1]):
        place += [f"{axis} = rest % {axis}_rows + {axis}_first", f"rest //= {axis}_rows"]
    place += [f"line = {_row(axes)}", "for shot in range(shots):"]
    start = ["base = shot * cells + line", "model = shot * model_step + line"]
    body += indent([*place, *indent([*start, *inner])])
    head = f"@kernel\ndef {name}({', '.join(row_arguments(names, stage, keep or image))}):"
    return "\n".join([head, *indent(body)])


def row_arguments(names: Names, stage: Stage, history: bool) -> list[str]:
    """Names of a rows function's arguments, in order."""
    integers = ["first_row", "last_row", *(["kept"] if history else []), "shots", "cells", "model_step"]
    return [*integers, *names.arrays, *axis_integers(names.axes, stage.slabs()), *names.scalars]


def axis_integers(axes: tuple[str, ...], slabs: frozenset[str]) -> list[str]:
    """Names of the integers that describe the grid."""
    found = []
    for axis in axes:
        found += [f"n{axis}", f"{axis}_first", "x_last" if axis == "x" else f"{axis}_rows"]
        found += [f"{axis}_low", f"{axis}_high", f"{axis}_slab"] if axis in slabs else []
    return found


def _lines(done: Pass) -> list[str]:
    return [*done.lines, *map(str, done.stores)]


def _blocks(first: str, last: str, lanes: int, lines: list[str]) -> list[str]:
    """Lines at every x of a range, in blocks of a constant length that compilers turn into vectors without remainder."""
    used = "\n".join(lines)
    head = ["x = block + index(lane)", "i = base + x"] + (["m = model + x"] if "[m" in used else [])
    head += [f"j_{axis} = start_{axis} + x" for axis in "zyx" if f"[j_{axis}" in used]
    loops = [f"for block in range({first}, {last}, n{lanes}):", f"{INDENT}for lane in range({lanes}):"]
    return loops + indent([*head, *lines], 2)


def _slab(axes: tuple[str, ...], axis: str, lines: list[str]) -> list[str]:
    """The pass over an outer axis's slabs, for a row that meets one."""
    kept = f"{axis}_kept"
    start = [f"{kept} = {axis} if {axis} < {axis}_low else {axis} + {axis}_slab - n{axis}"]
    start += [f"start_{axis} = {_row(axes, axis, 'shot')}"]
    return [
        f"if {axis} < {axis}_low or {axis} >= {axis}_high:",
        *indent([*start, *_blocks("x_first", "x_last", LANES, lines)]),
    ]


def _ends(axes: tuple[str, ...], lines: list[str]) -> list[str]:
    """The pass over both ends of a row."""
    start = [f"start_x = {_row(axes, 'x', 'shot')}", "end_first, end_last = x_first, x_low"]
    other = [
        "if end == 1:",
        f"{INDENT}start_x += x_slab - nx",
        f"{INDENT}end_first, end_last = x_high, x_last",
    ]
    return [
        "for end in range(2):",
        *indent([*start, *other, *_blocks("end_first", "end_last", FACE_LANES, lines)]),
    ]


def _row(axes: tuple[str, ...], slab: str | None = None, shot: str | None = None) -> str:
    """Flat index of a row's first cell, in the grid or in an array that keeps only the slabs of one axis."""
    text = shot or ""
    for axis in axes:
        size = f"{axis}_slab" if axis == slab else f"n{axis}"
        place = "" if axis == "x" else f"{axis}_kept" if axis == slab else axis
        text = f"({text}) * {size}" if " " in text else f"{text} * {size}" if text else ""
        text = " + ".join(t for t in (text, place) if t)
    return text or "n0"
