"""The levers that a call left as they are, pulled in every way: what each way takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from numbawave.engine.buffers import declare
from numbawave.engine.run import Run
from numbawave.engine.setup import Setup
from numbawave.errors import EquationError, InvalidValueError
from numbawave.planning.budget import INEXACT
from numbawave.planning.ledger import aligned
from numbawave.planning.memory import Memory
from numbawave.planning.seconds import Seconds
from numbawave.torch_bridge.frontend import Prepared
from numbawave.torch_bridge.levers import fewest, pull, spread, storage_of
from numbawave.torch_bridge.limits import Limits
from numbawave.torch_bridge.options import Options

SEGMENTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of segments that are tried, below that with the fewest bytes, which is tried too."""

STATES = (8, 4, 2)
"""Numbers of states that are tried where one for each segment is too many."""

SHOWN = 12


@dataclass(frozen=True)
class Candidate:
    """A way to run a call, and what it takes.

    Attributes
    ----------
    levers : dict
        What it changes in the call.
    memory : dict of str to int
        Bytes by place, as the budget counts them.
    prepared : Prepared
    fits : bool
        Whether that is within the budget.
    misses : float
        Bytes over those allowed, in the place where that is most; at most 1 for what fits.
    seconds : Seconds, optional
        Expected times; None where they were not needed for the choice.
    """

    levers: dict[str, Any]
    memory: dict[str, int]
    prepared: Prepared
    fits: bool
    misses: float
    seconds: Seconds | None = None

    @property
    def inexact(self) -> tuple[str, ...]:
        """Its values that change the gradient."""
        return tuple(name for name in INEXACT if name in self.levers.values())

    @property
    def words(self) -> str:
        """Its levers as they are written in a call."""
        return ", ".join(f"{name}={value!r}" for name, value in self.levers.items() if value is not None) or "as it is"


class Candidates(tuple[Candidate, ...]):
    """Candidates in the order of preference; ``print`` shows a table of the first ones."""

    def __str__(self) -> str:
        places = list(self[0].memory) if self else []
        rows = [("levers", *(f"{place} MB" for place in places), "forward s", "backward s", "")]
        for number, each in enumerate(self[:SHOWN]):
            spent = ("-", "-") if each.seconds is None else (f"{each.seconds.forward:.3g}", f"{each.seconds.backward:.3g}")
            verdict = "chosen" if each.fits and not number else "fits" if each.fits else f"{each.misses:.3g} times too much"
            rows.append((each.words, *(f"{each.memory[place] / 1e6:.3f}" for place in places), *spent, verdict))
        return "\n".join([*aligned(rows), *([f"... and {len(self) - SHOWN} more"] if len(self) > SHOWN else [])])


def ways(
    prepared: Prepared, options: Options, undo: Setup, inexact: tuple[str, ...], allowed: Limits
) -> Iterator[Candidate]:
    """Every way to pull the levers that a call left as they are; the first one pulls none.

    Parameters
    ----------
    prepared : Prepared
    options : Options
    undo : Setup
        That of the equation without layers.
    inexact : tuple of str
        What may be chosen although it changes the gradient.
    allowed : Limits
    """
    for region in _free(options, "history", ("full", *(name for name in inexact if name in INEXACT[:2]))):
        base = replace(prepared.run, undo=None, ring_starts=[0], solved=(), tape=None)
        try:
            pull(base, replace(as_it_is(options), history=region), undo if region == "reconstruct" else None)
        except EquationError:
            continue
        for levers in _spreads(base, prepared.wanted, options, inexact):
            trial, changed = replace(base), {"history": region} | levers
            try:
                spread(trial, replace(options, **changed))
            except InvalidValueError:  # what cannot go together, or more segments than steps
                continue
            changed = {name: value for name, value in changed.items() if value != getattr(options, name)}
            yield candidate(replace(prepared, run=trial), changed, allowed)


def candidate(prepared: Prepared, levers: dict[str, Any], allowed: Limits) -> Candidate:
    """A prepared call as a candidate."""
    run = prepared.run
    memory = Memory.of(declare(run, prepared.wanted), run.space.device is not None)
    needed = {place: getattr(memory, f"{place}_bytes") for place in allowed}
    misses = max(size / max(allowed[place], 1) for place, size in needed.items())
    return Candidate(levers, needed, prepared, all(needed[place] <= allowed[place] for place in needed), misses)


def as_it_is(options: Options) -> Options:
    """The options of a call before a search, in which the folder of a file is that of a search that goes to the disk."""
    return replace(options, storage_path=options.storage_path if options.storage_mode == "disk" else None)


def _spreads(run: Run, wanted: bool, options: Options, inexact: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Segments, states, places, codings and batches, each alone and all together."""
    for batch in _free(options, "shot_batch", (None, *_halves(run.shots))):
        if not wanted:
            yield {"shot_batch": batch}
            continue
        for place in _places(run.space.device is not None, options, inexact):
            yield from ({"shot_batch": batch} | place | time for time in _times(run, replace(options, **place)))


TIME = ("checkpoint_segments", "checkpoint_states")


def _times(run: Run, options: Options) -> Iterator[dict[str, Any]]:
    """Segments and states; no more segments than those with the fewest bytes."""
    if any(getattr(options, name) is not None for name in TIME):
        yield {name: getattr(options, name) for name in TIME}
        return
    yield dict.fromkeys(TIME)
    most = fewest(replace(run, storage=storage_of(options)))
    yield from ({"checkpoint_segments": number} for number in SEGMENTS if number < most)
    yield from [{"checkpoint_segments": most}] if most > 1 else []
    yield from ({"checkpoint_states": number} for number in STATES if number < most - 2)


def _places(on_device: bool, options: Options, inexact: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Where history goes, and how it is coded; "lossless" only to the disk, as elsewhere it may not save a byte."""
    modes = _free(options, "storage_mode", ("device", "cpu", "disk"))
    codings = _free(options, "storage_compression", (False, "lossless", *(name for name in inexact if name in INEXACT[2:])))
    for mode, coding in product(modes, codings):
        same = mode == "cpu" and coding is False and not on_device and len(modes) > 1
        useless = mode != "disk" and coding == "lossless" and len(codings) > 1
        if not (same or useless or (mode == "device" and coding == "lossless")):
            path = {"storage_path": None} if mode != "disk" and len(modes) > 1 else {}
            yield {"storage_mode": mode, "storage_compression": coding} | path


def _free(options: Options, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values to try of a lever: only the caller's if that is not the default one."""
    given = getattr(options, name)
    return values if given == getattr(Options(), name) else (given,)


def _halves(shots: int) -> Iterator[int]:
    while shots > 1:
        shots = -(-shots // 2)
        yield shots
