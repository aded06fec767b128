"""A full-waveform inversion described: one frozen value, from a TOML file and command options."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from . import job_values as values


def key(default: Any, reader: values.Reader, about: str) -> Any:
    """Declare a field of a job.

    Parameters
    ----------
    default : object
    reader : callable
        Turns what a file or an option says into the value.
    about : str
        What it means, shown by ``--help``.

    Returns
    -------
    object
        A dataclass field.
    """
    return dataclasses.field(default=default, metadata={"reader": reader, "about": about})


@dataclass(frozen=True)
class Job:
    """Everything that decides the result of an inversion; the keys of a job file and the command's options.

    Lengths are in metres or cells as stated, times in s, frequencies in Hz, speeds in m/s. Axes go from depth
    to the fastest: (z, x) in 2-D, (z, y, x) in 3-D. Paths are relative to the folder the command runs in.
    """

    model: str = key("layered", values.text, "true model: layered (built in), a .npy or SEG-Y file, or none")
    shape: tuple[int, ...] = key((), values.integers, "cells z,x or z,y,x; () is the file's, or 70,200 for layered")
    grid_spacing: tuple[float, ...] = key((25.0,), values.numbers, "cell size in m, one for all axes or one per axis")
    seed: int = key(4, values.integer, "seed of the built-in model and of the choice of shots")
    start: str = key("smooth", values.text, "start model: smooth (the true one, blurred) or a file")
    start_smoothing: float = key(250.0, values.number, "standard deviation of that blur, m")
    observed: str = key("synthetic", values.text, "synthetic, or a .npy file of records [shot, receiver, time]")
    wavelet: str = key("ricker", values.text, "ricker, or a .npy file of the source [time]")
    peak_frequency: float = key(7.0, values.number, "peak frequency of the Ricker wavelet, Hz")
    dt: float = key(0.0, values.number, "time step, s; 0 is the longest that needs no sub-steps at vmax")
    nt: int = key(0, values.integer, "time samples; 0 is enough to go to the bottom and to the far end")
    shots: tuple[int, ...] = key((14,), values.integers, "number of shots: along x, or along y,x in 3-D")
    receivers: tuple[int, ...] = key((), values.integers, "number of receivers likewise; () is one every second cell")
    shot_depth: int = key(2, values.integer, "depth of the shots, cells")
    receiver_depth: int = key(2, values.integer, "depth of the receivers, cells")
    stages: tuple[tuple[float, int], ...] = key(
        ((3.0, 8), (5.0, 12), (9.0, 18)), values.stages, "corner frequency:iterations of each stage"
    )
    batch_shots: int = key(7, values.integer, "shots propagated together: more is faster and takes more memory")
    shots_per_iteration: int = key(0, values.integer, "shots drawn at random for each iteration; 0 is all of them")
    misfit: str = key("l2", values.text, "envelope, huber, l1, l2 or normalised")
    optimiser: str = key("lbfgs", values.text, "adam, lbfgs or sgd")
    learning_rate: float = key(30.0, values.number, "size of the first step of a stage, m/s")
    damping: float = key(0.1, values.number, "adam: gradients far below this part of the stage's first one fade out")
    gradient_smoothing: float = key(1.0, values.number, "standard deviation of the gradient's blur, cells; 0 is none")
    depth_power: float = key(0.0, values.number, "the gradient is multiplied by depth to this power (sgd, lbfgs)")
    water: int = key(-1, values.integer, "depth of the water, cells; -1 finds it by its speed, 0 is none")
    water_speed: float = key(1500.0, values.number, "speed of water, m/s")
    vmin: float = key(1400.0, values.number, "lower bound of the result, m/s")
    vmax: float = key(4800.0, values.number, "upper bound of the result, m/s; it also sets the time step")
    accuracy: int = key(4, values.integer, "order of the finite differences: 2, 4, 6 or 8")
    pml_width: int = key(20, values.integer, "width of the absorbing layer, cells")
    dtype: str = key("float32", values.text, "float32 or float64")
    device: str = key(
        "auto", values.text, "auto (a GPU where there is one), cpu, cuda or cuda:1; torchrun gives each rank its own"
    )
    history: str = key("full", values.text, "cells whose past is kept: full, interior or reconstruct")
    checkpoint_segments: int | str = key(0, values.count, "segments whose past is kept one at a time; 0 is one, or auto")
    checkpoint_states: int = key(0, values.integer, "most wavefields kept at their starts; 0 is all")
    storage_mode: str = key("device", values.text, "where the past is kept: device, cpu or disk")
    storage_compression: str = key("none", values.text, "how the past is coded: none, lossy, lossless, bf16 or int8")
    memory: str = key(
        "", values.text, "auto, or bytes of the device such as 4 GB, for which segments, states and place are chosen"
    )
    output: str = key("numbawave-fwi", values.text, "folder for the checkpoint, the data, result.npz and result.png")


EXACT_LEVERS = ("checkpoint_segments", "checkpoint_states", "storage_mode", "memory")
"""Keys that decide memory and time, and no bit of the result."""

NO_RESULT = ("output", "device", *EXACT_LEVERS)
"""Keys that may change when a job is resumed: none decides more of the result than its rounding."""

DEMO: dict[str, Any] = {"output": "numbawave-demo"}
"""What ``numbawave demo`` runs: the defaults, which are the built-in 2-D model."""

QUICK: dict[str, Any] = {
    "shape": [24, 32],
    "shots": 3,
    "batch_shots": 3,
    "nt": 260,
    "peak_frequency": 8.0,
    "stages": [[6.0, 2], [10.0, 2]],
    "start_smoothing": 100.0,
    "pml_width": 8,
}
"""What ``--quick`` changes: small enough to check that everything runs, too small to see geology."""
