"""How the order of the model's best schedules agrees with the measured one, and the simulated one with it.

    python benchmarks/evaluators.py [--best 8]

Per case: how many distinct schedules; Kendall's tau of model and simulation against the measurement; how much
slower the first choice of each is than the best measured; how far apart the measured ones lie; and what model
and simulation say of the model's first, over what was measured. This processor's machine, without a profile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from isamap.report.schedules import kendall_tau

CASES = (
    ("gemm_f32", "M=64 N=64 K=64"),
    ("gemm_f32", "M=512 N=512 K=512"),
    ("gemm_f32", "M=100 N=200 K=300"),
    ("gemm_f32", "M=35 N=700 K=2048"),
    ("gemv_f32", "M=2048 K=2048"),
    ("gemm_bf16", "M=256 N=256 K=256"),
    ("gemm_u8s8", "M=256 N=256 K=256"),
)


def main() -> int:
    """Print a line per case."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--best", default="8", help="schedules of the model, besides those of heuristics")
    best = options.parse_args().best
    for kernel, sizes in CASES:
        words = [kernel, "--hw", "host", "--profile", "none", "-D", *sizes.split(), "--best", best]
        words += ["--heuristic", "cpsat,greedy,annealing", "--evaluate", "measured,simulated", "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "isamap", "schedule", *words], capture_output=True, text=True, check=False
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        if "attempts" not in answer:
            print(kernel, sizes, answer["diagnostics"][0]["message"], flush=True)
            continue
        print(kernel, sizes, line(answer["attempts"]), flush=True)
    return 0


def line(attempts: list[dict[str, Any]]) -> str:
    """Return what the schedules of one case come to."""
    model = [float(a["cost_ns"]) for a in attempts]
    measured, simulated = (
        [float(a["evaluations"][name]["cost_ns"]) for a in attempts] for name in ("measured", "simulated")
    )
    least = min(measured)
    firsts = [measured[costs.index(min(costs))] / least for costs in (model, simulated)]
    taus = [kendall_tau(list(zip(costs, measured, strict=True))) for costs in (model, simulated)]
    shown = ["-" if tau is None else f"{tau:.2f}" for tau in taus]
    return (
        f"{len(attempts)} model tau {shown[0]} sim tau {shown[1]} model first/best {firsts[0]:.3f} "
        f"sim first/best {firsts[1]:.3f} spread {max(measured) / least:.2f} "
        f"model/meas {model[0] / measured[0]:.2f} sim/meas {simulated[0] / measured[0]:.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
