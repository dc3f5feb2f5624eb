"""A product on one thread and on several, in alternation: what dealing it to threads gives.

    python benchmarks/threads.py gemm_f32 --hw x86-avx512 --threads 2 -D M=1024 N=1024 K=1024

Both programs run in this process on the same random data, in turns; minimum and median of each and the
median of the paired ratios are printed, beside what the model says of both. Nothing is asserted: the figures
are for people.
"""

from __future__ import annotations

import argparse
import statistics
import time

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.kernels import kernel_path
from isamap.run.fills import make_arrays
from isamap.run.in_process import InProcess
from isamap.run.toolchain import compile_library
from isamap.source import Source


def main() -> None:
    """Compile twice, take turns, report."""
    options = _options()
    sizes = {n: int(v) for n, v in (word.split("=") for word in options.D)}
    path = kernel_path(options.kernel)
    source = Source(path.name, path.read_text(encoding="utf-8"))
    made: dict[int, Compilation] = {}
    programs: dict[int, InProcess] = {}
    for threads in (1, options.threads):
        request = Request(source, options.hw, sizes, heuristic=options.heuristic, threads=threads)
        made[threads] = compile_kernel(request)
        emitted, machine = made[threads].emitted, made[threads].machine
        assert isinstance(emitted, EmittedC)
        assert machine
        programs[threads] = InProcess(compile_library(emitted, machine), threads)
    arrays = make_arrays(made[1].kernel, "random")
    times: dict[int, list[float]] = {threads: [] for threads in programs}
    for number in range(options.rounds + 1):
        for threads, program in programs.items():
            started = time.perf_counter()
            assert program(arrays) == 0
            if number:  # the first round touches memory and starts threads
                times[threads].append(time.perf_counter() - started)
    for threads, seconds in times.items():
        schedule = made[threads].schedule
        assert schedule
        parts = " ".join(f"par {s.axis} by {s.step}" for n in schedule.nests for s in n.loops[: n.parallel])
        modelled = f"model {(schedule.cost_ns or 0) / 1e6:.3f} ms"
        best, middle = min(seconds) * 1e3, statistics.median(seconds) * 1e3
        print(f"{threads} threads: {best:.3f} ms best, {middle:.3f} ms median, {modelled}  {parts}")
    one, several = times[1], times[options.threads]
    ratios = [a / b for a, b in zip(one, several, strict=True)]
    print(
        f"ratio: {statistics.median(ratios):.2f} median of pairs, {min(one) / min(several):.2f} of the best"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("kernel", nargs="?", default="gemm_f32")
    parser.add_argument("--hw", default="x86-avx512")
    parser.add_argument("-D", nargs="+", default=["M=1024", "N=1024", "K=1024"], metavar="NAME=VALUE")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--heuristic", default="cpsat")
    parser.add_argument("--rounds", type=int, default=30)
    return parser.parse_args()


if __name__ == "__main__":
    main()
