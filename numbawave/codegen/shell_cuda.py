"""The CUDA shell: printed kernels that sweep tiles of the grid, and kernels that act at points.

A kernel belongs to a region: the axes in whose slabs all of its cells lie are known when it is printed, so that the plain
part and those axes' parts follow one another without a branch; of other axes it may be told to ask. A thread owns a
point, and in 3-D it marches along z with the values of its column in registers; each value is stored once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from numbawave.codegen.expression import Names
from numbawave.codegen.points import Task
from numbawave.codegen.sweep import Store, sweep
from numbawave.stencil.form import Form, show
from numbawave.stencil.program import Stage

INDENT = "    "


@dataclass(frozen=True)
class Region:
    """Cells that one kernel sweeps.

    Attributes
    ----------
    name : str
    inside : frozenset of str
        Axes in whose slabs all of the cells lie.
    asked : frozenset of str
        Axes for which each cell finds out.
    """

    name: str
    inside: frozenset[str]
    asked: frozenset[str]


def regions(axes: tuple[str, ...], absorbing: frozenset[str], split: bool) -> list[Region]:
    """The regions of a grid: interior, a slab pair for each axis, edges and corners together; or all in one."""
    if not split or not absorbing:
        return [Region("all", frozenset(), absorbing)]
    faces = [Region(axis, frozenset({axis}), frozenset()) for axis in axes if axis in absorbing]
    edges = [Region("edges", frozenset(), absorbing)] if len(absorbing) > 1 else []
    return [Region("interior", frozenset(), frozenset()), *faces, *edges]


def tiles_kernel(
    title: str,
    names: Names,
    stage: Stage,
    region: Region,
    kept: Sequence[Form],
    first_channel: int,
    *,
    keep: bool,
    image: bool,
    some: bool,
    tick: str,
) -> str:
    """Print the kernel that runs one stage over the tiles of a region.

    Parameters
    ----------
    title : str
        Of the kernel.
    names : Names
        Receives the arrays and scalars that the kernel takes.
    stage : Stage
    region : Region
    kept : sequence of Form
        The stage's history channels.
    first_channel : int
        Number of the first of them.
    keep, image : bool
        Whether history is written (forward) or read (adjoint).
    some : bool
        Whether that is so in some steps only.
    tick : {"", "+", "-"}
        Whether this kernel sets the clock of the next step, forward or back.

    Returns
    -------
    str
        The kernel's text.
    """
    axes = names.axes
    names.march = axes[-3] if len(axes) == 3 else None
    begin, body, end = _point(names, stage, region, kept, keep, image, some)
    text = "\n".join([*begin, *body, *end])
    march = names.march
    channels = [f"h{k} = index(clock[1]) * channels * shots * cells + index({first_channel + k}) * shots * cells"
                for k in range(len(kept))] if keep or image else []  # fmt: skip
    inner = [f"{march} = {march}_begin"] if march else []
    inner += [f"i = {_flat(axes)}", *(["m = shot * model_step + " + _flat(axes, lead="")] if "[m" in text else [])]
    inner += [f"j_{axis} = {_flat(axes, axis)}" for axis in axes if f"[j_{axis}" in text]
    carried = _queue(names, text)
    if march:
        moves = [f"{axis} += {_stride(axes, march, slab)}" for axis, slab in _indices(text)]
        inner += [*carried.before, f"for {march} in range({march}_begin, {march}_end):"]
        inner += _indent([*carried.load, *begin, *body, *end, *carried.shift, *moves])
    else:
        inner += [*carried.load, *begin, *body, *end]
    lines = [*_comment(stage, image), *_strides(axes, [*inner, *carried.before]), *_place(axes, text), *_tick(tick)]
    lines += [f"if {' or '.join(f'{axis} >= {axis}_end' for axis in axes[-2:])}:", f"{INDENT}return", *channels]
    lines += ["keeping = clock[2] == 1"] if some and channels else []
    lines += ["for shot in range(index(cuda.blockIdx.y), shots, index(cuda.gridDim.y)):", *_indent(inner)]
    whole = "\n".join(lines)
    integers = ["shots", "cells", *(["channels"] if channels else []), *(["model_step"] if "model_step" in whole else [])]
    integers += ["stride"] if tick else []
    integers += [n for axis in axes for n in (f"n{axis}", f"{axis}_low", f"{axis}_high", f"{axis}_slab") if _used(n, whole)]
    clocks = [*(["clock"] if "clock[" in whole else []), *(["clock_next"] if tick else [])]
    given = ["tiles", *clocks, *names.arrays, *dict.fromkeys(integers), *names.scalars]
    return "\n".join([f"@kernel\ndef {title}({', '.join(given)}):", *_indent(lines)])


def points_kernel(title: str, names: Names, task: Task) -> str:
    """Print the kernel that does a task; a thread owns a cell of those written to, and takes its points in order.

    Parameters
    ----------
    title : str
    names : Names
    task : Task

    Returns
    -------
    str
    """
    owner = "model_" * any("[m] +=" in line or "[m] -=" in line for line in task.lines) + task.cells
    model = [f"m = index(model_{task.cells}[q])"] if task.on_model else []
    inner = [f"q = index(order_{owner}[k])", f"i = index({task.cells}[q])", *model, *task.lines]
    body = [
        "cell = index(cuda.blockIdx.x) * index(cuda.blockDim.x) + index(cuda.threadIdx.x)",
        f"if cell + n1 >= index(first_{owner}.size):",
        f"{INDENT}return",
        f"at = index(clock[0]) * index({task.cells}.size)",
        f"for k in range(index(first_{owner}[cell]), index(first_{owner}[cell + n1])):",
        *_indent(inner),
    ]
    given = ["clock", f"first_{owner}", f"order_{owner}", *task.arrays, *task.scalars(names)]
    return "\n".join([f"@kernel\ndef {title}({', '.join(given)}):", *_indent(body)])


def _point(
    names: Names, stage: Stage, region: Region, kept: Sequence[Form], keep: bool, image: bool, some: bool
) -> tuple[list[str], list[str], list[str]]:
    """Lines at a point: first values, the passes one after another, and the stores."""
    begin: list[str] = []
    body: list[str] = []
    stores: dict[str, Store] = {}
    for axis in (None, *names.axes):
        if axis is not None and axis not in (region.inside | region.asked) & stage.slabs():
            continue
        done = sweep(names, stage, axis, kept, keep, image)
        lines, own = list(done.lines), []
        for store in done.stores:
            local = _local(store, stores)
            if not store.added and axis is not None:
                own.append(Store(store.target, local, False))
            elif store.target + store.factor not in stores:
                stores[store.target + store.factor] = Store(store.target, local, store.added, store.factor)
                if axis is not None:
                    begin.append(f"{local} = {names.constant(0.0, 'k0')}")
            joined = "+=" if axis is not None and store.added else "="
            lines += [f"{local} {joined} {store.value}"] if local != store.value else []
        if axis in region.asked:
            body += [f"if {axis} < {axis}_low or {axis} >= {axis}_high:", *_indent([*lines, *map(str, own)])]
        else:
            body += lines
            stores |= {store.target: store for store in own}
    always = [str(s) for s in stores.values() if not (some and (s.factor or s.array == "history"))]
    at_times = [str(s) for s in stores.values() if some and (s.factor or s.array == "history")]
    return begin, body, [*always, *(["if keeping:", *_indent(at_times)] if at_times else [])]


def _local(store: Store, stores: dict[str, Store]) -> str:
    """The name in which a store's value is gathered."""
    known = stores.get(store.target + store.factor)
    if known:
        return known.value
    taken = {other.value for other in stores.values()}
    fresh = (f"total_{store.array}" + (f"_{n}" if n > 1 else "") for n in range(1, len(taken) + 2))
    return next(name for name in fresh if name not in taken)


@dataclass(frozen=True)
class _Queue:
    """Values of a column that a marching thread carries: what it loads first, in each plane, and how they move on."""

    before: list[str]
    load: list[str]
    shift: list[str]


def _queue(names: Names, text: str) -> _Queue:
    before, load, shift = [], [], []
    for name, shifts in sorted(names.queued.items()):
        span = range(min(shifts), max(shifts) + 1)
        axis = names.march or ""
        value = {k: names.column(name, k) for k in span}
        place = {k: f"{names.array(name)}[{names.along('i', axis, k)}]" for k in span}
        before += [f"{value[k]} = {place[k]}" for k in span[:-1]]
        load.append(f"{value[span[-1]]} = {place[span[-1]]}")
        shift += [f"{value[k]} = {value[k + 1]}" for k in span[:-1]]
    return _Queue(before, load, shift)


def _place(axes: tuple[str, ...], text: str) -> list[str]:
    """Where this thread works: its cell or column, from the block's entry in the table of tiles."""
    lines = [f"tile = index(cuda.blockIdx.x) * n{2 * len(axes)}"]
    for position, axis in enumerate(axes):
        ends = [f"index(tiles[tile{f' + n{k}' if k else ''}])" for k in (2 * position, 2 * position + 1)]
        lines += [f"{axis}_begin, {axis}_end = {ends[0]}, {ends[1]}"]
    for axis, thread in zip(reversed(axes), ("x", "y"), strict=False):
        lines.append(f"{axis} = {axis}_begin + index(cuda.threadIdx.{thread})")
    if len(axes) == 3:
        lines.append(f"{axes[0]} = {axes[0]}_begin")
    if len(axes) == 1:
        lines[-1] = "x = x_begin + index(cuda.threadIdx.x)"
    lines += [f"{axis}_kept = {axis} if {axis} < {axis}_low else {axis} + {axis}_slab - n{axis}"
              for axis in axes if f"[j_{axis}" in text]  # fmt: skip
    return lines


def _tick(tick: str) -> list[str]:
    if not tick:
        return []
    first = "cuda.blockIdx.x == 0 and cuda.blockIdx.y == 0 and cuda.threadIdx.x == 0 and cuda.threadIdx.y == 0"
    step = [f"step = clock[0] {tick} 1", "clock_next[0], clock_next[1] = step, step // stride"]
    return [f"if {first}:", *_indent([*step, "clock_next[2] = 1 if step % stride == 0 else 0"])]


def _comment(stage: Stage, image: bool) -> list[str]:
    lines = [f"# {a.field.name} <- {show(a.form)}" for a in stage.assignments if a.field.slab is None]
    return lines + [f"# gradient_{p.parameter.name} += history * {show(p.adjoint)}" for p in stage.images if image]


def _flat(axes: tuple[str, ...], slab: str | None = None, lead: str = "shot") -> str:
    """Flat index of a cell in the grid, or in an array that keeps only the slabs of one axis."""
    text = lead
    for axis in axes:
        size, place = (f"{axis}_slab", f"{axis}_kept") if axis == slab else (f"n{axis}", axis)
        text = f"({text}) * {size} + {place}" if " " in text else f"{text} * {size} + {place}" if text else place
    return text


def _indices(text: str) -> list[tuple[str, str | None]]:
    """Every index that moves with the march, and the axis whose slabs alone its arrays keep."""
    found: list[tuple[str, str | None]] = [("i", None), *([("m", None)] if "[m" in text else [])]
    return found + [(f"j_{axis}", axis) for axis in "zyx" if f"[j_{axis}" in text]


def _stride(axes: tuple[str, ...], march: str, slab: str | None) -> str:
    faster = axes[axes.index(march) + 1 :]
    return " * ".join(f"{axis}_slab" if axis == slab else f"n{axis}" for axis in faster) or "n1"


def _strides(axes: tuple[str, ...], lines: list[str]) -> list[str]:
    """The strides ``z1, z2 ...`` that the lines use, in cells."""
    text, found = "\n".join(lines), []
    for axis in axes:
        stride = _stride(axes, axis, None)
        found += [f"{axis}{k} = {stride}" + (f" * n{k}" if k > 1 else "") for k in range(1, 9) if _used(f"{axis}{k}", text)]
    return found


def _used(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _indent(lines: Sequence[str], depth: int = 1) -> list[str]:
    return [INDENT * depth + line for line in lines]
