"""Kernels of a printed module compiled side by side: by this process and by workers, through Numba's cache on the disk.

A worker is a Python of its own that never touches the device: it is told for which one to compile, so it takes no memory
there. What it leaves undone, for whatever reason, this process compiles when it launches the kernel. A worker stays for a
moment, since the kernels of the way back are wanted soon after those of the way forward.
"""

import atexit
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

from numbawave.backends import simulated
from numbawave.backends.cuda import cuda
from numbawave.codegen.module_cache import load_file, on_disk

Job = tuple[str, tuple[Any, ...]]
"""A kernel's name, and the types of its arguments."""

WORKERS = 8
"""At most so many processes compile, this one included."""

START = 4_500
"""What a worker's start takes: the time in which so many bytes of bytecode are compiled, a second or so."""

PATIENCE = 120.0
"""Seconds after which a worker is given up."""

IDLE = 5.0
"""Seconds after which a worker without a task ends."""


def compile_kernels(module: ModuleType, launches: Sequence[Any]) -> None:
    """Compile what the disk has not yet of a module's kernels, on several cores where that is faster.

    Parameters
    ----------
    module : module
        Kept on the disk; for any other nothing is done, and each kernel is compiled when it is launched.
    launches : sequence of Launch
        What will be launched on the current device.
    """
    if simulated() or cuda.__name__ != "numba.cuda" or not on_disk(module.__file__):
        return
    types = {launch.kernel: launch.types for launch in launches}
    missing = {kernel: given for kernel, given in types.items() if not _compiled(kernel, given)}
    own, *others = shares({(k.py_func.__name__, given): len(k.py_func.__code__.co_code) for k, given in missing.items()})
    if not others:
        return
    with _working(Path(str(module.__file__)), cuda.get_current_device().compute_capability, others):
        for name, given in own:
            getattr(module, name).compile(given)


def shares(sizes: dict[Job, int], cores: int | None = None) -> list[list[Job]]:
    """Jobs dealt out, the largest first, to whoever will have done the least: this process first, then workers.

    Parameters
    ----------
    sizes : dict of Job to int
        Bytes of bytecode.
    cores : int, optional
        Processes that may run at a time, by default as many as this one may use.

    Returns
    -------
    list of list of Job
        This process's share, which may be empty, and those of the workers that are worth their start.
    """
    found: list[list[Job]] = [[] for _ in range(max(1, min(WORKERS, cores or _cores())))]
    loads = [0, *(START for _ in found[1:])]
    for job in sorted(sizes, key=lambda job: -sizes[job]):
        least = loads.index(min(loads))
        found[least].append(job)
        loads[least] += sizes[job]
    return [found[0], *(share for share in found[1:] if share)]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compiled(kernel: Any, given: tuple[Any, ...]) -> bool:
    """Whether the disk has a kernel. Numba's cache has no public question for that: where its inside is another, yes."""
    try:
        key = kernel._cache._index_key(given, kernel.targetctx.codegen())
        return key in kernel._cache._cache_file._load_index()
    except (AttributeError, TypeError):
        return True


class Worker:
    """A process that compiles, as long as its tasks follow on each other."""

    waiting: ClassVar[list["Worker"]] = []

    def __init__(self) -> None:
        self.surroundings = self._surroundings()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.surroundings,
        )

    @staticmethod
    def _surroundings() -> dict[str, str]:
        # An empty list of devices: a worker that asked for one after all would fail rather than take its memory.
        return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "CUDA_VISIBLE_DEVICES": ""}

    @classmethod
    def at_hand(cls) -> "Worker":
        """One that waits, or a new one."""
        while cls.waiting:
            worker = cls.waiting.pop()
            if worker._process.poll() is None and worker.surroundings == cls._surroundings():
                return worker
            worker.end()
        return cls()

    def begin(self, path: Path, capability: Sequence[int], share: list[Job]) -> None:
        """Let it compile its share."""
        assert self._process.stdin is not None
        self._process.stdin.write(pickle.dumps((path, tuple(capability), share)))
        self._process.stdin.flush()

    def finish(self) -> None:
        """Wait until it has; one that fails, or takes far too long, is no worker any more."""
        assert self._process.stdout is not None
        limit = Timer(PATIENCE, self._process.kill)
        limit.start()
        try:
            done = self._process.stdout.read(1)
        finally:
            limit.cancel()  # else it would keep an interrupted program from ending
        if done:
            self.waiting.append(self)
        else:
            self.end()

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@atexit.register
def _end_all() -> None:
    while Worker.waiting:
        Worker.waiting.pop().end()


@contextmanager
def _working(path: Path, capability: Sequence[int], others: list[list[Job]]) -> Iterator[None]:
    """Workers, which are waited for in the end."""
    workers: list[Worker] = []
    for share in others:
        with suppress(OSError):
            workers.append(Worker.at_hand())
            workers[-1].begin(path, capability, share)
    try:
        yield
    finally:
        for worker in workers:
            worker.finish()


def work(path: Path, capability: tuple[int, ...], jobs: Sequence[Job]) -> None:
    """A worker's task: compile kernels for a device that it does not open, into Numba's cache.

    It must not be called in any other process, since it tells Numba that this device is the current one.

    Parameters
    ----------
    path : Path
        The printed module's file.
    capability : tuple of int
        The device's compute capability.
    jobs : sequence of Job
    """
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import devices

    device = SimpleNamespace(compute_capability=capability, id=0)
    devices.get_context = lambda *_: SimpleNamespace(device=device)
    dispatcher.get_current_device = lambda: device
    # Loading a kernel would need the device; machine code for the cache does not.
    dispatcher._Kernel.bind = lambda kernel: kernel._codelibrary.get_cubin()
    gc.disable()
    module = load_file(path)
    for name, given in jobs:
        getattr(module, name).compile(given)


def serve() -> None:
    """A worker's life: a task from standard input, a byte to standard output once it is done, and so on."""
    tasks, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    while True:
        end = Timer(IDLE, os._exit, (0,))
        end.start()
        try:
            task = pickle.load(tasks)
        except EOFError:
            os._exit(0)
        end.cancel()
        work(*task)
        answers.write(b".")
        answers.flush()


if __name__ == "__main__":
    serve()
