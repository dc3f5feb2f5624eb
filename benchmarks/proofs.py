"""How many mappings of shipped kernels on shipped machines are proved to be sound, and how long that takes.

python benchmarks/proofs.py --output proofs.txt
python benchmarks/proofs.py --machines x86-amx --kernels gemm_bf16
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from isamap.ir import Kernel
from isamap.kernels import kernel_path, list_kernels
from isamap.machine import list_machines, load_machine
from isamap.match import find_mappings, prove
from isamap.match.patterns.pattern import patterns_of
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import statements


def main() -> None:
    """One line per machine, then every reason for which something is unproved, with an example."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", nargs="+", default=list(list_kernels()))
    parser.add_argument("--machines", nargs="+", default=list(list_machines()))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    kernels = [_kernel(name) for name in options.kernels]
    reasons: Counter[str] = Counter()
    examples: dict[str, str] = {}
    lines = [
        f"command: python benchmarks/proofs.py {' '.join(sys.argv[1:])}".rstrip(),
        f"kernels: {len(kernels)}",
        f"{'machine':24} {'proved':>8} {'unproved':>8} {'mean ms':>8} {'worst ms':>8}",
    ]
    for machine in options.machines:
        lines.append(_machine(machine, kernels, reasons, examples))
        print(lines[-1], flush=True)
    lines += [f"unproved {n}: {reason}\n  as {examples[reason]}" for reason, n in reasons.most_common()]
    print("\n".join(lines))
    if options.output:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _machine(name: str, kernels: list[Kernel], reasons: Counter[str], examples: dict[str, str]) -> str:
    machine = load_machine(name)
    counts: Counter[str] = Counter()
    worst = total = 0.0
    for kernel in kernels:
        found = statements(kernel)
        for mapping in find_mappings(kernel, machine):
            (pattern,) = patterns_of(machine.instructions[mapping.instruction].instruction)
            started = time.perf_counter()
            proof = prove(pattern, found[mapping.statement], mapping, kernel)
            seconds = time.perf_counter() - started
            worst, total = max(worst, seconds), total + seconds
            counts[proof.status] += 1
            if proof.reason:
                reasons[proof.reason] += 1
                examples.setdefault(proof.reason, f"{name}, {kernel.name}: {mapping.ident}")
    mean_ms = 1000 * total / max(1, counts.total())
    numbers = f"{counts['proved']:8} {counts['unproved']:8} {mean_ms:8.2f} {1000 * worst:8.1f}"
    return f"{name:24} {numbers}"


def _kernel(name: str) -> Kernel:
    path = kernel_path(name)
    return parse_kernel(Source(path.name, path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
