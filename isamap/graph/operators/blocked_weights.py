"""Lower products with block-quantised weights of 2, 4 or 8 bits, which stay packed in bytes.

    y[m, n] = sum over blocks g and places k of x[m, g, k] * (code[n, g, k] - point[n, g]) * scale[n, g]

The bytes lie in the order of use: panels of columns, in them blocks, and in a block rows with the columns side by
side. A byte holds codes of several parts of a block. A kernel computes panel by panel, in one of three forms:

- few rows: products with codes are summed over a block, and the sum is multiplied by the block's scale;
- many rows: a panel gets the type of the rows, once for all of them;
- bytes: the rows are quantised to bytes by block, and the sum over a block is an integer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod

import numpy as np

from isamap.graph.applied import Applied, known_value
from isamap.graph.graph import Array
from isamap.graph.making import KernelText, Operand, Value, axes_of, nest
from isamap.graph.operators.data_movement import slice_value
from isamap.graph.sizes import most_of
from isamap.graph.terms import TextTerm, cast
from isamap.graph.thresholds import SPILLED_BYTES
from isamap.ir import DTYPES
from isamap.source import dataclass, spill

PANEL = 64
"""The number of adjacent columns in a panel: four vectors of 16 f32, the widest that ship."""
DOTTED = 4
"""The neighbouring rows of a column in a panel, which dot products of bytes read."""
WIDENED_ROWS = 4
"""The fewest rows for which a panel is converted to their type.

For 4096 x 4096 weights, one row took 0.8 ms without the conversion and 2.1 ms with it.
16 rows took 13 and 6 ms (Zen 4).
"""


@dataclass(frozen=True, slots=True)
class BlockedWeights:
    """Quantised weights.

    `codes` are by column, block and place, `scales` by column and block. `points` are too, or are one for all.
    """

    codes: Array
    points: Array
    scales: Array
    bits: int

    @property
    def panels(self) -> tuple[int, int]:
        """The number of panels, the last of which may have columns of zeros, and their columns."""
        return -(-len(self.codes) // PANEL), min(PANEL, len(self.codes))


def multiply_blocks(
    o: Applied, x: Value, weights: BlockedWeights, bias: Array | None, *, is_exact: bool
) -> Value:
    """Return rows times blocked weights, plus a bias. If not `is_exact`, the rows are quantised to bytes."""
    columns, blocks, size = weights.codes.shape
    rows = o.making.plain(x).shaped((prod(x.shape[:-1]), x.shape[-1]))
    if more := blocks * size - x.shape[-1]:
        rows = o.call("Pad", rows, known_value([0, 0, 0, more], "i64"))
    parts, dots = 8 // weights.bits, () if is_exact else (DOTTED,)
    inside = (blocks, parts, size // parts // prod(dots), *dots)
    many = () if rows.shape[0] == 1 else rows.shape[:1]  # one row has no axis
    given = [rows.shaped((*many, *inside))]
    given = given if is_exact else _quantise_rows(o, given[0])
    text, (panels, width) = o.text(), weights.panels
    names, loops = axes_of((*many, *inside, panels, width))
    m, places, (b, n) = names[: len(many)], names[len(many) : -2], names[-2:]
    y, total = text.write(x.dtype, (*many, panels, width)), text.temp("f32", (*many, width))
    sums, more = total.at([*m, n]), _sum_blocks(text, given, weights, total, (m, places, b, n), loops)
    body = [nest(_over(loops, *m, n), f"{sums} = 0;"), *more]
    if bias is not None:
        sums = f"({sums} + {text.read(_in_panels(weights, bias.reshape(-1, 1), 'f32')).at([b, '0', n])})"
    sums = cast(TextTerm(sums, "f32"), x.dtype).text
    body.append(nest(_over(loops, *m, n), f"{y.at([*m, b, n])} = {sums};"))
    text.state(nest({b: panels}, *body, word="seq"))
    whole = text.done().shaped((rows.shape[0], panels * width))
    return slice_value(o, whole, {1: (0, columns, 1)}).shaped((*x.shape[:-1], columns))


def _over(loops: Mapping[str, int], *names: str) -> dict[str, int]:
    """Return the loops of these names, without axes of one element."""
    return {name: loops[name] for name in names if name != "0"}


def _in_panels(weights: BlockedWeights, array: Array, dtype: str) -> Value:
    """Return numbers by column and block in the order of panels. Columns beyond the last are 0."""
    panels, width = weights.panels
    wide = np.zeros((panels * width, array.shape[1]), DTYPES[dtype].numpy())
    wide[: len(array)] = array
    return Value.of(np.ascontiguousarray(wide.reshape(panels, width, -1).swapaxes(1, 2)))


def _bytes_in_panels(weights: BlockedWeights, inside: Sequence[int]) -> Value:
    """Return the codes as bytes, with parts of a block in the same byte, in the order of panels."""
    (columns, blocks, _), (panels, width) = weights.codes.shape, weights.panels
    joined = np.zeros((panels * width, blocks, *inside[1:]), np.uint8)
    for part in range(inside[0]):
        of_part = weights.codes.reshape(columns, blocks, *inside)[:, :, part]
        joined[:columns] |= of_part << np.uint8(part * weights.bits)
    found = np.ascontiguousarray(np.moveaxis(joined.reshape(panels, width, blocks, *inside[1:]), 1, 3))
    if found.nbytes >= SPILLED_BYTES:
        with suppress(OSError):  # without room for the file they stay in memory until they are written
            found = np.frombuffer(spill(found.data), np.uint8).reshape(found.shape)
    return Value.of(found)


def _strides_clause(value: Value) -> str:
    """Return the words that declare the distances of neighbours, so that vectors can read several of them."""
    return f" strides({', '.join(('any', *map(str, value.walk[1:])))})" if value.rank > 1 else ""


def _sum_blocks(
    text: KernelText, given: Sequence[Value], weights: BlockedWeights, total: Operand,
    axes: tuple[Sequence[str], Sequence[str], str, str], loops: Mapping[str, int],
) -> list[str]:  # fmt: skip
    """Return statements that add a panel's product to sums. `given` are rows, or their bytes, scales and sums."""
    m, (g, p, q, *k), b, n = axes
    row, *more = (text.read(value, _strides_clause(value) if given[1:] else "") for value in given)
    codes = _bytes_in_panels(weights, row.shape[len(m) + 1 :])
    byte = text.read(codes, _strides_clause(codes)).at([b, g, q, n, *k])
    scale = text.read(_in_panels(weights, weights.scales, "f32")).at([b, g, n])
    point, dtype = str(weights.points), "i32"
    if weights.points.ndim:
        kind, dtype = ("u8", dtype) if weights.points.dtype.kind in "iu" else ("f32", "f32")
        point = cast(text.read(_in_panels(weights, weights.points, kind)).term([b, g, n]), dtype).text
    shift, mask = f"{weights.bits}*{p}", (1 << weights.bits) - 1
    if more:
        scale, sums = f"({more[0].at([g, *m])} * {scale})", more[1].at([g, *m])
        code = byte if weights.bits == 8 else f"{byte} >> u8({shift}) & {mask}"
        start, term = f"i32(0) - {point} * {sums}", f"i32({code}) * i32({row.at([g, *m, p, q, *k])})"
    else:
        code = f"i32({byte})" if weights.bits == 8 else f"(i32({byte}) >> i32({shift}) & {mask})"
        code = f"(f32({code}) - {point})" if dtype == "f32" else f"f32({code} - {point})"
        x = cast(row.term([*m, g, p, q]), "f32").text
        if m and most_of(total.shape[0]) >= WIDENED_ROWS:
            wide = text.temp(row.dtype, (*row.shape[1:], total.shape[1]))
            place, factor = [g, p, q, n], cast(TextTerm(f"{code} * {scale}", "f32"), row.dtype).text
            weight = cast(wide.term(place), "f32").text
            return [
                nest(_over(loops, g, p, q, n), f"{wide.at(place)} = {factor};"),
                nest(_over(loops, *m, n, g, p, q), f"{total.at([*m, n])} += {x} * {weight};"),
            ]
        start, term = "0", f"{x} * {code}"
    part = text.temp("i32" if more else "f32", total.shape).at([*m, n])
    steps = (
        nest(_over(loops, *m, n), f"{part} = {start};"),
        nest(_over(loops, *m, n, p, q, *k), f"{part} += {term};"),
        nest(_over(loops, *m, n), f"{total.at([*m, n])} += f32({part}) * {scale};"),
    )
    return [nest(_over(loops, g), *steps, word="seq")]


def _quantise_rows(o: Applied, x: Value) -> Sequence[Value]:
    """Return rows quantised by block: the bytes, a scale per block, and the sums of the bytes."""
    text, (*rows, blocks, p, q, k) = o.text(), x.shape
    axes, loops = axes_of(x.shape)
    *m, g = axes[:-3]
    codes = text.write("i8", (blocks, *rows, p, q, k)).at([g, *m, *axes[-3:]])
    scale, sums = (text.write(dtype, (blocks, *rows)).at([g, *m]) for dtype in ("f32", "i32"))
    top = text.temp("f32", (blocks, *rows)).at([g, *m])
    by, number = _over(loops, g, *m), cast(text.read(x).term(axes), "f32").text
    text.loop(by, f"{top} = 0;")
    text.loop(loops, f"{top} max= abs({number});")
    text.loop(by, f"{scale} = {top} / 127;")
    text.loop(by, f"{sums} = 0;")
    text.loop(loops, f"{codes} = sat_i8(round({number} * select({top} > 0, 127 / {top}, 0), even));")
    text.loop(loops, f"{sums} += i32({codes});")
    return text.all_done()
