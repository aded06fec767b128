"""Where a job's waves run: a rank's own GPU, or the CPU."""

import torch

from ..errors import InvalidValueError
from .ranks import ranks


def own_device(name: str) -> torch.device:
    """Find the device that a job's key means for this process.

    Parameters
    ----------
    name : str
        ``auto`` (a GPU where torch sees one), ``cpu``, ``cuda`` or ``cuda:1``. Under ``torchrun`` each rank of a machine
        takes the GPU of its local rank.

    Returns
    -------
    torch.device

    Raises
    ------
    InvalidValueError
        If there is no such device, or not one for each rank of this machine.
    """
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    n_devices, here = torch.cuda.device_count(), ranks()
    given = torch.device("cuda" if name == "auto" else name)
    if given.index is not None and here.local_size > 1:
        rule = f"{here.local_size} ranks of this machine need a device each"
        raise InvalidValueError("device", name, rule, "give cuda, which is another one for each rank")
    number = here.local_rank if given.index is None else given.index
    if not torch.cuda.is_available() or max(number + 1, here.local_size) > n_devices:
        rule = f"torch sees {n_devices} CUDA devices here"
        if here.local_size > 1:
            rule += f", and each of {here.local_size} ranks needs its own"
        raise InvalidValueError("device", name, rule, "start fewer ranks, or give cpu; see numbawave doctor")
    return torch.device("cuda", number)
