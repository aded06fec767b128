"""The one autograd Function: every equation's run forward and back."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from numbawave.engine.batches import adjoint, forward
from numbawave.engine.run import Run
from numbawave.history.base import Whole
from numbawave.torch_bridge.advice import explained
from numbawave.torch_bridge.arrays import outside_transforms


def whole(run: Run) -> Whole | None:
    """The run's store, where its ring holds all of the history: torch keeps that as it keeps tensors."""
    store = run.tape.store if run.tape is not None else None
    return store if isinstance(store, Whole) else None


def release(run: Run) -> None:
    """Let torch alone hold the history, which it frees after the backward pass."""
    if (store := whole(run)) is not None:
        store.ring = None


class Propagation(torch.autograd.Function):
    """Parameter grids, amplitudes and an initial state in; records and the final state out.

    ``apply(run, keep, names, *tensors)``: ``names`` says what each tensor is, ``("parameter", "c")`` and the like.
    """

    @staticmethod
    def forward(
        run: Run, keep: bool, names: tuple[tuple[str, str], ...], *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Run forward; what is kept stays on the run's tape."""
        given: dict[str, dict[str, Any]] = {"parameter": {}, "amplitude": {}, "state": {}}
        for (kind, name), value in zip(names, tensors, strict=True):
            given[kind][name] = run.space.view(value)
        with explained(run):
            records, state = forward(run, given["parameter"], given["amplitude"], given["state"], keep)
        return tuple(run.space.tensor(value) for value in (*records.values(), *state.values()))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        """Save what the adjoint reads; torch frees it after the backward pass, the history included."""
        ctx.run, _, ctx.names, *tensors = inputs
        tape = ctx.run.tape
        again = bool(ctx.run.batch) or (tape is not None and tape.repeats)
        ctx.read = [position for position, (kind, _) in enumerate(ctx.names) if again or kind != "state"]
        store = whole(ctx.run)
        ring = [] if store is None else [ctx.run.space.tensor(store.ring)]
        ctx.save_for_backward(*(tensors[position] for position in ctx.read), *ring)
        ctx.set_materialize_grads(False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Run the adjoint; None for each input that needs no gradient."""
        with outside_transforms():
            return Propagation._backward(ctx, gradients)

    @staticmethod
    def _backward(ctx: Any, gradients: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
        run: Run = ctx.run
        saved = [run.space.view(value) for value in ctx.saved_tensors]
        read: dict[str, dict[str, Any]] = {"parameter": {}, "amplitude": {}, "state": {}}
        for position, value in zip(ctx.read, saved, strict=False):
            kind, name = ctx.names[position]
            read[kind][name] = value
        wanted = dict(zip(ctx.names, ctx.needs_input_grad[3:], strict=True))
        records = run.setup.forward.records
        given = [None if g is None else run.space.view(g) for g in gradients]
        cotangents = {r.name: g for r, g in zip(records, given, strict=False)}
        states = zip(run.setup.state_names, given[len(records) :], strict=True)
        final = {name: g for (name, _, _), g in states if g is not None}
        image = any(need for (kind, _), need in wanted.items() if kind == "parameter")
        state = any(need for (kind, _), need in wanted.items() if kind == "state")
        if (store := whole(run)) is not None:
            store.ring = saved[-1]
        try:
            with explained(run):
                computed = adjoint(
                    run, read["parameter"], read["amplitude"], cotangents, final, read["state"], image, state
                )
        finally:
            release(run)
        found = dict(zip(("parameter", "amplitude", "state"), computed, strict=True))
        results = [run.space.tensor(found[kind][name]) if need else None for (kind, name), need in wanted.items()]
        return (None, None, None, *results)
