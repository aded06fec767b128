"""The options that every propagator shares, declared and explained once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from numbawave.errors import InvalidTypeError, InvalidValueError
from numbawave.planning.budget import Budget
from numbawave.survey.resampling import check_parts
from numbawave.survey.time_step import DEFAULT_COURANT_NUMBER

REGIONS = ("full", "interior", "reconstruct")
"""What ``history`` may be."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Keyword arguments of every propagator.

    Attributes
    ----------
    source_amplitudes : tensor [shot, source, time], optional
        What each source injects at each of the caller's time steps; the model's dtype and device. Differentiable.
    source_locations : int64 tensor [shot, source, ndim], optional
        Cells of the sources, axes slowest first. Several may share a cell.
    receiver_locations : int64 tensor [shot, receiver, ndim], optional
        Cells of the receivers. Several may share a cell, also with sources.
    wavefield_0, wavefield_m1 : tensor [shot, *grid], optional
        Wavefield at the first step and one internal step before it, on the model's grid (then zero in the layers) or on
        the grid with its layers. Zero unless given. Differentiable.
    initial_state : PropagatorOutput or mapping, optional
        What an earlier call returned, to go on from there: with one internal step a step, a run split anywhere equals
        the unsplit run bit for bit. ``pml_freq`` and ``max_vel`` are taken over from it unless given.
    accuracy : {2, 4, 6, 8}
        Order of the spatial derivatives.
    pml_width : int or sequence of int
        Cells of the absorbing layer, one width or one a face (low and high of each axis). At width 0 the wavefield is
        zero beyond the face, which reflects like a free surface.
    pml_freq : float, optional
        Frequency that the layers absorb best; the peak of the sources' spectrum unless given.
    max_vel : float, optional
        The largest speed, for the internal time step and the layers; the model's maximum unless given. Give the upper
        bound of an inversion, so that the step and the layers stay the same while the model changes.
    courant_number : float
        The internal step keeps ``|dt| max_vel sqrt(sum 1 / spacing^2)`` below this.
    nt : int, optional
        Number of time steps, where no source amplitudes say it.
    model_gradient_sampling_interval : int or "internal"
        The caller's steps between two that enter the model's gradient, which is weighted for it. Larger takes that much
        less memory. With internal sub-steps, 1 takes one a step; "internal" takes all: the exact discrete gradient.
    history : {"full", "interior", "reconstruct"}
        The cells of which the past is kept for the model's gradient: all, which is exact; or the model's own, which takes
        less memory: edge cells then lack what the layers, which continue them, add to their gradient; or only the
        wavefield around the model's inside, from which the past of all is made again by undoing the steps: to rounding the
        same as "interior". Of that around it history is kept, too, where a lossy coding makes its wavefield inexact.
    gradient_mask : bool array [*grid], optional
        Cells whose gradient is wanted; it is zero elsewhere. History is kept of the smallest box around them.
    checkpoint_segments : int or "auto", optional
        Keep the history of one segment of the time axis at a time, and run the others again from states kept at their
        starts: the same gradient, bit for bit. "auto" takes the number with the fewest bytes.
    checkpoint_states : int, optional
        Keep at most so many of these states, and repeat the fewest steps that this allows.
    storage_mode : {"device", "cpu", "disk", "none"}
        Where history and states are kept: with the model, in the host's memory, in a file, or not at all (then no model
        may require a gradient).
    storage_path : str, optional
        Folder of the file, which has no name and vanishes with its user; the system's folder for such unless given.
    storage_compression : bool, "lossless", "bf16", "int8" or Compression
        How history is coded: not at all, by the usual lossy code (True: 8 bits), or as named. On the host the names have
        LZ4 behind them, which takes less memory and more time.
    shot_batch : int, optional
        Run so many shots at a time, one batch after the other, so that history and wavefields are those of one batch. A
        call with a model's gradient runs each batch again on the way back. Records are the same bit for bit, gradients
        to rounding: they are summed in another order.
    memory : "auto" or Budget, optional
        Let the levers that are left as they are (``history``, ``checkpoint_segments`` and ``checkpoint_states``,
        ``storage_mode``, ``storage_compression``, ``shot_batch``) be chosen: none of them where the call fits, else those
        that make the fastest call that fits into the budget; "auto" is what is free now. ``out.info.chosen`` says which.
    freq_taper_frac, time_pad_frac, time_taper : float, float, bool
        Taper of the top of the spectrum, zero padding and taper in time, where records are resampled.
    check_output_finite : bool
        Raise where a result holds NaN or infinity.
    progress : bool
        Show a progress bar where standard error is a terminal.
    backend : {"auto", "cpu", "cuda", "reference"}
        What runs the kernels; "auto" takes the one of the model's device.
    """

    source_amplitudes: Any = None
    source_locations: Any = None
    receiver_locations: Any = None
    wavefield_0: Any = None
    wavefield_m1: Any = None
    initial_state: Any = None
    accuracy: int = 4
    pml_width: int | Sequence[int] = 20
    pml_freq: float | None = None
    max_vel: float | None = None
    courant_number: float = DEFAULT_COURANT_NUMBER
    nt: int | None = None
    model_gradient_sampling_interval: int | str = 1
    history: str = "full"
    gradient_mask: Any = None
    checkpoint_segments: int | str | None = None
    checkpoint_states: int | None = None
    storage_mode: str = "device"
    storage_path: str | None = None
    storage_compression: Any = False
    shot_batch: int | None = None
    memory: Any = None
    freq_taper_frac: float = 0.0
    time_pad_frac: float = 0.0
    time_taper: bool = False
    check_output_finite: bool = True
    progress: bool = False
    backend: str = "auto"

    @property
    def resampling(self) -> dict[str, Any]:
        """The keyword arguments of the resampling functions."""
        names = ("freq_taper_frac", "time_pad_frac", "time_taper")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options from keyword arguments.

        Parameters
        ----------
        given : mapping

        Returns
        -------
        Options

        Raises
        ------
        InvalidTypeError
            If an argument has an unknown name.
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                remedy = f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}"
                raise InvalidTypeError(name, given[name], "a propagator has no such argument", remedy.rstrip("?"))
        return cls(**given)

    def __post_init__(self) -> None:
        if (self.source_amplitudes is None) != (self.source_locations is None):
            missing = "source_amplitudes" if self.source_amplitudes is None else "source_locations"
            raise InvalidValueError(missing, "None", "amplitudes and locations of sources come together", f"give {missing}")
        for name in ("pml_freq", "max_vel"):
            value = getattr(self, name)
            if value is not None and not 0 < float(value) < float("inf"):
                raise InvalidValueError(name, value, "must be positive and finite", "leave it out to have it inferred")
        interval = self.model_gradient_sampling_interval
        if interval != "internal" and (isinstance(interval, bool) or not isinstance(interval, int) or interval < 1):
            raise InvalidValueError("model_gradient_sampling_interval", interval, "is a whole number of steps, 1 or more",
                                    'give 1, or "internal" for every internal step')  # fmt: skip
        check_parts(self.freq_taper_frac, self.time_pad_frac)
        self._check_levers()
        if self.nt is not None and (isinstance(self.nt, bool) or not isinstance(self.nt, int) or self.nt < 1):
            raise InvalidValueError("nt", self.nt, "is a whole number of steps, 1 or more", "give the number of time steps")

    def _check_levers(self) -> None:
        if self.memory is not None:
            object.__setattr__(self, "memory", Budget.of(self.memory))
        if self.history not in REGIONS:
            raise InvalidValueError("history", self.history, f"is one of {', '.join(REGIONS)}", "choose one of these")
        least = {"checkpoint_segments": 1, "checkpoint_states": 0, "shot_batch": 1}
        for name, low in least.items():
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= low
            if not (value is None or whole or (name == "checkpoint_segments" and value == "auto")):
                rule = f"is a whole number, {low} or more" + (', or "auto"' if name == "checkpoint_segments" else "")
                what = "run all shots together" if name == "shot_batch" else "keep the history of all steps"
                raise InvalidValueError(name, value, rule, f"leave it out to {what}")
