"""Lower a model to a program of kernels and moves, with a record of each node's treatment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from isamap.graph.elementwise_fusion import Fuse, finish_steps, fuse_steps, reads_of, writes_of
from isamap.graph.graph import Array, FoldingBudget, Graph, Model, Node, Signature, names_read
from isamap.graph.lowering import Lowering, NodeTreatment, known_names, own_results, program_of
from isamap.graph.making import KernelScope, Making, Names, Value
from isamap.graph.model_program import Control, ModelProgram, Port
from isamap.graph.model_program import writes_of as program_writes
from isamap.graph.pending import WrittenKernel
from isamap.graph.quantising import LEAST_OPSET, OWN, RUNTIMES, with_integer_operators, with_signed_bytes
from isamap.graph.sizes import Given, Guard, OpenSizes, opened_sizes
from isamap.graph.types import in_type, type_of
from isamap.source import Diagnostic, IsamapError, MissingWords, Source, UsageProblem, is_device
from isamap.syntax import parse_kernel

MOST_SHOWN = 10
MOST_FILLED = 1 << 24
"""The most elements of an input that one number of `--constant` may fill."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The origin of a program's tensors in its model.

    `origins` has the nodes that a step computes, by the first tensor that the step writes. `values` are the
    model's own values by name, as they lie in tensors. `borders` are the widths of a tensor's borders by axis.
    """

    origins: Mapping[str, tuple[Node, ...]]
    values: Mapping[str, Value]
    borders: Mapping[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: each node's treatment, and the program with its trace if all were accepted."""

    name: str
    taken: tuple[NodeTreatment, ...]
    findings: tuple[Diagnostic, ...]
    program: ModelProgram | None
    trace: Trace = Trace({}, {}, {})

    def whole(self) -> ModelProgram:
        """Return the program. Raises: UsageProblem if a node was refused."""
        if self.program is None:
            raise UsageProblem(*self.findings)
        return self.program


def lower_model(
    model: Model,
    name: str,
    given: Mapping[str, Given],
    constants: Mapping[str, Array],
    fuse: Fuse = fuse_steps,
    opened: OpenSizes | None = None,
    *,
    signed: bool = False,
) -> Imported:
    """Return the program of a model. Refused nodes are among its findings."""
    signatures = {port.name: port for port in model.graph.inputs}
    _check_names(signatures, given, constants)
    _check_open((port for port in model.graph.inputs if port.name not in constants), given)
    opened = opened or OpenSizes(opened_sizes(given))
    opened.is_settled = False
    names_open = {size.name for size in opened.sizes}
    sizes = {n: opened.size(n) if n in names_open else _number_of(value) for n, value in given.items()}
    graph, gone = with_folded_channels(model.graph)
    if signed and model.definitions:
        graph = with_signed_bytes(graph, model.definitions)
    opsets, parts = model.opsets, tuple[Node, ...]()
    is_quantised = any(node.op == "DequantizeLinear" for node in graph.nodes)
    if is_quantised and opsets.get("", 1) >= LEAST_OPSET:
        graph, parts = with_integer_operators(graph, opsets[""], model.definitions)
        opsets = {RUNTIMES: 1, OWN: 1, **opsets}
    names: Names = known_names(graph.constants)
    ports: list[Port] = []
    making = Making(views=model.has_views, opened=opened, sizes=opened.sizes)
    for port in model.graph.inputs:
        if port.name in constants:
            names[port.name] = Value.of(_of_type(port, constants[port.name], sizes))
            continue
        shape = _sizes_of(port, sizes)
        value = with_strides(Value(port.dtype, shape, f"i{len(ports)}"), port.strides)
        names[port.name] = value
        ports.append(Port(port.name, making.look(value)))
    named = _spell_in_c(name)
    inside = finish_steps if fuse is finish_steps else fuse_steps
    lowering = Lowering(model, FoldingBudget.of(model), making, opened=opened, name=named, fuse=inside)
    lowering.run(graph, KernelScope(names, opsets))
    lowering.taken += [NodeTreatment(node, "known") for node in gone] + [
        NodeTreatment(node, "integers") for node in parts
    ]
    findings = [_describe_refusal(taken) for taken in lowering.taken if taken.where == "refused"]
    outputs = [names.get(port.name) for port in model.graph.outputs]
    if not findings:
        no_type = "no kernel computes with the type of the input"
        findings = [Diagnostic("onnx-input", f"{no_type} `{p.name}`") for p in ports if not p.passed.dtype]
        for port, value in zip(model.graph.outputs, outputs, strict=True):
            if value is None or not value.dtype:
                said = f"no node computes the result `{port.name}`, or no kernel has its type"
                findings.append(Diagnostic("onnx-damaged", said))
        for port in (*model.graph.outputs, *graph.inside):  # tools leave stale sizes of values inside
            value, is_result = names.get(port.name), port in model.graph.outputs
            why = port.contradicts(value.dtype, value.shape if is_result else None) if value else ""
            findings += [_lie(port, why)] if why else []
        findings += [_report_undecided(opened, guard, node) for guard, node in opened.guards.items()]
    program, trace = None, Trace({}, {}, {})
    opened.is_settled = True
    if not findings:
        found = {port.name: value for port, value in zip(model.graph.outputs, outputs, strict=True) if value}
        orders = {port.name: order_of(port.strides) for port in model.graph.outputs}
        results, findings = own_results(found, orders, making)
        if not findings:
            program = program_of(named, ports, results, making, fuse)
            findings = list(_unwritten(program)) if opened.sizes else []
            trace = _trace(program, lowering, {n: v for n, v in names.items() if v is not None})
    return Imported(
        name, tuple(lowering.taken), tuple(findings[:MOST_SHOWN]), None if findings else program, trace
    )


def _trace(program: ModelProgram, lowering: Lowering, values: Mapping[str, Value]) -> Trace:
    """Return the origin of a program's tensors. A tensor that fusion removed belongs to the step of its reader."""
    left = {
        p.tensor: next(iter(program_writes(step))).tensor
        for step in program.steps
        for p in program_writes(step)
    }
    steps: dict[str, set[str]] = {tensor: {first} for tensor, first in left.items()}
    for step in reversed(lowering.making.steps):
        inside = [p.tensor for p in writes_of(step)]
        own = {first for tensor in inside for first in steps.get(tensor, ())}
        for passed in reads_of(step):
            if passed.tensor not in left:
                steps.setdefault(passed.tensor, set()).update(own)
    origins: dict[str, dict[Node, None]] = {}
    for tensor, node in lowering.origins.items():
        for first in steps.get(tensor, ()):
            origins.setdefault(first, {})[node] = None
    written = [step for step in lowering.making.steps if isinstance(step, WrittenKernel)]
    borders = {s.reads[name].tensor: border.widths for s in written for name, border in s.borders.items()}
    return Trace({tensor: tuple(nodes) for tensor, nodes in origins.items()}, values, borders)


def with_strides(value: Value, strides: tuple[int, ...]) -> Value:
    """Return a whole tensor with the layout of these strides. Without strides, it is row-major."""
    if not strides:
        return value
    turned = value.ordered(order_of(strides))
    real = zip(value.shape, turned.walk, strides, strict=True)
    if all(size == 1 or own == stride for size, own, stride in real):
        return turned
    return value.seen(
        value.shape, [s if size != 1 else 0 for size, s in zip(value.shape, strides, strict=True)]
    )


def order_of(strides: Sequence[int]) -> tuple[int, ...]:
    """Return the axes in memory order, the outermost first."""
    return tuple(sorted(range(len(strides)), key=lambda n: -strides[n]))


def _spell_in_c(name: str) -> str:
    """Return a name in the form of a C identifier."""
    found = re.sub(r"[^A-Za-z0-9_]", "_", name)[:40]
    return found if found[:1].isalpha() and not is_device(found) else f"model_{found}"


# --- sizes, and what is refused ---------------------------------------------------------------------------


def _check_names(
    ports: Mapping[str, Signature], sizes: Mapping[str, Given], constants: Mapping[str, Array]
) -> None:
    unknown = [name for name in constants if name not in ports]
    if unknown:
        said = f"the model has no input `{unknown[0]}` that could be a constant"
        raise UsageProblem.of("onnx-input", said, notes=(f"its inputs: {', '.join(ports)}",))
    open_sizes = {str(s) for port in ports.values() for s in port.sizes or () if isinstance(s, str)}
    wrong = [name for name in sizes if name not in open_sizes]
    if wrong:
        said = f"the model has no open size `{wrong[0]}`"
        there = ", ".join(sorted(open_sizes)) or "none"
        raise UsageProblem.of("onnx-input", said, notes=(f"its open sizes: {there}",))


def _of_type(port: Signature, array: Array, sizes: Mapping[str, int]) -> Array:
    """Return a constant that replaces an input, with the input's sizes and type. Raises: UsageProblem."""
    stated = [sizes.get(size, size) if isinstance(size, str) else size for size in port.sizes or ()]
    if array.shape == () and stated:  # one number stands for all elements; an open size is 1
        shape = tuple(size if isinstance(size, int) else 1 for size in stated)
        array = np.broadcast_to(array, shape) if 0 <= prod(shape) <= MOST_FILLED else array
    is_other = len(stated) != array.ndim or any(
        isinstance(size, int) and size != own for size, own in zip(stated, array.shape, strict=False)
    )
    if port.sizes is not None and is_other:
        said = f"the input `{port.name}` has the sizes {stated}, and its constant {list(array.shape)}"
        raise UsageProblem.of("onnx-input", said, help="give a constant of these sizes")
    try:
        is_same = not port.dtype or type_of(array) == port.dtype
        return array if is_same else in_type(array, port.dtype)
    except ValueError as error:
        said = f"the input `{port.name}` is {port.dtype}, and its constant does not fit: {error}"
        help_ = "give numbers of that type; floats alone are rounded"
        raise UsageProblem.of("onnx-input", said, help=help_) from None


def _check_open(ports: Iterable[Signature], sizes: Mapping[str, Given]) -> None:
    """Check that no input has open sizes. Raises: MissingWords for all of them."""
    lacks: dict[str, str] = {}
    for port in ports:
        if port.sizes is None and port.dtype:
            lacks[f"--constant {port.name}=FILE.npy"] = f"the number of dimensions of the input `{port.name}`"
        for size in port.sizes or ():
            if isinstance(size, str) and size not in sizes:
                lacks.setdefault(f"-D {size}=1", f"the size `{size}` of the input `{port.name}`")
    if lacks:
        *others, last = lacks.values()
        listed = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        said = f"{listed} open, and code is for known sizes or ranges of them"
        help_ = (
            f"give each a number, or 1..64 for a range; or an input a value for all calls: {' '.join(lacks)}"
        )
        words = [word for pair in lacks for word in pair.split(" ", 1)]
        raise MissingWords(Diagnostic("onnx-input", said, help=help_), tuple(words))


def _sizes_of(port: Signature, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the sizes of an input as numbers, or () for an unsupported type. Raises: UsageProblem."""
    found = tuple(sizes[s] if isinstance(s, str) else s for s in port.sizes or ())
    if any(size < 0 for size in found):
        raise UsageProblem.of(
            "onnx-input", f"the input `{port.name}` has the sizes {list(found)}", help="correct the file"
        )
    return found


def _describe_refusal(taken: NodeTreatment) -> Diagnostic:
    node = taken.node
    where = f"{node.domain}." if node.domain else ""
    help_ = "write it by other operators, or leave this part of the model to another program"
    if taken.constant:
        help_ = f"give it a value for all calls: --constant {taken.constant}=…"
    if taken.size:
        help_ = f"give it one number: -D {taken.size}=…"
    return Diagnostic(
        "onnx-node", f"`{node.called}` ({where}{node.op}) is not taken: {taken.why}", help=help_
    )


def _number_of(value: Given) -> int:
    """Return a size that must be a number, not a range."""
    if isinstance(value, int):
        return value
    return value[0] if isinstance(value, tuple) else int(value.partition("..")[0])


def _unwritten(program: ModelProgram) -> Iterator[Diagnostic]:
    """Yield a finding for each kernel that cannot be written with open sizes."""
    for name, text in program.kernels.items():
        try:
            parse_kernel(Source("kernel", text))
        except IsamapError as error:
            said = f"the kernel `{name}` cannot be written with open sizes: {error.diagnostics[0].message}"
            yield Diagnostic("model-range", said, help="give its sizes one number each")
    for step in program.steps:
        for body in step.bodies if isinstance(step, Control) else ():
            yield from _unwritten(body)


def _report_undecided(opened: OpenSizes, guard: Guard, node: str) -> Diagnostic:
    """Return the finding that a comparison has different results within the ranges of sizes."""
    rest = guard.index.constant
    said = opened.spelled(f"{guard.index - rest} {guard.comparison} {-rest}")
    ranges = " and ".join(f"`{s.name}` from {s.low} to {s.high}" for s in opened.of(guard.index))
    narrow = opened.narrowed(guard)
    help_ = "give its sizes one number each"
    if any(size.tensor for size in opened.of(guard.index)):
        help_ = "give the inputs that decide it as constants: --constant NAME=FILE.npy"
    elif narrow is not None:
        text = str(narrow.low) if narrow.low == narrow.high else narrow.text
        help_ = f"give a range in which it is the same: -D {narrow.name}={text}"
    where = f"`{node}`" if node else "the model"
    return Diagnostic(
        "model-range", f"{where} depends on whether {said}, which differs for {ranges}", help=help_
    )


def _lie(port: Signature, why: str) -> Diagnostic:
    help_ = "write the sizes of intermediate values into the file, as `onnx.shape_inference.infer_shapes` finds it"
    return Diagnostic("onnx-damaged", f"the model contradicts itself about `{port.name}`: {why}", help=help_)


# What is done to each channel of a convolution's result, folded into its filters and its bias.
#
#     c = Conv(x, w, b); d = Sub(c, mean); e = Mul(d, rate)     e = Conv(x, w * rate, (b - mean) * rate)
#
# Factors and summands are known before the model runs, f32 or f64, and nothing else reads what lies between:
# filters of fewer digits would be rounded once more. So norms of batches cost nothing when the model runs.


_WIDE = (np.dtype(np.float32), np.dtype(np.float64))
Step = tuple[Array, Array]
"""A factor and a summand of each channel, in f64."""


def with_folded_channels(graph: Graph) -> tuple[Graph, tuple[Node, ...]]:
    """Return the graph with channel scalings folded into filters, and the nodes that this removed."""
    readers = Counter(names_read(graph))
    constants: dict[str, Array] = dict(graph.constants)
    nodes: list[Node | None] = []
    gone: list[Node] = []
    makers: dict[str, int] = {}
    for node in graph.nodes:
        image = next((name for name in node.inputs if name in makers and readers[name] == 1), "")
        made = _fold_into_convolution(nodes[makers[image]], node, image, constants) if image else None
        if made is not None:
            nodes[makers[image]] = None
            gone.append(node)
        nodes.append(made or node)
        if (
            (made or node).op == "Conv"
            and not node.domain
            and len(node.outputs) == 1
            and len(node.inputs) > 1
        ):
            makers[node.outputs[0]] = len(nodes) - 1
    left = tuple(node for node in nodes if node is not None)
    return replace(graph, nodes=left, constants=constants), tuple(gone)


def _fold_into_convolution(
    maker: Node | None, node: Node, image: str, constants: dict[str, Array]
) -> Node | None:
    """Return a convolution that also computes a node after it, or None if no filters can."""
    assert maker is not None, "only what is there makes a value"
    x, weights, *biases = maker.inputs
    if f"{node.outputs[0] if node.outputs else ''}.filters" in constants:
        return None
    bias = biases[0] if biases and biases[0] else ""
    if weights not in constants or (bias and bias not in constants):
        return None
    filters = constants[weights]
    step = _step(node, image, constants, filters) if filters.dtype in _WIDE and filters.ndim > 2 else None
    if step is None:
        return None
    factor, summand = step
    start = constants[bias].astype(np.float64) if bias else np.zeros(len(filters))
    result = node.outputs[0]
    names = f"{result}.filters", f"{result}.bias"
    scaled = filters * factor.reshape(-1, *(1 for _ in filters.shape[1:]))
    for name, array in zip(names, (scaled, start * factor + summand), strict=True):
        constants[name] = array.astype(filters.dtype)
    return replace(maker, inputs=(x, *names), outputs=(result,))


def _step(node: Node, image: str, constants: Mapping[str, Array], filters: Array) -> Step | None:
    """Return the factor and summand that a node applies to each channel of an image, or None."""
    others = [name for name in node.inputs if name != image]
    if node.domain or len(node.outputs) != 1 or not all(name in constants for name in others):
        return None
    if node.op == "BatchNormalization" and len(others) == 4 and node.inputs[0] == image:
        if node.attributes.get("training_mode") or node.attributes.get("spatial", 1) != 1:
            return None
        gain, shift, mean, variance = (constants[name].astype(np.float64) for name in others)
        eps = node.attributes.get("epsilon", 1e-5)
        if not isinstance(eps, float) or any(
            a.shape != filters.shape[:1] for a in (gain, shift, mean, variance)
        ):
            return None
        factor = gain / np.sqrt(variance + eps)
        return factor, shift - mean * factor
    if node.op not in ("Add", "Sub", "Mul", "Div") or len(others) != 1:
        return None
    of_channel = _by_channel(constants[others[0]], filters)
    if of_channel is None:
        return None
    one, none = np.ones(len(filters)), np.zeros(len(filters))
    is_first = node.inputs[0] == image
    match node.op:
        case "Add":
            return one, of_channel
        case "Sub":
            return (one, -of_channel) if is_first else (-one, of_channel)
        case "Mul":
            return of_channel, none
        case _:
            return (1 / of_channel, none) if is_first and of_channel.all() else None


def _by_channel(array: Array, filters: Array) -> Array | None:
    """Return a number for each channel of an array that is broadcast over images, or None."""
    sizes = (1,) * (filters.ndim - array.ndim) + array.shape
    if array.dtype != filters.dtype or len(sizes) != filters.ndim:
        return None
    if sizes[0] != 1 or sizes[1] not in (1, len(filters)) or any(size != 1 for size in sizes[2:]):
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (len(filters),))
