"""The door to CUDA: the package that provides it, the decorator that printed kernels use, devices and arrays."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from numbawave.backends import simulated
from numbawave.codegen.module_cache import on_disk
from numbawave.errors import BackendError

PACKAGES = {"numba_cuda": "numba.cuda", "numba_cuda_mlir": "numba_cuda_mlir.cuda"}
"""The module that holds CUDA, by the package that provides it: the value of ``NUMBAWAVE_CUDA``."""

LEGACY = 1
"""The driver's name for the default stream."""

LOADED: set[tuple[str, int | None]] = set()
"""Printed modules whose kernels were launched, and so compiled and loaded, on a device."""


def _package() -> Any:
    provider = os.environ.get("NUMBAWAVE_CUDA", "numba_cuda")
    if provider not in PACKAGES:
        raise BackendError("NUMBAWAVE_CUDA", provider, f"is one of {', '.join(PACKAGES)}",
                           "set it to one of these, or unset it")  # fmt: skip
    try:
        if not simulated():
            importlib.import_module(provider)  # Numba has a numba.cuda of its own, which these kernels do not run with
        return importlib.import_module(PACKAGES[provider])
    except ImportError as error:
        remedy = 'pip install "numbawave[cuda13]", or "numbawave[cuda12]" for an older driver'
        raise BackendError("backend", "cuda", f"needs {provider}, which cannot be imported ({error})", remedy) from error


def _warnings(package: str) -> list[type[Warning]]:
    """What Numba and the package warn of when a kernel is launched in few blocks; each has classes of its own."""
    found = []
    for module in ("numba.core.errors", f"{package}.core.errors"):
        with suppress(ImportError):
            errors = importlib.import_module(module)
            names = ("NumbaPerformanceWarning", "NumbaDebugInfoWarning")
            found += [getattr(errors, name) for name in names if hasattr(errors, name)]
    return found


cuda = _package()
WARNINGS = _warnings(cuda.__name__)


def kernel(function: Callable[..., Any], registers: int | None = None) -> Any:
    """A kernel of a printed module: compiled when first launched, for the device at hand.

    Parameters
    ----------
    function : function
    registers : int, optional
        What a thread may have at most.
    """
    options = {"max_registers": registers} if registers and not simulated() else {}
    if not simulated() and on_disk(function.__code__.co_filename):
        options["cache"] = True
    return cuda.jit(**options)(function)


def limited(registers: int) -> Callable[[Callable[..., Any]], Any]:
    """The same as a decorator with a limit."""
    return partial(kernel, registers=registers)


def _instruction(text: str) -> Any:
    """A function of kernels that is some lines of machine code; None where the package lets no one write these."""
    with suppress(ImportError):
        types = importlib.import_module(f"{cuda.__name__}.types")
        ir = importlib.import_module("llvmlite.ir")

        @importlib.import_module(f"{cuda.__name__}.extending").intrinsic
        def instruction(typing: Any) -> Any:
            def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                kind = ir.FunctionType(ir.VoidType(), [])
                builder.call(ir.InlineAsm(kind, text, "~{memory}", side_effect=True), [])
                return context.get_dummy_value()

            return types.none(), code

        return instruction
    return None


begin = None if simulated() else _instruction("griddepcontrol.wait; griddepcontrol.launch_dependents;")
"""What a kernel that may start early begins with: it waits there, and lets the next one start early in its turn."""

EARLY = (9, 0)
"""The compute capability from which kernels may."""


def starts_early(device: int | None) -> bool:
    """Whether kernels may on a device."""
    return device is not None and begin is not None and tuple(cuda.gpus[device].compute_capability) >= EARLY


@contextmanager
def on(device: int | None) -> Iterator[None]:
    """Make a device current for this thread's CUDA calls, and leave what was current as it was."""
    if device is None or _is_current(device):
        yield
    else:
        with cuda.gpus[device]:
            yield


def _is_current(device: int) -> bool:
    """Whether a device's primary context is this thread's; to ask takes less time than to change to it and back."""
    from cuda.bindings import driver

    status, context = driver.cuCtxGetCurrent()
    return not status and int(context) == int(cuda.gpus[device].get_primary_context().handle)


@contextmanager
def quiet() -> Iterator[None]:
    """Launch kernels without a package's warnings, which are the user's own kernels' affair."""
    with warnings.catch_warnings():
        for category in WARNINGS:
            warnings.simplefilter("ignore", category)
        yield


class Converted(cuda.In):  # type: ignore[name-defined]
    """A device array that becomes a kernel's argument once, and not again at every launch."""

    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.argument = _simulated(array) if isinstance(array, np.ndarray) else super().to_device([])

    def to_device(self, retr: list[Any], stream: Any = 0) -> Any:
        """What a launch asks for."""
        return self.argument


def address(array: Any) -> int:
    """Where an array begins."""
    return int(array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data_ptr())


def device_view(array: Any) -> Any:
    """An array as kernels take it."""
    flat = array.reshape(-1)
    return Converted(flat if isinstance(array, np.ndarray) else cuda.as_cuda_array(flat.detach(), sync=False))


def _simulated(array: Any) -> Any:
    """A host's array as the simulator's kernels see it: itself, where a launch would copy it there and back."""
    return importlib.import_module(f"{cuda.__name__}.simulator.cudadrv.devicearray").FakeCUDAArray(array)


def stream_of(space: Any) -> Any:
    """The stream on which a run's caller works, as kernels are launched on it."""
    return 0 if simulated() else cuda.external_stream(space.stream or LEGACY)
