"""Record files of this version, which later versions of the same major version must read.

    python tests/written_files.py tests/compatibility/1

The folder of a version is recorded once and then never changed (docs/compatibility.md). `test_compatibility.py`
reads each file of every folder.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from isamap.cli import main
from isamap.ir import Operand, interpret
from isamap.ir.interpret import bind_all
from isamap.source import Source
from isamap.syntax import parse_kernel

ROOT = Path(__file__).parents[1]
ONE = dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
KERNELS: dict[str, tuple[dict[str, int], dict[str, list[int]], dict[str, float]]] = {
    "attention": ({"L": 1, "H": 1, "M": 3, "N": 5, "D": 4, "causal": 1}, {}, {}),
    "conv2d_nhwc_pads": (
        {"N": 1, "C": 2, "K": 3, "H": 5, "W": 6, "R": 3, "S": 3, **ONE, "stride_w": 2}
        | {"top": 1, "left": 0, "bottom": 1, "right": 1},
        {},
        {},
    ),
    "conv2d_transposed_strided": (
        {"N": 1, "C": 2, "K": 2, "H": 3, "W": 3, "R": 3, "S": 3, "stride": 2},
        {},
        {},
    ),
    "csr_f32": ({"M": 3, "N": 2, "K": 4, "NNZ": 4}, {"row": [0, 2, 2, 4], "col": [0, 3, 1, 2]}, {}),
    "gemm_s8s8_requant": ({"M": 3, "N": 4, "K": 5}, {}, {"scale": 0.125}),
    "gemm_w4_f32": ({"M": 2, "N": 4, "G": 2, "H": 3}, {}, {}),
    "gru": ({"T": 2, "N": 2, "C": 3, "H": 4}, {}, {}),
    "layer_norm_f32": ({"M": 2, "N": 6}, {}, {"eps": 1e-5}),
}
"""Kernels that together use each part of the language: sizes, the arrays that hold indices, and scalars."""
COMMANDS = (
    "hw check machine.yaml",
    "match product.ir --hw machine.yaml -D M=32 N=32 K=32",
    "schedule product.ir --hw machine.yaml -D M=32 N=32 K=32 --heuristic greedy",
    "compile product.ir --hw machine.yaml -D M=32 N=32 K=32 --schedule product.schedule -o out",
    "verify product.ir --hw machine.yaml --program product.program",
    "run product.ir --hw machine.yaml --program product.program",
    "verify graph/graph.json --hw generic-c --heuristic greedy",
    "accesses product.ir --hw machine.yaml -D M=32 N=32 K=32 --schedule product.schedule",
    "grad kernels/layer_norm_f32.ir",
    "explain no-mapping",
)
"""Commands that read the files of a version. Their JSON keeps the names and the types that the version had."""


def results(
    text: str, sizes: Mapping[str, int], indices: Mapping[str, list[int]], scalars: Mapping[str, float]
) -> dict[str, list[float]]:
    """Return what the interpreter computes of small numbers and the given indices, as flat lists."""
    kernel = bind_all(parse_kernel(Source("k.ir", text)), sizes)
    arrays = {o.name: _fill(o, indices) for o in kernel.operands if o.role in ("in", "inout")}
    found = interpret(kernel, arrays, {}, scalars)
    return {name: [float(v) for v in array.astype(np.float64).ravel()] for name, array in found.items()}


def _fill(operand: Operand, indices: Mapping[str, list[int]]) -> np.ndarray:
    shape = tuple(int(extent.evaluate({})) for extent in operand.shape)
    numbers = (np.arange(int(np.prod(shape))).reshape(shape) * 7 + 3) % 11 - 5
    return np.asarray(indices.get(operand.name, numbers)).astype(operand.dtype.numpy())


def answer(command: str) -> dict[str, Any]:
    """Return the JSON of a command that must succeed in the current folder."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        code = main([*command.split(), "--json"])
    assert code == 0, printed.getvalue()
    return json.loads(printed.getvalue())


def types_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the type of each value of an answer in JSON; elements of a list share one path."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from types_of(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from types_of(inner, f"{path}[]")
    else:
        kind = {bool: "boolean", int: "number", float: "number", str: "text", type(None): "nothing"}
        yield path, kind[type(value)]


def _record(folder: Path) -> None:
    (folder / "kernels").mkdir()
    shipped = {name: (ROOT / "kernels" / f"{name}.ir").read_text(encoding="utf-8") for name in KERNELS}
    for name, text in shipped.items():
        (folder / "kernels" / f"{name}.ir").write_text(text, encoding="utf-8")
    rows = {
        name: {"given": given, "results": results(shipped[name], *given)} for name, given in KERNELS.items()
    }
    (folder / "kernels.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    machine = (ROOT / "hw_specs" / "edge-npu.yaml").read_text(encoding="utf-8")
    (folder / "machine.yaml").write_text(re.sub("(?m)^name: .*", "name: machine", machine), encoding="utf-8")
    shutil.copy(ROOT / "docs" / "examples" / "gemm_requant.ir", folder / "product.ir")
    os.chdir(folder)
    sizes = "--hw machine.yaml -D M=32 N=32 K=32 --heuristic greedy"
    answer(f"compile product.ir {sizes} -o out")
    shutil.move(next(Path("out").glob("*.schedule")), "product.schedule")
    shutil.rmtree("out")
    answer(f"compile product.ir {sizes} --emit program -o product.program")
    answer("import model.onnx -D batch=4 -o graph")
    Path("graph/manifest.json").unlink()
    Path("model.onnx").unlink()
    types = {command: dict(types_of(answer(command))) for command in COMMANDS}
    shutil.rmtree("out")
    Path("answers.json").write_text(json.dumps(types, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _record(Path(sys.argv[1]))
