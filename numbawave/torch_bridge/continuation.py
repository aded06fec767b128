"""Going on from a state: what ``initial_state`` and the wavefield arguments mean for a run."""

from typing import Any

import torch

from numbawave.engine.run import Run
from numbawave.errors import InvalidTypeError, InvalidValueError
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


def check_layout(memory: AuxiliaryState, layout: dict[str, Any]) -> None:
    """Refuse to go on from a run that was laid out differently."""
    for name, value in layout.items():
        if memory.layout[name] != value:
            raise InvalidValueError("initial_state", f"{name} {memory.layout[name]}", f"this call has {name} {value}",
                                    f"go on with the {name} of the run that you continue")  # fmt: skip


def initial_state(run: Run, model_name: str, model: torch.Tensor, options: Options) -> dict[tuple[str, str], torch.Tensor]:
    """Initial wavefields and memory variables on the padded grid, by what ``Propagation`` calls them."""
    parts, found = state_of(options), {}
    for inner, public in WAVEFIELDS.items():
        value = parts.get(public, getattr(options, public))
        if value is not None:
            value = alike(public, value, model, model_name)
            found["state", inner] = zero_pad(_with_layers(public, value, run), run.grid)
    memory = memory_of(options)
    for name, value in (memory.tensors if memory else {}).items():
        found["state", name] = alike("initial_state", value, model, model_name)
    return found


def _with_layers(name: str, value: torch.Tensor, run: Run) -> torch.Tensor:
    """A wavefield on the grid with its layers, zero in them where only the model's grid is given."""
    layered = [run.shots, *(axis.stop - axis.first for axis in run.grid.axes)]
    bare = [run.shots, *(axis.cells for axis in run.grid.axes)]
    if list(value.shape) == layered:
        return value
    if list(value.shape) != bare:
        rule = f"must be {bare} or, with layers, {layered}"
        raise InvalidValueError(name, f"shape {list(value.shape)}", rule, "give a value for every cell of every shot")
    return torch.nn.functional.pad(value, [w for axis in reversed(run.grid.axes) for w in (axis.low, axis.high)])
