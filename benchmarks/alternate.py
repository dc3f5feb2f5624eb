"""Programs of isamap in alternation: what benchmarks of two schedules of one kernel share.

Contenders take turns, in another order each round, on random data that are not zero. Figures are for people.
"""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.run.arguments import make_call
from isamap.run.fills import make_arrays, zeros_at_line
from isamap.run.toolchain import Compiled
from isamap.run.worker import ask_permission, load_function, make_arguments
from isamap.source import Source
from isamap.syntax import parse_kernel

Array = NDArray[Any]
LEAST_SECONDS = 0.01


def at_line(array: Array) -> Array:
    """Return a copy that starts at a cache line."""
    copy = zeros_at_line(array.size, array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def source(kernel: str) -> Source:
    """Return a shipped kernel's text."""
    path = kernel_path(kernel)
    return Source(path.name, path.read_text())


def program(
    text: Source,
    hw: str,
    sizes: Mapping[str, int | str],
    values: Mapping[str, int],
    fixed: Mapping[str, int] | None = None,
    request: Request | None = None,
    scalars: Mapping[str, float] | None = None,
) -> tuple[Callable[[], object], dict[str, Array], Any]:
    """Return a compiled kernel as a call without arguments, with the arrays that it works on, and its schedule.

    `sizes` are what it is compiled for, `values` what it is called with; `request` says more than these do.
    """
    made = prepare(request or Request(text, hw, sizes, fixed=fixed or {}))
    kernel = bind(parse_kernel(text), dict(values))
    arrays = {name: at_line(array) for name, array in make_arrays(kernel, "random").items()}
    opened = {n: v for n, v in values.items() if not isinstance(sizes[n], int)}
    assert made.program.compilation.schedule is not None
    return prepared_call(made.compiled, arrays, opened, scalars), arrays, made.program.compilation.schedule


def prepared_call(
    compiled: Compiled,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float] | None = None,
) -> Callable[[], object]:
    """Return a call whose arguments are laid out once: Python's own share is a microsecond."""
    function, workspace_bytes = load_function(str(compiled.library), compiled.interface.name)
    assert all(ask_permission(component) for component in compiled.permissions)
    call = make_call(compiled.interface, arrays, sizes, scalars or {}, in_place=True)
    arguments = make_arguments(call.fields, [t.array.ctypes.data for t in call.tensors])
    pointer = ctypes.addressof(arguments)
    needed = int(workspace_bytes(pointer))
    raw = np.empty(needed + 64, np.uint8)
    workspace = (raw.ctypes.data + 63) // 64 * 64 if needed else None

    kept = (arguments, raw, call)  # they stay alive as long as the call does
    return lambda kept=kept: function(pointer, workspace, None)


def turns(contenders: Mapping[str, Callable[[], object]], rounds: int = 15) -> dict[str, list[float]]:
    """Seconds of processor time of one call per contender and round: what neighbours take does not count."""
    # As many calls for each: the first of several pays for what the others have left in caches.
    repeats = max(1, int(LEAST_SECONDS / min(_least(call) for call in contenders.values())))
    found: dict[str, list[float]] = {name: [] for name in contenders}
    shuffled = random.Random(0)
    for _ in range(rounds):
        order = list(contenders)
        shuffled.shuffle(order)
        for name in order:
            started = time.thread_time()
            for _ in range(repeats):
                contenders[name]()
            found[name].append((time.thread_time() - started) / repeats)
    return found


def _least(call: Callable[[], object]) -> float:
    """Return the shortest of a few calls."""
    times: list[float] = []
    for _ in range(5):
        started = time.thread_time()
        call()
        times.append(max(time.thread_time() - started, 1e-7))
    return min(times)


def ratio(times: Mapping[str, list[float]], of: str, to: str) -> float:
    """Return the median over rounds of how much longer `of` took than `to`."""
    return median(a / b for a, b in zip(times[of], times[to], strict=True))
