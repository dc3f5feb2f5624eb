"""Every shipped kernel on every shipped machine, compared with the interpreter through the command line.

    python benchmarks/verify_all.py --output verify.txt
    python benchmarks/verify_all.py --kernels gemm_f32 gemm_bf16 --machines x86-amx

Matrix products take the sizes of verify_sizes.txt, other kernels three sets each, from a fixed seed. On a
machine that this processor lacks, the plain-C model of its instructions runs (`ran on: model`).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from isamap.kernels import kernel_path, list_kernels
from isamap.machine import list_machines
from isamap.source import Source
from isamap.syntax import parse_kernel

PRODUCT_SIZES = Path(__file__).parent / "verify_sizes.txt"


def main() -> None:
    """One line per kernel and machine: comparisons, failures, where it ran."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", nargs="+", default=list(list_kernels()))
    parser.add_argument("--machines", nargs="+", default=list(list_machines()))
    parser.add_argument("--heuristic", default="greedy")
    parser.add_argument("--sets", type=int, default=1000, help="at most this many sets of sizes a kernel")
    parser.add_argument(
        "--run-time", action="store_true", help="one program with M, N, K of 1..8192 for all sizes"
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    lines: list[str] = []
    for machine in options.machines:
        for kernel in options.kernels:
            lines.append(_verify(kernel, machine, options))
            print(lines[-1], flush=True)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text("\n".join(lines) + "\n")


def _verify(kernel: str, machine: str, options: argparse.Namespace) -> str:
    started = time.monotonic()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as sizes:
        sizes.writelines(f"{line}\n" for line in _sizes(kernel).splitlines()[: options.sets])
        sizes.flush()
        command = [sys.executable, "-m", "isamap", "verify", kernel, "--hw", machine, "--sizes", sizes.name]
        if options.run_time:
            command += ["-D", "M=1..8192@512", "N=1..8192@512", "K=1..8192@512"]
        result = subprocess.run(
            [*command, "--heuristic", options.heuristic, "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
    seconds = time.monotonic() - started
    try:
        answer = json.loads(result.stdout)
    except json.JSONDecodeError:
        return f"{kernel:22} {machine:16} no answer, exit {result.returncode}: {result.stderr[-200:]}"
    cases = answer.get("cases", [])
    failed = [c for c in cases if not c.get("ok")]
    said = "; ".join(d["message"] for d in answer["diagnostics"] if d["severity"] == "error")
    where = ", ".join(sorted({str(c.get("ran_on")) for c in cases}))
    verdict = "fine" if answer["ok"] else f"FAILED {len(failed)}: {said[:200]}"
    return f"{kernel:22} {machine:16} {len(cases):4} comparisons on {where:7} {seconds:7.1f} s  {verdict}"


def _sizes(kernel: str) -> str:
    path = kernel_path(kernel)
    params = parse_kernel(Source(path.name, path.read_text())).params
    names = [p.name for p in params if p.default is None]
    if set(names) == {"M", "N", "K"}:
        return PRODUCT_SIZES.read_text()
    rng = random.Random(kernel)
    sets = [dict.fromkeys(names, 1)]
    for low, high in ((3, 9), (10, 23)):
        sets.append({n: rng.randint(1, 3) if n in ("R", "S") else rng.randint(low, high) for n in names})
    return "\n".join(" ".join(f"{n}={v}" for n, v in s.items()) for s in sets) + "\n"


if __name__ == "__main__":
    main()
