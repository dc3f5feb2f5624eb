"""Functions of the library as C: errors over all kinds of floats, and all lanes of a register at once."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isamap.emit.c_elementary import FUNCTIONS, LANES, build_call, lanes_type, part_text
from isamap.emit.c_functions import helper_texts
from isamap.emit.c_names import CNames
from isamap.ir import OPS, Instruction
from isamap.machine import EmitCall, load_machine, missing_features
from isamap.run.toolchain import build, find_compiler
from isamap.source import Source
from isamap.syntax import parse_module
from isamap.syntax.function_library import definition

Array = NDArray[Any]
FLAGS = ("-O2", "-std=c11")
REGISTERS = frozenset({"v"})


def performed(
    function: str,
    lanes: int,
    given: Array,
    flags: tuple[str, ...] = FLAGS,
    parts: tuple[tuple[str, EmitCall], ...] = (),
) -> Array:
    """Return what the C function makes of floats, a multiple of the lanes."""
    kind = lanes_type(lanes)
    name = f"{function}_{kind}"
    c_type = "float" if lanes == 1 else kind
    operands = np.ascontiguousarray(np.atleast_2d(given))
    count = operands.shape[1]
    loads = "".join(
        f"    {c_type} x{n};\n    memcpy(&x{n}, a + {n} * n + i, sizeof x{n});\n"
        for n in range(len(operands))
    )
    text = f"""\
#include <stdint.h>
#include <string.h>
{"#include <immintrin.h>" if parts else ""}
{"".join(helper_texts([name], parts))}
void all(const float *a, float *z, int64_t n) {{
  for (int64_t i = 0; i < n; i += {lanes}) {{
{loads}    x0 = {name}({", ".join(f"x{n}" for n in range(len(operands)))});
    memcpy(z + i, &x0, sizeof x0);
  }}
}}
"""
    path = build(find_compiler(flags), flags, {"f.c": text}, "f.c")
    made = np.empty(count, np.float32)
    ends = (a.ctypes.data_as(ctypes.c_void_p) for a in (operands, made))
    ctypes.CDLL(str(path)).all(*ends, ctypes.c_int64(count))
    return made


def operands_of(function: str, given: Array) -> Array:
    """Return rows of floats, one for each operand: of two operands, the second has the same in another order."""
    if OPS[function].arity == 1:
        return given
    return np.stack([given, np.random.default_rng(7).permutation(given)])


def some_floats() -> Array:
    """Floats of every sign and exponent, infinities and not-a-number."""
    bits = np.arange(0, 2**32, 2**32 // 2**20 - 1, dtype=np.uint64)[: 2**20].astype(np.uint32)
    return np.concatenate([bits.view(np.float32), np.linspace(-110, 110, 2**18, dtype=np.float32)])


def exact(function: str, given: Array) -> Array:
    with np.errstate(all="ignore"):
        wide = given.astype(np.float64)
        return np.asarray(OPS[function].compute(*np.atleast_2d(wide)))


def error_in_places(function: str, made: Array, given: Array) -> float:
    """Return the largest error, in units in the last place; infinities and not-a-number have to be the same."""
    expected = exact(function, given)
    with np.errstate(all="ignore"):
        nearest = expected.astype(np.float32)
        size = np.spacing(np.abs(nearest)).astype(np.float64)
        errors = np.abs(made.astype(np.float64) - expected) / size
    ends = ~np.isfinite(nearest)
    np.testing.assert_array_equal(made[ends], nearest[ends])
    return float(errors[~ends].max(initial=0))


def binade(exponent: int, step: int = 1) -> Array:
    """Return the floats from 2**exponent to twice that, of both signs."""
    positive = np.arange(0, 2**23, step, dtype=np.uint32) + np.uint32((exponent + 127) << 23)
    return np.concatenate([positive.view(np.float32), -positive.view(np.float32)])


@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
def test_one_lane_that_a_definition_is_not_for_leaves_the_others_alone(function: str) -> None:
    assert definition(function).below == 8192
    given = np.linspace(-8000, 8000, 64, dtype=np.float32)
    given[21], given[40], given[63] = 8192, -3e30, np.inf
    made = performed(function, 16, given)
    assert error_in_places(function, made, given) <= (definition(function).ulp or 0)
    near = np.where(np.abs(given) < 8192, given, 0)
    kept = near == given
    np.testing.assert_array_equal(made[kept], performed(function, 16, near)[kept])


SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1.0000001, -2, 1e-45, -1e-45, 3.4e38, -3.4e38], np.float32
)
FUSED = (*FLAGS, "-march=native")
"""Flags with which sums of products are rounded once, where the processor can."""


@pytest.mark.parametrize("flags", [FLAGS, FUSED], ids=["rounded twice", "fused"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors_are_no_larger_than_what_is_stated(function: str, flags: tuple[str, ...]) -> None:
    given = operands_of(function, np.concatenate([some_floats(), *(binade(e, 128) for e in range(-12, 8))]))
    stated = definition(function).ulp
    assert stated is not None
    assert stated <= OPS[function].ulp
    assert error_in_places(function, performed(function, 1, given, flags), given) <= stated


@pytest.mark.exhaustive
@pytest.mark.parametrize("exponent", [-3, -1, 0, 2])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_float_of_a_binade_is_within_what_is_stated(function: str, exponent: int) -> None:
    given, stated = operands_of(function, binade(exponent)), definition(function).ulp
    assert stated is not None
    assert error_in_places(function, performed(function, 16, given, FUSED), given) <= stated


@pytest.mark.parametrize("function", FUNCTIONS)
def test_special_values_are_those_of_the_exact_function(function: str) -> None:
    given = SPECIAL
    if OPS[function].arity == 2:
        given = np.stack([np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))])
    made, expected = performed(function, 1, given), exact(function, given)
    zeros = (expected == 0) & (function != "tanh")  # whose polynomial adds zeros of both signs
    np.testing.assert_array_equal(np.signbit(made[zeros]), np.signbit(expected[zeros]))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(made[~finite], expected[~finite].astype(np.float32))
    np.testing.assert_allclose(made[finite], expected[finite], rtol=1e-6, atol=2e-45)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("lanes", LANES)
def test_lanes_are_what_single_elements_are(function: str, lanes: int) -> None:
    given = some_floats()[::7]
    given = operands_of(function, given[: len(given) // 16 * 16].copy())
    one, all_of_them = (performed(function, n, given) for n in (1, lanes))
    np.testing.assert_array_equal(one, all_of_them)


def instruction(body: str, operands: str = "in a: f32[16] @ v; out z: f32[16] @ v;") -> Instruction:
    memory = "memory v: registers(count = 8, bytes = 64);\n"
    routine = parse_module(Source("test", f"{memory}instruction f() {{ {operands} {body} }}")).declarations[
        -1
    ]
    assert isinstance(routine, Instruction)
    return routine


def used_by(routine: Instruction, *, model: bool = False) -> frozenset[str]:
    return build_call(routine, REGISTERS, CNames(), model=model).used


def test_a_function_of_a_whole_register_is_one_call_but_in_model_mode() -> None:
    routine = instruction("for i in 16 { z[i] = tanh(a[i]); }")
    assert "tanh_f32x16" in used_by(routine)
    assert "tanh_f32x16" not in used_by(routine, model=True)
    assert "tanh_f32" in used_by(routine, model=True)


@pytest.mark.parametrize(
    ("body", "operands"),
    [
        ("for i in 16 { z[i] = tanh(a[15 - i]); }", "in a: f32[16] @ v; out z: f32[16] @ v;"),
        ("for i in 16 { z[i] = tanh(a[i] * 2); }", "in a: f32[16] @ v; out z: f32[16] @ v;"),
        ("for i in 12 { z[i] = tanh(a[i]); }", "in a: f32[12] @ v; out z: f32[12] @ v;"),
        ("for i in 8 { z[i] = tanh(a[i]); }", "in a: f64[8] @ v; out z: f64[8] @ v;"),
        ("for i in 8 { z[i] = tanh(a[i]); }", "in a: f32[8] @ v; out z: f32[16] @ v outside zero;"),
        ("for i in 16 { z[i] = atan2(a[i], 2); }", "in a: f32[16] @ v; out z: f32[16] @ v;"),
    ],
)
def test_what_is_not_one_function_of_every_lane_is_written_element_by_element(
    body: str, operands: str
) -> None:
    assert not any("x" in name.removeprefix("exp") for name in used_by(instruction(body, operands)))


def test_processors_without_such_an_instruction_perform_gates_on_whole_registers() -> None:
    for name in ("x86-avx2", "x86-avx512"):
        there = {i.name for i in load_machine(name).instructions.values()}
        assert any(i.startswith("sigmoid_") and i.endswith("mm_f32") for i in there)


def test_a_machine_performs_parts_of_functions_by_the_calls_that_it_names() -> None:
    parts = load_machine("x86-avx512").target.parts
    made = part_text("scale_f32x16", dict(parts)["scale_f32x16"])
    assert "return (f32x16)_mm512_scalef_ps(x, n);" in made
    texts = "".join(helper_texts(["exp_f32x16"], parts))
    assert "_mm512_scalef_ps" in texts
    assert "bits_f32x16" not in texts, "what a part replaces is not there"
    assert "bits_f32x16" in "".join(helper_texts(["exp_f32x16"]))


@pytest.mark.parametrize(("name", "lanes"), [("x86-avx2", 8), ("x86-avx512", 8), ("x86-avx512", 16)])
def test_parts_leave_functions_as_they_are(name: str, lanes: int) -> None:
    machine = load_machine(name)
    if missing_features(machine):
        pytest.skip(f"this processor is no {name}")
    flags, floats = (*FLAGS, *machine.target.flags, "-ffp-contract=off"), some_floats()[::16]
    floats = floats[: len(floats) // 16 * 16].copy()
    for function in FUNCTIONS:
        given = operands_of(function, floats)
        plain = performed(function, lanes, given, flags)
        alike = tuple((part, call) for part, call in machine.target.parts if "multiply_add" not in part)
        np.testing.assert_array_equal(plain, performed(function, lanes, given, flags, alike))
        once = performed(function, lanes, given, flags, machine.target.parts)
        assert error_in_places(function, once, given) <= (definition(function).ulp or 0), function
