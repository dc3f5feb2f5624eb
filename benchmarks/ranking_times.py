"""The time that schedules of one product take: compiled once, called in turn in another order each round."""

from __future__ import annotations

import ctypes
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from ranking_cases import Case

from isamap.driver.pipeline import Compilation
from isamap.emit.c import emit_c
from isamap.lower.passes import lower
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_schedule
from isamap.run.arguments import make_call
from isamap.run.fills import make_arrays
from isamap.run.toolchain import Compiled, compile_library
from isamap.run.worker import ask_permission, load_function, make_arguments

LEAST_ROUNDS = 7


class Loaded:
    """A compiled program with its arguments in place: a call costs what the program costs."""

    def __init__(self, compiled: Compiled, arrays: Mapping[str, np.ndarray]) -> None:
        for component in compiled.permissions:
            assert ask_permission(component), "the kernel refuses a permission"
        self.arrays = arrays  # alive as long as they may be called for
        self.function, workspace_bytes = load_function(str(compiled.library), compiled.interface.name)
        call = make_call(compiled.interface, arrays, {}, {}, in_place=True)
        self.arguments = make_arguments(call.fields, [t.array.ctypes.data for t in call.tensors])
        self.pointer = ctypes.addressof(self.arguments)
        needed = workspace_bytes(self.pointer)
        self.workspace = np.zeros(needed + 64, np.uint8)
        self.place = ctypes.c_void_p(-(-self.workspace.ctypes.data // 64) * 64)

    def __call__(self) -> int:
        """Return the ns of one call."""
        started = time.perf_counter_ns()
        status = self.function(self.pointer, self.place, None)
        took = time.perf_counter_ns() - started
        assert status == 0, f"status {status}"
        return took


def arrays_of(made: Compilation) -> dict[str, np.ndarray]:
    """Random operands, 64 bytes aligned."""
    found: dict[str, np.ndarray] = {}
    for name, drawn in make_arrays(made.kernel, "random").items():
        room = np.zeros(drawn.nbytes + 64, np.uint8)
        start = -room.ctypes.data % 64
        found[name] = room[start : start + drawn.nbytes].view(drawn.dtype).reshape(drawn.shape)
        found[name][...] = drawn
    return found


def measure_schedules(
    case: Case, made: Compilation, schedules: Sequence[Schedule], seconds: float
) -> dict[str, object]:
    """Return an entry of a store: schedules of a case with the ns of their calls, in turns for so many seconds."""
    machine, canonical = made.machine, made.canonical
    assert machine
    assert canonical
    emitted = [emit_c(lower(canonical, machine, s, case.sizes), machine) for s in schedules]
    with ThreadPoolExecutor(2) as pool:
        compiled = list(pool.map(partial(compile_library, machine=machine), emitted))
    arrays = arrays_of(made)
    outputs = [o.name for o in made.kernel.operands if o.role != "in"]
    first = {name: arrays[name].copy() for name in outputs}
    programs = [Loaded(c, arrays) for c in compiled]
    _agree(programs, arrays, first)
    times: list[list[int]] = [[] for _ in programs]
    order, started = list(range(len(programs))), time.perf_counter()
    while len(times[0]) < LEAST_ROUNDS or time.perf_counter() - started < seconds:
        random.shuffle(order)
        for n in order:
            for name in outputs:
                arrays[name][...] = first[name]
            times[n].append(programs[n]())
    return {
        "case": case.name,
        "schedules": [print_schedule(s) for s in schedules],
        "ns": [{"min": min(t), "median": statistics.median(t), "count": len(t)} for t in times],
    }


def _agree(
    programs: Sequence[Loaded], arrays: Mapping[str, np.ndarray], first: Mapping[str, np.ndarray]
) -> None:
    """All schedules compute the same: exactly in integers, closely in floats."""
    seen: list[dict[str, np.ndarray]] = []
    for program in programs:
        for name, value in first.items():
            arrays[name][...] = value
        program()
        seen.append({name: arrays[name].astype(np.float64) for name in first})
    for other in seen[1:]:
        for name, value in other.items():
            scale = np.abs(seen[0][name]).max()
            assert np.allclose(value, seen[0][name], rtol=0, atol=0.02 * scale), "schedules disagree"
