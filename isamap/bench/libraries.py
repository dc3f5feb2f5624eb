"""The libraries that emitted code is compared with, each called as its users would call it.

A contender is made for one task and performs `calls` calls of it in one timed loop; in C if the library has a
C interface. A library is left out of rows that it does not support directly, because a second pass would make
it look slow.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from isamap.bench import packed_libraries
from isamap.bench.product_cases import GemmCase
from isamap.bench.ring import Mapped
from isamap.bench.timed_loops import TimedProduct, load_loops, pointers
from isamap.libraries.description import shipped_libraries, shipped_library
from isamap.libraries.installed import find_installed
from isamap.source.records import dataclass

Timed = Callable[[int, int], int]
"""A function that performs a number of calls, starting with a copy of the ring, and returns their nanoseconds."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A contender prepared for a task.

    `in_c` is true if the loop around it is C. `dispatch_ns` is the time of a call that computes almost
    nothing.
    """

    time: Timed
    implementation: str
    in_c: bool
    dispatch_ns: float = 0.0


class NotOffered(Exception):
    """An error: the library lacks the operation."""


def import_library(name: str) -> Any:
    """Return a library's module. Raises: NotOffered if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise NotOffered from None


def import_torch(threads: int) -> Any:
    """Return torch with a number of threads. Raises: NotOffered if it is not installed."""
    torch = import_library("torch")
    torch.set_num_threads(threads)
    return torch


HOLDS: dict[str, Mapping[str, str]] = {
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
    },
    "avx512": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "OPENBLAS_CORETYPE": "SkylakeX",
        "ATEN_CPU_CAPABILITY": "avx512",
    },
    "avx512_vnni": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI", "MKL_ENABLE_INSTRUCTIONS": "AVX512_E1"},
}
"""The environment variables that limit the baselines to an instruction set; they read them at start."""


def threads_environment(threads: int) -> dict[str, str]:
    """Return environment variables with the libraries' number of threads, which they read at start."""
    every = [one.variables(threads) for one in shipped_libraries()]
    return {name: value for one in every for name, value in one.items()}


# --- libraries with the C interface of BLAS ---------------------------------------------------------------


def prepare_openblas(mapped: Mapped[GemmCase], threads: int) -> Ready:
    """Return a call of the OpenBLAS in a Python package, for f32 only. Raises: NotOffered."""
    if mapped.task.form != "f32" or mapped.task.packed or mapped.task.case.batch > 1:
        raise NotOffered
    library = ctypes.CDLL(str(_find_installed("scipy-openblas")))
    config = library.scipy_openblas_get_config64_
    config.restype = ctypes.c_char_p
    says = config().decode(errors="replace")
    return _blas(mapped, "time_sgemm64", library.scipy_cblas_sgemm64_, says)


def _find_installed(name: str) -> Path:
    """Return the file of a described library. Raises: NotOffered."""
    found = find_installed(shipped_library(name))
    if found is None:
        raise NotOffered
    return found.path


_OF_MKL = {
    "f32": ("time_sgemm32", "cblas_sgemm"),
    "bf16_f32": ("time_bf16gemm", "cblas_gemm_bf16bf16f32"),
    "u8s8": ("time_u8gemm", "cblas_gemm_s8u8s32"),
}


def prepare_mkl(mapped: Mapped[GemmCase], threads: int) -> Ready:
    """Return a call of MKL's C interface: f32, bf16 into f32, u8·s8 into s32. Raises: NotOffered."""
    if mapped.task.form not in _OF_MKL or mapped.task.case.batch > 1:
        raise NotOffered
    loop, name = _OF_MKL[mapped.task.form]
    library = mkl_library()
    pack: str | None = None
    if mapped.task.packed:
        loop, name, pack = packed_libraries.MKL[mapped.task.form]
    library.MKL_Set_Num_Threads(threads)
    says = ctypes.create_string_buffer(200)
    library.MKL_Get_Version_String(says, 199)
    words = says.value.decode(errors="replace").strip()
    ready = packed_libraries.pack_for_mkl(library, pack, mapped) if pack else None
    return _blas(mapped, loop, library[name], f"{name}, {words}", ready)


def mkl_library() -> ctypes.CDLL:
    """Return MKL, loaded. Raises: NotOffered."""
    return ctypes.CDLL(str(_find_installed("mkl")), mode=ctypes.RTLD_GLOBAL)


def _blas(
    mapped: Mapped[GemmCase],
    loop: str,
    function: Any,
    implementation: str,
    packs: list[packed_libraries.PackedMemory] | None = None,
) -> Ready:
    task, case = mapped.task, mapped.task.case
    a, b, c = (pointers(mapped.addresses(name)) for name in "ABC")
    strides = [mapped.arrays[name][0].shape[1] for name in "ABC"]
    product = TimedProduct(
        case.n, case.m, case.k, *strides, case.b_transposed, case.a_transposed, task.beta,
        *(ctypes.addressof(x) for x in (a, b, c)),
    )  # fmt: skip
    timed = getattr(load_loops(task.loops), loop)
    lent = packed_libraries.with_packed(product, packs) if packs else mapped
    address, kept = ctypes.cast(function, ctypes.c_void_p), (mapped, a, b, c, lent)

    def time(calls: int, first: int) -> int:
        assert all(kept)  # what the pointers lead to lives as long as this function
        return int(timed(address, ctypes.addressof(product), task.ring, first, calls))

    return Ready(time, implementation, True)


# --- torch ------------------------------------------------------------------------------------------------


def prepare_torch(mapped: Mapped[GemmCase], threads: int) -> Ready:
    """Return calls of torch.mm, torch.addmm and torch._int_mm that write their results in place. Raises: NotOffered.

    With packed weights the call is a linear layer of oneDNN. Its last result is copied into C after the clock stops.
    """
    torch = import_torch(threads)
    call, results = _torch_call(torch, mapped)

    def time(calls: int, first: int) -> int:
        ring, last = mapped.task.ring, None
        with torch.inference_mode():
            start = perf_counter_ns()
            for number in range(first, first + calls):
                last = call(number % ring)
            ns = perf_counter_ns() - start
            if mapped.task.packed:
                results[(first + calls - 1) % ring].copy_(last)
            return ns

    with torch.inference_mode():
        name = torch_implementation(torch, call)
        one = torch.ones((1, 1))
        out = torch.ones((1, 1))
        start = perf_counter_ns()
        for _ in range(DISPATCHES):
            torch.mm(one, one, out=out)
        dispatch_ns = (perf_counter_ns() - start) / DISPATCHES
    return Ready(time, f"torch {version('torch')}: {name}", False, dispatch_ns)


DISPATCHES = 2000
TORCH_TYPES = {"f32": "float32", "bf16": "bfloat16", "i8": "int8", "i32": "int32"}


def _torch_call(torch: Any, mapped: Mapped[GemmCase]) -> tuple[Callable[[int], object], list[Any]]:
    """Return the call on a copy of the operands, and the tensors of its result C."""
    task, case = mapped.task, mapped.task.case
    if task.packed and (task.form == "s8s8" or task.beta or case.batch > 1):
        raise NotOffered
    if task.form not in ("f32", "bf16", "s8s8") or (task.form == "s8s8" and task.beta):
        raise NotOffered
    tensors: dict[str, list[Any]] = {}
    for name, arrays in mapped.arrays.items():
        dtype = getattr(torch, TORCH_TYPES[task.places[name].dtype])
        raw = [torch.frombuffer(a.view("uint8").reshape(-1), dtype=dtype).reshape(a.shape) for a in arrays]
        flipped = {"A": case.b_transposed, "B": case.a_transposed}.get(name, False)
        tensors[name] = [t.mT if flipped else t for t in raw]
    a, b, c = tensors["A"], tensors["B"], tensors["C"]
    if task.packed:
        # oneDNN refuses element types that this processor has no instructions for.
        with torch.inference_mode():
            try:
                return packed_libraries.packed_torch_call(torch, mapped, tensors), c
            except RuntimeError as problem:
                if "cpu support" not in str(problem):
                    raise
                raise NotOffered from None
    if case.batch > 1:
        if task.form == "s8s8":
            raise NotOffered
        if task.beta:
            return (lambda at: torch.baddbmm(c[at], a[at], b[at], out=c[at])), c
        return (lambda at: torch.bmm(a[at], b[at], out=c[at])), c
    if task.form == "s8s8":
        return (lambda at: torch._int_mm(a[at], b[at], out=c[at])), c
    if task.beta:
        return (lambda at: torch.addmm(c[at], a[at], b[at], out=c[at])), c
    return (lambda at: torch.mm(a[at], b[at], out=c[at])), c


def torch_implementation(torch: Any, call: Callable[[int], object]) -> str:
    """Return the implementation in oneDNN's log, or torch's BLAS if the log has none."""
    import os
    import tempfile

    with tempfile.TemporaryFile("w+") as log:
        kept = os.dup(1)
        sys.stdout.flush()
        os.dup2(log.fileno(), 1)
        try:
            with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
                call(0)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        log.seek(0)
        lines = [line.split(",") for line in log if ",exec," in line]
    if not lines:
        return "MKL, as torch was built" if torch.backends.mkl.is_available() else "torch's own"
    words = lines[-1]
    at = words.index("exec")
    return f"oneDNN {' '.join(words[at + 2 : at + 4])}"


def timed_calls(call: Callable[[], Any], calls: int, keep: Callable[[Any], None]) -> int:
    """Return the time of a number of calls in ns. `keep` receives the last result."""
    last = None
    start = perf_counter_ns()
    for _ in range(calls):
        last = call()
    ns = perf_counter_ns() - start
    keep(last)
    return ns


# --- emitted code -----------------------------------------------------------------------------------------


def prepare_isamap(mapped: Mapped[Any], threads: int) -> Ready:
    """Return the library that a C compiler built from emitted code."""
    from isamap.run.in_process import large_room
    from isamap.run.worker import ThreadPool, ask_permission, load_function, make_arguments

    program = mapped.task.program
    assert program is not None
    for component in program["permissions"]:
        if not ask_permission(component):
            raise NotOffered
    function, workspace_bytes = load_function(program["library"], program["function"])
    ring = range(mapped.task.ring)
    packs = [packed_libraries.pack_for_program(program["packs"], mapped, at) for at in ring]
    arguments = [
        make_arguments(
            program["fields"], [_address(mapped, packs[at], name, at) for name in program["tensors"]]
        )
        for at in ring
    ]
    args = pointers([ctypes.addressof(a) for a in arguments])
    needed = workspace_bytes(ctypes.addressof(arguments[0]))
    workspace = large_room(needed)
    loop = load_loops(mapped.task.loops).time_program
    address = ctypes.cast(function, ctypes.c_void_p)
    pool = ThreadPool(program["pool"], threads) if program["pool"] else None

    def time(calls: int, first: int) -> int:
        assert arguments
        assert packs
        threads_of = pool.address if pool is not None else None
        return int(loop(address, args, workspace, threads_of, mapped.task.ring, first, calls))

    return Ready(time, program["implementation"], True)


def _address(
    mapped: Mapped[Any], packs: Mapping[str, packed_libraries.PackedMemory], name: str, at: int
) -> int:
    """Return the address of an operand of emitted code, packed or as in the task."""
    return packs[name].address if name in packs else mapped.addresses(name)[at]
