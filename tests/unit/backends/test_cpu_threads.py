"""Ranks that share a machine share its cores."""

import numba
import pytest

from numbawave.backends import cpu


@pytest.mark.parametrize(("ranks", "share"), [(None, 8), ("1", 8), ("2", 4), ("3", 2), ("16", 1)])
def test_each_rank_takes_its_share_of_the_cores(monkeypatch: pytest.MonkeyPatch, ranks: str | None, share: int) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: 8)
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if ranks is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert cpu._cores() == share
    monkeypatch.setenv("NUMBA_NUM_THREADS", "8")
    assert cpu._cores() == 8
