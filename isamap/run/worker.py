"""The child process in which emitted code runs: limits first, then the library, then the calls.

Reads a job as JSON from standard input and data from a shared file, and answers with JSON on the file whose
number the job names. The answer repeats the job's `nonce`, which emitted code is not told.
Run as a script with nothing but the standard library, so that it is there in some 30 ms.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

PAGE = mmap.PAGESIZE
_HUGE = 4 << 20
_POISON = 0xFF
_ARCH_PRCTL, _REQUEST_PERMISSION = 158, 0x1023

_BITS = (8, 16, 32, 64)
_SCALARS: dict[str, Any] = {
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "int": ctypes.c_int,
    **{f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in _BITS},
}


def make_arguments(fields: list[tuple[str, str, Any]], pointers: list[int]) -> ctypes.Structure:
    """Return the argument struct. A field is (kind, C type, value). A pointer's value indexes `pointers`."""
    struct = _struct(tuple(["" if kind == "pointer" else c_type for kind, c_type, _ in fields]))
    return struct(*[pointers[value] if kind == "pointer" else value for kind, _, value in fields])


@lru_cache(maxsize=64)
def _struct(c_types: tuple[str, ...]) -> type[ctypes.Structure]:
    """Return a cached struct with members of these types, "" for pointers. Its creation dominates small calls."""
    layout = [(f"f{n}", _SCALARS[name] if name else ctypes.c_void_p) for n, name in enumerate(c_types)]
    return type("Arguments", (ctypes.Structure,), {"_fields_": layout})


def load_library(library: str) -> ctypes.CDLL:
    """Return an emitted library in this process."""
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)  # libraries are linked against nothing
    return ctypes.CDLL(library)


def unload(library: ctypes.CDLL) -> None:
    """Release a library. None of its code may run, and none of its functions may be called again."""
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(library._handle))


def load_function(library: str, name: str) -> tuple[Any, Any]:
    """Return the function of a library and its workspace query."""
    return functions_of(load_library(library), name)


def functions_of(loaded: ctypes.CDLL, name: str) -> tuple[Any, Any]:
    """Return the functions of a loaded library."""
    function, size = loaded[name], loaded[f"{name}_workspace_bytes"]
    function.restype, size.restype = ctypes.c_int, ctypes.c_size_t
    function.argtypes = [ctypes.c_void_p] * 3
    size.argtypes = [ctypes.c_void_p]
    return function, size


class ThreadPool:
    """Threads of the emitted pool, which end with this object. Raises: OSError if none can be started."""

    def __init__(self, library: str, threads: int) -> None:
        loaded = ctypes.CDLL(library)
        self._library = loaded
        create, self._destroy = loaded.isamap_pool_create, loaded.isamap_pool_destroy
        create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_int]
        self._destroy.restype, self._destroy.argtypes = None, [ctypes.c_void_p]
        self.address: int | None = create(threads)
        if self.address is None:
            raise OSError(11, "no threads")

    def __del__(self) -> None:
        address, self.address = getattr(self, "address", None), None
        if address is not None:
            self._destroy(address)
            if not sys.is_finalizing():
                unload(self._library)


def ask_permission(component: int) -> bool:
    """Return whether the kernel grants this process a part of the processor's state."""
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, component) == 0


def private_memory(size: int, *, large_pages: bool) -> mmap.mmap:
    """Return zeroed memory of this process. Linux seldom has huge pages for shared memory, so this is private.

    With `large_pages`, it is in huge pages if the system has them.
    """
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if large_pages:
        with suppress(OSError, AttributeError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class GuardedMemory:
    """Memory for one tensor or workspace: whole pages, or adjacent to an inaccessible page."""

    def __init__(self, size: int, place: str) -> None:
        pages = -(-max(size, 1) // PAGE) * PAGE
        self.map = private_memory(pages + 2 * PAGE, large_pages=pages >= _HUGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.size = size
        self.address = start + PAGE + (pages - size if place == "at-end" else 0)
        if place != "free":
            libc = ctypes.CDLL(None, use_errno=True)
            for edge in (start, start + PAGE + pages):
                if libc.mprotect(ctypes.c_void_p(edge), ctypes.c_size_t(PAGE), 0) != 0:
                    raise OSError(ctypes.get_errno(), "mprotect")
        ctypes.memset(start + PAGE, _POISON, pages)

    def write(self, data: Any) -> None:
        ctypes.memmove(self.address, (ctypes.c_char * self.size).from_buffer(data), self.size)

    def read(self) -> bytes:
        return ctypes.string_at(self.address, self.size)


def _limit(job: dict[str, Any]) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    last = job["cpu_seconds"] + 1 if hard == resource.RLIM_INFINITY else min(job["cpu_seconds"] + 1, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (min(job["cpu_seconds"], last), last))
    if job["memory_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_AS, (job["memory_bytes"], job["memory_bytes"]))


def _perform(job: dict[str, Any], place: str, inputs: list[bytearray], pool: int | None) -> dict[str, Any]:
    """Return one run in fresh memory: its status, the memory afterwards, and the times of repetitions in ns."""
    function, workspace_bytes = load_function(job["library"], job["function"])
    regions = [GuardedMemory(len(data), place) for data in inputs]
    for region, data in zip(regions, inputs, strict=True):
        if region.size:
            region.write(data)
    arguments = make_arguments(job["fields"], [r.address for r in regions])
    pointer = ctypes.addressof(arguments)
    needed = workspace_bytes(pointer)
    workspace = GuardedMemory(needed, place)
    status = function(pointer, workspace.address, pool)
    _leave_if_forked(job)
    contents = [r.read() for r in regions]
    times: list[int] = []
    clock = time.thread_time_ns if job["processor_time"] else time.perf_counter_ns
    for _ in range(job["repeat"] if status == 0 else 0):
        start = clock()
        function(pointer, workspace.address, pool)
        times.append(clock() - start)
    return {"status": status, "contents": contents, "times": times, "workspace_bytes": needed}


class OperandMemory:
    """Memory for operands of up to `capacity` bytes, each ending right before an inaccessible page."""

    def __init__(self, capacity: int) -> None:
        self.region = GuardedMemory(-(-capacity // PAGE) * PAGE, "at-end")
        self.end = self.region.address + self.region.size

    def place(self, data: bytes, slack: int) -> int:
        """Return the address of a copy of data, surrounded by poison, that ends `slack` bytes before the page."""
        ctypes.memset(self.region.address, _POISON, self.region.size)
        address = self.end - len(data) - slack
        ctypes.memmove(address, data, len(data))
        return address


def _perform_calls(job: dict[str, Any], shared: mmap.mmap) -> dict[str, Any]:
    """Call functions one after the other on small data. The shared file starts with the number of completed ones."""
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(job["library"])
    calls = job["calls"]
    most = max((len(places) for _, places, _ in calls), default=0)
    largest = max((size + slack for _, places, _ in calls for _, size, slack, _ in places), default=1)
    slots = [OperandMemory(largest) for _ in range(most)]
    for done, (name, places, numbers) in enumerate(calls):
        shared[0:8] = done.to_bytes(8, "little")
        addresses = [
            slot.place(shared[o : o + n], s) for slot, (o, n, s, _) in zip(slots, places, strict=False)
        ]
        data = (ctypes.c_void_p * (len(places) + 1))(*addresses, None)
        library[name](data, (ctypes.c_int64 * (len(numbers) + 1))(*numbers, 0))
        for address, (offset, size, _, _) in zip(addresses, places, strict=True):
            shared[offset : offset + size] = ctypes.string_at(address, size)
    shared[0:8] = len(calls).to_bytes(8, "little")
    return {"done": len(calls)}


def _perform_timings(job: dict[str, Any], shared: mmap.mmap) -> dict[str, Any]:
    """Time functions in rounds until the budget is used: iterations per call, and ns of calls.

    The shared file starts with the number of tried functions. Operands are in it, or all in one large arena.
    """
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    libraries: list[Any] = [ctypes.CDLL(path) for path in job["libraries"]]
    base = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    arena = _filled_arena(job["arena_bytes"], base)
    calls: list[Any] = []
    for number, function, places, numbers in job["timings"]:
        addresses = [base + place if place >= 0 else arena.address for place in places]
        data = (ctypes.c_void_p * (len(places) + 1))(*addresses, None)
        given = (ctypes.c_int64 * (len(numbers) + 1))(*numbers, 0)
        library = libraries[number]
        timed = ctypes.cast(library[function], ctypes.c_void_p)
        calls.append((library.sample, timed, data, given))
    trips: list[int] = []
    for done, call in enumerate(calls):
        shared[0:8] = done.to_bytes(8, "little")
        trips.append(_enough_trips(call, job["sample_ns"][done]))
    shared[0:8] = len(calls).to_bytes(8, "little")
    found: list[list[int]] = [[] for _ in calls]
    deadline = time.perf_counter() + job["budget_seconds"]
    rounds = 0
    while rounds < job["least_rounds"] or (time.perf_counter() < deadline and rounds < job["most_rounds"]):
        for call, own, times in zip(calls, trips, found, strict=True):
            times.extend(_sample(call, own, job["samples"]))
        rounds += 1
    return {"trips": trips, "times": found}


def _filled_arena(size: int, source: int) -> GuardedMemory:
    """Return memory filled with copies of the random page of the shared file, which follows its count."""
    arena = GuardedMemory(size, "free")
    for offset in range(0, size, PAGE):
        ctypes.memmove(arena.address + offset, source + PAGE, min(PAGE, size - offset))
    return arena


def _enough_trips(call: Any, target_ns: int) -> int:
    """Return the number of loop iterations with which a call takes `target_ns`."""
    trips = 1
    while (took := min(_sample(call, trips, 3))) < target_ns and trips < 1 << 40:
        trips = trips * 2 if took < target_ns // 8 else max(trips + 1, trips * target_ns // max(took, 1))
    return trips


def _sample(call: Any, trips: int, count: int) -> list[int]:
    """Return the times of `count` calls. Units: ns."""
    sample, function, data, numbers = call
    ns = (ctypes.c_int64 * count)()
    sample(function, data, numbers, ctypes.c_int64(trips), ctypes.c_int64(count), ns)
    return list(ns)


def _leave_if_forked(job: dict[str, Any]) -> None:
    """End this process if emitted code has forked it. Only the original process answers."""
    if os.getpid() != job["process"]:
        os._exit(0)


def _main(job: dict[str, Any]) -> dict[str, Any]:
    _limit(job)
    os.environ.update(job.get("environment", {}))
    for component in job["permissions"]:
        if not ask_permission(component):
            return {"error": "permission"}
    if "words" in job:
        return _start(job)
    shared = mmap.mmap(job["file"], job["size"]) if job["size"] else None
    if "calls" in job:
        assert shared is not None
        return _perform_calls(job, shared)
    if "timings" in job:
        assert shared is not None
        return _perform_timings(job, shared)
    return _perform_program(job, shared)


def _start(job: dict[str, Any]) -> dict[str, Any]:
    """Run a program of another architecture under its emulator, and exit like it if it fails."""
    streams = [(os.POSIX_SPAWN_DUP2, job[name], number) for number, name in enumerate(("input", "output"))]
    words = job["words"]
    _, status = os.waitpid(os.posix_spawnp(words[0], words, os.environ, file_actions=streams), 0)
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    if os.WEXITSTATUS(status):
        os._exit(os.WEXITSTATUS(status))
    return {}


def _perform_program(job: dict[str, Any], shared: mmap.mmap | None) -> dict[str, Any]:
    """Run a program once or, with guard pages, twice, and store the results in the shared file."""
    inputs = [bytearray(shared[o : o + n]) if shared else bytearray(n) for o, n, _ in job["regions"]]
    places = ["at-end", "at-start"] if job["guard"] else ["free"]
    pool = ThreadPool(job["pool"], job["threads"]) if job["threads"] > 1 else None
    runs = [_perform(job, place, inputs, pool.address if pool else None) for place in places]
    first = runs[0]
    if any(run["contents"] != first["contents"] for run in runs[1:]):
        return {"error": "unstable"}
    if shared:
        for (offset, size, _), content in zip(job["regions"], first["contents"], strict=True):
            shared[offset : offset + size] = content
    return {key: first[key] for key in ("status", "times", "workspace_bytes")}


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a job, or name the resource that this process could not get."""
    try:
        return _main(job)
    except MemoryError:
        return {"error": "memory"}
    except OSError as error:
        return {"error": "memory" if error.errno == 12 else "system", "message": str(error)}


if __name__ == "__main__":
    given = {**json.loads(sys.stdin.buffer.read()), "process": os.getpid()}
    answer = _answer(given)
    _leave_if_forked(given)
    with suppress(OSError), os.fdopen(given["answer"], "wb") as to:  # unless emitted code has closed it
        to.write(json.dumps({**answer, "nonce": given["nonce"]}).encode())
    os._exit(0)  # emitted code may have left anything behind: no destructor runs
