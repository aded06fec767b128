"""Quantisers: what comes back, how far off, and the same on every backend."""

from types import SimpleNamespace

import numpy as np
import pytest

from numbawave.backends import coding_cpu, simulated
from numbawave.codegen.coding import BLOCK, CODES, ROWS, cuda_text, scale_count
from numbawave.codegen.module_cache import load
from tests.tolerance import rounding

REALS = ("float32", "float64")
SIZES = (1, BLOCK - 1, BLOCK, ROWS * BLOCK + 5)
Coded = tuple[np.ndarray, np.ndarray]


def empty(coding: str, values: np.ndarray) -> Coded:
    return np.empty(values.size, CODES[coding]), np.empty(scale_count(coding, values.size), values.dtype)


def encoded(coding: str, values: np.ndarray) -> Coded:
    codes, scales = empty(coding, values)
    coding_cpu.encode(values, coding, codes, scales)
    return codes, scales


def there_and_back(coding: str, values: np.ndarray) -> np.ndarray:
    out = np.full_like(values, 7)
    coding_cpu.decode(*_ordered(coding, encoded(coding, values)), out)
    return out


def _ordered(coding: str, coded: Coded) -> tuple[np.ndarray, str, np.ndarray]:
    return coded[0], coding, coded[1]


def waves(rng: np.random.Generator, size: int, real: str) -> np.ndarray:
    """Values over many orders of magnitude."""
    return (rng.standard_normal(size) * 10.0 ** rng.uniform(-12, 3, size)).astype(real)


def largest(values: np.ndarray) -> np.ndarray:
    """Largest absolute value of each value's block."""
    padded = np.zeros(-(-values.size // BLOCK) * BLOCK, values.dtype)
    padded[: values.size] = np.abs(values)
    return np.repeat(padded.reshape(-1, BLOCK).max(1), BLOCK)[: values.size]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("real", REALS)
def test_int8_errs_by_half_a_step_of_its_block(rng: np.random.Generator, real: str, size: int) -> None:
    values = waves(rng, size, real)
    error = np.abs(there_and_back("int8", values) - values)
    # Scale, quotient and product are rounded, each at up to 127 steps.
    assert np.all(error <= largest(values) * (1 / 254 + rounding(real, 3)))


@pytest.mark.parametrize("real", REALS)
def test_int8_keeps_the_relative_error_of_the_worst_block(real: str) -> None:
    """One large value, and all others half a step from a code: no block can be further off."""
    values = np.full(BLOCK, 0.5 * (1 - 1e-6), real)
    values[5] = 127
    back = there_and_back("int8", values)
    error = np.linalg.norm(back - values) / np.linalg.norm(values)
    assert np.count_nonzero(back) == 1
    assert 0.99 * np.sqrt(63) / 254 < error < 2.0**-5


@pytest.mark.parametrize("real", REALS)
def test_int8_meets_the_stated_error_of_any_slot(rng: np.random.Generator, real: str) -> None:
    for spread in (0.1, 1.0, 4.0):
        values = (rng.standard_normal(50 * BLOCK + 3) * np.exp(spread * rng.standard_normal(50 * BLOCK + 3))).astype(real)
        error = np.linalg.norm(there_and_back("int8", values) - values) / np.linalg.norm(values)
        assert error < 2.0**-5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("real", REALS)
def test_bf16_errs_by_a_256th_of_each_value(rng: np.random.Generator, real: str, size: int) -> None:
    values = waves(rng, size, real)
    assert np.all(np.abs(there_and_back("bf16", values) - values) <= 2.0**-8 * np.abs(values))


@pytest.mark.parametrize("real", REALS)
def test_bf16_rounds_as_torch_does(rng: np.random.Generator, real: str) -> None:
    torch = pytest.importorskip("torch")
    ties = (np.arange(1, 512) / 256 * 2.0 ** rng.integers(-100, 100, 511)).astype(np.float32)
    values = np.concatenate([waves(rng, 1000, "float32"), ties, -ties, [0.0, -0.0, np.inf, -np.inf, 3.4e38, -3.4e38]])
    values = values.astype("float32")
    expected = torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view("uint16")
    codes, _ = encoded("bf16", values.astype(real))
    assert np.array_equal(codes, expected)
    assert np.array_equal(there_and_back("bf16", values.astype(real)), torch.from_numpy(values).bfloat16().float().numpy())


def test_bf16_of_every_code_is_itself() -> None:
    values = (np.arange(1 << 16, dtype="uint32") << 16).view("float32")
    finite = np.isfinite(values)
    assert np.array_equal(there_and_back("bf16", values)[finite].view("uint32"), values[finite].view("uint32"))
    normal = finite & ((np.abs(values) >= np.finfo("float32").tiny) | (values == 0))
    wide = values[normal].astype("float64")
    assert np.array_equal(there_and_back("bf16", wide).view("uint64"), wide.view("uint64"))


def test_bf16_of_doubles_beyond_single_precision() -> None:
    back = there_and_back("bf16", np.array([1e300, -1e300, 1e-300, -1e-300, 1e-39, 2.0**-126 * (1 - 2.0**-20)]))
    assert back[:2].tolist() == [np.inf, -np.inf]
    assert back[2:].tolist() == [0.0, 0.0, 0.0, 2.0**-126]


@pytest.mark.parametrize("coding", CODES)
@pytest.mark.parametrize("real", REALS)
def test_zeros_stay_zero(real: str, coding: str) -> None:
    values = np.zeros(3 * BLOCK + 1, real)
    values[BLOCK] = 1.0
    codes, scales = encoded(coding, values)
    assert np.array_equal(there_and_back(coding, values), values)
    assert np.count_nonzero(codes) == 1
    assert np.count_nonzero(scales) == (coding == "int8")


@pytest.mark.parametrize("coding", CODES)
@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_what_is_not_finite_does_not_become_finite(rng: np.random.Generator, real: str, coding: str, bad: float) -> None:
    values = waves(rng, 3 * BLOCK, real)
    values[BLOCK + 3] = bad
    back = there_and_back(coding, values)
    assert not np.isfinite(back[BLOCK + 3])
    assert np.all(np.isfinite(back[:BLOCK]))
    assert np.all(np.isfinite(back[2 * BLOCK :]))
    if coding == "bf16":
        assert np.isnan(back[BLOCK + 3]) == np.isnan(bad)
    else:
        assert not np.isfinite(back[BLOCK : 2 * BLOCK]).any()


def test_a_nan_whose_payload_is_in_its_lower_half_stays_one() -> None:
    values = np.array([0x7F800001, 0xFF800001], "uint32").view("float32")
    assert np.isnan(there_and_back("bf16", values)).all()


@pytest.mark.parametrize("real", REALS)
def test_tiny_blocks_become_zeros_and_no_code_overflows(real: str) -> None:
    about = np.finfo(real)
    values = np.full(2 * BLOCK, about.smallest_subnormal * 190, real)
    values[BLOCK:] = about.tiny * 128
    back = there_and_back("int8", values)
    assert not back[:BLOCK].any()
    assert np.all(np.abs(back[BLOCK:] - values[BLOCK:]) <= about.tiny)


def test_many_values_and_threads_agree_with_one_block_at_a_time(rng: np.random.Generator) -> None:
    values = waves(rng, coding_cpu.FEW_VALUES + 77, "float32")
    whole = there_and_back("int8", values)
    for first in (0, 4096 * 7, values.size // BLOCK * BLOCK):
        assert np.array_equal(whole[first : first + BLOCK], there_and_back("int8", values[first : first + BLOCK].copy()))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:.*invalid value encountered in scalar multiply:RuntimeWarning")
@pytest.mark.parametrize("coding", CODES)
@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("most_blocks", [1, 1 << 14])
def test_cuda_gives_the_bits_that_the_cpu_gives(
    rng: np.random.Generator, real: str, coding: str, most_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from numbawave.backends import coding_cuda

    monkeypatch.setattr(coding_cuda, "MOST_BLOCKS", most_blocks)
    values = waves(rng, 2 * ROWS * BLOCK + 5, real)
    values[:BLOCK] = 0
    values[BLOCK + 1], values[2 * BLOCK + 9] = np.nan, -np.inf
    values[3 * BLOCK : 4 * BLOCK] = np.finfo(real).smallest_subnormal * 190
    values[4 * BLOCK : 5 * BLOCK] = np.arange(BLOCK) - 0.5
    codes, scales = encoded(coding, values)
    device = None if simulated() else 0

    def place(array: np.ndarray) -> object:
        if device is None:
            return array.copy()
        return torch.from_numpy(array.view("int16") if array.dtype == np.uint16 else array).cuda()

    def fetch(array: object, dtype: np.dtype) -> np.ndarray:
        return array if isinstance(array, np.ndarray) else array.cpu().numpy().view(dtype)

    coder = coding_cuda.CudaCoder(SimpleNamespace(device=device, stream=0))
    given, found, steps, back = place(values), place(codes), place(scales), place(np.full_like(values, 7))
    found[:], steps[:] = 1, 1
    coder.encode(given, coding, found, steps)
    coder.decode(found, coding, steps, back)

    assert np.array_equal(fetch(found, codes.dtype), codes)
    assert np.array_equal(fetch(steps, scales.dtype), scales)
    expected = there_and_back(coding, values)
    assert np.array_equal(fetch(back, values.dtype), expected, equal_nan=True)


@pytest.mark.skipif(simulated(), reason="the simulator compiles nothing")
@pytest.mark.parametrize("title", [f"{way}_{coding}" for way in ("encode", "decode") for coding in CODES])
@pytest.mark.parametrize("cc", [(7, 5), (9, 0)])
def test_single_precision_stays_single_and_in_registers(title: str, cc: tuple[int, int]) -> None:
    pytest.importorskip("numba_cuda", reason="needs the extra numbawave[cuda13]")
    cuda = pytest.importorskip("numba.cuda")
    types = cuda.types
    for real in REALS:
        function = getattr(load("ptx_coding", cuda_text(real)), title).py_func
        known = {"values": real, "scales": real, "words": f"uint{real[-2:]}", "codes": CODES[title.partition("_")[2]]}
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        text, _ = cuda.compile_ptx(function, tuple(getattr(types, known[name])[::1] for name in names), cc=cc)
        assert real == "float64" or ".f64" not in text
        assert ".local" not in text
        assert ".entry" in text
