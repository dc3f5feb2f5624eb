"""A torch.fx graph as libraries and torch nodes, in dependence order.

    mm, relu, sort, mul, sum     library 0 (mm, relu), sort by torch, library 1 (mul, sum)

Nodes with an operator (operators.py) are parted into segments, as few as may be: each becomes one library, which
a call of the graph calls once. Other nodes are performed by torch between them, and tensors between are torch's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

from isamap.driver.inputs import load_machine, machine_of
from isamap.driver.options import given_flag
from isamap.graph.device_launches import DeviceModel, check_device, compile_for_device
from isamap.graph.elementwise_fusion import fuse_steps
from isamap.graph.graph import Graph, Model, Signature
from isamap.graph.importing import Imported, lower_model
from isamap.graph.model_library import (
    CompiledModel,
    ModelOptions,
    compile_whole,
    explain_refused_kernels,
    program_key,
)
from isamap.graph.model_program import KernelCall
from isamap.graph.model_program import ModelProgram as Steps
from isamap.graph.move_kernels import IndexRange, with_move_kernels
from isamap.graph.operators.aten import POINTWISE
from isamap.graph.pending import dense
from isamap.graph.quantising import RUNTIMES
from isamap.graph.sizes import OpenSizes, is_open, value_of
from isamap.graph.terms import NotTaken
from isamap.machine.allowed import device_of
from isamap.machine.processor import detect_device_machine, this_cpu
from isamap.onnx.onnx_definitions import DEFINITIONS
from isamap.source import IsamapError, OnlyWarned, UsageProblem
from isamap.source.cache import digest
from isamap.torch.fx_nodes import is_result, is_view, layout_of, name_of, outside_tracing
from isamap.torch.operation_rows import ROWS
from isamap.torch.operators import OPERATIONS, PARTS, Translation, translate
from isamap.tune.implementation_choices import OURS, ChoiceDatabase, ImplementationChoice
from isamap.tune.tournament import time_alternately

OPSETS = {"": 20, "aten": 1, "isamap": 1, RUNTIMES: 1}
HERE = "cpu"
"""Torch's word for this processor."""
NO_KERNEL = "it has no kernel here"
Values = list[Any]
Step = Callable[[Values], None]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `torch.compile(…, options={…})`.

    If no heuristic is named, kernels that are worth a search get one.
    """

    machine: str = "host"
    threads: int = 1
    heuristic: str = ""
    limit_s: float = 10.0
    pack: bool = False
    portfolio: bool = False
    transform: bool = False

    @staticmethod
    def of(given: dict[str, Any] | None) -> Options:
        """Return the options by name. Raises: UsageProblem for an unknown one."""
        known = Options.__dataclass_fields__
        for name in given or {}:
            if name not in known:
                message = f"the backend `isamap` has no option `{name}`"
                notes = (f"options: {', '.join(known)}",)
                raise UsageProblem.of("usage", message, notes=notes)
        found = Options(**(given or {}))
        for name in ("pack", "portfolio", "transform"):
            given_flag(name, getattr(found, name))
        return found

    def how(self) -> ModelOptions:
        """Return how kernels are compiled."""
        return ModelOptions(
            self.machine, self.heuristic, self.limit_s, jobs=1, threads=self.threads, transform=self.transform
        )


@dataclass(frozen=True, slots=True)
class Ran:
    """The place where a node of a graph runs: a kernel, torch ("eager"), or "nowhere" for a view."""

    node: str
    operation: str
    shape: str
    where: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class TorchProgram:
    """An executable graph, and where each of its nodes runs, as far as known.

    `remark` is a note about the whole graph.
    """

    run: Callable[[Sequence[Any]], Any]
    told: Callable[[], tuple[Ran, ...]]
    remark: Callable[[], str] = lambda: ""

    def call(self, *inputs: Any) -> Any:
        """Return the results for these inputs."""
        return self.run(inputs)


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Nodes that one library computes. `reads` and `writes` are its tensors' nodes in call order.

    Each call checks the `ranges` of tensors that it reads.
    """

    nodes: tuple[Any, ...]
    reads: tuple[Any, ...]
    writes: tuple[Any, ...]
    library: CompiledModel | DeviceModel
    kernels: int
    remark: str = ""
    ranges: tuple[IndexRange, ...] = ()


def make_program(
    graph: Any, options: Options, known: Mapping[Any, Any] | None = None, opened: OpenSizes | None = None
) -> TorchProgram:
    """Return the program of a graph whose nodes know the shapes of their results.

    `known` are tensors by node that are equal in all calls: weights, and the values that depend only on them.
    """
    known = known or {}
    options, device = locate(graph, options)
    if opened is not None and device is not None:
        raise NotTaken("kernels for a device need sizes that are known")
    where = device or import_module("torch").device(HERE)
    refused = {node: reason for node in _candidates(graph, known) if (reason := refusal(node, where))}
    if opened is not None:
        for node, reason in refused.items():
            if reason != NO_KERNEL:  # kernels of sizes that are known may perform it
                raise NotTaken(f"`{node.name}`: {reason}")
    while True:
        parts = _Parts(graph, known, refused, opened)
        segments = _compile_segments(parts, options, device) if not parts.failed else None
        if segments is not None:
            break
        if opened is not None:
            node, reason = next(iter(parts.failed.items()))
            raise NotTaken(f"`{node.name}`: {reason}")
        assert parts.failed.keys() - refused.keys(), "each turn finds more nodes without an operator"
        refused |= parts.failed
    ran = tuple(_list_places(graph, segments, known, refused))
    return TorchProgram(_make_run(graph, parts, segments), lambda: ran)


def locate(graph: Any, options: Options) -> tuple[Options, Any]:
    """Return options with a machine, and the device for its kernels or None. Raises: UsageProblem, MissingTool."""
    leaves = import_module("torch.utils._pytree").tree_leaves([node.meta.get("val") for node in graph.nodes])
    found = {str(value.device): value.device for value in leaves if hasattr(value, "device")}
    others = sorted(name for name, device in found.items() if device.type != HERE)
    if options.machine == "host" and others:
        device: Any = found[others[0]]
        ask: Any = getattr(import_module("torch").get_device_module(device), "get_device_capability", None)
        machine = detect_device_machine(device.type, [*ask(device)] if ask else [])
        options = replace(options, machine=machine)
    own = device_of(load_machine(machine_of(options.machine)).target.features)
    mine = next((device for device in found.values() if own is not None and device.type == own.tensors), None)
    said, help_ = f"the tensors of this graph are on {' and '.join(others)}", ""
    if len(others) > 1:
        help_ = "compile the part of the model on each device by itself"
    elif others and mine is None:
        said, help_ = f"{said}, where no kernel of `{options.machine}` runs", "name a machine of this device"
    elif mine is not None and (options.pack or options.portfolio):
        said, help_ = f"`pack` and `portfolio` are options on a processor, not on {mine}", "leave them out"
    if help_:
        raise UsageProblem.of("usage", said, help=help_)
    if own is not None and mine is not None:
        check_device(own)
    return options, mine


def refusal(node: Any, where: Any) -> str:
    """Return why no kernel can perform a node with tensors on a device, or ""."""
    name, terms = name_of(node), [term.meta.get("val") for term in node.all_input_nodes]
    is_of_sizes = terms and not any(hasattr(term, "layout") for term in terms)
    if is_of_sizes or not any(name in table for table in (OPERATIONS, PARTS, POINTWISE, ROWS)):
        return NO_KERNEL
    is_several = isinstance(node.meta["val"], tuple | list)
    results = [user for user in node.users if is_result(user)] if is_several else [node]
    for term in (*node.all_input_nodes, *results):
        if (there := getattr(term.meta.get("val"), "device", where)) != where:
            return f"a tensor on {there}, and kernels run on {where}"
    try:
        for term in node.all_input_nodes:
            layout_of(term)
        for result in results:
            found = layout_of(result)
            real = [n for n, size in enumerate(found.sizes) if size != 1]
            if any(map(is_open, found.sizes)):
                if result.meta["val"].is_contiguous():
                    continue
                raise NotTaken("a result whose elements lie apart")
            order = sorted(real, key=lambda n, found=found: -found.strides[n])
            if [found.strides[n] for n in order] != list(dense([found.sizes[n] for n in order])):
                raise NotTaken("a result whose elements lie apart")
    except NotTaken as reason:
        return str(reason)
    return ""


def _candidates(graph: Any, known: Mapping[Any, Any]) -> Iterator[Any]:
    """Yield the nodes that compute something in each call of the graph."""
    for node in graph.nodes:
        if node.op == "call_function" and node not in known and not is_result(node) and not is_view(node):
            yield node


# --- segments ---------------------------------------------------------------------------------------------


class _Parts:
    """A partitioned graph: the level of each node, and the operators of each level's segment.

    A level starts at a node that needs the result of a torch node. Therefore no path leads from a segment
    through torch back into it. `failed` are the nodes without an operator, with the reason.
    """

    def __init__(
        self,
        graph: Any,
        known: Mapping[Any, Any],
        refused: Mapping[Any, str],
        opened: OpenSizes | None = None,
    ) -> None:
        self.graph, self.known, self.refused, self.opened = graph, known, refused, opened
        (self.output,) = (node for node in graph.nodes if node.op == "output")
        self.inside = {node for node in _candidates(graph, known) if node not in refused}
        self.failed: dict[Any, str] = {}
        self.when = self._levels()
        levels = sorted({self.when[node] for node in self.inside})
        self.made = {level: self._translate_level(level) for level in levels}
        self.needed = self._needed_nodes()

    def _levels(self) -> dict[Any, int]:
        """Return for each node the level after which it is available. It is -1 for a node that needs no other."""
        when: dict[Any, int] = {}
        barrier = drawn = -1
        random = import_module("torch").Tag.nondeterministic_seeded
        for node in self.graph.nodes:
            needed = node.all_input_nodes
            if node in self.inside:
                when[node] = max(0, barrier + 1, *(self._first_level(n, when) for n in needed))
                continue
            when[node] = max((when[n] for n in needed), default=-1)
            schema = getattr(node.target, "_schema", None)
            if random in getattr(
                node.target, "tags", ()
            ):  # torch draws its numbers in the order of the graph
                drawn = when[node] = max(drawn, when[node])
            if schema is not None and schema.is_mutable:
                barrier = when[node] = max(when.values())
        return when

    def _first_level(self, node: Any, when: Mapping[Any, int]) -> int:
        """Return the first level whose segment can read a node."""
        if node in self.inside or node.op == "placeholder" or node in self.known:
            return when[node]
        if node not in self.refused and (is_view(node) or is_result(node)):
            return self._first_level(node.args[0], when)
        return when[node] + 1

    def _translate_level(self, level: int) -> Translation:
        to = Translation(self.known, self.refused)
        for node in self.graph.nodes:
            if node in self.inside and self.when[node] == level:
                try:
                    translate(to, node)
                except NotTaken as reason:
                    self.failed[node] = str(reason)
        self.failed |= to.unseen
        return to

    def _needed_nodes(self) -> set[Any]:
        """Return the nodes whose tensors are visible outside segments, and those that torch performs."""
        waiting = list(self.output.all_input_nodes)
        waiting += [node for to in self.made.values() for node in to.inputs]
        waiting += [n for n in _candidates(self.graph, self.known) if n not in self.inside]
        needed: set[Any] = set()
        while waiting:
            node = waiting.pop()
            if node not in needed:
                needed.add(node)
                if not self._is_made(node):
                    waiting += node.all_input_nodes
        return needed

    def _is_made(self, node: Any) -> bool:
        """Return whether a segment computes the tensor of a node."""
        return node in self.inside or (is_result(node) and node.args[0] in self.inside)

    def results(self, level: int) -> list[Any]:
        """Return the nodes whose tensors a segment returns."""
        return [
            n for n in self.graph.nodes if n in self.needed and self._is_made(n) and self.when[n] == level
        ]

    def by_torch(self, level: int) -> list[Any]:
        """Return the nodes that torch performs after a level's segment."""
        found = (n for n in self.graph.nodes if n in self.needed and self.when[n] == level)
        own = (n for n in found if n.op in ("call_function", "get_attr") and n not in self.known)
        return [n for n in own if not self._is_made(n)]


def _compile_segments(parts: _Parts, options: Options, device: Any) -> dict[int, Segment] | None:
    """Return the segments by level for a device or this processor, or None if some translated nodes have failed."""
    lowered: dict[int, tuple[Imported, Sequence[Any], Sequence[Any]]] = {}
    ranges: dict[int, tuple[IndexRange, ...]] = {}
    for level, to in parts.made.items():
        if results := parts.results(level):
            found = _lower_segment(parts, to, results)
            if device is not None and found.program is not None:
                program, ranges[level] = with_move_kernels(found.program, is_checked=False)
                found = replace(found, program=program)
            lowered[level] = found, list(to.inputs), results
            if device is not None and not parts.failed:
                _refuse_moves(parts, to, found)
    if parts.failed:
        return None
    how = options.how()
    segments: dict[int, Segment] = {}
    for level, (found, reads, results) in lowered.items():
        nodes = tuple(n for n in parts.graph.nodes if n in parts.inside and parts.when[n] == level)
        alone = Alone.of(nodes, reads)
        try:
            key = _key(alone, found.whole(), how) if options.portfolio else ""
            choice = _kept_choice(key) if key else None
            if choice is None or choice.is_ours:
                if device is None:
                    library = compile_whole(found.whole(), how, apart=bool(parts.known))
                    kernels, said = library.library.kernels, ""
                else:
                    with outside_tracing():
                        library = compile_for_device(found.whole(), how, device)
                    kernels, said = len(found.whole().kernels), f", launched on {device}"
                checks = ranges.get(level, ())
                segments[level] = Segment(nodes, tuple(reads), tuple(results), library, kernels, said, checks)
                if key and choice is None:
                    choice = _measure_segment(alone, segments[level], parts.known, options, key)
        except IsamapError as error:
            _refuse(parts, parts.made[level], found, how, error)
            return None
        if choice is not None and choice.is_ours:
            segments[level] = replace(segments[level], remark=f", {choice.said}")
        elif choice is not None:
            parts.failed |= dict.fromkeys(nodes, choice.said)
    return segments if not parts.failed else None


def _lower_segment(parts: _Parts, to: Translation, results: Sequence[Any]) -> Imported:
    """Return the program of a segment, and record the nodes that have failed."""
    inputs = tuple(signature(node, name) for node, name in to.inputs.items())
    outputs: list[Signature] = []
    for node in results:
        name = to.name(node)
        if any(port.name == name for port in outputs):
            name = to.put(node, "Identity", name, result=f"{node.name}.again")
        outputs.append(signature(node, name))
    graph = Graph("graph", tuple(to.nodes), inputs, tuple(outputs), to.constants)
    definitions = DEFINITIONS if find_spec("onnx") else None
    model = Model(graph, OPSETS, {}, definitions, has_views=True)
    found = lower_model(model, "graph", {}, {}, partial(fuse_steps, freely=True), parts.opened)
    for taken in found.taken:
        if taken.where == "refused" and "it needs the result of a node that is refused" not in taken.why:
            parts.failed.setdefault(to.source(taken.node), taken.why)
    if found.program is None and not parts.failed:
        parts.failed |= dict.fromkeys(to.sources.values(), found.findings[0].message)
    return found


def _refuse_moves(parts: _Parts, to: Translation, found: Imported) -> None:
    """Record the nodes with steps that are no kernels, or all nodes of the segment."""
    steps = [step for step in found.whole().steps if not isinstance(step, KernelCall)]
    for tensor in (view.tensor for step in steps for view in step.writes):
        nodes = [to.source(node) for node in found.trace.origins.get(tensor, ())] or to.sources.values()
        parts.failed |= dict.fromkeys(
            nodes, "C code of the processor performs it: it copies or selects elements"
        )


def _refuse(parts: _Parts, to: Translation, found: Imported, how: ModelOptions, error: IsamapError) -> None:
    """Record the nodes whose kernels a machine cannot perform, or else all nodes of the segment."""
    for tensor, reason in explain_refused_kernels(found.whole(), how).items():
        parts.failed |= {to.source(node): reason for node in found.trace.origins.get(tensor, ())}
    if not parts.failed:
        parts.failed |= dict.fromkeys(to.sources.values(), error.diagnostics[0].message)


def signature(node: Any, name: str) -> Signature:
    """Return the type, the sizes and the strides of a node's tensor. Raises: NotTaken."""
    found = layout_of(node)
    strides = () if node.meta["val"].is_contiguous() else found.strides
    return Signature(name, found.dtype, found.sizes, strides=strides)


def _list_places(
    graph: Any, segments: Mapping[int, Segment], known: Mapping[Any, Any], refused: Mapping[Any, str]
) -> Iterator[Ran]:
    of = {node: n for n, segment in enumerate(segments.values()) for node in segment.nodes}
    remarks = [segment.remark for segment in segments.values()]
    counts = [segment.kernels for segment in segments.values()]
    for node in graph.nodes:
        if node.op != "call_function" or is_result(node):
            continue
        if node in known:
            yield place_of_node(node, "nowhere", "of weights alone: torch computes it once")
        elif node in of:
            number = of[node]
            which = (
                "a library that is"
                if len(counts) == 1
                else f"library {number}, of {len(counts)} that are each"
            )
            said = f"one of the {counts[number]} of {which} called once{remarks[number]}"
            yield place_of_node(node, "kernel", said)
        elif is_view(node):
            yield place_of_node(node, "nowhere", "a view computes nothing")
        else:
            yield place_of_node(node, "eager", refused.get(node, "it has no kernel here"))


def place_of_node(node: Any, where: str, why: str = "") -> Ran:
    """Return where a node runs."""
    value = node.meta.get("val")
    shape = f"{value.dtype} {list(value.shape)}".removeprefix("torch.") if hasattr(value, "shape") else ""
    return Ran(node.name, name_of(node) or str(node.target), shape, where, why)


# --- a call -----------------------------------------------------------------------------------------------


def _make_run(graph: Any, parts: _Parts, segments: Mapping[int, Segment]) -> Callable[[Sequence[Any]], Any]:
    """Return the graph as a function of its inputs. Values are stored in a list with a place per node."""
    torch: Any = import_module("torch")
    place = {node: n for n, node in enumerate(graph.nodes)}
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    sizes = {str(node.meta["size"]): place[node] for node in inputs if "size" in node.meta}
    units: list[Any] = []
    for level in range(-1, max(parts.when.values(), default=-1) + 1):
        units += [segments[level]] if level in segments else []
        units += parts.by_torch(level)
    steps = [
        segment_step(unit, place, sizes) if isinstance(unit, Segment) else eager_step(unit, place)
        for unit in units
    ]
    last: dict[int, int] = {}
    for n, unit in enumerate(units):
        used = (*unit.reads, *unit.writes) if isinstance(unit, Segment) else (*unit.all_input_nodes, unit)
        last |= {place[node]: n for node in used}
    kept = {place[node] for node in (*parts.output.all_input_nodes, *parts.known)} | {*sizes.values()}
    gone = [[at for at, number in last.items() if number == n and at not in kept] for n in range(len(units))]
    fixed: Values = [None] * len(place)
    for node, tensor in parts.known.items():
        fixed[place[node]] = tensor
    assert [place[node] for node in inputs] == list(range(len(inputs))), "inputs come first"
    behind = fixed[len(inputs) :]
    map_arg, given_back = torch.fx.node.map_arg, parts.output.args[0]
    simple = type(given_back) in (tuple, list) and all(hasattr(node, "meta") for node in given_back)
    results = [place[node] for node in given_back] if simple else []
    if len(units) == 1 and isinstance(units[0], Segment) and not sizes and simple:
        (segment,) = units
        written = [place[node] for node in segment.writes]
        if all(place[node] < len(inputs) for node in segment.reads) and {*results} <= {*written}:
            return _library_function(segment, place, [written.index(at) for at in results])
    ready = list(zip(steps, gone, strict=True))
    is_eager = any(not isinstance(unit, Segment) for unit in units)

    def perform(values: Values) -> None:
        for step, unneeded in ready:
            step(values)
            for at in unneeded:
                values[at] = None

    def run(given: Sequence[Any]) -> Any:
        values: Values = [*given, *behind]
        if is_eager:
            with torch.no_grad():
                perform(values)
        else:
            perform(values)
        if simple:
            return [values[at] for at in results]

        def value(node: Any) -> Any:
            return values[place[node]]

        return map_arg(given_back, value)

    return run


def _open_step(segment: Segment, place: Mapping[Any, int], sizes: Mapping[str, int]) -> Step:
    """Return a step that calls a library with open sizes, given the places of its numbers."""
    torch: Any = import_module("torch")
    assert isinstance(segment.library, CompiledModel), "launches on a device are of known sizes"
    reads = [(place[node], layout_of(node)) for node in segment.reads]
    writes = [(place[node], layout_of(node), node.meta["val"].dtype) for node in segment.writes]
    order = [size.symbol for size in segment.library.emitted.sizes]

    def step(values: Values) -> None:
        numbers = {symbol: int(values[at]) for symbol, at in sizes.items()}
        read: list[Any] = []
        for at, found in reads:
            tensor = values[at].resolve_neg()
            strides = tuple(value_of(s, numbers) for s in found.strides)
            if tensor.stride() != strides:
                tensor = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)
            read.append(tensor)
        made = [
            torch.empty_strided(
                [value_of(s, numbers) for s in found.sizes],
                [value_of(s, numbers) for s in found.strides],
                dtype=dtype,
            )
            for _, found, dtype in writes
        ]
        given = [numbers[symbol] for symbol in order]
        segment.library.call_at([*given, *(t.data_ptr() for t in read)], [t.data_ptr() for t in made])
        for (at, _, _), tensor in zip(writes, made, strict=True):
            values[at] = tensor

    return step


def segment_step(segment: Segment, place: Mapping[Any, int], sizes: Mapping[str, int] | None = None) -> Step:
    """Return a step that calls a library with new tensors for its results."""
    if sizes:
        return _open_step(segment, place, sizes)
    reads = [(place[node], copy_to_layout(node)) for node in segment.reads]
    writes = [(place[node], tensor_maker(node)) for node in segment.writes]
    call_at, ranges = segment.library.call_at, segment.ranges

    def step(values: Values) -> None:
        read = [seen(values[at]) for at, seen in reads]
        if ranges:
            _check_ranges(read, ranges)
        made = [make() for _, make in writes]
        call_at([t.data_ptr() for t in read], [t.data_ptr() for t in made])
        for (at, _), tensor in zip(writes, made, strict=True):
            values[at] = tensor

    return step


def _library_function(
    segment: Segment, place: Mapping[Any, int], order: Sequence[int]
) -> Callable[[Sequence[Any]], Any]:
    """Return the function of a graph with only one library. A call only touches the tensors that it reads."""
    reads = [(place[node], copy_to_layout(node)) for node in segment.reads]
    makes = [tensor_maker(node) for node in segment.writes]
    call_at, ranges = segment.library.call_at, segment.ranges

    def run(given: Sequence[Any]) -> Any:
        read = [seen(given[at]) for at, seen in reads]
        if ranges:
            _check_ranges(read, ranges)
        made = [make() for make in makes]
        call_at([t.data_ptr() for t in read], [t.data_ptr() for t in made])
        return [made[n] for n in order]

    return run


def _check_ranges(read: Sequence[Any], ranges: Sequence[IndexRange]) -> None:
    """Let torch check indices where they lie. A device does not wait for the check, as for torch's own of indices."""
    torch: Any = import_module("torch")
    for one in ranges:
        found = read[one.number]
        inside = ((found >= one.low) & (found <= one.high)).all()
        torch._assert_async(inside, f"an index is not from {one.low} to {one.high}")


def eager_step(node: Any, place: Mapping[Any, int]) -> Step:
    """Return a step in which torch performs a node."""
    map_arg: Any = import_module("torch").fx.node.map_arg
    at = place[node]
    if node.op == "get_attr":
        constant = attrgetter(node.target)(node.graph.owning_module)
        return lambda values: values.__setitem__(at, constant)

    def step(values: Values) -> None:
        def value(needed: Any) -> Any:
            return values[place[needed]]

        args, kwargs = map_arg((node.args, node.kwargs), value)
        values[at] = node.target(*args, **kwargs)

    return step


def copy_to_layout(node: Any) -> Callable[[Any], Any]:
    """Return a function that copies a tensor, if necessary, to the layout that was predicted for a node."""
    found = layout_of(node)

    def seen(tensor: Any) -> Any:
        if tensor.is_neg():
            tensor = tensor.resolve_neg()
        if tensor.stride() != found.strides:
            tensor = tensor.new_empty_strided(found.sizes, found.strides).copy_(tensor)
        return tensor

    return seen


def tensor_maker(node: Any) -> Callable[[], Any]:
    """Return a function that creates an uninitialised tensor with a node's size."""
    torch: Any = import_module("torch")
    found, value = layout_of(node), node.meta["val"]
    if value.device.type != HERE:
        make = partial(torch.empty_strided, dtype=value.dtype, device=value.device)
        return partial(make, found.sizes, found.strides)
    make = torch._C._dynamo.guards._empty_strided_cpu  # without a search for the device
    return partial(make, found.sizes, found.strides, value.dtype)


# Which of two performs a segment, our library or torch by its own calls: what was measured faster.
#
# Both take turns on the same random tensors of the segment's shapes. Torch performs a segment only where it won
# so many rounds that this is no chance; what was found is kept for equal segments, also in other processes.


TORCH = "torch"

KNOWN: dict[str, ImplementationChoice] = {}
"""The choices that this process has found or read. They remain if nothing can be stored."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The nodes of a segment with the views between them, in order, and the nodes that they read."""

    nodes: tuple[Any, ...]
    given: tuple[Any, ...]

    @staticmethod
    def of(members: Sequence[Any], reads: Sequence[Any]) -> Alone:
        """Return the nodes of a segment with the nodes that they read."""
        inside, nodes, given = set(members), set[Any](), set(reads)
        waiting = list(members)
        while waiting:
            node = waiting.pop()
            if node in nodes or node in given:
                continue
            if node in inside or is_view(node) or is_result(node):
                nodes.add(node)
                waiting += node.all_input_nodes
            else:
                given.add(node)
        order = list(members[0].graph.nodes)
        return Alone(tuple(n for n in order if n in nodes), tuple(n for n in order if n in given))

    @property
    def text(self) -> str:
        """The computation and its inputs as text, independent of the names in a graph."""
        map_arg: Any = import_module("torch").fx.node.map_arg
        names = {node: f"v{n}" for n, node in enumerate((*self.given, *self.nodes))}
        lines = [f"{names[node]}: {_describe_value(node.meta.get('val'))}" for node in self.given]
        for node in self.nodes:
            args, kwargs = map_arg((node.args, dict(node.kwargs)), names.__getitem__)
            lines.append(f"{names[node]} = {node.target}{args}{kwargs}")
        return "\n".join(lines)


def _describe_value(value: Any) -> str:
    torch: Any = import_module("torch")
    if not isinstance(value, torch.Tensor):
        return str(value)
    return f"{value.dtype} {tuple(value.shape)} {value.stride()}"


def _key(alone: Alone, program: Steps, how: ModelOptions) -> str:
    """Return the sha256 of everything that may change which is faster. Raises: IsamapError of any kind."""
    torch: Any = import_module("torch")
    threads = json.dumps([how.threads, torch.get_num_threads()])
    return digest(program_key(program, how), alone.text, threads, str(torch.__version__), this_cpu().key)


def _kept_choice(key: str) -> ImplementationChoice | None:
    with OnlyWarned():
        if key not in KNOWN and (found := ChoiceDatabase.open().find(key)) is not None:
            KNOWN[key] = found
    return KNOWN.get(key)


def _measure_segment(
    alone: Alone, segment: Segment, known: Mapping[Any, Any], options: Options, key: str
) -> ImplementationChoice:
    """Return the measured choice for a segment, which is cached."""
    torch: Any = import_module("torch")
    one_thread = options.threads == torch.get_num_threads() == 1
    with outside_tracing():
        place = {node: n for n, node in enumerate(segment.nodes[0].graph.nodes)}
        values: Values = [None] * len(place)
        generator = torch.Generator().manual_seed(0)
        for node in alone.given:
            values[place[node]] = known[node] if node in known else _fill_value(node, generator)
        theirs = [eager_step(node, place) for node in alone.nodes]

        def perform() -> None:
            for step in theirs:
                step(values)

        calls = {OURS: partial(segment_step(segment, place), values), TORCH: perform}
        rounds = time_alternately(calls, time.thread_time_ns if one_thread else time.perf_counter_ns)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    assert isinstance(segment.library, CompiledModel), "a portfolio is of this processor"
    name = segment.library.emitted.name
    choice = KNOWN[key] = ImplementationChoice.of(rounds, key=key, kernel=name, library=TORCH, time=now)
    with OnlyWarned():
        ChoiceDatabase.open().keep(choice)
    return choice


def _fill_value(node: Any, generator: Any) -> Any:
    """Return a value like that of a node: random numbers in its tensor's layout."""
    torch: Any = import_module("torch")
    if node.op == "get_attr":
        return attrgetter(node.target)(node.graph.owning_module)
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return value
    reach = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    room = torch.empty(reach + 1, dtype=value.dtype)
    if value.dtype.is_floating_point:
        room.normal_(generator=generator)
    else:
        room.random_(0, 2, generator=generator)
    return room.as_strided(tuple(value.shape), value.stride())
