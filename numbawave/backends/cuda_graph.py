"""Steps as CUDA graphs: each launch after those that it must wait for, and many steps in one replay."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver

from numbawave.backends.cuda import quiet
from numbawave.errors import BackendError

LONG = 256
"""Kernels in the longer graph, at most. Replaying a graph costs a few microseconds, whatever it holds, and the steps of one
overlap where those of two do not; making it costs about ten microseconds for each kernel."""

KEPT = 64
"""Graphs that are kept for a later call, at most: where it gets the memory of an earlier one, it replays that one's."""

_CAPTURING = threading.Lock()
_KNOWN: dict[tuple[Any, ...], Graph] = {}
"""Graphs by what they launch, the latest used last."""
_KNOWING = threading.Lock()
_STREAMS: dict[int, Any] = {}
"""The streams on which launches are captured, by device."""
_RETIRED: list[tuple[Any, Any]] = []
"""Graphs that nobody needs any more, and the events that say when they have run."""


def graph_of(
    cuda: Any, device: int, launches: Callable[[], Sequence[Any]], mark: tuple[Any, ...], early: bool = False
) -> Graph:
    """The graph of some launches, made anew unless it is known.

    Parameters
    ----------
    cuda, device, early
        See ``Graph``.
    launches : callable
        Gives them.
    mark : tuple
        All that tells them from others: launches of the same mark have one graph.
    """
    key = device, mark
    with _KNOWING:
        graph = _KNOWN.pop(key, None)
    graph = graph or Graph(cuda, device, launches(), early)
    with _KNOWING:
        _KNOWN[key] = graph
        while len(_KNOWN) > KEPT:
            del _KNOWN[next(iter(_KNOWN))]
    return graph


class Graph:
    """Launches, captured once and replayed.

    Parameters
    ----------
    cuda : module
        The package that provides CUDA.
    device : int
    launches : sequence of Launch
        Those that do not depend on each other will run side by side.
    early : bool
        Whether each kernel begins with ``begin()``: its blocks may then start before those that it waits for have ended.
    """

    def __init__(self, cuda: Any, device: int, launches: Sequence[Any], early: bool) -> None:
        _bury()
        self._done = cuda.event(timing=False)
        self._graphs = _captured(cuda, device, launches)
        self._early, self._count = early, len(launches)
        self._edges = waits((*launches, *launches))[self._count :]  # those of launches that are not the first
        weakref.finalize(self, _destroy, self._graphs)
        self._once = self._executable(1)
        self._often: Any = None
        self._many = LONG // self._count

    def launch(self, times: int, stream: Any) -> None:
        """Replay the launches so many times on a stream."""
        address = int(stream)
        if self._often is None and times >= 2 * self._many > 2:
            self._often = self._executable(self._many)
        if self._often is not None:
            for _ in range(times // self._many):
                _checked(driver.cuGraphLaunch(self._often, address))
            times %= self._many
        for _ in range(times):
            _checked(driver.cuGraphLaunch(self._once, address))
        self._done.record(stream)

    def _executable(self, times: int) -> Any:
        """The launches so many times, one after another only where they must be."""
        whole = _checked(driver.cuGraphCreate(0))
        try:
            kernels = [_kernel(graph) for graph in self._graphs] * times
            nodes = [_checked(driver.cuGraphAddKernelNode(whole, None, 0, kernel)) for kernel in kernels]
            edges = [
                (nodes[(time - 1) * self._count + before], nodes[time * self._count + position])
                for time in range(times)
                for position, earlier in enumerate(self._edges)
                for before in earlier
                if (time - 1) * self._count + before >= 0
            ]
            if edges:
                _link(whole, edges, self._early)
            made = _checked(driver.cuGraphInstantiate(whole, 0))
        finally:
            driver.cuGraphDestroy(whole)
        weakref.finalize(self, _RETIRED.append, (self._done, made))
        return made


def _bury() -> None:
    """Destroy retired graphs that have run."""
    for entry in [entry for entry in _RETIRED if entry[0].query()]:
        _RETIRED.remove(entry)
        driver.cuGraphExecDestroy(entry[1])


def _destroy(graphs: Sequence[Any]) -> None:
    for graph in graphs:
        driver.cuGraphDestroy(graph)


def _captured(cuda: Any, device: int, launches: Sequence[Any]) -> list[Any]:
    """A graph of each launch."""
    with _CAPTURING, quiet():
        if device not in _STREAMS:
            _STREAMS[device] = cuda.stream()
        stream, found = _STREAMS[device], []
        for launch in launches:
            mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
            _checked(driver.cuStreamBeginCapture(int(stream), mode))
            try:
                launch(stream)
            finally:
                graph = _checked(driver.cuStreamEndCapture(int(stream)))
            found.append(graph)
        return found


def _kernel(graph: Any) -> Any:
    """The parameters of the only node that a graph has."""
    status, nodes, _ = driver.cuGraphGetNodes(graph, 1)
    _checked((status,))
    return _checked(driver.cuGraphKernelNodeGetParams(nodes[0]))


def _link(whole: Any, edges: Sequence[tuple[Any, Any]], early: bool) -> None:
    """Let nodes wait for others: until these have ended, or until all of their blocks have begun."""
    first, later = map(list, zip(*edges, strict=True))
    data = None
    if early:
        data = []
        for _ in edges:
            data.append(driver.CUgraphEdgeData())
            data[-1].type = driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
            data[-1].from_port = driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
    add = getattr(driver, "cuGraphAddDependencies_v2", None) or driver.cuGraphAddDependencies
    _checked(add(whole, first, later, data, len(edges)))


def waits(launches: Sequence[Any]) -> list[list[int]]:
    """For each launch the earlier ones that it must wait for, without those that come before another of them anyway."""
    found: list[list[int]] = []
    before: list[set[int]] = []
    for position, launch in enumerate(launches):
        nearest: list[int] = []
        covered: set[int] = set()
        for k in reversed(range(position)):
            if k not in covered and launch.after(launches[k]):
                nearest.append(k)
                covered |= before[k] | {k}
        found.append(nearest)
        before.append(covered)
    return found


def _checked(result: tuple[Any, ...]) -> Any:
    """What a call of the driver gave, or an error."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise BackendError("backend", "cuda", f"a call of the CUDA driver failed: {status.name}", "run numbawave doctor")
    return values[0] if values else None
