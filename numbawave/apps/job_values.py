"""Reading the values of a job, the same from a TOML file and from command options."""

from collections.abc import Callable
from typing import Any

from ..errors import InvalidTypeError, InvalidValueError

Reader = Callable[[str, Any], Any]


def text(name: str, value: Any) -> str:
    """Read a word or a path.

    Parameters
    ----------
    name : str
        The job's key, for messages.
    value : object
        From a TOML file, or the text of an option.

    Returns
    -------
    str
    """
    if not isinstance(value, str):
        raise InvalidTypeError(name, value, "must be text", f'write it in quotes, such as {name} = "..."')
    return value


def integer(name: str, value: Any) -> int:
    """Read a whole number.

    Parameters
    ----------
    name : str
        The job's key, for messages.
    value : object
        From a TOML file, or the text of an option.

    Returns
    -------
    int
    """
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    elif isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidTypeError(name, value, "must be a whole number", f"write it like {name} = 12")


def count(name: str, value: Any) -> int | str:
    """Read a whole number, or the word ``auto``.

    Parameters
    ----------
    name : str
        The job's key, for messages.
    value : object
        From a TOML file, or the text of an option.

    Returns
    -------
    int or "auto"
    """
    return "auto" if value == "auto" else integer(name, value)


def number(name: str, value: Any) -> float:
    """Read a finite number.

    Parameters
    ----------
    name : str
        The job's key, for messages.
    value : object
        From a TOML file, or the text of an option.

    Returns
    -------
    float
    """
    try:
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise ValueError
        result = float(value)
    except ValueError:
        raise InvalidTypeError(name, value, "must be a number", f"write it like {name} = 12.5") from None
    if result != result or result in (float("inf"), float("-inf")):
        raise InvalidValueError(name, value, "must be finite", "give an ordinary number")
    return result


def _items(value: Any, separator: str = ",") -> list[Any]:
    if isinstance(value, str):
        return [item.strip() for item in value.split(separator) if item.strip()]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def integers(name: str, value: Any) -> tuple[int, ...]:
    """Read one or several whole numbers: ``12``, ``[12, 30]``, or ``12,30`` as an option.

    Parameters
    ----------
    name : str
        The job's key, for messages.
    value : object
        From a TOML file, or the text of an option.

    Returns
    -------
    tuple of int
    """
    return tuple(integer(name, item) for item in _items(value))


def numbers(name: str, value: Any) -> tuple[float, ...]:
    """Read one or several numbers: ``12.5``, ``[12.5, 20]``, or ``12.5,20`` as an option.

    Parameters
    ----------
    name : str
        The job's key, for messages.
    value : object
        From a TOML file, or the text of an option.

    Returns
    -------
    tuple of float
    """
    return tuple(number(name, item) for item in _items(value))


def stages(name: str, value: Any) -> tuple[tuple[float, int], ...]:
    """Read frequency stages: ``[[3.0, 10], [5.0, 12]]``, or ``3:10,5:12`` as an option.

    Parameters
    ----------
    name : str
        The job's key, for messages.
    value : object
        From a TOML file, or the text of an option.

    Returns
    -------
    tuple of (float, int)
        Corner frequency in Hz and number of iterations.
    """
    pairs = [_items(item, ":") for item in _items(value)]
    if any(len(pair) != 2 for pair in pairs):
        raise InvalidTypeError(
            name,
            value,
            "each stage is a corner frequency in Hz and a number of iterations",
            f"write {name} = [[3.0, 10], [5.0, 12]] in a file or --{name} 3:10,5:12 as an option",
        )
    return tuple((number(name, corner), integer(name, iterations)) for corner, iterations in pairs)
