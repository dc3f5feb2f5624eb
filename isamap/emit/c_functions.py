"""Small C helper functions for expressions. A file contains those that it uses, in the order of this table.

Conversions of narrow floats round to nearest even, once, keep subnormals, and make every NaN a quiet one.
"""

from __future__ import annotations

from collections.abc import Iterable

from isamap.emit.c_elementary import ELEMENTARY_NAMES, elementary, part_text
from isamap.emit.c_names import storage_type
from isamap.ir import BF16, DTYPES, OPS, DType
from isamap.machine import EmitCall
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Helper:
    """The text of one function, and the functions it calls."""

    text: str
    needs: tuple[str, ...] = ()


_BITS = """\
static inline uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
"""
_FROM_BITS = """\
static inline float float_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
"""
_DOUBLE_BITS = """\
static inline uint64_t double_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
"""
_DOUBLE_FROM_BITS = """\
static inline double double_from_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
"""
_FLOOR_DIV = """\
static inline int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
"""
_FLOOR_MOD = """\
static inline int64_t floor_mod(int64_t a, int64_t b) {
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
"""
_STICKY = """\
/* Exact below 2**53; above, the bits that do not fit are folded into an odd last one. */
static inline double {n}_to_f64({t} x) {{
  if ({inside}) return (double)x;
  return (double)(x >> 11 | ((x & 0x7ff) != 0)) * 2048.0;
}}
"""
_MASK = """\
static inline uint64_t low_bits(int64_t count) {
  return count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1;
}
"""
_TO_ODD = """\
/* To the last bit rounded to odd, so that rounding once more gives what one rounding would have given. */
static inline float f64_to_odd_f32(double x) {
  float y = (float)x;
  double back = (double)y;
  uint32_t bits = float_bits(y);
  if (back == x || x != x || (bits & 1) != 0) return y;
  return float_from_bits((back < x) == (x > 0) ? bits + 1 : bits - 1);
}
"""
_FMA_TO_ODD = """\
/* a*b + c of narrow floats: the product is exact, what the sum loses makes its last bit odd. */
static inline float fma_to_odd_f32(float a, float b, float c) {
  double product = (double)a * (double)b, addend = (double)c, sum = product + addend, back = sum - product;
  double lost = (product - (sum - back)) + (addend - back);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if (lost - lost == 0 && lost != 0 && (bits & 1) == 0) {
    bits = (lost > 0) == (sum > 0) ? bits + 1 : bits - 1;
    memcpy(&sum, &bits, sizeof sum);
  }
  return f64_to_odd_f32(sum);
}
"""
_BF16_TO_F32 = """\
static inline float bf16_to_f32(uint16_t x) {
  return float_from_bits((uint32_t)x << 16);
}
"""
_F32_TO_BF16 = """\
static inline uint16_t f32_to_bf16(float x) {
  uint32_t bits = float_bits(x);
  uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(x != x ? bits >> 16 | 0x40u : rounded);
}
"""
_ROUND_TF32 = """\
static inline float round_tf32(float x) {
  uint32_t bits = float_bits(x);
  uint32_t rounded = (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
  return x - x != 0 ? x : float_from_bits(rounded);
}
"""
_NARROW = """\
/* Rounds to `fraction` bits and an exponent biased by `bias`; `largest` are the bits of the largest finite
   value, `beyond` those of what is larger, `nan` those of not-a-number. */
static inline uint32_t narrow_bits(float x, int fraction, int bias, uint32_t largest, uint32_t beyond,
                                   uint32_t nan) {
  uint32_t bits = float_bits(x) & 0x7fffffffu;
  int exponent = (int)(bits >> 23) - 127;
  int drop = 23 - fraction;
  uint32_t result;
  if (bits > 0x7f800000u) return nan;
  if (bits == 0x7f800000u) return beyond;
  if (exponent < 1 - bias) {
    uint32_t whole = (bits & 0x7fffffu) | (bits >> 23 ? 0x800000u : 0);
    drop += 1 - bias - exponent;
    if (drop > 25) drop = 25;
    result = (whole + ((1u << (drop - 1)) - 1) + (whole >> drop & 1)) >> drop;
  } else {
    bits -= (uint32_t)(127 - bias) << 23;
    result = (bits + ((1u << (drop - 1)) - 1) + (bits >> drop & 1)) >> drop;
  }
  return result > largest ? beyond : result;
}
"""
_WIDE = """\
static inline float wide_value(uint32_t magnitude, int fraction, int bias, uint32_t infinite, uint32_t nan) {
  uint32_t bits = (magnitude << (23 - fraction)) + ((uint32_t)(127 - bias) << 23);
  if (magnitude == infinite) return float_from_bits(0x7f800000u);
  if (magnitude >= nan) return float_from_bits(0x7fc00000u);
  if (magnitude >> fraction != 0) return float_from_bits(bits);
  return (float)magnitude * float_from_bits((uint32_t)(128 - bias - fraction) << 23);
}
"""


def _small_float(dtype: DType) -> dict[str, Helper]:
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
    all_but_sign = hex((1 << top) - 1)
    widen = f"""\
static inline float {name}_to_f32({stored} x) {{
  float size = wide_value(x & {all_but_sign}u, {fraction}, {bias}, {hex(infinite)}u, {hex(first_nan)}u);
  return x >> {top} ? -size : size;
}}
"""
    narrow = f"""\
static inline {stored} f32_to_{name}(float x) {{
  uint32_t sign = float_bits(x) >> 31 << {top};
  return ({stored})(sign | narrow_bits(x, {fraction}, {bias}, {hex(largest)}u, {hex(beyond)}u, {hex(nan)}u));
}}
"""
    return {
        f"{name}_to_f32": Helper(widen, ("wide_value",)),
        f"f32_to_{name}": Helper(narrow, ("narrow_bits",)),
    }


def _rounding_helper(name: str) -> Helper:
    text = f"""\
static inline float round_{name}(float x) {{
  return {name}_to_f32(f32_to_{name}(x));
}}
"""
    return Helper(text, (f"{name}_to_f32", f"f32_to_{name}"))


# --- integers ---------------------------------------------------------------------------------------------


# Sums of 2, 4 and 8 bits side by side, then of all bytes in the highest: C compilers know that as an
# instruction where there is one; their own function would want a library.
_ONES = """\
  v -= v >> 1 & 0x5555555555555555u;
  v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
  v = ((v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u;
"""


def _integer_helpers(dtype: DType) -> dict[str, Helper]:
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
    return {name: Helper(f"static inline {t} {name}{body}\n") for name, body in functions.items()}


_UPWARD = {
    "down": "0",
    "up": "rest > 0",
    "zero": "rest > 0 && x < 0",
    "away": "n > 0 && (x >= 0 ? rest >= half : rest > half)",
    "even": "n > 0 && (rest > half || (rest == half && (whole & 1)))",
}


# Clang has no __int128 for processors of 32 bits, and gcc 12 no _BitInt.
_WIDE_INT = """\
#ifdef __SIZEOF_INT128__
typedef __int128 wide_int;
#else
typedef _BitInt(128) wide_int;
#endif
"""


def _rounding_shift(mode: str, wide: bool) -> Helper:
    t, name, last = ("wide_int", "_wide", 100) if wide else ("int64_t", "", 62)
    half = f"\n  {t} half = n > 0 ? ({t})1 << (n - 1) : 0;" if mode in ("away", "even") else ""
    rest = "" if mode == "down" else f"\n  {t} rest = x - (whole << n);"
    text = f"""\
static inline {t} rounding_shift_{mode}{name}({t} x, {t} n) {{
  n = n < 0 ? 0 : n > {last} ? {last} : n;
  {t} whole = x >> n;{rest}{half}
  return whole + ({_UPWARD[mode]});
}}
"""
    return Helper(text, ("wide_int",) if wide else ())


def _saturation(dtype: DType) -> dict[str, Helper]:
    """Return conversions from floats to the nearest representable integer: truncated, with NaN as 0."""
    t, n = storage_type(dtype), dtype.name
    # Limits beyond 2**53 are no double: the first double above the type's largest value stands for it.
    above, below = float(dtype.high + 1), float(dtype.low)
    high = f"({t})({hex(dtype.high)}{'u' if dtype.kind == 'uint' else ''}{'ll' if dtype.bits == 64 else ''})"
    low = f"({t})(-{high} - 1)" if dtype.kind == "int" else "0"
    return {
        f"saturate_{n}": Helper(f"""\
static inline {t} saturate_{n}(double x) {{
  return x != x ? 0 : x >= {above!r} ? {high} : x <= {below!r} ? {low} : ({t})x;
}}
""")
    }


_WRAP_FLOAT = """\
static inline uint64_t wrap_float(double x) {
  double size = x < 0 ? -x : x;
  uint64_t bits, whole;
  if (size < 9223372036854775808.0) return (uint64_t)(int64_t)x;
  memcpy(&bits, &x, sizeof bits);
  int shift = (int)(bits >> 52 & 0x7ff) - 1075;
  whole = shift < 64 ? ((bits & 0xfffffffffffffu) | 0x10000000000000u) << shift : 0;
  return x < 0 ? 0 - whole : whole;
}
"""


def _minmax(name: str, t: str, sign: str) -> Helper:
    return Helper(f"""\
static inline {t} {name}({t} a, {t} b) {{
  return a {sign} b || a != a ? a : b;
}}
""")


def _made_here(c_type: str) -> Helper:
    """Return a constant computed at its use. gcc would keep it in a register that sums need (1.27 times the time)."""
    return Helper(f"""\
/* Made where it stands: moved in front of loops, it would take a register from their sums. */
static inline {c_type} made_here_{c_type}({c_type} x) {{
  __asm__ volatile("" : "+m"(x));
  return x;
}}
""")


# The class of registers that vectors live in, as inline assembly names it.
_VECTOR_CLASS = """\
#if defined(__aarch64__)
#define VECTOR_CLASS "w"
#elif defined(__AVX512F__)
#define VECTOR_CLASS "v"
#elif defined(__SSE2__)
#define VECTOR_CLASS "x"
#endif
"""
_IN_VECTOR = """\
#ifdef VECTOR_CLASS
#define IN_VECTOR "+" VECTOR_CLASS
#else
#define IN_VECTOR "+m"
#endif
"""
_READ_ONCE = """\
/* Read once: compilers would read memory again for each of the two or three instructions that use it. */
#ifdef VECTOR_CLASS
#define READ_ONCE(x) __asm__("" : "+" VECTOR_CLASS(x))
#else
#define READ_ONCE(x) ((void)0)
#endif
"""
_LAST_USE = """\
/* The last use of x: without it, compilers end the sum before in its register, and move it back later. */
#ifdef VECTOR_CLASS
#define LAST_USE(x, sum) __asm__("" : "+" VECTOR_CLASS(sum) : VECTOR_CLASS(x))
#else
#define LAST_USE(x, sum) ((void)0)
#endif
"""
_ONE_SUM = """\
/* The sum after the loop is the one inside: without it, gcc keeps another, of its own type, beside it. */
#ifdef VECTOR_CLASS
#define ONE_SUM(sum) __asm__("" : "+" VECTOR_CLASS(sum))
#else
#define ONE_SUM(sum) ((void)0)
#endif
"""

_INTEGERS = tuple(d for d in DTYPES.values() if d.is_integer)
_SMALL_FLOATS = tuple(d for d in DTYPES.values() if d.is_float and d.bits <= 16)

HELPERS: dict[str, Helper] = {
    "float_bits": Helper(_BITS),
    "float_from_bits": Helper(_FROM_BITS),
    "double_bits": Helper(_DOUBLE_BITS),
    "double_from_bits": Helper(_DOUBLE_FROM_BITS),
    "floor_div": Helper(_FLOOR_DIV),
    "floor_mod": Helper(_FLOOR_MOD),
    "low_bits": Helper(_MASK),
    "f64_to_odd_f32": Helper(_TO_ODD, ("float_bits", "float_from_bits")),
    "fma_to_odd_f32": Helper(_FMA_TO_ODD, ("f64_to_odd_f32",)),
    "i64_to_f64": Helper(_STICKY.format(n="i64", t="int64_t", inside="x >> 53 == 0 || x >> 53 == -1")),
    "u64_to_f64": Helper(_STICKY.format(n="u64", t="uint64_t", inside="x >> 53 == 0")),
    "wide_value": Helper(_WIDE, ("float_from_bits",)),
    "narrow_bits": Helper(_NARROW, ("float_bits",)),
    "bf16_to_f32": Helper(_BF16_TO_F32, ("float_from_bits",)),
    "f32_to_bf16": Helper(_F32_TO_BF16, ("float_bits",)),
    **{name: helper for d in _SMALL_FLOATS if d != BF16 for name, helper in _small_float(d).items()},
    "round_tf32": Helper(_ROUND_TF32, ("float_bits", "float_from_bits")),
    **{f"round_{n}": _rounding_helper(n) for n in map(str, _SMALL_FLOATS)},
    **{name: helper for dtype in _INTEGERS for name, helper in _integer_helpers(dtype).items()},
    **{name: helper for dtype in _INTEGERS for name, helper in _saturation(dtype).items()},
    **{f"rounding_shift_{mode}": _rounding_shift(mode, wide=False) for mode in _UPWARD},
    "wide_int": Helper(_WIDE_INT),
    **{f"rounding_shift_{mode}_wide": _rounding_shift(mode, wide=True) for mode in _UPWARD},
    "wrap_float": Helper(_WRAP_FLOAT),
    **{f"made_here_{t}": _made_here(t) for t in sorted({storage_type(d) for d in DTYPES.values()})},
    "VECTOR_CLASS": Helper(_VECTOR_CLASS),
    "IN_VECTOR": Helper(_IN_VECTOR, ("VECTOR_CLASS",)),
    "READ_ONCE": Helper(_READ_ONCE, ("VECTOR_CLASS",)),
    "LAST_USE": Helper(_LAST_USE, ("VECTOR_CLASS",)),
    "ONE_SUM": Helper(_ONE_SUM, ("VECTOR_CLASS",)),
    "min_f32": _minmax("min_f32", "float", "<"),
    "max_f32": _minmax("max_f32", "float", ">"),
    "min_f64": _minmax("min_f64", "double", "<"),
    "max_f64": _minmax("max_f64", "double", ">"),
    **{
        f"{op.name}_f64": Helper(f"static inline double {op.name}_f64(double x) {{\n  return {op.c};\n}}\n")
        for op in OPS.values()
        if "(" in op.c
    },
}
"""All but the elementary functions of f32, whose texts are made where one of them is used."""

HELPER_NAMES = (*HELPERS, *ELEMENTARY_NAMES)


def helper_texts(used: Iterable[str], parts: Iterable[tuple[str, EmitCall]] = ()) -> tuple[str, ...]:
    """Return the functions used and those they call, callees first. `parts` are the machine's."""
    pending, known = list(used), HELPERS
    if not known.keys() >= set(pending):
        own = {n: Helper(part_text(n, call), (f"type_{n.rpartition('_')[2]}",)) for n, call in parts}
        known = HELPERS | {t.name: Helper(t.text, t.needs) for t in elementary()} | own
    needed: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += known[name].needs
    return tuple(helper.text for name, helper in known.items() if name in needed)
