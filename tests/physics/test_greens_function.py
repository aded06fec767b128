"""Records in a homogeneous medium against the Green's function, and the order at which they converge to it.

The scheme solves u_tt = v^2 (laplacian(u) - f), where an amplitude s(t) in one cell is f = s(t) h^n delta(x): so
u = -h^n s * G with (d_tt / v^2 - laplacian) G = delta(x) delta(t), which is (r the distance)

    1-D: v / 2 H(t - r / v)      2-D: H(t - r / v) / (2 pi sqrt(t^2 - r^2 / v^2))      3-D: delta(t - r / v) / (4 pi r)

Source: P. M. Morse, H. Feshbach (1953), Methods of Theoretical Physics, section 7.3.
Lengths are in wavelengths and times in periods of the source's peak frequency; the edges are too far to be heard.
"""

import math

import numpy as np
import pytest

import numbawave

DELAY, END = 1.2, 2.9
DISTANCE = {1: 1.0, 2: 1.0, 3: 0.75}


def ricker(t: np.ndarray) -> np.ndarray:
    square = (math.pi * (t - DELAY)) ** 2
    return (1 - 2 * square) * np.exp(-square)


def exact(ndim: int, r: float, t: np.ndarray) -> np.ndarray:
    """``s * G`` at times t for v = 1."""
    if ndim == 1:
        past = t - r - DELAY
        start = -DELAY * math.exp(-((math.pi * DELAY) ** 2))
        return 0.5 * (past * np.exp(-((math.pi * past) ** 2)) - start)
    if ndim == 3:
        return ricker(t - r) / (4 * math.pi * r)
    # With tau = r cosh(theta) the root of the 2-D function cancels.
    theta = np.linspace(0.0, math.acosh((END + 1) / r), 2001)
    values = ricker(t[:, None] - r * np.cosh(theta))
    return np.trapezoid(values, theta, axis=1) / (2 * math.pi)


def error(ndim: int, accuracy: int, h: float, dt: float) -> float:
    """Largest difference from the Green's function, relative to its largest value."""
    r = DISTANCE[ndim]
    half = round(((END + r) / 2 + 0.1) / h)
    nt = round(END / dt)
    t = np.arange(nt) * dt
    source = np.full((1, 1, ndim), half)
    receiver = source.copy()
    receiver[..., -1] += round(r / h)
    out = numbawave.scalar(np.ones((2 * half + 1,) * ndim), h, dt, source_amplitudes=ricker(t)[None, None],
                           source_locations=source, receiver_locations=receiver, accuracy=accuracy, pml_width=0,
                           backend="reference")  # fmt: skip
    assert out.info.step_ratio == 1
    expected = -(h**ndim) * exact(ndim, r, t)
    return float(np.abs(out.receiver_amplitudes[0, 0] - expected).max() / np.abs(expected).max())


def phase_error(accuracy: int, r: float, h: float, dt: float) -> float:
    """Phase lag over a distance at twice the peak frequency, where the Ricker spectrum has fallen to a seventh.

    From sin^2(omega dt / 2) and the derivative's response, k^2 (1 - (kh)^2 / 12) at order 2 and
    k^2 (1 - (kh)^4 / 90) at order 4.
    """
    k = 2 * 2 * math.pi
    space = (k * h) ** 2 / 24 if accuracy == 2 else (k * h) ** 4 / 180
    return k * r * (space + (k * dt) ** 2 / 24)


# ndim, accuracy, coarse spacing, coarse step, exponent of the step in the spacing
CASES = [
    (1, 2, 1 / 20, 0.5 / 20, 1),
    (1, 4, 1 / 10, 0.15 / 10, 2),
    (2, 2, 1 / 20, 0.4 / 20, 1),
    (2, 4, 1 / 10, 0.2 / 10, 2),
    (3, 2, 1 / 8, 0.3 / 8, 1),
    (3, 4, 1 / 8, 0.3 / 8, 2),
]


@pytest.mark.parametrize(("ndim", "accuracy", "h", "dt", "exponent"), CASES)
def test_records_converge_to_the_greens_function(ndim: int, accuracy: int, h: float, dt: float, exponent: int) -> None:
    """Second order in time: with dt in proportion to h^(p / 2), the whole error falls with h^p."""
    coarse = error(ndim, accuracy, h, dt)
    fine = error(ndim, accuracy, h / 2, dt / 2**exponent)

    assert coarse <= phase_error(accuracy, DISTANCE[ndim], h, dt)
    assert fine <= phase_error(accuracy, DISTANCE[ndim], h / 2, dt / 2**exponent)
    # The next term of the error is (kh)^2 times the first: at twice the peak frequency, some tenths on the coarse grid.
    assert math.log2(coarse / fine) == pytest.approx(accuracy, abs=0.35)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_in_one_dimension_the_magic_step_is_exact(backend: str) -> None:
    """d'Alembert: with v dt = h the three-point scheme moves waves by exactly a cell a step."""
    n, nt, at = 41, 15, 20
    amplitudes = np.zeros((1, 1, nt))
    amplitudes[0, 0, 0] = 1.0
    every, at_cell = np.arange(n)[None, :, None], np.full((1, 1, 1), at)
    out = numbawave.scalar(np.full(n, 2.0), 0.5, 0.25, source_amplitudes=amplitudes, source_locations=at_cell,
                           receiver_locations=every, accuracy=2, pml_width=0, courant_number=1.0,
                           backend=backend)  # fmt: skip

    distance, time = np.abs(np.arange(n) - at)[:, None], np.arange(nt)[None]
    expected = np.where((distance < time) & ((time - distance) % 2 == 1), -(0.5**2), 0.0)
    np.testing.assert_array_equal(out.receiver_amplitudes[0], expected)


def test_in_one_dimension_a_pulse_travels_unchanged() -> None:
    n, nt, shift = 60, 20, 19
    pulse = np.exp(-((np.arange(n) - 20) ** 2) / 8.0)[None]
    out = numbawave.scalar(np.ones(n), 1.0, 1.0, nt=nt, wavefield_0=pulse, wavefield_m1=np.roll(pulse, -1, 1),
                           receiver_locations=np.full((1, 1, 1), 20 + shift), accuracy=2, pml_width=0,
                           courant_number=1.0, backend="reference")  # fmt: skip
    assert out.receiver_amplitudes[0, 0, shift] == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(out.wavefield_0[0, 30:50], np.roll(pulse[0], nt)[30:50], rtol=0, atol=1e-14)
