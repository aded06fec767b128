"""Shots in batches, so that a survey larger than memory still runs."""

from itertools import pairwise

from numbawave.errors import InvalidValueError


def shot_batches(n_shots: int, batch_size: int) -> tuple[slice, ...]:
    """Split the shots into the fewest batches of nearly equal size.

    Equal sizes keep the peak of memory as low as this number of batches allows.

    Parameters
    ----------
    n_shots : int
        Number of shots; 0 gives no batch.
    batch_size : int
        The most shots in one batch.

    Returns
    -------
    tuple of slice
        Consecutive slices that cover the shots, the larger ones first.

    Raises
    ------
    InvalidValueError
        If the number of shots is negative or the size is not positive.
    """
    if n_shots < 0:
        raise InvalidValueError("n_shots", n_shots, "must not be negative", "count the shots")
    if batch_size < 1:
        raise InvalidValueError("batch_size", batch_size, "must be at least 1", "use 1 for the least memory")
    n_batches = -(-n_shots // batch_size)
    size, n_larger = divmod(n_shots, max(1, n_batches))
    firsts = [batch * size + min(batch, n_larger) for batch in range(n_batches + 1)]
    return tuple(slice(first, last) for first, last in pairwise(firsts))
