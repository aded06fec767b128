"""Observed records: from the job's file, or computed once in the true model and kept in the output folder."""

import hashlib
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .atomic_file import write_atomically
from .problem import Problem

RecordAll = Callable[[Tensor, Tensor], Tensor]


def observed_records(problem: Problem, folder: Path, record_all: RecordAll | None = None) -> Tensor:
    """The records to be fitted.

    Synthetic records are computed again whenever the kept ones are missing, damaged or of another job; the
    result is the same bit for bit, so nothing depends on which of the two happened.

    Parameters
    ----------
    problem : Problem
    folder : Path
        Where they are kept, as ``observed.npz``.
    record_all : callable, optional
        Takes a model and a wavelet and gives the records of all shots; ``problem.record_all`` unless given.

    Returns
    -------
    Tensor [shot, receiver, time]

    Raises
    ------
    StorageError
        If they cannot be written.
    """
    if problem.observed is not None:
        return problem.observed
    assert problem.true is not None  # check_job saw to it
    path = folder / "observed.npz"
    name = _origin(problem)
    kept = _kept(path, name)
    if kept is not None:
        return kept
    records = (record_all or problem.record_all)(problem.true, problem.wavelet)
    stream = io.BytesIO()
    np.savez(stream, records=records.numpy(), origin=name, digest=_digest(records.numpy()))
    write_atomically(path, stream.getvalue())
    return records


def _origin(problem: Problem) -> str:
    job = problem.job
    numbers = (job.accuracy, job.pml_width, job.peak_frequency, job.vmax, job.batch_shots)
    return hashlib.sha256(f"{numbers} {problem.digest()}".encode()).hexdigest()


def _digest(records: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(records).tobytes()).hexdigest()


def _kept(path: Path, name: str) -> Tensor | None:
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            records = archive["records"]
            if str(archive["origin"]) == name and str(archive["digest"]) == _digest(records):
                return torch.from_numpy(records)
    except Exception:  # damage shows as many types (zip, zlib, key, value); each means: compute them again
        return None
    return None
