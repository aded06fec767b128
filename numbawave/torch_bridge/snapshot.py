"""The wavefield as it goes by: every n-th one, in the host's memory or in a file."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from numbawave.errors import InvalidValueError, StorageError
from numbawave.history.storage import free_memory
from numbawave.torch_bridge.arrays import numpy_view, tensor
from numbawave.torch_bridge.result import PropagatorOutput
from numbawave.torch_bridge.segments import Call, Segments, whole_number


def snapshots(
    propagator: Any,
    *models: Any,
    dt: float,
    every: int,
    grid_spacing: Any = None,
    storage: str = "cpu",
    path: str | os.PathLike[str] | None = None,
    layers: bool = False,
    **options: Any,
) -> tuple[NDArray[Any], PropagatorOutput]:
    """Run a propagator and keep every n-th wavefield.

    The run goes in segments of ``every`` steps, so that the device holds one wavefield at a time, whatever the number
    of snapshots, and so that a small ``every`` costs time. Nothing is differentiated.

    Not for imaging with one's own adjoint: the propagator's gradient keeps its own history, and codes it.

    Parameters
    ----------
    propagator : callable, str or torch.nn.Module
        ``numbawave.scalar`` or its like, an equation's name, or a module such as ``numbawave.Scalar``, which holds the
        models and the grid spacing itself.
    *models : tensor [*grid] or [shot, *grid]
        As the propagator takes them; by name they may stand among the options.
    dt : float
        Time step of amplitudes and records.
    every : int
        Time steps between snapshots: snapshot k is the wavefield after ``(k + 1) * every`` steps, ``wavefield_0`` of a
        run of that length.
    grid_spacing : float or sequence of float
        Cell size, one or an axis; only a module holds its own.
    storage : {"cpu", "disk"}
        Where snapshots go: to the host's memory, or to a ``.npy`` file.
    path : str or path, optional
        The file, for "disk". There must be none of this name; it is removed should the run fail.
    layers : bool
        Whether snapshots hold the absorbing layers too, beside the model's own cells.
    **options
        Options of every propagator.

    Returns
    -------
    ndarray [snapshot, shot, *grid]
        The snapshots in the model's dtype; from "disk" a read-only map of the file.
    PropagatorOutput
        What the call returns without snapshots, and equal to it.

    Raises
    ------
    NumbawaveError
        One of its kinds, naming the argument, its value, the rule and the remedy, before any work is done.
    """
    with torch.no_grad():
        segments = Segments.of(Call.of(propagator, models, grid_spacing, options), dt)
        nt, run = segments.prepared.nt, segments.prepared.run
        step = _every(every, nt)
        lengths = [step] * (nt // step) + [nt % step] * (nt % step > 0)
        _check_place(storage, path)
        segments.check(min(lengths))
        inner: Any = (..., *(slice(axis.low, axis.low + axis.cells) for axis in run.grid.axes))
        sizes = [axis.stop - axis.first if layers else axis.cells for axis in run.grid.axes]
        with _kept(storage, path, (nt // step, run.shots, *sizes), run.dtype) as kept:

            def keep(segment: int, output: PropagatorOutput) -> None:
                if segment < len(kept):
                    field = tensor(output.names[0], output[0])
                    kept[segment] = numpy_view(field if layers else field[inner])

            output = segments.run(lengths, callback=keep)
    return kept if path is None else np.load(path, mmap_mode="r"), output


def _every(every: Any, nt: int) -> int:
    number = whole_number(every)
    if not 1 <= number <= nt:
        rule = f"is a whole number from 1 to the number of time steps, {nt}"
        raise InvalidValueError("every", every, rule, "give the steps between snapshots")
    return number


def _check_place(storage: str, path: Any) -> None:
    if storage not in ("cpu", "disk"):
        raise InvalidValueError("storage", storage, "is one of cpu, disk", "choose one of these")
    if storage == "disk" and path is None:
        raise InvalidValueError("path", "None", 'storage="disk" needs a file', "give the path of a new .npy file")
    if storage == "cpu" and path is not None:
        raise InvalidValueError("path", str(path), 'is the file of storage="disk"', 'give storage="disk", or leave it out')


@contextlib.contextmanager
def _kept(storage: str, path: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """An array for the snapshots; its file is whole, or there is none."""
    needed = prod(shape) * dtype.itemsize
    if storage == "cpu":
        free = free_memory()
        if free is not None and needed > free:
            rule = f"snapshots take {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB of memory are free"
            raise StorageError("storage", "cpu", rule, 'give storage="disk", or a larger every')
        yield np.empty(shape, dtype)
        return
    file = os.fspath(path)
    _claim(file, needed)
    try:
        kept = open_memmap(file, mode="w+", dtype=dtype, shape=shape)
        yield kept
        kept.flush()
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(file)
        raise


def _claim(file: str, needed: int) -> None:
    """Make the file, unless there is one of its name or too little room for it."""
    try:
        with open(file, "xb"):
            free = shutil.disk_usage(os.path.dirname(os.path.abspath(file))).free
    except FileExistsError as error:
        remedy = "give another path, or move the file away"
        raise StorageError("path", file, "there is a file of this name already", remedy) from error
    except OSError as error:
        rule = f"no file can be made there ({error.strerror or error})"
        raise StorageError("path", file, rule, "give a path in a folder that exists and can be written") from error
    if needed > free:
        os.unlink(file)
        rule = f"snapshots take {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free there"
        raise StorageError("path", file, rule, "give a path on another disk, or a larger every")
