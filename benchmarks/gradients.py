"""Backward passes beside torch's: kernels that `isamap grad` derives, against autograd on the same data.

    python benchmarks/gradients.py [ROUNDS] [WORDS…]       only cases whose names have one of the words

Products, convolutions and recurrent layers like DeepBench's, f32, one thread. Torch keeps what its forward
pass has computed, ours computes it again. The last column is the largest difference of the derivatives, as a
share of their largest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Any

import numpy as np
import torch
from alternate import Array, prepared_call, ratio, source, turns

from isamap.adjoint import gradient
from isamap.codegen.fills import at_line
from isamap.driver.inputs import machine_of
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.ir import bind, print_routine
from isamap.source import IsamapError, Source
from isamap.syntax import parse_kernel

Tensor = Any
"""A torch tensor: torch's own types say less than its documentation."""


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with sizes, and the same in torch: from inputs by name the result, and what else it needs.

    `of` names the result, `by` the inputs, in the order in which torch's are differentiated.
    """

    name: str
    kernel: str
    sizes: Mapping[str, int]
    of: str
    by: Sequence[str]
    forward: Callable[[Mapping[str, Tensor]], Tensor]
    transform: str | None = None


def product(m: int, n: int, k: int) -> Case:
    """DeepBench's m x n x k: here the rows are n."""
    sizes = {"M": n, "N": m, "K": k}
    return Case(f"gemm {m}x{n}x{k}", "gemm_f32", sizes, "C", ("A", "B"), lambda a: a["A"] @ a["B"])


def convolution(n: int, c: int, size: int, k: int, r: int, pad: int) -> Case:
    """A convolution with square images and filters, stride 1."""
    sizes = {"N": n, "C": c, "K": k, "H": size, "W": size, "R": r, "S": r, "stride": 1, "pad": pad}

    def forward(a: Mapping[str, Tensor]) -> Tensor:
        return torch.nn.functional.conv2d(a["X"], a["F"], padding=pad)

    return Case(f"conv {n}x{c}x{size}² {k}x{r}²", "conv2d_nchw", sizes, "Y", ("X", "F"), forward)


def recurrent(cell: str, units: int, batch: int, steps: int) -> Case:
    """A layer whose input has as many features as it has units."""
    sizes = {"T": steps, "N": batch, "C": units, "H": units}
    gates = {"gru": 3, "lstm": 4}[cell]

    def forward(a: Mapping[str, Tensor]) -> Tensor:
        weights = [a[n].transpose(1, 2).reshape(gates * units, units) for n in ("W", "U")]
        second = a["d"].reshape(-1) if cell == "gru" else torch.zeros(gates * units)
        given = (*weights, a["b"].reshape(-1), second)
        if cell == "gru":
            return torch.gru(a["X"], a["h0"][None], given, True, 1, 0.0, True, False, False)[0]
        states = (a["h0"][None], a["c0"][None])
        return torch.lstm(a["X"], states, given, True, 1, 0.0, True, False, False)[0]

    by = ("X", "W", "U", "b", *(("d", "h0") if cell == "gru" else ("h0", "c0")))
    return Case(f"{cell} {units}x{batch}, {steps} steps", cell, sizes, "Y", by, forward, "best")


CASES = (
    product(1760, 16, 1760),
    product(2560, 64, 2560),
    product(1760, 128, 1760),
    product(1024, 700, 512),
    convolution(4, 64, 56, 64, 3, 1),
    convolution(4, 128, 28, 128, 3, 1),
    convolution(4, 256, 14, 256, 3, 1),
    recurrent("gru", 512, 32, 4),
    recurrent("lstm", 512, 16, 4),
)


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 51
    words = sys.argv[2:]
    found: list[float] = []
    print(f"{'case':26} {'ours ms':>8} {'torch ms':>8} {'torch / ours':>12} {'differs by':>10}")
    for case in CASES:
        if words and not any(word in case.name for word in words):
            continue
        try:
            times, differs = measured(case, rounds)
        except IsamapError as error:
            print(f"{case.name:26} {error.diagnostics[0].message}")
            continue
        found.append(ratio(times, "torch", "ours"))
        ours, theirs = (1e3 * median(times[name]) for name in ("ours", "torch"))
        print(f"{case.name:26} {ours:8.2f} {theirs:8.2f} {found[-1]:12.2f} {differs:10.1e}", flush=True)
    if found:
        print(f"geometric mean {exp(sum(map(log, found)) / len(found)):.2f} of {len(found)}")


def measured(case: Case, rounds: int) -> tuple[dict[str, list[float]], float]:
    """The seconds of both, and by how much the derivatives differ."""
    rng = np.random.default_rng(0)
    made = gradient(parse_kernel(source(case.kernel)), [case.of], case.by)
    text = Source(f"{made.name}.ir", print_routine(made))
    prepared = prepare(Request(text, machine_of("host"), case.sizes, transform=case.transform))
    shapes = {
        o.name: tuple(int(e.value or 0) for e in o.shape)
        for o in bind(made, dict(case.sizes)).operands
        if o.role in ("in", "out")
    }
    scale = case.sizes.get("K", case.sizes.get("H", 1)) ** -0.5
    arrays: dict[str, Array] = {
        name: at_line((scale * rng.normal(size=shape)).astype(np.float32)) for name, shape in shapes.items()
    }
    call = prepared_call(prepared.compiled, arrays, {}, {})
    missing = {n: rng.normal(size=s) * scale for n, s in _others(case, shapes).items()}
    given = {n: torch.tensor(a) for n, a in arrays.items() if n in case.by}
    given |= {n: torch.tensor(a.astype(np.float32)) for n, a in missing.items()}
    inputs = [given[n].requires_grad_() for n in case.by]
    result = case.forward(given)
    upstream = torch.tensor(arrays[f"d_{case.of}"])

    def backward() -> object:
        return torch.autograd.grad(result, inputs, upstream, retain_graph=True)

    call()
    theirs = dict(zip(case.by, torch.autograd.grad(result, inputs, upstream, retain_graph=True), strict=True))
    differs = max(
        float(np.abs(arrays[f"d_{n}"] - t.numpy()).max() / np.abs(t.numpy()).max()) for n, t in theirs.items()
    )
    return turns({"ours": call, "torch": backward}, rounds), differs


def _others(case: Case, known: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Inputs that the derivative does not read, with their shapes."""
    kernel = bind(parse_kernel(source(case.kernel)), dict(case.sizes))
    return {
        o.name: tuple(int(e.value or 0) for e in o.shape)
        for o in kernel.operands
        if o.role == "in" and o.name not in known
    }


if __name__ == "__main__":
    main()
