"""What a run takes is what its ledger says, buffer by buffer."""

import tracemalloc
from collections import Counter
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from numbawave.engine.space import HostMemory
from numbawave.history import media, parts, shelf
from numbawave.history.codecs.compression import Compression
from numbawave.history.storage import Storage
from numbawave.planning.ledger import Buffer, Ledger, Moment
from tests.contract.experiment import EQUATIONS_ON, UPDATES, Case, Experiment

STORAGES = [
    Storage(),
    Storage("device", compression=Compression("int8")),
    Storage("device", compression=Compression("bf16")),
    Storage("cpu", compression=Compression("int8")),
    Storage("disk"),
    Storage("disk", compression=Compression("none")),
]
CASES = [
    replace(case, segments=segments, region=region, storage=storage)
    for case in EQUATIONS_ON
    if case.ndim == 2 and case.backend == "reference"
    for segments, region in ((1, "full"), (3, "interior"))
    for storage in STORAGES
]
CASES += [Case(equation, 2, steps=4, stride=3, batched=True) for equation in UPDATES]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("again", [False, True])
def test_a_run_allocates_what_was_declared(case: Case, again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made: Counter[int] = Counter()

    def counted(name: str) -> None:
        plain = getattr(HostMemory, name)

        def method(self: HostMemory, *arguments: Any) -> Any:
            array = plain(self, *arguments)
            made.update([array.nbytes] if array.nbytes else [])
            return array

        monkeypatch.setattr(HostMemory, name, method)

    for name in ("zeros", "empty", "buffer"):
        counted(name)
    experiment = Experiment(case)
    experiment.forward(keep=True)
    ledger = experiment.run.ledger
    # Without a backward pass nothing of what that alone needs was made.
    early = Counter({b.bytes // b.copies: 0 for b in ledger if b.copies})
    for b in ledger:
        if not b.given and b.first == Moment.FORWARD and b.place == "device" and b.name != "states":
            early[b.bytes // b.copies] += b.copies if b.bytes else 0
    assert made == +early

    experiment.adjoint()
    wanted = Counter({b.bytes // b.copies: 0 for b in ledger if b.copies})
    for b in ledger:
        residual = b.name.startswith("back.residual")  # the caller's here
        if not (b.given or residual) and b.place == "device" and b.name != "states" and b.bytes:
            wanted[b.bytes // b.copies] += b.copies
    assert made == +wanted
    if again:
        experiment.adjoint()


def test_peaks_are_sums_of_what_is_there_at_once() -> None:
    ledger = Ledger(
        [
            Buffer("a", (10,), "float32", last=Moment.FORWARD),
            Buffer("b", (2, 3), "float64", first=Moment.BETWEEN, copies=2),
            Buffer("c", (5,), "int8", "host"),
        ]
    )
    assert ledger.peak("device") == (96, Moment.BETWEEN)
    assert ledger.bytes("device", Moment.FORWARD) == 40
    assert ledger.peak("host") == (5, Moment.FORWARD)
    assert ledger.peak("disk") == (0, Moment.FORWARD)
    lines = str(ledger).splitlines()
    assert lines[1].split() == ["b", "2", "x", "3", "float64", "2", "device", "between", "backward", "0.000"]
    assert lines[-2:] == ["peak on device: 0.000 MB, between", "peak on host: 0.000 MB, forward"]


def test_a_name_is_declared_once() -> None:
    with pytest.raises(AssertionError, match="a"):
        Ledger([Buffer("a", (1,), "int8"), Buffer("a", (2,), "int8")])


@pytest.mark.parametrize(("segments", "states"), [(1, 0), (2, 0), (5, 3)])
def test_states_are_counted_without_halo(segments: int, states: int) -> None:
    experiment = Experiment(Case("scalar", 3, segments=segments))
    experiment.forward(keep=True)
    run = experiment.run
    if not states:
        assert "states" not in [b.name for b in run.ledger]
        return
    kept = run.ledger["states"]
    assert kept.copies == states
    inside = prod(axis.last - axis.first for axis in run.grid.axes)
    assert kept.shape[1] >= 2 * inside
    assert (
        kept.bytes < states * sum(np.prod(run.setup.field_shape(run.grid, f)) for _, f, _ in run.setup.state_names) * 8 * 2
    )


@pytest.mark.parametrize(("segments", "region"), [(1, "full"), (4, "interior"), (4, "reconstruct")])
@pytest.mark.parametrize("storage", STORAGES, ids=str)
def test_nothing_large_is_allocated_beside_the_ledger(
    storage: Storage, region: str, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that NumPy allocates in a run forward and back: buffers of the ledger, and less than a field besides.

    Where blosc2 works, also what it is given and gives, one part of history at a time in each of two bays.
    """
    monkeypatch.setattr(media, "ROOM_BYTES", 2**18)
    monkeypatch.setattr(media, "COPIED_BYTES", 2**18)
    monkeypatch.setattr(shelf, "COMPRESSED_BYTES", 2**16)
    monkeypatch.setattr(parts, "PART_BYTES", 2**18)
    undo = region == "reconstruct"
    case = Case("scalar", 2, backend="cpu", shape=(90, 130), steps=40, dtype="float32", segments=segments, storage=storage,
                region="interior" if undo else region, undo=undo)  # fmt: skip
    first, experiment = Experiment(case), Experiment(case)
    first.forward(keep=True)  # compiles, and derives what is needed once; not traced, which takes several times as long
    first.adjoint()
    _ = experiment.parameters, experiment.amplitudes, experiment.initial, experiment.cotangents, experiment.run
    tracemalloc.start()
    try:
        experiment.forward(keep=True)
        experiment.adjoint()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    run = experiment.run
    given = sum(buffer.bytes for buffer in run.ledger if buffer.given)
    planned = run.ledger.peak("device", "host")[0] - given
    field = prod(run.setup.field_shape(run.grid, run.setup.forward.fields[0])) * run.shots * 4
    packed = 2 * 2**18 if storage.compression and storage.compression.codec else 0
    room = 2**18 if storage.mode == "cpu" else 0  # the last one is not full
    assert most < planned + field + packed + room
