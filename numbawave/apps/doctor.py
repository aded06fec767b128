"""Whether this machine has what numbawave needs, and the one thing to do about what it lacks."""

import ctypes
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

import numbawave

from ..codegen.module_cache import cache_folder
from ..errors import NumbawaveError

Check = Callable[[str], "Finding"]
OK, UNNEEDED, MEND = "OK", "--", "MEND"
WANTED = {"Python": ">=3.11,<3.14", "numpy": ">=1.26,<2.5", "numba": ">=0.61", "torch": ">=2.4", "blosc2": ">=2.6"}
"""What an installation asks for."""
TOOLKIT = {
    12: ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvrtc-cu12", "nvidia-nvjitlink-cu12", "nvidia-cuda-runtime-cu12"),
    13: ("nvidia-nvvm", "nvidia-cuda-nvrtc", "nvidia-nvjitlink", "nvidia-cuda-runtime"),
}
"""The wheels that numba-cuda compiles and links with, by the major version of CUDA and of cuda-bindings."""
LOAD = "import numba.cuda, cuda.pathfinder as p; [p.load_nvidia_dynamic_lib(n) for n in ('nvvm', 'nvrtc', 'nvJitLink')]"
CAPABILITY, TOLERANCE, NO_DEVICE = (7, 5), 1e-12, 100


@dataclass(frozen=True)
class Finding:
    """What a check found: OK, -- for what is not needed here, or MEND with the one command or act that mends it."""

    title: str
    state: str
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        mend = f"; to mend: {self.remedy}" if self.state == MEND else ""
        return f"{self.state:4}  {self.title:16}  {' '.join(self.found.split())}{mend}"


def examine(say: Callable[[str], object]) -> int:
    """Run every check.

    Parameters
    ----------
    say : callable
        Takes each line as soon as it is known.

    Returns
    -------
    int
        How many things need mending.
    """
    n_mend = 0
    for title, check in (CHECKS | _gpu_checks()).items():
        finding = _examined(title, check)
        n_mend += finding.state == MEND
        say(str(finding))
    say(f"{n_mend} thing{'s' * (n_mend > 1)} to mend" if n_mend else "everything is in order")
    return n_mend


def _examined(title: str, check: Check) -> Finding:
    """A check's finding; an exception is one too."""
    try:
        return check(title)
    except NumbawaveError as error:
        return Finding(title, MEND, str(error).removesuffix(f" Remedy: {error.remedy}."), error.remedy)
    except Exception as error:
        name = title if title in WANTED else "numba"
        install = f'pip install --force-reinstall "{name}{WANTED[name]}"'
        remedy = install if isinstance(error, ImportError | OSError) else "report this line"
        return Finding(title, MEND, f"{type(error).__name__}: {error}", remedy)


def _judged(title: str, good: bool, found: str, remedy: str) -> Finding:
    return Finding(title, OK, found) if good else Finding(title, MEND, found, remedy)


def _gpu_checks() -> dict[str, Check]:
    """Two checks for each GPU that torch can use."""
    table: dict[str, Check] = {}
    for device in [f"cuda:{index}" for index in range(_torch_cuda()[1])]:
        table[f"GPU {device}"] = partial(_gpu, device=device)
        table[f"self-test {device}"] = partial(_self_test, device=device, backend="cuda", judge="cpu")
    return table or {"GPU": lambda title: Finding(title, UNNEEDED, "none that torch can use")}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _driver() -> tuple[str, int, int]:
    """The newest CUDA that the driver runs, if there is one, how many GPUs it shows, and its error or 0."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return "", 0, 0
    cuda, gpus = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(cuda))
    error = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(gpus))
    return f"{cuda.value // 1000}.{cuda.value % 1000 // 10}", gpus.value, 0 if error == NO_DEVICE else error


def _torch_cuda() -> tuple[str, int]:
    """The CUDA that torch is built for, if any, and how many GPUs it can use."""
    try:
        import torch
    except (ImportError, OSError):
        return "", 0
    with warnings.catch_warnings(action="ignore"):  # what torch warns of is a finding
        seen = torch.cuda.device_count() if torch.version.cuda and torch.cuda.is_available() else 0
    return torch.version.cuda or "", seen


def _install_cuda() -> str:
    """Numba-cuda with the toolkit of torch's CUDA, or an older one that the driver runs."""
    newest = min(_numbers(version) for version in (_torch_cuda()[0], _driver()[0]) if version)
    return f'pip install "numbawave[cuda{13 if newest >= (13,) else 12}]"'


def _package(title: str) -> Finding:
    version, wanted = sys.version.split()[0] if title == "Python" else _version(title), WANTED[title]
    if not version and not wanted:
        return Finding(title, UNNEEDED, "absent, optional")
    bounds = re.findall(r"(>=|<)([\d.]+)", wanted)
    good = version and all((_numbers(version) >= _numbers(bound)) == (sign == ">=") for sign, bound in bounds)
    remedy = "python3.13 -m venv .venv" if title == "Python" else f'pip install "{title}{wanted}"'
    return _judged(title, bool(good), f"{version or 'absent'}{wanted and ', wanted ' + wanted}", remedy)


def _torch(title: str) -> Finding:
    import torch

    package, build, (newest, gpus, _) = _package(title), torch.version.cuda or "", _driver()
    found = f"{package.found}, built for {f'CUDA {build}' if build else 'the CPU'}"
    if package.state == MEND or not gpus:
        return _judged(title, package.state == OK, found, package.remedy)
    seen, newer = _torch_cuda()[1], _numbers(build)[:1] > _numbers(newest)[:1]  # a newer minor version runs
    mended = "update the NVIDIA driver to one that runs" if build else "install a torch built for"
    return _judged(title, seen > 0 and not newer, f"{found}, GPUs: {seen} of {gpus}", f"{mended} CUDA {build or newest}")


def _nvidia_driver(title: str) -> Finding:
    newest, gpus, error = _driver()
    found = f"runs CUDA up to {newest}, GPUs: {gpus}{f', error {error}' if error else ''}" if newest else "none here"
    remedy = "restart the machine" if error else "update the NVIDIA driver to one that runs CUDA 13"
    finding = _judged(title, not error and _numbers(newest) >= (12,), found, remedy)
    return finding if gpus or error else Finding(title, UNNEEDED, found)


def _numba_cuda(title: str) -> Finding:
    version, bindings, (newest, gpus, _) = _version(title), _version("cuda-bindings"), _driver()
    major = next(iter(_numbers(bindings)), 0)
    lacking = [wheel for wheel in TOOLKIT.get(major, ()) if _numbers(_version(wheel))[:1] != (major,)]
    without = f", no wheel of {', '.join(lacking)}" if lacking else ""
    found = f"{version or 'absent'}, cuda-bindings {bindings or 'absent'}{without}"
    if not gpus:
        return Finding(title, UNNEEDED, f"{found}; no GPU here")
    if not version or major not in TOOLKIT or (major,) > _numbers(newest):
        return Finding(title, MEND, f"{found}, the driver runs CUDA up to {newest}", _install_cuda())
    # In a process of its own, for this loads CUDA. A toolkit without wheels may be there: conda's, or the system's.
    ended = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True)
    if ended.returncode == 0:
        return Finding(title, OK, found)
    said = ended.stderr.strip() or f"exit status {ended.returncode}"
    return Finding(title, MEND, f"{found}: {said.splitlines()[-1]}", _install_cuda())


def _cache(title: str) -> Finding:
    try:
        folder = cache_folder().absolute()
        place = next(path for path in (folder, *folder.parents) if path.exists())
        with tempfile.TemporaryFile(dir=place):
            return Finding(title, OK, str(folder) if place == folder else f"{folder}, can be made")
    except (OSError, RuntimeError) as error:  # the latter where there is no home
        return Finding(title, MEND, str(error), "set NUMBAWAVE_CACHE_DIR=... to a folder that can be written")


def _gpu(title: str, device: str) -> Finding:
    import torch

    card = torch.cuda.get_device_properties(device)
    found = f"{card.name}, {card.total_memory / 2**30:.0f} GiB, compute capability {card.major}.{card.minor}, wanted >=7.5"
    return _judged(title, (card.major, card.minor) >= CAPABILITY, found, "set CUDA_VISIBLE_DEVICES=... to the other GPUs")


def _self_test(title: str, device: str = "cpu", backend: str = "cpu", judge: str = "reference") -> Finding:
    pairs = zip(_propagate(device, backend), _propagate("cpu", judge), strict=True)
    off = [float((found - expected).norm() / expected.norm()) for found, expected in pairs]
    found = f"off backend {judge} by {off[0]:.0e} in the record, {off[1]:.0e} in the gradient"
    remedy = f"delete {cache_folder()}, and report this line if it comes again"
    return _judged(title, all(error < TOLERANCE for error in off), found, remedy)


def _propagate(device: str, backend: str) -> list[Any]:
    """Record and gradient of one small shot."""
    import torch

    speed = torch.linspace(1500.0, 2500.0, 192, dtype=torch.float64).reshape(12, 16).to(device).requires_grad_()
    amplitudes = torch.linspace(0.0, 6.0, 40, dtype=torch.float64).sin().reshape(1, 1, 40).to(device)
    source, receiver = (torch.tensor([[[2, x]]], device=device) for x in (3, 6))
    options = {"source_locations": source, "receiver_locations": receiver, "pml_width": 4, "backend": backend}
    record = numbawave.scalar(speed, 5.0, 0.001, source_amplitudes=amplitudes, **options).receiver_amplitudes
    record.square().sum().backward()
    return [value.cpu() for value in (record.detach(), speed.grad) if value is not None]


CHECKS: dict[str, Check] = {
    **dict.fromkeys(("Python", "numpy", "numba", "blosc2"), _package),
    "NVIDIA driver": _nvidia_driver,
    "torch": _torch,
    "numba-cuda": _numba_cuda,
    "cache folder": _cache,
    "self-test cpu": _self_test,
}
