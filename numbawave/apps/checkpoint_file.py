"""The state of an inversion after an iteration, in a file from which it goes on bit for bit."""

import dataclasses
import hashlib
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidValueError, StorageError
from .atomic_file import write_atomically
from .job import NO_RESULT
from .problem import Problem

MAGIC = b"numbawave checkpoint 1\n"


@dataclass
class State:
    """Where an inversion stands; everything that the next iteration depends on.

    Attributes
    ----------
    model : Tensor [*grid]
        The model so far, m/s.
    base : Tensor [*grid]
        The model at the beginning of the stage, m/s.
    variable : Tensor [*grid]
        What the optimiser changes, 0 at the beginning of a stage (see `descent.Objective`).
    stage, iteration : int
        The next iteration to run, counted from 0; `iteration` within its stage.
    losses : list of list of float
        One list for each stage begun.
    optimiser : dict or None
        The torch optimiser's state; None at the beginning of a stage.
    scale : float
        Factor of the gradients, set by the first of a stage; 0 before (see `descent.step_scale`).
    random : Tensor of uint8
        State of the generator that draws shots.
    seconds : float
        Time spent so far.
    """

    model: Tensor
    base: Tensor
    variable: Tensor
    stage: int = 0
    iteration: int = 0
    losses: list[list[float]] = field(default_factory=list)
    optimiser: dict[str, Any] | None = None
    scale: float = 0.0
    random: Tensor = field(default_factory=lambda: torch.Generator().get_state())
    seconds: float = 0.0

    def next_stage(self) -> None:
        """Begin the next stage at the model found: its optimiser remembers no other band."""
        self.stage, self.iteration, self.optimiser, self.scale = self.stage + 1, 0, None, 0.0
        self.base, self.variable = self.model.clone(), torch.zeros_like(self.model)

    @property
    def done(self) -> int:
        """Iterations done so far, over all stages."""
        return sum(len(stage) for stage in self.losses)


def fresh_state(problem: Problem) -> State:
    """Make the state before the first iteration.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    State
    """
    generator = torch.Generator().manual_seed(problem.job.seed)
    start = problem.start
    return State(start.clone(), start.clone(), torch.zeros_like(start), random=generator.get_state())


def identity(problem: Problem) -> dict[str, str]:
    """What must agree for a checkpoint to belong to a job: every key that decides the result, and the arrays.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    dict of str to str
        By key; ``arrays`` is a hash of all.
    """
    keys = {name: repr(value) for name, value in dataclasses.asdict(problem.job).items() if name not in NO_RESULT}
    return {**keys, "arrays": problem.digest()}


def save_state(path: Path, problem: Problem, state: State) -> None:
    """Write the state over the last one, in one step.

    Parameters
    ----------
    path : Path
    problem : Problem
        Whose job the file will belong to.
    state : State

    Raises
    ------
    StorageError
        If it cannot be written; the last one is then still whole.
    """
    stream = io.BytesIO()
    fields = {f.name: getattr(state, f.name) for f in dataclasses.fields(state)}
    torch.save({"identity": identity(problem), "state": fields}, stream)
    content = stream.getvalue()
    write_atomically(path, MAGIC + hashlib.sha256(content).digest() + content)


def load_state(path: Path, problem: Problem) -> State:
    """Read the state that a run of the same job left.

    Parameters
    ----------
    path : Path
    problem : Problem

    Returns
    -------
    State

    Raises
    ------
    StorageError
        If the file cannot be read or is damaged.
    InvalidValueError
        If it belongs to another job; the message names what differs.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        rule = f"the checkpoint cannot be read ({error.strerror})"
        raise StorageError(str(path), "checkpoint", rule, "allow reading it, or give --restart") from error
    start = len(MAGIC) + 32
    if content[: len(MAGIC)] != MAGIC or content[len(MAGIC) : start] != hashlib.sha256(content[start:]).digest():
        rule = "the checkpoint is damaged or was written by something else"
        raise StorageError(str(path), f"{len(content)} bytes", rule, "give --restart or another --output")
    kept = torch.load(io.BytesIO(content[start:]), weights_only=True)
    wanted = identity(problem)
    differing = [name for name in wanted if kept["identity"].get(name) != wanted[name]]
    if differing:
        name = differing[0]
        was, now = kept["identity"].get(name), wanted[name]
        what = "the contents of its files" if name == "arrays" else f"{name} was {was} and is {now}"
        more = f", and {len(differing) - 2} more" if len(differing) > 2 else ""
        rule = f"this folder holds the checkpoint of another job: {what}{more}"
        raise InvalidValueError("output", str(path.parent), rule, "give another --output, or --restart to begin anew")
    return State(**kept["state"])
