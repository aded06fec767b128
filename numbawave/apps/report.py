"""What an inversion achieved: errors of model and data, a table, result.npz and result.png."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .atomic_file import write_atomically
from .checkpoint_file import State
from .descent import Band
from .observed_data import RecordAll
from .problem import Problem

EDGE = 0.1


@dataclass(frozen=True)
class Summary:
    """An inversion's result in numbers.

    Attributes
    ----------
    model_error : (float, float) or None
        Relative root mean square error of start and result inside the illuminated part; None without a true
        model.
    data_error : (float, float)
        Relative root mean square difference from the observed records, in the last stage's band, of start and
        result.
    corners : tuple of float
        Hz, of each stage.
    losses : tuple of tuple of float
        The misfit before each iteration, by stage.
    seconds : float
        Time in iterations, over all runs of the job.
    folder : str
        Where the files are.
    """

    model_error: tuple[float, float] | None
    data_error: tuple[float, float]
    corners: tuple[float, ...]
    losses: tuple[tuple[float, ...], ...]
    seconds: float
    folder: str

    def table(self) -> str:
        """The summary as lines of text."""
        lines = [f"{'':26}{'start':>11}{'result':>11}{'change':>9}"]
        if self.model_error:
            lines.append(_row("model error", *self.model_error, percent=True))
        lines.append(_row("data error", *self.data_error, percent=True))
        for number, (corner, losses) in enumerate(zip(self.corners, self.losses, strict=True), 1):
            lines.append(_row(f"misfit, stage {number}, {corner:g} Hz", losses[0], losses[-1], percent=False))
        n_iterations = sum(len(losses) for losses in self.losses)
        lines.append(f"{n_iterations} iterations in {self.seconds:.1f} s; files in {self.folder}")
        if self.model_error:
            lines.append(
                "model error: root mean square of the difference over that of the true model, below\n"
                f"the water, without the outer {EDGE:.0%} at each side and the lowest {EDGE:.0%}, "
                "where few waves pass"
            )
        return "\n".join(lines)


def _row(name: str, start: float, result: float, percent: bool) -> str:
    shown = [f"{value:11.2%}" if percent else f"{value:11.3e}" for value in (start, result)]
    change = (result - start) / start if start else 0.0
    return f"{name:26}{shown[0]}{shown[1]}{change:+9.1%}"


def illuminated(water: Tensor) -> Tensor:
    """The part of a model in which its error is measured.

    Below the water, above the lowest tenth, and without a tenth of the length at each end of the horizontal
    axes: few reflected waves pass through what is left out, so no method could recover it.

    Parameters
    ----------
    water : Tensor [*grid] of bool

    Returns
    -------
    Tensor [*grid] of bool
    """
    inside = ~water
    for axis, n in enumerate(water.shape):
        margin = round(EDGE * n)
        position = torch.arange(n).reshape(-1, *[1] * (water.ndim - 1 - axis))
        inside = inside & (position < n - margin) & (position >= (margin if axis else 0))
    return inside


def relative_error(found: Tensor, true: Tensor) -> float:
    """Root mean square of the difference over that of the true values.

    Parameters
    ----------
    found, true : Tensor
        Of one shape.

    Returns
    -------
    float
        Summed in float64.
    """
    difference = (found.to(torch.float64) - true.to(torch.float64)).norm()
    return float(difference / true.to(torch.float64).norm().clamp_min(torch.finfo(torch.float64).tiny))


def conclude(problem: Problem, band: Band, state: State, folder: Path, record_all: RecordAll) -> Summary:
    """Measure the result and write result.npz and result.png.

    The .npz holds no times, so the same job gives the same file byte for byte.

    Parameters
    ----------
    problem : Problem
    band : Band
        The last stage's.
    state : State
        After the last iteration.
    folder : Path
    record_all : callable
        Takes a model and a wavelet, and gives the records of all shots.

    Returns
    -------
    Summary

    Raises
    ------
    StorageError
        If a file cannot be written.
    """
    from .plots import draw_result

    records = [record_all(model, band.wavelet) * band.fade for model in (problem.start, state.model)]
    data_error = tuple(relative_error(found, band.observed) for found in records)
    model_error = None
    if problem.true is not None:
        inside = illuminated(problem.water)
        errors = [relative_error(model[inside], problem.true[inside]) for model in (problem.start, state.model)]
        model_error = (errors[0], errors[1])
    summary = Summary(
        model_error,
        (data_error[0], data_error[1]),
        tuple(corner for corner, _ in problem.job.stages),
        tuple(tuple(losses) for losses in state.losses),
        state.seconds,
        str(folder),
    )
    middle = len(problem.shots) // 2
    line = _line_through(problem, middle)
    arrays = _arrays(problem, state, summary, band.observed[middle, line], records[1][middle, line])
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    write_atomically(folder / "result.npz", stream.getvalue())
    write_atomically(folder / "result.png", draw_result(arrays))
    return summary


def _line_through(problem: Problem, shot: int) -> Tensor:
    """The receivers that a gather shows: all in 2-D, in 3-D those of the line along x nearest the shot."""
    if problem.start.ndim == 2:
        return torch.arange(len(problem.receivers))
    y = problem.receivers[:, 1]
    nearest = y[(y - problem.shots[shot, 1]).abs().argmin()]
    return torch.nonzero(y == nearest)[:, 0]


def _arrays(
    problem: Problem, state: State, summary: Summary, observed: Tensor, predicted: Tensor
) -> "dict[str, np.ndarray]":
    """The contents of result.npz; gathers [receiver, time] of the middle shot in the last band."""
    arrays = {
        "start": problem.start.numpy(),
        "result": state.model.numpy(),
        "water": problem.water.numpy(),
        "grid_spacing": np.array(problem.spacing),
        "dt": np.array(problem.dt),
        "shots": problem.shots.numpy(),
        "receivers": problem.receivers.numpy(),
        "losses": np.array([loss for losses in summary.losses for loss in losses]),
        "iterations": np.array([len(losses) for losses in summary.losses]),
        "corners": np.array(summary.corners),
        "data_error": np.array(summary.data_error),
        "observed_gather": observed.numpy(),
        "predicted_gather": predicted.numpy(),
    }
    if problem.true is not None and summary.model_error:
        arrays |= {"true": problem.true.numpy(), "model_error": np.array(summary.model_error)}
    return arrays
