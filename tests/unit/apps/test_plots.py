"""Pictures of models in two and three dimensions: units, extents, and the slices that they should show."""

import numpy as np
from matplotlib.figure import Figure

from numbawave.apps.plots import draw_model


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
