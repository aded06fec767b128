import numpy as np
import pytest
import torch

from numbawave.errors import InvalidValueError
from numbawave.survey.resampling import downsample, upsample

MODULES = [np, torch]
# The peer tapers in float32 whatever the signal is; without tapers both work in float64.
EXACT, FLOAT32_TAPER = 1e-13, 1e-6


def as_numpy(array):
    return array if isinstance(array, np.ndarray) else array.numpy()


def band_limited(nt, rng):
    spectrum = rng.normal(size=(2, 3, (nt + 1) // 2)) + 1j * rng.normal(size=(2, 3, (nt + 1) // 2))
    return np.fft.irfft(spectrum, n=nt)


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("nt", [1, 2, 7, 8, 50])
@pytest.mark.parametrize("step_ratio", [1, 2, 3, 5])
def test_a_band_limited_record_comes_back(xp, nt, step_ratio, rng):
    signal = xp.asarray(band_limited(nt, rng))
    fine = upsample(signal, step_ratio, xp)
    assert fine.shape == (2, 3, nt * step_ratio)
    np.testing.assert_allclose(fine[..., ::step_ratio], signal, rtol=0, atol=1e-14)
    np.testing.assert_allclose(downsample(fine, step_ratio, xp), signal, rtol=0, atol=1e-14)


@pytest.mark.parametrize("xp", MODULES)
def test_a_ratio_of_one_returns_the_signal_itself(xp):
    signal = xp.ones((1, 4))
    assert upsample(signal, 1, xp, freq_taper_frac=0.5) is signal
    assert downsample(signal, 1, xp, time_taper=True) is signal


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_type_of_the_samples_is_kept(xp, dtype):
    signal = xp.ones((2, 6), dtype=getattr(xp, dtype))
    tapers = {"freq_taper_frac": 0.5, "time_pad_frac": 0.5, "time_taper": True}
    assert upsample(signal, 3, xp, **tapers).dtype == signal.dtype
    assert downsample(signal, 3, xp, **tapers).dtype == signal.dtype


@pytest.mark.parametrize("xp", MODULES)
def test_an_empty_record_stays_empty(xp):
    assert upsample(xp.zeros((2, 0, 5)), 2, xp).shape == (2, 0, 5)


@pytest.mark.peer
@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("nt", [1, 2, 9, 12, 61])
@pytest.mark.parametrize("step_ratio", [2, 3, 7])
@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({}, EXACT),
        ({"time_pad_frac": 0.3}, EXACT),
        ({"freq_taper_frac": 0.4}, FLOAT32_TAPER),
        ({"freq_taper_frac": 1.0, "time_pad_frac": 1.0, "time_taper": True}, FLOAT32_TAPER),
    ],
)
def test_records_are_the_peers(xp, nt, step_ratio, options, tolerance, rng):
    peer = pytest.importorskip("deepwave")._common
    signal, fine = rng.normal(size=(2, nt)), rng.normal(size=(2, nt * step_ratio))
    ours = as_numpy(upsample(xp.asarray(signal), step_ratio, xp, **options))
    np.testing.assert_allclose(ours, peer.upsample(torch.asarray(signal), step_ratio, **options), rtol=0, atol=tolerance)
    ours = as_numpy(downsample(xp.asarray(fine), step_ratio, xp, **options))
    np.testing.assert_allclose(ours, peer.downsample(torch.asarray(fine), step_ratio, **options), rtol=0, atol=tolerance)


@pytest.mark.parametrize("resample", [upsample, downsample])
@pytest.mark.parametrize("options", [{}, {"freq_taper_frac": 0.5, "time_pad_frac": 0.5, "time_taper": True}])
def test_gradients_pass_through(resample, options):
    signal = torch.linspace(-1, 1, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: resample(s, 3, torch, **options), signal)


def test_wrong_options_are_refused_by_name():
    signal = np.ones(10)
    with pytest.raises(InvalidValueError, match=r"step_ratio = 0"):
        upsample(signal, 0, np)
    with pytest.raises(InvalidValueError, match=r"step_ratio = 3: must divide the 10 samples"):
        downsample(signal, 3, np)
    with pytest.raises(InvalidValueError, match=r"freq_taper_frac = 1.5"):
        upsample(signal, 2, np, freq_taper_frac=1.5)
    with pytest.raises(InvalidValueError, match=r"time_pad_frac = -0.1"):
        downsample(signal, 2, np, time_pad_frac=-0.1)
