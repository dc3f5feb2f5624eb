"""Conversions and fused products are computed on several elements at once, on every processor with vectors."""

from __future__ import annotations

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.hw_specs import machine_path, shipped_machines
from isamap.ir.dtypes import DTYPES, converts_exactly
from isamap.lower.program import Issue
from isamap.lower.walk import walk
from isamap.source import Source

NAMES = ("f32", "i32", "i16", "i8", "u8")
INTO_BYTES = {
    f"{how}_{to}({source})" for to in ("i8", "u8") for source in ("i32", "i16") for how in ("sat", "wrap")
}
FROM_FLOATS = {f"sat_{to}(f32)" for to in ("i32", "i16", "i8", "u8")}
NARROWER = {*INTO_BYTES, *FROM_FLOATS, "sat_i16(i32)", "wrap_i16(i32)", "sat_u8(i8)", "wrap_u8(i8)"}
OTHER_SIGN = {"sat_i8(u8)", "wrap_i8(u8)"}

SCALAR = {
    "mips-msa": (
        {*NARROWER, *OTHER_SIGN, *(f"{to}({source})" for to in ("f32", "i32") for source in ("i8", "u8"))},
        "its instructions that pack two registers are not used for these conversions; none widens bytes to 32 bits",
    ),
    "power10-mma": (
        {
            *NARROWER,
            *OTHER_SIGN,
            *(f"{to}({source})" for to in ("f32", "i32") for source in ("i16", "i8", "u8")),
            "i16(i8)",
            "i16(u8)",
        },
        "its instructions that pack or widen integers are not used for these conversions",
    ),
    "s390x-vector": (
        {*NARROWER, *OTHER_SIGN},
        "its instructions that pack two registers are not used for these; none converts floats to integers",
    ),
    "riscv-rvv": ({"sat_u8(f32)"}, "two conversions take longer than scalar code by the costs of the X60"),
}
"""The conversions that a description performs one element at a time, with the reason."""

SCALAR_FUSED = {
    "wasm-simd128": "its SIMD has no fused product",
    "riscv-rvv": "with three loads, vectors take longer than scalar code by the costs of the X60",
}
"""The machines that compute `fma` one element at a time, with the reason."""

SCALAR_FILLS = {"power10-mma": {"i64"}, "s390x-vector": {"i64"}}
"""The types that a description fills one element at a time: its vectors of them have no instructions."""


def conversions() -> list[str]:
    """Return all conversions between two types: exact ones, and those that saturate or wrap."""
    found: list[str] = []
    for source in NAMES:
        for to in NAMES:
            if converts_exactly(DTYPES[source], DTYPES[to]) or to == "f32":
                found += [] if source == to else [f"{to}({source})"]
            else:
                found += [f"{how}_{to}({source})" for how in ("sat", "wrap")[: 1 if source == "f32" else 2]]
    return found


def of_processors() -> list[str]:
    """Return the shipped machines that extend the scalar processor, directly or not."""
    stated = {name: machine_path(name).read_text(encoding="utf-8") for name in shipped_machines()}
    extends = {n: t.split("\nextends: ")[1].split("\n")[0] for n, t in stated.items() if "\nextends: " in t}

    def root(name: str) -> str:
        return root(extends[name]) if name in extends else name

    return [name for name in extends if root(name) == "generic-c"]


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize("hw", of_processors())
def test_numbers_change_their_type_in_lanes(hw: str) -> None:
    every = conversions()
    ports = "".join(f"in {source}s: {source}[N]; " for source in NAMES)
    results = "".join(f"out y{at}: {one.split('(')[0].split('_')[-1]}[N]; " for at, one in enumerate(every))
    loops = "\n".join(f"for n in N {{ y{at}[n] = {one[:-1]}s[n]); }}" for at, one in enumerate(every))
    text = f"kernel conversions(N) {{ {ports}{results}\n{loops}\n}}"
    request = Request(Source("k.ir", text), hw, {"N": 64}, heuristic="greedy")
    found = [w for w in compile_kernel(request, "schedule").warnings if w.code == "scalar-only"]
    scalar = {one for at, one in enumerate(every) if any(f"`y{at}[n] =" in w.message for w in found)}
    expected, reason = SCALAR.get(hw, (set[str](), ""))
    assert scalar == expected, reason


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize("hw", of_processors())
def test_products_and_sums_rounded_once_are_computed_in_lanes(hw: str) -> None:
    text = """kernel fused(N) {
      in a: f32[N]; in b: f32[N]; in c: f32[N]; out y: f32[N]; in d: f64[N]; out z: f64[N];
      for n in N { y[n] = fma(a[n], b[n], c[n]); }
      for n in N { z[n] = fma(d[n], d[n], d[n]); }
    }"""
    for size in (64, 61, "1..100@64"):
        request = Request(Source("k.ir", text), hw, {"N": size}, heuristic="greedy")
        scalar = [w for w in compile_kernel(request, "schedule").warnings if w.code == "scalar-only"]
        assert len(scalar) == (2 if hw in SCALAR_FUSED else 0), (size, SCALAR_FUSED.get(hw, ""))


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize("hw", of_processors())
def test_a_number_fills_arrays_in_lanes(hw: str) -> None:
    scalar = set[str]()
    for dtype in ("f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8"):
        text = f"kernel filled() {{ out y: {dtype}[256]; for i in 256 {{ y[i] = 3; }} }}"
        found = compile_kernel(Request(Source("k.ir", text), hw, {}, heuristic="greedy"), "lower")
        assert found.program is not None
        issued = {node.instruction for node in walk(found.program.body) if isinstance(node, Issue)}
        if f"store_{dtype}" in issued:
            scalar.add(dtype)
    assert scalar == SCALAR_FILLS.get(hw, set[str]())
