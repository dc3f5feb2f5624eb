"""What a network has beside products, and products with what follows them, beside torch.

    python benchmarks/rows.py                    # minutes: every kernel at a few sizes
    python benchmarks/rows.py softmax_f32 --json

One thread; contenders take turns on the same data, and their results are compared. Least and median
microseconds of processor time, and how much longer torch takes than the program (median over rounds).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from alternate import program, ratio, source, turns

from isamap.driver.request import Request
from isamap.source import Source

torch: Any = import_module("torch")
functional = torch.nn.functional
Arrays = Mapping[str, Any]
Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """A kernel, the sizes that are timed, the array it writes, and what torch does on the same arrays."""

    sizes: tuple[Mapping[str, int], ...]
    output: str
    rival: Callable[[Arrays], Call]


def _rows(*shapes: tuple[int, int]) -> tuple[Mapping[str, int], ...]:
    return tuple({"M": m, "N": n} for m, n in shapes)


def _products(*shapes: tuple[int, int, int]) -> tuple[Mapping[str, int], ...]:
    return tuple({"M": m, "N": n, "K": k} for m, n, k in shapes)


def _groups(*shapes: tuple[int, int, int]) -> tuple[Mapping[str, int], ...]:
    """Groups of 32 weights."""
    return tuple({"M": m, "N": n, "G": k // 32, "H": 16} for m, n, k in shapes)


ROWS = _rows((512, 1024), (64, 4096), (4096, 768), (128, 50257))
PRODUCTS = _products((128, 3072, 768), (512, 1024, 1024), (1024, 512, 64))
EPS = 1e-5
SCALARS = {"eps": EPS, "zero": 128.0}


def _softmax(a: Arrays) -> Call:
    return lambda: torch.softmax(a["x"], 1)


def _layer_norm(a: Arrays) -> Call:
    shape = a["x"].shape[1:]
    return lambda: functional.layer_norm(a["x"], shape, a["gamma"], a["beta"], EPS)


def _rms_norm(a: Arrays) -> Call:
    shape = a["x"].shape[1:]
    return lambda: functional.rms_norm(a["x"], shape, a["gamma"], EPS)


def _linear(after: Callable[[Any, Arrays], Any]) -> Callable[[Arrays], Call]:
    """torch's own product with a bias of x's type, and what follows it."""

    def call(a: Arrays) -> Call:
        bias = a["b"].to(a["x"].dtype)
        return lambda: after(functional.linear(a["x"], a["W"], bias), a)

    return call


def _gelu(y: Any, a: Arrays) -> Any:
    return functional.gelu(y)


def _silu(y: Any, a: Arrays) -> Any:
    return functional.silu(y)


def _residual(y: Any, a: Arrays) -> Any:
    return y + a["r"]


def _gated(after: Callable[[Any, Arrays], Any]) -> Callable[[Arrays], Call]:
    """Return two products of torch, a function of the first, and the product of both."""

    def call(a: Arrays) -> Call:
        linear = functional.linear
        return lambda: after(linear(a["x"], a["W"]), a) * linear(a["x"], a["V"])

    return call


def _requantised(a: Arrays) -> Call:
    """torch's quantised layer, whose weights were packed before; its scales and zero points are its own."""
    scales = a["scale"].double().abs() + 1 / 64
    weights = torch.quantize_per_channel(
        a["B"].T.float() / 64, scales, torch.zeros_like(scales, dtype=torch.int64), 0, torch.qint8
    )
    x = torch._make_per_tensor_quantized_tensor(a["A"], 1 / 64, 128)
    packed = torch.ops.quantized.linear_prepack(weights, torch.zeros(a["B"].shape[1]))
    return lambda: torch.ops.quantized.linear(x, packed, 1.0, 128)


def _unpacked(a: Arrays) -> Call:
    """Return the product with weights that lie in memory as f32, eight times as many bytes."""
    halves = torch.stack([a["B"] & 15, a["B"] >> 4], dim=2).float() - 8
    weights = (halves * a["scale"][:, None, None]).reshape(-1, a["C"].shape[1])
    x = a["A"].reshape(a["C"].shape[0], -1)
    return lambda: torch.mm(x, weights)


LAYERS = {
    "softmax_f32": Layer(ROWS, "y", _softmax),
    "layer_norm_f32": Layer(ROWS, "y", _layer_norm),
    "rms_norm_f32": Layer(ROWS, "y", _rms_norm),
    "softmax_bf16": Layer(ROWS, "y", _softmax),
    "layer_norm_bf16": Layer(ROWS, "y", _layer_norm),
    "rms_norm_bf16": Layer(ROWS, "y", _rms_norm),
    **{
        f"linear_{name}_{dtype}": Layer(PRODUCTS, "y", _linear(after))
        for dtype in ("f32", "bf16")
        for name, after in (("gelu", _gelu), ("silu", _silu), ("residual", _residual))
    },
    **{
        f"{name}_{dtype}": Layer(PRODUCTS, "y", _gated(after))
        for dtype in ("f32", "bf16")
        for name, after in (("swiglu", _silu), ("geglu", _gelu))
    },
    "gemm_u8s8_requant": Layer(PRODUCTS, "C", _requantised),
    "gemm_w4_f32": Layer(_groups((1, 4096, 4096), (8, 4096, 4096), (128, 1024, 1024)), "C", _unpacked),
}


def main() -> None:
    """Compile, compare, take turns, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="only these")
    parser.add_argument("--hw", default="x86-avx512-bf16")
    parser.add_argument("--cases", type=int, default=9, help="only so many sizes of each")
    parser.add_argument("--kernel", type=Path, help="a text in place of the shipped kernel")
    parser.add_argument("--fix", action="append", default=[], metavar="NAME=VALUE", help="as of `compile`")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.backends.quantized.engine = "onednn"  # the fastest of those that torch has
    found: list[dict[str, Any]] = []
    for name in options.kernels or LAYERS:
        for sizes in LAYERS[name].sizes[: options.cases]:
            found.append(_measured(name, sizes, options))
            if not options.json:
                print(_line(found[-1], first=len(found) == 1), flush=True)
    if options.json:
        print(json.dumps(found, indent=2))


def _measured(name: str, sizes: Mapping[str, int], options: Any) -> dict[str, Any]:
    layer = LAYERS[name]
    path = options.kernel
    text = Source(path.name, path.read_text(encoding="utf-8")) if path else source(name)
    scalars = {n: v for n, v in SCALARS.items() if f"scalar {n}" in text.text}
    fixed = {n: int(v) for n, _, v in (word.partition("=") for word in options.fix)}
    made = Request(text, options.hw, sizes, fixed=fixed)
    call, arrays, schedule = program(text, options.hw, sizes, sizes, request=made, scalars=scalars)
    rival = layer.rival({n: _tensor(a) for n, a in arrays.items()})
    arrays[layer.output][...] = 0
    call()
    expected = _floats(rival())
    made = arrays[layer.output]
    if made.dtype != np.uint8:
        error = float(np.max(np.abs(_floats(_tensor(made)) - expected)))
    else:
        error = float("nan")  # scales are other ones
    times = turns({"isamap": call, "torch": rival})
    return {
        "kernel": name,
        "hw": options.hw,
        **sizes,
        "error": error,
        "predicted_us": (schedule.cost_ns or 0) / 1e3,
        **{
            f"{n}_{word}_us": of(t) * 1e6
            for n, t in times.items()
            for word, of in (("min", min), ("median", median))
        },
        "ratio": ratio(times, "torch", "isamap"),
    }


def _floats(tensor: Any) -> Any:
    return (tensor.int_repr() if tensor.is_quantized else tensor).float().numpy()


def _tensor(array: Any) -> Any:
    """Return the array as torch sees it, without a copy; bf16 lies in 16-bit words."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _line(row: Mapping[str, Any], first: bool) -> str:
    words = " ".join(f"{n}={row[n]}" for n in ("M", "N", "K", "G") if n in row)
    head = (
        f"{'kernel':19} {'sizes':26} {'predicted':>10} {'isamap min, median':>21} "
        f"{'torch min, median':>21} {'ratio':>6} {'error':>8}\n"
    )
    return (head if first else "") + (
        f"{row['kernel']:19} {words:26} {row['predicted_us']:10.1f} {row['isamap_min_us']:10.1f} "
        f"{row['isamap_median_us']:10.1f} {row['torch_min_us']:10.1f} {row['torch_median_us']:10.1f} "
        f"{row['ratio']:6.2f} {row['error']:8.1e}"
    )


if __name__ == "__main__":
    main()
