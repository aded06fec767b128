"""Going on from a state: what ``initial_state`` and the wavefield arguments mean for a run."""

from typing import Any

import torch

from numbawave.engine.run import Run
from numbawave.errors import InvalidTypeError, InvalidValueError
from numbawave.survey.time_step import TimeStep
from numbawave.torch_bridge.arrays import alike
from numbawave.torch_bridge.options import Options
from numbawave.torch_bridge.padding import zero_pad
from numbawave.torch_bridge.result import AuxiliaryState

WAVEFIELDS = {"wavefield": "wavefield_0", "wavefield_previous": "wavefield_m1"}
"""Public names of the state's wavefields."""


def state_of(options: Options) -> dict[str, Any]:
    """The parts of ``initial_state`` by public name."""
    given = options.initial_state
    if given is None:
        return {}
    parts = dict(getattr(given, "final_state", given))
    unknown = set(parts) - {*WAVEFIELDS.values(), "auxiliary_state"}
    if unknown:
        raise InvalidValueError("initial_state", sorted(unknown), "holds wavefield_0, wavefield_m1 and auxiliary_state",
                                "pass what an earlier call returned")  # fmt: skip
    for name in WAVEFIELDS.values():
        if name in parts and getattr(options, name) is not None:
            raise InvalidValueError(name, "given twice", "it is in initial_state too", "give it in one place")
    return parts


def memory_of(options: Options) -> AuxiliaryState | None:
    """The layers' memory in ``initial_state``, None without."""
    memory = state_of(options).get("auxiliary_state")
    if memory is not None and not isinstance(memory, AuxiliaryState):
        raise InvalidTypeError("initial_state", type(memory).__name__, "auxiliary_state is what an earlier call returned",
                               "pass out or out.final_state")  # fmt: skip
    return memory


def layout_of(run: Run, widths: tuple[tuple[int, int], ...], time: TimeStep) -> dict[str, Any]:
    """What must be the same in a run that goes on."""
    return {
        "equation": run.setup.forward.name,
        "shape": tuple(axis.cells for axis in run.grid.axes),
        "pml_width": widths,
        "accuracy": run.setup.accuracy,
        "internal_dt": time.internal_dt,
        "shots": run.shots,
    }


def check_layout(memory: AuxiliaryState, layout: dict[str, Any]) -> None:
    """Refuse to go on from a run that was laid out differently."""
    for name, value in layout.items():
        if memory.layout[name] != value:
            raise InvalidValueError("initial_state", f"{name} {memory.layout[name]}", f"this call has {name} {value}",
                                    f"go on with the {name} of the run that you continue")  # fmt: skip


def given_state(run: Run, model_name: str, model: torch.Tensor, options: Options) -> dict[str, torch.Tensor]:
    """Initial wavefields and memory variables by the run's names, checked; wavefields with or without their layers."""
    parts, found = state_of(options), {}
    for inner, public in WAVEFIELDS.items():
        value = parts.get(public, getattr(options, public))
        if value is not None:
            found[inner] = alike(public, value, model, model_name)
            _check_shape(public, found[inner], run)
    memory = memory_of(options)
    for name, value in (memory.tensors if memory else {}).items():
        found[name] = alike("initial_state", value, model, model_name)
    return found


def initial_state(run: Run, given: dict[str, torch.Tensor]) -> dict[tuple[str, str], torch.Tensor]:
    """The state that was given, wavefields on the padded grid, by what ``Propagation`` calls it."""
    wavefields = {n: zero_pad(_with_layers(value, run), run.grid) for n, value in given.items() if n in WAVEFIELDS}
    return {("state", name): value for name, value in (given | wavefields).items()}


def _shapes(run: Run) -> tuple[list[int], list[int]]:
    """The shapes of a wavefield without and with layers."""
    axes = run.grid.axes
    return [run.shots, *(axis.cells for axis in axes)], [run.shots, *(axis.stop - axis.first for axis in axes)]


def _check_shape(name: str, value: torch.Tensor, run: Run) -> None:
    bare, layered = _shapes(run)
    if list(value.shape) not in (bare, layered):
        rule = f"must be {bare} or, with layers, {layered}"
        raise InvalidValueError(name, f"shape {list(value.shape)}", rule, "give a value for every cell of every shot")


def _with_layers(value: torch.Tensor, run: Run) -> torch.Tensor:
    """A wavefield on the grid with its layers, zero in them where only the model's grid is given."""
    if list(value.shape) == _shapes(run)[1]:
        return value
    return torch.nn.functional.pad(value, [w for axis in reversed(run.grid.axes) for w in (axis.low, axis.high)])
