"""How many of a kernel's mappings the scheduler may choose from, and why not from the others.

    python benchmarks/offered.py [--output FILE]

Shipped kernels on machines of several kinds, open sizes at 64 (their profile value).
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from isamap.formulate.build import offers
from isamap.ir import Range, bind
from isamap.kernels import kernel_path, list_kernels
from isamap.machine import load_machine
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

MACHINES = ("x86-avx2", "x86-avx512", "x86-amx", "matmul-16x16x16", "systolic-16")


def main() -> None:
    """Print the table, and write it where it was asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    lines = [f"{'kernel':28}{'machine':18}{'mappings':>9}{'offered':>9}"]
    reasons: Counter[str] = Counter()
    for machine_name in MACHINES:
        machine = load_machine(machine_name)
        for name in list_kernels():
            path = kernel_path(name)
            kernel = parse_kernel(Source(path.name, path.read_text(encoding="utf-8")))
            sizes: dict[str, int | Range] = {
                p.name: Range(1, 4096, 64) if p.default is None else p.default
                for p in kernel.params
                if p.kind == "size" and p.dtype is None
            }
            found = offers(make_guards_explicit(bind(kernel, sizes)), machine, sizes)
            offered = sum(not o.why_not for o in found)
            reasons.update(o.why_not for o in found if o.why_not)
            lines.append(f"{name:28}{machine_name:18}{len(found):9}{offered:9}")
    lines += ["", *(f"{count:6} not offered: {why}" for why, count in reasons.most_common())]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.output:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
