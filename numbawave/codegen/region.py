"""Regions of the grid on a CUDA device: which cells a kernel sweeps, and how a thread finds its own."""

import re
from dataclasses import dataclass
from itertools import combinations

from numbawave.codegen.layout import INDENT

Case = frozenset[str]
"""The axes in whose slabs a cell lies."""


@dataclass(frozen=True)
class Region:
    """Cells that one kernel sweeps: those of one case, or of any, and each finds out which.

    Attributes
    ----------
    name : str
    cases : tuple of frozenset of str
    march : bool
        Whether threads march along the slowest axis.
    """

    name: str
    cases: tuple[Case, ...]
    march: bool = False


COORDINATE = re.compile(r"shots|shot_step|n[zyx]|[zyx]_\w+")
"""Names of the integers that kernels take in 32 bits: numbers of cells along an axis, and of shots. With them a thread
finds its cell in half of the instructions, and only the flat index, which may pass 2^32, has 64 bits."""

MARCHING = {"interior"}
"""Regions where marching pays: elsewhere it takes registers that more threads need more."""


def _name(case: Case) -> str:
    return "".join(sorted(case)) or "interior"


def regions(axes: tuple[str, ...], absorbing: frozenset[str], split: bool) -> list[Region]:
    """The regions of a grid: the interior, slabs, edges and corners, one a case; or all in one."""
    slabs = [axis for axis in axes if axis in absorbing]
    cases = [frozenset(some) for size in range(len(slabs) + 1) for some in combinations(slabs, size)]
    if not split:
        return [Region("all", tuple(cases))]
    return [Region(_name(case), (case,), _name(case) in MARCHING and len(axes) > 1) for case in cases]


def asked(axes: tuple[str, ...], region: Region) -> list[str]:
    """The axes for which a cell of the region must find out whether it lies in a slab."""
    return [axis for axis in axes if len({axis in case for case in region.cases}) > 1]


def place(axes: tuple[str, ...], region: Region) -> list[str]:
    """Which cell or column is this thread's, and which shot comes first.

    Blocks lie along x, along the axis before it, and, by their third index, along z in 3-D and along shots.
    """
    lines = ["shot = coordinate(cuda.blockIdx.z)"]
    if len(axes) == 3:
        slow = axes[0]
        lines = ["tile, shot = coordinate(cuda.blockIdx.z), coordinate(0)", f"if tile >= {slow}_tiles:"]
        lines += [f"{INDENT}shot = coordinate(tile // {slow}_tiles)"]
        lines += [f"{INDENT}tile = coordinate(tile - shot * {slow}_tiles)"]
    for axis, place in zip(reversed(axes), "xyz", strict=False):
        block, thread = f"index(cuda.blockIdx.{place})", f"index(cuda.threadIdx.{place})"
        at = "tile" if place == "z" else f"{block} * index(cuda.blockDim.{place}) + {thread}"
        if region.march and axis == axes[0]:
            start = "tile" if place == "z" else block
            lines.append(f"{axis}_begin = coordinate({axis}_low + {start} * {axis}_planes)")
            lines.append(f"{axis}_end = coordinate(min({axis}_begin + {axis}_planes, {axis}_high))")
            continue
        first, last = ends_of(axis, region)
        lines += [f"{axis} = coordinate({at} + {axis}_{first})"]
        if first == "first" and axis not in asked(axes, region):
            lines += [f"if {axis} >= {axis}_low:", f"{INDENT}{axis} = coordinate({axis} + {axis}_high - {axis}_low)"]
        lines += [f"if {axis} >= {axis}_{last}:", f"{INDENT}return"]
    return [*lines, *(f"in_{axis} = {axis} < {axis}_low or {axis} >= {axis}_high" for axis in asked(axes, region))]


def ends_of(axis: str, region: Region) -> tuple[str, str]:
    """Names of the first cell along an axis and of the one after the last."""
    return ("first", "stop") if any(axis in case for case in region.cases) else ("low", "high")


def flat(axes: tuple[str, ...], slab: str | None, march: str | None) -> str:
    """Flat index of a cell or a column's first: in a shot's grid, in an array with one axis's slabs, or in the "past"."""
    # A column may begin before the past does: its index wraps around, and comes right on the way.
    text, narrow = "", "index" if slab == "past" and march else "coordinate"
    for axis in axes:
        place = f"{axis}_kept" if axis == slab else f"{axis}_begin" if axis == march else axis
        place = f"({narrow}({place}) - {axis}_from)" if slab == "past" else place
        row = size(axis, slab)
        text = f"{narrow}({text}) * {row} + {place}" if " * " in text else f"{text} * {row} + {place}" if text else place
    return text


def size(axis: str, slab: str | None) -> str:
    """Cells along an axis: of the grid, of the arrays that have its slabs, or of the "past"."""
    return f"{axis}_past" if slab == "past" else f"{axis}_slab" if axis == slab else f"n{axis}"
