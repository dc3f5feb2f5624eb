"""Elementary functions of f32 as C without a call per element: for one number, and for a register's lanes.

Made from the definitions of the library (`kernels/functions`), which state their errors. Lanes are vectors as
gcc and clang know them without a header: `f32x16` has 16. `let e = exp(-abs(x));` is, of 16 lanes,

    const f32x16 e = exp_f32x16((-size_f32x16(x)));

The C of an instruction that performs an elementary function on every lane of a register.

`for i in 16 { z[i] = exp(a[i]); }` becomes

    static inline void exp_zmm_f32(const float *a, float *z) {
      f32x16 x;
      memcpy(&x, a, sizeof x);
      x = exp_f32x16(x);
      memcpy(z, &x, sizeof x);
    }

Where a definition holds below some size only, C's library computes lanes beyond, behind a branch and in a
function of its own.

Compilers make registers of that, also if they are told to leave loops alone, as emitted loops are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from math import isfinite

from isamap.emit.c_names import CNames
from isamap.emit.c_steps import call_text
from isamap.emit.cmodel import InstructionModel, ModelOperand, build_model
from isamap.ir import BOOL, F32, OPS, Assign, Call, Const, Expr, Index, Instruction, Loop, Read, Scalar
from isamap.kernels import list_functions
from isamap.machine import ANSWERS, PARTS, EmitCall
from isamap.source.records import dataclass, replace
from isamap.syntax.function_library import definition

FUNCTIONS = tuple(name for name in list_functions() if name in OPS)
"""The operations of the language that the library defines."""
LANES = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class FunctionText:
    """The text of one function, and the functions it calls."""

    name: str
    text: str
    needs: tuple[str, ...] = ()


def lanes_type(lanes: int) -> str:
    """Return the suffix of functions over a number of f32 lanes: `f32` for one, `f32x16` for 16."""
    return "f32" if lanes == 1 else f"f32x{lanes}"


@cache
def elementary() -> tuple[FunctionText, ...]:
    """Return the functions and their parts for each number of lanes, callees first."""
    return tuple(_texts())


def _texts() -> Iterator[FunctionText]:
    for lanes in (1, *LANES):
        n = lanes_type(lanes)
        types = ("float", "uint32_t") if lanes == 1 else (n, f"u32x{lanes}")
        yield FunctionText(
            f"type_{n}", "" if lanes == 1 else _TYPES.replace("$N", str(lanes)).replace("$B", str(4 * lanes))
        )
        parts = (_ONE if lanes == 1 else _ALL) | _BOTH
        for name, text in parts.items():
            made = (
                text.replace("$n", n)
                .replace("$F", types[0])
                .replace("$U", types[1])
                .replace("$N", str(lanes))
            )
            yield FunctionText(f"{name}_{n}", made, _needs(name, made, n, parts))
        for name in sorted(FUNCTIONS, key=lambda name: (len(_find_calls(name)), name)):
            made = _text(name, n, types)
            yield FunctionText(f"{name}_{n}", made, _needs(name, made, n, (*parts, *FUNCTIONS)))


def part_text(name: str, emit: EmitCall) -> str:
    """Return the function of a part, such as `scale_f32x16`, that a machine's instruction performs."""
    part, _, kind = name.rpartition("_")
    given = ", ".join(f"{kind} {p}" for p in PARTS[part])
    made = "int" if part in ANSWERS else kind
    return f"static inline {made} {name}({given}) {{\n  return ({made}){call_text(emit)};\n}}\n"


def _needs(name: str, text: str, n: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names of functions that a text calls."""
    called = (f"{other}_{n}" for other in known if other != name and re.search(rf"\b{other}_{n}\(", text))
    return (f"type_{n}", *called)


_ONE = {
    "bits": """\
static inline uint32_t bits_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
""",
    "of_bits": """\
static inline float of_bits_f32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
""",
    "where": """\
static inline uint32_t where_f32(int is) {
  return 0u - (uint32_t)is;
}
""",
    "all": """\
static inline float all_f32(float x) {
  return x;
}
""",
    "number": """\
static inline float number_f32(uint32_t whole) {
  return (float)(int32_t)whole;
}
""",
}
_TYPES = """\
typedef float f32x$N __attribute__((vector_size($B)));
typedef uint32_t u32x$N __attribute__((vector_size($B)));
typedef int32_t i32x$N __attribute__((vector_size($B)));
"""
_ALL = {
    "bits": """\
static inline $U bits_$n($F x) {
  return ($U)x;
}
""",
    "of_bits": """\
static inline $F of_bits_$n($U bits) {
  return ($F)bits;
}
""",
    "where": """\
static inline $U where_$n(i32x$N is) {
  return ($U)is;
}
""",
    "all": """\
static inline $F all_$n(float x) {
  return x - ($F){0};
}
""",
    "number": """\
static inline $F number_$n($U whole) {
  return __builtin_convertvector((i32x$N)whole, $F);
}
""",
}
_BOTH = {
    "some_beyond": """\
/* Whether a < b does not hold somewhere. */
static inline int some_beyond_$n($F a, $F b) {
  const $U within = where_$n(a < b);
  uint32_t bits[$N];
  uint32_t all = ~0u;
  memcpy(bits, &within, sizeof bits);
  for (int i = 0; i < $N; i++) all &= bits[i];
  return all == 0u;
}
""",
    "multiply_add": """\
static inline $F multiply_add_$n($F a, $F b, $F c) {
  return a * b + c;
}
""",
    "choose": """\
static inline $F choose_$n($U where, $F a, $F b) {
  return of_bits_$n((bits_$n(a) & where) | (bits_$n(b) & ~where));
}
""",
    "if_less": """\
/* Where a < b, else d. */
static inline $F if_less_$n($F a, $F b, $F c, $F d) {
  return choose_$n(where_$n(a < b), c, d);
}
""",
    "at_least": """\
/* The larger; where x is not a number, x. */
static inline $F at_least_$n($F x, $F low) {
  return if_less_$n(x, low, low, x);
}
""",
    "at_most": """\
static inline $F at_most_$n($F x, $F high) {
  return if_less_$n(high, x, high, x);
}
""",
    "size": """\
static inline $F size_$n($F x) {
  return of_bits_$n(bits_$n(x) & 0x7fffffffu);
}
""",
    "nearest": """\
/* To a whole number below 2**22, as adding and taking away 1.5 * 2**23 rounds. */
static inline $F nearest_$n($F x) {
  return x + 12582912.0f - 12582912.0f;
}
""",
    "sqrt": """\
static inline $F sqrt_$n($F x) {
  float lanes[$N];
  memcpy(lanes, &x, sizeof x);
  for (int i = 0; i < $N; i++) lanes[i] = __builtin_sqrtf(lanes[i]);
  memcpy(&x, lanes, sizeof x);
  return x;
}
""",
    "scale": """\
/* x * 2**n in two factors, as 2**n may lie outside of what floats reach. */
static inline $F scale_$n($F x, $F n) {
  $U biased = bits_$n(n + 12582912.0f) - 0x4b3fff00u, first = biased >> 1;
  return x * of_bits_$n((first - 1u) << 23) * of_bits_$n((biased - first - 1u) << 23);
}
""",
    "exponent": """\
static inline $F exponent_$n($F x) {
  return number_$n(((bits_$n(x) >> 23) & 255u) - 127u);
}
""",
}
"""The building blocks of definitions, by the names of their functions."""


ELEMENTARY_NAMES = tuple(
    f"{name}_{lanes_type(lanes)}"
    for lanes in (1, *LANES)
    for name in ("type", *((_ONE if lanes == 1 else _ALL) | _BOTH), *FUNCTIONS)
)
"""The names of `elementary`, without its texts."""


def _find_calls(name: str) -> tuple[str, ...]:
    """Return the other operations that a definition uses."""
    found = definition(name)
    used = {op for _, e in (*found.steps, ("", found.result)) for op in _operations(e)}
    return tuple(sorted(used & {*FUNCTIONS}))


def _operations(e: Expr) -> Iterator[str]:
    if isinstance(e, Call):
        yield e.op
        for a in e.args:
            yield from _operations(a)


def _text(name: str, n: str, types: tuple[str, str]) -> str:
    """Return a definition as a C function: a variable for each step."""
    found = definition(name)
    given = found.params[0]
    params = ", ".join(f"{types[0]} {p.name}" for p in found.params)
    lines = [f"static inline {types[0]} {name}_{n}({params}) {{"]
    lines += [f"  const {types[e.dtype == BOOL]} {step} = {_value(e, n)};" for step, e in found.steps]
    result = _value(found.result, n)
    if found.below is None:
        return "\n".join([*lines, f"  return {result};", "}", ""])
    size, limit = f"size_{n}({given.name})", f"all_{n}({found.below!r}f)"
    lines.append(f"  const {types[0]} found = {result};")
    beyond = f"{name}_beyond_{n}({given.name}, found)"
    lines.append(f"  return some_beyond_{n}({size}, {limit}) ? {beyond} : found;")
    return _BEYOND[n == "f32"].replace("$f", name).replace("$n", n).replace("$F", types[0]).replace(
        "$N", n.removeprefix("f32x")
    ).replace("$B", repr(found.below)) + "\n".join([*lines, "}", ""])


# A function of its own: the calls in it would keep nothing in registers around each place that computes it.
_BEYOND = (
    """\
/* Lanes that the definition is not for, by C's library. */
static __attribute__((noinline, cold)) $F $f_beyond_$n($F x, $F found) {
  for (int i = 0; i < $N; i++) {
    if (!(__builtin_fabsf(x[i]) < $Bf)) found[i] = __builtin_$ff(x[i]);
  }
  return found;
}
""",
    """\
static inline float $f_beyond_f32(float x, float found) {
  (void)found;
  return __builtin_$ff(x);
}
""",
)


_CALLED = {
    "abs": "size", "scale": "scale", "exponent": "exponent", "select": "choose", "round": "nearest", "sqrt": "sqrt",
}  # fmt: skip


def _value(e: Expr, n: str) -> str:
    """Return an expression as C on floats, or on bits that are all 1 where a condition holds."""
    match e:
        case Scalar(name):
            return name
        case Const(value):
            assert isfinite(value), "definitions make infinities of numbers"
            return f"all_{n}({float(value)!r}f)"
        case Call("select", (Call("lt" | "gt" as op, args), c, d)):
            a, b = args if op == "lt" else reversed(args)
            if c in (a, b) and d in (a, b) and c != d:
                return f"{'at_least' if c == b else 'at_most'}_{n}({_value(d, n)}, {_value(c, n)})"
            return f"if_less_{n}({', '.join(_value(x, n) for x in (a, b, c, d))})"
        case Call("add" | "sub" as op, (one, other)) if found := _split_product(op, one, other):
            return f"multiply_add_{n}({', '.join(_value(x, n) for x in found)})"
        case Call(op, args):
            shown = [_value(a, n) for a in args]
            if op in _CALLED or op in FUNCTIONS:
                return f"{_CALLED.get(op, op)}_{n}({', '.join(shown)})"
            spelling = OPS[op].spelling
            assert spelling is not None, f"`{op}` is not for definitions"
            text = f"({spelling}{shown[0]})" if len(shown) == 1 else f"({shown[0]} {spelling} {shown[1]})"
            return f"where_{n}{text}" if OPS[op].result == "bool" else text
        case _:
            raise AssertionError(e)


def _split_product(op: str, one: Expr, other: Expr) -> tuple[Expr, Expr, Expr] | None:
    """Return factors and addend of a product plus or minus a number. A constant factor takes the minus sign."""
    match op, one, other:
        case "add", Call("mul", (a, b)), c:
            return a, b, c
        case "add", c, Call("mul", (a, b)):
            return a, b, c
        case "sub", Call("mul", (a, b)), Const(value):
            return a, b, replace(other, value=-value)
        case "sub", c, Call("mul", (a, Const(value) as b)):
            return a, replace(b, value=-value), c
        case "sub", c, Call("mul", (Const(value) as a, b)):
            return replace(a, value=-value), b, c
        case _:
            return None


def build_call(
    instruction: Instruction, registers: frozenset[str], file_names: CNames, *, model: bool
) -> InstructionModel:
    """Return the function for an instruction: over all lanes at once, or its plain-C model.

    With `model`, it is always the latter: registers are then arrays of elements, on any processor.
    """
    found = None if model else _function_of_lanes(instruction, registers)
    if found is None:
        return build_model(instruction, registers, file_names)
    function, given, made, lanes = found
    name, kind = file_names.take(instruction.name), lanes_type(lanes)
    letters = "abc"[: len(given)]
    params = ", ".join(f"const float *{p}" for p in letters)
    copies = "\n".join(f"  {kind} x_{p};\n  memcpy(&x_{p}, {p}, sizeof x_{p});" for p in letters)
    text = f"""\
static inline void {name}({params}, float *z) {{
{copies}
  x_a = {function}_{kind}({", ".join(f"x_{p}" for p in letters)});
  memcpy(z, &x_a, sizeof x_a);
}}
"""
    operands = {o.name: ModelOperand(o, by_value=False, is_result=False) for o in instruction.operands}
    used = frozenset((f"{function}_{kind}", "string.h"))
    return InstructionModel(name, tuple(operands[o] for o in (*given, made)), (), text, used)


def _function_of_lanes(
    instruction: Instruction, registers: frozenset[str]
) -> tuple[str, tuple[str, ...], str, int] | None:
    """Return the function, its operands, its result, and their number of lanes."""
    match instruction.body:
        case (
            Loop(
                (axis,),
                (Assign(Read(made, (to,)), None, Call(op, args), guard=None),),
                guard=None,
            ),
        ) if op in FUNCTIONS:
            pass
        case _:
            return None
    lanes, here = axis.extent.value, Index.of(axis.name)
    reads = [a for a in args if isinstance(a, Read) and a.index == (here,) and a.fill is None]
    operands = [*(instruction.operand(r.buffer) for r in reads), instruction.operand(made)]
    plain = all(
        o.memory in registers and o.dtype == F32 and o.shape == (axis.extent,) and o.accumulate is None
        for o in operands
    )
    if lanes not in LANES or not plain or to != here or len(reads) < len(args) or instruction.params:
        return None
    return op, tuple(r.buffer for r in reads), made, lanes
