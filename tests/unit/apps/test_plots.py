"""Pictures of models in two and three dimensions: units, extents, and the slices that they should show."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from numbawave import estimate_memory
from numbawave.apps.plots import draw_ledger, draw_model
from numbawave.planning.ledger import PLACES, Moment


def test_a_section_has_kilometres_and_units():
    figure = Figure()
    place = figure.add_gridspec(1, 1)[0, 0]
    axes = draw_model(figure, place, np.ones((20, 40)), np.array([25.0, 50.0]), "a model", (0.0, 2.0))
    assert axes[0].get_xlabel() == "x (km)"
    assert axes[0].get_xlim() == (0.0, 2.0)
    assert axes[0].get_ylabel() == "depth (km)"
    assert axes[0].get_ylim() == (0.5, 0.0)
    assert figure.axes[-1].get_ylabel() == "m/s"


def test_a_volume_is_three_slices_through_its_middle():
    volume = np.arange(4 * 6 * 8, dtype=float).reshape(4, 6, 8)
    figure = Figure()
    axes = draw_model(figure, figure.add_gridspec(1, 1)[0, 0], volume, np.full(3, 10.0), "a model", (0.0, 200.0))
    drawn = [np.asarray(panel.images[0].get_array()) for panel in axes]
    for found, expected in zip(drawn, (volume[:, 3], volume[:, :, 4], volume[2]), strict=True):
        assert np.array_equal(found, expected)


def test_a_ledger_is_drawn_to_its_sums() -> None:
    found = estimate_memory("scalar", (20, 20), 30, 2, n_segments=3, storage_mode="cpu", device="cuda")
    figure = draw_ledger(found.buffers)

    places = [place for place in PLACES if found.buffers.peak(place)[0]]
    assert [axes.get_title("left").split(":")[0] for axes in figure.axes] == places == ["device", "host", "pinned"]
    for axes, place in zip(figure.axes, places, strict=True):
        for number, moment in enumerate(Moment):
            bars = [bar.get_height() for bar in axes.patches[number :: len(Moment)]]
            assert sum(bars) * 1e6 == pytest.approx(found.buffers.bytes(place, moment), rel=1e-12)
