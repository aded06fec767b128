"""What a call of given sizes would take, without its arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import torch

from numbawave.backends.cuda_layout import CudaLayout
from numbawave.engine.buffers import declare
from numbawave.equations import Equation
from numbawave.errors import InvalidTypeError, InvalidValueError
from numbawave.grid.axes import axis_names
from numbawave.planning.ledger import PLACES, Ledger
from numbawave.planning.memory import Memory, table
from numbawave.survey.time_step import DEFAULT_COURANT_NUMBER
from numbawave.torch_bridge.arrays import DTYPES
from numbawave.torch_bridge.frontend import Prepared, prepare
from numbawave.torch_bridge.options import Options
from numbawave.torch_bridge.segments import equation_of, whole_number
from numbawave.torch_bridge.space import DeviceTensors

HISTORY = ("history", "ring", "undo.")
STEPS = ("forward.", "again.", "back.")
ENDS = ("record_", "residual_", "gradient_", "copies_", "profiles")
"""How names of buffers begin, and go on where they are no fields."""


@dataclass(frozen=True)
class MemoryEstimate:
    """The most that a call and its backward pass hold at once, and its parts, in bytes.

    Attributes
    ----------
    device_bytes, host_bytes, disk_bytes : int
        Peaks by place; pinned memory counts as the host's. With ``device="cpu"`` all but files is the host's.
    auxiliary_state_bytes : int
        Of it the most that wavefields and the layers' memory hold at once, forward and back.
    backward_storage_bytes : int
        What history takes where steps write it, where it is coded and where it is kept; all places.
    checkpoint_bytes : int
        What the states between segments take, all ``checkpoint_states`` of them.
    checkpoint_states : int
    stored_bytes_bound : int
        Of the backward storage what is written to the host's memory or to a file, at most: as if the codec there saved
        nothing. 0 where history stays with the model.
    stored_depends_on_data : bool
        Whether a codec of the host makes that smaller, by how much is not known before the run.
    buffers : Ledger
        What all are sums of; ``print`` shows a table. Its place "device" is where the model lies, also on a CPU.
    """

    device_bytes: int
    host_bytes: int
    disk_bytes: int
    auxiliary_state_bytes: int
    backward_storage_bytes: int
    checkpoint_bytes: int
    checkpoint_states: int
    stored_bytes_bound: int
    stored_depends_on_data: bool
    buffers: Ledger = field(repr=False, compare=False)

    @classmethod
    def of(cls, prepared: Prepared) -> MemoryEstimate:
        """The peaks of a laid-out call, and their parts."""
        run = prepared.run
        buffers = declare(run, prepared.wanted)
        memory = Memory.of(buffers, run.space.device is not None)
        states, coding = _part(buffers, lambda name: name == "states"), run.storage.compression
        bound = _most(_part(buffers, lambda name: name.endswith(".shelf")))
        return cls(memory.device_bytes, memory.host_bytes, memory.disk_bytes, _most(_part(buffers, _is_field)),
                   _most(_part(buffers, lambda name: name.startswith(HISTORY))), _most(states),
                   sum(buffer.copies for buffer in states), bound,
                   bool(bound and coding and coding.codec), buffers)  # fmt: skip

    def summary(self) -> str:
        """The peaks, the parts, and the table of buffers.

        Returns
        -------
        str
        """
        shown = [(f"{place}, at most", getattr(self, f"{place}_bytes")) for place in ("device", "host", "disk")]
        shown += [("wavefields and the layers' memory", self.auxiliary_state_bytes)]
        shown += [("backward storage", self.backward_storage_bytes)]
        shown += [(f"{self.checkpoint_states} states between segments", self.checkpoint_bytes)]
        saves = "; its codec may save some of that, by the data" if self.stored_depends_on_data else ""
        lines = [f"{name}: {size / 1e6:.3f} MB" for name, size in shown if size]
        if self.stored_bytes_bound:
            lines += [f"history that is moved away: {self.stored_bytes_bound / 1e6:.3f} MB at most{saves}"]
        return "\n".join([*lines, "", *table(self.buffers, self.device_bytes)])

    def __str__(self) -> str:
        return self.summary()


def estimate_memory(
    propagator: Any,
    model_shape: Sequence[int],
    nt: int,
    n_shots: int = 1,
    *,
    n_sources_per_shot: int = 1,
    n_receivers_per_shot: int = 1,
    dtype: Any = "float32",
    device: str = "cpu",
    model_gradient: bool = True,
    model_per_shot: bool = False,
    step_ratio: int = 1,
    n_segments: int | str | None = None,
    checkpoint_states: int | None = None,
    accuracy: int = Options.accuracy,
    pml_width: int | Sequence[int] = Options.pml_width,
    history: str = Options.history,
    storage_mode: str = Options.storage_mode,
    storage_compression: Any = Options.storage_compression,
    model_gradient_sampling_interval: int | str = Options.model_gradient_sampling_interval,
) -> MemoryEstimate:
    """What a call of given sizes would take, without its arrays, and for a GPU without the GPU.

    The call is laid out and its buffers are declared by the code that runs it, as in ``numbawave.plan``, which takes a
    real call. Nothing is propagated, compiled or written; what this takes itself grows with points and steps, not cells.

    Not counted is what is no buffer of the run: compiled code, the caller's models, resampled records, what the libraries
    hold themselves. ``gradient_mask`` is for ``numbawave.plan``, which has the mask.

    Parameters
    ----------
    propagator : callable, str or torch.nn.Module
        ``numbawave.scalar`` or its like, an equation's name, or a module; what options a module holds is not read.
    model_shape : sequence of int
        Cells along each axis, slowest first, without the layers.
    nt : int
        The caller's time steps.
    n_shots, n_sources_per_shot, n_receivers_per_shot : int
        With 0 sources the call is one with ``nt`` alone.
    dtype : {"float32", "float64"} or torch.dtype
    device : {"cpu", "cuda"}
        Where the models lie.
    model_gradient : bool
        Whether a model requires a gradient, so that history is kept; whatever torch's gradient mode is now.
    model_per_shot : bool
        Whether models are ``[shot, *grid]``.
    step_ratio : int
        Internal steps in one of the caller's, as ``out.info.step_ratio`` has it.
    n_segments : int or "auto", optional
        The propagators' ``checkpoint_segments``; an error names it so.
    checkpoint_states, accuracy, pml_width, history, storage_mode, storage_compression, model_gradient_sampling_interval
        As the propagators take them; see ``numbawave.scalar``.

    Returns
    -------
    MemoryEstimate

    Raises
    ------
    InvalidValueError, InvalidTypeError
        For a size that is none, and as the call does: naming the argument, its value, the rule and the remedy.
    """
    equation, real = equation_of(propagator), _real(dtype)
    if device not in ("cpu", "cuda"):
        raise InvalidValueError("device", device, "is one of cpu, cuda", "choose one of these")
    shape, ratio = _shape(model_shape), _count("step_ratio", step_ratio)
    shots, sources = _count("n_shots", n_shots), _count("n_sources_per_shot", n_sources_per_shot, 0)
    receivers = _count("n_receivers_per_shot", n_receivers_per_shot, 0)
    options = Options(
        checkpoint_segments=n_segments,
        checkpoint_states=checkpoint_states,
        accuracy=accuracy,
        pml_width=pml_width,
        history=history,
        storage_mode=storage_mode,
        storage_compression=storage_compression,
        model_gradient_sampling_interval=model_gradient_sampling_interval,
        nt=nt,
        pml_freq=1.0,
        max_vel=1.0,
    )
    steps = _count("nt", nt)
    with torch.inference_mode(False), torch.set_grad_enabled(bool(model_gradient)):
        options = replace(options, **_survey(len(shape), shots, steps, sources, receivers, real))
        lead = (shots,) if model_per_shot else ()
        models = _models(equation, (*lead, *shape), real, bool(model_gradient))
        # Half a step away from where the number of sub-steps changes, rounding does not matter.
        dt = (ratio - 0.5) * DEFAULT_COURANT_NUMBER / sqrt(len(shape))
        there = (CudaLayout(), DeviceTensors(real, 0)) if device == "cuda" else None
        return MemoryEstimate.of(prepare(equation, models, 1.0, dt, options, there))


def _models(equation: Equation, shape: tuple[int, ...], real: torch.dtype, wanted: bool) -> dict[str, torch.Tensor]:
    """Models of one cell in memory."""
    return {model.name: torch.ones((), dtype=real, requires_grad=wanted).expand(shape) for model in equation.models}


def _survey(ndim: int, shots: int, nt: int, sources: int, receivers: int, real: torch.dtype) -> dict[str, Any]:
    """Locations, and amplitudes of one sample in memory."""
    first = torch.zeros((), dtype=torch.int64)
    found = {"receiver_locations": first.expand(shots, receivers, ndim)}
    if sources:
        found["source_locations"] = first.expand(shots, sources, ndim)
        found["source_amplitudes"] = torch.zeros((), dtype=real).expand(shots, sources, nt)
    return found


def _real(dtype: Any) -> torch.dtype:
    names = {str(each): kind for kind, each in DTYPES.items()} | {str(kind): kind for kind in DTYPES}
    if str(dtype) not in names:
        raise InvalidTypeError("dtype", dtype, "is float32 or float64", 'give "float32"')
    return names[str(dtype)]


def _shape(given: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(given)
    except TypeError as error:
        raise InvalidTypeError("model_shape", given, "holds the cells along each axis", "give (nz, nx)") from error
    axis_names(len(sizes))
    return tuple(_count("model_shape", size) for size in sizes)


def _count(argument: str, value: Any, least: int = 1) -> int:
    found = whole_number(value)
    if found < least or not (found or str(value) == "0"):
        raise InvalidValueError(argument, value, f"is a whole number, {least} or more", "give how many there are")
    return found


def _part(buffers: Ledger, wanted: Callable[[str], bool]) -> Ledger:
    return Ledger(buffer for buffer in buffers if wanted(buffer.name))


def _most(part: Ledger) -> int:
    return part.peak(*PLACES)[0]


def _is_field(name: str) -> bool:
    return name.startswith(STEPS) and not name.partition(".")[2].startswith(ENDS)
