"""Printed modules on disk: named by their content, written once, shared by every process."""

import gc
import hashlib
import importlib.util
import linecache
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any


def cache_folder() -> Path:
    """Where printed modules and their compiled forms are kept.

    Returns
    -------
    Path
        ``NUMBAWAVE_CACHE_DIR`` if set, else ``numbawave`` in the user's cache folder. It is made when first written to.
    """
    chosen = os.environ.get("NUMBAWAVE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    user = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return (Path(user) if user else Path.home() / ".cache") / "numbawave"


def load(title: str, text: str, options: Any = None) -> ModuleType:
    """Import a printed module, writing it first where it is new.

    A folder that cannot be written is no error: the module then lives in memory and is compiled anew in each process.

    Parameters
    ----------
    title : str
        What the file's name starts with.
    text : str
        The module's source.
    options : any, optional
        What else decides how it is compiled, by its ``repr``: Numba's own cache key knows only the file.

    Returns
    -------
    ModuleType
        The module, registered in ``sys.modules``.
    """
    name = _name(title, text, str(options))
    if name in sys.modules:
        return sys.modules[name]
    path = cache_folder() / f"{name}.py"
    return _imported(name, str(path) if _written(path, text) else f"<numbawave {name}>", text)


@lru_cache(maxsize=512)
def _name(title: str, text: str, options: str) -> str:
    return f"nw_{title}_{hashlib.sha256(f'{text}{options}'.encode()).hexdigest()[:16]}"


def load_file(path: Path) -> ModuleType:
    """Import a printed module that another process wrote.

    Parameters
    ----------
    path : Path
        Its file.

    Returns
    -------
    ModuleType
        The module, under the name that it has in the process that wrote it.

    Raises
    ------
    OSError
        The file is not there.
    """
    return _imported(path.stem, str(path), path.read_text(encoding="utf-8"))


def _imported(name: str, origin: str, text: str) -> ModuleType:
    spec = importlib.util.spec_from_loader(name, loader=None, origin=origin)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = origin
    linecache.cache[origin] = (len(text), None, text.splitlines(keepends=True), origin)
    sys.modules[name] = module
    try:
        exec(compile(text, origin, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _written(path: Path, text: str) -> bool:
    """Whether the file holds the text, after an attempt to write it whole and once.

    A second process that writes at the same time must not replace the file: its time stamp is part of Numba's cache key.
    """
    try:
        if path.read_text(encoding="utf-8") == text:
            return True
    except (OSError, UnicodeError):
        pass
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            os.link(temporary, path)
            os.unlink(temporary)
        except OSError:
            os.replace(temporary, path)
        return path.read_text(encoding="utf-8") == text
    except OSError:
        return False


def on_disk(file: str | None) -> bool:
    """Whether a printed module lies in a file beside which Numba can keep its compiled form."""
    return os.path.isfile(str(file)) and os.access(os.path.dirname(str(file)), os.W_OK)


@contextmanager
def one_process(module: ModuleType) -> Iterator[None]:
    """Let one process at a time compile a printed module: the others then find it compiled on the disk.

    The garbage collector rests meanwhile: it would take a tenth of the time to look through what is all still in use.
    """
    path = Path(str(module.__file__))
    with ExitStack() as stack:
        if gc.isenabled():
            gc.disable()
            stack.callback(gc.enable)
        if path.is_file():  # a module that lives in memory is compiled by each process for itself
            with suppress(ImportError, OSError):
                import fcntl

                fcntl.flock(stack.enter_context(path.with_suffix(".lock").open("w")), fcntl.LOCK_EX)
        yield
