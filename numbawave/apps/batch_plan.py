"""What a batch of an inversion's shots would take, before anything is propagated."""

from dataclasses import dataclass

import torch

from ..torch_bridge.plan import Plan, plan
from ..torch_bridge.propagators import scalar
from .job import Job
from .low_pass import sampling_stride
from .problem import Problem, load_problem


@dataclass(frozen=True)
class BatchPlan:
    """The plan of an inversion's largest call.

    Attributes
    ----------
    plan : Plan
        Of the largest batch of shots with its gradient.
    stage : int
        Index of the stage that takes the most.
    corner : float
        Hz, of that stage.
    """

    plan: Plan
    stage: int
    corner: float

    def summary(self) -> str:
        """Which call it is, and the plan's own summary."""
        n = self.plan.info.shots
        shots = f"{n} shot{'s' if n > 1 else ''}"
        return (
            f"a batch of {shots} with its gradient, stage {self.stage + 1} below {self.corner:g} Hz\n{self.plan.summary()}"
        )


def plan_batch(job: Job) -> BatchPlan:
    """Plan the largest batch of a job's shots, in the stage in which it takes the most bytes.

    Parameters
    ----------
    job : Job
        From `job_file.read_job`.

    Returns
    -------
    BatchPlan
        Of precisely the call that the inversion makes; the first such stage where several take the same.

    Raises
    ------
    NumbawaveError
        As the inversion does before any work.
    """
    problem = load_problem(job)
    plans = [BatchPlan(_plan(problem, corner), stage, corner) for stage, (corner, _) in enumerate(job.stages)]
    return max(plans, key=_most_bytes)


def _plan(problem: Problem, corner: float) -> Plan:
    n_shots = problem.job.shots_per_iteration or len(problem.shots)
    batch = problem.batches(torch.arange(n_shots))[0]
    velocity = problem.start.clone().requires_grad_()
    # a band's wavelet is as long as the unfiltered one, and a plan does not look at its samples
    return plan(scalar, **problem.call(velocity, batch, problem.wavelet, sampling_stride(problem.dt, corner)))


def _most_bytes(found: BatchPlan) -> int:
    memory = found.plan.memory
    return memory.device_bytes + memory.host_bytes + memory.disk_bytes
