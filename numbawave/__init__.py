"""Wave propagation, its gradients and full-waveform inversion, in pure Python that Numba compiles.

Importing this package starts nothing: each name below is fetched from its room when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numbawave import equations
    from numbawave.errors import (
        BackendError,
        DeviceMemoryError,
        EquationError,
        InsufficientMemoryError,
        InvalidTypeError,
        InvalidValueError,
        NonFiniteError,
        NumbawaveError,
        RankError,
        StorageError,
    )
    from numbawave.history.codecs.compression import Compression
    from numbawave.planning.budget import Budget
    from numbawave.survey.geometry import cell
    from numbawave.torch_bridge import checkpointing, wavelets
    from numbawave.torch_bridge.estimate import MemoryEstimate, estimate_memory
    from numbawave.torch_bridge.plan import plan
    from numbawave.torch_bridge.propagators import Scalar, kernel_source, scalar
    from numbawave.torch_bridge.result import PropagatorOutput
    from numbawave.torch_bridge.snapshot import snapshots

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "Budget",
    "Compression",
    "DeviceMemoryError",
    "EquationError",
    "InsufficientMemoryError",
    "InvalidTypeError",
    "InvalidValueError",
    "MemoryEstimate",
    "NonFiniteError",
    "NumbawaveError",
    "PropagatorOutput",
    "RankError",
    "Scalar",
    "StorageError",
    "cell",
    "checkpointing",
    "equations",
    "estimate_memory",
    "kernel_source",
    "plan",
    "scalar",
    "snapshots",
    "wavelets",
]

_HOMES = {
    "BackendError": "numbawave.errors",
    "Budget": "numbawave.planning.budget",
    "Compression": "numbawave.history.codecs.compression",
    "DeviceMemoryError": "numbawave.errors",
    "EquationError": "numbawave.errors",
    "InsufficientMemoryError": "numbawave.errors",
    "InvalidTypeError": "numbawave.errors",
    "InvalidValueError": "numbawave.errors",
    "MemoryEstimate": "numbawave.torch_bridge.estimate",
    "NonFiniteError": "numbawave.errors",
    "NumbawaveError": "numbawave.errors",
    "PropagatorOutput": "numbawave.torch_bridge.result",
    "RankError": "numbawave.errors",
    "Scalar": "numbawave.torch_bridge.propagators",
    "StorageError": "numbawave.errors",
    "cell": "numbawave.survey.geometry",
    "checkpointing": "numbawave.torch_bridge.checkpointing",
    "equations": "numbawave.equations",
    "estimate_memory": "numbawave.torch_bridge.estimate",
    "kernel_source": "numbawave.torch_bridge.propagators",
    "plan": "numbawave.torch_bridge.plan",
    "scalar": "numbawave.torch_bridge.propagators",
    "snapshots": "numbawave.torch_bridge.snapshot",
    "wavelets": "numbawave.torch_bridge.wavelets",
}

_MODULES = {"checkpointing", "equations", "wavelets"}
"""Names that are their homes themselves."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'numbawave' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value = home if name in _MODULES else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
