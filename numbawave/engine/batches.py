"""Shots a few at a time: a run forward and back whose history and fields are those of one batch.

Forward a batch keeps nothing. On the way back it is run again, with history, and its adjoint follows; gradients add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numbawave.engine.buffers import declare
from numbawave.engine.scaling import residual
from numbawave.engine.shots import columns, split

Arrays = dict[str, Any]
Given = Mapping[str, Any]


def forward(run: Any, parameters: Given, amplitudes: Given, initial: Given, keep: bool) -> tuple[Arrays, Arrays]:
    """Step all shots through time; see ``Run.forward``."""
    if not run.batch:
        return run.forward(parameters, amplitudes, initial, keep)  # type: ignore[no-any-return]
    run.ledger = declare(run, keep)
    records = {r.name: run.make(f"all.record_{r.name}", zero=False) for r in run.setup.forward.records}
    state = {name: run.make(f"all.{array}", zero=False) for name, _, array in run.setup.state_names}
    for shots, part in split(run):
        some = (_models(run, parameters, shots), _points(run, amplitudes, shots), _states(initial, shots))
        found, end = part.forward(*some, keep)
        for name, values in found.items():
            records[name][:, columns(records[name].shape[1], run.shots, shots)] = values
        for name, values in end.items():
            state[name][shots] = values
    return records, state


def adjoint(
    run: Any,
    parameters: Given,
    amplitudes: Given,
    cotangents: Given,
    final: Given,
    initial: Given,
    image: bool,
    want_state: bool,
) -> tuple[Arrays, Arrays, Arrays]:
    """Step all shots back; see ``Run.adjoint``. Cotangents of the records may be None, for zero."""
    if not run.batch:
        residuals = {name: residual(run, name, values) for name, values in cotangents.items()}
        return run.adjoint(  # type: ignore[no-any-return]
            parameters, amplitudes, residuals, final, initial, image, want_state
        )
    gradients = {name: run.make(f"all.gradient_{name}") for name in parameters} if image else {}
    traces = {name: run.make(f"all.gradient_{name}", zero=False) for name in amplitudes}
    arrays = run.setup.state_names if want_state else ()
    state = {name: run.make(f"all.adjoint_{array}", zero=False) for name, _, array in arrays}
    for shots, part in split(run):
        part.ledger = declare(part, image)
        some = _points(run, {n: values for n, values in cotangents.items() if values is not None}, shots)
        residuals = {name: residual(part, name, some.get(name)) for name in cotangents}
        found = part.adjoint(_models(run, parameters, shots), _points(run, amplitudes, shots), residuals,
                             _states(final, shots), _states(initial, shots), image, want_state)  # fmt: skip
        for name, values in found[0].items():
            gradients[name][shots if run.batched else ...] += values
        for name, values in found[1].items():
            traces[name][:, columns(traces[name].shape[1], run.shots, shots)] = values
        for name, values in found[2].items():
            state[name][shots] = values
    return gradients, traces, state


def _models(run: Any, parameters: Given, shots: slice) -> Given:
    return _states(parameters, shots) if run.batched else parameters


def _states(arrays: Given, shots: slice) -> Arrays:
    return {name: values[shots] for name, values in arrays.items()}


def _points(run: Any, arrays: Given, shots: slice) -> Arrays:
    """What a step has at the points of these shots, contiguous as kernels read it."""
    found = {name: values[:, columns(values.shape[1], run.shots, shots)] for name, values in arrays.items()}
    return {name: run.space.contiguous(values) for name, values in found.items()}
