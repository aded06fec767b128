"""The public calls: every equation as a function and as a module."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from tqdm import tqdm

from numbawave.engine.buffers import state_bytes
from numbawave.engine.shots import batches
from numbawave.equations import EQUATIONS, SCALAR, Equation
from numbawave.errors import InvalidValueError, NonFiniteError
from numbawave.planning.ledger import Ledger
from numbawave.survey.resampling import downsample, upsample
from numbawave.torch_bridge.arrays import give_back
from numbawave.torch_bridge.binding import Bound, bound, signature
from numbawave.torch_bridge.continuation import WAVEFIELDS, initial_state
from numbawave.torch_bridge.frontend import Prepared
from numbawave.torch_bridge.function import Propagation, release
from numbawave.torch_bridge.levers import mask_of, masked
from numbawave.torch_bridge.meter import Meter
from numbawave.torch_bridge.options import Options
from numbawave.torch_bridge.padding import interior, replicate, zero_pad
from numbawave.torch_bridge.result import AuxiliaryState, CallInfo, PropagatorOutput, RunInfo
from numbawave.torch_bridge.search import Choice, choose


def propagate(
    equation: Equation, models: Mapping[str, Any], grid_spacing: Any, dt: float, options: Options
) -> PropagatorOutput:
    """Propagate waves by an equation; ``scalar`` and its like are this call with the equation filled in.

    Parameters
    ----------
    equation : Equation
    models : mapping of str to array
        By name, ``[*grid]`` or ``[shot, *grid]``.
    grid_spacing : float or sequence of float
        Cell size, one or an axis, in the models' unit of length.
    dt : float
        Time step of amplitudes and records.
    options : Options

    Returns
    -------
    PropagatorOutput

    Raises
    ------
    NumbawaveError
        One of its kinds, before any work is done; ``NonFiniteError`` after.
    """
    choice = choose(equation, models, grid_spacing, dt, options)
    prepared, options = choice.prepared, choice.options
    run, started, meter = prepared.run, time.perf_counter(), Meter(prepared.run.space.device)
    inputs = _inputs(equation, prepared, options)
    with tqdm(
        total=run.steps * batches(run), desc=equation.name, unit="step", disable=None if options.progress else True
    ) as bar:
        run.report = bar.update
        outputs = Propagation.apply(run, prepared.wanted, tuple(inputs), *inputs.values())  # type: ignore[no-untyped-call]
        run.report = None
        release(run)
    results = _results(prepared, options, list(outputs))
    seconds, store = time.perf_counter() - started, run.tape.store if run.tape else None
    kept, coding = (store.kept_bytes, store.coding_seconds) if store else (0, 0.0)
    what = vars(call_info(choice, run.ledger))
    info = RunInfo(**what, kept_bytes=kept, coding_seconds=coding, seconds=seconds, measured_bytes=meter.bytes())
    if options.check_output_finite:
        _check_finite(results, info)
    back = give_back(models[equation.models[0].name])
    return PropagatorOutput({n: back(v) if isinstance(v, torch.Tensor) else v for n, v in results.items()}, info)


def _inputs(equation: Equation, prepared: Prepared, options: Options) -> dict[tuple[str, str], torch.Tensor]:
    """Every tensor of the run, by kind and name."""
    run, ratio = prepared.run, prepared.time.step_ratio
    # Grids on nodes follow from the models cell by cell: made before the edges are continued, they take less memory.
    nodes = not any(parameter.at for parameter in run.setup.forward.parameters)
    mask = mask_of(options, tuple(axis.cells for axis in run.grid.axes))
    continued = {name: masked(model, mask) for name, model in prepared.models.items()}
    continued = continued if nodes else {n: replicate(m, run.grid) for n, m in continued.items()}
    grids = equation.grids(continued, prepared.time.internal_dt)
    if nodes:
        grids = {name: replicate(grid, run.grid) for name, grid in grids.items()}
    lead = (run.shots,) if run.batched else ()
    shape = (*lead, *(axis.stop - axis.first for axis in run.grid.axes))
    found = {("parameter", name): zero_pad(grid.expand(shape), run.grid) for name, grid in grids.items()}
    for source in run.setup.forward.sources:
        if prepared.amplitudes is None:
            sample = next(iter(prepared.models.values()))
            found["amplitude", source.name] = sample.new_zeros((run.steps, 0))
            continue
        fine = upsample(prepared.amplitudes, ratio, torch, **options.resampling)
        found["amplitude", source.name] = fine.permute(2, 0, 1).reshape(run.steps, -1)
    return found | initial_state(run, prepared.state)


def _results(prepared: Prepared, options: Options, outputs: list[torch.Tensor]) -> dict[str, Any]:
    """The run's outputs under their public names and in their public shapes."""
    run = prepared.run
    found: dict[str, Any] = {}
    records = [outputs.pop(0) for _ in run.setup.forward.records]
    memory = {}
    for (name, field, _), value in zip(run.setup.state_names, outputs, strict=True):
        if field.slab is None:
            found[WAVEFIELDS.get(name, name)] = interior(value, run.grid)
        else:
            memory[name] = value
    damping = run.damping
    found["auxiliary_state"] = AuxiliaryState(memory, prepared.layout, damping.frequency, damping.max_vel)
    for position, record in enumerate(records):
        samples = record.reshape(run.steps, run.shots, prepared.receivers).permute(1, 2, 0)
        name = "receiver_amplitudes" + ("" if position == 0 else f"_{run.setup.forward.records[position].name}")
        found[name] = downsample(samples, prepared.time.step_ratio, torch, **options.resampling).contiguous()
    return found


def call_info(choice: Choice, ledger: Ledger) -> CallInfo:
    """What a call runs, laid out and with its levers pulled.

    Parameters
    ----------
    choice : Choice
    ledger : Ledger
        The buffers of its run.

    Returns
    -------
    CallInfo
    """
    prepared, options = choice.prepared, choice.options
    expected = choice.candidates[0].seconds if choice.candidates else None
    run, step = prepared.run, prepared.time
    size = run.dtype.itemsize * (run.batch or run.shots)
    history = run.slots * run.setup.channels * run.box.cells * size if prepared.wanted else 0
    model, coding = next(iter(prepared.models.values())), run.storage.compression
    return CallInfo(run.setup.forward.name, len(run.grid.axes), step.dt, step.internal_dt, step.step_ratio, prepared.nt,
                    run.shots, run.setup.accuracy, prepared.widths, run.damping.frequency, run.damping.max_vel,
                    run.real, str(model.device), run.backend.name, options.history, run.batch or run.shots,
                    run.storage.mode, coding.error if coding else "", history, state_bytes(run), choice.levers, expected,
                    ledger)  # fmt: skip


def _check_finite(results: Mapping[str, Any], info: RunInfo) -> None:
    given = {name: value.detach() for name, value in results.items() if isinstance(value, torch.Tensor)}
    # A sum is finite only if its terms are, or overflows: one cheap pass, and a thorough one in case of doubt.
    if bool(torch.isfinite(torch.stack([value.sum() for value in given.values()])).all()):
        return
    for name, value in given.items():
        if not bool(torch.isfinite(value).all()):
            rule = f"results are finite (internal step {info.internal_dt:.3g}, max_vel {info.max_vel:.6g})"
            remedy = "look at the model and the amplitudes, or give a larger max_vel so that steps are smaller"
            raise NonFiniteError(name, "NaN or infinity", rule, remedy)


def _propagator(equation: Equation) -> Callable[..., PropagatorOutput]:
    """An equation as a function."""

    def call(*arguments: Any, **keywords: Any) -> PropagatorOutput:
        return propagate(*bound(equation, *arguments, **keywords))

    call.__name__ = call.__qualname__ = equation.name
    call.__module__ = __name__
    call.__signature__ = signature(equation)  # type: ignore[attr-defined]
    call.__doc__ = _documentation(equation)
    return call


def _documentation(equation: Equation) -> str:
    models = "".join(
        f"{m.name} : tensor [*grid] or [shot, *grid]\n    {m.meaning}, in {m.unit} or any consistent unit;"
        " one for all shots or one a shot. Differentiable.\n"
        for m in equation.models
    )
    shared = inspect.cleandoc(Options.__doc__ or "").split("----------\n", 1)[1]
    return (
        f"Propagate waves by the {equation.name} equation.\n\nParameters\n----------\n{models}"
        "grid_spacing : float or sequence of float\n    Cell size, one or an axis, axes slowest first.\n"
        "dt : float\n    Time step of amplitudes and records; the internal one is divided until it is stable.\n"
        f"{shared}\nReturns\n-------\nPropagatorOutput\n    receiver_amplitudes [shot, receiver, time]; wavefield_0 and"
        " wavefield_m1 [shot, *grid with layers];\n    auxiliary_state; info. NumPy arrays where the model was one,"
        " without gradients.\n\nRaises\n------\nNumbawaveError\n    One of its kinds, naming the argument, its value,"
        " the rule and the remedy.\n"
    )


scalar = _propagator(SCALAR)


class Scalar(torch.nn.Module):
    """The scalar equation as a module that holds its model and grid.

    Parameters
    ----------
    v : torch.Tensor [*grid] or [shot, *grid]
        Wave speed.
    grid_spacing : float or sequence of float
    v_requires_grad : bool, optional
        Whether the speed is a parameter to be optimised.
    **options
        Options of every call, see ``scalar``; ``forward`` may override them.
    """

    def __init__(self, v: torch.Tensor, grid_spacing: Any, v_requires_grad: bool = False, **options: Any) -> None:
        super().__init__()
        Options.of(options)
        self.v = torch.nn.Parameter(v, requires_grad=v_requires_grad)
        self.grid_spacing, self.options = grid_spacing, options

    def forward(self, dt: float, **options: Any) -> PropagatorOutput:
        """Propagate; see ``scalar``."""
        return propagate(*self.bound(dt, **options))

    def bound(self, dt: float, **options: Any) -> Bound:
        """What ``forward`` runs."""
        return bound(SCALAR, self.v, self.grid_spacing, dt, **(self.options | options))


def kernel_source(
    equation: str = "scalar",
    ndim: int = 2,
    *,
    accuracy: int = 4,
    dtype: str = "float32",
    direction: str = "forward",
    gradient: bool = True,
    absorbing: str | None = None,
    backend: str = "cpu",
) -> str:
    """The text of the kernels that run.

    Parameters
    ----------
    equation : str
        A name from ``numbawave.equations.EQUATIONS``.
    ndim : int
    accuracy : {2, 4, 6, 8}
    dtype : {"float32", "float64"}
    direction : {"forward", "adjoint"}
    gradient : bool
        Whether history for the model's gradient is kept or read.
    absorbing : str, optional
        The axes with absorbing layers, such as "zx"; all unless given.
    backend : {"cpu", "cuda"}
        For "cuda" the kernels of a grid that is large enough for one a region.

    Returns
    -------
    str
        A Python module.

    Raises
    ------
    InvalidValueError
        If a name is unknown.
    """
    from numbawave.codegen import loop_cpu, region, step_cuda
    from numbawave.engine.setup import setup
    from numbawave.grid.axes import axis_names

    for argument, value, known in (
        ("equation", equation, sorted(EQUATIONS)),
        ("dtype", dtype, ["float32", "float64"]),
        ("direction", direction, ["forward", "adjoint"]),
        ("backend", backend, ["cpu", "cuda"]),
    ):
        if value not in known:
            raise InvalidValueError(argument, value, f"is one of {', '.join(known)}", "choose one of these")
    axes = frozenset(axis_names(ndim) if absorbing is None else absorbing)
    if not axes <= set(axis_names(ndim)):
        raise InvalidValueError("absorbing", absorbing, f"holds axes of {', '.join(axis_names(ndim))}", "choose from these")
    found = setup(EQUATIONS[equation], ndim, accuracy, axes)
    history = frozenset(["kept"] if gradient else [])
    if backend == "cuda":
        regions = [each.name for each in region.regions(axis_names(ndim), axes, split=True)]
        manner = step_cuda.Manner(split=True, shared=False, looped=False, ticker=regions[-1])
        return step_cuda.source(found, direction, history, dtype, manner)
    return loop_cpu.source(found, direction, history, dtype)
