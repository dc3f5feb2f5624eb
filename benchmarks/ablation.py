"""One instruction taken out of a machine's description: what follows in mappings, code and speed.

    python benchmarks/ablation.py > ablation.txt

Each case derives a machine of five lines (`extends`, `remove`) from a shipped one; nothing else changes. Both
are asked for the kernel's mappings, compiled, verified against the interpreter, and timed in turns: processor
time of one thread, the median over rounds of how much longer the smaller machine takes, with the interval
that holds it with 95 %.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from alternate import program, source, turns

from isamap.bench.paired_timing import ratio
from isamap.driver.api import find_mappings
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases

VERIFIED = {"M": 33, "N": 47, "K": 29}
ROUNDS = 15


@dataclass(frozen=True, slots=True)
class Ablation:
    """A kernel at some sizes on a machine, and the instructions to be removed from it."""

    machine: str
    kernel: str
    sizes: tuple[int, int, int]
    removed: tuple[str, ...]

    @property
    def named_sizes(self) -> dict[str, int]:
        return dict(zip("MNK", self.sizes, strict=True))


CASES = (
    Ablation("x86-avx512", "gemm_f32", (512, 512, 512), ("fma_zmm_f32",)),
    Ablation("x86-avx512", "gemm_f32", (512, 512, 512), ("fma_zmm_f32", "fma_ymm_f32")),
    Ablation("x86-avx512", "gemm_f32", (512, 512, 512), ("broadcast_zmm_f32",)),
    Ablation("x86-avx512", "gemm_f32", (128, 35, 512), ("maskload_zmm_f32",)),
    Ablation("x86-avx512", "gemm_f32", (128, 35, 512), ("maskstore_zmm_f32",)),
    Ablation(
        "x86-avx512",
        "gemm_f32",
        (128, 35, 512),
        ("maskload_zmm_f32", "maskload_ymm_f32", "maskstore_zmm_f32", "maskstore_ymm_f32"),
    ),
    Ablation("x86-avx512-vnni", "gemm_u8s8", (512, 512, 512), ("dpbusd_zmm",)),
    Ablation("x86-avx512-vnni", "gemm_u8s8", (512, 512, 512), ("dpbusd_zmm", "dpbusd_ymm")),
    Ablation("x86-avx512-bf16", "gemm_bf16", (512, 512, 512), ("dpbf16_zmm",)),
    Ablation(
        "x86-avx512-bf16",
        "gemm_bf16",
        (512, 512, 512),
        ("interleave1_lo_zmm_bf16", "interleave1_hi_zmm_bf16"),
    ),
    Ablation("x86-avx512-bf16", "gemm_bf16", (512, 512, 512), ("cvt_zmm_f32_bf16", "cvt2_zmm_f32_bf16")),
)


def main() -> None:
    """Print each case in four lines."""
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            for line in _case(case, Path(folder)):
                print(line, flush=True)


def derived(case: Ablation, folder: Path) -> Path:
    """Return the description without the instructions, as a file."""
    path = folder / "smaller.yaml"
    path.write_text(
        "isamap: 1\n"
        "name: smaller\n"
        f"summary: without {', '.join(case.removed)}\n"
        f"extends: {case.machine}\n"
        f"remove: [{', '.join(case.removed)}]\n",
        encoding="utf-8",
    )
    return path


def _case(case: Ablation, folder: Path) -> Sequence[str]:
    """Return what both machines make of a kernel, side by side."""
    smaller = str(derived(case, folder))
    sizes = case.named_sizes
    text = source(case.kernel)
    machines = (case.machine, smaller)
    before, after = (len(find_mappings(case.kernel, hw, sizes)) for hw in machines)
    verified = all(
        compared.ok
        for values in (sizes, VERIFIED)
        for compared in all_cases(prepare(Request(text, smaller, values)), (), guard=True)
    )
    whole, _, first = program(text, case.machine, sizes, sizes)
    other, _, second = program(text, smaller, sizes, sizes)
    times = turns({"whole": whole, "smaller": other}, ROUNDS)
    found = ratio(times["whole"], times["smaller"])
    used = [_instructions(prepare(Request(text, hw, sizes)).program.outcome.files) for hw in machines]
    lost, gained = sorted(used[0] - used[1]), sorted(used[1] - used[0])
    chosen = " -> ".join(schedule.nests[0].mapping for schedule in (first, second))
    took = " -> ".join(f"{median(times[name]) * 1e6:.1f} us" for name in ("whole", "smaller"))
    interval = f"{found.value:.2f} times as long ({found.low:.2f}..{found.high:.2f})"
    word = "verified" if verified else "WRONG"
    return (
        f"{case.machine} without {', '.join(case.removed)}; {case.kernel} {'x'.join(map(str, case.sizes))}",
        f"  mappings {before} -> {after}; chosen {chosen}",
        f"  code: no {', '.join(lost) or 'less'}; now {', '.join(gained) or 'nothing new'}; {word}",
        f"  {took}: takes {interval}",
        "",
    )


def _instructions(files: Mapping[str, str]) -> set[str]:
    """Return the instructions that a report names."""
    line = re.search(r"^instructions: (.*)$", files["report.txt"], re.MULTILINE)
    return set(line[1].split(", ")) if line else set()


if __name__ == "__main__":
    main()
