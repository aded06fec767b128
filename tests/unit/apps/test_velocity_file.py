"""A velocity model is the same from each kind of file, and what is wrong with a file is named."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from numbawave.apps.velocity_file import load_velocity
from numbawave.errors import InvalidValueError, NumbawaveError, StorageError

segyio = pytest.importorskip("segyio", reason="needs the extra numbawave[segy]")

SHAPE = (8, 9, 10)
IBM, IEEE = segyio.SegySampleFormat.IBM_FLOAT_4_BYTE, segyio.SegySampleFormat.IEEE_FLOAT_4_BYTE
IBM_ROUNDING = 2.0**-20
"""IBM's float has six hexadecimal digits, the first of which may be 1, and segyio cuts off the rest."""


@pytest.fixture
def model(rng: np.random.Generator) -> NDArray[np.float32]:
    """Speeds [z, y, x] with all of float32's digits."""
    return rng.uniform(1500, 4500, SHAPE).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "v.sgy")


def write(path: str, model: NDArray[np.float32], code: int = IEEE, endian: str = "big", lines: bool = False) -> None:
    """Write the columns of a model as traces, which carry numbers of lines and crosslines on request."""
    spec = segyio.spec()
    spec.format, spec.endian, spec.samples = code, endian, np.arange(model.shape[0])
    traces = model.reshape(model.shape[0], -1).T
    spec.tracecount = len(traces)
    with segyio.create(path, spec) as stream:
        stream.trace = np.ascontiguousarray(traces)
        for n in range(len(traces) if lines else 0):
            line, crossline = divmod(n, model.shape[-1])
            stream.header[n] = {segyio.su.iline: line + 1, segyio.su.xline: crossline + 1}


def damage(path: str, change: slice, content: bytes) -> None:
    """Put other bytes into a file."""
    data = bytearray(Path(path).read_bytes())
    data[change] = content
    Path(path).write_bytes(data)


def test_numpy_file_is_read_and_checked(tmp_path):
    path = str(tmp_path / "v.npy")
    good = np.linspace(1500, 2500, 80, dtype=np.float32).reshape(8, 10)
    np.save(path, good)
    assert np.array_equal(load_velocity("model", path), good)
    for bad, named in (
        (np.where(good > 2400, np.nan, good), r"NaN or infinity, first at \(7, 2\)"),
        (np.where(good > 2400, 0, good), r"cell \(7, 2\)"),
        (good[0], "axes z, x"),
        (good.astype(str), "real numbers"),
    ):
        np.save(path, bad)
        with pytest.raises(NumbawaveError, match=named):
            load_velocity("model", path)
    np.save(path, good)
    with pytest.raises(InvalidValueError, match="the job says shape"):
        load_velocity("model", path, (8, 11))


def test_segy_without_segyio_says_how_to_get_it(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "segyio", None)
    with pytest.raises(StorageError, match=r"pip install numbawave\[segy\]"):
        load_velocity("model", path)


@pytest.mark.parametrize("endian", ["big", "little"])
@pytest.mark.parametrize(("code", "rounding"), [(IBM, IBM_ROUNDING), (IEEE, 0)])
def test_segy_traces_become_columns(path, model, code, rounding, endian):
    write(path, model, code, endian)
    read = load_velocity("model", path, SHAPE)
    assert read.shape == SHAPE
    assert (np.abs(read - model) <= rounding * model).all()
    assert np.array_equal(load_velocity("model", path), read.reshape(8, 90))
    with pytest.raises(InvalidValueError, match="90 traces of 8 samples"):
        load_velocity("model", path, (8, 9, 11))


def test_segy_of_numbered_lines_knows_its_shape(path, model):
    write(path, model, lines=True)
    for shape in ((), SHAPE):
        assert np.array_equal(load_velocity("model", path, shape), model)
    with pytest.raises(InvalidValueError, match=r"shape \(8, 9, 10\), but the job says shape \(8, 10, 9\)"):
        load_velocity("model", path, (8, 10, 9))


def test_segy_of_one_line_of_numbered_traces_takes_the_shape_of_the_job(path, model):
    write(path, model.reshape(8, 90), lines=True)
    assert np.array_equal(load_velocity("model", path), model.reshape(8, 90))
    assert np.array_equal(load_velocity("model", path, SHAPE), model)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_segy_with_a_value_that_is_not_finite_names_the_cell(path, model, value):
    model[3, 4, 5] = value
    write(path, model)
    with pytest.raises(InvalidValueError, match=r"NaN or infinity, first at \(3, 4, 5\)"):
        load_velocity("model", path, SHAPE)


@pytest.mark.parametrize(
    ("change", "content"),
    [
        (slice(-100, None), b""),
        (slice(3600, None), b""),
        (slice(1000, None), b""),
        (slice(0, None), b""),
        (slice(3224, 3226), b"\0\4"),
    ],
    ids=["cut in a trace", "without traces", "cut in the header", "empty", "of a format without a reader"],
)
def test_damaged_segy_is_no_model(path, model, change, content):
    write(path, model)
    damage(path, change, content)
    with pytest.raises(StorageError, match="cannot be read as SEG-Y"):
        load_velocity("model", path, SHAPE)
