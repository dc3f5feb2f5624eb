"""Products of DeepBench by isamap and by other compilers: IREE, TVM and Exo, those that are installed.

    pip install iree-base-compiler iree-base-runtime exo-lang psutil xgboost-cpu cloudpickle
    pip install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post0
    python benchmarks/peers.py --tvm-trials 16 > peers.txt

f32, C[M, N] += A[M, K]·B[K, N], one thread, processor time; contenders take turns on data of their own.
isamap and Exo add in place; TVM writes the sum to another array, IREE as it likes. IREE compiles for this
processor, with operands tiled in memory and without (the faster counts). TVM takes the best of the
schedules that MetaSchedule draws and measures. Exo has exo_gemm.py, a schedule by hand for AVX-512 in whole
blocks: it is left out where nothing divides.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from alternate import program, source, turns

from isamap.driver.inputs import find_profile
from isamap.driver.request import Request
from isamap.machine import detect_machine
from isamap.suites.shapes import BatchedProduct, read_suite

# M = n, N = m, K = k of DeepBench's column-major rows.
ROWS = (
    (1, 7680, 2560), (4, 7680, 2560), (16, 512, 512), (16, 1760, 1760), (32, 2560, 2560), (64, 1760, 1760),
    (64, 4096, 4096), (128, 1760, 1760), (128, 2048, 2048), (700, 1024, 512), (1500, 3072, 128),
    (7000, 1760, 1760),
)  # fmt: skip
# Folders of loaded libraries: one that takes the place of a deleted one would be taken for it.
LOADED: list[tempfile.TemporaryDirectory[str]] = []
NAMES = ("isamap", "iree", "tvm", "exo")

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]
Contender = tuple[Callable[[], object], Callable[[], np.ndarray]]


def isamap(m: int, n: int, k: int, data: Arrays) -> Contender:
    """Return what `isamap compile gemm_f32` gives on this machine: calibrated, where it has a profile."""
    sizes = {"M": m, "N": n, "K": k}
    text, machine = source("gemm_f32"), detect_machine()
    request = Request(text, machine, sizes, profile=find_profile("default", machine))
    call, arrays, _ = program(text, machine, sizes, sizes, request=request)
    for name, given in zip("ABC", data, strict=True):
        arrays[name][...] = given
    return call, lambda: arrays["C"]


def iree(m: int, n: int, k: int, data: Arrays) -> Contender:
    """linalg.matmul, called in the caller's thread; operands tiled in memory or not, whichever is faster."""
    compiler, runtime = import_module("iree.compiler"), import_module("iree.runtime")
    a, b, c = (f"tensor<{x}x{y}xf32>" for x, y in ((m, k), (k, n), (m, n)))
    text = f"""func.func @gemm(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
      %0 = linalg.matmul ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}
      return %0 : {c}
    }}"""
    config = runtime.Config("local-sync")
    given, fresh = ([runtime.asdevicearray(config.device, x) for x in data] for _ in range(2))
    found: list[Any] = []
    for tiling in ("true", "false"):
        flags = ["--iree-llvmcpu-target-cpu=host", f"--iree-opt-data-tiling={tiling}"]
        built = compiler.compile_str(text, target_backends=["llvm-cpu"], extra_args=flags)
        context = runtime.SystemContext(config=config)
        context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, built))
        found.append(context.modules.module["gemm"])
    best = min(found, key=lambda function: min(_seconds(partial(function, *given)) for _ in range(3)))
    # On others for the result: without tiling it adds in place.
    return partial(best, *given), lambda: best(*fresh).to_host()


def _seconds(call: Callable[[], object]) -> float:
    started = time.thread_time()
    call()
    return time.thread_time() - started


def tvm(m: int, n: int, k: int, data: Arrays, trials: int) -> Contender:
    """Return the best of the schedules that MetaSchedule tries."""
    lib, te = import_module("tvm"), import_module("tvm.te")
    ms = import_module("tvm.s_tir.meta_schedule")
    a, b, c = (te.placeholder(x.shape, "float32", name=name) for x, name in zip(data, "ABC", strict=True))
    axis = te.reduce_axis((0, k), "k")
    product = te.compute((m, n), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis), name="P")
    total = te.compute((m, n), lambda i, j: c[i, j] + product[i, j], name="D")
    function = te.create_prim_func([a, b, c, total])
    target = lib.target.Target(
        {"kind": "llvm", "mcpu": lib.target.codegen.llvm_get_system_cpu(), "num-cores": 1}
    )
    with tempfile.TemporaryDirectory() as folder:
        builder = ms.builder.LocalBuilder(max_workers=1, timeout_sec=200)
        found = ms.tune_tir(
            mod=function, target=target, work_dir=folder, max_trials_global=trials,
            num_trials_per_iter=min(trials, 16), builder=builder,
        )  # fmt: skip
        schedule = ms.tir_integration.compile_tir(found, function, target)
        if schedule is None:
            raise RuntimeError("MetaSchedule has found nothing")
        module = lib.compile(schedule.mod, target=target)
    given = [lib.runtime.tensor(x, lib.cpu()) for x in (*data, np.zeros((m, n), np.float32))]
    call = module["main"]
    return lambda: call(*given), lambda: (call(*given), given[3].numpy())[1]


def exo(m: int, n: int, k: int, data: Arrays) -> Contender:
    """Return a panel of B packed, a register block over all of K: as large as registers and divisors allow."""
    blocks = [(mr, nr) for nr in (64, 48, 32, 16) for mr in range(1, 25) if m % mr == 0 and n % nr == 0]
    fitting = [block for block in blocks if block[0] * block[1] // 16 + block[1] // 16 + 1 <= 32]
    if not fitting:
        raise ValueError("no block divides these sizes")
    mr, nr = max(fitting, key=lambda block: (block[0] * block[1] / (block[0] + block[1] / 16), block))
    text = import_module("exo_gemm").gemm(m, n, k, mr, nr).c_code_str()
    folder = tempfile.TemporaryDirectory()
    Path(folder.name, "gemm.c").write_text(text)
    words = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-o", "gemm.so", "gemm.c"]
    subprocess.run(words, cwd=folder.name, check=True, capture_output=True)
    library = ctypes.CDLL(str(Path(folder.name, "gemm.so")))
    own = tuple(x.copy() for x in data)
    LOADED.append(folder)

    def call() -> None:
        library.gemm(None, *(ctypes.c_void_p(x.ctypes.data) for x in own))

    return call, lambda: own[2]


def contenders(
    m: int, n: int, k: int, data: Arrays, options: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the calls by name, each checked against numpy, and why others are missing; valid as long as the data."""
    expected = data[0].astype(np.float64) @ data[1] + data[2]
    makers: dict[str, Callable[[], Contender]] = {
        "isamap": lambda: isamap(m, n, k, data),
        "iree": lambda: iree(m, n, k, data),
        "exo": lambda: exo(m, n, k, data),
    }
    if options.tvm_trials:
        makers["tvm"] = lambda: tvm(m, n, k, data, options.tvm_trials)
    calls: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, make in makers.items():
        started = time.perf_counter()
        try:
            call, result = make()
        except (ImportError, ValueError, RuntimeError) as error:
            missing[name] = str(error).splitlines()[0][:100]
            continue
        took = time.perf_counter() - started
        if name in ("isamap", "exo"):
            call()
        error = np.abs(result() - expected).max()
        assert error <= 4 * k * 2.0**-24, f"{name} is wrong by {error}"
        calls[name] = (call, took)
    return calls, missing


def row(m: int, n: int, k: int, options: argparse.Namespace) -> dict[str, float]:
    """Time one product and print its line; how many times as fast isamap is, by name."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    calls, missing = contenders(m, n, k, (a, b, c), options)
    times = turns({name: call for name, (call, _) in calls.items()}, options.rounds)
    middle = {name: median(each) for name, each in times.items()}
    ratios = {name: middle[name] / middle["isamap"] for name in NAMES[1:] if name in middle}
    speeds = (f"{2e-9 * m * n * k / middle[x]:9.1f}" if x in middle else f"{'-':>9s}" for x in NAMES)
    against = (f"{ratios[x]:7.2f}" if x in ratios else f"{'-':>7s}" for x in NAMES[1:])
    built = " ".join(f"{name} {took:.1f}" for name, (_, took) in calls.items())
    why = "".join(f"; {name}: {reason}" for name, reason in missing.items())
    print(f"{f'{m} x {n} x {k}':18s}{''.join(speeds)}   {''.join(against)}   {built}{why}", flush=True)
    return ratios


def main() -> None:
    """Build, check, take turns, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tvm-trials", type=int, default=64, help="how many schedules TVM measures; or 0")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    os.environ["TVM_NUM_THREADS"] = "1"
    known = {(p.m, p.n, p.k) for p in read_suite("deepbench-gemm") if isinstance(p, BatchedProduct)}
    assert set(ROWS) <= known, f"no rows of DeepBench: {set(ROWS) - known}"
    print("GFLOP/s (median), then how many times as fast isamap is, then seconds to compile")
    speeds, ratios = (f"{name:>9s}" for name in NAMES), (f"{name:>7s}" for name in NAMES[1:])
    print(f"{'M x N x K':18s}{''.join(speeds)}   {''.join(ratios)}")
    found = [row(*sizes, options) for sizes in ROWS]
    for name in NAMES[1:]:
        those = [ratios[name] for ratios in found if name in ratios]
        if those:
            print(f"geometric mean against {name}: {geometric_mean(those):.2f} over {len(those)} rows")


if __name__ == "__main__":
    main()
