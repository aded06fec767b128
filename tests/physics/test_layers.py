"""The absorbing layers absorb, and stay finite."""

import math

import numpy as np
import pytest

import numbawave

NT, DT, H = 120, 0.05, 0.1
PEAK = 1.0


def ricker() -> np.ndarray:
    square = (math.pi * PEAK * (np.arange(NT) * DT - 1.2 / PEAK)) ** 2
    return ((1 - 2 * square) * np.exp(-square))[None, None]


def section(cells: int, width: int, **options: object) -> np.ndarray:
    """The record near a corner of a square model whose other faces are far away, and the final energy of the wavefield."""
    at, by = np.full((1, 1, 2), 4), np.array([[[2, 9], [9, 2], [1, 1]]])
    shift = options.pop("shift", 0)
    return numbawave.scalar(np.ones((cells + shift, cells + shift)), H, DT, source_amplitudes=ricker(), accuracy=4,
                            source_locations=at + shift, receiver_locations=by + shift, pml_width=width,
                            backend="reference", **options)  # fmt: skip


@pytest.mark.parametrize(("width", "limit"), [(10, 0.02), (20, 0.01)])
def test_a_layer_reflects_little(width: int, limit: float) -> None:
    """Against a model so large that its edges are not heard. The layer is made for 0.001 at right angles."""
    quiet = int(NT * DT / H / 2) + 5
    expected = section(14 + quiet, 0, shift=quiet).receiver_amplitudes
    found = section(14, width, pml_freq=PEAK).receiver_amplitudes
    assert np.abs(found - expected).max() <= limit * np.abs(expected).max()


def test_the_wave_leaves_the_model() -> None:
    n = 20
    at = np.full((1, 1, 2), n // 2)
    energies = []
    for width in (0, 10):
        out = numbawave.scalar(np.ones((n, n)), H, DT, source_amplitudes=ricker(), source_locations=at,
                               receiver_locations=at, pml_width=width, pml_freq=PEAK, backend="reference")  # fmt: skip
        inner = (0, *(slice(width, width + n),) * 2)
        energies.append(float((out.wavefield_0[inner] ** 2 + out.wavefield_m1[inner] ** 2).sum()))
    kept, absorbed = energies
    assert absorbed <= 1e-4 * kept


@pytest.mark.parametrize("dt", [1e-12, 1e-30, -1e-12])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_tiny_step_stays_finite(dt: float, dtype: str) -> None:
    out = numbawave.scalar(np.full((6, 6), 2000.0, dtype), 10.0, dt, source_amplitudes=np.ones((1, 1, 5), dtype),
                           source_locations=np.full((1, 1, 2), 3), receiver_locations=np.full((1, 1, 2), 3),
                           pml_width=4, backend="reference")  # fmt: skip
    assert np.isfinite(out.receiver_amplitudes).all()
    assert np.isfinite(out.wavefield_0).all()


def test_sub_steps_change_a_smooth_record_little() -> None:
    """The same record with steps that divide by themselves and with steps that are short enough, sample by sample."""
    wave = ricker()
    at = np.full((1, 1, 2), 10)
    by = np.full((1, 1, 2), 14)
    records = []
    for divide in (1, 8):
        nt = NT // 2
        # Band-limited: a record that ends near zero is resampled without ringing.
        times = np.arange(nt * divide) * 2 * DT / divide
        square = (math.pi * PEAK * (times - 1.2 / PEAK)) ** 2
        wave = ((1 - 2 * square) * np.exp(-square))[None, None]
        out = numbawave.scalar(np.ones((20, 20)), H, 2 * DT / divide, source_amplitudes=wave, source_locations=at,
                               receiver_locations=by, pml_width=10, pml_freq=PEAK, backend="reference")  # fmt: skip
        records.append(out.receiver_amplitudes[0, 0, ::divide])
        assert (out.info.step_ratio > 1) == (divide == 1)
    # The time error of second order is (omega dt)^2 / 24 a radian, at the coarser of both internal steps.
    omega, internal, radians = 2 * 2 * math.pi * PEAK, DT, 2 * 2 * math.pi * 4 * H * math.sqrt(2) * PEAK
    limit = radians * (omega * internal) ** 2 / 24
    assert np.abs(records[0] - records[1]).max() <= limit * np.abs(records[1]).max()
