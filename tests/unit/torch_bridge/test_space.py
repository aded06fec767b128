"""How bytes are copied on the host for runs on a device."""

import numpy as np
import pytest
import torch

from numbawave.history.media import Rooms
from numbawave.history.shelf import Shelf
from numbawave.torch_bridge.space import TorchCopier


@pytest.mark.parametrize("writeable", [True, False])
def test_pytorch_copies_what_numpy_does(rng: np.random.Generator, writeable: bool) -> None:
    values, to = rng.integers(0, 256, 1001, np.uint8), np.zeros(1001, np.uint8)
    values.flags.writeable = writeable

    TorchCopier().copy(to[3:-5], values[3:-5])

    assert (to[3:-5] == values[3:-5]).all()
    assert not to[:3].any()
    assert not to[-5:].any()


def test_threads_that_copy_share_those_of_pytorch_and_leave_them(rng: np.random.Generator) -> None:
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(6)
    try:
        place, piece = Shelf(Rooms(TorchCopier())), rng.random(1000)
        with place.threads() as pool:
            place.put((0, 0), piece)
            seen += [pool.submit(torch.get_num_threads).result() for _ in range(4)]
        assert set(seen) == {3}
        assert torch.get_num_threads() == 6
        with place.threads() as pool:  # whoever comes later has all of them to share
            assert pool.submit(torch.get_num_threads).result() == 3
        back = np.zeros_like(piece)
        place.get((0, 0), back)
        assert (back == piece).all()
    finally:
        torch.set_num_threads(before)
