"""Full-waveform inversion: frequency stages of descent, with a checkpoint after every iteration."""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from .atomic_file import make_folder
from .checkpoint_file import State, fresh_state, load_state, save_state
from .crew import Crew
from .descent import Objective, make_optimiser, step_scale
from .job import Job
from .observed_data import observed_records
from .problem import Problem, load_problem
from .ranks import gathered, process_group, united
from .report import Summary, conclude

CHECKPOINT = "checkpoint.pt"


def run(
    job: Job,
    *,
    restart: bool = False,
    progress: bool | None = None,
    say: Callable[[str], None] | None = None,
    after_iteration: Callable[[State], None] | None = None,
) -> Summary:
    """Run a job to its end, from its checkpoint if its output folder holds one.

    After a kill at any moment the same call goes on from the last iteration, and the result is the same bit
    for bit on the same machine with the same number of threads and of ranks.

    Under ``torchrun`` every rank makes this call, and each propagates its share of the shots. The first one decides,
    prints and writes: only it uses `progress`, `say` and `after_iteration`, and only its output folder is used.

    Parameters
    ----------
    job : Job
        From `job_file.read_job`.
    restart : bool
        Begin anew and write over what the folder holds.
    progress : bool, optional
        Show a bar with loss and time left; by default when standard error is a terminal.
    say : callable, optional
        Takes a line of text about what is going on.
    after_iteration : callable, optional
        Called with the state after each iteration's checkpoint is on disk.

    Returns
    -------
    Summary
        On every rank: of what ``result.npz`` and ``result.png`` in the output folder hold.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        If the job, its files or the folder's checkpoint do not fit; before any work is done.
    StorageError
        If a file cannot be read or written.
    NonFiniteError
        If the inversion blew up.
    RankError
        If another rank failed in a way that is none of the above.
    """
    with process_group() as ranks:
        with united():
            problem = load_problem(job)
        crew = Crew(problem)
        # on a machine that lost no rank, torchrun does not count that it started the ranks again
        starts = max(gathered(int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))))
        if not ranks.first:
            return crew.serve()
        with crew.leading():
            # ranks that were started again go on from what they began anew
            summary = _lead(
                crew, restart and not starts, progress, say or (lambda line: None), after_iteration or (lambda state: None)
            )
        crew.dismiss(summary)
        return summary


def _lead(
    crew: Crew, restart: bool, progress: bool | None, say: Callable[[str], None], after_iteration: Callable[[State], None]
) -> Summary:
    """What the first rank does: decide and write."""
    problem, job = crew.problem, crew.problem.job
    folder = Path(job.output)
    make_folder(folder)
    path = folder / CHECKPOINT
    state = fresh_state(problem)
    total = sum(iterations for _, iterations in job.stages)
    if path.exists() and not restart:
        state = load_state(path, problem)
        say(f"going on from {path}: {state.done} of {total} iterations done (--restart begins anew)")
    say(_headline(crew))
    crew.observe(observed_records(problem, folder, crew.record_all))
    with tqdm(total=total, initial=state.done, disable=None if progress is None else not progress, unit="it") as bar:
        while state.stage < len(job.stages):
            for _ in _descend(crew, state):
                save_state(path, problem, state)
                _show(bar, state)
                after_iteration(state)
            say(_stage_line(job, state))
    return conclude(problem, crew.band(job.stages[-1][0]), state, folder, crew.record_all)


def _descend(crew: Crew, state: State) -> Iterator[None]:
    """Run what is left of the current stage, updating the state; yields after each iteration."""
    problem, job = crew.problem, crew.problem.job
    corner, n_iterations = job.stages[state.stage]
    variable = torch.nn.Parameter(state.variable)
    optimiser = make_optimiser(job, variable)
    if state.optimiser is not None:
        optimiser.load_state_dict(state.optimiser)
    else:
        state.losses.append([])
    every = torch.arange(len(problem.shots))
    objective = Objective(problem, crew.band(corner), state.base, every, partial(crew.misfit, corner))
    for iteration in range(state.iteration, n_iterations):
        began = time.perf_counter()
        objective.choose(_draw(problem, state))
        state.losses[-1].append(_iterate(job, objective, state, variable, optimiser))
        state.variable, state.model = variable.detach(), objective.velocity(variable.detach())
        state.iteration, state.optimiser = iteration + 1, optimiser.state_dict()
        if state.iteration == n_iterations:
            state.next_stage()
        state.seconds += time.perf_counter() - began
        yield


def _iterate(
    job: Job,
    objective: Objective,
    state: State,
    variable: torch.nn.Parameter,
    optimiser: torch.optim.Optimizer,
) -> float:
    """One step of the optimiser; returns the misfit before it."""
    first, gradient = objective(variable)
    fresh = state.scale == 0.0
    if fresh:
        state.scale = step_scale(job, gradient)
    if job.optimiser == "lbfgs":  # torch divides its first step by this sum, which would leave steps far below 1 m/s
        sum_of_gradient = float(gradient.abs().sum()) * state.scale
        optimiser.param_groups[0]["lr"] = max(1.0, sum_of_gradient) if fresh else 1.0

    def closure() -> Tensor:
        loss, gradient = objective(variable)
        variable.grad = gradient * state.scale
        return torch.tensor(loss * state.scale, dtype=torch.float64)

    # torch types the result of a closure as float, but its optimisers take a tensor
    optimiser.step(closure)  # type: ignore[arg-type]
    return first


def _draw(problem: Problem, state: State) -> Tensor:
    """The shots of an iteration, in ascending order."""
    n_shots, n_drawn = len(problem.shots), problem.job.shots_per_iteration
    if not n_drawn:
        return torch.arange(n_shots)
    generator = torch.Generator()
    generator.set_state(state.random)
    drawn = torch.randperm(n_shots, generator=generator)[:n_drawn].sort().values
    state.random = generator.get_state()
    return drawn


def _headline(crew: Crew) -> str:
    problem = crew.problem
    shape = " x ".join(str(n) for n in problem.start.shape)
    steps = f"{len(problem.wavelet)} steps of {1000 * problem.dt:.3g} ms"
    where = str(problem.device) if crew.ranks.size == 1 else f"{crew.ranks.size} ranks ({problem.device.type})"
    return f"{shape} cells, {len(problem.shots)} shots, {len(problem.receivers)} receivers, {steps}, on {where}"


def _stage_line(job: Job, state: State) -> str:
    number, losses = len(state.losses), state.losses[-1]
    corner = job.stages[number - 1][0]
    change = f"misfit {losses[0]:.3e} -> {losses[-1]:.3e} in {len(losses)} iterations"
    return f"stage {number} below {corner:g} Hz: {change}"


def _show(bar: "tqdm[None]", state: State) -> None:
    losses = state.losses[-1]
    bar.set_postfix_str(f"stage {len(state.losses)}, misfit {losses[-1] / (losses[0] or 1.0):.1%} of its first")
    bar.update()
