"""What a call returns: records, the final state, and what really ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from numbawave.errors import InvalidTypeError
from numbawave.planning.ledger import Ledger


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
        The levers; see ``Options``.
    storage_error : str
        What the coding of history guarantees; empty without one.
    history_bytes : int
        The history of a segment as values; 0 without.
    state_bytes : int
        What the wavefields and the layers' memory take.
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
    storage_mode: str
    storage_error: str
    history_bytes: int
    state_bytes: int
    ledger: Ledger = field(repr=False, compare=False)


@dataclass(frozen=True)
class RunInfo(CallInfo):
    """What really ran.

    Attributes
    ----------
    kept_bytes : int
        What was kept of the history of a segment; 0 without.
    seconds : float
        Of the forward run, compilation included.
    """

    kept_bytes: int
    seconds: float


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
