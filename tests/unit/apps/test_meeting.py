"""Ranks that were started again meet one another, and not those that are gone."""

import threading
from datetime import timedelta

import pytest
import torch

from numbawave.errors import RankError

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without distributed")


def meet(store: torch.distributed.Store, size: int) -> list[torch.distributed.Store]:
    """The part of the store that each rank finds."""
    from numbawave.apps.meeting import unused

    found: dict[int, torch.distributed.Store] = {}

    def come(rank: int) -> None:
        found[rank] = unused(store, rank, size, timedelta(seconds=20))

    threads = [threading.Thread(target=come, args=[rank]) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(size)]


@pytest.mark.parametrize("size", [1, 3])
def test_a_second_start_finds_nothing_of_the_first(size: int) -> None:
    store = torch.distributed.HashStore()
    store.set("asks/1", "a rank that was killed while it came")
    first, second = meet(store, size), meet(store, size)
    for start in (first, second):
        start[0].set("address", str(id(start)))
        assert all(rank.get("address").decode() == str(id(start)) for rank in start)
    assert not second[0].check(["asks/1"])


def test_a_rank_that_does_not_come_is_named() -> None:
    from numbawave.apps.meeting import unused

    with pytest.raises(RankError, match="rank = 1: did not come"):
        unused(torch.distributed.HashStore(), 0, 2, timedelta(seconds=0.02))
