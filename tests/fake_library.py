"""A library of our own, and its description: what `--portfolio` may find on a computer.

library = FakeLibrary(tmp_path, "void fake_total(int n, …) { … }", calls)
main(["compile", …, "--portfolio", "--library", str(library.description)])
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from isamap.run.toolchain import find_compiler

NAME = "libfake.so"

TOTAL = """\
calls:
  - prototype: void fake_total(int32_t n, int32_t k, const float *x, float *y)
    forms:
      - kernel: |
          kernel every(N, K) {
            in x: f32[K];
            inout y: f32[N];
            for n in N, k in K { y[n] += x[k]; }
          }
        arguments: [N, K, x, y]
"""
"""Adds the sum of x to each element of y: in N + K steps where a kernel takes N times K."""
KERNEL = "kernel spread(P, Q) { in b: f32[Q]; inout a: f32[P]; for p in P, q in Q { a[p] += b[q]; } }\n"
FAST = """\
#include <stdint.h>
void fake_total(int32_t n, int32_t k, const float *x, float *y) {
  double sum = 0;
  for (int32_t i = 0; i < k; i++) sum += x[i];
  for (int32_t i = 0; i < n; i++) y[i] += (float)sum;
}
"""
SLOW = FAST.replace("double sum = 0;", "double sum = 0;\n  for (volatile int64_t i = 0; i < 20000000; i++);")
WRONG = FAST.replace("sum += x[i]", "sum += 2 * x[i]")
CRASHES = FAST.replace("double sum = 0;", "double sum = *(volatile float *)8;")
BESIDE = FAST.replace("i < n; i++) y", "i < n + 1; i++) y")
ONE_THREAD = (
    FAST.replace("#include <stdint.h>", "#include <stdint.h>\n#include <stdlib.h>")
    .replace("double sum = 0;", 'double sum = (getenv("FAKE_THREADS") ? *getenv("FAKE_THREADS") : 0) != 49;')
)  # fmt: skip
"""Wrong unless it is told to take one thread."""


@dataclass(frozen=True, slots=True)
class FakeLibrary:
    """A library of C that was built in a folder, with the description that lies beside it."""

    description: Path

    @staticmethod
    def build(folder: Path, source: str, calls: str = TOTAL, name: str = "fake") -> FakeLibrary:
        """Return the library of a source, called `name`."""
        made = folder / name
        made.mkdir()
        (made / "fake.c").write_text(source, encoding="utf-8")
        words = [*find_compiler(()).command, "-O2", "-shared", "-fPIC", "-o", NAME, "fake.c"]
        subprocess.run(words, cwd=made, check=True, capture_output=True, timeout=300)
        return FakeLibrary.describe(made, calls, name)

    @staticmethod
    def describe(folder: Path, calls: str = TOTAL, name: str = "fake") -> FakeLibrary:
        """Return the description alone, of a library that lies beside it or does not."""
        path = folder / f"{name}.yaml"
        path.write_text(
            f"isamap: 1\nlibrary: {name}\nsummary: a library of a test\nfiles: [{{file: ./{NAME}}}]\n"
            f"link: -l:$FILE\nthreads: [FAKE_THREADS]\n{calls}",
            encoding="utf-8",
        )
        return FakeLibrary(path)
