"""Steps made again between steps back, in arrays that one of the two leaves alone while the other goes on."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import cache, partial
from typing import Any

from numbawave.engine.march import Arrays, March


def shared_arrays(run: Any) -> dict[str, str]:
    """What steps made again borrow from those back: between two stretches these keep nothing but their state.

    Parameters
    ----------
    run : Run

    Returns
    -------
    dict of str to str
        An array of the forward program, and one of the adjoint program of its shape.
    """
    state = {f"adjoint_{array}" for _, _, array in run.setup.state_names}
    adjoint = field_shapes(run, run.setup.adjoint.program, "adjoint_")
    spare = {name: shape for name, shape in adjoint if name not in state}
    found = {}
    for name, shape in field_shapes(run, run.setup.forward):
        if (other := next((other for other, its in spare.items() if its == shape), None)) is not None:
            found[name] = other
            del spare[other]
    return found


def field_shapes(run: Any, program: Any, prefix: str = "") -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every array of a program's fields: name and shape; ``prefix`` is that of the state's arrays."""
    names = {prefix + array: field for _, field, array in run.setup.state_names} | program.arrays
    for name, field in names.items():
        yield name, (run.shots, *run.setup.field_shape(run.grid, field))


class Replay:
    """Marches that make steps again, and the steps back whose arrays they borrow.

    Fields change places with those of their other time level, so what is free is not always the same array: there is a
    march for each way that it lies.

    Parameters
    ----------
    run : Run
    back : March
    make : callable
        Makes the other arrays of a march; it is told the names of those that are lent.
    """

    def __init__(self, run: Any, back: March, make: Callable[[Container[str]], Arrays]) -> None:
        self._run, self._back, self._shared = run, back, shared_arrays(run)
        self._own = cache(partial(make, self._shared))
        self._marches: dict[tuple[int, ...], March] = {}
        self._lent = False

    def ahead(self) -> March:
        """The march that makes steps again; where it has just borrowed, it needs a state."""
        lent = {name: self._back.arrays[other] for name, other in self._shared.items()}
        if not self._lent:
            self._clear()
        self._lent = True
        key = tuple(map(id, lent.values()))
        if key not in self._marches:
            self._marches[key] = March(self._run, "forward", self._own() | lent)
        return self._marches[key]

    def back(self, first: int, last: int) -> None:
        """Go back from step ``last - 1`` to ``first``, imaging."""
        if self._lent:
            self._clear()
        self._lent = False
        self._back.go(first, last, history=True)

    def _clear(self) -> None:
        # Where a program computes nothing it reads zeros, so what the other one left must go.
        for other in self._shared.values():
            self._back.arrays[other][...] = 0.0
