"""The fastest call that fits into a budget, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numbawave.engine.setup import Setup, setup
from numbawave.equations import Equation
from numbawave.errors import InsufficientMemoryError
from numbawave.planning.budget import INEXACT, Budget
from numbawave.torch_bridge.advice import adviser
from numbawave.torch_bridge.calibration import Calibration, spent
from numbawave.torch_bridge.candidates import Candidate, Candidates, as_it_is, candidate, ways
from numbawave.torch_bridge.frontend import Prepared, prepare
from numbawave.torch_bridge.limits import Limits, limits
from numbawave.torch_bridge.options import Options

WORTH = 0.9
"""A gradient is changed only for a call that takes less than this part of the time."""


@dataclass(frozen=True)
class Choice:
    """A call with its levers pulled.

    Attributes
    ----------
    prepared : Prepared
    options : Options
    levers : dict
        What was chosen.
    candidates : Candidates
        What it was chosen from; none without a budget.
    reason : str
    """

    prepared: Prepared
    options: Options
    levers: dict[str, Any]
    candidates: Candidates = field(default_factory=Candidates)
    reason: str = ""


def choose(equation: Equation, models: Mapping[str, Any], grid_spacing: Any, dt: float, options: Options) -> Choice:
    """Check a call and lay out its run, its levers pulled as its budget asks for.

    Parameters
    ----------
    equation, models, grid_spacing, dt, options
        As ``prepare`` takes them.

    Returns
    -------
    Choice

    Raises
    ------
    InsufficientMemoryError
        If nothing fits into the budget.
    NumbawaveError
        As ``prepare`` does.
    """
    bare = options if options.memory is None else as_it_is(options)
    prepared = prepare(equation, models, grid_spacing, dt, bare)
    if options.memory is None:
        return Choice(prepared, options, {})
    budget = options.memory
    allowed = limits(budget, prepared.run.space.device, options.storage_path)
    first = candidate(prepared, {"storage_path": None} if bare.storage_path != options.storage_path else {}, allowed)
    if first.fits:
        return Choice(
            prepared, bare, first.levers, Candidates([first]), "the call fits as it is, and levers only cost time"
        )
    undo = setup(equation, len(prepared.run.grid.axes), prepared.run.setup.accuracy, frozenset())
    found = list(ways(prepared, options, undo, budget.inexact, allowed))
    fitting = _timed([each for each in found if each.fits])
    if not fitting:
        raise _nothing(prepared, options, undo, found, allowed)
    best = fitting[0]
    run, chosen = best.prepared.run, replace(options, **best.levers)
    run.advice = adviser(run, chosen, undo if chosen.history == "reconstruct" else None)
    rest = sorted((each for each in found if not each.fits), key=lambda each: each.misses)
    return Choice(best.prepared, chosen, best.levers, Candidates([*fitting, *rest]), _reason(fitting))


def _timed(found: list[Candidate]) -> list[Candidate]:
    """Candidates with their times, the preferred one first: the fastest, unless an exact one is nearly as fast."""
    if len(found) > 1:
        known = Calibration(found[0].prepared)
        found = [replace(each, seconds=known.seconds(each.prepared.run, spent(each.prepared))) for each in found]

    def order(each: Candidate) -> tuple[float, int]:
        total = each.seconds.total if each.seconds else 0.0
        return (total if each.inexact else total * WORTH), len(each.levers)

    return sorted(found, key=order)


def _reason(fitting: list[Candidate]) -> str:
    best = fitting[0]
    if len(fitting) == 1 or best.seconds is None:
        return f"{best.words}: all that fits"
    change = f", though it changes the gradient ({', '.join(best.inexact)})" if best.inexact else ""
    faster = [each for each in fitting if each.seconds and each.seconds.total < best.seconds.total]
    near = "; what is a little faster changes the gradient" if any(each.inexact for each in faster) else ""
    return f"{best.words}: the fastest of {len(fitting)} ways that fit{change}{near}"


def _nothing(
    prepared: Prepared, options: Options, undo: Setup, found: list[Candidate], allowed: Limits
) -> InsufficientMemoryError:
    """The error where nothing fits: the nearest way, what it lacks, and what would do."""
    nearest = min(found, key=lambda each: each.misses)
    over = {place: size - allowed[place] for place, size in nearest.memory.items() if size > allowed[place]}
    lacks = " and ".join(f"{_giga(size)} more of {place}" for place, size in over.items())
    rule = f"no levers make the call fit: the nearest, {nearest.words}, needs {lacks}"
    more = ", ".join(f"{place}={_text(nearest.memory[place])!r}" for place in over)
    remedies = [f"give Budget({more})"]
    budget: Budget = options.memory
    if prepared.wanted and budget.inexact != INEXACT:
        others = (each for each in ways(prepared, options, undo, INEXACT, allowed) if each.fits)
        least = min(others, key=lambda each: (len(each.inexact), each.misses), default=None)
        remedies += [f"allow inexact={least.inexact!r} ({least.words})"] if least is not None else []
    remedies += ["give fewer shots a call"] if prepared.run.shots > 1 else []
    remedies += ["a larger model_gradient_sampling_interval"] if prepared.wanted else []
    value = ", ".join(f"{place} {_giga(size)}" for place, size in allowed.items())
    return InsufficientMemoryError("memory", value, rule, ", or ".join(remedies))


def _giga(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e7 else f"{size / 1e6:.3g} MB"


def _text(size: int) -> str:
    """A size as a budget takes it, rounded up."""
    unit, name = (10**9, "GB") if size >= 10**9 else (10**6, "MB")
    return f"{-(-size * 100 // unit) / 100:g} {name}"
