"""The example of migration: batches do not change the image, a reflector is imaged where it is, the script draws it."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from matplotlib.image import imread

import numbawave
from tests.tolerance import apart, steps

SCRIPT = Path(__file__).parents[3] / "docs" / "examples" / "rtm.py"
SPEED, DEPTH, SPACING = 2000.0, 40, 12.0


@pytest.fixture(scope="module")
def rtm() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rtm", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_flat_reflector_is_imaged_at_its_depth_by_batches_of_any_size(rtm: ModuleType) -> None:
    background = torch.full((70, 60), SPEED)
    true = background.clone()
    true[DEPTH:] *= 1.2
    call = rtm.acquire(true.shape, SPACING, 0.75, 5)
    data = numbawave.scalar(true, **call).receiver_amplitudes * rtm.mute(call, SPEED)

    whole, parts = (rtm.migrate(background, call, data, size) for size in (5, 2))

    assert apart(parts.numpy(), whole.numpy()) < steps(np.float32, data.shape[-1])
    profile = rtm.sharpen(whole, background)[:, 20:40].abs().sum(1)
    # waves go down and up: their product has half the wavelength, and its largest value within a quarter of that
    resolution = SPEED / rtm.FREQUENCY / 4 / SPACING
    assert abs(int(profile.argmax()) + 0.5 - DEPTH) < resolution


def test_the_mute_takes_the_direct_wave_and_leaves_what_is_late(rtm: ModuleType) -> None:
    call = rtm.acquire((70, 60), SPACING, 0.6, 2)
    record = numbawave.scalar(torch.full((70, 60), SPEED), **call).receiver_amplitudes
    weights = rtm.mute(call, SPEED)
    assert (weights[..., -1] == 1).sum() > 0
    assert (weights[..., 0] == 0).all()
    assert (weights[..., 1:] >= weights[..., :-1]).all()
    assert (record * weights).square().sum() < 0.05 * record.square().sum()


def test_the_script_draws_its_picture(rtm: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"--cells 30 60 --spacing 25 --shots 3 --batch 2 --seconds 0.5 --output {tmp_path / 'rtm.png'}"
    rtm.main(rtm.options_of(words.split()))
    assert "3 shots in batches of 2" in capsys.readouterr().out
    assert imread(tmp_path / "rtm.png").std() > 0
