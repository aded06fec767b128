"""The quantisers of history: to 8 bits in blocks with a scale, and to the upper half of a float32 (bf16).

A block's scale has the dtype of its values: a narrower one would lose a float64 field's faint late waves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numbawave.codegen.layout import indent, module_head

BLOCK = 64
"""Consecutive values that share a scale; the last block may be short."""

LANES = 16
"""CUDA threads that code a block of values together."""

ROWS = 16
"""Blocks of values that a block of CUDA threads codes at a time."""

SHARE = range(BLOCK // LANES)
"""Values of a block that one of these threads takes, ``LANES`` apart."""

GRAIN = 64
"""Blocks of values that a thread of the CPU takes at a time."""

CODES = {"bf16": "uint16", "int8": "int8"}
"""The dtype of the codes of each coding."""

WORDS = {"float32": "uint32", "float64": "uint64"}
"""What values are viewed as where their bits count."""


def scale_count(coding: str, size: int) -> int:
    """How many scales so many values have."""
    return -(-size // BLOCK) if coding == "int8" else 0


def cpu_text(real: str) -> str:
    """Print the module for the CPU.

    Parameters
    ----------
    real : {"float32", "float64"}

    Returns
    -------
    str
        ``encode_int8(values, words, codes, scales)``, ``decode_int8(codes, scales, values)``,
        ``encode_bf16(words, codes)`` and ``decode_bf16(codes, words)``; ``words`` are the values' bits.
    """
    functions = [
        *_cpu_pair("encode_int8", ["values", "words", "codes", "scales"], "scales", ENCODE_INT8_CPU),
        *_cpu_pair("decode_int8", ["codes", "scales", "values"], "scales", DECODE_INT8_CPU),
        *_cpu_pair("encode_bf16", ["words", "codes"], "codes", ["for i in range(first, last):", *indent(ENCODE_BF16)]),
        *_cpu_pair("decode_bf16", ["codes", "words"], "codes", ["for i in range(first, last):", *indent(DECODE_BF16)]),
    ]
    return _module(real, "from numbawave.backends.cpu import kernel, loop, prange", functions)


def cuda_text(real: str) -> str:
    """Print the module for CUDA: kernels of the same names and arguments, but ``encode_int8(values, codes, scales)``.

    Parameters
    ----------
    real : {"float32", "float64"}

    Returns
    -------
    str
    """
    stride = ["i += index(cuda.gridDim.x) * index(cuda.blockDim.x)"]
    start = ["i = index(cuda.blockIdx.x) * index(cuda.blockDim.x) + index(cuda.threadIdx.x)"]
    each = [*start, "while i < index(codes.size):"]
    functions = [
        _function("kernel", "encode_int8", ["values", "codes", "scales"], ENCODE_INT8_CUDA),
        _function("kernel", "decode_int8", ["codes", "scales", "values"],
                  [*each, *indent([f"values[i] = real(codes[i]) * scales[i // n{BLOCK}]", *stride])]),
        _function("kernel", "encode_bf16", ["words", "codes"], [*each, *indent([*ENCODE_BF16, *stride])]),
        _function("kernel", "decode_bf16", ["codes", "words"], [*each, *indent([*DECODE_BF16, *stride])]),
    ]  # fmt: skip
    return _module(real, "from numbawave.backends.cuda import cuda, kernel", functions)


SCALE = [
    "scale = largest / LEVELS",
    "if scale < SMALLEST:",
    "    scale = ZERO",
]
"""A block of tiny values becomes zeros: a scale that is not a normal number would have too few digits."""


def _code(value: str) -> str:
    """Nearest, ties to even: the sum has no digits behind the point. A scale that is infinite makes every value NaN."""
    return f"np.int8({value} / scale + ROUNDER - ROUNDER)"


ENCODE_INT8_CPU = [
    "top = np.empty(1, word)",
    "top_value = top.view(real)",
    "for block in range(first, last):",
    f"    start = block * n{BLOCK}",
    f"    stop = min(start + n{BLOCK}, index(values.size))",
    "    # Largest absolute value; as integers they are ordered alike, and NaN comes after infinity.",
    "    largest_word = NO_BITS",
    "    for i in range(start, stop):",
    "        largest_word = max(largest_word, words[i] & MAGNITUDE)",
    "    top[0] = min(largest_word, INFINITE)",
    "    largest = top_value[0]",
    *indent(SCALE),
    "    scales[block] = scale",
    "    if ZERO < scale and scale <= LARGEST:",
    "        for i in range(start, stop):",
    f"            codes[i] = {_code('values[i]')}",
    "    else:",
    "        for i in range(start, stop):",
    "            codes[i] = np.int8(0)",
]

DECODE_INT8_CPU = [
    "for block in range(first, last):",
    "    scale = scales[block]",
    f"    for i in range(block * n{BLOCK}, min((block + n1) * n{BLOCK}, index(values.size))):",
    "        values[i] = real(codes[i]) * scale",
]

ENCODE_INT8_CUDA = [
    f"tops = cuda.shared.array({ROWS * LANES}, real)",
    "lane, row = index(cuda.threadIdx.x), index(cuda.threadIdx.y)",
    f"place = row * n{LANES} + lane",
    "group = index(cuda.blockIdx.x)",
    f"while group * n{ROWS} < index(scales.size):",
    f"    block = group * n{ROWS} + row",
    *(f"    i{k} = block * n{BLOCK} + lane + n{k * LANES}" for k in SHARE),
    *(f"    value{k} = values[i{k}] if i{k} < index(values.size) else ZERO" for k in SHARE),
    *(f"    size{k} = abs(value{k}) if abs(value{k}) <= LARGEST else INFINITY  # of NaN, too" for k in SHARE),
    f"    tops[place] = max({', '.join(f'size{k}' for k in SHARE)})",
    "    cuda.syncthreads()",
    f"    half = n{LANES // 2}",
    "    while half > n0:",
    "        if lane < half and tops[place + half] > tops[place]:",
    "            tops[place] = tops[place + half]",
    "        cuda.syncthreads()",
    "        half >>= n1",
    f"    largest = tops[row * n{LANES}]",
    *indent(SCALE),
    "    if lane == n0 and block < index(scales.size):",
    "        scales[block] = scale",
    "    codable = ZERO < scale and scale <= LARGEST",
    *(
        line
        for k in SHARE
        for line in (
            f"    if i{k} < index(values.size):",
            f"        codes[i{k}] = {_code(f'value{k}')} if codable else np.int8(0)",
        )
    ),
    "    cuda.syncthreads()",
    "    group += index(cuda.gridDim.x)",
]

ENCODE_BF16 = [
    "size = words[i] & MAGNITUDE",
    "# Nearest, ties to even, in the exponent of the values' dtype; then in that of a float32.",
    "near = (size + ALMOST_HALF + ((size >> SHIFT) & ONE_BIT)) >> SHIFT",
    "near = min(near - OFFSET, INFINITE_CODE) if near >= LEAST_NEAR else NO_BITS",
    "near = NAN_CODE if size > INFINITE else near",
    "codes[i] = np.uint16(near | ((words[i] >> SIGN_SHIFT) << CODE_SIGN_SHIFT))",
]

DECODE_BF16 = [
    "code = word(codes[i])",
    "size = code & CODE_MAGNITUDE",
    "wide = (size + OFFSET) << SHIFT if size >= LEAST_CODE else NO_BITS",
    "wide = INFINITE | ((size & CODE_MANTISSA) << SHIFT) if size >= INFINITE_CODE else wide",
    "words[i] = wide | ((code >> CODE_SIGN_SHIFT) << SIGN_SHIFT)",
]


def _cpu_pair(title: str, arrays: list[str], counted: str, body: Sequence[str]) -> list[str]:
    """A function for a part of the work, and the loop that shares the parts between threads."""
    grain = GRAIN if counted == "scales" else GRAIN * BLOCK
    given = ", ".join(arrays)
    shared = [
        f"for part in prange((index({counted}.size) + index({grain - 1})) // index({grain})):",
        f"    first = index(part) * index({grain})",
        f"    {title}_part(first, min(first + index({grain}), index({counted}.size)), {given})",
    ]
    return [
        _function("kernel", f"{title}_part", ["first", "last", *arrays], body),
        _function("loop", title, arrays, shared),
    ]


def _function(decorator: str, title: str, arguments: Sequence[str], body: Sequence[str]) -> str:
    return "\n".join([f"@{decorator}\ndef {title}({', '.join(arguments)}):", *indent(body)])


def _module(real: str, imports: str, functions: Sequence[str]) -> str:
    code = "\n".join(functions)
    head = module_head(f"Codes of {real} values: int8 in blocks of {BLOCK}, and bf16.", imports, real, {}, code)
    used = {name: value for name, value in _constants(real).items() if re.search(rf"\b{name}\b", code)}
    lines = [f"word = np.{WORDS[real]}", *(f"{name} = {value}" for name, value in used.items())]
    return head + "\n".join(lines) + "\n" + "".join(f"\n\n{function}\n" for function in functions)


def _constants(real: str) -> Mapping[str, str]:
    """The constants of a dtype, as text."""
    about: Any = np.finfo(real)
    mantissa, bits = about.nmant, about.bits
    offset = (about.maxexp - 128) << 7  # what exponents are larger by than those of a float32, in a code's units
    shift = mantissa - 7
    reals = {
        "ZERO": 0.0,
        "LEVELS": 127.0,
        "ROUNDER": 1.5 * 2**mantissa,
        "SMALLEST": float(about.tiny),
        "LARGEST": float(about.max),
    }
    words = {
        "NO_BITS": 0,
        "ONE_BIT": 1,
        "MAGNITUDE": 2 ** (bits - 1) - 1,
        "INFINITE": (2 ** (bits - 1 - mantissa) - 1) << mantissa,
        "SHIFT": shift,
        "ALMOST_HALF": 2 ** (shift - 1) - 1,
        "SIGN_SHIFT": bits - 1,
        "CODE_SIGN_SHIFT": 15,
        "OFFSET": offset,
        "LEAST_NEAR": offset + 128 if offset else 0,
        "LEAST_CODE": 128 if offset else 0,
        "INFINITE_CODE": 0x7F80,
        "NAN_CODE": 0x7FC0,
        "CODE_MAGNITUDE": 0x7FFF,
        "CODE_MANTISSA": 0x7F,
    }
    return (
        {name: f"real({value!r})" for name, value in reals.items()}
        | {"INFINITY": "real(np.inf)"}
        | {name: f"word({value})" for name, value in words.items()}
    )
