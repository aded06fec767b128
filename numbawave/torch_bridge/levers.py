"""The levers of memory: what the options ask for, as the run takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from numbawave.checkpoint import Schedule, binomial, fewest_bytes, segments_for, uniform
from numbawave.engine.buffers import state_bytes
from numbawave.engine.reversal import unwind
from numbawave.engine.run import Run
from numbawave.engine.setup import Setup
from numbawave.errors import InvalidTypeError, InvalidValueError
from numbawave.grid.domain import Box, Domain
from numbawave.history.codecs.compression import Compression, coded_bytes
from numbawave.history.storage import Storage
from numbawave.torch_bridge.arrays import numpy_view
from numbawave.torch_bridge.options import Options


def pull(run: Run, options: Options, undo: Setup | None) -> None:
    """Set a run's levers; ``undo`` is the setup of its equation without layers, for ``history="reconstruct"``.

    Raises
    ------
    InvalidValueError, InvalidTypeError, StorageError
        Naming the argument, its value, the rule and the remedy.
    """
    mask = mask_of(options, tuple(axis.cells for axis in run.grid.axes))
    run.window = run.grid.box("full" if options.history == "full" else "interior")
    if mask is not None:
        around = 1 if any(parameter.at for parameter in run.setup.forward.parameters) else 0
        run.window = _around(mask, run.grid, run.window, around)
    run.undo = undo
    spread(run, options)


def spread(run: Run, options: Options) -> None:
    """Set where and how the history of a run's window is kept, and of how many steps and shots at a time."""
    run.storage = storage_of(options)
    if run.undo is not None:
        unwind(run, run.undo)
    run.schedule = _schedule(run, options)
    run.batch = options.shot_batch if options.shot_batch and options.shot_batch < run.shots else 0


def storage_of(options: Options) -> Storage:
    """Where history is kept, and how it is coded."""
    mode: Any = options.storage_mode
    return Storage(mode, options.storage_path, Compression.of(options.storage_compression))


def mask_of(options: Options, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """The checked gradient mask."""
    given = options.gradient_mask
    if given is None:
        return None
    mask = numpy_view(given) if isinstance(given, torch.Tensor) else np.asarray(given)
    if mask.dtype != np.bool_:
        raise InvalidTypeError("gradient_mask", str(mask.dtype), "is an array of bool", "give mask != 0")
    if mask.shape != shape:
        rule = f"has the shape of one model, {list(shape)}"
        raise InvalidValueError("gradient_mask", f"shape {list(mask.shape)}", rule, "give one entry a cell")
    if not mask.any():
        rule = "some cell's gradient is wanted"
        raise InvalidValueError("gradient_mask", "all False", rule, "leave it out, or give models without gradient")
    return mask


def _around(mask: NDArray[np.bool_], grid: Domain, window: Box, around: int) -> Box:
    """The smallest box with the mask's cells; at the model's edges with the layers' cells, which are copies of these."""
    first, stop = [], []
    for position, axis in enumerate(grid.axes):
        other = tuple(k for k in range(mask.ndim) if k != position)
        cells = np.flatnonzero(mask.any(other))
        low, high = max(0, cells[0] - around), min(axis.cells, cells[-1] + 1 + around)
        first.append(window.first[position] if low == 0 else axis.origin + int(low))
        stop.append(window.stop[position] if high == axis.cells else axis.origin + int(high))
    return Box(tuple(first), tuple(stop))


def _schedule(run: Run, options: Options) -> Schedule:
    segments, states = options.checkpoint_segments, options.checkpoint_states
    if segments == "auto":
        segments = fewest(run)
    elif segments is None:
        segments = 1 if states is None else min(run.steps, segments_for(states))
    assert isinstance(segments, int)
    return uniform(run.steps, segments) if states is None else binomial(run.steps, segments, states)


def fewest(run: Run) -> int:
    """The number of segments with which history and states take the fewest bytes."""
    slot = coded_bytes(run.storage.compression, run.setup.channels * run.shots * run.box.cells, run.real)
    return fewest_bytes(run.steps, slot / run.stride, state_bytes(run))


def masked(model: torch.Tensor, mask: NDArray[np.bool_] | None) -> torch.Tensor:
    """The model, whose gradient stays in the mask."""
    if mask is None or not model.requires_grad:
        return model
    return torch.where(torch.as_tensor(mask, device=model.device), model, model.detach())


def check_wanted(options: Options, wanted: bool) -> None:
    """A gradient that needs a history is not asked for where there is none."""
    if wanted and options.storage_mode == "none":
        remedy = 'call model.detach() or torch.no_grad(), or choose "device", "cpu" or "disk"'
        raise InvalidValueError("storage_mode", "none", "keeps no history, but a model requires a gradient", remedy)
