"""A call of a propagator, checked as a whole and run in segments of the time axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import index
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint as recomputed
from tqdm import tqdm

from numbawave.equations import EQUATIONS, Equation
from numbawave.errors import InvalidTypeError, InvalidValueError
from numbawave.survey.resampling import downsample, upsample
from numbawave.survey.time_step import critical_courant_number
from numbawave.torch_bridge import propagators
from numbawave.torch_bridge.arrays import give_back, tensor
from numbawave.torch_bridge.frontend import Prepared, prepare
from numbawave.torch_bridge.options import Options
from numbawave.torch_bridge.result import PropagatorOutput, RunInfo

Callback = Callable[[int, PropagatorOutput], object]


def whole_number(value: Any) -> int:
    """An argument that counts steps or segments; 0 for what is no whole number."""
    try:
        return 0 if isinstance(value, bool) else index(value)
    except TypeError:
        return 0


@dataclass(frozen=True)
class SegmentsInfo(RunInfo):
    """What really ran, of a run in segments: ``seconds`` of all, and the history of those that keep it at once.

    Attributes
    ----------
    lengths : tuple of int
        The caller's steps in each segment.
    checkpoint : bool
        Whether each segment is run again on the way back, so that one keeps history at a time.
    """

    lengths: tuple[int, ...]
    checkpoint: bool


@dataclass(frozen=True)
class Call:
    """A propagator and what it was given, under their names.

    Attributes
    ----------
    equation : Equation
    models : dict of str to array
    grid_spacing : float or sequence of float
    options : dict
    function : callable
        Takes the time step and the options.
    """

    equation: Equation
    models: dict[str, Any]
    grid_spacing: Any
    options: dict[str, Any]
    function: Callable[..., PropagatorOutput]

    @classmethod
    def of(cls, propagator: Any, models: Sequence[Any], grid_spacing: Any, options: Mapping[str, Any]) -> Call:
        """What ``propagator(*models, grid_spacing, dt, **options)`` means; a module holds its models itself."""
        equation = equation_of(propagator)
        names, rest = [model.name for model in equation.models], dict(options)
        if isinstance(propagator, torch.nn.Module):
            given = [*models, *(name for name in names if name in rest)]
            if given or grid_spacing is not None:
                argument = "grid_spacing" if not given else names[0]
                raise InvalidTypeError(argument, "given", "a module holds its models and grid_spacing", "leave it out")
            held: Any = propagator
            found = {name: getattr(held, name) for name in names}
            return cls(equation, found, held.grid_spacing, held.options | rest, propagator)
        if len(models) > len(names):
            rule = f"{equation.name} takes {', '.join(names)} in front"
            raise InvalidTypeError("models", f"{len(models)} models", rule, "give all other arguments by name")
        found = dict(zip(names, models, strict=False))
        for name in names:
            if name in found and name in rest:
                raise InvalidTypeError(name, "given twice", "a model is given once", "give it in front or by name")
            if name in rest:
                found[name] = rest.pop(name)
        for name, there in [*((name, name in found) for name in names), ("grid_spacing", grid_spacing is not None)]:
            if not there:
                raise InvalidValueError(name, "missing", f"{equation.name} needs it", f"give {name}")
        function = getattr(propagators, equation.name)
        return cls(equation, found, grid_spacing, rest, partial(function, **found, grid_spacing=grid_spacing))


def equation_of(propagator: Any) -> Equation:
    """The equation of a propagator: a function or a module of this package, or an equation's name."""
    for name, equation in EQUATIONS.items():
        module = getattr(propagators, name.title().replace("_", ""), ())
        if propagator is getattr(propagators, name) or isinstance(propagator, module):
            return equation
    if isinstance(propagator, str) and propagator in EQUATIONS:
        return EQUATIONS[propagator]
    kind = InvalidValueError if isinstance(propagator, str) else InvalidTypeError
    rule = "is a propagator: a function or module of numbawave, or an equation's name"
    raise kind("propagator", propagator, rule, f"give one of {', '.join(EQUATIONS)}, or numbawave.scalar and the like")


@dataclass(frozen=True)
class Segments:
    """A call that was checked, with what its segments share; nothing has run.

    Where the time step is divided, segments take internal steps from amplitudes that were resampled as a whole, and the
    joined record is resampled as a whole: so a segment knows nothing of resampling, and the result is the unsplit run's.

    Attributes
    ----------
    call : Call
    options : Options
    prepared : Prepared
        Of the whole call: the layers' frequency, the largest speed and the internal step hold for all segments.
    amplitudes : torch.Tensor [shot, source, internal step] or None
    """

    call: Call
    options: Options
    prepared: Prepared
    amplitudes: torch.Tensor | None

    @classmethod
    def of(cls, call: Call, dt: float) -> Segments:
        """Check a call.

        Raises
        ------
        NumbawaveError
            One of its kinds, naming the argument, its value, the rule and the remedy.
        """
        options = Options.of(call.options)
        prepared = prepare(call.equation, call.models, call.grid_spacing, dt, options)
        whole = prepared.amplitudes
        fine = None if whole is None else upsample(whole, prepared.time.step_ratio, torch, **options.resampling)
        return cls(call, options, prepared, fine)

    @property
    def interval(self) -> int:
        """The caller's steps between two that enter the model's gradient; 1 where none is wanted."""
        interval = self.options.model_gradient_sampling_interval
        return int(interval) if self.prepared.wanted and interval != "internal" else 1

    def check(self, length: int) -> None:
        """Refuse what a segment of this length could not run."""
        options = replace(self.options, **self._changes(0, length, None))
        call, step = self.call, self.prepared.time.internal_dt
        if prepare(call.equation, call.models, call.grid_spacing, step, options).time.step_ratio > 1:
            rule = "is at the limit of stability, where the internal step cannot be told from a longer one"
            raise InvalidValueError("courant_number", self.options.courant_number, rule, "give a little less")

    def _changes(self, first: int, last: int, state: PropagatorOutput | None) -> dict[str, Any]:
        """The options of the segment between two of the caller's steps."""
        ratio, damping = self.prepared.time.step_ratio, self.prepared.run.damping
        found: dict[str, Any] = {"pml_freq": damping.frequency, "max_vel": damping.max_vel, "progress": False}
        if self.amplitudes is None:
            found["nt"] = (last - first) * ratio
        else:
            found |= {"nt": None, "source_amplitudes": self.amplitudes[..., first * ratio : last * ratio]}
        if state is not None:
            found |= {"wavefield_0": None, "wavefield_m1": None, "initial_state": state}
        if ratio > 1:
            # The step was divided by the caller's Courant number; a rounding above it must not divide it again.
            found["courant_number"] = critical_courant_number(self.options.accuracy)
            interval = self.options.model_gradient_sampling_interval
            found["model_gradient_sampling_interval"] = interval if interval == "internal" else int(interval) * ratio
        return found

    def run(self, lengths: Sequence[int], checkpoint: bool = False, callback: Callback | None = None) -> PropagatorOutput:
        """Run all segments.

        Parameters
        ----------
        lengths : sequence of int
            The caller's steps in each segment; checked already.
        checkpoint : bool
            Run each segment again on the way back.
        callback : callable, optional
            Called with each segment's number and output.

        Returns
        -------
        PropagatorOutput
        """
        # No segment's output but the last one stays alive here: its record and what it says of itself do.
        out, first, parts, infos = None, 0, [], []
        progress = None if self.options.progress else True
        with tqdm(total=self.prepared.nt, desc=self.call.equation.name, unit="step", disable=progress) as bar:
            for number, length in enumerate(lengths):
                given = self.call.options | self._changes(first, first + length, out)
                segment = partial(self.call.function, dt=self.prepared.time.internal_dt, **given)
                again = checkpoint and torch.is_grad_enabled()
                out = recomputed(segment, use_reentrant=False) if again else segment()
                records = {name: out[place] for place, name in enumerate(out.names) if name.startswith("receiver_")}
                parts.append({name: tensor(name, record) for name, record in records.items()})
                infos.append(out.info)
                first += length
                if callback is not None:
                    callback(number, out)
                bar.update(length)
        assert out is not None
        back = give_back(self.call.models[self.call.equation.models[0].name])
        joined = {name: back(self._joined([part[name] for part in parts])) for name in parts[0]}
        return PropagatorOutput(out.as_dict() | joined, self._info(infos, tuple(lengths), checkpoint))

    def _joined(self, parts: list[torch.Tensor]) -> torch.Tensor:
        # Time comes first in memory, as it does in the unsplit run's record, which is resampled from there.
        whole = torch.cat([part.movedim(-1, 0) for part in parts]).movedim(0, -1)
        record: torch.Tensor = downsample(whole, self.prepared.time.step_ratio, torch, **self.options.resampling)
        return record.contiguous()

    def _info(self, infos: list[RunInfo], lengths: tuple[int, ...], checkpoint: bool) -> SegmentsInfo:
        at_once: Callable[[list[int]], int] = max if checkpoint else sum
        time = self.prepared.time
        found = vars(infos[-1]) | {
            "dt": time.dt,
            "step_ratio": time.step_ratio,
            "nt": self.prepared.nt,
            "history_bytes": at_once([info.history_bytes for info in infos]),
            "kept_bytes": at_once([info.kept_bytes for info in infos]),
            "coding_seconds": sum(info.coding_seconds for info in infos),
            "seconds": sum(info.seconds for info in infos),
        }
        return SegmentsInfo(**found, lengths=lengths, checkpoint=checkpoint)
