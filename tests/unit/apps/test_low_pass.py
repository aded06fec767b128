"""The low-pass filter keeps what is below, removes what is above, and shifts nothing."""

import math

import torch

from numbawave.apps.low_pass import end_fade, low_pass, sampling_stride


def _tone(frequency: float, nt: int = 1000, dt: float = 0.004) -> torch.Tensor:
    time = torch.arange(nt, dtype=torch.float64) * dt
    return torch.sin(2 * math.pi * frequency * time) * torch.hann_window(nt, dtype=torch.float64)


def test_keeps_below_halves_at_and_removes_above_the_corner():
    for frequency, gain in ((2.0, 1.0), (5.0, 0.5), (9.0, 0.0)):
        tone = _tone(frequency)
        # the window spreads the tone over 0.5 Hz; at its top the ramp's slope over that width cancels
        assert (low_pass(tone, 0.004, 5.0) - gain * tone)[480:520].abs().max() < 5e-3


def test_a_symmetric_pulse_stays_symmetric_about_its_centre():
    pulse = torch.zeros(401, dtype=torch.float64)
    pulse[200] = 1.0
    filtered = low_pass(pulse, 0.004, 5.0)
    assert torch.allclose(filtered, filtered.flip(0), atol=1e-4 * float(filtered.max()))
    assert int(filtered.argmax()) == 200


def test_filter_is_linear_and_acts_on_each_trace_alone(random):
    traces = torch.randn(2, 3, 64, generator=random, dtype=torch.float64)
    whole = low_pass(traces, 0.004, 20.0)
    assert torch.allclose(whole[1, 2], low_pass(traces[1, 2], 0.004, 20.0))
    assert torch.allclose(low_pass(3 * traces, 0.004, 20.0), 3 * whole)


def test_fade_is_one_then_falls_to_zero():
    fade = end_fade(100, 0.01, 5.0, torch.float64)
    assert (fade[:80] == 1).all()
    assert abs(float(fade[-1])) < 1e-15
    assert (fade.diff() <= 0).all()


def test_stride_samples_the_corner_four_times_a_period_and_is_never_zero():
    assert sampling_stride(0.002, 5.0) == 25
    assert sampling_stride(0.5, 5.0) == 1
