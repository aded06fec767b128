"""The reference's text, made from the package's public names, registries and docstrings whenever the pages are built."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import numbawave
from numbawave.torch_bridge.options import Options

APPS = ("ddp", "ranks", "plots", "models", "smoothing")
"""Modules of the applications that scripts of one's own use."""


def filled(page: str) -> str:
    """A page whose marks, ``<!-- names -->`` and so on, are replaced by what they stand for."""
    for name, made in MARKS.items():
        page = page.replace(f"<!-- {name} -->", made())
    return page


def names() -> str:
    """Everything that ``numbawave`` names, functions first, errors last."""
    found = {name: getattr(numbawave, name) for name in numbawave.__all__}
    return "\n\n".join(described(f"numbawave.{name}", found[name]) for name in sorted(found, key=lambda n: rank(found[n])))


def rank(value: Any) -> int:
    """Functions, classes, modules, errors."""
    if inspect.isclass(value):
        return 3 if issubclass(value, Exception) else 1
    return 2 if inspect.ismodule(value) else 0


def described(path: str, value: Any) -> str:
    """A name's documentation, as a block for autodoc."""
    if inspect.ismodule(value):
        return directive("automodule", path, "members")
    if inspect.isclass(value):
        error = issubclass(value, Exception)
        return directive("autoexception" if error else "autoclass", path, *(() if error else ("members",)))
    return directive("autofunction", path)


def directive(kind: str, path: str, *flags: str) -> str:
    """An autodoc directive in a page of MyST."""
    lines = [f".. {kind}:: {path}", *(f"   :{flag}:" for flag in flags)]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def apps() -> str:
    """The modules of the applications."""
    return "\n\n".join(described(f"numbawave.apps.{n}", importlib.import_module(f"numbawave.apps.{n}")) for n in APPS)


def options() -> str:
    """The options of every propagator as a table: name, what it may be, default, what it does."""
    defaults = {field.name: field.default for field in dataclasses.fields(Options)}
    rows = []
    for titles, kind, text in entries(Options):
        shown = ", ".join(f"`{defaults[title]!r}`" for title in titles)
        rows.append((", ".join(f"`{title}`" for title in titles), kind.replace(", optional", ""), shown, text))
    return table(("option", "values", "default", "meaning"), rows)


def entries(documented: type) -> list[tuple[list[str], str, str]]:
    """The attributes of a class by its docstring: names that go together, type, meaning."""
    text = inspect.cleandoc(documented.__doc__ or "").split("Attributes\n----------\n", 1)[1]
    parts = re.split(r"^(?=\S)", text, flags=re.MULTILINE)
    heads = [(part.partition("\n")[0].partition(" : "), part.partition("\n")[2]) for part in parts if part.strip()]
    return [(head[0].split(", "), head[2], " ".join(body.split()).replace("``", "`")) for head, body in heads]


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(word.replace("|", "\\|") for word in line) + " |" for line in lines)


def equations() -> str:
    """The registry of equations: what each model is."""
    rows = [
        (f"`{name}`", ", ".join(f"`{model.name}`, {model.meaning} ({model.unit})" for model in equation.models))
        for name, equation in numbawave.equations.EQUATIONS.items()
    ]
    return table(("equation", "models"), rows)


def registries() -> str:
    """What options may name: backends, regions, codings."""
    from numbawave.backends import BACKENDS
    from numbawave.history.codecs.compression import ERRORS
    from numbawave.torch_bridge.options import REGIONS

    rows = [
        ("`backend`", ", ".join(f"`{name}`" for name in BACKENDS)),
        ("`history`", ", ".join(f"`{name}`" for name in REGIONS)),
        ("`Compression.coding`", ", ".join(f"`{name}` (error at most {error:g})" for name, error in ERRORS.items())),
    ]
    return table(("where", "names"), rows)


def commands() -> str:
    """The words of the command line."""
    from numbawave.apps.cli import COMMANDS

    return table(("command", "what it does"), [(f"`numbawave {c.name}`", c.about) for c in COMMANDS])


MARKS: dict[str, Callable[[], str]] = {
    "apps": apps,
    "commands": commands,
    "equations": equations,
    "names": names,
    "options": options,
    "registries": registries,
}
"""What a page may ask for."""
