"""Fourier transforms, as products with constant matrices of cosines and sines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from isamap.graph.applied import Applied, known_value
from isamap.graph.making import Value, axes_of
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.operators.products import accumulator_type, round_sums
from isamap.graph.terms import NotTaken, cast

MOST = 4096
"""The most rows of a matrix; a larger one would cost more than it saves."""


def _waves(o: Applied, count: int, length: int, results: int, sign: float) -> Any:
    """Return the cosines and sines [results, count, 2] of a transform of this length."""
    if length > MOST:
        raise NotTaken(f"a transform of {length} elements; kernels have them up to {MOST}")
    o.making.reserve(count, results, 2)
    angles = sign * 2 * np.pi * ((np.arange(results)[:, None] * np.arange(count)[None, :]) % length) / length
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def _dft(o: Applied) -> Value:
    x, given = o[0], o.integers(1)
    axis = o.integer("axis", 1)
    if o.opset >= 20:
        named = o.integers(2)
        axis = named[0] if named else -2
    axis = o.axis(axis, x.rank)
    length = given[0] if given else x.shape[axis]
    is_inverse, is_half = bool(o.integer("inverse", 0)), bool(o.integer("onesided", 0))
    if axis == x.rank - 1 or x.shape[-1] not in (1, 2) or (is_inverse and is_half) or length < 1:
        raise NotTaken("of such an input, or backwards from one half, it has no kernel here")
    results = length // 2 + 1 if is_half else length
    count = min(length, x.shape[axis])
    waves = _waves(o, count, length, results, 1.0 if is_inverse else -1.0) / (length if is_inverse else 1)
    text, inside = o.text(), "f64"  # what waves take away from each other is small beside them
    shape = [results if n == axis else size for n, size in enumerate(x.shape)]
    shape[-1] = 2
    signal, factors = text.read(x), text.read(known_value(waves, inside))
    y = text.write(x.dtype, shape)
    total = accumulator_type(text, inside, shape, y)
    at, loops = axes_of(shape[:-1])
    (k,), inner = axes_of((count,), "k")

    def part(number: str) -> str:
        return cast(
            signal.term([*(k if n == axis else name for n, name in enumerate(at)), number]), inside
        ).text

    cosine, sine = (factors.at([at[axis], k, n]) for n in ("0", "1"))
    real, imaginary = (total.at([*at, n]) for n in ("0", "1"))
    values = [f"{part('0')} * {cosine}", f"{part('0')} * {sine}"]
    if x.shape[-1] == 2:
        values = [f"{values[0]} - {part('1')} * {sine}", f"{values[1]} + {part('1')} * {cosine}"]
    text.loop(loops, f"{real} = 0;", f"{imaginary} = 0;")
    text.loop({**loops, **inner}, f"{real} += {values[0]};", f"{imaginary} += {values[1]};")
    return round_sums(text, total, y)


def _stft(o: Applied) -> Value:
    x, step, window, given = o[0], o.integers(1), o.optional(2), o.integers(3)
    if x.rank == 2:
        x = x.shaped((*x.shape, 1))
    length = given[0] if given else window.count if window is not None else x.shape[1]
    if not step or x.shape[-1] != 1 or not 0 < length <= x.shape[1] or step[0] < 1:
        raise NotTaken("of such an input it has no kernel here")
    frames = (x.shape[1] - length) // step[0] + 1
    results = length // 2 + 1 if o.integer("onesided", 1) else length
    text, inside = o.text(), "f64"
    signal = text.read(x.shaped(x.shape[:2]))
    factors = text.read(known_value(_waves(o, length, length, results, -1.0), inside))
    y = text.write(x.dtype, (x.shape[0], frames, results, 2))
    total = accumulator_type(text, inside, y.shape, y)
    at, loops = axes_of(y.shape)
    (k,), inner = axes_of((length,), "k")
    value = cast(signal.term([at[0], f"{at[1]}*{step[0]} + {k}"]), inside).text
    if window is not None:
        value = f"{value} * {cast(text.read(window).term([k]), inside).text}"
    text.loop(loops, f"{total.at(at)} = 0;")
    text.loop({**loops, **inner}, f"{total.at(at)} += {value} * {factors.at([at[2], k, at[3]])};")
    return round_sums(text, total, y)


SPECTRA: Mapping[str, Lowered] = {"DFT": _dft, "STFT": _stft}
