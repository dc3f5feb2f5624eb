"""The libraries that recurrent layers are compared with: each with the weights in the layout that it stores.

The shipped kernels hold a gate's weights as [features, units], torch and onnxruntime as [units, features].
What turns one into the other is outside the clock, and so is the copy of the last result into Y. With packed
weights they are the same: onnxruntime packs when its session is made, torch as it likes at each call.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from isamap.bench.cells import CellCase
from isamap.bench.libraries import TORCH_TYPES, NotOffered, Ready, timed_calls, torch_implementation
from isamap.bench.onnx_model import recurrent_model
from isamap.bench.ring import Array, Mapped

LAYERS = {"gru": "GRU", "lstm": "LSTM", "rnn": "RNN"}
"""The layer of a cell as libraries call it."""


def prepare_torch_cell(mapped: Mapped[CellCase], threads: int) -> Ready:
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
    name = LAYERS[mapped.task.case.cell]
    more = {"nonlinearity": "relu"} if name == "RNN" else {}
    layer = getattr(torch.nn, name)(features, units, **more).to(dtype)
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
        implementation = torch_implementation(torch, call)

    def keep(result: Any) -> None:
        mapped.arrays["Y"][0][...] = result.float().numpy().astype(mapped.arrays["Y"][0].dtype)

    def time(calls: int, first: int) -> int:
        with torch.inference_mode():
            return timed_calls(call, calls, keep)

    return Ready(time, f"torch {version('torch')}: {implementation}", False)


def prepare_onnxruntime_cell(mapped: Mapped[CellCase], threads: int) -> Ready:
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
    model = recurrent_model(LAYERS[mapped.task.case.cell], arrays)
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = {"X": arrays["X"]}

    def keep(result: Any) -> None:
        arrays["Y"][...] = result[0][:, 0]

    def time(calls: int, first: int) -> int:
        return timed_calls(lambda: session.run(None, given), calls, keep)

    return Ready(time, f"onnxruntime {version('onnxruntime')}", False)
