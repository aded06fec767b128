"""Writing a file so that it is either the old one or the new one, whole, whatever happens in between."""

import contextlib
import os
from pathlib import Path

from ..errors import StorageError


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step.

    The bytes go to a temporary file in the same folder, are forced to disk, and then take the file's name. A
    kill at any moment, or a full disk, leaves the previous file as it was.

    Parameters
    ----------
    path : Path
    content : bytes

    Raises
    ------
    StorageError
        If the folder is full or cannot be written.
    """
    partial = path.with_name(path.name + ".part")
    try:
        with open(partial, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise StorageError(
            str(path),
            f"{len(content)} bytes",
            f"could not be written ({error.strerror or error}); an earlier file of this name is whole",
            "free some space or give another --output, then run the same command again",
        ) from error


def _sync_folder(folder: Path) -> None:
    """Force the new name to disk too, where a folder can be opened (not on Windows)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    StorageError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            "output", str(folder), f"this folder cannot be made ({error.strerror})", "give another --output"
        ) from error
