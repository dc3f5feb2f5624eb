"""Parameters that stand for a number without effect: one general instruction performs the simpler statements."""

from __future__ import annotations

from pathlib import Path

import pytest
from brute_pairings import idle_number
from unit.matching import instruction, kernel, mappings

from isamap.cli import main
from isamap.ir import OPS, Call, Read, Scalar, print_expr
from isamap.ir.dtypes import TYPE_SETS
from isamap.machine.templates import begin
from isamap.match import prove
from isamap.transform import statements
from isamap.transform.statements import number_without_effect

GENERAL = instruction(
    "instruction requantise(scalar s: f32, scalar point: f32, scalar low: i8, scalar high: i8) {"
    " in x: i32[8] @ reg; out y: i8[8] @ reg;"
    " for i in 8 { y[i] = min(max(sat_i8(round(f32(x[i]) * s, even) + point), low), high); } }"
)


def test_a_number_without_effect_returns_every_value() -> None:
    """The table agrees with trials over special values, for each operation, side and type."""
    wrong: list[tuple[object, ...]] = []
    tried = 0
    for op, row in OPS.items():
        for dtype in TYPE_SETS[row.domain] if row.arity == 2 and row.result == "same" else ():
            if dtype.kind == "bool" or dtype.bits < 8 or not dtype.has_infinity:
                continue
            a, s = Read("a", (), dtype), Scalar("s", dtype)
            for at, args in enumerate(((s, a), (a, s))):
                call = Call(op, args, dtype, mode=row.modes[0] if row.modes else "")
                found, own = idle_number(call, at, dtype), number_without_effect(op, at, dtype)
                tried += own is not None
                if found != own:
                    wrong.append((op, at, dtype.name, found, own))
    assert wrong == []
    assert tried > 100


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        (
            "sat_i8(round(f32(X[n]) * 0.5, even) + 3)",
            {"s": "0.5", "point": "3", "low": "-128", "high": "127"},
        ),
        ("sat_i8(round(f32(X[n]) * 0.5, even))", {"s": "0.5", "point": "-0.0", "low": "-128", "high": "127"}),
        ("sat_i8(round(f32(X[n]), even))", {"s": "1", "point": "-0.0", "low": "-128", "high": "127"}),
        (
            "max(sat_i8(round(f32(X[n]) * 0.5, even)), 0)",
            {"s": "0.5", "point": "-0.0", "low": "0", "high": "127"},
        ),
    ],
)
def test_a_general_instruction_performs_simpler_statements(value: str, bound: dict[str, str]) -> None:
    given = kernel("in X: i32[N]; out Y: i8[N];", f"for n in N {{ Y[n] = {value}; }}", "N")
    found = [m for m in mappings(GENERAL, given) if not m.composed]
    assert [{b.name: print_expr(b.subject) for b in m.bindings if not b.pattern} for m in found] == [bound]
    (statement,) = statements(given)
    assert [prove(GENERAL, statement, m).status for m in found] == ["proved"]


def test_an_instruction_whose_operations_have_no_effect_is_dropped() -> None:
    scale = instruction(
        "instruction scale(scalar s: f32) { in x: f32[8] @ reg; out y: f32[8] @ reg;"
        " for i in 8 { y[i] = x[i] * s; } }"
    )
    given = kernel("in X: f32[N]; out Y: f32[N];", "for n in N { Y[n] = X[n] + 3; }", "N")
    assert not list(mappings(scale, given))


def test_code_with_numbers_without_effect_is_exact(
    tmp_path: Path,
) -> None:
    """The accelerator of a template requantises with one instruction, whatever the statement leaves out."""
    machine, text = tmp_path / "mine.yaml", tmp_path / "narrow.ir"
    machine.write_text(begin("mine", "npu", {}), encoding="utf-8")
    text.write_text(
        "kernel narrow(M, N, K) { in A: i8[M, K]; in B: i8[K, N]; in f: f32[N]; out Y: i8[M, N]; temp C: i32[M, N];"
        " for m in M, n in N { C[m, n] = 0; } for m in M, n in N, k in K { C[m, n] += i32(A[m, k]) * i32(B[k, n]); }"
        " for m in M, n in N { Y[m, n] = sat_i8(round(f32(C[m, n]) * f[n], even)); } }",
        encoding="utf-8",
    )
    shared = [str(text), "--hw", str(machine), "-D", "M=20", "N=24", "K=17", "--heuristic", "greedy"]
    assert main(["compile", *shared, "-o", str(tmp_path / "out")]) == 0
    assert "requantise_i8(" in (tmp_path / "out" / "narrow.c").read_text(encoding="utf-8")
    assert main(["verify", *shared]) == 0
