"""Elementwise statements taken along by a product, or put into each other, and in passes of their own.

    python benchmarks/fusion.py > fusion.txt
    python benchmarks/fusion.py lstm          # the lines with that word

One thread; contenders take turns. Medians are printed, and how much longer the passes of their own take.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median

from alternate import program, ratio, source, turns

from isamap.driver.request import BEST_FORM, Request
from isamap.source import Source

KERNEL = "gemm_bias_relu_f32"
ALONE = {"nest1.fuse.0": 0, "nest1.fuse.2": 0}
CASES = (
    ("x86-avx512", {"M": 64, "N": 64, "K": 64}),
    ("x86-avx512", {"M": 256, "N": 256, "K": 64}),
    ("x86-avx512", {"M": 1000, "N": 1000, "K": 32}),
    ("x86-avx512", {"M": 2048, "N": 2048, "K": 64}),
    ("x86-avx512", {"M": 512, "N": 512, "K": 512}),
    ("x86-avx512", {"M": 127, "N": 1009, "K": 257}),
    ("x86-avx2", {"M": 1000, "N": 1000, "K": 32}),
    ("x86-avx2", {"M": 512, "N": 512, "K": 512}),
)


# Temporaries that a person writes for clarity: what leads to a gelu, scores before a softmax, a cell's gates.
CHAINS = (
    (
        "gelu",
        {"N": 1 << 22},
        """kernel gelu_chain(N) {
  in x: f32[N];
  in b: f32[N];
  out y: f32[N];
  temp s: f32[N];
  temp t: f32[N];
  for n in N { s[n] = x[n] + b[n]; }
  for n in N { t[n] = 0.5 * s[n] * (1 + tanh(0.79788456 * (s[n] + 0.044715 * s[n] * s[n] * s[n]))); }
  for n in N { y[n] = t[n] + x[n]; }
}""",
    ),
    (
        "masked softmax",
        {"M": 512, "N": 4096},
        """kernel masked_softmax(M, N, scalar scale: f32) {
  in x: f32[M, N];
  in mask: f32[M, N];
  out y: f32[M, N];
  temp s: f32[M, N];
  temp top: f32[M];
  temp total: f32[M];
  for m in M, n in N { s[m, n] = scale * x[m, n] + mask[m, n]; }
  for m in M { top[m] = -inf; }
  for m in M, n in N { top[m] max= s[m, n]; }
  for m in M, n in N { y[m, n] = exp(s[m, n] - top[m]); }
  for m in M { total[m] = 0; }
  for m in M, n in N { total[m] += y[m, n]; }
  for m in M, n in N { y[m, n] = y[m, n] / total[m]; }
}""",
    ),
    (
        "gates of an LSTM",
        {"N": 64, "H": 2048},
        """kernel gates(N, H) {
  in u: f32[4, N, H];
  inout c: f32[N, H];
  out h: f32[N, H];
  temp i: f32[N, H];
  temp f: f32[N, H];
  temp g: f32[N, H];
  temp o: f32[N, H];
  for n in N, j in H {
    i[n, j] = sigmoid(u[0, n, j]);
    f[n, j] = sigmoid(u[1, n, j]);
    g[n, j] = tanh(u[2, n, j]);
    o[n, j] = sigmoid(u[3, n, j]);
    c[n, j] = f[n, j] * c[n, j] + i[n, j] * g[n, j];
    h[n, j] = o[n, j] * tanh(c[n, j]);
  }
}""",
    ),
)


def main(words: Sequence[str]) -> None:
    """Compile both, take turns, print."""
    print("machine     what                       one pass us   own passes us   ratio")
    products = [(KERNEL, hw, sizes, source(KERNEL)) for hw, sizes in CASES]
    chains = [(name, "x86-avx512", sizes, Source("chain.ir", text)) for name, sizes, text in CHAINS]
    for name, hw, sizes, text in (*products, *chains):
        shown = " ".join((name, *(str(n) for n in sizes.values())))
        if not all(word in f"{hw} {shown}" for word in words):
            continue
        is_product = name == KERNEL
        best = Request(text, hw, sizes, transform=None if is_product else BEST_FORM)
        scalars = {"scale": 0.125} if "scale" in text.text else {}
        along = program(text, hw, sizes, sizes, request=best, scalars=scalars)[0]
        alone = program(text, hw, sizes, sizes, ALONE if is_product else {}, scalars=scalars)[0]
        times = turns({"along": along, "alone": alone})
        medians = "  ".join(f"{median(times[one]) * 1e6:14.1f}" for one in ("along", "alone"))
        print(f"{hw:10s}  {shown:24s}  {medians}  {ratio(times, 'alone', 'along'):6.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
