"""Source wavelets as torch tensors."""

import torch

from numbawave.survey import wavelets


def ricker(
    freq: float, length: int, dt: float, peak_time: float | None = None, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Sample a Ricker wavelet on the CPU; see :func:`numbawave.survey.wavelets.ricker`.

    Parameters
    ----------
    freq : float
        Frequency of the spectrum's peak, in units of 1 / dt.
    length : int
        Number of samples.
    dt : float
        Time between samples.
    peak_time : float, optional
        Time of the largest value, 1; the middle of the record unless given.
    dtype : torch.dtype, optional
        Type of the samples; they are computed in float64.

    Returns
    -------
    torch.Tensor [length]
        The samples.

    Raises
    ------
    InvalidValueError
        If the frequency or the length is not positive, or the step is zero or not finite.
    """
    return torch.from_numpy(wavelets.ricker(freq, length, dt, peak_time, "float64")).to(dtype)


def gaussian(
    freq: float, length: int, dt: float, peak_time: float | None = None, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Sample a Gaussian on the CPU; see :func:`numbawave.survey.wavelets.gaussian`.

    Parameters
    ----------
    freq : float
        Frequency of the Ricker wavelet that is its second derivative, in units of 1 / dt.
    length : int
        Number of samples.
    dt : float
        Time between samples.
    peak_time : float, optional
        Time of the largest value, 1; the middle of the record unless given.
    dtype : torch.dtype, optional
        Type of the samples; they are computed in float64.

    Returns
    -------
    torch.Tensor [length]
        The samples.

    Raises
    ------
    InvalidValueError
        If the frequency or the length is not positive, or the step is zero or not finite.
    """
    return torch.from_numpy(wavelets.gaussian(freq, length, dt, peak_time, "float64")).to(dtype)
