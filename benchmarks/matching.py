"""How long it takes to find all mappings, and how that grows with the axes of the kernel.

    python benchmarks/matching.py                  convolutions of 4 to 12 axes on three instructions
    python benchmarks/matching.py --shipped        all shipped kernels on all shipped machines, with refusals

Seconds of one run in one process, with nothing remembered from the run before. `first` is until the first
mapping, for callers that want only some.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from itertools import islice

from isamap.hw_specs import shipped_machines
from isamap.ir import Instruction, Kernel
from isamap.kernels import kernel_path, list_kernels
from isamap.machine import load_machine
from isamap.match import find_mappings, pattern_of, refusals
from isamap.match.mappings.enumerate import find_in_statement
from isamap.source import Source
from isamap.syntax import parse_kernel, parse_module
from isamap.transform import statements

MEMORY = "memory reg: registers(count = 8, bytes = 64, named = compiler);"
INSTRUCTIONS = {
    "matrix product": """instruction product() {
      inout c: f32[16, 16] @ reg; in a: f32[16, 16] @ reg; in b: f32[16, 16] @ reg;
      for i in 16, j in 16, k in 16 { c[i, j] += a[i, k] * b[k, j]; } }""",
    "convolution unit": """instruction unit() {
      inout c: f32[8, 8, 8] @ reg; in a: f32[8, 8, 8] @ reg; in b: f32[8, 8] @ reg;
      for o in 8, x in 8, y in 8, i in 8 { c[o, x, y] += a[i, x, y] * b[o, i]; } }""",
    "window": """instruction window() {
      inout c: f32[8] @ reg; in a: f32[10] @ reg; in b: f32[3] @ reg;
      for p in 8, r in 3 { c[p] += a[p + r] * b[r]; } }""",
}
SIZES = (
    {"n": 4, "g": 4, "o": 32, "i": 32} | dict.fromkeys(("p", "q", "u", "v"), 14) | dict.fromkeys("rstw", 3)
)


def convolution(axes: int) -> Kernel:
    """Return a convolution of so many axes: images, channels, pixels and taps of up to four dimensions, groups."""
    dimensions = min((axes - 2) // 2, 4)
    left = axes - 2 - 2 * dimensions
    assert left <= 2
    pixels, taps = "pquv"[:dimensions], "rstw"[:dimensions]
    outer = "ng"[:left]
    x = [*outer, "i", *(f"{p} + {r}" for p, r in zip(pixels, taps, strict=True))]
    f = [*("g" if "g" in outer else ""), "o", "i", *taps]
    y = [*outer, "o", *pixels]
    reach = [str(SIZES[p] + SIZES[r]) for p, r in zip(pixels, taps, strict=True)]
    wide = ", ".join([*(str(SIZES[a]) for a in (*outer, "i")), *reach])
    filters, result = (", ".join(str(SIZES[a]) for a in axes) for axes in (f, y))
    loops = ", ".join(f"{a} in {SIZES[a]}" for a in (*outer, "o", *pixels, "i", *taps))
    text = f"""kernel convolution() {{
      in X: f32[{wide}]; in F: f32[{filters}]; inout Y: f32[{result}];
      for {loops} {{ Y[{", ".join(y)}] += X[{", ".join(x)}] * F[{", ".join(f)}]; }}
    }}"""
    return parse_kernel(Source("convolution.ir", text))


def grow(name: str, axes: int) -> None:
    """One row: axes, mappings, seconds until the first and until all."""
    module = parse_module(Source("instruction.isa", f"{MEMORY}\n{INSTRUCTIONS[name]}"))
    pattern = pattern_of(next(d for d in module.declarations if isinstance(d, Instruction)))
    assert pattern is not None
    kernel = convolution(axes)
    statement = statements(kernel)[0]
    assert len(statement.axes) == axes
    start = time.perf_counter()
    found = find_in_statement(pattern, statement, 0, "complete", kernel)
    count = len(list(islice(found, 1)))
    first = time.perf_counter() - start
    count += sum(1 for _ in found)
    print(f"{name:18} {axes:5} {count:9} {first:9.4f} {time.perf_counter() - start:9.4f}", flush=True)


def shipped() -> None:
    """Every shipped kernel on every shipped machine: mappings and refusals."""
    machines = [load_machine(n) for n in shipped_machines()]
    kernels = [parse_kernel(Source(f"{n}.ir", kernel_path(n).read_text())) for n in list_kernels()]
    pairs = mappings = rejections = 0
    slowest = (0.0, "")
    start, spent = time.perf_counter(), time.process_time()
    for kernel in kernels:
        for machine in machines:
            before = time.perf_counter()
            found = find_mappings(kernel, machine)
            rejections += len(refusals(kernel, machine, found))
            mappings += len(found)
            pairs += 1
            slowest = max(slowest, (time.perf_counter() - before, f"{kernel.name} on {machine.name}"))
    elapsed, spent = time.perf_counter() - start, time.process_time() - spent
    print(f"{len(kernels)} kernels, {len(machines)} machines: {mappings} mappings, {rejections} refusals")
    print(f"{elapsed:.1f} s, {spent:.1f} s of it computing; slowest {slowest[1]}, {slowest[0]:.2f} s")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shipped", action="store_true", help="all shipped kernels on all shipped machines")
    parser.add_argument("--row", nargs=2, metavar=("INSTRUCTION", "AXES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.shipped:
        shipped()
    elif options.row:
        grow(options.row[0], int(options.row[1]))
    else:
        print(f"{'instruction':18} {'axes':>5} {'mappings':>9} {'first s':>9} {'all s':>9}", flush=True)
        for name in INSTRUCTIONS:
            for axes in range(4, 13):  # each in a process of its own: nothing is remembered
                subprocess.run([sys.executable, __file__, "--row", name, str(axes)], check=True)


if __name__ == "__main__":
    main()
