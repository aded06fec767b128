"""Each rank has a device of its own, and one that is not there is refused."""

import pytest
import torch

from numbawave.apps import device as device_module
from numbawave.apps.device import own_device
from numbawave.apps.job_file import read_job
from numbawave.apps.ranks import Ranks
from numbawave.errors import InvalidValueError


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A machine with so many GPUs, and this process among so many ranks."""
    n_devices, here = request.param
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)
    monkeypatch.setattr(device_module, "ranks", lambda: here)


@pytest.mark.parametrize(
    ("machine", "name", "expected"),
    [
        ((0, Ranks()), "auto", "cpu"),
        ((0, Ranks(1, 2, 1, 2)), "auto", "cpu"),
        ((2, Ranks()), "cpu", "cpu"),
        ((2, Ranks()), "auto", "cuda:0"),
        ((2, Ranks()), "cuda:1", "cuda:1"),
        ((2, Ranks(1, 2, 1, 2)), "auto", "cuda:1"),
        ((2, Ranks(3, 4, 1, 2)), "cuda", "cuda:1"),
    ],
    indirect=["machine"],
)
@pytest.mark.usefixtures("machine")
def test_the_device_is_the_ranks_own(name: str, expected: str) -> None:
    assert own_device(name) == torch.device(expected)


@pytest.mark.parametrize(
    ("machine", "name", "said"),
    [
        ((0, Ranks()), "cuda", "torch sees 0 CUDA devices"),
        ((1, Ranks()), "cuda:1", "torch sees 1 CUDA devices"),
        ((2, Ranks(0, 3, 0, 3)), "auto", "each of 3 ranks needs its own"),
        ((2, Ranks(0, 2, 0, 2)), "cuda:0", "give cuda, which is another one for each rank"),
    ],
    indirect=["machine"],
)
@pytest.mark.usefixtures("machine")
def test_a_device_that_is_not_there_is_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidValueError, match=said):
        own_device(name)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "cuda:x", ""])
def test_a_job_names_a_device(name: str) -> None:
    with pytest.raises(InvalidValueError, match="must be auto, cpu, cuda or cuda with a number"):
        read_job(None, {"device": name})
