"""Backward passes beside torch's: kernels that `isamap grad` derives, against autograd on the same data.

    python benchmarks/gradients.py --minutes 20              DeepBench's rows, spread over the suites
    python benchmarks/gradients.py gru                       only cases whose names have one of the words

Products, convolutions and recurrent layers (four steps), f32, one thread. What is kept of the forward pass is
chosen by price (`isamap grad --keep auto`); torch's own forward pass has run as well. The last columns are
the largest difference of the derivatives, as a share of their largest, and what is kept.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import exp, log
from statistics import median
from typing import Any

import numpy as np
import torch
from alternate import Array, at_line, prepared_call, ratio, source, turns

from isamap.bench.kept_rows import spread_evenly
from isamap.driver.inputs import machine_of
from isamap.driver.keeping import choose_kept
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.ir import Kernel, bind, print_routine
from isamap.source import IsamapError, Source
from isamap.suites.shapes import BatchedProduct, Conv, Recurrent, read_suite
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


def convolution(
    n: int, c: int, size: tuple[int, int], k: int, window: tuple[int, int], stride: int, pad: int
) -> Case:
    """Return a convolution whose strides and paddings are the same in both directions."""
    (h, w), (r, s) = size, window
    sizes = {"N": n, "C": c, "K": k, "H": h, "W": w, "R": r, "S": s, "stride": stride, "pad": pad}

    def forward(a: Mapping[str, Tensor]) -> Tensor:
        return torch.nn.functional.conv2d(a["X"], a["F"], stride=stride, padding=pad)

    name = f"conv {n}x{c}x{h}x{w} {k}x{r}x{s} s{stride} p{pad}"
    return Case(name, "conv2d_nchw", sizes, "Y", ("X", "F"), forward)


STEPS = 4
GATES = {"gru": 3, "lstm": 4}


def recurrent(cell: str, units: int, batch: int, steps: int) -> Case:
    """Return a layer whose input has as many features as it has units."""
    sizes = {"T": steps, "N": batch, "C": units, "H": units}
    gates = GATES[cell]

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


MOST_FLOPS = 20e9
"""Of a forward pass: longer rows would take all of the time."""


def cases() -> list[Case]:
    """DeepBench's rows that the kernels can say, in an order in which any first few lie among all evenly."""
    products = [product(p.n, p.m, p.k) for p in read_suite("deepbench-gemm") if isinstance(p, BatchedProduct)]
    images = [
        convolution(c.n, c.c, (c.h, c.w), c.k, (c.r, c.s), c.stride_h, c.pad_h)
        for c in read_suite("deepbench-conv")
        if isinstance(c, Conv) and (c.stride_h, c.pad_h) == (c.stride_w, c.pad_w) and c.flops < MOST_FLOPS
    ]
    layers = [
        recurrent(r.cell, r.hidden, r.batch, STEPS)
        for r in read_suite("deepbench-rnn")
        if isinstance(r, Recurrent) and r.cell in GATES
    ]
    kinds = [_spread(kind) for kind in (products, images, layers)]
    return [case for row in zip_longest(*kinds) for case in row if case is not None]


def _spread(found: Sequence[Case]) -> list[Case]:
    """Return each case once, in the order of the bench."""
    distinct = list({case.name: case for case in found}.values())
    return [distinct[n] for n in sorted(range(len(distinct)), key=spread_evenly)]


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only cases whose names have one of these")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--minutes", type=float, default=20.0, help="no case is begun later")
    given = parser.parse_args()
    torch.set_num_threads(1)
    stop = time.monotonic() + 60 * given.minutes
    chosen = [c for c in cases() if not given.words or any(word in c.name for word in given.words)]
    found: dict[str, list[float]] = {}
    print(f"{'case':34} {'ours ms':>8} {'torch ms':>8} {'torch / ours':>12} {'differs by':>10}  kept")
    for case in chosen:
        if time.monotonic() > stop:
            break
        try:
            times, differs, kept = measured(case, given.rounds)
        except IsamapError as error:
            print(f"{case.name:34} {error.diagnostics[0].message}", flush=True)
            continue
        share = ratio(times, "torch", "ours")
        found.setdefault(case.kernel, []).append(share)
        ours, theirs = (1e3 * median(times[name]) for name in ("ours", "torch"))
        shown = " ".join(kept) or "-"
        print(f"{case.name:34} {ours:8.2f} {theirs:8.2f} {share:12.2f} {differs:10.1e}  {shown}", flush=True)
    for kernel, shares in {**found, "all": [s for one in found.values() for s in one]}.items():
        if shares:
            print(f"{kernel}: geometric mean {exp(sum(map(log, shares)) / len(shares)):.2f} of {len(shares)}")
    print(f"{sum(map(len, found.values()))} of {len(chosen)} cases were reached")


def measured(case: Case, rounds: int) -> tuple[dict[str, list[float]], float, tuple[str, ...]]:
    """Return the seconds of both, by how much the derivatives differ, and what our forward pass keeps."""
    kernel = parse_kernel(source(case.kernel))
    made = choose_kept(kernel, [case.of], case.by, machine_of("host"), case.sizes).made
    back = _Prepared.of(made.backward, case)
    arrays = back.arrays
    forward = _Prepared.of(made.forward, case) if made.forward is not None else None
    if forward is not None:
        for name, array in forward.arrays.items():
            if name in arrays and name not in made.kept:
                array[...] = arrays[name]
        forward.call()
        for name in made.kept:
            arrays[name][...] = forward.arrays[name]
    known = {**arrays, **(forward.arrays if forward is not None else {})}
    given = {n: torch.tensor(known[n]) for n in case.by if n in known}
    for name, shape in _shapes(kernel, case, ("in",)).items():
        if name not in given:
            given[name] = torch.tensor(_values(case, name, shape))
    inputs = [given[n].requires_grad_() for n in case.by]
    result = case.forward(given)
    upstream = torch.tensor(arrays[f"d_{case.of}"])

    def backward() -> object:
        return torch.autograd.grad(result, inputs, upstream, retain_graph=True)

    back.call()
    theirs = dict(zip(case.by, torch.autograd.grad(result, inputs, upstream, retain_graph=True), strict=True))
    differs = max(
        float(np.abs(arrays[f"d_{n}"] - t.numpy()).max() / np.abs(t.numpy()).max()) for n, t in theirs.items()
    )
    return turns({"ours": back.call, "torch": backward}, rounds), differs, made.kept


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A kernel as a call on arrays of its own."""

    call: Callable[[], object]
    arrays: dict[str, Array]

    @staticmethod
    def of(kernel: Kernel, case: Case) -> _Prepared:
        """Compiled for this machine; inputs are random, alike for equal names."""
        text = Source(f"{kernel.name}.ir", print_routine(kernel))
        prepared = prepare(Request(text, machine_of("host"), case.sizes, transform=case.transform))
        shapes = _shapes(kernel, case, ("in", "out"))
        arrays = {name: at_line(_values(case, name, shape)) for name, shape in shapes.items()}
        return _Prepared(prepared_call(prepared.compiled, arrays, {}, {}), arrays)


def _values(case: Case, name: str, shape: tuple[int, ...]) -> Array:
    scale = case.sizes.get("K", case.sizes.get("H", 1)) ** -0.5
    rng = np.random.default_rng(list(name.encode()))
    return (scale * rng.normal(size=shape)).astype(np.float32)


def _shapes(kernel: Kernel, case: Case, roles: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a kernel's arrays of such roles."""
    bound = bind(kernel, dict(case.sizes))
    return {o.name: tuple(int(e.value or 0) for e in o.shape) for o in bound.operands if o.role in roles}


if __name__ == "__main__":
    main()
