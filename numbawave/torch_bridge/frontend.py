"""Everything before propagation: arguments checked, what was left out inferred, the run laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from numbawave.backends.base import Backend
from numbawave.boundary.cpml import Damping
from numbawave.engine.run import Run
from numbawave.engine.setup import Setup, setup
from numbawave.equations import Equation
from numbawave.errors import BackendError, InvalidTypeError, InvalidValueError
from numbawave.grid.axes import axis_names, per_axis, per_face
from numbawave.grid.domain import Domain
from numbawave.grid.weights import check_accuracy
from numbawave.survey.geometry import check_amplitudes, check_locations
from numbawave.survey.models import check_speed, extremes_are_fine
from numbawave.survey.spectrum import peak_frequency
from numbawave.survey.time_step import TimeStep, check_courant_number, internal_time_step
from numbawave.torch_bridge.advice import adviser
from numbawave.torch_bridge.arrays import DTYPES, alike, distinct, numpy_view, tensor
from numbawave.torch_bridge.continuation import check_layout, given_state, layout_of, memory_of, state_of
from numbawave.torch_bridge.levers import check_wanted, pull
from numbawave.torch_bridge.options import Options
from numbawave.torch_bridge.space import space_of

Cells = NDArray[np.int64]


@dataclass(frozen=True)
class Prepared:
    """A call that was checked and laid out, ready to run.

    Attributes
    ----------
    run : Run
    models : dict of str to torch.Tensor
    amplitudes : torch.Tensor [shot, source, time] or None
    time : TimeStep
    nt : int
    widths : tuple of (int, int)
    receivers : int
        Receivers a shot.
    state : dict of str to torch.Tensor
        What was given of the initial state, by the run's names.
    wanted : bool
        Whether a model's gradient is asked for, so that the run keeps history.
    layout : dict
        What a run that continues this one must share.
    """

    run: Run
    models: dict[str, torch.Tensor]
    amplitudes: torch.Tensor | None
    time: TimeStep
    nt: int
    widths: tuple[tuple[int, int], ...]
    receivers: int
    state: dict[str, torch.Tensor]
    wanted: bool
    layout: dict[str, Any]


def prepare(
    equation: Equation, given: Mapping[str, Any], grid_spacing: Any, dt: float, options: Options, elsewhere: Any = None
) -> Prepared:
    """Check a call and lay out its run; nothing is propagated.

    Parameters
    ----------
    equation : Equation
    given : mapping of str to array
        The models by name.
    grid_spacing : float or sequence of float
    dt : float
    options : Options
    elsewhere : tuple, optional
        A backend and a space that the run is laid out for, but cannot run on; those of the models unless given.

    Returns
    -------
    Prepared

    Raises
    ------
    InvalidValueError, InvalidTypeError, BackendError
        Naming the argument, its value, the rule and the remedy.
    """
    first = equation.models[0].name
    models = {first: tensor(first, given[first])}
    models |= {m.name: alike(m.name, given[m.name], models[first], first) for m in equation.models[1:]}
    backend, space = elsewhere or (_backend(options.backend, models[first], first), space_of(models[first]))
    ndim = _ndim(options, grid_spacing, models[first])
    shape = _grid_shape(models, ndim)
    spacing = per_axis("grid_spacing", grid_spacing, ndim)
    widths = per_face("pml_width", options.pml_width, ndim)
    accuracy = check_accuracy(options.accuracy)
    sources, receivers, shots = _survey(options, models, shape, spacing)
    models = {name: _per_shot(name, model, ndim, shots) for name, model in models.items()}
    amplitudes, nt = _amplitudes(options, sources, models[first], first)
    memory = memory_of(options)
    highest = _highest_speed(equation.speed, models[equation.speed], ndim)
    max_vel = _max_vel(options.max_vel or (memory.max_vel if memory else None), highest)
    time = internal_time_step(_number("dt", dt), spacing, max_vel, check_courant_number(options.courant_number, accuracy))
    frequency = options.pml_freq or (memory.pml_freq if memory else None)
    if frequency is None:
        frequency = peak_frequency(numpy_view(amplitudes) if amplitudes is not None else [], time.dt)
    absorbing = frozenset(name for name, width in zip(axis_names(ndim), widths, strict=True) if sum(width))
    setup_ = setup(equation, ndim, accuracy, absorbing)
    grid = setup_.domain(shape, widths, spacing, backend.align)
    batched = any(model.ndim > ndim for model in models.values())
    interval = options.model_gradient_sampling_interval
    run = Run(
        setup_,
        grid,
        shots,
        nt * time.step_ratio,
        DTYPES[models[first].dtype],
        Damping(time.internal_dt, max_vel, frequency),
        backend,
        _cells(setup_, grid, sources, receivers, shots, batched),
        batched,
        1 if interval == "internal" else int(interval) * time.step_ratio,
        space=space,
    )
    undo = setup(equation, ndim, accuracy, frozenset()) if options.history == "reconstruct" else None
    pull(run, options, undo)
    layout = layout_of(run, widths, time)
    if memory is not None:
        check_layout(memory, layout)
    state = given_state(run, first, models[first], options)
    wanted, sourced, run.to_start = (
        torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in values)
        for values in (models.values(), (amplitudes,), state.values())
    )
    check_wanted(options, wanted)
    run.back = wanted or sourced or run.to_start
    run.advice = adviser(run, options, undo)
    return Prepared(run, models, amplitudes, time, nt, widths, receivers.shape[1], state, wanted, layout)


def _highest_speed(argument: str, model: torch.Tensor, ndim: int) -> float:
    """The checked model's largest speed; the check looks at the host's copy of a device's model only in case of doubt."""
    if model.device.type != "cpu" and model.numel():
        bounds = torch.stack(torch.aminmax(model.detach())).tolist()
        if extremes_are_fine(*bounds):
            return float(bounds[1])
    once = numpy_view(distinct(model))
    lowest, highest = float(once.min()), float(once.max())
    return highest if extremes_are_fine(lowest, highest) else check_speed(argument, numpy_view(model), ndim)[1]


def _number(argument: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(argument, value, "is a number", "give the time between samples") from error


def _backend(name: str, model: torch.Tensor, argument: str) -> Backend:
    from numbawave.backends import BACKENDS, simulated

    if name != "auto" and name not in BACKENDS:
        raise InvalidValueError("backend", name, f"is one of auto, {', '.join(sorted(BACKENDS))}", "choose one of these")
    device = model.device.type
    if device not in ("cpu", "cuda"):
        raise BackendError(
            argument, str(model.device), "a model lies on a CPU or on a CUDA device", f"move it: {argument}.cpu()"
        )
    chosen = device if name == "auto" else name
    if (chosen == "cuda") != (device == "cuda") and not (chosen == "cuda" and simulated()):
        remedy = f'move it: {argument}.to("{"cuda" if chosen == "cuda" else "cpu"}"), or leave backend out'
        raise BackendError("backend", name, f"{argument} lies on {model.device}", remedy)
    if device == "cuda" and torch.cuda.is_current_stream_capturing():
        raise BackendError("backend", chosen, "a run is replayed from CUDA graphs of its own and reads its inputs' values",
                           "call it outside torch.cuda.graph")  # fmt: skip
    return BACKENDS[chosen]()


def _ndim(options: Options, grid_spacing: Any, model: torch.Tensor) -> int:
    """Axes of the grid: as the locations say, else the spacing, else the model."""
    for locations in (options.source_locations, options.receiver_locations):
        if locations is not None and np.ndim(locations) == 3:
            return int(np.shape(locations)[-1])
    return len(grid_spacing) if isinstance(grid_spacing, Sequence) and len(grid_spacing) > 1 else model.ndim


def _grid_shape(models: Mapping[str, torch.Tensor], ndim: int) -> tuple[int, ...]:
    axis_names(ndim)
    shapes = {name: tuple(model.shape[model.ndim - ndim :]) for name, model in models.items()}
    for name, model in models.items():
        if model.ndim not in (ndim, ndim + 1):
            rule = f"locations and spacing say that the grid has {ndim} axes"
            remedy = "give the model as [*grid] or [shot, *grid], and locations as [shot, point, ndim]"
            raise InvalidValueError(name, f"shape {list(model.shape)}", rule, remedy)
        if shapes[name] != next(iter(shapes.values())):
            first, wanted = next(iter(shapes.items()))
            remedy = f"bring it to the shape of {first}, {list(wanted)}"
            raise InvalidValueError(name, f"shape {list(model.shape)}", "all models have one grid", remedy)
        if 0 in model.shape:
            raise InvalidValueError(
                name, f"shape {list(model.shape)}", "a model has cells", "give at least one along each axis"
            )
    return next(iter(shapes.values()))


def _survey(
    options: Options, models: Mapping[str, torch.Tensor], shape: tuple[int, ...], spacing: tuple[float, ...]
) -> tuple[Cells, Cells, int]:
    """Checked locations of sources and receivers, and the number of shots."""
    shots: int | None = None
    found = {}
    for name in ("source_locations", "receiver_locations"):
        locations = getattr(options, name)
        if locations is not None:
            locations = numpy_view(locations.cpu()) if isinstance(locations, torch.Tensor) else locations
            found[name] = check_locations(name, locations, shots, shape, spacing)
            shots = found[name].shape[0]
    states = [options.wavefield_0, options.wavefield_m1, *state_of(options).values()]
    for value in (*states, *models.values()):
        if shots is None and hasattr(value, "ndim") and value.ndim == len(shape) + 1:
            shots = value.shape[0]
    shots = 1 if shots is None else shots
    if shots < 1:
        raise InvalidValueError("source_locations", "0 shots", "there is at least one shot", "give locations for one")
    none = np.zeros((shots, 0, len(shape)), np.int64)
    return found.get("source_locations", none), found.get("receiver_locations", none), shots


def _per_shot(name: str, model: torch.Tensor, ndim: int, shots: int) -> torch.Tensor:
    if model.ndim == ndim:
        return model
    if model.shape[0] not in (1, shots):
        raise InvalidValueError(
            name, f"{model.shape[0]} models", f"there are {shots} shots", "give one model, or one for each shot"
        )
    return model[0] if model.shape[0] == 1 else model


def _amplitudes(options: Options, sources: Cells, model: torch.Tensor, name: str) -> tuple[torch.Tensor | None, int]:
    """Source amplitudes and the number of the caller's time steps."""
    if options.source_amplitudes is None:
        if options.nt is None:
            raise InvalidValueError(
                "nt", "None", "a call without sources says how long it runs", "give nt or source amplitudes"
            )
        return None, options.nt
    amplitudes = alike("source_amplitudes", options.source_amplitudes, model, name)
    nt = check_amplitudes("source_amplitudes", tuple(amplitudes.shape), sources)
    if options.nt not in (None, nt):
        raise InvalidValueError(
            "nt",
            options.nt,
            f"the source amplitudes have {nt} samples",
            "leave nt out, or pad the amplitudes",
        )
    if not bool(torch.isfinite(distinct(amplitudes.detach())).all()):
        shot, point, step = (int(k) for k in torch.nonzero(~torch.isfinite(amplitudes.detach()))[0])
        value = f"{float(amplitudes[shot, point, step])} at shot {shot}, source {point}, sample {step}"
        raise InvalidValueError("source_amplitudes", value, "amplitudes are finite", "mend this sample")
    return amplitudes, nt


def _max_vel(given: float | None, highest: float) -> float:
    # A bound that the model itself was rounded from is let pass: float32 holds seven digits.
    if given is not None and highest > given * (1 + 1e-6):
        rule = f"the model's largest speed is {highest:.6g}, so steps could be unstable"
        raise InvalidValueError("max_vel", given, rule, f"give at least {highest:.6g}, or leave it out")
    return highest if given is None else float(given)


def _cells(
    setup_: Setup, grid: Domain, sources: Cells, receivers: Cells, shots: int, batched: bool
) -> dict[str, NDArray[np.int64]]:
    """Flat indices of sources and receivers, into the fields of all shots and into the parameter grids."""
    found = {}
    origins = np.array([axis.origin for axis in grid.axes])
    shot = np.arange(shots)[:, None] * grid.cells
    prefixes = {f"cells_{s.name}": sources for s in setup_.forward.sources}
    prefixes |= {f"receivers_{r.name}": receivers for r in setup_.forward.records}
    for name, locations in prefixes.items():
        flat = np.ravel_multi_index(tuple(np.moveaxis(locations + origins, -1, 0)), grid.shape)
        found[name] = (flat + shot).reshape(-1)
        found[f"model_{name}"] = (flat + (shot if batched else 0)).reshape(-1)
    return found
