"""Checks that a wrong matcher, transformation or lowering must not pass: quick, and the same at each run."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from brute_force import all_mappings
from matched import compare
from numpy.typing import NDArray
from properties.touching import STRIDES, elements, touched
from unit.matching import instruction, mappings

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.ir import F32, Index, Kernel, Read, interpret
from isamap.machine import load_machine
from isamap.match import (
    LoadRequest,
    Mapping,
    MoveSearch,
    OperandMove,
    Pattern,
    find_operand_load,
    find_operand_store,
)
from isamap.match.mappings.exact import largest_parameters
from isamap.simulate import Cut, perform
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, statements

Array = NDArray[Any]

MACHINE = Path(__file__).parent / "lanes.yaml"

PRODUCT = """instruction mma() {
  inout c: f32[2, 2] @ reg;  in a: f32[2, 2] @ reg;  in b: f32[2, 2] @ reg;
  for i in 2, j in 2, k in 2 { c[i, j] += a[i, k] * b[k, j]; }
}"""

WINDOW = """instruction window(choose P: 1..4) where P <= 3 {
  inout c: f32[P] @ reg;  in a: f32[P + 1] @ reg;  in b: f32[2] @ reg;
  for p in P, r in 2 { c[p] += a[p + r] * b[r]; }
}"""

VECTOR = """instruction fma() {
  inout c: f32[3] @ reg;  in a: f32[3] @ reg;  in b: f32[3] @ reg;
  for i in 3 { c[i] += a[i] * b[i]; }
}"""

OUTER = """instruction outer() {
  inout c: f32[2, 2] @ reg;  in a: f32[2] @ reg;  in b: f32[2] @ reg;
  for i in 2, j in 2 { c[i, j] += a[i] * b[j]; }
}"""

PAIRS_OF_BYTES = """instruction pairs(choose R: 1..2, choose Q: 1..2) {
  inout c: i32[R] @ reg;  in a: u8[R, 2*Q] @ reg;  in b: i8[2*Q] @ reg;
  for m in R, k in Q, p in 2 { c[m] += i32(a[m, 2*k + p]) * i32(b[2*k + p]); }
}"""

ROW = """instruction row() {
  inout c: f32[1, 3] @ reg;  in a: f32[1] @ reg;  in b: f32[3] @ reg;
  for i in 1, j in 3 { c[i, j] += a[i] * b[j]; }
}"""

DIFFERENCE = """instruction less() {
  out c: f32[3] @ reg;  in a: f32[3] @ reg;  in b: f32[3] @ reg;
  for i in 3 { c[i] = a[i] - b[i]; }
}"""

MIXED = """instruction mixed() {
  inout c: f32[3] @ reg;  in a: f32[3] @ reg;  in b: f32[3] @ reg;
  for i in 3 { c[i] += a[i] * a[i] + b[i]; }
}"""

SHORT = """instruction short(choose P: 2..4) where P <= 1 {
  inout c: f32[P] @ reg;  in a: f32[P] @ reg;
  for i in P { c[i] += a[i]; }
}"""

NARROW = """instruction narrow() {
  inout c: bf16[3] accumulate f32 @ reg;  in a: f32[3] @ reg;
  for i in 3 { c[i] += a[i]; }
}"""

SIGNED = """instruction signed() {
  inout c: f32[3] @ reg;  in a: i8[3] @ reg;
  for i in 3 { c[i] += f32(a[i]); }
}"""

NEIGHBOURS = """instruction neighbours() {
  inout c: f32[3] @ reg;  in a: f32[4] @ reg;
  for i in 3 { c[i] += a[i] * a[i + 1]; }
}"""

GEMM = "in A: f32[3, 4]; in B: f32[4, 3]; inout Y: f32[3, 3];"
CONV = "in X: f32[9, 9]; in F: f32[3, 9]; inout Y: f32[9, 3];"
FLAT = "in X: f32[20]; in F: f32[3]; inout Y: f32[9];"
BYTES = "in A: u8[4, 4]; in B: i8[4]; inout Y: i32[4];"
SQUARE = "in A: f32[4]; in B: f32[5]; inout Y: f32[19];"

PAIRS = (
    (PRODUCT, GEMM, "for m in 3, n in 3, k in 4 { Y[m, n] += A[m, k] * B[k, n]; }"),
    (PRODUCT, CONV, "for p in 3, c in 3, k in 3, r in 2 { Y[p, k] += X[p + 2*r, c] * F[k, 2*c + r]; }"),
    (PRODUCT, CONV, "for c in 3, r in 3 { Y[c, 0] += X[c, 0] * F[c, r]; }"),
    (WINDOW, FLAT, "for p in 6, r in 3 { Y[p] += X[p + r] * F[r]; }"),
    (WINDOW, FLAT, "for p in 6, r in 3 { Y[p] += X[2*p + r] * F[r]; }"),
    (WINDOW, FLAT, "for p in 6, r in 3 { Y[p] += X[2*p + 2*r] * F[r]; }"),
    (WINDOW, FLAT, "for p in 6, r in 3 { Y[p] += X[p - r + 2] * F[r]; }"),
    (WINDOW, FLAT, "for p in 3, q in 3, r in 2 { Y[3*p + q] += X[p + 2*q + r] * F[r]; }"),
    (VECTOR, SQUARE, "for i in 3, j in 2 { Y[i + j] += A[i] * B[j]; }"),
    (VECTOR, SQUARE, "for i in 4, j in 4 { Y[4*i + j] += A[i] * (B[j - 1] else 0); }"),
    (VECTOR, SQUARE, "for i in 4, j in 1 { Y[i] max= A[i] * B[j]; }"),
    (VECTOR, SQUARE, "for i in 4 if i < 3 { Y[i] += A[i] * B[i]; }"),
    (OUTER, SQUARE, "for i in 4, j in 4 { Y[3*i - 3*j + 9] += A[i] * B[j]; }"),
    (OUTER, SQUARE, "for i in 4, j in 4 { Y[4*i + j] += A[i] * B[j]; }"),
    (OUTER, SQUARE, "for i in 4, j in 3 { Y[i - j + 2] += A[i] * B[j]; }"),
    (PAIRS_OF_BYTES, BYTES, "for m in 4, k in 4 { Y[m] += i32(B[k]) * i32(A[m, k]); }"),
    (ROW, SQUARE, "for i in 4, j in 4 { Y[4*i + j] += A[i] * B[j]; }"),
    (DIFFERENCE, SQUARE, "for i in 4 { Y[i] = A[i] - B[i]; }"),
    (DIFFERENCE, SQUARE, "for i in 4, j in 4 { Y[4*i + j] = A[j] - B[i]; }"),
    (MIXED, SQUARE, "for i in 4 { Y[i] += A[i] * A[i] + B[i]; }"),
    (MIXED, SQUARE, "for i in 4 { Y[i] += A[i] * B[i] + B[i]; }"),
    (VECTOR, SQUARE, "for j in 4, i in 2 { Y[2*i + j] += A[i] * B[j]; }"),
    (VECTOR, SQUARE, "for i in 2, j in 5 { Y[2*i + j] += A[i] * B[j]; }"),
    (NARROW, "in A: f32[4]; inout Y: f32[4];", "for i in 4 { Y[i] += A[i]; }"),
    (SHORT, SQUARE, "for i in 4 { Y[i] += A[i]; }"),
    (NEIGHBOURS, SQUARE, "for i in 4 { Y[i] += B[i] * B[i + 1]; }"),
    (NEIGHBOURS, SQUARE, "for i in 4, j in 3 { Y[4*i + j] += B[j] * B[j + 1]; }"),
    (NEIGHBOURS, SQUARE, "for i in 4 { Y[i] += A[i] * B[i + 1]; }"),
    (NEIGHBOURS, "in B: f32[9]; inout Y: f32[4];", "for i in 4 { Y[i] += B[2*i] * B[2*i + 1]; }"),
    (SIGNED, "in A: u8[4]; inout Y: f32[4];", "for i in 4 { Y[i] += f32(A[i]); }"),
)  # fmt: skip
"""Instructions, and kernels as operands and loops."""


def mappings_are_those_of_the_definition() -> bool:
    """Return whether the matcher finds what trying everything finds."""
    return all(_agrees(text, f"kernel k() {{ {operands} {loops} }}") for text, operands, loops in PAIRS)


def _agrees(instruction_text: str, kernel_text: str) -> bool:
    found = compare(instruction_text, kernel_text, expected)
    return not (found.missing or found.extra or found.twice)


expected = cache(all_mappings)
"""What trying everything finds does not depend on the matcher: it is looked for once."""

# --- mappings and whole programs performed ----------------------------------------------------------------

TOP = """instruction top() {
  inout c: f32 @ reg;  in a: f32[4] @ reg;
  for k in 4 { c max= a[k]; }
}"""

PERFORMED = (
    (TOP, "in A: f32[5, 6]; inout Y: f32[5];", "for m in 5, k in 6 { Y[m] max= A[m, k]; }"),
    (PRODUCT, GEMM, "for m in 3, n in 3, k in 4 { Y[m, n] += A[m, k] * B[k, n]; }"),
    (WINDOW, FLAT, "for p in 6, r in 3 { Y[p] += X[p + r] * F[r]; }"),
    (WINDOW, FLAT, "for p in 6, r in 3 { Y[p] += X[2*p + r] * F[r]; }"),
    (VECTOR, SQUARE, "for i in 4, j in 4 { Y[4*i + j] += A[i] * B[j]; }"),
    (VECTOR, SQUARE, "for i in 3, j in 3 { Y[i + j] += A[i] * B[j]; }"),
    (OUTER, SQUARE, "for i in 4, j in 4 { Y[3*i - 3*j + 9] += A[i] * B[j]; }"),
)


def mappings_compute_what_the_kernel_does() -> bool:
    """Return whether every mapping, performed issue by issue, gives what the interpreter gives."""
    return all(_computes(text, f"kernel k() {{ {operands} {loops} }}") for text, operands, loops in PERFORMED)


def _computes(instruction_text: str, kernel_text: str) -> bool:
    pattern, kernel = instruction(instruction_text), parsed(kernel_text)
    (statement,) = statements(kernel)
    arrays = numbers(kernel)
    reference = interpret(kernel, arrays, {})["Y"]
    try:
        return all(
            np.array_equal(perform(statement, pattern, m, arrays, cut(pattern, m), {}), reference)
            for m in mappings(pattern, kernel)
        )
    except IndexError:  # a lane that touches what is not there
        return False


def cut(pattern: Pattern, mapping: Mapping) -> Cut:
    """Return the largest values of the parameters, and everything else as the mapping writes it."""
    return Cut(largest_parameters(pattern.instruction), mapping.groups)


GUARDED = (
    "in A: f32[4]; inout Y: f32[6]; for i in 6 { Y[i] += A[i - 1] else 3; }",
    "in A: f32[4]; inout Y: f32[6]; for i in 2, k in 4 if k < 3 { Y[i] max= A[k]; }",
    "in A: f32[4]; inout Y: f32[6]; for i in 2, k in 4 if k < 3 { Y[i] *= A[k]; }",
    "in A: f32[4]; inout Y: f32[6]; for i in 4 if i < 3 { Y[i] = A[i]; }",
)


def guards_made_explicit_change_nothing() -> bool:
    """Return whether kernels compute the same before and after."""
    return all(_same(parsed(f"kernel k() {{ {text} }}")) for text in GUARDED)


def _same(kernel: Kernel) -> bool:
    arrays = numbers(kernel)
    reference = interpret(kernel, arrays, {})["Y"]
    return np.array_equal(interpret(make_guards_explicit(kernel), arrays, {})["Y"], reference)


PROGRAMS = {
    "dot": "in A: f32[5, 19]; in B: f32[19]; inout Y: f32[5];"
    " for m in 5, k in 19 { Y[m] += A[m, k] * B[k]; }",
    "top": "in A: f32[99, 3]; inout Y: f32[99]; for m in 99, k in 3 { Y[m] max= A[m, k]; }",
    "product": "in A: f32[60, 3]; in B: f32[3, 5]; inout Y: f32[60, 5];"
    " for m in 60, n in 5, k in 3 { Y[m, n] += A[m, k] * B[k, n]; }",
}


def programs_compute_what_the_kernel_does(*names: str) -> bool:
    """Return whether compiled programs give what the interpreter gives, and touch nothing beside their arrays."""
    for name in names or PROGRAMS:
        kernel = Source("k.ir", f"kernel {name}() {{ {PROGRAMS[name]} }}")
        try:
            prepared = prepare(Request(kernel, str(MACHINE), {}, heuristic="greedy"))
        except AssertionError:  # the judge of lowered programs, before any code is emitted
            return False
        if not verify_case(prepared, {}, "integers").ok:
            return False
    return True


def parsed(text: str) -> Kernel:
    return parse_kernel(Source("kernel.ir", text))


def numbers(kernel: Kernel) -> dict[str, Array]:
    """Small integers below 0 for all arrays: a padded 0 is larger than all of them."""
    rng = np.random.default_rng(3)
    return {
        o.name: rng.integers(-9, 0, tuple(int(e.evaluate({})) for e in o.shape)).astype(o.dtype.numpy())
        for o in kernel.operands
    }


# --- chains of moves --------------------------------------------------------------------------------------

PART_OF_A_ROW = Read("A", (Index.of("@m"), Index.of("@k") + Index.of("%0")), F32)
AT = {"@m": 2, "@k": 3, "A.s0": 100}


def chains_touch_what_is_requested() -> bool:
    """Return whether a part of a register comes from, and goes to, so many elements and no more."""
    machine = load_machine("x86-avx2")
    search = MoveSearch(machine, {"A": STRIDES})
    held = Read("$value:ymm", (Index.of("%0"),), F32)
    for part in (None, Index.of(3)):
        load_request = LoadRequest(PART_OF_A_ROW, "ymm", F32, (8,), (part,))
        for found in (
            find_operand_load(search, load_request),
            find_operand_store(search, PART_OF_A_ROW, held, "", None, load_request),
        ):
            if isinstance(found, OperandMove) and touched(found, machine, AT) != elements(
                PART_OF_A_ROW, (8,), (part,), AT
            ):
                return False
    return True
