"""Elementary functions of f32 as C without branches or calls: of one element, and of all lanes of a register.

Largest errors seen against f64, at floats drawn from all exponents, in units in the last place: `exp` 1.01,
`tanh` 1.51, `sigmoid` 2.41; overflow, subnormal results, infinities and not-a-number are as in C's library.
Coefficients: Cephes (S. Moshier; expf.c, tanhf.c). Lanes are vectors as gcc and clang know them without a
header: `f32x16` has 16.

The C of an instruction that performs an elementary function on every lane of a register.

`for i in 16 { z[i] = exp(a[i]); }` becomes

    static inline void exp_zmm_f32(const float *a, float *z) {
      f32x16 x;
      memcpy(&x, a, sizeof x);
      x = exp_f32x16(x);
      memcpy(z, &x, sizeof x);
    }

Compilers make registers of that, also where they are told to leave loops alone, as emitted loops are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isamap.codegen.c_names import Names
from isamap.codegen.cmodel import Model, ModelOperand, build_model
from isamap.ir import F32, Assign, Call, Index, Instruction, Loop, Read

FUNCTIONS = ("exp", "sigmoid", "tanh")
LANES = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class Text:
    """The text of one function, and the functions it calls."""

    name: str
    text: str
    needs: tuple[str, ...] = ()


def lanes_type(lanes: int) -> str:
    """What functions of so many f32 are called after: `f32` of one, `f32x16` of 16."""
    return "f32" if lanes == 1 else f"f32x{lanes}"


def elementary() -> Iterator[Text]:
    """Every function, of one element and of each number of lanes, callees first."""
    for lanes in (1, *LANES):
        n = lanes_type(lanes)
        types = ("float", "uint32_t") if lanes == 1 else (n, f"u32x{lanes}")
        base = f"less_{n}"
        yield Text(base, _ONE if lanes == 1 else _ALL.replace("$N", str(lanes)).replace("$B", str(4 * lanes)))
        for name, text, callee in zip(
            FUNCTIONS, (_EXP, _SIGMOID, _TANH), ("less", "exp", "exp"), strict=True
        ):
            made = text.replace("$n", n).replace("$F", types[0]).replace("$U", types[1])
            yield Text(f"{name}_{n}", made, (f"{callee}_{n}",))


_ONE = """\
static inline uint32_t bits_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float of_bits_f32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static inline uint32_t less_f32(float a, float b) {
  return 0u - (uint32_t)(a < b);
}
"""
_ALL = """\
typedef float f32x$N __attribute__((vector_size($B)));
typedef uint32_t u32x$N __attribute__((vector_size($B)));
static inline u32x$N bits_f32x$N(f32x$N x) {
  return (u32x$N)x;
}
static inline f32x$N of_bits_f32x$N(u32x$N bits) {
  return (f32x$N)bits;
}
static inline u32x$N less_f32x$N(f32x$N a, f32x$N b) {
  return (u32x$N)(a < b);
}
"""
_EXP = """\
/* 2**n * exp(r) with |r| <= log(2) / 2; 2**n in two factors, as it may lie outside of what floats reach. */
static inline $F exp_$n($F x) {
  const $F zero = {0}, low = zero - 105.0f, high = zero + 90.0f;
  $U under = less_$n(x, low), over = less_$n(high, x), biased, first;
  $F n, p, r, shifted;
  x = of_bits_$n((bits_$n(low) & under) | (bits_$n(high) & over) | (bits_$n(x) & ~(under | over)));
  shifted = x * 1.44269504f + 12582912.0f;
  n = shifted - 12582912.0f;
  r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * (r * r) + r) + 1.0f;
  biased = bits_$n(shifted) - 0x4b3fff00u;
  first = biased >> 1;
  return p * of_bits_$n((first - 1u) << 23) * of_bits_$n((biased - first - 1u) << 23);
}
"""
_SIGMOID = """\
static inline $F sigmoid_$n($F x) {
  const $F zero = {0}, one = zero + 1.0f;
  $F e = exp_$n(of_bits_$n(bits_$n(x) | 0x80000000u));
  $U negative = less_$n(x, zero);
  return of_bits_$n((bits_$n(e) & negative) | (bits_$n(one) & ~negative)) / (1.0f + e);
}
"""
_TANH = """\
static inline $F tanh_$n($F x) {
  const $F zero = {0}, limit = zero + 0.625f;
  $F size = of_bits_$n(bits_$n(x) & 0x7fffffffu), e = exp_$n(size * -2.0f), s = x * x, p;
  $U large = bits_$n((1.0f - e) / (1.0f + e)) | (bits_$n(x) & 0x80000000u), small = less_$n(size, limit);
  p = s * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * s - 5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s - 3.33332819422e-1f;
  p = p * s * x + x;
  return of_bits_$n((bits_$n(p) & small) | (large & ~small));
}
"""


def build_call(
    instruction: Instruction, registers: frozenset[str], file_names: Names, *, model: bool
) -> Model:
    """The function that stands for an instruction: of all lanes at once, or its plain-C model.

    With `model` the latter always: registers are arrays of elements then, on any processor.
    """
    found = None if model else _function_of_lanes(instruction, registers)
    if found is None:
        return build_model(instruction, registers, file_names)
    function, given, made, lanes = found
    name, kind = file_names.take(instruction.name), lanes_type(lanes)
    text = f"""\
static inline void {name}(const float *a, float *z) {{
  {kind} x;
  memcpy(&x, a, sizeof x);
  x = {function}_{kind}(x);
  memcpy(z, &x, sizeof x);
}}
"""
    operands = {o.name: ModelOperand(o, by_value=False, is_result=False) for o in instruction.operands}
    used = frozenset((f"{function}_{kind}", "string.h"))
    return Model(name, (operands[given], operands[made]), (), text, used)


def _function_of_lanes(
    instruction: Instruction, registers: frozenset[str]
) -> tuple[str, str, str, int] | None:
    """The function, its operand, its result, and how many lanes they have."""
    match instruction.body:
        case (
            Loop(
                (axis,),
                (Assign(Read(made, (to,)), None, Call(op, (Read(given, (at,), fill=None),)), guard=None),),
                guard=None,
            ),
        ) if op in FUNCTIONS:
            pass
        case _:
            return None
    lanes, here = axis.extent.value, Index.of(axis.name)
    operands = [instruction.operand(given), instruction.operand(made)]
    plain = all(
        o.memory in registers and o.dtype == F32 and o.shape == (axis.extent,) and o.accumulate is None
        for o in operands
    )
    if lanes not in LANES or not plain or to != here or at != here or instruction.params:
        return None
    return op, given, made, lanes
