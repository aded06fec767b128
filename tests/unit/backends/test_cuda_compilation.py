"""Kernels compiled by workers: what they leave on the disk is what a launch looks for, and what fails is left undone."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from numbawave.backends import simulated
from numbawave.codegen.module_cache import load

cuda = pytest.importorskip("numba.cuda", reason="needs the extra numbawave[cuda13]")
pytestmark = pytest.mark.skipif(simulated(), reason="the simulator compiles nothing")
KERNELS = '''"""Two kernels."""

from numbawave.backends.cuda import cuda, kernel


@kernel
def double(field, n):
    i = cuda.threadIdx.x
    if i < n:
        field[i] *= field[i] + field[i]


@kernel
def triple(field, n):
    i = cuda.threadIdx.x
    if i < n:
        field[i] = field[i] + field[i] + field[i]
'''


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A device that can be asked what it is, and nothing else; kernels are made for it, and not loaded."""
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import devices

    device = SimpleNamespace(compute_capability=(8, 0), id=0)
    monkeypatch.setattr(devices, "get_context", lambda *_: SimpleNamespace(device=device))
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: device)
    monkeypatch.setattr(cuda, "get_current_device", lambda: device)
    monkeypatch.setattr(dispatcher._Kernel, "bind", lambda kernel: kernel._codelibrary.get_cubin())
    return device


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    from numbawave.backends import cuda_compilation

    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cuda_compilation.Worker, "waiting", [])
    monkeypatch.setattr(cuda_compilation, "START", 1)
    monkeypatch.setattr(cuda_compilation, "_cores", lambda: 2)
    yield load("twins", f"{KERNELS}# {tmp_path}\n")
    cuda_compilation._end_all()


def launches(module: ModuleType) -> list[SimpleNamespace]:
    from numba.cuda import types

    given = (types.float32[::1], types.uint64)
    return [SimpleNamespace(kernel=kernel, types=given) for kernel in (module.double, module.triple)]


def test_a_worker_leaves_on_the_disk_what_a_launch_then_loads(module: ModuleType, device: SimpleNamespace) -> None:
    from numbawave.backends.cuda_compilation import _compiled, compile_kernels

    wanted = launches(module)
    assert not any(_compiled(launch.kernel, launch.types) for launch in wanted)
    compile_kernels(module, wanted)
    assert all(_compiled(launch.kernel, launch.types) for launch in wanted)
    here = [launch for launch in wanted if launch.kernel.overloads]
    assert len(here) == 1, "one of two processes compiled each kernel"
    for launch in wanted:
        kernel = launch.kernel.compile(launch.types)
        assert list(kernel.library._cubin_cache) == [(8, 0, "")]
        assert sum(launch.kernel.stats.cache_hits.values()) == (launch not in here)
    device.compute_capability = (9, 0)
    assert not any(_compiled(launch.kernel, launch.types) for launch in wanted), "another device needs its own"


def test_a_worker_stays_for_the_next_module_and_not_for_long(
    module: ModuleType, device: SimpleNamespace, tmp_path: Path
) -> None:
    from numbawave.backends.cuda_compilation import Worker, _compiled, compile_kernels

    compile_kernels(module, launches(module))
    (worker,) = Worker.waiting
    other = load("twins", f"{KERNELS}# others of {tmp_path}\n")
    compile_kernels(other, launches(other))
    assert Worker.waiting == [worker]
    assert all(_compiled(launch.kernel, launch.types) for launch in launches(other))
    assert worker._process.wait(60) == 0
    third = load("twins", f"{KERNELS}# more of {tmp_path}\n")
    compile_kernels(third, launches(third))
    assert len(Worker.waiting) == 1
    assert Worker.waiting != [worker]


@pytest.mark.parametrize("fault", ["fails", "cannot start"])
def test_what_a_worker_leaves_undone_is_no_error(
    fault: str, module: ModuleType, device: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numbawave.backends import cuda_compilation

    if fault == "fails":
        monkeypatch.setattr(cuda_compilation, "__name__", "numbawave.nowhere")
    else:
        monkeypatch.setattr(cuda_compilation.sys, "executable", "nowhere")
    wanted = launches(module)
    cuda_compilation.compile_kernels(module, wanted)
    done = [cuda_compilation._compiled(launch.kernel, launch.types) for launch in wanted]
    assert sorted(done) == [False, True]
    monkeypatch.undo()


@pytest.mark.parametrize("reason", ["one core", "memory", "read-only", "small"])
def test_nothing_is_started_where_it_would_not_help(
    reason: str, module: ModuleType, device: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numbawave.backends import cuda_compilation

    if reason == "one core":
        monkeypatch.setattr(cuda_compilation, "_cores", lambda: 1)
    elif reason == "memory":
        monkeypatch.setattr(module, "__file__", "<numbawave twins>")
    elif reason == "read-only":
        monkeypatch.setattr(os, "access", lambda *_: False)
    else:
        monkeypatch.setattr(cuda_compilation, "START", 6_000)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a worker was started"))
    cuda_compilation.compile_kernels(module, launches(module))


def test_shares_are_even_and_leave_a_worker_the_time_of_its_start() -> None:
    from numbawave.backends.cuda_compilation import START, shares

    sizes = {(f"kernel_{n}", ()): size for n, size in enumerate((6000, 5000, 5000, 4000, 3000, 3000, 2000, 400, 400))}
    for cores in (1, 2, 8, 99):
        found = shares(sizes, cores)
        assert sorted(job for share in found for job in share) == sorted(sizes)
        assert len(found) <= min(cores, 8)
        loads = [sum(map(sizes.__getitem__, share)) + START * (n > 0) for n, share in enumerate(found)]
        assert max(loads) - min(loads) <= max(sizes.values()) or cores > 2
        assert max(loads) <= sum(sizes.values())
    assert shares({}, 8) == [[]]
