"""The most that a call holds at once, by place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from numbawave.planning.ledger import Ledger, Moment
from numbawave.planning.pool import held


@dataclass(frozen=True)
class Memory:
    """The most that a call and its backward pass hold at once, by place.

    Attributes
    ----------
    device_bytes, host_bytes, disk_bytes : int
        Peaks of the buffers; pinned memory counts as the host's. With a model on the CPU all but files is the host's. On a
        device they include what PyTorch's allocator takes beyond that; see ``pool``.
    device_moment, host_moment, disk_moment : Moment
        When a peak is first reached.
    buffers : Ledger
        What they are sums of: the buffers that the run will allocate from; ``print`` shows a table. Its place "device" is
        where the model lies, also on a CPU.
    """

    device_bytes: int
    device_moment: Moment
    host_bytes: int
    host_moment: Moment
    disk_bytes: int
    disk_moment: Moment
    buffers: Ledger = field(repr=False, compare=False)

    @classmethod
    def of(cls, buffers: Ledger, on_device: bool) -> Memory:
        """The peaks of a ledger; ``on_device`` says whether its place "device" is one, and not the host."""
        blocks = held(buffers) if on_device else dict.fromkeys(Moment, 0)
        moment = max(Moment, key=lambda moment: (blocks[moment], -moment))
        host = buffers.peak("host", "pinned") if on_device else buffers.peak("device", "host", "pinned")
        return cls(blocks[moment], moment, *host, *buffers.peak("disk"), buffers)

    def without_results(self) -> Memory:
        """The same for a caller who keeps the receivers' records alone, and lets the other results go at once."""
        buffers = (replace(buffer, last=Moment.FORWARD) if buffer.result else buffer for buffer in self.buffers)
        return Memory.of(Ledger(buffers), on_device=self.device_bytes > 0)


def table(buffers: Ledger, device_bytes: int) -> list[str]:
    """A ledger's table, and what "device" means in it where nothing lies on one.

    Parameters
    ----------
    buffers : Ledger
    device_bytes : int
        The peak on a device; 0 where the models lie on the host.

    Returns
    -------
    list of str
    """
    return [str(buffers), *([] if device_bytes else ['"device" is where the model lies: here the host'])]
