import numpy as np
import pytest
import torch

from numbawave.errors import InvalidValueError
from numbawave.survey.wavelets import gaussian, ricker
from numbawave.torch_bridge import wavelets


def test_ricker_peaks_with_one_and_crosses_zero_where_it_should():
    freq, dt = 10.0, 0.001
    samples = ricker(freq, 400, dt, 0.2, np.float64)
    assert samples.argmax() == 200
    assert samples[200] == pytest.approx(1.0, abs=1e-15)
    crossing = 0.2 + 1 / (np.pi * freq * np.sqrt(2))
    assert samples[int(crossing / dt)] > 0 > samples[int(crossing / dt) + 1]


def test_ricker_is_the_second_derivative_of_the_gaussian():
    freq, dt = 10.0, 1e-4
    pulse = gaussian(freq, 4000, dt, 0.2, np.float64)
    curvature = np.diff(pulse, 2) / dt**2 / (-2 * np.pi**2 * freq**2)
    # The error of a centred difference: dt^2 / 12 times the fourth derivative, here at most 12 (pi freq)^4.
    bound = dt**2 / 12 * 12 * (np.pi * freq) ** 4 / (2 * np.pi**2 * freq**2)
    np.testing.assert_allclose(curvature, ricker(freq, 4000, dt, 0.2, np.float64)[1:-1], rtol=0, atol=2 * bound)


def test_the_middle_of_the_record_is_the_default_peak():
    np.testing.assert_array_equal(ricker(5.0, 100, 0.01), ricker(5.0, 100, 0.01, 0.5))


@pytest.mark.parametrize("make", [wavelets.ricker, wavelets.gaussian])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_wavelets_are_the_numpy_ones(make, dtype):
    ours = {wavelets.ricker: ricker, wavelets.gaussian: gaussian}[make]
    samples = make(7.0, 50, 0.004, 0.1, dtype)
    assert samples.dtype == dtype
    np.testing.assert_array_equal(samples, ours(7.0, 50, 0.004, 0.1, str(dtype).removeprefix("torch.")))


@pytest.mark.peer
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
def test_ricker_is_the_peers(dtype, tolerance):
    peer = pytest.importorskip("deepwave").wavelets.ricker
    for arguments in [(25.0, 300, 0.004, 0.06), (8.0, 300, 0.002, None), (1e6, 100, 1e-7, 1.5e-6)]:
        np.testing.assert_allclose(wavelets.ricker(*arguments, dtype), peer(*arguments, dtype), rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("freq", (0.0, 10, 0.1)),
        ("freq", (float("nan"), 10, 0.1)),
        ("length", (1.0, 0, 0.1)),
        ("length", (1.0, 2.5, 0.1)),
        ("dt", (1.0, 10, 0.0)),
        ("peak_time", (1.0, 10, 0.1, float("inf"))),
    ],
)
def test_wrong_values_are_refused_by_name(argument, values):
    with pytest.raises(InvalidValueError, match=f"^{argument} = "):
        ricker(*values)
