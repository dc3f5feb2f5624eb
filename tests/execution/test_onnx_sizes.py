"""Models whose sizes a call gives: one library is right for all of them, or says which it does not serve."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, computed, evaluated, imported, make, opened

from isamap.cli import main
from isamap.graph.graph import Array
from isamap.graph.importing import Imported
from isamap.graph.sizes import Given
from isamap.onnx import compile_model
from isamap.source import UsageProblem

RNG = np.random.default_rng(0)
MACHINE = "generic-c"
ATOL = 1e-5


def drawn(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def compare(found: Any, wanted: list[Array]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-4, atol=ATOL)


def perceptron() -> Any:
    nodes: Described = [
        ("Gemm", ["x", "w", "b"], ["h"], {}),
        ("Relu", ["h"], ["r"], {}),
        ("MatMul", ["r", "v"], ["y"], {}),
    ]
    weights = {"w": drawn(6, 8), "b": drawn(8), "v": drawn(8, 3)}
    return opened(make(nodes, {"x": drawn(2, 6)}, ["y"], weights), x=["batch"])


DECODER: Described = [
    ("Concat", ["past", "k"], ["keys"], {"axis": 1}),
    ("Transpose", ["keys"], ["columns"], {"perm": [0, 2, 1]}),
    ("MatMul", ["q", "columns"], ["scores"], {}),
    ("Softmax", ["scores"], ["weights"], {"axis": -1}),
    ("MatMul", ["weights", "keys"], ["y"], {}),
]


def decoder() -> Any:
    inputs = {"q": drawn(1, 1, 4), "k": drawn(1, 1, 4), "past": drawn(1, 1, 4)}
    model = make(DECODER, inputs, ["y", "keys"])
    return opened(model, q=["batch"], k=["batch"], past=["batch", "length"])


def test_a_library_serves_each_size_of_its_range() -> None:
    model = perceptron()
    library = compile_model(imported(model, sizes={"batch": (1, 9)}), MACHINE, jobs=1)
    assert library.inputs == {"x": ("f32", (library.emitted.inputs[0].passed.shape[0], 6))}
    for batch in range(1, 10):
        given = {"x": drawn(batch, 6)}
        compare(library(given).values(), evaluated(model, given))


def test_a_range_of_zeros_alone_is_quantised_as_the_evaluator_does() -> None:
    nodes: Described = [("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"], {})]
    model = opened(make(nodes, {"x": drawn(2)}, ["y", "scale", "zero"]), x=["length"])
    library = compile_model(imported(model, sizes={"length": (1, 4)}), MACHINE, jobs=1)
    for row in ([0], [3], [-3], [0, 0, 0], [0, -1], [1e-30, 0, 2, 5]):
        given = {"x": np.asarray(row, np.float32)}
        compare(library(given).values(), evaluated(model, given))


def test_a_library_has_schedules_for_several_sizes_of_a_range() -> None:
    model = perceptron()
    library = compile_model(imported(model, sizes={"batch": "1..9@1,8"}), MACHINE, jobs=1)
    for batch in (1, 2, 7, 9):
        given = {"x": drawn(batch, 6)}
        compare(library(given).values(), evaluated(model, given))


def test_a_cache_of_any_length_is_joined_and_read_by_one_library() -> None:
    model = decoder()
    library = compile_model(imported(model, sizes={"batch": (1, 2), "length": (1, 17)}), MACHINE, jobs=1)
    for batch, length in ((1, 1), (2, 1), (1, 17), (2, 17), (2, 8)):
        given = {"q": drawn(batch, 1, 4), "k": drawn(batch, 1, 4), "past": drawn(batch, length, 4)}
        compare(library(given).values(), evaluated(model, given))


def test_sizes_of_a_call_are_checked_against_the_range_and_against_each_other() -> None:
    library = compile_model(imported(decoder(), sizes={"batch": (1, 2), "length": (1, 17)}), MACHINE, jobs=1)
    q, k = drawn(2, 1, 4), drawn(2, 1, 4)
    with pytest.raises(UsageProblem, match="`length` is from 1 to 17 in this library, and 18 is given"):
        library({"q": q, "k": k, "past": drawn(2, 18, 4)})
    with pytest.raises(UsageProblem, match=r"`past` is an array f32\[batch, length, 4\]"):
        library({"q": q, "k": k, "past": drawn(1, 3, 4)})
    with pytest.raises(UsageProblem, match=r"`made_run` returned 101"):
        library.call_at([0, 1, *(array.ctypes.data for array in (q, k, q))], [q.ctypes.data, k.ctypes.data])


SHAPED: Described = [
    ("Shape", ["x"], ["sizes"], {}),
    ("Gather", ["sizes", "zero"], ["b"], {}),
    ("Gather", ["sizes", "one"], ["s"], {}),
    ("Unsqueeze", ["b", "front"], ["b1"], {}),
    ("Unsqueeze", ["s", "front"], ["s1"], {}),
    ("Concat", ["b1", "s1", "heads"], ["apart"], {"axis": 0}),
    ("Reshape", ["x", "apart"], ["h"], {}),
    ("Transpose", ["h"], ["q"], {"perm": [0, 2, 1, 3]}),
    ("Transpose", ["h"], ["k"], {"perm": [0, 2, 3, 1]}),
    ("MatMul", ["q", "k"], ["scores"], {}),
    ("Concat", ["s1", "s1"], ["square"], {"axis": 0}),
    ("ConstantOfShape", ["square"], ["ones"], {}),
    ("Trilu", ["ones"], ["mask"], {"upper": 0}),
    ("Range", ["zero", "s", "one"], ["places"], {}),
    ("Cast", ["places"], ["bias"], {"to": 1}),
    ("Add", ["scores", "mask"], ["masked"], {}),
    ("Add", ["masked", "bias"], ["biased"], {}),
    ("Softmax", ["biased"], ["weights"], {"axis": -1}),
    ("MatMul", ["weights", "q"], ["mixed"], {}),
    ("Transpose", ["mixed"], ["back"], {"perm": [0, 2, 1, 3]}),
    ("Concat", ["b1", "s1", "rest"], ["together"], {"axis": 0}),
    ("Reshape", ["back", "together"], ["m"], {}),
    ("LayerNormalization", ["m", "gain"], ["n"], {"axis": -1}),
    ("ReduceMean", ["n", "middle"], ["mean"], {"keepdims": 1}),
    ("Sub", ["n", "mean"], ["y"], {}),
]
KNOWN: dict[str, Array] = {
    "zero": np.asarray(0), "one": np.asarray(1), "front": np.asarray([0]), "heads": np.asarray([2, -1]),
    "rest": np.asarray([-1]), "gain": drawn(6), "middle": np.asarray([1]),
}  # fmt: skip


def test_arithmetic_on_open_sizes_reshapes_and_fills_arrays() -> None:
    model = opened(make(SHAPED, {"x": drawn(2, 3, 6)}, ["y"], KNOWN), x=["batch", "sequence"])
    program = imported(model, sizes={"batch": (1, 3), "sequence": (1, 5)}).whole()
    for batch, sequence in product((1, 3), (1, 2, 5)):
        given = {"x": drawn(batch, sequence, 6)}
        compare(computed(program, given, {"N0": batch, "N1": sequence}), evaluated(model, given))


SLICES = (([1], [100], [1]), ([-1], [100], [1]), ([0], [-1], [1]), ([-1], [-100], [-1]), ([-100], [-2], [2]))


@pytest.mark.parametrize("cut", SLICES, ids=str)
def test_slices_of_an_open_axis_are_as_long_as_the_axis_says(
    cut: tuple[list[int], list[int], list[int]],
) -> None:
    bounds = dict(zip(("starts", "ends", "steps"), map(np.asarray, cut), strict=True))
    nodes: Described = [("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"], {})]
    model = make(nodes, {"x": drawn(2, 3)}, ["y"], {**bounds, "axes": np.asarray([1])})
    program = imported(opened(model, x=[None, "length"]), sizes={"length": (3, 9)}).whole()
    for length in (3, 4, 9):
        given = {"x": drawn(2, length)}
        compare(computed(program, given, {"N0": length}), evaluated(model, given))


def findings(nodes: Described, known: dict[str, Array], **sizes: Given) -> str:
    model = opened(make(nodes, {"x": drawn(4, 6)}, ["y"], known), x=["batch"])
    found: Imported = imported(model, sizes=sizes)
    assert found.program is None
    return "\n".join(f"{d.message} | {d.help}" for d in found.findings)


def test_a_node_that_needs_a_number_is_refused_by_its_name() -> None:
    said = findings([("EyeLike", ["x"], ["y"], {})], {}, batch=(1, 8))
    assert said == (
        "`n0` (EyeLike) is not taken: it computes with the number `batch`, and `batch` is open from 1 to 8"
        " | give it one number: -D batch=…"
    )


def test_sizes_that_fit_one_number_only_are_refused_with_the_name_of_the_size() -> None:
    said = findings([("Reshape", ["x", "shape"], ["y"], {})], {"shape": np.asarray([4, 6])}, batch=(1, 8))
    assert said.startswith("`n0` (Reshape) is not taken: (6*batch) elements have no sizes [4, 6]")


def test_where_the_answer_changes_within_the_range_the_message_says_where() -> None:
    nodes: Described = [("Squeeze", ["x"], ["y"], {})]
    said = findings(nodes, {}, batch=(1, 8))
    assert said == (
        "`n0` depends on whether batch == 1, which differs for `batch` from 1 to 8"
        " | give a range in which it is the same: -D batch=2..8"
    )


def test_the_command_compiles_a_range_and_says_what_is_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mlp.onnx").write_bytes(perceptron().SerializeToString())
    words = ["compile", "mlp.onnx", "--hw", MACHINE, "-D", "batch=1..9", "--heuristic", "greedy", "-o", "out"]
    assert main(words) == 0
    assert "`batch` is open: a call gives it, from 1 to 9" in capsys.readouterr().out
    header = Path("out/mlp.h").read_text(encoding="utf-8")
    assert "  int64_t batch; /* 1 to 9 */" in header
    assert "float *x; /* f32[batch, 6] */" in header
    assert main([*words, "--json", "--force"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["inputs"] == [{"name": "x", "type": "f32", "shape": ["batch", 6]}]
    assert said["sizes"] == [{"name": "batch", "symbol": "N0", "low": 1, "high": 9, "profiles": []}]


@pytest.mark.parametrize(
    "words",
    [
        ["compile", "--fusion", "cpsat"],
        ["compile", "--devices", "2"],
        ["import"],
        ["graph", "show"],
    ],
    ids=" ".join,
)
def test_what_takes_known_sizes_says_so(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mlp.onnx"
    path.write_bytes(perceptron().SerializeToString())
    command = [w for w in words if not w.startswith("-") and w not in ("cpsat", "2")]
    rest = words[len(command) :]
    machine = [] if command == ["import"] else ["--hw", MACHINE]
    output = [] if command == ["graph", "show"] else ["-o", str(tmp_path / "out")]
    assert main([*command, str(path), *machine, *rest, "-D", "batch=1..9", *output]) == 2
    said = capsys.readouterr().err
    assert "needs known sizes, and `batch` is open from 1 to 9" in said
    assert "help: give it a number: -D batch=9" in said


def test_arrays_that_are_not_as_a_library_reads_them_are_converted_or_refused() -> None:
    given = {"q": drawn(2, 1, 4), "k": drawn(2, 1, 4), "past": drawn(2, 8, 4)}
    model = make(DECODER, given, ["y", "keys"])
    library, wanted, past = (
        compile_model(imported(model), MACHINE, jobs=1),
        evaluated(model, given),
        given["past"],
    )
    locked = past.copy()
    locked.flags.writeable = False
    for same in (past, np.asfortranarray(past), np.repeat(past, 2, axis=2)[:, :, ::2], locked):
        compare(library({**given, "past": same}).values(), wanted)
    compare(library({name: given[name] for name in reversed(given)}).values(), wanted)
    for wrong in (past.astype(np.float64), past.astype(np.int64), past[:, :7], past[0]):
        with pytest.raises(UsageProblem, match="`past` is an array f32"):
            library({**given, "past": wrong})
    with pytest.raises(UsageProblem, match="there is no input `z`"):
        library({"q": given["q"], "k": given["k"], "z": past})
    first, second = (library(given) for _ in range(2))
    assert all(not np.shares_memory(a, b) for a, b in zip(first.values(), second.values(), strict=True))
