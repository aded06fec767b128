"""Where ranks meet to form a process group, also when ``torchrun`` starts them again after one was lost."""

import time
from datetime import timedelta
from uuid import uuid4

from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from ..errors import RankError

POLL_SECONDS = 0.01


def meet(timeout: timedelta) -> tuple[Store, int, int]:
    """Find the other ranks by what the launcher says in the environment.

    Parameters
    ----------
    timeout : timedelta
        Of the store's waiting.

    Returns
    -------
    store : torch.distributed.Store
        One in which nothing is written yet.
    rank, size : int

    Raises
    ------
    RankError
        If a rank does not come.
    """
    store, rank, size = next(rendezvous("env://", timeout=timeout))
    return unused(store, rank, size, timeout), rank, size


def unused(store: Store, rank: int, size: int, timeout: timedelta) -> Store:
    """Agree on a part of a store that no earlier start of the ranks has written to.

    ``torchrun`` may keep one store for all starts. The addresses in it that ranks left which are gone by now would be
    taken for those of the new ones, and torch would not connect, or wait for ever.

    Every rank thinks of a word; the first rank's is the part's name. The others ask for it in the name of their own word,
    in which no earlier rank can have asked, and the first rank answers whatever is asked until all say that they came.

    Parameters
    ----------
    store : torch.distributed.Store
    rank, size : int
    timeout : timedelta

    Returns
    -------
    torch.distributed.Store
        The same part on all ranks.

    Raises
    ------
    RankError
        On the first rank, if another does not come in time.
    """
    word = uuid4().hex
    if rank:
        store.set(f"asks/{rank}", word)
        name = store.get(f"answer/{word}").decode()
        store.set(f"{name}/came/{rank}", "")
        return PrefixStore(name, store)
    missing, end = set(range(1, size)), time.monotonic() + timeout.total_seconds()
    while missing:
        for other in missing:
            if store.check([f"asks/{other}"]):
                store.set(f"answer/{store.get(f'asks/{other}').decode()}", word)
        missing = {other for other in missing if not store.check([f"{word}/came/{other}"])}
        if missing and time.monotonic() > end:
            rule = f"did not come within {timeout}"
            raise RankError("rank", min(missing), rule, "look at what that rank printed, and start all ranks again")
        time.sleep(POLL_SECONDS)
    return PrefixStore(word, store)
