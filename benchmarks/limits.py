"""How well `--limit` is kept: limit against elapsed time of the scheduling stage, each case in a new process.

    python benchmarks/limits.py [-o FILE]

A limit may be missed by a tenth and half a second. Limits are short enough that the clock stops most of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GEMM = {"M": 1760, "N": 1760, "K": 1760}
CONV = {"N": 1, "C": 64, "K": 64, "H": 56, "W": 56, "R": 3, "S": 3}
VOLUME = {"N": 1, "C": 16, "K": 32, "D": 16, "H": 28, "W": 28, "T": 3, "R": 3, "S": 3}
HEADS = {"L": 4, "H": 8, "M": 384, "N": 384, "D": 64}
CASES: tuple[tuple[str, str, dict[str, int], float], ...] = (
    ("gemm_f32", "x86-avx512", GEMM, 0.1),
    ("gemm_f32", "x86-avx512", GEMM, 1.0),
    ("gemm_bf16", "x86-amx", GEMM, 0.5),
    ("gemm_bf16", "x86-amx", GEMM, 3.0),
    ("conv2d_nchw", "x86-avx512", CONV, 0.1),
    ("conv2d_nchw", "x86-avx512", CONV, 1.0),
    ("conv2d_nchw", "x86-avx512", CONV, 5.0),
    ("conv2d_nhwc", "x86-avx2", CONV, 0.5),
    ("conv2d_nhwc", "x86-avx2", CONV, 2.0),
    ("conv3d", "x86-avx512", VOLUME, 0.5),
    ("conv3d", "x86-avx512", VOLUME, 2.0),
    ("conv3d", "x86-avx512", VOLUME, 10.0),
    ("attention_scores", "x86-avx512", HEADS, 0.2),
    ("attention_scores", "x86-avx512", HEADS, 1.0),
)
SHARE, SLACK_S = 0.1, 0.5
HEADER = "kernel            machine        limit_s allowed_s elapsed_s  status       gap  stopped"


def child(kernel: str, machine: str, sizes: dict[str, int], limit_s: float) -> None:
    """One case in this process: prints what it took as JSON."""
    from isamap.driver.inputs import read_kernel
    from isamap.driver.pipeline import compile_kernel
    from isamap.driver.request import Request

    request = Request(kernel=read_kernel(kernel), machine=machine, sizes=sizes, limit_s=limit_s)
    made = compile_kernel(request, "schedule")
    assert made.schedule is not None
    answer = {
        "seconds": made.stage_seconds["schedule"],
        "status": made.schedule.status,
        "gap": made.schedule.gap,
        "reproducible": made.schedule.reproducible,
        "codes": [finding.code for finding in made.schedule.findings],
    }
    print(json.dumps(answer))


def main() -> None:
    """Print the table, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", metavar="FILE", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.case:
        child(*json.loads(words.case))
        return
    load = os.getloadavg()[0]
    lines = [
        f"limits, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load {load:.1f} when it began",
        "allowed is a tenth and half a second more than the limit; gap 1.00 means that nothing is proven",
        "",
        HEADER,
    ]
    kept = 0
    for kernel, machine, sizes, limit_s in CASES:
        command = [sys.executable, __file__, "--case", json.dumps([kernel, machine, sizes, limit_s])]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        found = json.loads(done.stdout)
        allowed_s = limit_s * (1 + SHARE) + SLACK_S
        kept += found["seconds"] <= allowed_s
        stopped = "no" if found["reproducible"] else ", ".join(found["codes"])
        lines.append(
            f"{kernel:18}{machine:14}{limit_s:8.1f}{allowed_s:10.2f}{found['seconds']:10.2f}"
            f"  {found['status']:10}{found['gap']:6.3f}  {stopped}"
        )
        print(lines[-1], flush=True)
    lines += ["", f"{kept} of {len(CASES)} limits kept"]
    print(lines[-1])
    if words.o:
        words.o.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
