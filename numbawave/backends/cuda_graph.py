"""Two steps as a CUDA graph, and many of them in one launch."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver

from numbawave.backends.cuda import quiet
from numbawave.errors import BackendError

LONG = 64
"""Kernels in the longer graph, at most. Replaying a graph costs a few microseconds, whatever it holds, and making it about
twenty for each kernel."""

KEPT = 64
"""Graphs that are kept for a later call, at most: where it gets the memory of an earlier one, it replays that one's."""

_CAPTURING = threading.Lock()
_KNOWN: dict[tuple[Any, ...], Graph] = {}
"""Graphs by what they launch, the latest used last."""
_KNOWING = threading.Lock()
_LANES: dict[int, list[Any]] = {}
"""Streams on which launches are captured, by device."""
_RETIRED: list[tuple[Any, Any]] = []
"""Graphs that nobody needs any more, and the events that say when they have run."""


def graph_of(cuda: Any, device: int, launches: Callable[[], Sequence[Any]], mark: tuple[Any, ...]) -> Graph:
    """The graph of some launches, made anew unless it is known.

    Parameters
    ----------
    cuda, device
        See ``Graph``.
    launches : callable
        Gives them.
    mark : tuple
        All that tells them from others: launches of the same mark have one graph.
    """
    key = device, mark
    with _KNOWING:
        graph = _KNOWN.pop(key, None)
    graph = graph or Graph(cuda, device, launches())
    with _KNOWING:
        _KNOWN[key] = graph
        while len(_KNOWN) > KEPT:
            del _KNOWN[next(iter(_KNOWN))]
    return graph


class Graph:
    """Launches of two steps, captured once and replayed.

    Parameters
    ----------
    cuda : module
        The package that provides CUDA.
    device : int
    launches : sequence of Launch
        Those that do not depend on each other will run side by side.
    """

    def __init__(self, cuda: Any, device: int, launches: Sequence[Any]) -> None:
        _bury()
        self._done = cuda.event(timing=False)
        self._pair = _captured(cuda, device, launches)
        weakref.finalize(self, driver.cuGraphDestroy, self._pair)
        self._once = self._executable(self._pair)
        self._often: Any = None
        self._many = LONG // len(launches)

    def launch(self, pairs: int, stream: Any) -> None:
        """Replay the pair so many times on a stream."""
        address = int(stream)
        if self._often is None and pairs >= 2 * self._many > 2:
            chain = _chain(self._pair, self._many)
            self._often = self._executable(chain)
            _checked(driver.cuGraphDestroy(chain))
        if self._often is not None:
            for _ in range(pairs // self._many):
                _checked(driver.cuGraphLaunch(self._often, address))
            pairs %= self._many
        for _ in range(pairs):
            _checked(driver.cuGraphLaunch(self._once, address))
        self._done.record(stream)

    def _executable(self, graph: Any) -> Any:
        made = _checked(driver.cuGraphInstantiate(graph, 0))
        weakref.finalize(self, _RETIRED.append, (self._done, made))
        return made


def _bury() -> None:
    """Destroy retired graphs that have run."""
    for entry in [entry for entry in _RETIRED if entry[0].query()]:
        _RETIRED.remove(entry)
        driver.cuGraphExecDestroy(entry[1])


def _captured(cuda: Any, device: int, launches: Sequence[Any]) -> Any:
    """A graph of launches, each after those that it must wait for: a stream a launch, and events between them."""
    with _CAPTURING, quiet():
        lanes = _LANES.setdefault(device, [])
        lanes += [cuda.stream() for _ in range(len(launches) + 1 - len(lanes))]
        origin, *lanes = lanes[: len(launches) + 1]
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        _checked(driver.cuStreamBeginCapture(int(origin), mode))
        try:
            start = _mark(cuda, origin)
            events: list[Any] = []
            for position, (launch, lane) in enumerate(zip(launches, lanes, strict=True)):
                for event in [events[k] for k in nearest(launches, position)] or [start]:
                    event.wait(lane)
                launch(lane)
                events.append(_mark(cuda, lane))
            for event in events:
                event.wait(origin)
        finally:
            graph = _checked(driver.cuStreamEndCapture(int(origin)))
        return graph


def _mark(cuda: Any, stream: Any) -> Any:
    event = cuda.event(timing=False)
    event.record(stream)
    return event


def nearest(launches: Sequence[Any], position: int) -> list[int]:
    """Earlier launches that one must wait for, without those that come before another of them anyway."""
    found: list[int] = []
    covered: set[int] = set()
    for k in reversed(range(position)):
        if k not in covered and launches[position].after(launches[k]):
            found.append(k)
            covered |= _before(launches, k)
    return found


def _before(launches: Sequence[Any], position: int) -> set[int]:
    found: set[int] = set()
    for k in reversed(range(position)):
        if k not in found and launches[position].after(launches[k]):
            found |= {k} | _before(launches, k)
    return found


def _chain(graph: Any, count: int) -> Any:
    whole = _checked(driver.cuGraphCreate(0))
    last: list[Any] = []
    for _ in range(count):
        last = [_checked(driver.cuGraphAddChildGraphNode(whole, last or None, len(last), graph))]
    return whole


def _checked(result: tuple[Any, ...]) -> Any:
    """What a call of the driver gave, or an error."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise BackendError("backend", "cuda", f"a call of the CUDA driver failed: {status.name}", "run numbawave doctor")
    return values[0] if values else None
