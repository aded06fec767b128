"""How fast this machine is: calls of the propagator itself and of the stores of history, timed once and kept on disk.

Costs of steps come from calls on a few small grids, with and without layers, with few and with many steps, with and without
history; ``planning.seconds.fit`` turns their times into factors. What a store takes comes from the store itself: it is
given slots of a smooth wave while no step is made.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm import tqdm

import numbawave
from numbawave.codegen.module_cache import cache_folder
from numbawave.engine.buffers import declare
from numbawave.engine.reversal import store_of
from numbawave.engine.run import Run
from numbawave.engine.work import Legs, legs
from numbawave.equations import EQUATIONS
from numbawave.history.media import File
from numbawave.planning.seconds import Counts, Link, Rates, Seconds, fit
from numbawave.planning.seconds import seconds as expected
from numbawave.torch_bridge.frontend import Prepared, prepare
from numbawave.torch_bridge.options import Options

CELLS = {"cpu": (10_000, 250_000), "cuda": (100_000, 4_000_000)}
"""Of the models of timed calls: one that a cache holds, and one that it does not."""

LONGEST = 20_000
"""Cells of one axis, at most: beyond that there are several shots."""

WORK = {"cpu": 15_000_000, "cuda": 1_000_000_000}
"""Cells times steps of the longer ones, and so about the values of their history."""

MOVED = {"cpu": 256 * 2**20, "cuda": 2**30}
"""Bytes of history that a store is timed with: some parts of ``history.parts.PART_BYTES``."""

STATE, LAYERS = 2**24, 20
REPEATS, PATIENCE = 8, 0.4
"""Calls of a kind that are timed, at most, and seconds after which two are enough."""

_FOUND: dict[Path, dict[str, Any]] = {}


class Moved(NamedTuple):
    """A run whose store was timed, bytes and parts that moved, and the seconds there and back."""

    run: Run
    size: int
    parts: int
    seconds: tuple[float, ...]


class Calibration:
    """The speeds of this machine at a kind of run, measured when first asked for.

    Parameters
    ----------
    prepared : Prepared
        A call of this kind: equation, dimension, accuracy, dtype, backend and device count.
    """

    def __init__(self, prepared: Prepared) -> None:
        run, model = prepared.run, next(iter(prepared.models.values()))
        self.run, self.device, self.dtype = run, model.device, model.dtype
        self.kind = "cuda" if model.device.type == "cuda" else "cpu"
        self.ndim = len(run.grid.axes)
        here = f"{run.real}_{run.backend.name}_{_processor(model.device)}_{numbawave.__version__}"
        self.steps = _file(f"steps_{run.setup.forward.name}_{self.ndim}d_{run.setup.accuracy}_{here}")
        self.links = _file(f"links_{here}")

    @property
    def rates(self) -> Rates:
        """Seconds for what steps do."""
        return Rates(**{name: tuple(values) for name, values in _kept(self.steps, "rates", Rates, self._rates).items()})

    def seconds(self, run: Run, passes: tuple[Legs, Legs]) -> Seconds:
        """The expected times of what a run does forward and back."""
        rates, link = self.rates, self.link(run)
        return Seconds(*(expected(each, rates, link) for each in passes))

    def link(self, run: Run) -> Link:
        """Seconds a byte for the store and the states of a run."""
        storage = run.storage
        name = f"{storage.mode} {storage.compression}"
        if storage.mode == "disk":
            folder = File.default() if storage.path is None else os.fspath(storage.path)
            name += f" {os.stat(folder).st_dev if os.path.isdir(folder) else folder}"
        return Link(**_kept(self.links, name, Link, lambda: self._link(run)))

    def _rates(self) -> Rates:
        forward, backward = [], []
        # Some of these calls compile kernels that nobody has needed yet, which may take a minute: seen on a terminal only.
        for steps, options in tqdm(list(self._calls()), "measuring this machine, once", disable=None, leave=False):
            forward_time, backward_time, (ahead, back) = self._timed(steps, options)
            forward.append((_total(ahead, "forward"), forward_time))
            backward.append((back, backward_time))
        ahead_rates = fit(*zip(*forward, strict=True))
        rates, rows, times = Rates(ahead_rates, (0.0,) * len(ahead_rates)), [], []
        for back, measured in backward:
            others = expected(back, rates, Link())  # steps that are made backwards cost what those ahead do
            rows.append(_total(back, "adjoint"))
            times.append(max(measured - others, measured / 10))
        return Rates(ahead_rates, fit(rows, times))

    def _calls(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Steps and options of the calls that are timed."""
        for cells in CELLS[self.kind]:
            shape, shots = self._model(cells)
            for layers in (0, LAYERS):
                most = max(8, WORK[self.kind] // (shots * int(np.prod([n + 2 * layers for n in shape]))))
                for steps in (max(2, min(most, 1000) // 8), min(most, 1000)):
                    shared = {"shape": shape, "shots": shots, "pml_width": layers}
                    yield steps, shared | {"wanted": False}
                    yield steps, shared | {"wanted": True}
                    if layers:
                        yield steps, shared | {"wanted": True, "history": "reconstruct"}
                        yield steps, shared | {"wanted": True, "checkpoint_segments": max(2, steps // 8)}

    def _model(self, cells: int) -> tuple[tuple[int, ...], int]:
        """The shape of a model of about so many cells in all shots, and how many these are."""
        side = max(2 * LAYERS, min(LONGEST, round(cells ** (1 / self.ndim))))
        return (side,) * self.ndim, max(1, round(cells / side**self.ndim))

    def _call(self, steps: int, shape: tuple[int, ...], wanted: bool, shots: int = 1, **options: Any) -> tuple[Any, ...]:
        """The arguments of a call from which waves spread in a homogeneous model."""
        equation = EQUATIONS[self.run.setup.forward.name]
        amplitude = torch.zeros(shots, 1, steps, dtype=self.dtype, device=self.device)
        amplitude[..., 0] = 1.0
        middle = torch.tensor([[[n // 2 for n in shape]]]).expand(shots, 1, self.ndim)
        models = {m.name: torch.ones(shape, dtype=self.dtype, device=self.device, requires_grad=wanted)
                  for m in equation.models}  # fmt: skip
        given = Options(source_amplitudes=amplitude.requires_grad_(), source_locations=middle, receiver_locations=middle,
                        pml_freq=0.1, max_vel=1.0, accuracy=self.run.setup.accuracy, backend=self.run.backend.name,
                        **options)  # fmt: skip
        return equation, models, 1.0, 0.9 * given.courant_number / self.ndim**0.5, given

    def _timed(self, steps: int, options: dict[str, Any]) -> tuple[float, float, tuple[Legs, Legs]]:
        """The shortest times of some calls, forward and back, and what these do."""
        from numbawave.torch_bridge.propagators import propagate

        call = self._call(steps, **options)

        def both() -> tuple[float, float]:
            marks = [self._clock()]
            out = propagate(*call)
            marks.append(self._clock())
            out[-1].sum().backward()
            return marks[1] - marks[0], self._clock() - marks[1]

        with torch.enable_grad():
            forward, backward = _shortest(both)
            return forward, backward, spent(prepare(*call))

    def _link(self, run: Run) -> Link:
        """Time the store of a run with a wave that is there already: much of it, and so little that the parts count."""
        together = run.space.device is not None
        few, many = (
            self._moved(run, cells, size) for cells, size in zip(CELLS[self.kind], (0, MOVED[self.kind]), strict=True)
        )
        each = sum(few.seconds) / (2 * few.parts)
        write, read = (max(0.0, time - many.parts * each) / many.size for time in many.seconds)
        return Link(write, read, self._states(many.run), together, each)

    def _moved(self, run: Run, cells: int, size: int) -> Moved:
        """What the store of a run takes for so many bytes, a few slots at least."""
        shape = (round(cells ** (1 / self.ndim)),) * self.ndim
        slot = int(np.prod(shape)) * run.dtype.itemsize * run.setup.channels
        steps = max(8, size // slot)
        trial = prepare(*self._call(steps, shape, wanted=True, pml_width=0)).run
        trial.storage, slots = run.storage, trial.slots_of
        trial.ledger = declare(trial, keep=True)
        wave = trial.space.upload(_wave(trial))

        def both() -> tuple[float, float]:
            store = store_of(trial)
            store.ring[...] = wave
            marks = [self._clock()]
            store.write(0, steps, lambda first, last: None)
            marks.append(self._clock())
            store.read(0, steps, lambda first, last: None)
            marks.append(self._clock())
            store.close()
            return marks[1] - marks[0], marks[2] - marks[1]

        seconds = _shortest(both) if not store_of(trial).lasts else (0.0, 0.0)
        parts = trial.storage.parts(slots, 0, steps, trial.space.device is not None)
        return Moved(trial, steps * slots.bytes, parts, seconds)

    def _states(self, run: Run) -> float:
        """Seconds a byte of a state that is saved or loaded."""
        kept = run.storage.states(run.space, lambda name: run.space.empty(STATE))
        state = [run.space.zeros(1, STATE)]

        def both() -> tuple[float]:
            start = self._clock()
            kept.save(1, state)
            kept.load(1, state)
            return (self._clock() - start,)

        (found,) = _shortest(both)
        kept.close()
        return found / (2 * STATE * run.dtype.itemsize)

    def _clock(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def _file(title: str) -> Path:
    return cache_folder() / f"{re.sub('[^A-Za-z0-9._]+', '-', title)}.json"


def _kept(path: Path, name: str, kind: type, measure: Callable[[], Any]) -> dict[str, Any]:
    """A measurement, from this process or from the disk where it was made before; a file that cannot be is none."""
    found = _FOUND.setdefault(path, {})
    if not _fits(found.get(name), kind):
        with suppress(OSError, ValueError):
            found |= json.loads(path.read_text(encoding="utf-8"))
    if not _fits(found.get(name), kind):
        found[name] = asdict(measure())
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}.tmp")
            part.write_text(json.dumps(found, indent=1), encoding="utf-8")
            os.replace(part, path)
    values: dict[str, Any] = found[name]
    return values


def _fits(values: Any, kind: type) -> bool:
    """Whether what was kept has what is asked for today."""
    named = isinstance(values, dict) and set(values) == {each.name for each in fields(kind)}
    return named and all(len(each) == len(Counts._fields) for each in values.values() if isinstance(each, Sequence))


def _shortest(call: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """The shortest of each of a call's times, of several calls: what others do on this machine only adds to them."""
    call()  # compiles, and fills caches
    found, start = [call()], time.perf_counter()
    while len(found) < 2 or (len(found) < REPEATS and time.perf_counter() - start < PATIENCE):
        found.append(call())
    return tuple(min(times) for times in zip(*found, strict=True))


def spent(prepared: Prepared) -> tuple[Legs, Legs]:
    """What a prepared call does forward and back, as it would be asked to."""
    return legs(prepared.run, prepared.wanted)


def _total(legs: Legs, direction: str) -> tuple[float, ...]:
    """The counts of the legs in a direction."""
    return tuple(sum(each) for each in zip(*(leg.counts for leg in legs if leg.direction == direction), strict=True))


def _wave(run: Run) -> Any:
    """A slot of a pulse that has filled half of the model."""
    sizes = run.slots_of.shape[2:]
    axes = np.meshgrid(*(np.linspace(-1, 1, n) for n in sizes), indexing="ij", sparse=True)
    distance = sum(axis**2 for axis in axes) ** 0.5
    wave = np.sin(20 * np.pi * distance) * np.exp(-((distance - 0.7) ** 2) / 0.1) * (distance < 0.9)
    return np.broadcast_to(wave.astype(run.dtype), run.slots_of.shape)


def _processor(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    name = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration), open("/proc/cpuinfo") as file:
        name = next(line for line in file if line.startswith("model name")).split(":")[1].strip()
    return f"{name}_{os.cpu_count()}"
