"""Small C helper functions for expressions. A file contains those that it uses, in the order of this table.

Conversions of narrow floats round to nearest even, once, keep subnormals, and make every NaN a quiet one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import Template

from isamap.emit.c_elementary import ELEMENTARY_NAMES, FunctionText, elementary, part_text, read_functions
from isamap.emit.c_names import storage_type
from isamap.ir import BF16, DTYPES, OPS, DType
from isamap.machine import EmitCall

_TEXTS = read_functions("functions.c")


def _fill(name: str, **given: object) -> dict[str, str]:
    """Return a function of `functions.c` with these parts, by its full name."""
    return {Template(name).substitute(given): Template(_TEXTS[name]).substitute(given)}


def _pick_texts(*names: str) -> dict[str, str]:
    return {name: _TEXTS[name] for name in names}


def _small_float(dtype: DType) -> dict[str, str]:
    """Return the conversions of a float of at most 16 bits, from the magnitudes of its special values."""
    fraction, bias = dtype.mantissa_bits - 1, (1 << (dtype.exponent_bits - 1)) - 1
    if dtype.has_infinity:
        infinite = beyond = (1 << dtype.exponent_bits) - 1 << fraction
        nan, first_nan = beyond | 1 << fraction - 1, beyond + 1
    else:  # what is too large becomes the only not-a-number
        infinite, beyond = 0xFFFF, (1 << dtype.bits - 1) - 1
        nan = first_nan = beyond
    largest = beyond - 1
    name, stored, top = dtype.name, storage_type(dtype), dtype.bits - 1
    parts = {
        "n": name, "t": stored, "top": top, "all_but_sign": hex((1 << top) - 1), "fraction": fraction, "bias": bias,
        "infinite": hex(infinite), "first_nan": hex(first_nan), "largest": hex(largest), "beyond": hex(beyond),
        "nan": hex(nan),
    }  # fmt: skip
    return _fill("${n}_to_f32", **parts) | _fill("f32_to_$n", **parts)


# --- integers ---------------------------------------------------------------------------------------------


# Sums of 2, 4 and 8 bits side by side, then of all bytes in the highest: C compilers know that as an
# instruction where there is one; their own function would want a library.
_ONES = """\
  v -= v >> 1 & 0x5555555555555555u;
  v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
  v = ((v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u;
"""


def _integer_helpers(dtype: DType) -> dict[str, str]:
    """Return division, shifts, absolute value and the number of ones, defined for all operands."""
    t, n, bits = storage_type(dtype), dtype.name, dtype.bits
    u = f"uint{max(8, bits)}_t"
    signed = dtype.kind == "int"
    by_minus_one = f"\n  if (b == -1) return ({t})(0 - ({u})a);" if signed else ""
    rem_minus_one = " || b == -1" if signed else ""
    beyond = "x < 0 ? -1 : 0" if signed else "0"
    pattern = f"({u})x" if bits >= 8 else f"({u})x & {(1 << bits) - 1}"
    functions = {
        f"div_{n}": f"({t} a, {t} b) {{{by_minus_one}\n  return ({t})(b == 0 ? a : a / b);\n}}",
        f"rem_{n}": f"({t} a, {t} b) {{\n  return ({t})(b == 0{rem_minus_one} ? 0 : a % b);\n}}",
        f"shl_{n}": f"({t} x, {t} n) {{\n  return ({t})((uint64_t)n < {bits} ? (uint64_t)x << n : 0);\n}}",
        f"shr_{n}": f"({t} x, {t} n) {{\n  return ({t})((uint64_t)n < {bits} ? x >> n : {beyond});\n}}",
        f"popcount_{n}": f"({t} x) {{\n  uint64_t v = {pattern};\n{_ONES}  return ({t})(v >> 56);\n}}",
        f"abs_{n}": f"({t} x) {{\n  return ({t})(x < 0 ? 0 - ({u})x : ({u})x);\n}}",
    }
    return {name: f"static inline {t} {name}{body}\n" for name, body in functions.items()}


_UPWARD = {
    "down": "0",
    "up": "rest > 0",
    "zero": "rest > 0 && x < 0",
    "away": "n > 0 && (x >= 0 ? rest >= half : rest > half)",
    "even": "n > 0 && (rest > half || (rest == half && (whole & 1)))",
}


def _rounding_shift(mode: str, *, wide: bool) -> dict[str, str]:
    t, name, last = ("wide_int", f"{mode}_wide", 100) if wide else ("int64_t", mode, 62)
    half = f"\n  {t} half = n > 0 ? ({t})1 << (n - 1) : 0;" if mode in ("away", "even") else ""
    rest = "" if mode == "down" else f"\n  {t} rest = x - (whole << n);"
    upward = _UPWARD[mode]
    return _fill("rounding_shift_$n", n=name, t=t, last=last, half=half, rest=rest, upward=upward)


def _saturation(dtype: DType) -> dict[str, str]:
    """Return conversions from floats to the nearest representable integer: truncated, with NaN as 0."""
    t, n = storage_type(dtype), dtype.name
    # Limits beyond 2**53 are no double: the first double above the type's largest value stands for it.
    above, below = float(dtype.high + 1), float(dtype.low)
    high = f"({t})({hex(dtype.high)}{'u' if dtype.kind == 'uint' else ''}{'ll' if dtype.bits == 64 else ''})"
    low = f"({t})(-{high} - 1)" if dtype.kind == "int" else "0"
    return _fill("saturate_$n", n=n, t=t, above=repr(above), below=repr(below), high=high, low=low)


_INTEGERS = tuple(d for d in DTYPES.values() if d.is_integer)
_SMALL_FLOATS = tuple(d for d in DTYPES.values() if d.is_float and d.bits <= 16)

_MADE_HERE = "made_here_$t"
"""A constant computed at its use. gcc would keep it in a register that sums need (1.27 times the time)."""

HELPERS: dict[str, str] = {
    **_pick_texts(
        "float_bits", "float_from_bits", "double_bits", "double_from_bits", "floor_div", "floor_mod"
    ),
    **_pick_texts("low_bits", "f64_to_odd_f32", "fma_to_odd_f32"),
    **_fill("${n}_to_f64", n="i64", t="int64_t", inside="x >> 53 == 0 || x >> 53 == -1"),
    **_fill("${n}_to_f64", n="u64", t="uint64_t", inside="x >> 53 == 0"),
    **_pick_texts("wide_value", "narrow_bits", "bf16_to_f32", "f32_to_bf16"),
    **{name: text for d in _SMALL_FLOATS if d != BF16 for name, text in _small_float(d).items()},
    **_pick_texts("round_tf32"),
    **{name: text for d in _SMALL_FLOATS for name, text in _fill("round_$n", n=d.name).items()},
    **{name: text for dtype in _INTEGERS for name, text in _integer_helpers(dtype).items()},
    **{name: text for dtype in _INTEGERS for name, text in _saturation(dtype).items()},
    **{name: text for mode in _UPWARD for name, text in _rounding_shift(mode, wide=False).items()},
    **_pick_texts("wide_int"),
    **{name: text for mode in _UPWARD for name, text in _rounding_shift(mode, wide=True).items()},
    **_pick_texts("wrap_float"),
    **{
        k: v
        for t in sorted({storage_type(d) for d in DTYPES.values()})
        for k, v in _fill(_MADE_HERE, t=t).items()
    },
    **_pick_texts("VECTOR_CLASS", "IN_VECTOR", "READ_ONCE", "LAST_USE", "ONE_SUM"),
    **_fill("${op}_$n", op="min", n="f32", t="float", sign="<"),
    **_fill("${op}_$n", op="max", n="f32", t="float", sign=">"),
    **_fill("${op}_$n", op="min", n="f64", t="double", sign="<"),
    **_fill("${op}_$n", op="max", n="f64", t="double", sign=">"),
    **{k: v for op in OPS.values() if "(" in op.c for k, v in _fill("${op}_f64", op=op.name, c=op.c).items()},
}
"""All but the elementary functions of f32, whose texts are made where one of them is used."""

HELPER_NAMES = (*HELPERS, *ELEMENTARY_NAMES)


def helper_texts(used: Iterable[str], parts: Iterable[tuple[str, EmitCall]] = ()) -> tuple[str, ...]:
    """Return the functions used and those they call, callees first. `parts` are the machine's."""
    pending, known = list(used), HELPERS
    needs = dict[str, tuple[str, ...]]()
    if not known.keys() >= set(pending):
        own = [FunctionText(n, part_text(n, call), (f"type_{n.rpartition('_')[2]}",)) for n, call in parts]
        known = HELPERS | {t.name: t.text for t in (*elementary(), *own)}
        needs = {t.name: t.needs for t in (*elementary(), *own)}
    needed: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            words = re.findall(r"[A-Za-z0-9_]+", known[name])
            pending += needs[name] if name in needs else HELPERS.keys() & set(words)
    return tuple(text for name, text in known.items() if name in needed)
