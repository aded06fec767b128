"""The CUDA shell: printed kernels that sweep a region of the grid.

A kernel belongs to a region: its case names the axes in whose slabs all of its cells lie, so that the plain part and those
axes' parts follow one another without a branch. A thread owns a point; in the interior it marches along the slowest axis
with the values of its column in registers. Each value is stored once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from numbawave.codegen.expression import Names
from numbawave.codegen.layout import indent, stage_comment, strides
from numbawave.codegen.points import Task
from numbawave.codegen.points_cuda import spots
from numbawave.codegen.region import Case, Region, asked, flat, place, size
from numbawave.codegen.sweep import Store, sweep
from numbawave.stencil.form import Form
from numbawave.stencil.program import Stage

REGISTERS = {(2, "all"): 96, (2, "slab"): 80, (2, "edge"): 80, (3, "slab"): 80, (3, "edge"): 64}
"""By axes and kind of region: registers that a thread may have at order 4, where a limit is faster.
A compiler that is given one takes that many, so a thread asks for nearly all of its values before it waits for the first of
them; left alone, it saves registers for more threads, which then wait several times. Measured on an H200."""


def registers(ndim: int, region: Region, accuracy: int) -> int | None:
    """What a thread of a region's kernel may have: more at higher orders, where it reads more."""
    (case, *others) = region.cases
    kind = "all" if others else ("interior", "slab", "edge")[min(2, len(case))]
    most = REGISTERS.get((ndim, kind))
    return most and most + 8 * max(0, accuracy - 4)


def sweep_kernel(
    title: str,
    names: Names,
    stage: Stage,
    region: Region,
    kept: Sequence[Form],
    first_channel: int,
    use: frozenset[str],
    tick: str,
    looped: bool,
    before: Sequence[Task] = (),
    after: Sequence[Task] = (),
) -> str:
    """Print the kernel that runs one stage over a region.

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
    use : frozenset of str
        ``"keep"`` where history is written (forward) and ``"image"`` where it is read (adjoint), with ``"some"`` if in some
        steps only, and with ``"boxed"`` if in a box of cells only.
    tick : {"", "+", "-"}
        Whether this kernel sets the clock of the next step, forward or back.
    looped : bool
        Whether a thread takes several shots, one after another.
    before, after : sequence of Task
        What its threads do at points in their cells, too.

    Returns
    -------
    str
        The kernel's text.
    """
    axes = names.axes
    names.march = axes[0] if region.march else None
    channels = [f"h{k - first_channel} = index(clock[1]) * slot_size" + (f" + n{k} * channel_size" if k else "")
                for k in range(first_channel, first_channel + len(kept))] if use else []  # fmt: skip
    bodies = [_shots(names, stage, case, kept, use, looped) for case in region.cases]
    lines = ["keeping = clock[2] == 0"] if "some" in use else []
    for number, (case, body) in enumerate(zip(region.cases, bodies, strict=True)):
        inside = " and ".join(f"in_{axis}" if axis in case else f"not in_{axis}" for axis in asked(axes, region))
        lines += [f"{'el' if number else ''}if {inside}:", *indent(body)] if inside else body
    early, late = spots(names, stage, before, looped), spots(names, stage, after, looped)
    lines = [
        *_tick(tick),
        *place(axes, region),
        *(["mine = shot"] if looped and (early or late) else []),
        *early,
        *channels,
        *lines,
        *late,
    ]
    lines = [*stage_comment(stage, "image" in use), *strides(axes, lines), *lines]
    whole = "\n".join(lines)
    ends = [
        f"{axis}_{end}" for axis in axes for end in ("first", "low", "high", "stop", "slab", "moved", "from", "to", "past")
    ]
    integers = [
        "shots",
        "shot_step",
        "cells",
        "slot_size",
        "channel_size",
        "model_step",
        "gradient_step",
        "stride",
        "slots",
        "past",
        *(f"n{axis}" for axis in axes),
    ]
    integers = [name for name in [*integers, *ends, f"{axes[0]}_tiles", f"{axes[0]}_planes"] if _used(name, whole)]
    clocks = [*(["clock"] if "clock[" in whole else []), *(["clock_next"] if tick else [])]
    given = [*clocks, *names.arrays, *integers, *names.scalars]
    most = registers(len(axes), region, names.accuracy)
    return "\n".join([f"@{f'limited({most})' if most else 'kernel'}\ndef {title}({', '.join(given)}):", *indent(lines)])


def _shots(names: Names, stage: Stage, case: Case, kept: Sequence[Form], use: frozenset[str], looped: bool) -> list[str]:
    """A thread's work in one case, for its shot or for every one of its shots."""
    axes, march = names.axes, names.march
    body = _point(names, stage, case, kept, use)
    if "boxed" in use:
        body.insert(0, f"inside = {' and '.join(f'{a} >= {a}_from and {a} < {a}_to' for a in axes)}")
    carried = _queue(names)
    text = "\n".join([*carried.before, *body])
    slabs = [axis for axis in axes if f"[j_{axis}" in text]
    inner = [f"{march} = {march}_begin"] if march else []
    inner += ["i = shot * cells + cell", *(["m = shot * model_step + cell"] if "[m" in text or "[g]" in text else [])]
    inner += ["g = m + copy"] if "[g]" in text else []
    inner += [f"j_{axis} = shot * ({_stride(axes, None, axis)}) + cell_{axis}" for axis in slabs]
    inner += ["p = shot * past + cell_past"] if " + p]" in text else []
    if march:
        moves = [f"p += {_stride(axes, march, 'past')}"] if " + p]" in text else []
        moves += [f"{axis} += {_stride(axes, march, slab)}" for axis, slab in _indices(text)]
        # A while loop: compilers then turn each index into a pointer that moves, which a range hides from them.
        inner += [*carried.before, f"while {march} < {march}_end:"]
        load = "\n".join(carried.load)
        further = f"further = {_stride(axes, march, 'past')} if {march} + n1 < {march}_end else n0"
        carry = [further, *carried.load] if "+ further]" in load else carried.load
        inner += indent([*carry, *body, *carried.shift, *moves, f"{march} = coordinate({march} + n1)"])
    else:
        inner += body
    kept_at = [f"{axis}_kept = coordinate({axis} if {axis} < {axis}_low else {axis} - {axis}_moved)" for axis in slabs]
    start = [
        *kept_at,
        f"cell = {flat(axes, None, march)}",
        *(f"cell_{axis} = {flat(axes, axis, march)}" for axis in slabs),
    ]
    start += ["copy = shot * gradient_step"] if "[g]" in text else []
    start += [f"cell_past = {flat(axes, 'past', march)}"] if " + p]" in text else []
    loop = ["while shot < shots:", *indent([*inner, "shot = coordinate(shot + shot_step)"])]
    return [*start, *(loop if looped else inner)]


def _point(names: Names, stage: Stage, case: Case, kept: Sequence[Form], use: frozenset[str]) -> list[str]:
    """Lines at a point: the passes that its case needs, one after another, and the stores."""
    lines: list[str] = []
    stores: dict[str, Store] = {}
    for axis in (None, *(axis for axis in names.axes if axis in case & stage.slabs)):
        done = sweep(names, stage, axis, kept, "keep" in use, "image" in use)
        lines += done.lines
        for store in (_copied(store) for store in done.stores):
            local = _local(store, stores)
            fresh = store.target + store.factor not in stores
            stores.setdefault(store.target + store.factor, Store(store.target, local, store.added, store.factor))
            lines += [f"{local} {'=' if fresh else '+='} {store.value}"] if local != store.value else []
    times = [time for word, time in (("some", "keeping"), ("boxed", "inside")) if word in use]
    if names.march and "image" in use and not times:
        stores = {key: _early(names, store) for key, store in stores.items()}
    at_times = [str(s) for s in stores.values() if times and (s.factor or s.array == "history")]
    always = [str(s) for s in stores.values() if str(s) not in at_times]
    return [*lines, *always, *([f"if {' and '.join(times)}:", *indent(at_times)] if at_times else [])]


def _copied(store: Store) -> Store:
    """An image goes to the copy of the gradient that belongs to the thread's first shot."""
    return replace(store, target=store.target.replace("[m]", "[g]")) if store.factor else store


def _early(names: Names, store: Store) -> Store:
    """An image whose gradient and history a marching thread has read already."""
    if not store.factor:
        return store
    channel = names.early(store.factor.removesuffix(" * "))
    return Store(store.target, f"{names.early(store.target)} + {channel} * {store.value}", False)


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


def _queue(names: Names) -> _Queue:
    before, load, shift = [], [], []
    for name, shifts in sorted(names.queued.items()):
        span = range(min(shifts), max(shifts) + 1)
        axis = names.march or ""
        value = {k: names.column(name, k) for k in span}
        place = {k: f"{names.array(name)}[{names.along('i', axis, k)}]" for k in span}
        before += [f"{value[k]} = {place[k]}" for k in span[:-1]]
        load.append(f"{value[span[-1]]} = {place[span[-1]]}")
        shift += [f"{value[k]} = {value[k + 1]}" for k in span[:-1]]
    for name, element in sorted(names.ahead.items()):
        before.append(f"{name} = {element}")
        # History ends with the last plane: there a thread reads what it has again.
        ahead = "further" if element.endswith(" + p]") else f"{names.march}1"
        load.append(f"{name.removesuffix('now')}then = {element[:-1]} + {ahead}]")
        shift.append(f"{name} = {name.removesuffix('now')}then")
    return _Queue(before, load, shift)


def _tick(tick: str) -> list[str]:
    """One thread sets the clock of the next step: the step, its slot of history, and the steps since that was written."""
    if not tick:
        return []
    # One question and no division: branches and divisions are what compiling takes longest for.
    mine = [f"cuda.{index}" for index in ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y")]
    ahead = ["since = (clock[2] + 1) * (clock[2] + 1 < stride)", "slot = clock[1] + (since == 0)", "slot *= slot < slots"]
    back = [
        "slot = clock[1] - (clock[2] == 0)",
        "slot += slots * (slot < 0)",
        "since = clock[2] - 1",
        "since += stride * (since < 0)",
    ]
    lines = [
        *(ahead if tick == "+" else back),
        f"clock_next[0], clock_next[1] = clock[0] {tick} 1, slot",
        "clock_next[2] = since",
    ]
    return [f"if ({' | '.join(mine)}) == 0:", *indent(lines)]


def _indices(text: str) -> list[tuple[str, str | None]]:
    """Every index that moves with the march, and the axis whose slabs alone its arrays keep."""
    found: list[tuple[str, str | None]] = [("i", None)]
    found += [(name, None) for name in "mg" if f"[{name}" in text]
    return found + [(f"j_{axis}", axis) for axis in "zyx" if f"[j_{axis}" in text]


def _stride(axes: tuple[str, ...], after: str | None, slab: str | None) -> str:
    """Cells from one index along an axis to the next, or of all axes for None."""
    faster = axes[axes.index(after) + 1 :] if after else axes
    return " * ".join(size(axis, slab) for axis in faster) or "n1"


def _used(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None
