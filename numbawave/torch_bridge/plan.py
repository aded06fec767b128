"""What a call would take, before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch

from numbawave.engine.buffers import declare
from numbawave.planning.budget import Budget
from numbawave.planning.memory import Memory, table
from numbawave.planning.seconds import Seconds
from numbawave.torch_bridge.binding import bound
from numbawave.torch_bridge.calibration import Calibration, spent
from numbawave.torch_bridge.candidates import Candidates
from numbawave.torch_bridge.propagators import call_info
from numbawave.torch_bridge.result import CallInfo
from numbawave.torch_bridge.search import choose
from numbawave.torch_bridge.segments import equation_of


@dataclass(frozen=True)
class Plan:
    """What a call would run, and what that takes.

    Attributes
    ----------
    info : CallInfo
        The call's ``out.info``, but for what only the run tells.
    memory : Memory
    levers : dict
        What a budget chose, to be passed on to the call; empty without one.
    candidates : Candidates
        What it was chosen from, the chosen one first; ``print`` shows a table.
    reason : str
        Why.
    """

    info: CallInfo
    memory: Memory
    levers: dict[str, Any]
    candidates: Candidates = field(repr=False)
    reason: str
    _seconds: Callable[[], Seconds] = field(repr=False, compare=False)

    @cached_property
    def seconds(self) -> Seconds:
        """The expected times forward and back, compilation not included; the first one of a kind measures this machine.

        That takes seconds, and is kept in the package's cache folder by equation, dimension, accuracy, dtype, backend,
        device and version.
        """
        return self._seconds()

    def summary(self, seconds: bool = False) -> str:
        """What would run, the peaks, and the table of buffers.

        Parameters
        ----------
        seconds : bool
            Show the expected times also where they were not asked for before, and so may have to be measured.

        Returns
        -------
        str
        """
        info, memory = self.info, self.memory
        records_alone = memory.without_results()
        kept = f"{info.history_bytes / 1e6:.3f} MB of history={info.history!r}" if info.history_bytes else "no history"
        lines = [
            f"{info.equation} in {info.ndim}-D, shots: {info.shots}, {info.dtype}, backend {info.backend} on {info.device}",
            f"{info.nt} steps of {info.dt:.6g}, {info.step_ratio} internal ones of {info.internal_dt:.6g} in each",
            f"{kept} a segment, storage_mode={info.storage_mode!r}",
        ]
        for place in ("device", "host", "disk"):
            most, moment = getattr(memory, f"{place}_bytes"), getattr(memory, f"{place}_moment")
            least = getattr(records_alone, f"{place}_bytes")
            alone = f"; {least / 1e6:.3f} if of the results only records are kept" if least < most else ""
            lines += [f"{place}: {most / 1e6:.3f} MB at most, {moment.name.lower()}{alone}"] if most else []
        if seconds or "seconds" in vars(self):
            lines += [f"expected: {self.seconds}, compilation not included"]
        if self.candidates:
            lines += [f"chosen: {self.reason}", "", str(self.candidates)]
        return "\n".join([*lines, "", *table(memory.buffers, memory.device_bytes)])


def plan(propagator: Any, /, *arguments: Any, budget: Budget | str | None = None, **keywords: Any) -> Plan:
    """What a call of a propagator would take; nothing is propagated, compiled or written, and no field is allocated.

    The call is checked and laid out by the code that the call itself runs, and its buffers are declared by the same
    function that the run allocates from. As in the call, history counts where a model requires a gradient and gradients
    are enabled.

    Not counted is what is no buffer of the run: compiled code, resampled records, and what the libraries hold themselves.
    Without a budget, whether so much is free now is not checked, nor whether a file can be made.

    Parameters
    ----------
    propagator : callable, str or torch.nn.Module
        ``numbawave.scalar`` or its like, an equation's name, or a module such as ``numbawave.Scalar``.
    *arguments, **keywords
        What the propagator would be called with.
    budget : Budget or "auto", optional
        What the call may take; the same as ``memory`` of the call. Levers that were left as they are get the values with
        which the call is the fastest that fits: ``plan.levers`` has them, ``plan.candidates`` what they were chosen from.
        The first search of a kind may measure this machine, as ``Plan.seconds`` does; then small calls do run, and
        a file is written where history may go to the disk.

    Returns
    -------
    Plan

    Raises
    ------
    InsufficientMemoryError
        If nothing fits into the budget.
    NumbawaveError
        As the call does before any work: one of its kinds, naming the argument, its value, the rule and the remedy.
    """
    equation = equation_of(propagator)
    keywords |= {"memory": budget} if budget is not None else {}
    held = isinstance(propagator, torch.nn.Module)
    call = propagator.bound(*arguments, **keywords) if held else bound(equation, *arguments, **keywords)
    choice = choose(*call)
    info = call_info(choice, declare(choice.prepared.run, choice.prepared.wanted))
    seconds = partial(Calibration(choice.prepared).seconds, choice.prepared.run, spent(choice.prepared))
    return Plan(info, info.memory, choice.levers, choice.candidates, choice.reason, seconds)
