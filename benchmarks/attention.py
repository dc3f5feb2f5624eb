"""Time attention as a model of single operators, compared with torch's and onnxruntime's, one thread, in alternation.

    python benchmarks/attention.py 512,512,causal 1,1024,all 512,512,causal,bf16

Each row: queries, keys, and `causal` or `all`; 8 heads of 64 numbers, f32. The runtimes take the same operators, and
onnxruntime also its `Attention`. In bf16, isamap compiles torch's operator, and onnxruntime's `Attention` stays in
f32, for it has no kernel of bf16. Processor times of each call, least and median in ms. The error is the largest
difference to torch in f32.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HEADS, WIDTH, SECONDS, LEAST = 8, 64, 12.0, 7
Call = Callable[[], Any]


def write_model(path: Path, sizes: Mapping[str, tuple[int, ...]], mask: Any, *, whole: bool) -> Path:
    """Write attention by single operators with a constant mask, or as one `Attention`."""
    onnx: Any = import_module("onnx")
    helper = onnx.helper
    if whole:
        nodes = [helper.make_node("Attention", ["q", "k", "v"], ["o"], is_causal=int(mask is not None))]
        constants: dict[str, Any] = {}
    else:
        masking = [] if mask is None else [helper.make_node("Where", ["mask", "s", "low"], ["m"])]
        nodes = [
            helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
            helper.make_node("Mul", ["q", "scale"], ["qs"]),
            helper.make_node("MatMul", ["qs", "kt"], ["s"]),
            *masking,
            helper.make_node("Softmax", ["m" if masking else "s"], ["p"], axis=-1),
            helper.make_node("MatMul", ["p", "v"], ["o"]),
        ]
        constants = {"scale": np.float32(WIDTH**-0.5)}
        constants |= {} if mask is None else {"mask": mask, "low": np.float32(-np.inf)}
    ports = {n: helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in sizes.items()}
    result = helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, sizes["q"])
    known = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "attention", [*ports.values()], [result], known)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)
    return path


def by_onnxruntime(path: Path, inputs: Mapping[str, Any]) -> Call:
    """Return a call of onnxruntime."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, dict(inputs))[0]


def by_torch(given: list[Any], *, causal: bool) -> dict[str, Call]:
    """Return calls of torch's operator on narrow numbers: by isamap and by torch, each without keeping gradients."""
    torch: Any = import_module("torch")
    attend = torch.nn.functional.scaled_dot_product_attention
    narrow = [tensor.bfloat16() for tensor in given]

    def plain(q: Any, k: Any, v: Any) -> Any:
        return attend(q, k, v, is_causal=causal)

    fast = torch.compile(plain, backend=import_module("isamap.torch").backend)
    return {"isamap": lambda: fast(*narrow).float().numpy(), "torch": lambda: plain(*narrow).float().numpy()}


def measure(queries: int, keys: int, kind: str, dtype: str = "f32") -> dict[str, Any]:
    """Return the times of each contender at these sizes, and how far isamap's results are from torch's in f32."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    sizes = {"q": (1, HEADS, queries, WIDTH), **dict.fromkeys("kv", (1, HEADS, keys, WIDTH))}
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal(size, dtype=np.float32) for name, size in sizes.items()}
    mask = np.tri(queries, keys, dtype=bool) if kind == "causal" else None
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        apart = write_model(Path(folder) / "apart.onnx", sizes, mask, whole=False)
        whole = write_model(Path(folder) / "whole.onnx", sizes, mask, whole=True)
        given = [torch.from_numpy(inputs[name]) for name in "qkv"]
        attend = torch.nn.functional.scaled_dot_product_attention
        judge: Call = lambda: attend(*given, is_causal=mask is not None).numpy()  # noqa: E731 - a contender in f32
        if dtype == "bf16":
            calls = by_torch(given, causal=mask is not None)
        else:
            model = import_module("isamap.onnx").compile_model(apart, "host", threads=1)
            calls = {"isamap": lambda: next(iter(model(inputs).values())), "torch": judge}
            calls["onnxruntime"] = by_onnxruntime(apart, inputs)
        calls["Attention"] = by_onnxruntime(whole, inputs)
        error = float(np.abs(calls["isamap"]() - judge()).max())
        times: dict[str, list[float]] = {name: [] for name in calls}
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or len(times["torch"]) < LEAST:
            for name, call in calls.items():
                start = time.process_time_ns()
                call()
                times[name].append((time.process_time_ns() - start) / 1e6)
    rows = {name: (round(min(of), 3), round(median(of), 3)) for name, of in times.items()}
    return {"queries": queries, "keys": keys, "kind": kind, "type": dtype, "error": error, **rows}


if __name__ == "__main__":
    for word in sys.argv[1:]:
        first, second, *rest = word.split(",")
        print(json.dumps(measure(int(first), int(second), *rest)), flush=True)
