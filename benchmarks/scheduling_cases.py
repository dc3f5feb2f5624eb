"""The cases of scheduling.py: every shape of the suites as a kernel's text with sizes, in a machine's types.

Shapes that are equal but for their names are one case. Products in one batch are the shipped kernels; batched
ones and convolutions are written here, once for all types: the shipped ones are in f32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from string import Template

from isamap.kernels import kernel_path
from isamap.source import Source
from isamap.suites import BatchedProduct, Shape, read_suite

MACHINES = {"x86-amx": ("bf16", "s8"), "x86-avx512": ("f32",)}
# What elements are, what they are summed in, and how the shipped products call that.
TYPES = {"bf16": ("bf16", "f32", "bf16"), "s8": ("i8", "i32", "s8s8"), "f32": ("f32", "f32", "f32")}

BATCHED = Template(
    """kernel batched$name(L, M, N, K) {
  in A: $t[L, M, K]; in B: $t[$b]; inout C: $u[L, M, N];
  for l in L, m in M, n in N, k in K { C[l, m, n] += $u(A[l, m, k]) * $u(B[$i]); }
}
"""
)
# One to three axes of pixels, channels last; `stride` and `pad` of each by its letter.
CONV = Template(
    """kernel conv$rank(N, C, K, $sizes, $windows, $strides, $pads) where $fits {
  $lets
  in X: $t[N, $sizes, C]; in F: $t[$windows, C, K]; inout Y: $u[N, $outs, K];
  for n in N, $out_loops, k in K, $window_loops, c in C {
    Y[n, $out, k] += $u(X[n, $at, c] else 0) * $u(F[$window, c, k]);
  }
}
"""
)
DEPTHWISE = Template(
    """kernel depthwise(N, C, $sizes, $windows, $strides, $pads) where $fits {
  $lets
  in X: $t[N, $sizes, C]; in F: $t[$windows, C]; inout Y: $u[N, $outs, C];
  for n in N, $out_loops, c in C, $window_loops {
    Y[n, $out, c] += $u(X[n, $at, c] else 0) * $u(F[$window, c]);
  }
}
"""
)


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to schedule. `suite` and `row` say where its shape is first met."""

    suite: str
    row: int
    kind: str
    machine: str
    dtype: str
    kernel: Source
    sizes: dict[str, int]

    @property
    def name(self) -> str:
        """Where it is from and for what: unique."""
        return f"{self.suite} {self.row} {self.machine} {self.dtype}"


def all_cases() -> list[Case]:
    """Return every suite on every machine, each shape once."""
    shapes: dict[tuple[str, tuple[tuple[str, int], ...], bool, bool], tuple[str, Shape, int]] = {}
    for suite, shape, rank in _shapes():
        sizes = tuple(_sizes(shape, rank).items())
        turned = (
            (shape.x_transposed, shape.w_transposed) if isinstance(shape, BatchedProduct) else (False, False)
        )
        shapes.setdefault((_kind(shape, rank), sizes, *turned), (suite, shape, rank))
    return [
        Case(
            suite,
            shape.number,
            _kind(shape, rank),
            machine,
            dtype,
            _text(shape, rank, dtype),
            _sizes(shape, rank),
        )
        for suite, shape, rank in shapes.values()
        for machine, dtypes in MACHINES.items()
        for dtype in dtypes
    ]


def _shapes() -> Iterator[tuple[str, Shape, int]]:
    """Yield the suites, and ResNet-50's dense layers along one axis, and in volumes of eight slices."""
    for suite in ("deepbench-gemm", "transformer-gemm", "resnet50-conv", "mobilenet-conv", "deepbench-conv"):
        for shape in read_suite(suite):
            yield suite, shape, 2
    for rank, suite in ((1, "resnet50-rows"), (3, "resnet50-volumes")):
        for shape in read_suite("resnet50-conv"):
            yield suite, shape, rank


def _kind(shape: Shape, rank: int) -> str:
    if isinstance(shape, BatchedProduct):
        return "gemm" if shape.batch == 1 else "batched"
    return "depthwise" if shape.groups > 1 else f"conv{rank}d"


def _sizes(shape: Shape, rank: int) -> dict[str, int]:
    if isinstance(shape, BatchedProduct):
        batch = {"L": shape.batch} if shape.batch > 1 else {}
        return {**batch, "M": shape.m, "N": shape.n, "K": shape.k}
    # A volume has eight slices and a window as deep as it is high.
    letters = {1: "W", 2: "HW", 3: "DHW"}[rank]
    pixels = {"D": (8, shape.r, 1, shape.pad_h), "H": (shape.h, shape.r, shape.stride_h, shape.pad_h)}
    pixels["W"] = (shape.w, shape.s, shape.stride_w, shape.pad_w)
    filters = {} if shape.groups > 1 else {"K": shape.k}
    sizes = {"N": shape.n, "C": shape.c, **filters}
    for letter in letters:
        names = (letter, f"{letter}w", f"{letter}s", f"{letter}p")
        sizes |= dict(zip(names, pixels[letter], strict=True))
    return sizes


def _text(shape: Shape, rank: int, dtype: str) -> Source:
    element, wide, shipped = TYPES[dtype]
    if isinstance(shape, BatchedProduct) and shape.batch == 1:
        turned = "tn_" if shape.x_transposed else "nt_" if shape.w_transposed else ""
        path = kernel_path(f"gemm_{turned}{shipped}")
        return Source(path.name, path.read_text(encoding="utf-8"))
    if isinstance(shape, BatchedProduct):
        assert not shape.x_transposed
        shapes = ("L, N, K", "l, n, k", "_nt") if shape.w_transposed else ("L, K, N", "l, k, n", "")
        text = BATCHED.substitute(t=element, u=wide, b=shapes[0], i=shapes[1], name=shapes[2])
        return _source("batched", text, wide == element)
    return _source(_kind(shape, rank), _conv_text(rank, element, wide, shape.groups > 1), wide == element)


def _conv_text(rank: int, element: str, wide: str, depthwise: bool) -> str:
    letters = {1: "W", 2: "HW", 3: "DHW"}[rank]
    lower = letters.lower()
    rows = zip(letters, lower, strict=True)
    lets = [f"let {x}o = ({x} + 2*{x}p - {x}w) / {x}s + 1;" for x in letters]
    return (DEPTHWISE if depthwise else CONV).substitute(
        rank=f"{rank}d",
        t=element,
        u=wide,
        sizes=", ".join(letters),
        windows=", ".join(f"{x}w" for x in letters),
        strides=", ".join(f"{x}s: 1..4096" for x in letters),
        pads=", ".join(f"{x}p: 0..4096" for x in letters),
        fits=", ".join(f"{x}w <= {x} + 2*{x}p" for x in letters),
        lets=" ".join(lets),
        outs=", ".join(f"{x}o" for x in letters),
        out=", ".join(f"{x}" for x in lower),
        out_loops=", ".join(f"{y} in {x}o" for x, y in zip(letters, lower, strict=True)),
        window=", ".join(f"{y}_" for y in lower),
        window_loops=", ".join(f"{y}_ in {x}w" for x, y in rows),
        at=", ".join(f"{y}*{x}s + {y}_ - {x}p" for x, y in zip(letters, lower, strict=True)),
    )


def _source(name: str, text: str, same_type: bool) -> Source:
    """Return the text; a cast to the type that a value has already is left out."""
    return Source(name, text.replace("f32(", "(") if same_type else text)
