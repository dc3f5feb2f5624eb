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
from pathlib import Path
from string import Template

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
        given = {"n": n, "F": types[0], "U": types[1], "N": lanes, "B": 4 * lanes}
        yield FunctionText(f"type_{n}", "" if lanes == 1 else Template(_TEXTS["f32x$N"]).substitute(given))
        for name, text in _PARTS.items():
            made = Template(_TEXTS.get(f"{name}_{n}", text)).substitute(given)
            yield FunctionText(f"{name}_{n}", made, _needs(name, made, n, _PARTS))
        for name in sorted(FUNCTIONS, key=lambda name: (len(_find_calls(name)), name)):
            made = _text(name, n, types)
            yield FunctionText(f"{name}_{n}", made, _needs(name, made, n, (*_PARTS, *FUNCTIONS)))


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


def read_functions(file: str) -> dict[str, str]:
    """Return the functions of a file of C templates by their names. An empty line ends a function."""
    blocks = (
        Path(__file__).with_name(file).read_text(encoding="utf-8").rstrip("\n").split("\n\n")[1:]
    )  # after the comment
    named = re.compile(r"^(?:static .*? (?=[^ (]+\([a-z$])|typedef \S+ |#define )([^ (;]+)", re.MULTILINE)
    return {found[1]: f"{block}\n" for block in blocks if (found := named.search(block))}


_TEXTS = read_functions("elementary.c")
_PARTS = {name.removesuffix("_$n"): text for name, text in _TEXTS.items() if name[0] != "$" and "_$" in name}
"""The building blocks of definitions, by the names of their functions."""
ELEMENTARY_NAMES = tuple(
    f"{name}_{lanes_type(lanes)}" for lanes in (1, *LANES) for name in ("type", *_PARTS, *FUNCTIONS)
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
    first = found.params[0]
    params = ", ".join(f"{types[0]} {p.name}" for p in found.params)
    lines = [f"static inline {types[0]} {name}_{n}({params}) {{"]
    lines += [f"  const {types[e.dtype == BOOL]} {step} = {_value(e, n)};" for step, e in found.steps]
    result = _value(found.result, n)
    if found.below is None:
        return "\n".join([*lines, f"  return {result};", "}", ""])
    size, limit = f"size_{n}({first.name})", f"all_{n}({found.below!r}f)"
    lines.append(f"  const {types[0]} found = {result};")
    beyond = f"{name}_beyond_{n}({first.name}, found)"
    lines.append(f"  return some_beyond_{n}({size}, {limit}) ? {beyond} : found;")
    # A function of its own: the calls in it would keep nothing in registers around each place that computes it.
    other = Template(_TEXTS["${f}_beyond_f32" if n == "f32" else "${f}_beyond_$n"])
    given = {"f": name, "n": n, "F": types[0], "N": n.removeprefix("f32x"), "B": repr(found.below)}
    return other.substitute(given) + "\n".join([*lines, "}", ""])


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
            if isinstance(c, Const) and c.value == 0 and not c.is_negative:
                return f"zero_if_less_{n}({', '.join(_value(x, n) for x in (a, b, d))})"
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
    """Return factors and addend of a product plus or minus a value, or None for other expressions."""
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
