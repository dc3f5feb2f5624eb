"""Test cases of instructions on hardware: limits of parameters, random and special numbers.

The comparison with the semantics is bit by bit. It is wider only for instructions with `numerics`, and for
functions that are accurate to some units in the last place. All not-a-numbers are equal, whatever their
payload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import OPS, Assign, Call, Constraint, Index, Instruction, Loop, Operand, Param, Stmt
from isamap.ir.bind import MAX_EXTENT
from isamap.ir.dtypes import REORDERING, DType
from isamap.ir.interpret import bind_all, execute_bound, interpret_magnitude
from isamap.ir.walk import walk
from isamap.source.records import dataclass

_MOST_FORMS = 6
_MOST_COUNTS = 70
_MOST_ELEMENTS = 1 << 20


@dataclass(frozen=True, slots=True)
class InstructionTrial:
    """One trial. Shapes: `arrays` has those of the operands. `strides` are in elements, by operand."""

    counts: tuple[tuple[str, int], ...]
    scalars: tuple[tuple[str, Any], ...]
    arrays: Mapping[str, NDArray[Any]]
    strides: Mapping[str, tuple[int, ...]]


def encodings(instruction: Instruction, rng: np.random.Generator) -> list[dict[str, int]]:
    """Return values of the encoded parameters: all lowest, all highest, and some in between."""
    encoded = [p for p in instruction.params if p.kind in ("choose", "imm", "machine")]
    ranges = [_range(p) for p in encoded]
    if all(len(r) <= _MOST_FORMS for r in ranges) and len(encoded) == 1:
        candidates = [list(choice) for choice in product(*ranges)]
    else:
        candidates = [[r[0] for r in ranges], [r[-1] for r in ranges]]
        candidates += [[_draw_value(r, rng) for r in ranges] for _ in range(2 * _MOST_FORMS)]
    found: list[dict[str, int]] = []
    for values in candidates:
        binding = {p.name: v for p, v in zip(encoded, values, strict=True)}
        if binding not in found and meets(instruction.where, binding):
            found.append(binding)
    return found[:_MOST_FORMS]


def meets(where: tuple[Constraint, ...], binding: Mapping[str, int]) -> bool:
    """Return whether constraints hold, as far as the binding decides them."""
    for c in where:
        left, right = c.left.substitute(binding).value, c.right.substitute(binding).value
        if left is None or right is None:
            continue
        truth = {
            "==": left == right, "!=": left != right, "<=": left <= right,
            "<": left < right, ">=": left >= right, ">": left > right,
        }  # fmt: skip
        if not truth[c.comparison]:
            return False
    return True


def make_cases(
    instruction: Instruction, encoded: Mapping[str, int], in_memory: frozenset[str], tame: bool, seed: int
) -> Iterator[InstructionTrial]:
    """Yield trials of one encoding. `tame` excludes values whose sums depend much on their order."""
    rng = np.random.default_rng(seed)
    counted = [p for p in instruction.params if p.kind == "scalar" and p.dtype is None]
    kinds = ["whole", "random", "random"] + ([] if tame else ["awkward"] * 4 + ["mixed"] * 2)
    if counted:
        kinds = ["random"] + ([] if tame else ["awkward"])
    for counts in _counts(counted, rng):
        sizes = {**encoded, **counts}
        if not meets(instruction.where, sizes) or not _is_tried(instruction, sizes):
            continue
        for kind in kinds:
            yield _make_case(instruction, sizes, tuple(counts.items()), in_memory, kind, rng)


def _is_tried(instruction: Instruction, sizes: Mapping[str, int]) -> bool:
    """Return whether each operand has at least one element, as the language requires, and not too many."""
    shapes = [[extent.evaluate(sizes) for extent in o.shape] for o in instruction.operands]
    return all(min(shape, default=1) >= 1 and prod(shape) <= _MOST_ELEMENTS for shape in shapes)


def _counts(counted: list[Param], rng: np.random.Generator) -> Iterator[dict[str, int]]:
    ranges = [_range(p) for p in counted]
    if prod(len(r) for r in ranges) <= _MOST_COUNTS:
        choices = [list(c) for c in product(*ranges)]
    else:
        choices = [
            [r[0] for r in ranges],
            [r[-1] for r in ranges],
            [r[min(len(r), 1000) - 1] for r in ranges],
        ]
        choices += [[_draw_value(r, rng) for r in ranges] for _ in range(_MOST_COUNTS)]
    for values in choices:
        yield {p.name: v for p, v in zip(counted, values, strict=True)}


def _draw_value(values: range, rng: np.random.Generator) -> int:
    return values[int(rng.integers(len(values)))]


def _range(p: Param) -> range:
    """Return the values of a parameter that the interpreter supports."""
    low = p.low.value if p.low is not None else None
    high = p.high.value if p.high is not None else None
    if p.default is not None and (low is None or high is None):
        return range(p.default, p.default + 1)
    first = 1 if low is None else low
    return range(first, (first + 64 if high is None else min(high, MAX_EXTENT)) + 1)


def _make_case(
    instruction: Instruction,
    sizes: Mapping[str, int],
    counts: tuple[tuple[str, int], ...],
    in_memory: frozenset[str],
    kind: str,
    rng: np.random.Generator,
) -> InstructionTrial:
    arrays: dict[str, NDArray[Any]] = {}
    strides: dict[str, tuple[int, ...]] = {}
    for o in instruction.operands:
        if o.role == "temp":
            continue
        shape = tuple(extent.evaluate(sizes) for extent in o.shape)
        if o.domain is None:
            arrays[o.name] = draw(o.dtype, shape, kind, rng)
        else:
            low, high = (end.evaluate(sizes) for end in (o.domain.low, o.domain.high))
            arrays[o.name] = rng.integers(low, high, shape, np.int64, endpoint=True).astype(o.dtype.numpy())
        if o.name in in_memory:
            strides[o.name] = _strides(o, shape, sizes, rng)
    scalars = tuple(
        (p.name, draw(p.dtype, (), kind, rng)[()]) for p in instruction.params if p.dtype is not None
    )
    return InstructionTrial(counts, scalars, arrays, strides)


def _strides(
    o: Operand, shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
) -> tuple[int, ...]:
    """Return strides in elements: declared ones, and others that keep elements apart, sometimes with gaps."""
    declared: tuple[Index | None, ...] = o.strides if o.strides is not None else ()
    found: dict[int, int] = {}
    inner = 1
    axes = range(len(shape))[::-1]
    for axis in sorted(
        axes, key=lambda a: bool(declared) and declared[a] is None
    ):  # what is left to the call last
        given = declared[axis] if declared else Index.of(inner)
        if given is not None:
            stride = given.substitute(sizes).value
            assert stride is not None, "a stride is a number or any"
        else:
            stride = inner + int(rng.integers(0, 4))
        found[axis] = stride
        inner = max(inner, stride * max(shape[axis], 1))
    return tuple(found[axis] for axis in range(len(shape)))


# --- numbers ----------------------------------------------------------------------------------------------

_AWKWARD = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.5, 1e-3, 255.5, 256.0, 65504.0, -65536.0,
            2.0**31, -(2.0**31), 2.0**32, 2.0**62, 2.0**63, -(2.0**63), 2.0**64,
            np.inf, -np.inf, np.nan)  # fmt: skip


def draw(dtype: DType, shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> NDArray[Any]:
    """Return numbers of a type: `whole` integers of both signs, `random`, `awkward`, or a mixture."""
    stored = dtype.numpy()
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if kind == "mixed":
        awkward, usual = draw(dtype, shape, "awkward", rng), draw(dtype, shape, "random", rng)
        return np.where(rng.integers(0, 2, shape) == 1, awkward, usual).astype(stored)
    if kind == "whole":
        small = rng.integers(max(dtype.low, -7) if dtype.is_integer else -7, 8, shape)
        return np.asarray(small).astype(stored)
    if kind == "awkward":
        return np.asarray(rng.choice(_edge_values(dtype), shape)).astype(stored)
    if dtype.is_integer:
        return np.asarray(rng.integers(dtype.low, dtype.high, shape, _integer(dtype), endpoint=True)).astype(
            stored
        )
    return _round_values(rng.standard_normal(shape), dtype)


def _integer(dtype: DType) -> Any:
    return np.uint64 if dtype.name == "u64" else np.int64


def _edge_values(dtype: DType) -> NDArray[Any]:
    if dtype.is_integer:
        edges = {dtype.low, dtype.low + 1, dtype.high, dtype.high - 1}
        edges |= {0, 1, 2, 3, 7, 31, 32, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535, 65536}
        edges |= {-1, -2, -127, -128, -129, -32768, -32769}
        return np.array(sorted(e for e in edges if dtype.low <= e <= dtype.high), _integer(dtype))
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    smallest = 2.0 ** (1 - bias)
    largest = (
        float(2.0 ** (bias - 1) * (2 - 2.0 ** (1 - dtype.mantissa_bits)) * 2) if dtype.bits > 8 else 57344.0
    )
    edges_f = [smallest, -smallest, smallest * (1 - 2.0 ** (1 - dtype.mantissa_bits)), largest, -largest]
    edges_f += [smallest * 2.0 ** (1 - dtype.mantissa_bits), 1 + 2.0 ** (1 - dtype.mantissa_bits)]
    return _round_values(np.array([*_AWKWARD, *edges_f]), dtype)


def _round_values(values: Any, dtype: DType) -> NDArray[Any]:
    from isamap.ir.rounding import round_to

    with np.errstate(over="ignore", invalid="ignore"):
        return round_to(np.asarray(values, np.float64), dtype)


Array = NDArray[Any]

# Section 7 of the design: 4 units of f32's last place, of the sum of the absolute values of all terms.
_SUM_FACTOR = 4.0


def is_tame(instruction: Instruction) -> bool:
    """Return whether only moderate values are meaningful, because other sums may overflow in some orders."""
    return bool(REORDERING.intersection(instruction.numerics))


def difference(
    instruction: Instruction, encoded: Mapping[str, int], case: InstructionTrial, found: Mapping[str, Array]
) -> str | None:
    """Return text about the first wrong element, or None if all outputs agree with the semantics."""
    sizes = {**encoded, **dict(case.counts)}
    scalars = dict(case.scalars)
    bound = bind_all(instruction, sizes)
    arrays = case.arrays
    if "flush_inputs" in instruction.numerics:
        arrays = {
            name: _flush_subnormals(values, instruction.operand(name).dtype)
            for name, values in arrays.items()
        }

    def perform(seed: int) -> dict[str, Array]:
        found = execute_bound(bound, arrays, scalars, rng=np.random.default_rng(seed))
        if "flush_results" not in instruction.numerics:
            return found
        return {
            name: _flush_subnormals(values, instruction.operand(name).dtype) for name, values in found.items()
        }

    with np.errstate(all="ignore"):
        reference = perform(1)
        for name, expected in reference.items():
            operand = instruction.operand(name)
            wrong = ~_equal(found[name], expected, operand.dtype)
            if not wrong.any():
                continue
            # What the semantics leave undefined comes out differently when drawn again.
            wrong &= _equal(expected, perform(2)[name], operand.dtype)
            if wrong.any() and operand.dtype.is_float:
                allowed = _tolerance(instruction, operand, sizes, arrays, scalars, expected)
                gap = np.abs(found[name].astype(np.float64) - expected.astype(np.float64))
                wrong &= ~(gap <= allowed)
            if wrong.any():
                return _describe(name, wrong, found[name], expected, case)
    return None


def _flush_subnormals(values: Array, dtype: DType) -> Array:
    """Return values with subnormal numbers replaced by zeros of the same sign."""
    if not dtype.is_float:
        return values
    wide = values.astype(np.float64)
    return np.where(np.abs(wide) < dtype.smallest_normal, np.copysign(0.0, wide), wide).astype(values.dtype)


def _equal(a: Array, b: Array, dtype: DType) -> Array:
    if not dtype.is_float:
        return np.asarray(a == b)
    bits = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize]
    same: Array = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    both: Array = np.isnan(a) & np.isnan(b)
    return np.asarray(same | both).reshape(a.shape)


def _tolerance(
    instruction: Instruction,
    operand: Operand,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    scalars: Mapping[str, Any],
    expected: Array,
) -> Array:
    """Return the allowed deviation of each element from the expected value, as float64."""
    dtype = operand.dtype
    unit = 2.0 ** (1 - dtype.mantissa_bits)
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    smallest = 2.0 ** (1 - bias)
    size = np.abs(expected.astype(np.float64))
    allowed = np.zeros(expected.shape)
    words = frozenset(instruction.numerics)
    operations = {name for stmt in instruction.body for name in _operations(stmt)}
    ulp = max((OPS[name].ulp for name in operations), default=0.0)
    if not words and not ulp and not _chooses(instruction):
        return np.full(expected.shape, -1.0)  # not even zeros of different signs
    if words & REORDERING:
        magnitude = interpret_magnitude(instruction, arrays, sizes, scalars)[operand.name]
        wide = operand.accumulate or dtype
        allowed = allowed + _SUM_FACTOR * 2.0 ** (1 - min(wide.mantissa_bits, 53)) * magnitude
        allowed = allowed + (unit * size if operand.accumulate is not None else 0.0)
    return allowed + ulp * np.maximum(unit * size, smallest * unit)


def _chooses(instruction: Instruction) -> bool:
    """Return whether an instruction has a minimum or a maximum."""
    return any(name in ("min", "max") for stmt in instruction.body for name in _operations(stmt))


def _operations(stmt: Stmt) -> Iterator[str]:
    match stmt:
        case Assign(_, op, value, _, _):
            yield from (op,) if op is not None else ()
            yield from (part.op for part in walk(value) if isinstance(part, Call))
        case Loop(_, body, _, _, _):
            for inner in body:
                yield from _operations(inner)


def _describe(name: str, wrong: Array, found: Array, expected: Array, case: InstructionTrial) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    place = f"{name}[{', '.join(map(str, at))}]" if at else name
    counts = ", ".join(f"{n} = {v}" for n, v in case.counts)
    given = "; ".join(
        f"{n} = {a.reshape(-1)[:8].tolist()}" for n, a in case.arrays.items() if n != name or a.size
    )
    with_counts = f" with {counts}" if counts else ""
    return f"{place} is {found[at]}, its semantics say {expected[at]}{with_counts}; {given}"[:600]
