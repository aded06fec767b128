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

Lines = tuple[list[str], list[str] | None]
"""Lines where history is touched, and where it is not, None if there is no such place."""


def rows_function(
    name: str,
    names: Names,
    stage: Stage,
    kept: Sequence[Form],
    first_channel: int,
    *,
    keep: bool,
    image: bool,
    boxed: bool = False,
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
    boxed : bool
        Whether that is so in a box of cells only.

    Returns
    -------
    str
        The function's text. Its arguments are named after ``row_arguments(names)``.
    """
    axes, history = names.axes, keep or image
    boxed = boxed and history

    def rows(axis: str | None) -> Lines:
        used, plain = [_lines(sweep(names, stage, axis, kept, *how)) for how in ((keep, image), (False, False))]
        return used, plain if boxed else None

    inner: list[str] = _blocks("x_first", "x_last", LANES, rows(None))
    for axis in axes:
        lines = rows(axis) if axis in stage.slabs else ([], None)
        if any(lines):
            inner += _ends(axes, lines) if axis == "x" else _slab(axes, axis, lines)
    channels = [f"h{k} = kept + index({first_channel + k}) * shots * past" for k in range(len(kept))] if history else []
    body = [*stage_comment(stage, image), *strides(axes, inner), *channels, "for row in range(first_row, last_row):"]
    place = ["rest = row"]
    for axis in reversed(axes[:-1]):
        place += [f"{axis} = rest % {axis}_rows + {axis}_first", f"rest //= {axis}_rows"]
    place += [f"line = {_row(axes)}"]
    if boxed:
        inside = " and ".join(f"{axis} >= {axis}_from and {axis} < {axis}_to" for axis in axes[:-1])
        place += ["x_begin, x_end = x_from, x_to"]
        place += [f"if not ({inside}):", f"{INDENT}x_begin = x_end = x_first"] if inside else []
    place += ["for shot in range(shots):"]
    start = ["base = shot * cells + line", "model = shot * model_step + line"]
    start += [f"before = {_row(axes, 'past', 'shot')} - x_from"] if history else []
    body += indent([*place, *indent([*start, *inner])])
    head = f"@kernel\ndef {name}({', '.join(row_arguments(names, stage, history))}):"
    return "\n".join([head, *indent(body)])


def row_arguments(names: Names, stage: Stage, history: bool) -> list[str]:
    """Names of a rows function's arguments, in order."""
    integers = ["first_row", "last_row", *(["kept"] if history else []), "shots", "cells", "model_step"]
    integers += history_integers(names.axes) if history else []
    return [*integers, *names.arrays, *axis_integers(names.axes, stage.slabs), *names.scalars]


def history_integers(axes: tuple[str, ...]) -> list[str]:
    """Names of the integers that describe what history keeps."""
    return ["past", *(f"{axis}_{end}" for axis in axes for end in ("from", "to", "past"))]


def axis_integers(axes: tuple[str, ...], slabs: frozenset[str]) -> list[str]:
    """Names of the integers that describe the grid."""
    found = []
    for axis in axes:
        found += [f"n{axis}", f"{axis}_first", "x_last" if axis == "x" else f"{axis}_rows"]
        found += [f"{axis}_low", f"{axis}_high", f"{axis}_slab", f"{axis}_moved"] if axis in slabs else []
    return found


def _lines(done: Pass) -> list[str]:
    return [*done.lines, *map(str, done.stores)]


def _blocks(first: str, last: str, lanes: int, lines: Lines) -> list[str]:
    """Lines at every x of a range, in blocks of a constant length that compilers turn into vectors without remainder."""
    inside, outside = lines
    if outside is None:
        return _loop(first, last, lanes, inside)
    cuts = [first, *(f"min(max({cut}, {first}), {last})" for cut in ("x_begin", "x_end")), last]
    ranges = zip(cuts[:-1], cuts[1:], (outside, inside, outside), strict=True)
    return [line for low, high, some in ranges if some for line in _loop(low, high, lanes, some)]


def _loop(first: str, last: str, lanes: int, lines: list[str]) -> list[str]:
    used = "\n".join(lines)
    head = ["x = block + index(lane)", "i = base + x"] + (["m = model + x"] if "[m" in used else [])
    head += [f"j_{axis} = start_{axis} + x" for axis in "zyx" if f"[j_{axis}" in used]
    head += ["p = before + x"] if " + p]" in used else []
    loops = [f"for block in range({first}, {last}, n{lanes}):", f"{INDENT}for lane in range({lanes}):"]
    return loops + indent([*head, *lines], 2)


def _slab(axes: tuple[str, ...], axis: str, lines: Lines) -> list[str]:
    """The pass over an outer axis's slabs, for a row that meets one."""
    kept = f"{axis}_kept"
    start = [f"{kept} = {axis} if {axis} < {axis}_low else {axis} - {axis}_moved"]
    start += [f"start_{axis} = {_row(axes, axis, 'shot')}"]
    return [
        f"if {axis} < {axis}_low or {axis} >= {axis}_high:",
        *indent([*start, *_blocks("x_first", "x_last", LANES, lines)]),
    ]


def _ends(axes: tuple[str, ...], lines: Lines) -> list[str]:
    """The pass over both ends of a row."""
    start = [f"start_x = {_row(axes, 'x', 'shot')}", "end_first, end_last = x_first, x_low"]
    other = [
        "if end == 1:",
        f"{INDENT}start_x -= x_moved",
        f"{INDENT}end_first, end_last = x_high, x_last",
    ]
    return [
        "for end in range(2):",
        *indent([*start, *other, *_blocks("end_first", "end_last", FACE_LANES, lines)]),
    ]


def _row(axes: tuple[str, ...], slab: str | None = None, shot: str | None = None) -> str:
    """Flat index of a row's first cell, in the grid, in an array that keeps only the slabs of one axis, or in history."""
    text = shot or ""
    for axis in axes:
        size = f"{axis}_past" if slab == "past" else f"{axis}_slab" if axis == slab else f"n{axis}"
        place = "" if axis == "x" else f"{axis}_kept" if axis == slab else axis
        place = f"{axis} - {axis}_from" if slab == "past" and place else place
        text = f"({text}) * {size}" if " " in text else f"{text} * {size}" if text else ""
        text = " + ".join(t for t in (text, place) if t)
    return text or "n0"
