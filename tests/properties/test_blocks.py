"""Statements that share blocks compute what they compute without: chains of windows, at random sizes.

Two or three statements pass temporaries on, read through windows with strides and beyond edges, some inside
an ordered loop, with one or two axes cut. `ISAMAP_EXAMPLES=5000` tries more kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import EXAMPLES
from numpy.typing import NDArray

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.ir import Kernel, interpret, print_routine
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import Blocks, make_guards_explicit, share_blocks

BATCH = 10
BATCHES = range(max(1, EXAMPLES // (2 * BATCH)))


@dataclass(frozen=True, slots=True)
class Chain:
    """A kernel's text with blocks that its statements may share."""

    text: str
    blocks: tuple[Blocks, ...]

    @property
    def kernel(self) -> Kernel:
        return make_guards_explicit(parse_kernel(Source("chain", self.text)))


@dataclass(frozen=True, slots=True)
class Window:
    """What a statement reads of the one before: `p*stride + r - pad`."""

    stride: int
    reach: int
    pad: int

    def read(self, array: str, channel: str) -> str:
        at = f"p*{self.stride} + r - {self.pad}"
        return f"({array}[n, {channel}, {at}] else 0)" if self.pad else f"{array}[n, {channel}, {at}]"

    def rows(self, length: int) -> int:
        """Return how many rows come of so many."""
        return (length + 2 * self.pad - self.reach) // self.stride + 1


def random_chain(random: Random) -> Chain:
    """Return the sums over windows of the array before, the last one over channels as well."""
    count, images = random.choice((2, 2, 3)), random.choice((1, 2))
    channels, length = random.randint(1, 3), random.randint(9, 16)
    shape = [length]
    lines = [f"in x0: f32[{images}, {channels}, {length}];", f"in G: f32[3, {channels}];"]
    body: list[str] = []
    for number in range(1, count):
        window = Window(random.choice((1, 1, 2)), random.randint(1, 3), random.choice((0, 0, 1)))
        rows = window.rows(shape[-1])
        shape.append(rows)
        lines.append(f"temp x{number}: f32[{images}, {channels}, {rows}];")
        axes = f"n in {images}, c in {channels}, p in {rows}"
        read = window.read(f"x{number - 1}", "c")
        body += [
            f"for {axes} {{ x{number}[n, c, p] = {random.choice(('0', '1', f'f32(p + {number})'))}; }}",
            f"for {axes}, r in {window.reach} {{ x{number}[n, c, p] += {read}; }}",
        ]
        if random.random() < 0.3:
            body.append(f"for {axes} {{ x{number}[n, c, p] = max(x{number}[n, c, p], 2) if p != 3; }}")
    last = Window(random.choice((1, 1, 2)), random.randint(1, 2), random.choice((0, 0, 1)))
    rows = last.rows(shape[-1])
    lines.append(f"inout y: f32[{images}, 3, {rows}];")
    read = last.read(f"x{count - 1}", "c")
    axes = f"n in {images}, k in 3, p in {rows}"
    body.append(f"for {axes}, c in {channels}, r in {last.reach} {{ y[n, k, p] += {read} * G[k, c]; }}")
    around = "seq t in 2 {{ {} }}" if random.random() < 0.2 else "{}"
    blocks = [Blocks("n", 1)] if images > 1 and random.random() < 0.5 else []
    blocks.append(Blocks("p", random.randint(1, 4)))
    return Chain(f"kernel chain() {{ {' '.join(lines)} {around.format(' '.join(body))} }}", tuple(blocks))


def cut(chain: Chain) -> tuple[Kernel, int]:
    """Return the kernel in those of its blocks that are not refused, and how many these are."""
    kernel, count = chain.kernel, 0
    for one in chain.blocks:
        found = share_blocks(kernel, one)
        if not isinstance(found, str):
            count += found != kernel
            kernel = found
    return kernel, count


def outputs(kernel: Kernel) -> NDArray[Any]:
    random = np.random.default_rng(0)
    arrays = {
        o.name: random.integers(-3, 4, [int(e.evaluate({})) for e in o.shape]).astype(np.float32)
        for o in kernel.operands
        if o.role != "temp"
    }
    return interpret(kernel, arrays, {})["y"]


@pytest.mark.parametrize("batch", BATCHES)
def test_chains_in_blocks_compute_the_same(batch: int) -> None:
    done = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        chain = random_chain(Random(seed))
        kernel, count = cut(chain)
        done += count
        text = print_routine(kernel)
        assert parse_kernel(Source("in blocks", text)) == kernel, f"{seed}: {text}"
        assert np.array_equal(outputs(chain.kernel), outputs(kernel)), f"{seed}: {chain.text}\n{text}"
    assert done >= BATCH // 2, "most chains have blocks"


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("seed", range(20))
def test_compiled_chains_in_blocks_are_verified(seed: int) -> None:
    chain = random_chain(Random(1000 + seed))
    one = next((b for b in chain.blocks if not isinstance(share_blocks(chain.kernel, b), str)), None)
    if one is None:
        pytest.skip("its statements share no blocks")
    fixed = {f"blocks.{one.axis}": one.size}
    request = Request(Source("chain.ir", chain.text), "generic-c", {}, heuristic="greedy", fixed=fixed)
    prepared = prepare(request)
    schedule = prepared.program.compilation.schedule
    assert schedule
    assert schedule.blocks == ((one.axis, one.size),)
    assert all(case.ok for case in all_cases(prepared, ("integers", "random"), guard=True))
