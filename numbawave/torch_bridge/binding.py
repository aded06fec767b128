"""From the arguments of a public call to what they mean."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from numbawave.equations import Equation
from numbawave.errors import InvalidTypeError, InvalidValueError
from numbawave.torch_bridge.options import Options
from numbawave.torch_bridge.result import PropagatorOutput

Bound = tuple[Equation, Mapping[str, Any], Any, float, Options]
"""A call's arguments, as ``propagate`` takes them."""


@cache
def signature(equation: Equation) -> inspect.Signature:
    """The signature of an equation's function: the models, the grid, and every option with its default.

    Parameters
    ----------
    equation : Equation

    Returns
    -------
    inspect.Signature
    """
    kind = inspect.Parameter
    leading = [kind(m.name, kind.POSITIONAL_OR_KEYWORD) for m in equation.models]
    leading += [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in ("grid_spacing", "dt")]
    trailing = [
        kind(f.name, kind.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for f in fields(Options)
        if f.default is not MISSING
    ]
    return inspect.Signature([*leading, *trailing], return_annotation=PropagatorOutput)


def bound(equation: Equation, /, *arguments: Any, **keywords: Any) -> Bound:
    """What the arguments of an equation's function mean.

    Parameters
    ----------
    equation : Equation
    *arguments, **keywords
        As the function takes them.

    Returns
    -------
    tuple
        The arguments of ``propagate`` and ``prepare``.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        If an argument is missing, unknown, given twice or cannot be an option.
    """
    names = [model.name for model in equation.models]
    given = signature(equation).bind_partial(*arguments).arguments
    for name in given.keys() & keywords.keys():
        rule = f"{name} is given already, by its place or by the module that holds it"
        raise InvalidTypeError(name, "given twice", rule, "leave one of them out")
    given |= keywords
    missing = [name for name in (*names, "grid_spacing", "dt") if name not in given]
    if missing:
        raise InvalidValueError(missing[0], "missing", f"{equation.name} needs it", f"give {missing[0]}")
    models = {name: given.pop(name) for name in names}
    return equation, models, given.pop("grid_spacing"), given.pop("dt"), Options.of(given)
