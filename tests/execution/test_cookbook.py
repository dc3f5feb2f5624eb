"""The kernels of docs/cookbook.md are those of numpy, on any C compiler and on an x86 machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_references import REFERENCES, SCALARS, Arrays, Reference, Sizes, slide

import isamap
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.machine import load_machine, missing_features
from isamap.run.fills import make_arrays
from isamap.source import Source
from isamap.syntax import parse_kernel

PAGE = (Path(__file__).parents[2] / "docs" / "cookbook.md").read_text(encoding="utf-8")
TEXTS = dict(re.findall(r"^`(\w+)\.ir`:\n\n```\n((?:(?!```).*\n)*)```", PAGE, re.MULTILINE))
COMMANDS = re.findall(r"^isamap run (\w+)(\.ir)? --hw host -D (.*)$", PAGE, re.MULTILINE)
MACHINES = ("generic-c", "x86-avx2")
NUMBERS: dict[str, float] = SCALARS | {
    "zero": 3,
    "a_scale": 0.5,
    "b_scale": 0.25,
    "r": 0.125,
    "a": 0.5,
    "b": 0.25,
}


def attend(scores: Callable[[Arrays, Sizes], Any]) -> Reference:
    """Return attention whose scaled products the function adds a mask to."""

    def of(a: Arrays, s: Sizes) -> Arrays:
        x = np.einsum("hmd,hnd->hmn", a["Q"], a["K"]) / np.sqrt(s["D"]) + scores(a, s)
        e = np.exp(x - x.max(axis=2, keepdims=True))
        return {"O": np.einsum("hmn,hnd->hmd", e / e.sum(axis=2, keepdims=True), a["V"])}

    return of


def window(_: Arrays, s: Sizes) -> Any:
    behind = np.subtract.outer(np.arange(s["M"]), np.arange(s["M"]))
    return np.where((behind >= 0) & (behind < s["W"]), 0, -np.inf)


def group_norm(a: Arrays, _: Sizes) -> Arrays:
    x, axes = a["x"], {"axis": (2, 3), "keepdims": True}
    y = (x - x.mean(**axes)) / np.sqrt(x.var(**axes) + NUMBERS["eps"])
    return {"y": y * a["gamma"][None, :, :, None] + a["beta"][None, :, :, None]}


def rotary(a: Arrays, s: Sizes) -> Arrays:
    low, high = a["x"][..., : s["D"]], a["x"][..., s["D"] :]
    turned = (low + 1j * high) * (a["c"] + 1j * a["s"])[:, None]
    return {"y": np.concatenate([turned.real, turned.imag], axis=2)}


def scan(a: Arrays, _: Sizes) -> Arrays:
    h: Any = a["h0"]
    found: list[Any] = []
    for decay, x in zip(a["a"], a["x"], strict=True):
        h = decay * h + x
        found.append(h)
    return {"y": np.array(found)}


def heat(a: Arrays, _: Sizes) -> Arrays:
    u, v = a["u"], np.zeros_like(a["u"])
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    v[1:-1, 1:-1] = u[1:-1, 1:-1] + NUMBERS["r"] * (around - 4 * u[1:-1, 1:-1])
    return {"v": v}


def seven_points(a: Arrays, _: Sizes) -> Arrays:
    u = np.pad(a["u"], 1)
    ways = [np.roll(u, step, axis)[1:-1, 1:-1, 1:-1] for axis in range(3) for step in (1, -1)]
    return {"v": NUMBERS["a"] * a["u"] + NUMBERS["b"] * sum(ways)}


def filters(a: Arrays, s: Sizes) -> Arrays:
    """Convolve images with gradients, batch and channels exchanged."""
    x, g = a["X"].transpose(3, 0, 1, 2), a["G"].transpose(3, 0, 1, 2)
    return {"F": slide(x, g, [1, 1], margins=[(0, 0)] * 2).transpose(2, 3, 0, 1)}


def top_k(a: Arrays, s: Sizes) -> Arrays:
    order = np.argsort(-a["x"], axis=1, kind="stable")[:, : s["K"]]
    return {"value": np.take_along_axis(a["x"], order, axis=1).T, "place": order.T}


def step(a: Arrays, _: Sizes) -> Arrays:
    x, w = a["x"][..., 0] + 1j * a["x"][..., 1], a["w"][:, 0] + 1j * a["w"][:, 1]
    y: Any = np.stack([x[:, 0] + x[:, 1], (x[:, 0] - x[:, 1]) * w[:, None]], axis=2)
    return {"y": np.stack([y.real, y.imag], axis=-1)}


def pool(a: Arrays, s: Sizes) -> Arrays:
    windows = np.lib.stride_tricks.sliding_window_view(a["x"], (s["R"], s["S"]), axis=(1, 2))
    return {"y": windows[:, ::2, ::2].max(axis=(4, 5))}


def requantised(a: Arrays, _: Sizes) -> Arrays:
    sums = (a["S"] + a["bias"]).astype(np.int32).astype(np.float32)
    return {"Y": np.clip(np.rint(sums * a["scale"].astype(np.float32)) + NUMBERS["zero"], 0, 255)}


def quantised_rows(a: Arrays, _: Sizes) -> Arrays:
    scale = np.abs(a["x"]).max(axis=1) / 127
    return {"q": np.rint(a["x"] / np.where(scale > 0, scale, np.inf)[:, None]), "scale": scale}


def cross_entropy(a: Arrays, s: Sizes) -> Arrays:
    chosen = a["x"][np.arange(s["M"]), a["label"]]
    return {"loss": np.log(np.exp(a["x"]).sum(axis=1)) - chosen}


OWN: dict[str, tuple[Reference, str]] = {
    "gemm_w8": (lambda a, _: {"C": (a["A"] @ a["B"]) * a["scale"]}, "M=3 N=19 K=5"),
    "gemm_f8": (lambda a, _: {"C": a["A"] @ a["B"] / 8}, "M=3 N=19 K=5"),
    "distances": (
        lambda a, _: {"d": ((a["x"][:, None] - a["y"][None]) ** 2).sum(axis=2)}, "M=3 N=19 D=5",
    ),
    "solve_lower": (lambda a, _: {"B": np.linalg.solve(np.tril(a["L"]), a["B"])}, "N=5 R=19"),
    "requantise": (requantised, "M=3 N=19"),
    "quantise_rows": (quantised_rows, "M=3 N=37"),
    "attention_window": (attend(window), "H=2 M=9 D=5 W=3"),
    "attention_bias": (attend(lambda a, _: a["bias"]), "H=2 M=3 N=9 D=5"),
    "rotary": (rotary, "L=3 H=2 D=9"),
    "group_norm": (group_norm, "N=2 G=2 C=3 P=11"),
    "cross_entropy": (cross_entropy, "M=3 N=19"),
    "topk": (top_k, "M=3 N=19 K=3"),
    "cumsum": (lambda a, _: {"y": np.cumsum(a["x"], axis=0)}, "T=5 N=19"),
    "linear_scan": (scan, "T=5 N=19"),
    "heat": (heat, "H=6 W=21"),
    "stencil3d": (seven_points, "D=3 H=4 W=19"),
    "fft_step": (step, "B=2 L=4 S=9"),
    "embedding": (
        lambda a, s: {"y": a["table"][a["which"].reshape(s["B"], s["L"])].sum(axis=1)}, "B=3 L=4 V=7 D=19",
    ),
    "conv_filter_gradient": (filters, "N=2 C=3 K=9 H=6 W=5 R=3 S=2"),
    "max_pool": (pool, "N=1 H=7 W=6 C=19 R=3 S=2"),
    "channels_last": (lambda a, _: {"y": a["x"].transpose(0, 2, 3, 1) / 255}, "N=1 C=3 H=4 W=19"),
}  # fmt: skip
SHIPPED = [name for name, own, _ in COMMANDS if not own]


def test_every_text_of_the_page_has_a_command_and_a_reference() -> None:
    assert len(COMMANDS) == 30
    assert [name for name, own, _ in COMMANDS if own] == list(TEXTS)
    assert set(TEXTS) == set(OWN)
    assert set(SHIPPED) <= set(REFERENCES)


def test_every_command_gives_the_sizes_that_its_kernel_has() -> None:
    for name, own, sizes in COMMANDS:
        text = TEXTS[name] if own else kernel_path(name).read_text(encoding="utf-8")
        given = {n: int(v) for n, _, v in (word.partition("=") for word in sizes.split())}
        assert bind(parse_kernel(Source(f"{name}.ir", text)), given), name


def test_the_kernel_that_is_compared_with_other_compilers_is_the_shipped_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```\n(kernel (?:(?!```).*\n)*)```", page, re.MULTILINE)
    shipped = parse_kernel(Source("gemm_f32.ir", kernel_path("gemm_f32").read_text(encoding="utf-8")))
    ours = parse_kernel(Source("gemm.ir", text))
    assert (ours.params, ours.operands, ours.body) == (shipped.params, shipped.operands, shipped.body)


@pytest.mark.exhaustive(fast=30)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", [name for name, *_ in COMMANDS])
def test_a_recipe_computes_what_numpy_does(name: str, machine: str) -> None:
    if missing := missing_features(load_machine(machine)):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    if name in OWN:
        (of, at), text = OWN[name], TEXTS[name]
    else:
        of, at, text = REFERENCES[name].of, REFERENCES[name].at[-1], kernel_path(name).read_text("utf-8")
    sizes = {n: int(v) for n, _, v in (word.partition("=") for word in at.split())}
    parsed = parse_kernel(Source(f"{name}.ir", text))
    kernel = bind(parsed, sizes)
    arrays = make_arrays(kernel, "random")
    if name == "solve_lower":
        arrays["L"] += 4 * np.eye(sizes["N"], dtype=np.float32)
    wide = {
        n: a.astype(np.float64 if kernel.operand(n).dtype.is_float else np.int64)
        for n, a in arrays.items()
        if kernel.operand(n).role != "out"
    }
    expected = of(wide, sizes)
    scalars = {p.name: NUMBERS[p.name] for p in parsed.params if p.dtype is not None}
    compiled = isamap.compile(text, machine, sizes, heuristic="greedy")
    found = compiled(**arrays, **scalars)
    for output, right in expected.items():
        # Integers are equal, but where a quotient that is rounded lies between two of them.
        steps = {True: float(name == "quantise_rows"), False: 2e-5}[kernel.operand(output).dtype.is_integer]
        relative = 0 if kernel.operand(output).dtype.is_integer else 2e-5
        got = found[output].astype(np.float64)
        np.testing.assert_allclose(got, right, rtol=relative, atol=steps, err_msg=output)
