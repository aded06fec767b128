"""Expected times: what a call does, counted in legs, times what each thing takes on this machine.

A leg is a stretch of steps of one kind. Its time is linear in a few counts, and the factors are found by least squares
from calls that were timed. Where history moves to the host or a file at the same time, a device waits for the slower of
both; the cores of a host do both, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Seconds:
    """Expected times of a call, compilation not included.

    Attributes
    ----------
    forward : float
        Of the call.
    backward : float
        Of the backward pass; 0 where nothing requires a gradient.
    """

    forward: float
    backward: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.forward + self.backward

    def __str__(self) -> str:
        return f"{self.forward:.3g} s forward, {self.backward:.3g} s backward"


class Counts(NamedTuple):
    """What the time of a leg grows with.

    Attributes
    ----------
    calls : int
        1 in the first leg of a pass: what is done once.
    fresh : int
        Bytes that the pass allocates; the first touch of a page takes time.
    steps : int
    layered : int
        Steps of grids with absorbing layers, where these have kernels of their own or not.
    cells, slabs : float
        Cells computed in all steps, and again those in absorbing slabs, once for each axis that absorbs there; a
        thread's share.
    values : int
        Values of history written or read.
    gathered : int
        Steps in which the values around a box are gathered, or put back.
    ring : int
        These values.
    parts : int
        Runs of steps between which something else is done: a segment begins, or history moves.
    """

    calls: int = 0
    fresh: int = 0
    steps: int = 0
    layered: int = 0
    cells: float = 0.0
    slabs: float = 0.0
    values: int = 0
    gathered: int = 0
    ring: int = 0
    parts: int = 0


@dataclass(frozen=True)
class Leg:
    """Steps of one kind, and what moves meanwhile.

    Attributes
    ----------
    direction : {"forward", "adjoint"}
    counts : Counts
    written, read : int
        Bytes of history, as values, that a store takes or gives.
    states : int
        Bytes of states that are saved or loaded.
    times : int
        How many such legs there are.
    """

    direction: Literal["forward", "adjoint"]
    counts: Counts
    written: int = 0
    read: int = 0
    states: int = 0
    times: int = 1


@dataclass(frozen=True)
class Rates:
    """Seconds for each of the counts of a leg, by direction."""

    forward: tuple[float, ...]
    adjoint: tuple[float, ...]

    def compute(self, leg: Leg) -> float:
        """Seconds of a leg whose history stays where it is."""
        rates = self.forward if leg.direction == "forward" else self.adjoint
        return sum(rate * count for rate, count in zip(rates, leg.counts, strict=True))


@dataclass(frozen=True)
class Link:
    """What it takes to bring history and states to where they are kept, and back: seconds a byte, and a part.

    Attributes
    ----------
    write, read, states : float
    parts : float
        Seconds a part in which history moves, which pass between one stretch of steps and the next.
    together : bool
        Whether steps go on at full speed meanwhile.
    """

    write: float = 0.0
    read: float = 0.0
    states: float = 0.0
    together: bool = field(default=False)
    parts: float = 0.0

    def seconds(self, leg: Leg, compute: float) -> float:
        """Seconds of a leg that takes so long without."""
        moving = leg.written * self.write + leg.read * self.read
        handling = leg.counts.parts * self.parts if leg.written or leg.read else 0.0
        both = max(compute, moving) if self.together else compute + moving
        return both + handling + leg.states * self.states


def seconds(legs: Iterable[Leg], rates: Rates, link: Link) -> float:
    """The time of a pass."""
    return sum(leg.times * link.seconds(leg, rates.compute(leg)) for leg in legs)


def fit(counts: Sequence[Sequence[float]], times: Sequence[float]) -> tuple[float, ...]:
    """Factors of zero or more that come nearest to what was measured, relative to each time.

    The best factors use some of the counts and leave out others; there are so few that all choices are tried.

    Parameters
    ----------
    counts : sequence of Counts
        A row a measurement.
    times : sequence of float

    Returns
    -------
    tuple of float
    """
    rows: NDArray[Any] = np.asarray(counts, float) / np.asarray(times, float)[:, None]
    size = np.abs(rows).max(0)
    used = np.flatnonzero(size)
    scaled, best, least = rows / np.where(size, size, 1), np.zeros(rows.shape[1]), float(len(times))
    for number in range(1, len(used) + 1):
        for chosen in map(list, combinations(used, number)):
            found = np.linalg.lstsq(scaled[:, chosen], np.ones(len(times)), rcond=None)[0]
            off = float(np.sum((scaled[:, chosen] @ found - 1) ** 2))
            if off < least and (found >= 0).all():
                best, least = np.zeros(rows.shape[1]), off
                best[chosen] = found / size[chosen]
    return tuple(float(factor) for factor in best)
