"""The libraries that convolutions are compared with, on images and filters where they lie.

torch is given filters in the order that it stores them for the layout. What is packed is packed by oneDNN;
onnxruntime packs filters that the model holds, and does not pack those that each call brings.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from isamap.bench.convolutions import ConvCase
from isamap.bench.libraries import TORCH_TYPES, NotOffered, Ready, timed_calls, torch_implementation
from isamap.bench.onnx_model import convolution_model
from isamap.bench.ring import Array, Mapped


def prepare_torch_conv(mapped: Mapped[ConvCase], threads: int) -> Ready:
    """torch.nn.functional.conv2d in inference mode, or oneDNN with filters that it has packed.

    Raises: NotOffered.
    """
    task, case = mapped.task, mapped.task.case
    if task.form not in ("f32", "bf16"):
        raise NotOffered
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise NotOffered from None
    torch.set_num_threads(threads)
    dtype = getattr(torch, TORCH_TYPES[task.form])
    raw = {
        name: torch.frombuffer(mapped.arrays[name][0].view("uint8").reshape(-1), dtype=dtype)
        for name in "XFY"
    }
    x, y = (_image(case, name, raw[name]) for name in "XY")
    f = _filters(case, raw["F"])
    strides, pads = (case.stride_h, case.stride_w), (case.pad_h, case.pad_w)
    if task.packed:
        f = torch.ops.mkldnn._reorder_convolution_weight(f, pads, strides, (1, 1), case.groups, x.shape)

    def call(at: int = 0) -> Any:
        if task.packed:
            pointwise = torch.ops.mkldnn._convolution_pointwise
            return pointwise(x, f, None, pads, strides, (1, 1), case.groups, "none", [], "")
        return torch.nn.functional.conv2d(x, f, None, strides, pads, (1, 1), case.groups)

    def time(calls: int, first: int) -> int:
        with torch.inference_mode():
            return timed_calls(call, calls, y.copy_)

    with torch.inference_mode():
        implementation = torch_implementation(torch, call)
    return Ready(time, f"torch {version('torch')}: {implementation}", False)


def _image(case: ConvCase, name: str, raw: Any) -> Any:
    """A view [n, channels, rows, columns] of X or Y."""
    conv = case.shape
    channels, rows, columns = (conv.c, conv.h, conv.w) if name == "X" else (conv.k, conv.p, conv.q)
    if case.layout == "nchw":
        return raw.reshape(conv.n, channels, rows, columns)
    return raw.reshape(conv.n, rows, columns, channels).permute(0, 3, 1, 2)


def _filters(case: ConvCase, raw: Any) -> Any:
    """Filters [k, c, r, s], in memory as torch has them for the layout."""
    conv, g = case.shape, case.groups
    c, k = conv.c // g, conv.k // g
    if case.layout == "nchw":
        return raw.reshape(conv.k, c, conv.r, conv.s)
    if c == k == 1:
        turned = raw.reshape(conv.r, conv.s, 1, conv.k).permute(3, 2, 0, 1)
    else:
        turned = (
            raw.reshape(g, conv.r, conv.s, c, k).permute(0, 4, 3, 1, 2).reshape(conv.k, c, conv.r, conv.s)
        )
    torch: Any = import_module("torch")
    return turned.contiguous(memory_format=torch.channels_last)


def prepare_onnxruntime_conv(mapped: Mapped[ConvCase], threads: int) -> Ready:
    """Conv, or ConvInteger of u8 and s8, of images with channels before pixels. Raises: NotOffered."""
    task, case = mapped.task, mapped.task.case
    if task.form not in ("f32", "u8s8") or case.layout != "nchw":
        raise NotOffered
    try:
        runtime: Any = import_module("onnxruntime")
    except ImportError:
        raise NotOffered from None
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    conv = case.shape
    x: Array = mapped.arrays["X"][0].reshape(conv.n, conv.c, conv.h, conv.w)
    f: Array = mapped.arrays["F"][0].reshape(conv.k, conv.c // conv.groups, conv.r, conv.s)
    y: Array = mapped.arrays["Y"][0].reshape(conv.n, conv.k, conv.p, conv.q)
    pads, strides = (case.pad_h, case.pad_w) * 2, (case.stride_h, case.stride_w)
    model = convolution_model(x, f, y.shape, pads, strides, case.groups, held=task.packed)
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = {"X": x} if task.packed else {"X": x, "F": f}

    def keep(result: Any) -> None:
        np.copyto(y, result[0])

    def time(calls: int, first: int) -> int:
        return timed_calls(lambda: session.run(None, given), calls, keep)

    return Ready(time, f"onnxruntime {version('onnxruntime')}", False)
