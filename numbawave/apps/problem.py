"""The arrays and numbers that a job stands for, loaded and checked before any work is done."""

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..planning.budget import Budget
from ..torch_bridge.propagators import scalar
from ..torch_bridge.wavelets import ricker
from .acquisition import spread
from .device import own_device
from .job import Job
from .models import layered_model
from .smoothing import smooth, water_layer
from .time_axis import enough_samples, longest_step, peak_time
from .velocity_file import load_array, load_velocity


@dataclass(frozen=True)
class Problem:
    """A job with its arrays; tensors have the job's dtype and are on the CPU, but waves run on the job's device.

    Attributes
    ----------
    job : Job
    spacing : tuple of float
        m, one for each axis.
    dt : float
        s.
    true : Tensor [*grid] or None
        m/s; None when only data are known.
    start : Tensor [*grid]
        m/s.
    water : Tensor [*grid] of bool
        Cells that stay as they are.
    wavelet : Tensor [time]
    shots, receivers : Tensor [point, ndim] of int64
        Cells.
    observed : Tensor [shot, receiver, time] or None
        The data file's records; None when they are to be computed.
    device : torch.device
        Where waves run; under ``torchrun`` this rank's own.
    """

    job: Job
    spacing: tuple[float, ...]
    dt: float
    true: Tensor | None
    start: Tensor
    water: Tensor
    wavelet: Tensor
    shots: Tensor
    receivers: Tensor
    observed: Tensor | None
    device: torch.device

    def record(self, velocity: Tensor, chosen: Tensor, wavelet: Tensor, stride: int = 1) -> Tensor:
        """Propagate some of the shots, together.

        Parameters
        ----------
        velocity : Tensor [*grid]
            m/s.
        chosen : Tensor [n] of int64
            Indices of shots.
        wavelet : Tensor [time]
        stride : int
            Time steps between samples of the gradient.

        Returns
        -------
        Tensor [n, receiver, time]
            On the device.
        """
        records: Tensor = scalar(**self.call(velocity, chosen, wavelet, stride)).receiver_amplitudes
        return records

    def call(self, velocity: Tensor, chosen: Tensor, wavelet: Tensor, stride: int = 1) -> dict[str, Any]:
        """The arguments by which `record`, with the same parameters, calls ``numbawave.scalar``."""
        n = len(chosen)
        # the bounds and the peak frequency, not each model and band, decide the time step and the absorbing
        # layer: otherwise observed and predicted records would differ by more than the model
        return {
            "v": velocity.to(self.device),
            "grid_spacing": list(self.spacing),
            "dt": self.dt,
            "source_amplitudes": wavelet.expand(n, 1, -1).to(self.device).contiguous(),
            "source_locations": self.shots[chosen][:, None],
            "receiver_locations": self.receivers.expand(n, -1, -1).contiguous(),
            "accuracy": self.job.accuracy,
            "pml_width": self.job.pml_width,
            "pml_freq": self.job.peak_frequency,
            "max_vel": self.job.vmax,
            "model_gradient_sampling_interval": stride,
            **self.levers(n),
        }

    def levers(self, n_shots: int) -> dict[str, Any]:
        """The levers of memory, as a propagator takes them for so many shots."""
        job = self.job
        coding = {"none": False, "lossy": True}.get(job.storage_compression, job.storage_compression)
        counts = {name: getattr(job, name) or None for name in ("checkpoint_segments", "checkpoint_states")}
        given = counts | {"history": job.history, "storage_mode": job.storage_mode, "storage_compression": coding}
        if not job.memory:
            return given
        # With other batches of shots sums would be rounded otherwise, and a resumed job not find the same bits.
        return given | {"memory": job.memory if job.memory == "auto" else Budget(job.memory), "shot_batch": n_shots}

    def batches(self, chosen: Tensor) -> tuple[Tensor, ...]:
        """The chosen shots, in order, in groups that are propagated together."""
        return torch.split(chosen, self.job.batch_shots) if len(chosen) else ()

    @property
    def records_shape(self) -> tuple[int, int, int]:
        """Shots, receivers and time samples."""
        return len(self.shots), len(self.receivers), len(self.wavelet)

    def record_all(self, velocity: Tensor, wavelet: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Records of every shot, or of the chosen ones, without a gradient: [shot, receiver, time], on the CPU."""
        batches = self.batches(torch.arange(len(self.shots)) if chosen is None else chosen)
        with torch.no_grad():
            parts = [self.record(velocity, batch, wavelet).cpu() for batch in batches]
        return torch.cat(parts) if parts else self.wavelet.new_zeros(0, *self.records_shape[1:])

    def digest(self) -> str:
        """A hash of every array that decides the result."""
        total = hashlib.sha256(repr((self.spacing, self.dt)).encode())
        for array in (
            self.true,
            self.start,
            self.water,
            self.wavelet,
            self.shots,
            self.receivers,
            self.observed,
        ):
            total.update(b"none" if array is None else repr(tuple(array.shape)).encode() + array.numpy().tobytes())
        return total.hexdigest()


def load_problem(job: Job) -> Problem:
    """Load and check everything that a job names.

    Parameters
    ----------
    job : Job

    Returns
    -------
    Problem

    Raises
    ------
    StorageError
        If a file cannot be read.
    InvalidTypeError, InvalidValueError
        If a file's content, or its fit with the job, breaks a rule, or the device is not there.
    """
    device = own_device(job.device)
    true = _true_model(job)
    start = _start_model(job, true)
    shape = tuple(start.shape)
    spacing = job.grid_spacing * (start.ndim if len(job.grid_spacing) == 1 else 1)
    if len(spacing) != start.ndim:
        rule = f"the model has {start.ndim} axes"
        raise InvalidValueError("grid_spacing", job.grid_spacing, rule, "give one spacing, or one for each axis")
    water = _water(job, start)
    if job.start == "smooth":
        start = smooth(start, [job.start_smoothing / h for h in spacing], water)
    _check_bounds(job, true, start, water)
    dtype = getattr(torch, job.dtype)
    dt = job.dt or longest_step(job.vmax, spacing)
    shots = spread("shots", job.shots, shape, job.shot_depth)
    receivers = spread("receivers", job.receivers, shape, job.receiver_depth)
    wavelet = _wavelet(job, dt, job.nt or enough_samples(job, start, spacing, dt)).to(dtype)
    observed = None
    if job.observed != "synthetic":
        observed = torch.from_numpy(load_array("observed", job.observed)).to(dtype)
        wanted = (len(shots), len(receivers), len(wavelet))
        if tuple(observed.shape) != wanted:
            rule = f"has the shape {tuple(observed.shape)}, but shots, receivers and nt are {wanted}"
            raise InvalidValueError("observed", job.observed, rule, "correct either")
    true = None if true is None else true.to(dtype)
    return Problem(job, spacing, dt, true, start.to(dtype), water, wavelet, shots, receivers, observed, device)


def _true_model(job: Job) -> Tensor | None:
    if job.model == "none":
        return None
    if job.model == "layered":
        shape = job.shape or (70, 200)
        spacing = job.grid_spacing if len(job.grid_spacing) == len(shape) else job.grid_spacing[:1] * len(shape)
        return torch.from_numpy(layered_model(shape, spacing, job.seed)).to(torch.float64)
    return torch.from_numpy(load_velocity("model", job.model, job.shape))


def _start_model(job: Job, true: Tensor | None) -> Tensor:
    if job.start == "smooth":
        assert true is not None  # check_job saw to it
        return true
    start = torch.from_numpy(load_velocity("start", job.start, job.shape))
    if true is not None and true.shape != start.shape:
        rule = f"has the shape {tuple(start.shape)}, but the model has {tuple(true.shape)}"
        raise InvalidValueError("start", job.start, rule, "give models of one shape")
    return start


def _water(job: Job, start: Tensor) -> Tensor:
    if job.water < 0:
        water = water_layer(start, job.water_speed)
    else:
        water = torch.zeros_like(start, dtype=torch.bool)
        water[: job.water] = True
    if bool(water.all()):
        raise InvalidValueError("water", job.water, "every cell of the start model is water", "give the depth in cells")
    return water


def _check_bounds(job: Job, true: Tensor | None, start: Tensor, water: Tensor) -> None:
    """Nothing is clipped in silence: a model beyond the bounds is refused."""
    for name, model in (("model", true), ("start", start)):
        if model is None:
            continue
        rock = model[~water]
        low, high = float(rock.min()), float(rock.max())
        if low < job.vmin or high > job.vmax:
            rule = f"goes from {low:g} to {high:g} m/s, beyond vmin = {job.vmin:g} or vmax = {job.vmax:g}"
            raise InvalidValueError(name, getattr(job, name), rule, "widen vmin and vmax")


def _wavelet(job: Job, dt: float, nt: int) -> Tensor:
    if job.wavelet == "ricker":
        if nt * dt <= peak_time(job):
            rule = f"the record lasts {nt * dt:.3g} s, but the wavelet peaks at {peak_time(job):.3g} s"
            remedy = f"give well over {math.ceil(peak_time(job) / dt)}, or 0 to have it chosen"
            raise InvalidValueError("nt", nt, rule, remedy)
        return ricker(job.peak_frequency, nt, dt, peak_time(job), dtype=torch.float64)
    wavelet = torch.from_numpy(load_array("wavelet", job.wavelet))
    if wavelet.ndim != 1 or (job.nt and len(wavelet) != job.nt):
        rule = f"has the shape {tuple(wavelet.shape)}, but a wavelet is [time] of nt = {job.nt or 'any'} samples"
        raise InvalidValueError("wavelet", job.wavelet, rule, "correct either")
    return wavelet
