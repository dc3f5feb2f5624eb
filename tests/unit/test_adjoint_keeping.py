"""Derivatives that read what the forward pass kept: the same values, and less is computed again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from finite_differences import in_f64, some_sizes

import isamap
from isamap.adjoint import differentiate
from isamap.cli import main
from isamap.driver.inputs import read_kernel
from isamap.ir import Kernel, interpret, verify
from isamap.ir.interpret import bind_all
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel

KERNELS = ["softmax_f32", "gru", "lstm", "layer_norm_f32", "linear_silu_f32", "attention", "gemm_f32"]


def values(kernel: Kernel, sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    bound = bind_all(kernel, sizes)
    return {
        o.name: rng.normal(size=tuple(int(e.value or 0) for e in o.shape))
        for o in bound.operands
        if o.role in ("in", "inout")
    }


def run(kernel: Kernel, given: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    taken = {o.name: given[o.name] for o in kernel.operands if o.role in ("in", "inout")}
    scalars = {p.name: 0.5 for p in kernel.params if p.dtype is not None}
    return interpret(kernel, taken, sizes, scalars)


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_kept_changes_no_derivative(name: str) -> None:
    kernel = in_f64(parse_kernel(read_kernel(name)))
    sizes = some_sizes(kernel)
    plain, all_kept = differentiate(kernel), differentiate(kernel, keep=differentiate(kernel).again)
    given = values(kernel, sizes, 0)
    upstream = values(plain.backward, sizes, 1)
    given |= {n: v for n, v in upstream.items() if n not in given}
    expected = run(plain.backward, given, sizes)
    made = run(all_kept.forward, given, sizes) if all_kept.forward is not None else {}
    results = run(kernel, given, sizes)
    for result, value in results.items():
        assert made.get(result, value) == pytest.approx(value)
    found = run(all_kept.backward, {**given, **made}, sizes)
    assert found.keys() == expected.keys()
    for output, value in expected.items():
        np.testing.assert_allclose(found[output], value, rtol=1e-9, atol=1e-12)
    assert all_kept.again == (), "nothing is computed again"


@pytest.mark.parametrize("name", KERNELS)
def test_each_array_may_be_kept_by_itself(name: str) -> None:
    kernel = parse_kernel(read_kernel(name))
    for array in differentiate(kernel).again:
        made = differentiate(kernel, keep=[array])
        assert array not in made.again
        assert made.forward is not None
        assert verify(made.forward) == verify(made.backward) == ()
        if made.kept:
            assert made.forward.operand(array).role == "out"
            assert made.backward.operand(array).role == "in"


def test_a_result_is_called_as_in_the_kernel_whatever_came_before_it() -> None:
    text = """kernel k(M, N) {
      in x: f32[M, N];
      out y: f32[M];
      for m in M { y[m] = 0; }
      for m in M, n in N { y[m] += x[m, n]; }
      for m in M { y[m] = tanh(y[m]); }
    }"""
    kernel = parse_kernel(Source("k.ir", text))
    assert differentiate(kernel).again == ("y_1", "y")
    made = differentiate(kernel, keep=["y"])
    assert (made.kept, made.again) == (("y",), ())
    assert made.forward is not None
    assert [o.name for o in made.forward.operands if o.role == "out"] == ["y"]


def test_what_cannot_be_kept_is_refused_with_what_can() -> None:
    kernel = parse_kernel(read_kernel("softmax_f32"))
    with pytest.raises(UsageProblem) as caught:
        differentiate(kernel, keep=["x"])
    (found,) = caught.value.diagnostics
    assert found.message == "`x` is not an array that the derivative computes again"
    assert found.help == "--keep takes top, y_1, total, total_1"
    with pytest.raises(UsageProblem) as caught:
        differentiate(parse_kernel(read_kernel("gemm_f32")), keep=["C"])
    assert caught.value.diagnostics[0].help == "leave --keep out: there is none"


def test_the_command_writes_both_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    back, fore = tmp_path / "back.ir", tmp_path / "forward.ir"
    words = ["--keep", "r,z", "-o", str(back), "--forward", str(fore), "--json"]
    assert main(["grad", "gru", *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["kept"] == ["r", "z"]
    assert "h_1" in answer["again"]
    assert parse_kernel(Source("back.ir", back.read_text())).operand("z").role == "in"
    assert parse_kernel(Source("forward.ir", fore.read_text())).operand("z").role == "out"
    assert main(["grad", "gru", "--forward", str(tmp_path / "f.ir")]) == 2
    assert "--keep" in capsys.readouterr().err


def test_what_costs_less_is_kept_by_prices(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["-D", "T=2", "N=4", "C=64", "H=64"]
    assert main(["grad", "gru", "--keep", "auto", "--hw", "generic-c", *sizes, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    prices = answer["prices"]
    assert prices[0]["kept"] == []
    assert answer["kept"] == min(prices, key=lambda p: p["forward_ns"] + p["backward_ns"])["kept"]
    assert "h_1" in answer["kept"], "its products are dearer than reading it"
    assert main(["grad", "gru", "--keep", "auto"]) == 2
    assert "--hw" in capsys.readouterr().err


def test_from_python_both_are_texts() -> None:
    forward, backward = isamap.gradient_pair("softmax_f32", keep=["y_1", "total"])
    assert "kernel softmax_f32_forward" in forward
    assert "in total: f32[M];" in backward
