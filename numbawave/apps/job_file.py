"""From a TOML file and options to a checked `Job`: every mistake is found before any work is done."""

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import InvalidValueError, StorageError
from ..planning.budget import bytes_of
from ..torch_bridge.options import REGIONS
from .job import Job

OPTIMISERS = ("adam", "lbfgs", "sgd")
MISFIT_NAMES = ("envelope", "huber", "l1", "l2", "normalised")


def read_job(path: str | None = None, options: Mapping[str, Any] | None = None) -> Job:
    """Build a job from a file and from options; an option wins over the file, both win over the defaults.

    Parameters
    ----------
    path : str, optional
        A TOML file whose keys are the fields of `Job`.
    options : mapping, optional
        The same keys; values as in the file, or as text as on the command line.

    Returns
    -------
    Job

    Raises
    ------
    StorageError
        If the file cannot be read.
    InvalidTypeError, InvalidValueError
        If the file is no TOML, a key is unknown, or a value breaks a rule.
    """
    fields = {field.name: field for field in dataclasses.fields(Job)}
    given: dict[str, Any] = {**(_read_toml(path) if path else {}), **(options or {})}
    read: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            near = difflib.get_close_matches(name, fields, 1)
            remedy = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(fields)}"
            raise InvalidValueError(name, value, "a job has no key of this name", remedy)
        read[name] = fields[name].metadata["reader"](name, value)
    job = Job(**read)
    check_job(job)
    return job


def _read_toml(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError("job file", path, f"cannot be read ({error.strerror})", "check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValueError(
            "job file", path, f"is not TOML ({error})", 'write lines like  misfit = "l2"  or  shots = 14'
        ) from error


Rule = tuple[str, Callable[[Any], bool], str, str]


def _is_budget(value: str) -> bool:
    with suppress(InvalidValueError):
        return value in ("", "auto") or bytes_of("memory", value) >= 0
    return False


WORDS = {
    "history": REGIONS,
    "storage_mode": ("device", "cpu", "disk"),
    "storage_compression": ("none", "lossy", "lossless", "bf16", "int8"),
}
"""What the keys that are words of a propagator's options may be."""

RULES: tuple[Rule, ...] = (
    (
        "shape",
        lambda v: len(v) in (0, 2, 3) and all(n >= 8 for n in v),
        "needs 2 or 3 axes of 8 cells or more",
        "70,200",
    ),
    (
        "grid_spacing",
        lambda v: len(v) in (1, 2, 3) and all(h > 0 for h in v),
        "must be positive metres",
        "25",
    ),
    ("seed", lambda v: v >= 0, "must not be negative", "2"),
    ("start_smoothing", lambda v: v >= 0, "must not be negative", "300"),
    ("peak_frequency", lambda v: v > 0, "must be positive Hz", "7"),
    ("dt", lambda v: v >= 0, "must be positive seconds, or 0 for the longest", "0"),
    ("nt", lambda v: v == 0 or v >= 16, "must be 16 or more, or 0 to choose it", "0"),
    (
        "shots",
        lambda v: len(v) in (1, 2) and all(n >= 1 for n in v),
        "must be one count, or two in 3-D",
        "14",
    ),
    (
        "receivers",
        lambda v: len(v) <= 2 and all(n >= 1 for n in v),
        "must be one count, or two in 3-D",
        "100",
    ),
    ("shot_depth", lambda v: v >= 0, "must not be negative", "2"),
    ("receiver_depth", lambda v: v >= 0, "must not be negative", "2"),
    (
        "stages",
        lambda v: len(v) > 0 and all(f > 0 and n >= 1 for f, n in v),
        "needs Hz > 0 and iterations > 0",
        "3:10",
    ),
    ("batch_shots", lambda v: v >= 1, "must be 1 or more", "7"),
    ("shots_per_iteration", lambda v: v >= 0, "must be positive, or 0 for all", "0"),
    ("misfit", lambda v: v in MISFIT_NAMES, f"must be one of {', '.join(MISFIT_NAMES)}", "l2"),
    ("optimiser", lambda v: v in OPTIMISERS, f"must be one of {', '.join(OPTIMISERS)}", "adam"),
    ("learning_rate", lambda v: v > 0, "must be positive m/s", "30"),
    ("damping", lambda v: v >= 1e-8, "must be 1e-8 or more", "0.1"),
    ("gradient_smoothing", lambda v: v >= 0, "must not be negative", "1"),
    ("depth_power", lambda v: 0 <= v <= 4, "must lie in 0 to 4", "0"),
    ("water", lambda v: v >= -1, "must be cells, or -1 to find it", "-1"),
    ("water_speed", lambda v: v > 0, "must be positive m/s", "1500"),
    ("vmin", lambda v: v > 0, "must be positive m/s", "1400"),
    ("vmax", lambda v: v > 0, "must be positive m/s", "4800"),
    ("accuracy", lambda v: v in (2, 4, 6, 8), "must be 2, 4, 6 or 8", "4"),
    ("pml_width", lambda v: v >= 0, "must not be negative", "20"),
    (
        "device",
        lambda v: re.fullmatch(r"auto|cpu|cuda(:\d+)?", v) is not None,
        "must be auto, cpu, cuda or cuda with a number",
        "cuda:1",
    ),
    ("dtype", lambda v: v in ("float32", "float64"), "must be float32 or float64", "float32"),
    *(
        (name, lambda v, known=known: v in known, f"must be one of {', '.join(known)}", known[0])
        for name, known in WORDS.items()
    ),
    ("checkpoint_segments", lambda v: v == "auto" or v >= 0, "must be auto, a number of segments, or 0 for one", "5"),
    ("checkpoint_states", lambda v: v >= 0, "must be a number of wavefields, or 0 for all", "0"),
    ("memory", _is_budget, "must be auto, or bytes with a unit", "4 GB"),
    ("output", lambda v: v != "", "must name a folder", "numbawave-fwi"),
)


def check_job(job: Job) -> None:
    """Check each value, and the values against one another.

    Parameters
    ----------
    job : Job

    Raises
    ------
    InvalidValueError
        At the first rule that is broken.
    """
    for name, holds, rule, example in RULES:
        value = getattr(job, name)
        if not holds(value):
            raise InvalidValueError(name, value, rule, f"give a value such as {example}")
    if job.vmin >= job.vmax:
        raise InvalidValueError("vmin", job.vmin, f"must be below vmax = {job.vmax:g}", "swap or widen the bounds")
    n_shots = 1
    for count in job.shots:
        n_shots *= count
    if job.shots_per_iteration > n_shots:
        remedy = "draw fewer, or 0 for all of them"
        raise InvalidValueError("shots_per_iteration", job.shots_per_iteration, f"there are {n_shots} shots", remedy)
    if job.optimiser == "lbfgs" and job.shots_per_iteration:
        rule = "lbfgs compares gradients of successive iterations, so every iteration needs all shots"
        raise InvalidValueError("shots_per_iteration", job.shots_per_iteration, rule, "give 0, or optimiser adam")
    if job.model == "none" and (job.start == "smooth" or job.observed == "synthetic"):
        rule = "without a true model there is nothing to blur and nothing to record"
        raise InvalidValueError("model", job.model, rule, "give files for start and for observed")
