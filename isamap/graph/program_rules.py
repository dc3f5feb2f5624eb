"""Check a model's program: steps read existing tensors, views lie in them, bodies get their inputs.

check_model(program)  ->  ("step 3 reads `t7`, which nothing has written",)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from isamap.graph.model_program import Control, KernelCall, ModelProgram, TensorView, reads_of, writes_of
from isamap.graph.sizes import is_open
from isamap.ir import DTYPES


def check_model(program: ModelProgram) -> tuple[str, ...]:
    """Return the violated rules of a program and of its steps' bodies, or () if it can be emitted."""
    return tuple(_check_program_rules(program))


def _check_program_rules(program: ModelProgram) -> Iterator[str]:
    bits = {name: 8.0 * array.nbytes for name, array in program.constants.items()}
    given = {port.passed.tensor for port in program.inputs} | bits.keys()
    for kind, ports in (("input", program.inputs), ("result", program.outputs)):
        names = [port.name for port in ports]
        yield from (
            f"the {kind} `{name}` is there twice" for name in sorted({*names}) if names.count(name) > 1
        )
    for port in program.inputs:
        yield from _check_view(f"the input `{port.name}`", port.passed)
        bits[port.passed.tensor] = _bits(port.passed)
    for number, step in enumerate(program.steps):
        place = f"step {number}"
        if isinstance(step, KernelCall) and step.kernel not in program.kernels:
            yield f"{place} calls `{step.kernel}`, which is not a kernel of the program"
        for passed in reads_of(step):
            yield from _check_read(f"{place} reads", passed, bits)
        for passed in writes_of(step):
            yield from _check_view(f"{place} writes `{passed.tensor}`", passed)
            if passed.tensor in given:
                yield f"{place} writes `{passed.tensor}`, which is an input or a constant"
            bits[passed.tensor] = max(bits.get(passed.tensor, 0), _bits(passed))
        if isinstance(step, Control):
            yield from (f"{place}, `{step.name}`: {wrong}" for wrong in _check_control(step))
    for port in program.outputs:
        yield from _check_read(f"the result `{port.name}` is", port.passed, bits)
    called = {step.kernel for step in program.steps if isinstance(step, KernelCall)}
    yield from (f"nothing calls the kernel `{name}`" for name in program.kernels if name not in called)


def _check_control(step: Control) -> Iterator[str]:
    count, states = len(step.reads), len(step.starts)
    if (len(step.bodies), len(step.given)) != ((2, 2) if step.function == "if" else (1, 1)):
        yield f"it has {len(step.bodies)} bodies, and the inputs of {len(step.given)}"
    places = (*step.starts, *(place for place in (step.trips_at, step.goes_at) if place is not None))
    yield from _list_outside("reads", places, count)
    yield from _list_outside("writes", (place for place, _ in step.counted), len(step.writes))
    for body, given in zip(step.bodies, step.given, strict=False):
        if len(body.inputs) != len(given):
            yield f"its body `{body.name}` has {len(body.inputs)} inputs, and gets {len(given)}"
        yield from _list_outside("reads", (one.number for one in given if one.kind in ("read", "row")), count)
        yield from _list_outside("states", (one.number for one in given if one.kind == "state"), states)
        yield from (f"in its body `{body.name}`, {wrong}" for wrong in _check_program_rules(body))


def _list_outside(kind: str, places: Iterable[int], count: int) -> Iterator[str]:
    return (f"it names number {place} of its {count} {kind}" for place in places if not 0 <= place < count)


def _check_read(place: str, passed: TensorView, bits: Mapping[str, float]) -> Iterator[str]:
    yield from _check_view(f"{place} `{passed.tensor}`", passed)
    if passed.tensor not in bits:
        if 0 not in passed.shape:  # no step writes a tensor without elements
            yield f"{place} `{passed.tensor}`, which nothing has written"
    elif _bits(passed) > bits[passed.tensor]:
        yield f"{place} {_bits(passed):g} bits of `{passed.tensor}`, which has {bits[passed.tensor]:g}"


def _check_view(place: str, passed: TensorView) -> Iterator[str]:
    known = [size for size in passed.shape if not is_open(size)]
    if passed.dtype not in DTYPES or min(known, default=0) < 0:
        yield f"{place} as {passed.dtype}{list(passed.shape)}"
    if passed.strides is not None and len(passed.strides) != len(passed.shape):
        yield f"{place} with {len(passed.strides)} strides for {len(passed.shape)} axes"


def _bits(passed: TensorView) -> float:
    """Return the bits from a tensor's start to the last element of a view, or 0 for open sizes."""
    strides = passed.strides or [0] * len(passed.shape)
    numbers = (*passed.shape, *strides, passed.offset)
    if any(map(is_open, numbers)) or passed.dtype not in DTYPES or 0 in passed.shape:
        return 0.0
    count, strides = 1, list(strides)
    for axis in reversed(range(len(passed.shape))):
        if passed.strides is None:
            strides[axis] = count
        count *= passed.shape[axis]
    last = sum((size - 1) * stride for size, stride in zip(passed.shape, strides, strict=False) if stride > 0)
    return float(DTYPES[passed.dtype].bits * (passed.offset + last + 1))
