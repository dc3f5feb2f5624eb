"""The libraries that recurrent layers are compared with: each with the weights in the layout that it stores.

The shipped kernels hold a gate's weights as [features, units], torch and onnxruntime as [units, features].
What turns one into the other is outside the clock, and so is the copy of the last result into Y.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from time import perf_counter_ns
from typing import Any

import numpy as np

from isamap.bench.libraries import TORCH_TYPES, NotOffered, Ready, prepare_isamap, torch_implementation
from isamap.bench.onnx_model import recurrent_model
from isamap.bench.ring import Array, CellTask, Mapped

KINDS = {"gru": "GRU", "lstm": "LSTM", "rnn_relu": "RNN"}
"""The kernels that libraries have a layer for, and its name in them."""


def kind_of(task: CellTask) -> str:
    """The layer of a task as libraries call it."""
    return KINDS[task.cell.removesuffix("_bf16")]


def prepare_torch_cell(mapped: Mapped[CellTask], threads: int) -> Ready:
    """torch.nn.GRU, LSTM or RNN in inference mode. Raises: NotOffered."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise NotOffered from None
    torch.set_num_threads(threads)
    dtype = getattr(torch, TORCH_TYPES[mapped.task.form])

    def tensor(array: Array) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array, np.float32)).to(dtype)

    arrays = {name: copies[0].astype(np.float32) for name, copies in mapped.arrays.items() if name != "Y"}
    units, features = arrays["U"].shape[-1], arrays["X"].shape[-1]
    more = {"nonlinearity": "relu"} if kind_of(mapped.task) == "RNN" else {}
    layer = getattr(torch.nn, kind_of(mapped.task))(features, units, **more).to(dtype)
    with torch.no_grad():
        for ours, theirs in (("W", layer.weight_ih_l0), ("U", layer.weight_hh_l0)):
            theirs.copy_(
                tensor(arrays[ours].reshape(-1, *arrays[ours].shape[-2:]).swapaxes(1, 2)).reshape(
                    theirs.shape
                )
            )
        layer.bias_ih_l0.copy_(tensor(arrays["b"].reshape(-1)))
        layer.bias_hh_l0.copy_(tensor(arrays.get("d", 0 * arrays["b"]).reshape(-1)))
    given, first = tensor(arrays["X"]), tensor(arrays["h0"])[None]
    state = (first, tensor(arrays["c0"])[None]) if "c0" in arrays else first

    def call(at: int = 0) -> Any:
        return layer(given, state)[0]

    with torch.inference_mode():
        name = torch_implementation(torch, call)

    def keep(result: Any) -> None:
        mapped.arrays["Y"][0][...] = result.float().numpy().astype(mapped.arrays["Y"][0].dtype)

    def time(calls: int, first: int) -> int:
        with torch.inference_mode():
            return _timed(call, calls, keep)

    return Ready(time, f"torch {version('torch')}: {name}", False)


def prepare_onnxruntime_cell(mapped: Mapped[CellTask], threads: int) -> Ready:
    """The layer of onnxruntime, which has it in f32. Raises: NotOffered."""
    if mapped.task.form != "f32":
        raise NotOffered
    try:
        runtime: Any = import_module("onnxruntime")
    except ImportError:
        raise NotOffered from None
    arrays = {name: copies[0] for name, copies in mapped.arrays.items()}
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    model = recurrent_model(kind_of(mapped.task), arrays)
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = {"X": arrays["X"]}

    def keep(result: Any) -> None:
        arrays["Y"][...] = result[0][:, 0]

    def time(calls: int, first: int) -> int:
        return _timed(lambda: session.run(None, given), calls, keep)

    return Ready(time, f"onnxruntime {version('onnxruntime')}", False)


def _timed(call: Callable[[], Any], calls: int, keep: Callable[[Any], None]) -> int:
    """Nanoseconds of so many calls, the last of whose results is kept."""
    last = None
    start = perf_counter_ns()
    for _ in range(calls):
        last = call()
    ns = perf_counter_ns() - start
    keep(last)
    return ns


PREPARE_CELLS: dict[str, Callable[[Mapped[CellTask], int], Ready]] = {
    "isamap": prepare_isamap,
    "torch": prepare_torch_cell,
    "onnxruntime": prepare_onnxruntime_cell,
}
CELL_BASELINES = tuple(name for name in PREPARE_CELLS if name != "isamap")
