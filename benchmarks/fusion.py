"""A product with bias and limit: elementwise statements taken along, and in passes of their own.

    python benchmarks/fusion.py > fusion.txt

One thread; contenders take turns. Medians are printed, and how much longer the passes of their own take.
"""

from __future__ import annotations

from statistics import median

from alternate import program, ratio, source, turns

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


def main() -> None:
    """Compile both, take turns, print."""
    print("machine     M     N     K        taken along us   own passes us   ratio")
    for hw, sizes in CASES:
        along = program(source(KERNEL), hw, sizes, sizes)[0]
        alone = program(source(KERNEL), hw, sizes, sizes, ALONE)[0]
        times = turns({"along": along, "alone": alone})
        shown = "  ".join(f"{n:4d}" for n in sizes.values())
        medians = "  ".join(f"{median(times[name]) * 1e6:14.1f}" for name in ("along", "alone"))
        print(
            f"{hw:10s}  {shown}  {medians}  {ratio(times, 'alone', 'along'):6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
