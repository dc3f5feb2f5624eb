"""Functions of the language: written out where they are called, from a text or the library, on vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.emit.c import EmittedC
from isamap.ir import OPS, Kernel, print_routine
from isamap.kernels import list_functions
from isamap.run.runner import packed_arrays, run_program
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.syntax.function_library import FunctionLibrary, definition

COUNT = 1 << 16


def kernel(value: str, before: str = "") -> Kernel:
    text = f"{before} kernel k(N) {{ in x: f32[N]; out y: f32[N]; for i in N {{ y[i] = {value}; }} }}"
    return parse_kernel(Source("k.ir", text))


def printed(value: str, before: str = "") -> str:
    found = re.search(r"y\[i\] = (.*);", print_routine(kernel(value, before)))
    assert found is not None
    return found[1]


def test_a_call_is_its_expression() -> None:
    assert printed("silu(x[i])") == "x[i] * sigmoid(x[i])"
    own = "function f(a: f32, b: f32) { let s = a + b; return s * s; }"
    assert printed("f(x[i], 2)", own) == "(x[i] + 2) * (x[i] + 2)"


def test_names_of_a_function_and_of_a_kernel_do_not_meet() -> None:
    own = "function f(alpha: f32) { let beta = 2 * alpha; return beta; }"
    text = f"{own} kernel k(N, scalar beta: f32) {{ out y: f32[N]; for i in N {{ y[i] = f(beta); }} }}"
    assert "y[i] = 2*beta;" in print_routine(parse_kernel(Source("k.ir", text)))


def test_a_function_may_call_those_above_it_and_hide_those_of_the_library() -> None:
    own = "function silu(x: f32) { return x; } function twice(x: f32) { return silu(x) + silu(x); }"
    assert printed("twice(x[i])", own) == "x[i] + x[i]"


def test_the_library_defines_operations_and_functions() -> None:
    operations = {name for name in list_functions() if name in OPS}
    assert operations == {op.name for op in OPS.values() if op.ulp}
    assert [*FunctionLibrary()] == [name for name in list_functions() if name not in operations]
    assert all(definition(name).ulp for name in operations)


@pytest.mark.parametrize("hw", ["x86-avx2", "x86-avx512"])
@pytest.mark.parametrize("name", [n for n in list_functions() if n not in ("rsqrt", "atan2")])
def test_vectors_compute_every_function_without_a_call_for_each_element(name: str, hw: str) -> None:
    request = Request(
        Source("k.ir", print_routine(kernel(f"{name}(x[i])"))), hw, {"N": 64}, heuristic="greedy"
    )
    compilation = prepare(request).program.compilation
    assert isinstance(compilation.emitted, EmittedC)
    called = "|".join(op.name for op in OPS.values() if op.ulp)
    assert not re.search(rf"\b({called})f\(|\bload_f32\(x", compilation.emitted.source)


EXACT: dict[str, Callable[[Any], Any]] = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "gelu": lambda x: x / 2 * (1 + OPS["erf"].compute(x / np.sqrt(2))),
}


@pytest.mark.parametrize("hw", ["generic-c", "x86-avx2"])
@pytest.mark.parametrize("name", EXACT)
def test_a_function_is_as_exact_as_it_states(name: str, hw: str) -> None:
    given = np.concatenate([np.linspace(-20, 20, COUNT // 2), np.geomspace(1e-30, 1e30, COUNT // 2)])
    x = given.astype(np.float32)
    text = print_routine(kernel(f"{name}(x[i])"))
    prepared = prepare(Request(Source("k.ir", text), hw, {"N": COUNT}, heuristic="greedy"))
    packed = packed_arrays(prepared.packers, {"x": x, "y": np.zeros_like(x)}, {})
    made = run_program(prepared.compiled, packed, {}).arrays["y"].astype(np.float64)
    with np.errstate(all="ignore"):
        expected: Any = EXACT[name](x.astype(np.float64))
    fine = np.isfinite(expected) & (np.abs(expected) > np.finfo(np.float32).tiny)
    stated = FunctionLibrary()[name].ulp
    size = np.spacing(np.abs(expected if stated is not None else x).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(made - expected)[fine] / size[fine]) <= (stated or 2)


@pytest.mark.parametrize("hw", ["generic-c", "x86-avx2"])
def test_a_function_that_is_odd_gives_a_zero_of_the_sign_of_its_argument(hw: str) -> None:
    x = np.array([-0.0, 0.0] * 8, np.float32)
    names = ["erf", "expm1", "log1p", "silu", "sin", "tanh"]
    operands = " ".join(f"out y_{name}: f32[N];" for name in names)
    loops = " ".join(f"for i in N {{ y_{name}[i] = {name}(x[i]); }}" for name in names)
    source = Source("k.ir", f"kernel k(N) {{ in x: f32[N]; {operands} {loops} }}")
    prepared = prepare(Request(source, hw, {"N": x.size}, heuristic="greedy"))
    arrays = {"x": x, **{f"y_{name}": np.ones_like(x) for name in names}}
    found = run_program(prepared.compiled, packed_arrays(prepared.packers, arrays, {}), {}).arrays
    assert [name for name in names if np.signbit(found[f"y_{name}"]).tolist() != np.signbit(x).tolist()] == []


ZEROS = (("y", "0.0"), ("z", "-0.0"))


@pytest.mark.parametrize("hw", ["generic-c", "x86-avx2"])
def test_zeros_of_both_signs_are_two_numbers(hw: str) -> None:
    loops = " ".join(
        f"for i in N {{ {y}[i] = 1 / select(x[i] < 0, f32({zero}), x[i]); }}" for y, zero in ZEROS
    )
    source = Source("k.ir", f"kernel k(N) {{ in x: f32[N]; out y: f32[N]; out z: f32[N]; {loops} }}")
    x = np.full(16, -1, np.float32)
    prepared = prepare(Request(source, hw, {"N": x.size}, heuristic="greedy"))
    arrays = {"x": x, "y": np.zeros_like(x), "z": np.zeros_like(x)}
    found = run_program(prepared.compiled, packed_arrays(prepared.packers, arrays, {}), {}).arrays
    assert (found["y"] == np.inf).all()
    assert (found["z"] == -np.inf).all()
