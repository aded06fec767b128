import warnings

import numpy as np
import pytest

from numbawave.errors import InvalidValueError
from numbawave.survey.spectrum import peak_frequency
from numbawave.survey.wavelets import gaussian, ricker


@pytest.mark.parametrize("freq", [3.0, 8.5, 25.0, 60.0])
@pytest.mark.parametrize("length", [150, 400, 3000])
def test_a_ricker_wavelet_peaks_at_its_frequency(freq, length):
    dt = 0.004 if freq < 30 else 0.001
    amplitudes = ricker(freq, length, dt, min(1.5 / freq, length * dt / 2), np.float64)
    assert peak_frequency(amplitudes, dt) == pytest.approx(freq, rel=5e-3)


@pytest.mark.parametrize("unit", [1e-150, 1e-6, 1.0, 1e12, 1e150])
def test_the_amplitudes_unit_does_not_matter(unit):
    amplitudes = ricker(25.0, 300, 0.004, 0.06, np.float64)
    assert peak_frequency(amplitudes * unit, 0.004) == 25.0


def test_delays_and_signs_of_the_sources_do_not_matter():
    shots = [sign * ricker(25.0, 300, 0.004, delay) for sign, delay in [(1, 0.3), (-1, 0.3), (1, 0.5)]]
    assert peak_frequency(np.stack(shots)[:, None], 0.004) == 25.0


def test_channels_count_alike():
    low, high = ricker(10.0, 500, 0.004, 0.5, np.float64), ricker(25.0, 500, 0.004, 0.5, np.float64)
    loud, quiet = peak_frequency([1e6 * low, high], 0.004), peak_frequency([low, high], 0.004)
    assert loud == quiet


@pytest.mark.parametrize(
    "amplitudes",
    [
        [],
        np.zeros((1, 1, 100)),
        np.ones((1, 1, 100)),
        np.ones((1, 1, 1)),
        np.zeros((1, 0, 100)),
        np.full((1, 1, 10), np.nan),
        np.full((1, 1, 10), np.inf),
        gaussian(25.0, 300, 0.01),
    ],
)
def test_without_a_peak_it_is_a_fifth_of_the_nyquist_frequency(amplitudes):
    assert peak_frequency(amplitudes, -0.01) == 0.1 / 0.01


def test_the_nyquist_frequency_is_the_limit():
    alternating = np.tile([1.0, -1.0], 50)
    assert peak_frequency(alternating, 0.003) == 0.5 / 0.003


def some_signal(kind, length, rng):
    if kind == "noise":
        return rng.normal(size=length)
    if kind == "tone":
        return np.sin(rng.uniform(0.05, 3.1) * np.arange(length))
    return ricker(rng.uniform(0.01, 0.49), length, 1.0, length / 3, np.float64)


@pytest.mark.peer
def test_the_frequency_is_the_peers(rng):
    torch = pytest.importorskip("torch")
    infer = pytest.importorskip("deepwave")._common.infer_pml_freq
    for _ in range(60):
        dt = float(10 ** rng.uniform(-8, 0)) * float(rng.choice([-1, 1]))
        length = int(rng.integers(2, 600))
        channels = [
            np.stack([some_signal(kind, length, rng) for _ in range(3)])[:, None]
            for kind in rng.choice(["noise", "tone", "ricker"], 2)
        ]
        assert peak_frequency(channels, dt) == infer([torch.asarray(channel) for channel in channels], dt)


@pytest.mark.peer
@pytest.mark.parametrize("freq", [5.0, 12.3, 25.0])
def test_a_call_of_the_peer_resolves_the_same(freq):
    torch, deepwave = pytest.importorskip("torch"), pytest.importorskip("deepwave")
    amplitudes = deepwave.wavelets.ricker(freq, 120, 0.004, 1.5 / freq).reshape(1, 1, -1)
    with warnings.catch_warnings():
        # The peer tells callers of its older releases that the frequency is now inferred.
        warnings.simplefilter("ignore", deepwave.PmlFreqInferenceWarning)
        out = deepwave.scalar(
            torch.full((8, 8), 1500.0),
            10.0,
            0.004,
            source_amplitudes=amplitudes,
            source_locations=torch.tensor([[[3, 3]]]),
            pml_width=2,
            max_vel=1500.0,
        )
    assert peak_frequency(amplitudes.numpy(), 0.004) == out.info.pml_freq


@pytest.mark.parametrize("dt", [0.0, float("nan")])
def test_a_time_step_is_needed(dt):
    with pytest.raises(InvalidValueError, match="^dt = "):
        peak_frequency(np.ones(3), dt)
