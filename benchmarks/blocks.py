"""Statements that share blocks, beside the same in nests of their own, and torch: one thread, in turns.

    python benchmarks/blocks.py pairs > pairs.txt          MobileNet's depthwise and pointwise convolutions
    python benchmarks/blocks.py attention > attention.txt  against scaled_dot_product_attention

Causal attention is also computed by a call for each block of a head's queries, of the keys that these see:
one program of an open number of keys.

Processor time: least, median, and the median of ratios to torch's two calls. torch has to be installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import torch
from alternate import prepared_call, program, ratio, source, turns

from isamap.driver.inputs import find_profile, machine_of
from isamap.driver.request import Request
from isamap.driver.runnable import prepare

# Channels, results, height, stride; rows of a block.
PAIRS = (
    ((32, 64, 112, 1), 14),
    ((64, 128, 112, 2), 14),
    ((128, 128, 56, 1), 14),
    ((128, 256, 56, 2), 14),
    ((256, 256, 28, 1), 14),
    ((256, 512, 28, 2), 7),
    ((512, 512, 14, 1), 7),
)
# Heads, queries and keys, depth, whether causal; queries of a block.
HEADS = (
    ((8, 512, 64, 0), 64),
    ((8, 512, 64, 1), 64),
    ((12, 384, 64, 0), 64),
    ((8, 1024, 128, 0), 64),
    ((8, 1024, 128, 1), 64),
)
Call = Callable[[], object]


def compiled(kernel: str, sizes: Mapping[str, int], fixed: Mapping[str, int]) -> Call:
    """Return a program of ours for this computer."""
    hw = machine_of("host")
    request = Request(source(kernel), hw, dict(sizes), fixed=dict(fixed), profile=find_profile("default", hw))
    return program(request.kernel, hw, sizes, sizes, request=request)[0]


def pair(shape: tuple[int, int, int, int], rows: int) -> dict[str, Call]:
    """Return the contenders of a depthwise and a pointwise convolution."""
    channels, results, height, stride = shape
    sizes = {"N": 1, "C": channels, "K": results, "H": height, "W": height, "R": 3, "S": 3, "stride": stride}
    x, f = torch.randn(1, channels, height, height), torch.randn(channels, 1, 3, 3)
    g = torch.randn(results, channels, 1, 1)
    conv = torch.nn.functional.conv2d
    return {
        "blocks": compiled("depthwise_separable", sizes | {"pad": 1}, {"blocks.p": rows}),
        "apart": compiled("depthwise_separable", sizes | {"pad": 1}, {}),
        "torch": lambda: conv(conv(x, f, stride=stride, padding=1, groups=channels), g),
    }


def by_calls(given: Sequence[torch.Tensor], queries: int) -> Call:
    """Causal attention: a call of one program for each block of a head's queries, with the keys it sees."""
    (count, length, depth), hw = given[0].shape[1:], machine_of("host")
    sizes = {"L": 1, "H": 1, "M": queries, "N": f"{queries}..{length}@{length}", "D": depth, "causal": 1}
    made = prepare(Request(source("attention"), hw, sizes, profile=find_profile("default", hw)))
    q, k, v, o = (t[:1].numpy() for t in (*given, torch.empty_like(given[0])))
    calls: list[Call] = []
    for head in range(count):
        for first in range(0, length, queries):
            rows, seen = slice(first, first + queries), slice(0, first + queries)
            cut = {"Q": (q, rows), "K": (k, seen), "V": (v, seen), "O": (o, rows)}
            arrays = {name: array[:, head : head + 1, part] for name, (array, part) in cut.items()}
            calls.append(prepared_call(made.compiled, arrays, {"N": first + queries}))
    return lambda: [call() for call in calls]


def heads(shape: tuple[int, int, int, int], queries: int) -> dict[str, Call]:
    """Return the contenders of attention."""
    count, length, depth, causal = shape
    sizes = {"L": 1, "H": count, "M": length, "N": length, "D": depth, "causal": causal}
    q, k, v = (torch.randn(1, count, length, depth) for _ in range(3))
    attention = torch.nn.functional.scaled_dot_product_attention
    return {
        "blocks": compiled("attention", sizes, {"blocks.h": 1, "blocks.m": queries}),
        "apart": compiled("attention", sizes, {}),
        "torch": lambda: attention(q, k, v, is_causal=bool(causal)),
        **({"calls": by_calls((q, k, v), queries)} if causal else {}),
    }


def main() -> None:
    """Compile, take turns, print: all shapes, or those whose text has the words that follow."""
    torch.set_num_threads(1)
    named = ("blocks", "apart", "torch", "calls")
    make, cases = {"pairs": (pair, PAIRS), "attention": (heads, HEADS)}[sys.argv[1]]
    print(f"{'shape':22}  {'block':>5}" + "".join(f"  {n + ' us':>16}" for n in named))
    for shape, block in cases:
        if not all(word in str(shape) for word in sys.argv[2:]):
            continue
        contenders = make(shape, block)
        with torch.inference_mode():
            times = turns(contenders)
        shown = "".join(f"  {min(times[n]) * 1e6:7.0f} {median(times[n]) * 1e6:8.0f}" for n in contenders)
        ratios = "  ".join(f"{n}/blocks {ratio(times, n, 'blocks'):.2f}" for n in ("apart", "torch"))
        if "calls" in times:
            ratios += f"  torch/calls {ratio(times, 'torch', 'calls'):.2f}"
        print(f"{shape!s:22}  {block:5}{shown}  {ratios}", flush=True)


if __name__ == "__main__":
    main()
