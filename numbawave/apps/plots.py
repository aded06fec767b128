"""Pictures of models, gathers and inversions: matplotlib figures made without its global state."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import color_sequences
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from ..planning.ledger import PLACES, Ledger, Moment

Array = NDArray[Any]

SPEED_MAP = "viridis"
CHANGE_MAP = "RdBu_r"
WAVE_MAP = "gray"


def draw_model(
    figure: Figure,
    place: SubplotSpec,
    model: Array,
    spacing: Array,
    title: str,
    limits: tuple[float, float],
    colours: str = SPEED_MAP,
    label: str = "m/s",
) -> list[Axes]:
    """Draw a model: a section in 2-D, three orthogonal slices through the middle in 3-D.

    Parameters
    ----------
    figure, place : matplotlib figure and a place in its grid
    model : ndarray [z, x] or [z, y, x]
    spacing : ndarray [ndim]
        m.
    title, label : str
        Above the picture, and beside its colour bar.
    limits : (float, float)
        Values of the ends of the colour map.
    colours : str
        Name of a matplotlib colour map.

    Returns
    -------
    list of matplotlib axes
    """
    if model.ndim == 2:
        axes = [figure.add_subplot(place)]
        image = _section(axes[0], model, (spacing[0], spacing[1]), ("depth (km)", "x (km)"), limits, colours)
    else:
        middle = [n // 2 for n in model.shape]
        long_z, long_y, long_x = (n * h for n, h in zip(model.shape, spacing, strict=True))
        # panels as large as the slices they hold, or equal scales would leave most of each panel empty
        grid = place.subgridspec(2, 2, width_ratios=(long_x, long_y), height_ratios=(long_z, long_y))
        axes = [
            figure.add_subplot(grid[0, 0]),
            figure.add_subplot(grid[0, 1]),
            figure.add_subplot(grid[1, 0]),
        ]
        dz, dy, dx = spacing
        image = _section(axes[0], model[:, middle[1]], (dz, dx), ("depth (km)", "x (km)"), limits, colours)
        _section(axes[1], model[:, :, middle[2]], (dz, dy), ("depth (km)", "y (km)"), limits, colours)
        _section(axes[2], model[middle[0]], (dy, dx), ("y (km)", "x (km)"), limits, colours)
    axes[0].set_title(title, loc="left", fontweight="bold")
    figure.colorbar(image, ax=axes, label=label, fraction=0.05, pad=0.02)
    return axes


def _section(
    axes: Axes,
    values: Array,
    spacing: tuple[float, float],
    labels: tuple[str, str],
    limits: tuple[float, float],
    colours: str,
) -> AxesImage:
    down, across = (n * h / 1000 for n, h in zip(values.shape, spacing, strict=True))
    image = axes.imshow(
        values,
        extent=(0.0, across, down, 0.0),
        cmap=colours,
        vmin=limits[0],
        vmax=limits[1],
        aspect="auto",
        interpolation="nearest",
    )
    axes.set_ylabel(labels[0])
    axes.set_xlabel(labels[1])
    return image


def draw_gathers(
    figure: Figure,
    place: SubplotSpec,
    observed: Array,
    predicted: Array,
    dt: float,
    title: str,
    names: tuple[str, str] = ("observed", "predicted"),
) -> None:
    """Draw two gathers side by side, with one grey scale clipped at the 95th percentile of the first.

    Parameters
    ----------
    figure, place : matplotlib figure and a place in its grid
    observed, predicted : ndarray [receiver, time]
    dt : float
        s.
    title : str
    names : (str, str)
        What the gathers are.
    """
    grid = place.subgridspec(1, 2, wspace=0.04)
    clip = float(np.percentile(np.abs(observed), 95)) or 1.0
    first: Axes | None = None
    for column, (name, gather) in enumerate(zip(names, (observed, predicted), strict=True)):
        axes = figure.add_subplot(grid[0, column], sharey=first)
        extent = (0.0, float(gather.shape[0]), gather.shape[1] * dt, 0.0)
        axes.imshow(gather.T, extent=extent, cmap=WAVE_MAP, vmin=-clip, vmax=clip, aspect="auto")
        axes.set_xlabel(f"receiver, {name}")
        if first is None:
            first = axes
            axes.set_ylabel("time (s)")
            axes.set_title(title, loc="left", fontweight="bold")
        else:
            axes.tick_params(labelleft=False)


def draw_losses(figure: Figure, place: SubplotSpec, losses: Array, iterations: Array, corners: Array) -> None:
    """Draw each stage's misfit as a part of its first, over the iterations.

    Parameters
    ----------
    figure, place : matplotlib figure and a place in its grid
    losses : ndarray [iteration]
        Over all stages.
    iterations, corners : ndarray [stage]
        Iterations, and the corner frequency in Hz, of each stage.
    """
    axes = figure.add_subplot(place)
    end = 0
    for n, corner in zip(iterations.tolist(), corners.tolist(), strict=True):
        stage = losses[end : end + n]
        axes.plot(np.arange(end + 1, end + n + 1), 100 * stage / (stage[0] or 1.0), marker=".")
        if end:
            axes.axvline(end + 0.5, color="0.7", linewidth=0.8)
        axes.text(end + 1, 1.02, f"{corner:g} Hz", transform=axes.get_xaxis_transform(), fontsize="small")
        end += n
    axes.set_ylim(bottom=0)
    axes.set_xlabel("iteration")
    axes.set_ylabel("misfit (% of the stage's first)")
    axes.set_title("misfit", loc="right", fontweight="bold")
    axes.grid(alpha=0.3)


def draw_ledger(ledger: Ledger) -> Figure:
    """Draw what a call holds: bytes over its moments, stacked by what they are for, one panel a place.

    Parameters
    ----------
    ledger : Ledger
        ``numbawave.plan(...).memory.buffers``, or ``out.info.ledger``.

    Returns
    -------
    matplotlib figure
        ``savefig`` writes it.
    """
    places = [place for place in PLACES if ledger.peak(place)[0]]
    figure = Figure(figsize=(3.2 * max(2, len(places)), 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    uses = list(dict.fromkeys(buffer.name.split(".")[0] for buffer in ledger))
    colours = dict(zip(uses, color_sequences["tab10"], strict=False))
    for axes, place in zip(figure.subplots(1, max(1, len(places)), squeeze=False)[0], places, strict=False):
        below = np.zeros(len(Moment))
        for use in uses:
            here = Ledger(buffer for buffer in ledger if buffer.name.split(".")[0] == use)
            sizes = [here.bytes(place, moment) / 1e6 for moment in Moment]
            axes.bar([moment.name.lower() for moment in Moment], sizes, 0.9, below, color=colours[use], label=use)
            below += sizes
        axes.set_title(f"{place}: {below.max():,.0f} MB", loc="left", fontweight="bold")
        axes.set_ylabel("MB")
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def draw_result(arrays: Mapping[str, Array]) -> bytes:
    """Draw an inversion: true, start and result in the same colours, the update, the misfit and one gather.

    Parameters
    ----------
    arrays : mapping
        The contents of result.npz.

    Returns
    -------
    bytes
        A PNG.
    """
    solid = arrays["start"].ndim == 3
    figure = Figure(figsize=(14, 16 if solid else 9.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(3, 2)
    spacing, start, result = arrays["grid_spacing"], arrays["start"], arrays["result"]
    true = arrays.get("true")
    shown = result if true is None else true
    limits = (float(shown.min()), float(np.percentile(shown, 99.5)))
    errors = [f", error {error:.1%}" for error in arrays["model_error"]] if "model_error" in arrays else ["", ""]
    draw_model(figure, grid[0, 1], start, spacing, f"start{errors[0]}", limits)
    draw_model(figure, grid[1, 0], result, spacing, f"result{errors[1]}", limits)
    if true is not None:
        first = draw_model(figure, grid[0, 0], true, spacing, "true model", limits)[0]
        shots = arrays["shots"]
        first.plot((shots[:, -1] + 0.5) * spacing[-1] / 1000, (shots[:, 0] + 0.5) * spacing[0] / 1000, "r*", ms=5)
    else:
        _draw_change(figure, grid[0, 0], result - start, spacing, "result - start")
    if true is not None:
        _draw_change(figure, grid[1, 1], result - start, spacing, "result - start")
    draw_losses(figure, grid[2, 0], arrays["losses"], arrays["iterations"], arrays["corners"])
    title = f"one shot below {arrays['corners'][-1]:g} Hz"
    draw_gathers(figure, grid[2, 1], arrays["observed_gather"], arrays["predicted_gather"], float(arrays["dt"]), title)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    return stream.getvalue()


def _draw_change(figure: Figure, place: SubplotSpec, change: Array, spacing: Array, title: str) -> None:
    largest = float(np.percentile(np.abs(change), 99.5)) or 1.0
    draw_model(figure, place, change, spacing, title, (-largest, largest), CHANGE_MAP)
