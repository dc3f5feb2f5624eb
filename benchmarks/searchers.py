"""Searchers at equal budgets: what each finds in so many measurements, beside the model's list.

    python benchmarks/searchers.py --budget 24 --minutes 60 > searchers.txt

Rows of several kernels. For each row every searcher, and the model's list of that length ("list"), is tuned
anew; the winners, each judged by `--tune`'s sign test already, and the model's choice then take turns in
rounds of their own. Processor time of one thread. Printed: microseconds of the model's choice and how many
times faster each winner is, medians over rounds; then geometric means, and the least, relative to the list.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from alternate import prepared_call, program, ratio, source, turns

from isamap.bench.paired_timing import geometric_mean
from isamap.driver.inputs import find_profile
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.plan.plugins import known_names
from isamap.plan.text import print_schedule
from isamap.source import Source

LIST = "list"
ROUNDS = 31
# Kernel, machine and sizes: small products and batches, convolutions, fused statements, layers.
ROWS = """
gemm_f32 x86-avx512 M=16 N=1024 K=512
conv2d_nhwc x86-avx512 N=1 H=28 W=28 C=64 K=64 R=3 S=3 pad=1
gru x86-avx512 T=4 N=8 C=128 H=128
linear_gelu_f32 x86-avx512 M=32 N=512 K=256
gemm_bf16 x86-avx512-bf16 M=32 N=1024 K=1024
gemm_nt_f32 x86-avx512 M=64 N=512 K=512
conv2d_nchw x86-avx512 N=1 H=14 W=14 C=128 K=128 R=3 S=3 pad=1
gemm_f32 x86-avx512 M=1 N=2048 K=1024
softmax_f32 x86-avx512 M=64 N=1024
gemm_u8s8 x86-avx512-vnni M=32 N=512 K=1024
gru x86-avx512 T=4 N=32 C=256 H=256
gemm_f32 x86-avx512 M=100 N=300 K=500
linear_gelu_f32 x86-avx512 M=128 N=768 K=768
conv2d_nhwc x86-avx512 N=1 H=56 W=56 C=64 K=64 R=1 S=1 pad=0
gemm_tn_f32 x86-avx512 M=256 N=256 K=256
lstm x86-avx512 T=4 N=16 C=128 H=128
gemm_bf16_f32 x86-avx512-bf16 M=64 N=1024 K=512
gemm_f32 x86-avx512 M=512 N=512 K=512
linear_residual_f32 x86-avx512 M=64 N=512 K=512
conv2d_nhwc x86-avx512 N=1 H=14 W=14 C=256 K=256 R=3 S=3 stride=2 pad=1
softmax_f32 x86-avx512 M=512 N=256
gemm_nt_bf16 x86-avx512-bf16 M=16 N=512 K=1024
depthwise x86-avx512 N=1 C=64 H=28 W=28 R=3 S=3 pad=1
gemm_f32 x86-avx512 M=35 N=700 K=2048
lstm x86-avx512 T=4 N=4 C=256 H=256
gemm_s8s8 x86-avx512-vnni M=64 N=512 K=512
linear_gelu_f32 x86-avx512 M=4 N=3072 K=768
conv2d_nchw x86-avx512 N=4 H=28 W=28 C=32 K=64 R=3 S=3 pad=1
gemm_f32 x86-avx512 M=1000 N=128 K=64
bmm_f32 x86-avx512 L=8 M=64 N=64 K=64
"""


def main() -> None:
    """Tune by each searcher, let the winners take turns, print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--budget", type=int, default=24)
    options.add_argument("--minutes", type=float, default=1e9)
    options.add_argument("--rows", type=int, default=len(ROWS))
    options.add_argument("--skip", type=int, default=0, help="rows that were measured before")
    options.add_argument("--search", nargs="*", default=list(known_names("searcher")))
    options.add_argument("--limit", type=float, default=4.0, help="seconds for the solver")
    words = options.parse_args()
    names = [LIST, *words.search]
    stop = time.monotonic() + 60 * words.minutes
    gains: list[dict[str, float]] = []
    print(f"{'row':58}  {'choice us':>9}  {'  '.join(f'{name:>9}' for name in names)}", flush=True)
    rows = ROWS.strip().splitlines()[words.skip :][: words.rows]
    for row in rows:
        if time.monotonic() > stop:
            break
        first_us, found = _row(row.split(), names, words.budget, words.limit)
        gains.append(found)
        print(f"{row:58}  {first_us:9.1f}  {'  '.join(f'{found[n]:9.3f}' for n in names)}", flush=True)
    for name in names:
        own = [gain[name] for gain in gains]
        over = [gain[name] / gain[LIST] for gain in gains]
        print(
            f"{name}: {geometric_mean(own):.3f} times the model's choice, {geometric_mean(over):.3f} times "
            f"the list's winner, least {min(over):.3f}, over {len(gains)} rows of {len(rows)}"
        )


def _row(
    words: Sequence[str], names: Sequence[str], budget: int, limit_s: float
) -> tuple[float, dict[str, float]]:
    """Microseconds of the model's choice, and how many times faster each winner is."""
    kernel, machine, *pairs = words
    sizes = {name: int(value) for name, _, value in (pair.partition("=") for pair in pairs)}
    text = source(kernel)
    plain = Request(text, machine, sizes, profile=find_profile("default", machine), limit_s=limit_s)
    arrays = program(text, machine, sizes, sizes, request=plain)[1]
    texts: dict[str, str] = {}
    for name in names:
        asked = replace(
            plain, tune=budget, search="" if name == LIST else name, tune_limit_s=600, cache=False
        )
        made = compile_kernel(asked).schedule
        assert made is not None
        texts[name] = print_schedule(made)
    calls = {"choice": prepared_call(prepare(plain).compiled, arrays, {})}
    for name, schedule in texts.items():
        won = replace(plain, schedule=Source(f"{name}.schedule", schedule))
        calls[name] = prepared_call(prepare(won).compiled, arrays, {})
    times = turns(calls, ROUNDS)
    return 1e6 * median(times["choice"]), {name: ratio(times, "choice", name) for name in names}


if __name__ == "__main__":
    main()
