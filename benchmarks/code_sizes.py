"""Measures the bytes of emitted code; `--write` puts them into docs/deploying.md.

    python benchmarks/code_sizes.py --write

Each command line of `CODES` is compiled for each machine of `TARGETS` with `--heuristic greedy`. The compiler of
the extra `cc` builds an object file at each level, and `size` of binutils counts its bytes.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "deploying.md"
TARGETS = {
    "x86-avx2": "-target x86_64-linux-musl",
    "aarch64-neon": "-target aarch64-linux-musl",
    "generic-c": "-target thumb-linux-musleabihf -mcpu=cortex_m4",
}
CODES = (
    "gemm_f32 -D M=64 N=64 K=64",
    "gemm_f32 -D M=64 N=64 K=64 --fix unroll.m=1",
    "gemm_f32 -D M=1..512@64 N=64 K=64",
    "gemm_s8s8 -D M=64 N=64 K=64",
    "conv2d_nhwc -D N=1 H=14 W=14 C=32 K=32 R=3 S=3",
    "softmax_f32 -D M=64 N=64",
    "softmax_f32 -D M=64 N=64 --fix nest2.unroll.m=1 --fix nest2.unroll.n=1",
)
LEVELS = ("-Os", "-O2", "-O3")
FLAGS = re.compile(r"Compile with -O3 ([^;.]*)")
TABLE = re.compile(r"^\| code \| machine \|.*\n(?:\|.*\n)+", re.MULTILINE)


def main(words: Sequence[str]) -> None:
    """Print the table; with `--write`, put it into the page."""
    lines = ["| code | machine | `-Os` | `-O2` | `-O3` | data |", "|---|---|---|---|---|---|"]
    for code in CODES:
        for machine in TARGETS:
            sizes = list(measure(code, machine))
            texts = [f"{text:,}" for text, _ in sizes]
            lines.append(f"| `{code}` | {machine} | {' | '.join(texts)} | {max(data for _, data in sizes)} |")
    table = "\n".join(lines) + "\n"
    sys.stdout.write(table)
    if words == ["--write"]:
        PAGE.write_text(TABLE.sub(lambda _: table, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def measure(code: str, machine: str) -> Iterator[tuple[int, int]]:
    """Return the bytes of text, and of data and bss, of one code at each level."""
    with tempfile.TemporaryDirectory() as folder:
        options = [*shlex.split(code), "--hw", machine, "--heuristic", "greedy", "-q", "-o", f"{folder}/out"]
        subprocess.run(
            [sys.executable, "-m", "isamap", "compile", *options], check=True, stdout=subprocess.DEVNULL
        )
        source = next(Path(folder, "out").glob("*.c"))
        flags = FLAGS.search(source.read_text(encoding="utf-8"))
        assert flags is not None, "the first comment names the flags"
        for level in LEVELS:
            built = [
                sys.executable,
                "-m",
                "ziglang",
                "cc",
                *TARGETS[machine].split(),
                *flags[1].split(),
                level,
            ]
            subprocess.run([*built, "-c", str(source), "-o", f"{folder}/code.o"], check=True)
            command = ["size", f"{folder}/code.o"]
            row = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[1]
            text, data, bss = map(int, row.split()[:3])
            yield text, data + bss


if __name__ == "__main__":
    main(sys.argv[1:])
