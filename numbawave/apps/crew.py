"""The ranks of an inversion: the first decides, and each propagates its share of the shots."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import NumbawaveError
from ..torch_bridge.plan import plan
from ..torch_bridge.propagators import scalar
from .checkpoint_file import identity
from .descent import Band, make_band, misfit_and_gradient
from .problem import Problem
from .ranks import agree, gathered, ranks, sum_over_ranks, told, united
from .report import Summary


class Crew:
    """An inversion's work on waves, shared by all ranks.

    The first rank calls the methods; each tells the other ranks, which wait in `serve`, to do the same with the same
    model. So the optimiser runs once, whatever else differs between machines, and no two ranks can part ways. In a
    process alone the methods just do their work.

    Parameters
    ----------
    problem : Problem
        The same on all ranks, which is checked.

    Raises
    ------
    InvalidValueError
        If the ranks' jobs, files or calls differ; on every rank.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.ranks = problem, ranks()
        self.observed = problem.observed
        self._band: Band | None = None
        self._waiting = True
        """Whether the other ranks wait for an order."""
        if self.ranks.size > 1:
            self._check()

    def _check(self) -> None:
        agree(identity(self.problem))
        with united():
            mine = self.problem.batches(self._share(torch.arange(len(self.problem.shots))))
            call = self.problem.call(self.problem.start, mine[0], self.problem.wavelet) if mine else {}
            info = plan(scalar, **call).info if mine else None
        agree(info)

    def _share(self, chosen: Tensor) -> Tensor:
        return chosen[self.ranks.shots(len(chosen))]

    def record_all(self, velocity: Tensor, wavelet: Tensor) -> Tensor:
        """Records of every shot without a gradient.

        Parameters
        ----------
        velocity : Tensor [*grid]
            m/s.
        wavelet : Tensor [time]

        Returns
        -------
        Tensor [shot, receiver, time]
        """
        return self._together("_record_all", velocity, wavelet)  # type: ignore[no-any-return]

    def misfit(self, corner: float, velocity: Tensor, chosen: Tensor) -> tuple[float, Tensor]:
        """The misfit of some shots and its gradient for the model.

        Parameters
        ----------
        corner : float
            Hz, of the band.
        velocity : Tensor [*grid]
            m/s.
        chosen : Tensor [n] of int64
            Indices of shots.

        Returns
        -------
        loss : float
            Summed in float64.
        gradient : Tensor [*grid]
        """
        return self._together("_misfit", velocity, corner, chosen)  # type: ignore[no-any-return]

    def band(self, corner: float) -> Band:
        """The source and what `observe` gave below a corner frequency, Hz; the last one is kept."""
        if self._band is None or self._band.corner != corner:
            assert self.observed is not None  # the first rank observes before it fits
            self._band = make_band(self.problem, self.observed, corner)
        return self._band

    def observe(self, observed: Tensor) -> None:
        """Give every rank the records to be fitted, [shot, receiver, time]."""
        self.observed = observed
        if self.problem.observed is None and self.ranks.size > 1:  # otherwise each rank has read them
            self._together("_observe", self.problem.start)

    def serve(self) -> Summary:
        """Do the first rank's orders until it dismisses this one.

        Returns
        -------
        Summary
            What the first rank's inversion gave.

        Raises
        ------
        NumbawaveError
            That ended it.
        """
        while True:
            name, rest = told(None)
            if name == "dismiss":
                if isinstance(rest, NumbawaveError):
                    raise rest
                return rest  # type: ignore[no-any-return]
            getattr(self, name)(self._model(torch.empty_like(self.problem.start)), *rest)

    @contextmanager
    def leading(self) -> Iterator[None]:
        """Let the error that ends the first rank's inversion end that of the others, too."""
        try:
            yield
        except NumbawaveError as error:
            if self._waiting:
                self.dismiss(error)
            raise

    def dismiss(self, outcome: Summary | NumbawaveError) -> None:
        """Send the other ranks home with what they return or raise."""
        told(("dismiss", outcome))

    def _together(self, name: str, velocity: Tensor, *rest: Any) -> Any:
        told((name, rest))
        self._waiting = False
        result = getattr(self, name)(self._model(velocity), *rest)
        self._waiting = True
        return result

    def _model(self, velocity: Tensor) -> Tensor:
        """The first rank's model, on this rank's device."""
        velocity = velocity.detach().to(self.problem.device)
        if self.ranks.size > 1:
            dist.broadcast(velocity, src=0)
        return velocity

    def _record_all(self, velocity: Tensor, wavelet: Tensor) -> Tensor:
        problem, mine = self.problem, self._share(torch.arange(len(self.problem.shots)))
        with united():
            records = problem.record_all(velocity, wavelet, mine)
        if self.ranks.size == 1:
            return records
        everything = records.new_zeros(problem.records_shape)
        everything[mine] = records
        for shot in everything:  # one at a time: a device may not have room for all
            shot.copy_(sum_over_ranks(shot.to(problem.device)))
        return everything

    def _observe(self, _: Tensor) -> None:
        if self.observed is None:
            self.observed = self.problem.wavelet.new_empty(self.problem.records_shape)
        for shot in self.observed:
            there = shot.to(self.problem.device)
            dist.broadcast(there, src=0)
            shot.copy_(there)

    def _misfit(self, velocity: Tensor, corner: float, chosen: Tensor) -> tuple[float, Tensor]:
        with united():
            loss, gradient = misfit_and_gradient(self.problem, self.band(corner), velocity, self._share(chosen))
        return sum(gathered(loss)), sum_over_ranks(gradient).cpu()
