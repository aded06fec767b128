"""Steps made again in arrays of those back."""

import numpy as np
import pytest

from numbawave.engine.march import March
from numbawave.engine.replay import Replay, shared_arrays
from tests.contract.experiment import Case, Experiment


@pytest.fixture
def lenders() -> tuple[Replay, March]:
    """Steps back whose arrays hold ones, and what borrows them."""
    run = Experiment(Case("scalar", 2)).run
    names = [*run.setup.adjoint.program.arrays, *(f"adjoint_{array}" for _, _, array in run.setup.state_names)]
    back = March(run, "adjoint", {name: np.ones(3) for name in names})
    return Replay(run, back, lambda lent: {"wavefield": np.ones(3)}), back


def test_only_what_steps_back_do_not_keep_is_lent() -> None:
    run = Experiment(Case("scalar", 2)).run
    shared = shared_arrays(run)
    kept = {f"adjoint_{array}" for _, _, array in run.setup.state_names}
    assert not kept & set(shared.values())
    assert len(set(shared.values())) == len(shared)
    lent = {name: field for name, field in run.setup.adjoint.program.arrays.items() if name not in kept}
    assert set(shared.values()) == set(lent), "in this equation each has a counterpart"


def test_what_is_lent_is_zero_on_both_ways(lenders: tuple[Replay, March], monkeypatch: pytest.MonkeyPatch) -> None:
    replay, back = lenders
    monkeypatch.setattr(back, "go", lambda first, last, history: None)
    shared = shared_arrays(back.run)
    ahead = replay.ahead()
    for name, other in shared.items():
        assert ahead.arrays[name] is back.arrays[other]
        assert not ahead.arrays[name].any()
        ahead.arrays[name][...] = 2.0
    assert replay.ahead() is ahead
    assert all((ahead.arrays[name] == 2.0).all() for name in shared), "borrowed once"
    replay.back(0, 1)
    assert not any(back.arrays[other].any() for other in shared.values())
    assert all((array == 1.0).all() for name, array in back.arrays.items() if name not in shared.values())
    back.arrays["adjoint_psi_x_next"][...] = 3.0
    replay.back(0, 1)
    assert (back.arrays["adjoint_psi_x_next"] == 3.0).all(), "given back once"


def test_there_is_a_march_for_each_way_that_arrays_lie(lenders: tuple[Replay, March]) -> None:
    replay, back = lenders
    even = replay.ahead()
    psi, zeta = "adjoint_psi_x_next", "adjoint_zeta_x_next"
    back.arrays[psi], back.arrays[zeta] = back.arrays[zeta], back.arrays[psi]
    odd = replay.ahead()
    assert odd is not even
    assert odd.arrays["wavefield"] is even.arrays["wavefield"]
    back.arrays[psi], back.arrays[zeta] = back.arrays[zeta], back.arrays[psi]
    assert replay.ahead() is even
