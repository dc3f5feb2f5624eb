"""`isamap hw new` writes descriptions that pass `hw check` and compile products at once."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from quantised_networks import Network

from isamap.cli import main
from isamap.machine import load_machine
from isamap.machine.lint import find_warnings
from isamap.machine.templates import KINDS, begin
from isamap.onnx.onnx_models import compile_model

SIZES = ("-D", "M=32", "N=32", "K=32")
EDGES = [
    ("vector", "bytes", [8, 1024]),
    ("vector", "registers", [8, 64]),
    ("matrix", "rows", [2, 31, 256]),
    ("matrix", "bus_bytes", [4, 256]),
    ("matrix", "clock_ghz", [0.25, 3.5]),
    ("npu", "rows", [2, 31, 256]),
    ("npu", "bus_bytes", [4, 256]),
    ("dsp", "bytes", [8, 1024]),
    ("dsp", "local_bytes", [4096, 1 << 20]),
    ("cluster", "cores", [1, 64]),
    ("cluster", "clock_ghz", [0.25, 3.5]),
    ("abstract", "m", [1, 100]),
    ("abstract", "k", [1, 100]),
]


def begun(folder: Path, kind: str, **given: float) -> str:
    path = folder / "mine.yaml"
    path.write_text(begin("mine", kind, given), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("kernel", ["gemm_f32", "gemm_u8s8"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_machine_compiles_products_by_its_own_instructions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, kernel: str
) -> None:
    words = ["compile", kernel, "--hw", begun(tmp_path, kind), "-o", str(tmp_path / "out"), *SIZES]
    assert main([*words, "--heuristic", "greedy", "--no-cache"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^  (multiply|product)\w* \{", said, re.MULTILINE), said


@pytest.mark.parametrize(("kind", "name", "values"), EDGES)
def test_nothing_is_odd_in_a_new_machine_whatever_its_figures(
    tmp_path: Path, kind: str, name: str, values: list[float]
) -> None:
    """An array of more cells than a memory has room for is odd: the figures do not fit."""
    for value in values:
        found = find_warnings(load_machine(begun(tmp_path, kind, **{name: value})))
        assert {d.code for d in found} <= ({"memory-too-small"} if (name, value) == ("rows", 256) else set())


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_that_is_asked_is_in_the_text(kind: str) -> None:
    usual = begin("mine", kind, {})
    assert not re.search("@[A-Z_]+@", usual)
    for asked in KINDS[kind].asked:
        assert begin("mine", kind, {asked.name: asked.usual * 2}) != usual


def test_a_terminal_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", Terminal("matrx\nmatrix\nmany\n8\n64 KiB\n\n\n\n"))
    assert main(["hw", "new", "edge"]) == 0
    asked = capsys.readouterr().err
    assert "kind, one of vector, matrix, npu, dsp, cluster, abstract [vector]:" in asked
    assert "did you mean `matrix`?" in asked
    assert "rows is 2 to 256, not `many`" in asked
    assert "spad_bytes, bytes of the scratchpad" in asked
    machine = load_machine(str(tmp_path / "edge.yaml"))
    assert machine.memories["spad"].capacity_bytes == 65536
    assert machine.memories["weights"].capacity_bytes == 2 * 8 * 32


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_machine_performs_the_first_layer_of_a_network_as_written(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")
    net = Network()
    filters = net.constant(net.drawn.standard_normal((16, 3, 3, 3)).astype(np.float32))
    biases = net.constant(net.drawn.standard_normal(16).astype(np.float32))
    y = net.node("Conv", ["x", filters, biases], kernel_shape=[3, 3], pads=[1] * 4)
    path = net.save(tmp_path / "first.onnx", {"x": (1, 3, 8, 8)}, net.node("Relu", [y]))
    made = compile_model(path, begun(tmp_path, kind))
    divided = made.library.divided
    own = [t for n, t in made.program.kernels.items() if divided is None or n not in divided.why]
    assert sum("r0" in text and "+=" in text for text in own) == 1, "the sum is the machine's"
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    (result,), (expected,) = made({"x": x}).values(), compile_model(path, "generic-c")({"x": x}).values()
    assert np.allclose(result, expected, rtol=1e-5, atol=1e-5)
    assert np.ptp(result) > 1
