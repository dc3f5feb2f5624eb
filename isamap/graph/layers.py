"""The layers of a model: its steps, named after the nodes that they compute, timed and compared.

    for layer in layers_of(trace, library, machine): …       Conv_3 + Relu_4, 31 µs by the cost model

A step is compared with the interpreter of its kernel, and with ONNX's reference evaluator. Both start from
the tensors of the model before the step. So errors do not accumulate over layers, the bounds of single
kernels apply, and only a wrong layer differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from isamap.driver.deviation import Deviation, find_deviation
from isamap.driver.model_rewrites import form_of
from isamap.driver.oracle import Expected, expect_with_errors
from isamap.driver.predicted import KernelCase, PredictedKernel
from isamap.driver.verifying import ComparedResult, comparisons
from isamap.formulate.hierarchy import Memories
from isamap.graph import model_program as steps
from isamap.graph.graph import Array
from isamap.graph.host_fallback import transfers_of
from isamap.graph.importing import Imported, Trace
from isamap.graph.making import Value
from isamap.graph.model_library import ModelOptions, ModelSource, compile_program_of
from isamap.graph.sizes import most_of, needs_numbers, value_of
from isamap.graph.types import make_dense, size_bytes
from isamap.ir import DTYPES, bind, round_to
from isamap.machine import Machine, load_machine
from isamap.source import Diagnostic, Source, add_up
from isamap.source.progress import Watch
from isamap.stream.program_file import ProgramFile
from isamap.syntax import parse_kernel


@dataclass(frozen=True, slots=True)
class Layer:
    """A step of a model: its nodes, its kernel or move, and its price. Units: nanoseconds.

    `transfer_ns` is the part of the price in which tensors cross between machines. `machine` performs it. `why`
    says why that is the host of the machine that was asked for. `facts` are its gap, energy, and bytes by level.
    """

    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    kernel: str
    predicted_ns: float
    machine: str
    transfer_ns: float = 0.0
    why: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """The names of its nodes, or the name of its kernel if no node is known."""
        return " + ".join(self.nodes) or self.kernel


def layers_of_stream(
    trace: Trace, program: steps.ModelProgram, stream: ProgramFile, machine: str, host: str
) -> list[Layer]:
    """Return the layers of a network with a stream. Steps without a stream part belong to the host.

    A tensor between two parts of a kernel is named after the kernel's first result: `t3_y0` after `t3`.
    """
    encoded, found = {part.step for part in stream.parts}, list[Layer]()
    for number, step in enumerate(program.steps):
        first = next(iter(steps.writes_of(step))).tensor
        nodes = trace.origins.get(first) or trace.origins.get(first.rpartition("_")[0], ())
        names, operators = tuple(node.called for node in nodes), tuple(node.op for node in nodes)
        kernel = step.function if isinstance(step, steps.Move) else steps.called_by(step)
        found.append(Layer(names, operators, kernel, 0.0, machine if number in encoded else host))
    return found


MOVES_DATA = "data determines what it reads, writes or calls"
"""Why a step of a divided program that is not a kernel runs on the host."""


def layers_of(trace: Trace, library: ModelSource, machine: Machine) -> list[Layer]:
    """Return the layers of a library's program in step order.

    `machine` prices the moves; a host that performs them does so itself.
    """
    divided, found = library.divided, list[Layer]()
    why = divided.why if divided else dict[str, str]()
    origins = divided.origins if divided else dict[str, str]()
    host = divided.host if divided else machine
    crossing = transfers_of(library.program, why, library.machine) if divided else None
    memories = Memories.of(host)
    for number, step in enumerate(library.program.steps):
        first = next(iter(steps.writes_of(step))).tensor
        nodes = trace.origins.get(origins.get(first, first), ())
        moved = sum(
            most_of(size_bytes(p.dtype, p.shape)) for p in (*steps.reads_of(step), *steps.writes_of(step))
        )
        called = steps.called_by(step)
        cost = library.costs[called] if called else memories.moved_ns(moved)
        kernel = step.function if isinstance(step, steps.Move) else called
        reason = why.get(called, "") if isinstance(step, steps.KernelCall) else MOVES_DATA if divided else ""
        names = tuple(node.called for node in nodes), tuple(node.op for node in nodes)
        transfer = crossing[number] if crossing else 0.0
        performer = (host if reason else library.machine).name
        facts = divided.made[called].facts if divided and called in divided.made else dict[str, Any]()
        priced = host.model.call_ns + cost + transfer, performer, transfer, reason, facts
        found.append(Layer(*names, kernel, *priced))
    return found


def constants_by_memory(library: ModelSource) -> dict[str, int]:
    """Return the bytes of constants in main memories that a machine's kernels name. Units: bytes."""
    if library.divided is None:
        return {}
    made = library.divided.made
    lying = {
        (memory, passed.tensor)
        for step in library.program.steps if isinstance(step, steps.KernelCall) and step.kernel in made
        for name, passed in step.reads.items() if passed.tensor in library.program.constants
        if (memory := made[step.kernel].memories.get(name))
    }  # fmt: skip
    found: dict[str, int] = {}
    for memory, tensor in sorted(lying):
        found[memory] = found.get(memory, 0) + library.program.constants[tensor].nbytes
    return found


def group_by_place(layers: Sequence[Layer]) -> dict[tuple[str, str], list[Layer]]:
    """Return the layers by machine and reason, in order of first occurrence."""
    found: dict[tuple[str, str], list[Layer]] = {}
    for layer in layers:
        found.setdefault((layer.machine, layer.why), []).append(layer)
    return found


def draw_inputs(model: Watched, seed: int) -> dict[str, Array]:
    """Return random inputs: normal floats, arbitrary bytes, and other integers 0 or 1, which are valid indices."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, (dtype, shape) in model.inputs.items():
        kind = DTYPES[dtype]
        if kind.is_float:
            found[name] = make_dense(rng.standard_normal(shape), dtype)
        else:
            is_byte = kind.is_integer and kind.bits == 8
            low, high = (kind.low, kind.high) if is_byte else (0, 1)
            found[name] = make_dense(rng.integers(low, high, shape, endpoint=True), dtype)
    return found


# --- comparing --------------------------------------------------------------------------------------------


NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ComparedLayer:
    """A layer with its largest error, the error bound, and its problems. `with_onnx` counts compared results.

    `checked` is NOTHING for a move that ONNX's evaluator does not compute.
    """

    layer: Layer
    max_error: float
    bound: float
    checked: str
    with_onnx: int
    problems: tuple[Diagnostic, ...]

    @property
    def is_judged(self) -> bool:
        """Return whether a reference has computed some elements with a finite error bound."""
        return not self.checked.startswith((NOTHING, "0 of "))


@dataclass(frozen=True, slots=True)
class ReferenceValue:
    """A value by ONNX's evaluator, with axes in the order of memory. If `is_rounded`, integers may differ by 1."""

    name: str
    values: Array
    is_rounded: bool

    def expected(
        self, passed: steps.TensorView, border: Sequence[tuple[int, int]] | None, oracle: Expected | None
    ) -> Expected:
        """Return the expected value of a tensor with its error bounds.

        Around a value with a border, anything is as expected: the kernel's own comparison covers it.
        """
        dtype, shape = DTYPES[passed.dtype], passed.shape or (1,)
        bound = np.zeros(shape) if oracle is None or oracle.at is not None else oracle.bound
        if self.is_rounded and not dtype.is_float:
            bound = np.maximum(bound, 1.0)
        values = self.values
        if border is not None and values.size != bound.size:
            inside = tuple(slice(low, n - high) for n, (low, high) in zip(shape, border, strict=True))
            values, open_ = np.zeros(shape, values.dtype), np.full(shape, np.inf)
            values[inside], open_[inside] = self.values.reshape(values[inside].shape), bound[inside]
            bound = open_
        values = values.reshape(shape)
        if oracle is None:
            values = round_to(values, dtype) if dtype.is_float else values
            return Expected(values, bound, None, not dtype.is_float, dtype, bound)
        if oracle.at is None:
            return replace(oracle, values=values, bound=bound)
        return replace(oracle, values=values[oracle.at], bound=np.maximum(oracle.bound, bound[oracle.at]))


class Watched(Protocol):
    """A model that calls a function after each step, with a function that copies a tensor, and the step number."""

    @property
    def inputs(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        """The types and sizes of inputs by name."""
        ...

    def watch(
        self, inputs: Mapping[str, Array], each: Callable[[Callable[[steps.TensorView], Array], int], None]
    ) -> object:
        """Perform all steps for these inputs."""
        ...


Evaluate = Callable[[Mapping[str, Array], Trace, Mapping[str, Array]], dict[str, ReferenceValue]]
"""Evaluates a model's nodes from inputs and tensors; the value of each tensor by the tensor's name."""


def compare_layers(
    program: steps.ModelProgram,
    trace: Trace,
    layers: Sequence[Layer],
    model: Watched,
    inputs: Mapping[str, Array],
    evaluate: Evaluate | None,
) -> Iterator[ComparedLayer]:
    """Yield the comparison of each layer, in step order, from one call of a watched library."""
    written: list[dict[str, Array]] = []

    def copy(read: Callable[[steps.TensorView], Array], number: int) -> None:
        written.append({passed.tensor: read(passed) for passed in steps.writes_of(program.steps[number])})

    model.watch(inputs, copy)
    tensors = {p.passed.tensor: make_dense(inputs[p.name], p.passed.dtype) for p in program.inputs}
    own = {tensor: array for made in written for tensor, array in made.items()}
    counts = {size.symbol: int(own[size.tensor]) for size in program.counts}
    trace = replace(trace, values={n: _with_counted_sizes(v, counts) for n, v in trace.values.items()})
    wanted: dict[str, ReferenceValue] = evaluate(inputs, trace, own) if evaluate else {}
    tensors |= program.constants
    between: dict[str, Array] = {}  # bounds of tensors between parts of one node, which ONNX does not compute
    for step, layer, made in zip(program.steps, layers, written, strict=True):
        exact: dict[str, Expected] = {}
        problems: list[Diagnostic] = []
        closest = Deviation(0, 0.0, 0.0, -1.0, 0)
        checked = NOTHING
        sizes = {param: counts[size.symbol] for param, size in getattr(step, "sizes", {}).items()}
        if isinstance(step, steps.KernelCall) and all(sizes.values()):
            kernel = bind(parse_kernel(Source("kernel", program.kernels[step.kernel])), sizes)
            given, found = (
                {name: _view_of(of[p.tensor], _with_counted_sizes(p, counts)) for name, p in passed.items()}
                for of, passed in ((tensors, step.reads), (made, step.writes))
            )
            judged = ComparedResult(kernel, given, found, {}, "the model's tensors", "native", problems)
            for name, expected in comparisons(judged, {}):
                judged.compare(name, expected)
                exact[step.writes[name].tensor] = expected
            errors = {name: between[p.tensor] for name, p in step.reads.items() if p.tensor in between}
            if errors:
                exact = _with_errors(
                    judged, {name: exact[p.tensor] for name, p in step.writes.items()}, errors, step
                )
            between |= {tensor: one.bound for tensor, one in exact.items() if wanted and tensor not in wanted}
            closest, checked = Deviation(0, judged.error, judged.bound, judged.worst, 0), judged.checked
        compared = 0
        for passed in (_with_counted_sizes(one, counts) for one in steps.writes_of(step)):
            if (value := wanted.get(passed.tensor)) is None:
                continue
            expected = value.expected(passed, trace.borders.get(passed.tensor), exact.get(passed.tensor))
            seen = _view_of(made[passed.tensor], passed)
            if isinstance(step, steps.Control) and DTYPES[passed.dtype].is_float:
                expected = _drop_bounds(expected)
            deviation = find_deviation(seen, expected)
            compared += 1
            closest = max(closest, deviation, key=lambda one: one.ratio)
            if deviation.ratio > 1 and not problems:
                problems.append(_differs(value, seen, expected, deviation))
        checked = "all elements, with ONNX" if compared and checked == NOTHING else checked
        tensors |= made
        yield ComparedLayer(layer, closest.error, closest.bound, checked, compared, tuple(problems))


def _with_errors(
    judged: ComparedResult, exact: Mapping[str, Expected], errors: Mapping[str, Array], step: steps.KernelCall
) -> dict[str, Expected]:
    """Return the expected tensors with bounds that also cover errors of the kernel's inputs.

    A node that two machines share has a tensor between them, which the evaluator of ONNX does not have. Results
    of which only samples are known have no bound.
    """
    found = {name: replace(one, bound=np.full_like(one.bound, np.inf)) for name, one in exact.items()}
    if all(one.at is None for one in exact.values()):
        of_all = {
            name: np.broadcast_to(
                error if error.shape == judged.arrays[name].shape else error.max(), judged.arrays[name].shape
            )
            for name, error in errors.items()
            if error.any()
        }
        found = (
            expect_with_errors(judged.kernel, judged.arrays, judged.fill, of_all) if of_all else dict(exact)
        )
    return {step.writes[name].tensor: one for name, one in found.items()}


Shaped = TypeVar("Shaped", steps.TensorView, Value)


def _with_counted_sizes(one: Shaped, counts: Mapping[str, int]) -> Shaped:
    """Return a tensor with sizes that data has determined."""
    return replace(one, shape=tuple(value_of(size, counts) for size in one.shape))


def _view_of(array: Array, passed: steps.TensorView) -> Array:
    """Return the memory of a tensor as a step views it."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(DTYPES[passed.dtype].numpy()).reshape(passed.shape or (1,))


LOOSE = 1 << 10
"""Units in the last place of the largest element by which results of a step that calls bodies may differ."""


def _drop_bounds(expected: Expected) -> Expected:
    """Return the expected values without exact bounds, for several steps that the interpreter cannot bound."""
    most = np.abs(expected.values[np.isfinite(expected.values)]).max(initial=0.0)
    bound = np.maximum(expected.bound, LOOSE * 2.0 ** (1 - expected.dtype.mantissa_bits) * most)
    return replace(expected, bound=bound, is_exact=False)


def _differs(value: ReferenceValue, seen: Array, expected: Expected, deviation: Deviation) -> Diagnostic:
    """Return the finding that a kernel's results differ from its nodes' results."""
    found = (seen[expected.at] if expected.at is not None else seen).ravel()[deviation.position]
    right = expected.values.ravel()[deviation.position]
    allowed = f"within {deviation.bound:.3g}" if deviation.bound else "exactly"
    return Diagnostic(
        "result-wrong",
        f"element {deviation.position} of `{value.name}` is {found!s}, and ONNX's evaluator computes {right!s}",
        notes=(f"they should agree {allowed}; {deviation.wrong} of {expected.values.size} do not",),
    )


# --- a model as kernels to predict on machines that vary ----------------------------------------------------

#     mlp.onnx on edge.yaml  ->  dense_1f3a: 2 calls, dense_77c0: 1 call, and 310 ns of other steps
#
# A model is divided between the machine and its host once, for the machine as it is described. The kernels of
# the machine are then predicted at each point like kernels of their own. The host does not vary.


def subject_of(found: Imported, name: str, how: ModelOptions, watch: Watch) -> PredictedKernel:
    """Return a model as its kernels on a machine, and a function for the other steps' time. Raises: UsageProblem."""
    program = found.whole()
    if program.sizes or program.counts:
        raise needs_numbers(program.sizes + program.counts, "a sweep")
    made = compile_program_of(program, how, watch)
    on_host = made.divided.why if made.divided else dict[str, str]()
    calls, own_ns = Counter[str](), 0.0
    for step, layer in zip(made.program.steps, layers_of(found.trace, made, made.machine), strict=True):
        if isinstance(step, steps.KernelCall) and step.kernel not in on_host:
            calls[step.kernel] += 1
            own_ns += made.machine.model.call_ns
        else:
            own_ns += layer.predicted_ns - layer.transfer_ns
    texts = {kernel: made.program.kernels[kernel] for kernel in calls}
    cases = tuple(KernelCase(Source(f"{k}.ir", text), (), form_of(text)) for k, text in texts.items())
    return PredictedKernel(name, cases, tuple(calls.values()), partial(_other_ns, made, own_ns))


def _other_ns(made: ModelSource, own_ns: float, machine: str) -> float:
    """Return the time of steps on the host, of calls, and of transfers over a machine's links."""
    if made.divided is None:
        return own_ns
    return own_ns + add_up(transfers_of(made.program, made.divided.why, load_machine(machine)))
