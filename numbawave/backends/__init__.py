"""What runs programs: NumPy as the oracle, Numba on the CPU and on CUDA devices; each is imported when it is asked for."""

import os
from collections.abc import Callable

from numbawave.backends.base import Backend


def _reference() -> Backend:
    from numbawave.backends.reference import Reference

    return Reference()


def _cpu() -> Backend:
    from numbawave.backends.cpu import Cpu

    return Cpu()


def _cuda() -> Backend:
    from numbawave.backends.cuda_steps import Cuda

    return Cuda()


def simulated() -> bool:
    """Whether CUDA kernels run in Numba's simulator, on arrays of the host."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def local_size() -> int:
    """Processes that share this machine, as ``torchrun`` says it; 1 where nothing does."""
    said = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, int(said)) if said.isdigit() else 1


BACKENDS: dict[str, Callable[[], Backend]] = {"cpu": _cpu, "cuda": _cuda, "reference": _reference}
"""Every backend by name, sorted."""
