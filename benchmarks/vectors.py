"""Time kernels that networks wait for, compared with torch, one thread, in alternation.

    python benchmarks/vectors.py [NAME …]

Processor times of each call, least and median in µs. Each row has a lower bound for isamap's method: the time of its
arithmetic, of its loads, or of the bytes that it reads, at the rates of a Zen 4 core. The error is the largest
difference to torch's results, as a share of the largest number.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from alternate import program

from isamap.driver.inputs import machine_of
from isamap.driver.request import Choices, make_request
from isamap.source import Source, dataclass

HOST = machine_of("host")
SECONDS, LEAST = 6.0, 30
PEAK_GFLOPS, L2_GB = 118.0, 110.0  # of one core of a Zen 4 guest: products of f32, and reads of a MiB
Call = Callable[[], Any]
Arrays = dict[str, Any]

ARGMAX = """kernel argmax(M, N) {
  in x: f32[M, N];
  out y: i32[M];
  temp top: f32[M];
  for m in M {
    top[m] = -inf;
    y[m] = i32(N);
  }
  for m in M, n in N { top[m] max= x[m, n]; }
  for m in M, n in N { y[m] min= select(x[m, n] == top[m] | x[m, n] != x[m, n], i32(n), i32(N)); }
}"""
HISTOGRAM = """kernel histogram(N, B) {
  in x: i32[N];
  out y: i32[B];
  for b in B { y[b] = 0; }
  for b in B, n in N { y[b] += select(x[n] == i32(b), 1, 0); }
}"""
BYTES = """kernel extreme(M, N) {
  in x: TYPE[M, N];
  out y: TYPE[M];
  for m in M { y[m] = START; }
  for m in M, n in N { y[m] OP= x[m, n]; }
}"""
LU = """kernel lu(B, N) {
  inout y: f32[B, N, N];
  seq k in N {
    for b in B, i in N if i > k { y[b, i, k] = y[b, i, k] / y[b, k, k]; }
    for b in B, i in N, j in N if i > k & j > k { y[b, i, j] += -y[b, i, k] * y[b, k, j]; }
  }
}"""
_CODES = """kernel {name}(M, B) {{
  in w: u8[16*M*B] values 0..255;
  in e: u8[M*B] values 0..255;
  in codes: {dtype}[16];
  in powers: f32[256];
  in x: f32[B, 32];
  out y: f32[M];
  for m in M {{ y[m] = 0; }}
  for m in M, b in B, i in 16 {{
    y[m] += powers[e[m*B + b]] * fma({cast}(codes[w[(m*B + b) * 16 + i] % 16]), x[b, i],
      {cast}(codes[w[(m*B + b) * 16 + i] / 16]) * x[b, i + 16]);
  }}
}}"""
TABLE = _CODES.format(name="mxfp4", dtype="f32", cast="")
BYTE_TABLE = _CODES.format(name="mxfp4_bytes", dtype="i8", cast="f32")
PAIRS = """kernel mxfp4_gemv(M, B) {
  in w: u8[16*M*B] values 0..255;
  in e: u8[M*B] values 0..255;
  in pairs: f32[256, 2];
  in powers: f32[256];
  in x: f32[B, 32];
  out y: f32[M];
  for m in M { y[m] = 0; }
  for m in M, b in B, i in 16, h in 2 {
    y[m] += powers[e[m*B + b]] * pairs[w[(m*B + b) * 16 + i], h] * x[b, 2*i + h];
  }
}"""


@dataclass(frozen=True)
class Row:
    """A kernel, its sizes, and torch's call over the same arrays. `bound_us` is the least time that it can take."""

    name: str
    text: str
    sizes: dict[str, int]
    fill: Callable[[Arrays, Any], None]
    other: Callable[[Arrays, Any], Call]
    bound_us: float


def butterflies(rows: int, length: int) -> str:
    """Return the Walsh-Hadamard transform of rows: a statement for sums and one for differences in each stage."""
    stages: list[str] = []
    names = ["x", *(f"t{n}" for n in range(length.bit_length() - 2)), "y"]
    for stage, (read, written) in enumerate(pairwise(names)):
        half = 1 << stage
        low, high = f"r, {2 * half}*b + j", f"r, {2 * half}*b + j + {half}"
        stages.append(f"""  for r in {rows}, b in {length // 2 // half}, j in {half} {{
    {written}[{low}] = {read}[{low}] + {read}[{high}];
    {written}[{high}] = {read}[{low}] - {read}[{high}];
  }}""")
    shape = f"f32[{rows}, {length}];"
    temps = "\n".join(f"  temp {name}: {shape}" for name in names[1:-1])
    return "\n".join([f"kernel hadamard() {{\n  in x: {shape}\n  out y: {shape}\n{temps}", *stages, "}"])


def hadamard(x: Any, torch: Any) -> Any:
    """Return the transform by torch: a sum and a difference of halves for each stage."""
    rows, length = x.shape
    half = 1
    while half < length:
        pairs = x.view(rows, length // 2 // half, 2, half)
        x = torch.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), 2).view(
            rows, length
        )
        half *= 2
    return x


def dense(arrays: Arrays, *, pairs: bool) -> Any:
    """Return the matrix of MXFP4 weights in f32."""
    w, e, powers = arrays["w"], arrays["e"], arrays["powers"]
    blocks = w.reshape(-1, 16)
    if pairs:
        values = arrays["pairs"][blocks].reshape(-1, 32)
    else:
        values = np.concatenate((arrays["codes"][blocks % 16], arrays["codes"][blocks // 16]), 1)
    columns = arrays["x"].size
    return (values * powers[e][:, None]).reshape(-1, columns).astype(np.float32)


def rows(torch: Any) -> Iterator[Row]:
    """Yield the rows of the table."""

    def of(array: Any) -> Any:
        return torch.from_numpy(array)

    def nothing(arrays: Arrays, rng: Any) -> None:
        del arrays, rng

    def small(arrays: Arrays, rng: Any) -> None:
        arrays["x"][...] = rng.integers(0, 64, arrays["x"].shape)

    def factorable(arrays: Arrays, rng: Any) -> None:
        y = arrays["y"]
        y[...] = rng.standard_normal(y.shape) + 2 * y.shape[-1] * np.eye(y.shape[-1])

    mib = 1024 * 1024 * 4 / L2_GB / 1e3
    yield Row("argmax 256 × 1024", ARGMAX, {"M": 256, "N": 1024}, nothing,
              lambda a, t: lambda: t.argmax(of(a["x"]), 1), 2 * mib / 4)  # fmt: skip
    yield Row("histogram 65,536 in 64", HISTOGRAM, {"N": 65536, "B": 64}, small,
              lambda a, t: lambda: t.bincount(of(a["x"]), minlength=64), 65536 * 64 * 2 / 16 / 3.5e3 / 2)  # fmt: skip
    for kind, op, start in (("u8", "max", 0), ("i8", "min", 127)):
        text = BYTES.replace("TYPE", kind).replace("OP", op).replace("START", str(start))
        yield Row(f"{op} of rows, {kind}, 256 × 4096", text, {"M": 256, "N": 4096}, nothing,
                  lambda a, t, op=op: lambda: getattr(t, f"a{op}")(of(a["x"]), 1), mib / 4)  # fmt: skip
    yield Row("Hadamard 256 × 256", butterflies(256, 256), {}, nothing,
              lambda a, t: lambda: hadamard(of(a["x"]), t), 256 * 256 * 8 / 16 / 3.5e3)  # fmt: skip
    for batch, size in ((1, 128), (256, 8)):
        yield Row(f"LU {batch} × {size}²", LU, {"B": batch, "N": size}, factorable,
                  lambda a, t: lambda: t.linalg.lu_factor_ex(of(a["y"])),
                  2 / 3 * batch * size**3 / PEAK_GFLOPS / 1e3)  # fmt: skip
    for name, text, is_pairs in (
        ("16 codes", TABLE, False),
        ("16 codes of bytes", BYTE_TABLE, False),
        ("256 pairs", PAIRS, True),
    ):

        def product(a: Arrays, t: Any, is_pairs: bool = is_pairs) -> Call:
            matrix = of(dense(a, pairs=is_pairs))
            vector = of(a["x"]).reshape(-1)
            return lambda: t.mv(matrix, vector)

        loads = 2 * 1024 * 512 / 3 / 3.5e3 if is_pairs else 2 * 1024 * 1024 / 2 / 16 / 3.5e3
        yield Row(f"MXFP4 1024², {name}", text, {"M": 1024, "B": 32}, nothing, product, loads)


def cpu_us(call: Call) -> float:
    """Return the processor time of a call. Units: microseconds."""
    start = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - start) / 1e3


def measure(row: Row, torch: Any) -> str:
    """Return a line of the table."""
    text = Source("kernel.ir", row.text)
    request = make_request(text, HOST, dict(row.sizes), Choices(transform="best"))
    own, arrays, _ = program(text, HOST, dict(row.sizes), row.sizes, request=request)
    rng = np.random.default_rng(7)
    row.fill(arrays, rng)
    again = {"y": arrays["y"].copy()} if "inout" in row.text else {}
    other = row.other(arrays, torch)
    result: Any = other()
    wanted: Any = getattr(result, "LU", result).numpy()
    own()
    error = float(np.max(np.abs(arrays["y"].astype(float) - wanted)) / max(1.0, np.max(np.abs(wanted))))
    times: dict[str, list[float]] = {"isamap": [], "torch": []}
    stop = time.perf_counter() + SECONDS
    while time.perf_counter() < stop or len(times["torch"]) < LEAST:
        for name, call in (("isamap", own), ("torch", other)):
            for array, values in again.items():
                arrays[array][...] = values
            times[name].append(cpu_us(call))
    a, b = times["isamap"], times["torch"]
    ratios = f"{min(b) / min(a):.2f}, {median(b) / median(a):.2f}"
    return (
        f"| {row.name} | {min(a):.1f}, {median(a):.1f} | {min(b):.1f}, {median(b):.1f} | {ratios} "
        f"| {row.bound_us:.1f} | {error:.1e} |"
    )


def main(names: list[str]) -> None:
    """Print the table of all rows, or of those whose names contain one of `names`."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    print("| kernel | isamap | torch | ratio | bound | error |\n|---|---|---|---|---|---|")
    for row in rows(torch):
        if not names or any(name in row.name for name in names):
            print(measure(row, torch), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
