"""The choice of a coding."""

import pickle
from typing import Any

import pytest

from numbawave.errors import InvalidValueError
from numbawave.history.codecs.compression import ERRORS, Compression


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (False, None),
        (None, None),
        (True, Compression("int8", None)),
        ("int8", Compression()),
        ("bf16", Compression("bf16")),
        ("lossless", Compression("none", "lz4", 1)),
        (Compression("bf16", None), Compression("bf16", None)),
    ],
)
def test_the_public_argument(value: Any, expected: Compression | None) -> None:
    assert Compression.of(value) == expected


@pytest.mark.parametrize("value", ["zip", "none", 1, 0, 0.5, ["int8"], {}])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InvalidValueError, match="storage_compression"):
        Compression.of(value)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("coding", "int4"),
        ("coding", 8),
        ("codec", "gzip"),
        ("shuffle", None),
        ("level", 0),
        ("level", 10),
        ("level", True),
        ("level", 1.5),
        ("tolerance", 0),
        ("tolerance", 1),
        ("tolerance", float("nan")),
        ("tolerance", "small"),
        ("tolerance", True),
    ],
)
def test_bad_arguments_are_named(argument: str, value: Any) -> None:
    with pytest.raises(InvalidValueError, match=f"^{argument} = "):
        Compression(**{argument: value})


@pytest.mark.parametrize(
    ("tolerance", "coding", "bits", "wide_bits"),
    [
        (0.5, "int8", None, None),
        (2.0**-5, "int8", None, None),
        (0.031, "bf16", None, None),
        (2.0**-8, "bf16", None, None),
        (0.0039, "none", 9, 9),
        (2.0**-10, "none", 10, 10),
        (1e-3, "none", 10, 10),
        (2.0**-23, "none", None, 23),
        (1e-10, "none", None, 34),
        (1e-300, "none", None, None),
    ],
)
def test_a_tolerance_chooses_what_is_sure_to_meet_it(
    tolerance: float, coding: str, bits: int | None, wide_bits: int | None
) -> None:
    chosen = Compression(tolerance=tolerance)
    assert chosen.coding == coding
    assert (chosen.mantissa_bits("float32"), chosen.mantissa_bits("float64")) == (bits, wide_bits)
    assert max(chosen.relative_error("float32"), chosen.relative_error("float64")) <= tolerance
    assert Compression(chosen.quantiser, tolerance=tolerance) == chosen


def test_a_coding_that_cannot_meet_the_tolerance_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="tolerance"):
        Compression("int8", tolerance=0.01)
    with pytest.raises(InvalidValueError, match="tolerance"):
        Compression("bf16", tolerance=1e-3)
    assert Compression("none", tolerance=0.3).mantissa_bits("float32") == 2


def test_what_makes_nothing_smaller_is_refused() -> None:
    for options in ({"coding": "none"}, {"tolerance": 1e-4}):
        with pytest.raises(InvalidValueError, match="codec"):
            Compression(codec=None, **options)


def test_every_coding_states_its_error() -> None:
    for coding, error in ERRORS.items():
        chosen = Compression(coding)
        assert chosen.relative_error("float32") == error
        assert chosen.lossless == (error == 0)
        assert chosen.error
    assert "0.00098" in Compression(tolerance=1e-3).error


def test_choices_are_keys_and_travel() -> None:
    chosen = Compression(tolerance=1e-3)
    assert {chosen: 1}[pickle.loads(pickle.dumps(chosen))] == 1
