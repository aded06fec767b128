"""What a call returns: records, the final state, and what really ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from numbawave.errors import InvalidTypeError
from numbawave.planning.ledger import Ledger, Moment, Place
from numbawave.planning.memory import Memory
from numbawave.planning.pool import held
from numbawave.planning.seconds import Seconds


@dataclass(frozen=True)
class AuxiliaryState:
    """The absorbing layers' memory between two steps, to be passed on in ``initial_state``.

    Attributes
    ----------
    tensors : dict of str to torch.Tensor
        Memory variables, kept in the layers alone; their layout is internal.
    layout : dict
        What a run that goes on from here must share: equation, shape, widths, accuracy, internal step.
    pml_freq, max_vel : float
        What the layers were made for; taken over by a run that goes on unless it says otherwise.
    """

    tensors: dict[str, torch.Tensor]
    layout: dict[str, Any]
    pml_freq: float
    max_vel: float


@dataclass(frozen=True)
class CallInfo:
    """What a call runs, as known before it starts.

    Attributes
    ----------
    equation : str
    ndim : int
    dt, internal_dt : float
        The caller's step and the one that was taken.
    step_ratio : int
        Internal steps in one of the caller's.
    nt, shots : int
    accuracy : int
    pml_width : tuple of (int, int)
        Cells at the low and high face of each axis.
    pml_freq, max_vel : float
        Given or inferred.
    dtype, device, backend : str
    history, storage_mode : str
        Levers; see ``Options``.
    shot_batch : int
        Shots that run together.
    storage_error : str
        What the coding of history guarantees; empty without one.
    history_bytes : int
        The history of a segment of a batch of shots, as values; 0 without.
    state_bytes : int
        What the wavefields and the layers' memory take.
    chosen : dict
        Levers that ``memory`` chose for the call, which left them as they are.
    expected : Seconds, optional
        The times that they were chosen for; None where none had to be compared.
    ledger : Ledger
        Every buffer that the call and its backward pass take, declared before it started; ``print`` shows a table.
    """

    equation: str
    ndim: int
    dt: float
    internal_dt: float
    step_ratio: int
    nt: int
    shots: int
    accuracy: int
    pml_width: tuple[tuple[int, int], ...]
    pml_freq: float
    max_vel: float
    dtype: str
    device: str
    backend: str
    history: str
    shot_batch: int
    storage_mode: str
    storage_error: str
    history_bytes: int
    state_bytes: int
    chosen: dict[str, Any]
    expected: Seconds | None
    ledger: Ledger = field(repr=False, compare=False)

    @property
    def memory(self) -> Memory:
        """The most that the call and its backward pass hold at once, by the ledger."""
        return Memory.of(self.ledger, self._on_device)

    @property
    def planned_bytes(self) -> int:
        """What the call itself, without its backward pass, holds where the models lie, by the ledger."""
        if self._on_device:
            return held(self.ledger)[Moment.FORWARD]
        places: tuple[Place, ...] = ("device", "host", "pinned")
        return sum(self.ledger.bytes(place, Moment.FORWARD) for place in places)

    @property
    def _on_device(self) -> bool:
        return self.device != "cpu"


@dataclass(frozen=True)
class RunInfo(CallInfo):
    """What really ran.

    Attributes
    ----------
    kept_bytes : int
        What was kept of the history of a segment; 0 without, and where shots run in batches, whose history comes later.
    coding_seconds : float
        What threads of the host took to compress that, all together; 0 without a codec. They run while steps go on.
    seconds : float
        Of the forward run, compilation included.
    measured_bytes : int, optional
        The most that it held above what was there before, where the models lie: on a device as PyTorch's allocator counts,
        on the host as the system counts this process, compiled code included. None where the peak stayed below an earlier
        one of the process: to see it, its statistics would have to be reset, and these are the user's.
    """

    kept_bytes: int
    coding_seconds: float
    seconds: float
    measured_bytes: int | None


class PropagatorOutput(tuple[Any, ...]):
    """Results by name, ``out.receiver_amplitudes``, and as a tuple that ends with the records, ``out[-1]``.

    ``out.info`` says what ran; ``out.final_state`` holds what ``initial_state`` takes.
    """

    info: RunInfo
    names: tuple[str, ...]

    def __new__(cls, values: Mapping[str, Any], info: RunInfo | None = None) -> PropagatorOutput:
        """Results in order, and what ran."""
        if info is None:
            rule = "results of several devices cannot be joined, as torch.nn.DataParallel does, but their records can"
            remedy = "wrap the module before: DataParallel(numbawave.apps.ddp.Records(module))"
            raise InvalidTypeError("PropagatorOutput", "without info", rule, remedy)
        self = super().__new__(cls, values.values())
        self.info, self.names = info, tuple(values)
        return self

    def __getattr__(self, name: str) -> Any:
        names = self.__dict__.get("names", ())
        if name in names:
            return self[names.index(name)]
        raise AttributeError(f"the output has no {name!r}; it has {', '.join(names)}, final_state and info")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.as_dict(), self.info)

    def as_dict(self) -> dict[str, Any]:
        """Results by name."""
        return dict(zip(self.names, self, strict=True))

    @property
    def final_state(self) -> dict[str, Any]:
        """The part that ``initial_state`` of a later call takes."""
        return {name: value for name, value in self.as_dict().items() if not name.startswith("receiver_")}

    def _shown(self) -> Iterator[str]:
        for name, value in self.as_dict().items():
            yield f"{name}={tuple(value.shape) if hasattr(value, 'shape') else type(value).__name__}"

    def __repr__(self) -> str:
        return f"PropagatorOutput({', '.join(self._shown())})"
