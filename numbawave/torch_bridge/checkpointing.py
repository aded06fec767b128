"""Runs in segments of the time axis, for those who want to look in between: ``run_segments``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from numbawave.checkpoint import bounds
from numbawave.errors import InvalidTypeError, InvalidValueError
from numbawave.torch_bridge.options import Options
from numbawave.torch_bridge.result import PropagatorOutput
from numbawave.torch_bridge.segments import Call, Callback, Segments, SegmentsInfo, whole_number

__all__ = ["SegmentsInfo", "run_segments"]


def run_segments(
    propagator: Any,
    *models: Any,
    dt: float,
    grid_spacing: Any = None,
    source_amplitudes: Any = None,
    n_segments: int | None = None,
    lengths: Sequence[int] | None = None,
    checkpoint: bool = False,
    callback: Callback | None = None,
    **options: Any,
) -> PropagatorOutput:
    """Run a propagator in segments of the time axis, each of which goes on from the state of the one before.

    Records and the final state equal those of the unsplit run bit for bit, with internal sub-steps too: amplitudes and
    records are resampled as a whole. Gradients of the models, the amplitudes and the initial state equal the unsplit
    run's to rounding, for they are sums over segments. The layers' frequency and the largest speed are inferred once,
    from the whole call.

    Not for memory alone: ``checkpoint_segments`` of the propagator is the shorthand that does the same inside one
    autograd Function, with the history of one segment alive, gradients equal bit for bit, and states that go where
    ``storage_mode`` says.

    Parameters
    ----------
    propagator : callable, str or torch.nn.Module
        ``numbawave.scalar`` or its like, an equation's name, or a module such as ``numbawave.Scalar``, which holds the
        models and the grid spacing itself.
    *models : tensor [*grid] or [shot, *grid]
        As the propagator takes them; by name they may stand among the options.
    dt : float
        Time step of amplitudes and records.
    grid_spacing : float or sequence of float
        Cell size, one or an axis; only a module holds its own.
    source_amplitudes : tensor [shot, source, time], optional
        Of the whole run. Without it, ``nt`` says how long the run is.
    n_segments : int, optional
        The number of segments, of nearly equal lengths.
    lengths : sequence of int, optional
        The time steps in each segment; their sum is the number of time steps. This or ``n_segments`` is given.
    checkpoint : bool
        Wrap each segment in ``torch.utils.checkpoint.checkpoint(use_reentrant=False)``: its history is dropped, and
        made again on the way back. History must then be torch's to drop: ``storage_mode="device"``, uncompressed.
    callback : callable, optional
        ``callback(segment, output)`` is called after each segment with its number and what it gave. With sub-steps the
        segment's own records are at the internal step, as its ``info.dt`` says. What it returns is ignored, what it
        raises passes through. Detach what you keep of an output, lest its history stays alive.
    **options
        Options of every propagator, for all segments.

    Returns
    -------
    PropagatorOutput
        As of the unsplit run; ``info`` is a ``SegmentsInfo``, with the lengths.

    Raises
    ------
    NumbawaveError
        One of its kinds, naming the argument, its value, the rule and the remedy, before any work is done.
    """
    given = {name: value for name, value in [("source_amplitudes", source_amplitudes)] if value is not None}
    segments = Segments.of(Call.of(propagator, models, grid_spacing, options | given), dt)
    found = _lengths(segments, n_segments, lengths)
    if checkpoint:
        _check_checkpoint(segments.options)
    if callback is not None and not callable(callback):
        rule = "is called as callback(segment, output)"
        raise InvalidTypeError("callback", type(callback).__name__, rule, "give a function, or leave it out")
    segments.check(min(found))
    return segments.run(found, checkpoint, callback)


def _lengths(segments: Segments, n_segments: int | None, lengths: Sequence[int] | None) -> list[int]:
    nt, interval = segments.prepared.nt, segments.interval
    if (n_segments is None) == (lengths is None):
        value = "None" if lengths is None else n_segments
        rule = "either n_segments or lengths says how to split"
        raise InvalidValueError("n_segments", value, rule, "give one of them")
    if lengths is not None:
        return _checked(lengths, nt, interval)
    count = _whole("n_segments", n_segments, "the number of segments")
    # Starts are multiples of the interval, so that the same steps enter the model's gradient as do unsplit.
    groups = -(-nt // interval)
    if count > groups:
        rule = f"must be from 1 to {groups}" + (f", for {nt} steps in groups of {interval}" if interval > 1 else "")
        raise InvalidValueError("n_segments", count, rule, "give fewer segments")
    return [last - first for first, last in pairwise(min(nt, interval * cut) for cut in bounds(groups, count))]


def _checked(lengths: Sequence[int], nt: int, interval: int) -> list[int]:
    if isinstance(lengths, str) or not hasattr(lengths, "__iter__"):
        rule = "is a sequence of whole numbers"
        raise InvalidTypeError("lengths", lengths, rule, "give a number of steps for each segment")
    found = [_whole("lengths", length, "the number of steps of each segment") for length in lengths]
    if sum(found) != nt:
        rule = f"add up to {sum(found)}, but the run has {nt} steps"
        raise InvalidValueError("lengths", found, rule, "change one, or give n_segments")
    late = [start for start in [*accumulate(found)][:-1] if start % interval]
    if late:
        rule = f"a segment starts at step {late[0]}, which is no multiple of the model_gradient_sampling_interval"
        remedy = f"give multiples of {interval}, or n_segments"
        raise InvalidValueError("lengths", found, rule, remedy)
    return found


def _whole(argument: str, value: Any, meaning: str) -> int:
    number = whole_number(value)
    if number < 1:
        raise InvalidValueError(argument, value, "is of whole numbers, 1 or more", f"give {meaning}")
    return number


def _check_checkpoint(options: Options) -> None:
    """Torch frees only what torch keeps."""
    elsewhere = {
        "storage_mode": options.storage_mode not in ("device", "none"),
        "storage_compression": options.storage_compression not in (False, None),
        "checkpoint_segments": options.checkpoint_segments not in (None, 1),
        "checkpoint_states": options.checkpoint_states is not None,
    }
    for name, kept in elsewhere.items():
        if kept:
            rule = "with checkpoint=True history is torch's to drop, in the device's memory as it is"
            remedy = f"leave {name} out, or checkpoint: checkpoint_segments goes with storage"
            raise InvalidValueError(name, getattr(options, name), rule, remedy)
