"""Built-in velocity models that look like geology: water, folded and faulted layers, a salt body."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidValueError

Grid = NDArray[np.float64]

WATER_SPEED = 1500.0
SALT_SPEED = 4480.0


def layered_model(
    shape: Sequence[int],
    grid_spacing: Sequence[float],
    seed: int,
    *,
    water_fraction: float = 0.13,
    n_layers: int = 36,
    n_faults: int = 4,
    salt: bool = True,
) -> NDArray[np.float32]:
    """Draw a velocity model of a sedimentary basin.

    Layers are laid down flat, with speeds that grow with depth of burial. Then the older ones, below an
    unconformity, are tilted and folded, faults shift them, and a salt dome rises through them and drags them
    up at its flanks. All displacements are proportional to the model's size, so the same seed on a finer grid
    shows the same geology.

    Parameters
    ----------
    shape : (z, x) or (z, y, x)
        Cells.
    grid_spacing : sequence of float
        Cell size along each axis, m.
    seed : int
        The same seed gives the same model on every machine.
    water_fraction : float
        Mean depth of the sea floor as a part of the model's depth, 0 to 0.5; 0 is land.
    n_layers, n_faults : int
    salt : bool
        Whether there is a salt body.

    Returns
    -------
    ndarray, the shape asked for, float32
        m/s; water 1500, sediments about 1600 to 3900, salt 4480.

    Raises
    ------
    InvalidValueError
        If there are not 2 or 3 axes of at least 8 cells, or the water fraction is out of range.
    """
    if len(shape) not in (2, 3) or min(shape) < 8 or len(grid_spacing) != len(shape):
        raise InvalidValueError(
            "shape",
            tuple(shape),
            "needs 2 or 3 axes of 8 cells or more, with a spacing for each",
            "give (70, 200)",
        )
    if not 0.0 <= water_fraction <= 0.5:
        raise InvalidValueError("water_fraction", water_fraction, "must lie in 0 to 0.5", "give 0.13")
    rng = np.random.default_rng(seed)
    z, y, x, width = _coordinates(shape, grid_spacing)
    floor = water_fraction * (1.0 + 0.35 * _folds(rng, x, y, width, n_waves=4)) if water_fraction else np.zeros_like(x)
    burial = z - floor
    age = _bury(rng, z, burial, x, y, width)
    age = _fault(rng, age, burial, x, y, width, n_faults)
    top, radius, distance = _dome(rng, z, x, y, width)
    if salt:
        drag = np.exp(-np.square(np.maximum(distance - radius, 0.0) / 0.22))
        age = age + 0.14 * drag * np.clip(burial / 0.5, 0.0, 1.0)
    velocity = _sediment_speed(rng, age, burial, n_layers)
    if salt:
        velocity = np.where((distance < radius) & (z > top) & (burial > 0.03), SALT_SPEED, velocity)
    velocity = np.where(burial < 0, WATER_SPEED, velocity)
    return np.ascontiguousarray(velocity.reshape(tuple(shape)), dtype=np.float32)


def _coordinates(shape: Sequence[int], grid_spacing: Sequence[float]) -> tuple[Grid, Grid, Grid, float]:
    """Depth from 0 to 1, x and y in units of the model's depth, [z, y, x] each; and the extent of x."""
    n_z, n_x = shape[0], shape[-1]
    n_y = shape[1] if len(shape) == 3 else 1
    depth = n_z * grid_spacing[0]
    z = (np.arange(n_z) + 0.5) / n_z
    x = (np.arange(n_x) + 0.5) * grid_spacing[-1] / depth
    y = (np.arange(n_y) - (n_y - 1) / 2) * (grid_spacing[1] / depth if len(shape) == 3 else 0.0)
    grids = np.meshgrid(z, y, x, indexing="ij")
    return grids[0], grids[1], grids[2], n_x * grid_spacing[-1] / depth


def _folds(rng: np.random.Generator, x: Grid, y: Grid, width: float, n_waves: int) -> Grid:
    """A sum of cosines in random directions, of wavelengths from the model's width down; about -1 to 1."""
    total = np.zeros_like(x)
    weight_sum = 0.0
    for number in range(n_waves):
        wave = 2 * np.pi * (0.7 + 0.8 * number + 0.4 * rng.random()) / width
        direction = rng.uniform(-0.7, 0.7)
        phase = rng.uniform(0, 2 * np.pi)
        weight = 1.0 / (1.0 + number)
        total += weight * np.cos(wave * (np.cos(direction) * x + np.sin(direction) * y) + phase)
        weight_sum += weight
    return total / weight_sum


def _bury(rng: np.random.Generator, z: Grid, burial: Grid, x: Grid, y: Grid, width: float) -> Grid:
    """Depth at which each point's rock was laid down: drape above an unconformity, folds and tilt below."""
    drape = 0.05 * _folds(rng, x, y, width, n_waves=3)
    fold = 0.13 * _folds(rng, x, y, width, n_waves=5) + 0.12 * rng.choice([-1.0, 1.0]) * (x / width - 0.5)
    unconformity = 0.24 + 0.05 * _folds(rng, x, y, width, n_waves=3)
    young = burial + drape * np.clip(burial / 0.3, 0.0, 1.0)
    # the older package starts well down its own column: the layers between were eroded
    old = burial + 0.16 + fold * np.clip(0.6 + 0.4 * z, 0.0, 1.0)
    return np.where(burial < unconformity, young, old)


def _fault(rng: np.random.Generator, age: Grid, burial: Grid, x: Grid, y: Grid, width: float, n_faults: int) -> Grid:
    """Shift the rock beyond each dipping fault plane; the throw dies out towards the sea floor."""
    shifted = age.copy()
    for number in range(n_faults):
        position = width * (number + 0.5 + rng.uniform(-0.3, 0.3)) / max(n_faults, 1)
        dip = rng.choice([-1.0, 1.0]) * rng.uniform(0.35, 0.7)
        strike = rng.uniform(-0.4, 0.4)
        throw = rng.uniform(0.03, 0.07) * rng.choice([-1.0, 1.0])
        beyond = x - position - dip * (burial - 0.5) - strike * y > 0
        # far from the plane the block comes back to its level, or the throws would add up across the model
        back = np.exp(-np.abs(x - position) / (0.35 * width))
        shifted += throw * beyond * back * np.clip((burial - 0.06) / 0.12, 0.0, 1.0)
    return shifted


def _dome(rng: np.random.Generator, z: Grid, x: Grid, y: Grid, width: float) -> tuple[Grid, Grid, Grid]:
    """A salt dome: its uneven top, its radius at each depth (bulb, stem, pillow), distance from its axis."""
    centre = width * rng.uniform(0.38, 0.62)
    lean = rng.uniform(-0.25, 0.25)
    rugged = 0.05 * _folds(rng, x, y, 0.35 * width, n_waves=4)
    top = 0.40 + rng.uniform(-0.04, 0.04) + rugged
    distance = np.hypot(x - centre - lean * (z - 0.6), 0.8 * y)
    size = min(0.27, 0.1 * width)
    bulb = size * np.sqrt(np.clip(1.0 - np.square((z - 0.58 - rugged) / 0.22), 0.0, 1.0))
    stem = 0.4 * size * (1.0 + 0.3 * np.cos(9.0 * z))
    pillow = 1.5 * size * np.clip((z - 0.88) / 0.12, 0.0, 1.0) ** 2
    radius = np.where(z > 0.45, np.maximum(np.maximum(bulb, stem), pillow), bulb)
    return top, radius, distance


def _sediment_speed(rng: np.random.Generator, age: Grid, burial: Grid, n_layers: int) -> Grid:
    """Speed by layer (a trend plus its rock's contrast) and by burial (compaction inside a layer)."""
    thickness = rng.gamma(3.0, 1.0, n_layers)
    bounds = np.cumsum(thickness) / thickness.sum() * 1.35 - 0.05
    contrast = 170.0 * rng.standard_normal(n_layers + 1)
    contrast += 90.0 * np.where(np.arange(n_layers + 1) % 2, 1.0, -1.0)
    layer = np.searchsorted(bounds, age)
    laid_down = np.concatenate([[0.0], bounds])[layer]
    speed = 1620.0 + 1350.0 * np.clip(laid_down, 0.0, 1.3) + contrast[layer] * np.clip(0.35 + laid_down, 0.35, 1.0)
    found: Grid = np.clip(speed + 450.0 * np.clip(burial, 0.0, 1.0), 1540.0, 3950.0)
    return found
