"""From misfit to step: the objective of a frequency band, and the torch optimisers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..errors import NonFiniteError
from .job import Job
from .low_pass import end_fade, low_pass, sampling_stride
from .misfit import get_misfit
from .problem import Problem
from .smoothing import blur


@dataclass(frozen=True)
class Band:
    """A frequency stage: source and data below its corner.

    Attributes
    ----------
    corner : float
        Hz.
    wavelet : Tensor [time]
    observed : Tensor [shot, receiver, time]
        Filtered and faded out at the end.
    fade : Tensor [time]
        The weights that did it.
    stride : int
        Time steps between samples of the gradient.
    """

    corner: float
    wavelet: Tensor
    observed: Tensor
    fade: Tensor
    stride: int


def make_band(problem: Problem, observed: Tensor, corner: float) -> Band:
    """Filter the source and the data alike.

    Parameters
    ----------
    problem : Problem
    observed : Tensor [shot, receiver, time]
    corner : float
        Hz.

    Returns
    -------
    Band
    """
    fade = end_fade(observed.shape[-1], problem.dt, corner, observed.dtype)
    wavelet = low_pass(problem.wavelet, problem.dt, corner)
    filtered = low_pass(observed, problem.dt, corner) * fade
    return Band(corner, wavelet, filtered, fade, sampling_stride(problem.dt, corner))


Propagate = Callable[[Tensor, Tensor], tuple[float, Tensor]]


def misfit_and_gradient(problem: Problem, band: Band, velocity: Tensor, chosen: Tensor) -> tuple[float, Tensor]:
    """Propagate some shots in this process, forwards and back.

    Parameters
    ----------
    problem : Problem
    band : Band
    velocity : Tensor [*grid]
        m/s.
    chosen : Tensor [n] of int64
        Indices of shots, perhaps none; batches are summed in this order.

    Returns
    -------
    misfit : float
    gradient : Tensor [*grid]
        For the model, on the problem's device.
    """
    misfit, device = get_misfit(problem.job.misfit), problem.device
    velocity, fade = velocity.detach().to(device), band.fade.to(device)
    total, gradient = 0.0, torch.zeros_like(velocity)
    for batch in problem.batches(chosen):
        leaf = velocity.clone().requires_grad_()
        predicted = problem.record(leaf, batch, band.wavelet, band.stride) * fade
        loss = misfit(predicted, band.observed[batch].to(device))
        gradient += torch.autograd.grad(loss, leaf)[0]
        total += float(loss.detach())
    return total, gradient


class Objective:
    """The misfit of some shots in one band, as a function of the variable that the optimiser changes.

    The optimiser changes x, and the model is ``base + C x`` within the bounds, where C blurs, weights by
    depth and is zero in the water. Any optimiser, line search included, thus sees a function with its true
    gradient, and every update is smooth.

    Parameters
    ----------
    problem : Problem
    band : Band
    base : Tensor [*grid]
        The model at the beginning of the stage, m/s.
    chosen : Tensor [n] of int64
        Indices of shots; batches are summed in this order.
    propagate : callable, optional
        Takes a model and `chosen`, and gives misfit and gradient; `misfit_and_gradient` in this process unless given.
    """

    def __init__(
        self, problem: Problem, band: Band, base: Tensor, chosen: Tensor, propagate: Propagate | None = None
    ) -> None:
        self.problem, self.band, self.base, self.chosen = problem, band, base, chosen
        self.propagate = propagate or partial(misfit_and_gradient, problem, band)
        self._recent: list[tuple[Tensor, float, Tensor]] = []

    def choose(self, chosen: Tensor) -> None:
        """Take other shots from now on; what is remembered of the same shots is kept."""
        if not torch.equal(chosen, self.chosen):
            self.chosen, self._recent = chosen, []

    def velocity(self, variable: Tensor) -> Tensor:
        """The model [*grid], m/s, that a variable [*grid] stands for."""
        job, water = self.problem.job, self.problem.water
        weight = (~water).to(variable.dtype)
        if job.depth_power:
            depth = (torch.arange(len(variable), dtype=variable.dtype) + 0.5) / len(variable)
            weight = weight * depth.pow(job.depth_power).reshape(-1, *[1] * (variable.ndim - 1))
        # detail that a band can resolve grows with its wavelength
        sigma = job.gradient_smoothing * max(corner for corner, _ in job.stages) / self.band.corner
        update = weight * blur(weight * variable, [sigma] * variable.ndim)
        return torch.where(water, self.base, (self.base + update).clamp(job.vmin, job.vmax))

    def __call__(self, variable: Tensor) -> tuple[float, Tensor]:
        """The misfit and its gradient [*grid].

        The last two are remembered: a line search ends at one of them, and the next iteration begins there.

        Raises
        ------
        NonFiniteError
            If either is not finite.
        """
        for known, loss, gradient in self._recent:
            if torch.equal(known, variable):
                return loss, gradient
        leaf = variable.detach().clone().requires_grad_()
        velocity = self.velocity(leaf)
        loss, by_velocity = self.propagate(velocity.detach(), self.chosen)
        by_velocity = by_velocity.to(velocity.device)
        if not (torch.isfinite(by_velocity).all() and loss < float("inf")):
            rule = f"the misfit below {self.band.corner:g} Hz or its gradient is not finite"
            raise NonFiniteError("misfit", loss, rule, "check the data and the model, or use dtype float64")
        (gradient,) = torch.autograd.grad(velocity, leaf, by_velocity)
        gradient = gradient.contiguous()
        self._recent = [*self._recent[-1:], (leaf.detach(), loss, gradient)]
        return loss, gradient


def make_optimiser(job: Job, variable: Tensor) -> torch.optim.Optimizer:
    """A torch optimiser whose first step changes the model by about the job's learning rate.

    The gradient arrives scaled (see `step_scale`). Adam divides each cell's step by the size of its own
    gradient, which evens out illumination; its damping keeps that from amplifying cells that hardly any wave
    reaches.

    Parameters
    ----------
    job : Job
    variable : Tensor [*grid]
        What the optimiser changes in place.

    Returns
    -------
    torch.optim.Optimizer
    """
    if job.optimiser == "adam":
        return torch.optim.Adam([variable], lr=job.learning_rate, eps=job.damping)
    if job.optimiser == "sgd":
        return torch.optim.SGD([variable], lr=job.learning_rate, momentum=0.5)
    # one iteration a call: there must be a state to keep after each
    return torch.optim.LBFGS(
        [variable],
        lr=1.0,
        max_iter=1,
        max_eval=20,
        line_search_fn="strong_wolfe",
        tolerance_grad=0,
        tolerance_change=0,
    )


def step_scale(job: Job, gradient: Tensor) -> float:
    """The factor that a stage's gradients are multiplied by, from its first.

    For adam it makes the root mean square 1, the unit of its damping; for sgd the largest entry 1; for lbfgs
    the largest entry the learning rate, since its first step is the gradient itself.

    Parameters
    ----------
    job : Job
    gradient : Tensor [*grid]
        The stage's first.

    Returns
    -------
    float
    """
    size = float(gradient.square().mean().sqrt() if job.optimiser == "adam" else gradient.abs().max())
    if size < torch.finfo(gradient.dtype).tiny:
        return 1.0
    return (job.learning_rate if job.optimiser == "lbfgs" else 1.0) / size
