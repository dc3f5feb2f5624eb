"""Lower a model: each node becomes a constant, a view, a step, or other nodes, or it is refused.

Nodes come in the order of the graph, each with the types and sizes of its inputs. Nodes that depend on no
input of the model are computed at import, by ONNX's own reference. If ONNX defines an operator by a function
of others, and isamap has no kernel for it, the function is lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count as counting
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from isamap.graph.applied import Applied, NeedsConstant
from isamap.graph.elementwise_fusion import Fuse, Open, fuse_steps, reads_of, writes_of
from isamap.graph.graph import (
    Array,
    Attribute,
    AttributeReference,
    FoldingBudget,
    Graph,
    GraphFunction,
    Model,
    Node,
    Signature,
    names_read,
)  # fmt: skip
from isamap.graph.making import KernelScope, Making, Names, OutOfOrder, Value, whole
from isamap.graph.model_program import BodyInput, Control, KernelCall, ModelProgram, Move, Port, TensorView
from isamap.graph.model_program import reads_of as reads_of_step
from isamap.graph.model_program import writes_of as writes_of_step
from isamap.graph.operators import OPERATORS, Lowered
from isamap.graph.operators.data_movement import SEQUENCES
from isamap.graph.operators.fixed import fold_sizes
from isamap.graph.program_rules import check_model
from isamap.graph.sizes import NeedsSize, OpenSizes, index_of, is_open, most_of
from isamap.graph.terms import NotTaken
from isamap.graph.types import CODED, size_bytes
from isamap.source import Diagnostic, IsamapError, assert_rules

NEWEST_OPSET = 28
"""The version of the operators that our own expansions are written in, the newest that is known."""
MOST_STEPS = 20_000
MOST_NODES = 12_000
"""Nodes and graphs inside of nodes, as often as they run, beyond the nodes of the graph itself."""
TAKE_CODED = frozenset(
    ("Cast", "CastLike", "DequantizeLinear", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Unsqueeze")
)
"""The operators on numbers of types that the language does not have."""
MOST_CALLS = 12
"""Functions that are written by functions."""


@dataclass(frozen=True, slots=True)
class NodeTreatment:
    """The treatment of a node: "kernel", "move", "view", "known", "integers", "function", or "refused" and why."""

    node: Node
    where: str
    why: str = ""
    constant: str = ""
    """For a refused node, the input whose value would help."""
    size: str = ""
    """For a refused node, the open size whose number would help."""


class RefusedNode(Exception):
    """An exception: a nested node could not be lowered."""

    def __init__(self, taken: NodeTreatment) -> None:
        super().__init__(taken.why)
        self.taken = taken


@dataclass(frozen=True, slots=True)
class Body:
    """A nested graph as a program, its results in it, and the outer tensors that it reads."""

    program: ModelProgram
    results: Sequence[Value]
    captured: Sequence[TensorView]


@dataclass(slots=True)
class Lowering:
    """The walk over a model: the program so far, and the treatment of each node."""

    model: Model
    room: FoldingBudget
    making: Making = field(default_factory=Making)
    taken: list[NodeTreatment] = field(default_factory=list[NodeTreatment])
    nodes: int = 0
    origins: dict[str, Node] = field(default_factory=dict[str, Node])
    """The node of the model's own graph that each tensor is computed for."""
    opened: OpenSizes = field(default_factory=lambda: OpenSizes(()))
    name: str = "model"
    fuse: Fuse = fuse_steps
    """The function that fuses the operations of bodies into kernels."""
    bodies: Iterator[int] = field(default_factory=counting)

    def run(self, graph: Graph, scope: KernelScope) -> None:
        """Lower the nodes of the model's main graph. Refused nodes are recorded, and lowering continues."""
        names = scope.names
        for node in graph.nodes:
            if any(name and names.get(name, _ABSENT) is None for name in node.inputs):
                self.taken.append(
                    NodeTreatment(node, "refused", "it needs the result of a node that is refused")
                )
                names.update(dict.fromkeys((n for n in node.outputs if n), None))
                continue
            before = len(self.making.steps)
            try:
                where = self.lower(node, scope)
                self.taken.append(NodeTreatment(node, where))
                made = (p for step in self.making.steps[before:] for p in writes_of(step))
                self.origins |= {passed.tensor: node for passed in made}
            except RefusedNode as inner:
                self.taken.append(replace(inner.taken, node=node))
                names.update(dict.fromkeys((n for n in node.outputs if n), None))

    def inline(self, nodes: Iterable[Node], scope: KernelScope) -> None:
        """Lower nodes, all of which must be supported. Raises: Refused."""
        for node in nodes:
            self.lower(node, scope)

    def lower(self, node: Node, scope: KernelScope) -> str:
        """Lower one node, and return how it was lowered. Raises: Refused."""
        before = len(self.making.steps)
        self.nodes += 1
        self.opened.node = node.called
        if self.nodes > MOST_NODES + len(self.model.graph.nodes):
            said = f"graphs inside run more than {MOST_NODES} nodes"
            raise RefusedNode(NodeTreatment(node, "refused", said))
        try:
            inputs = tuple(_value(scope.names, name) for name in node.inputs)
            found, where = self.results(node, inputs, scope)
        except NeedsConstant as needs:
            raise RefusedNode(NodeTreatment(node, "refused", str(needs), needs.name)) from None
        except NeedsSize as needs:
            raise RefusedNode(NodeTreatment(node, "refused", str(needs), size=needs.name)) from None
        except NotTaken as reason:
            raise RefusedNode(NodeTreatment(node, "refused", self.opened.spelled(str(reason)))) from None
        except IsamapError as error:
            raise RefusedNode(NodeTreatment(node, "refused", error.diagnostics[0].message)) from None
        except (LookupError, ValueError, TypeError, ArithmeticError, AssertionError) as error:
            # Files may hold anything: attributes of another length, axes that are not there.
            said = f"its inputs and attributes do not fit: {type(error).__name__} {str(error)[:60]}"
            raise RefusedNode(NodeTreatment(node, "refused", said)) from None
        if len(self.making.steps) > MOST_STEPS:
            raise RefusedNode(NodeTreatment(node, "refused", f"the model takes more than {MOST_STEPS} steps"))
        for name, value in zip_longest(node.outputs, found[: len(node.outputs)]):
            if name and value is None:
                raise RefusedNode(NodeTreatment(node, "refused", f"its result `{name}` has no kernel here"))
            if name:
                scope.names[name] = value
        return where or _where(self.making.steps[before:])

    def results(
        self, node: Node, inputs: tuple[Value | None, ...], scope: KernelScope
    ) -> tuple[Sequence[Value | None], str]:
        """Return the results of a node, and how they were obtained if there are no steps."""
        if node.domain not in scope.opsets:
            raise NotTaken(f"the model does not say which version of the operators of `{node.domain}` it has")
        version = scope.opsets[node.domain]
        own = self.model.functions.get((node.domain, node.op))
        if own is not None:
            return self.called(own, node, inputs, scope), "function"
        definitions = self.model.definitions
        if definitions is not None and self.model.is_foreign:
            definitions.check_node(node, inputs, version)
        if node.op in BODIES and not node.domain:
            if scope.depth > MOST_CALLS:
                raise NotTaken("graphs lie in graphs too deep")
            before = len(self.making.steps)
            found = BODIES[node.op](self, node, self._plain(inputs), scope)
            is_called = any(isinstance(step, Control) for step in self.making.steps[before:])
            return found, "library" if is_called else "function"
        applied = Applied(node, version, self.making, inputs, partial(self._expand_node, node, scope))
        if all(v is None or v.known is not None for v in inputs):
            arrays = [v.known if v else None for v in inputs]
            folded = definitions.fold(node, arrays, version, self.room) if definitions else None
            if folded is not None:
                return [Value.of(array) for array in folded], "known"
            if any(v is not None and v.known is not None and any(map(is_open, v.known.flat)) for v in inputs):
                known = fold_sizes(applied)
                if known is not None:
                    return [known], "known"
        if any(v is not None and not v.dtype and node.op not in SEQUENCES for v in inputs):
            raise NotTaken("no kernel computes with the type of an input")
        if node.op not in TAKE_CODED and any(v is not None and v.dtype in CODED for v in inputs):
            raise NotTaken("no kernel computes with the type of an input, which is only cast")
        lowered = OPERATORS.get(node.domain, {}).get(node.op)
        if lowered is not None:
            mark = self.making.mark()
            try:
                return self._lower_operator(lowered, applied), ""
            except NeedsConstant:
                raise
            except NotTaken as reason:
                self.making.drop_after(mark)
                other = definitions.function_of(node, inputs, version) if definitions else None
                if other is None:
                    raise reason from None
                return self.called(other, node, inputs, scope), "function"
        other = definitions.function_of(node, inputs, version) if definitions else None
        if other is None:
            where = f" of the domain `{node.domain}`" if node.domain else ""
            raise NotTaken(f"the operator {node.op}{where} has no kernel here")
        return self.called(other, node, inputs, scope), "function"

    def _expand_node(
        self, of: Node, scope: KernelScope, node: Node, values: Sequence[Value | None]
    ) -> Sequence[Value | None]:
        """Return the results of a node that defines the operator `of`. Raises: Refused."""
        inside = scope.inside(dict(zip(node.inputs, values, strict=True)), {**scope.opsets, "": NEWEST_OPSET})
        try:
            self.lower(node, inside)
        except RefusedNode as inner:
            if inner.taken.constant in ("", *of.inputs):
                raise
            raise NotTaken(inner.taken.why) from None
        return [inside.names[name] for name in node.outputs]

    def _lower_operator(self, lowered: Lowered, applied: Applied) -> tuple[Value | None, ...]:
        """Return the results of an operator, with inputs in their current layout if it accepts them."""
        mark = self.making.mark()
        try:
            found = lowered(applied)
        except OutOfOrder:
            self.making.drop_after(mark)
            found = lowered(replace(applied, inputs=self._plain(applied.inputs)))
        return found if isinstance(found, tuple) else (found,)

    def _plain(self, inputs: Iterable[Value | None]) -> tuple[Value | None, ...]:
        return tuple(value and self.making.plain(value) for value in inputs)

    def called(
        self, function: GraphFunction, node: Node, inputs: Sequence[Value | None], scope: KernelScope
    ) -> Sequence[Value | None]:
        """Return the results of a function that is lowered in place, or None for those that it lacks.

        Raises: Refused.
        """
        if scope.depth > MOST_CALLS:
            raise NotTaken("functions call functions too deep")
        names: Names = dict(zip(function.inputs, inputs, strict=False))
        given = {n for n, v in names.items() if v is not None}
        names = {n: v for n, v in names.items() if n in given}
        nodes = with_attributes(function, node)
        try:
            self.inline(nodes, scope.inside(names, {**scope.opsets, **function.opsets}))
        except RefusedNode as inner:
            if inner.taken.constant and inner.taken.constant not in node.inputs:
                needed = _size_input(node, inputs)
                raise NeedsConstant(needed) if needed else inner from None
            raise
        return [names.get(name) for name in function.outputs[: len(node.outputs)]]

    def of_graph(self, graph: Graph, given: Sequence[Value | None], scope: KernelScope) -> list[Value]:
        """Return the results of a nested graph for these inputs. It sees outer names. Raises: Refused."""
        self.nodes += 1
        if len(given) != len(graph.inputs):
            raise NotTaken(f"the graph inside takes {len(graph.inputs)} inputs and is given {len(given)}")
        inside: Names = {
            **scope.names,
            **{name: Value.of(array) for name, array in graph.constants.items()},
            **{port.name: value for port, value in zip(graph.inputs, given, strict=True)},
        }
        check_said(graph.inputs, inside)
        self.inline(graph.nodes, scope.inside(inside))
        found = [inside.get(port.name) for port in graph.outputs]
        if any(value is None for value in found):
            raise NotTaken("a result of the graph inside is never computed")
        check_said(graph.outputs, inside)
        return [self.making.plain(value) for value in found if value is not None]

    def body_of(self, graph: Graph, given: Sequence[Value], scope: KernelScope, kind: str) -> Body:
        """Return a nested graph as a program. Its inputs are the unknown values in `given`, and those that it reads.

        Raises: Refused.
        """
        visible = (*self.making.sizes, *self.making.counts)
        making = Making(views=self.making.views, opened=self.opened, sizes=visible)
        open_ = [value for value in given if value.known is None]
        inputs = [Value(value.dtype, value.shape, f"i{n}") for n, value in enumerate(open_)]
        captured: list[TensorView] = []
        names: Names = {}
        read = set(names_read(graph))
        for name, value in scope.names.items():
            if value is None or value.known is not None:
                names[name] = value and replace(value, tensor="")
            elif name in read:
                plain = self.making.plain(value)
                captured.append(self.making.passed(plain))
                names[name] = Value(plain.dtype, plain.shape, f"i{len(inputs) + len(captured) - 1}")
        ports = [Port(value.tensor, making.passed(value)) for value in inputs]
        ports += [Port(f"i{n}", replace(p, tensor=f"i{n}")) for n, p in enumerate(captured, len(inputs))]
        inner = replace(self, making=making, origins={}, taken=[])
        left = iter(inputs)
        arguments = [next(left) if value.known is None else value for value in given]
        results = inner.of_graph(graph, arguments, KernelScope(names, scope.opsets, scope.depth + 1))
        self.nodes = inner.nodes
        if not all(value.dtype for value in results):
            raise NotTaken("data decides the elements of the sequence")
        found = {f"o{n}": value for n, value in enumerate(results)}
        outputs, findings = own_results(found, dict.fromkeys(found, ()), making)
        if findings:
            raise NotTaken(findings[0].message)
        name = f"{self.name}_{kind}{next(self.bodies)}"
        program = program_of(name, ports, outputs, making, self.fuse)
        return Body(_with_own_kernels(program), results, captured)


def _with_own_kernels(program: ModelProgram) -> ModelProgram:
    """Return the program with unique kernel names, so that its C does not clash with another program's."""
    suffix = program.name.rpartition("_")[2]
    steps = (
        replace(step, kernel=f"{step.kernel}_{suffix}") if isinstance(step, KernelCall) else step
        for step in program.steps
    )
    kernels = {
        f"{name}_{suffix}": text.replace(f"kernel {name}(", f"kernel {name}_{suffix}(")
        for name, text in program.kernels.items()
    }
    return replace(program, steps=tuple(steps), kernels=kernels)


def own_results(
    found: Mapping[str, Value], orders: Mapping[str, tuple[int, ...]], making: Making
) -> tuple[list[Port], list[Diagnostic]]:
    """Return each result in a tensor of its own with its axis order, and findings for results that cannot be."""
    outputs: list[Port] = []
    findings: list[Diagnostic] = []
    for name, result in found.items():
        try:
            value = making.laid(result, orders[name])
            written = {passed.tensor for step in making.steps for passed in writes_of(step)}
            is_own = value.tensor in written and all(p.passed.tensor != value.tensor for p in outputs)
            if not is_own:
                copy = making.fresh(value.dtype, value.shape).ordered(value.order)
                value, copy = value.flat, copy.flat
                making.move("copy", (value,), (copy,), size_bytes(value.dtype, value.shape))
                value = copy
        except NotTaken as reason:
            said = f"no step can write the result `{name}` of the model: {reason}"
            findings.append(Diagnostic("onnx-node", said, help="make the sizes of its inputs smaller"))
            continue
        outputs.append(Port(name, making.passed(value)))
    return outputs, findings


def program_of(
    name: str, inputs: Sequence[Port], outputs: Sequence[Port], making: Making, fuse: Fuse
) -> ModelProgram:
    """Return the program of the steps that results, and data-determined sizes, need."""
    results = {port.passed.tensor for port in outputs} | {size.tensor for size in making.counts}
    steps, kernels = fuse(_select_needed(making.steps, set(results)), results)
    read = {passed.tensor for step in steps for passed in reads_of_step(step)}
    written = {passed.tensor for step in steps for passed in writes_of_step(step)}
    constants = {name: array for name, array in making.constants.items() if name in read}
    counts = tuple(size for size in making.counts if size.tensor in written)
    found = ModelProgram(
        name, tuple(inputs), tuple(outputs), constants, kernels, tuple(steps), making.sizes, counts
    )
    assert_rules(f"the program of `{name}`", check_model, found)
    return found


def _select_needed(steps: Sequence[Open], needed: set[str]) -> list[Open]:
    kept: list[Open] = []
    for step in reversed(steps):
        if any(passed.tensor in needed for passed in writes_of(step)):
            needed |= {passed.tensor for passed in reads_of(step)}
            kept.append(step)
    return kept[::-1]


def with_attributes(function: GraphFunction, node: Node) -> list[Node]:
    """Return the nodes of a function with attribute references replaced by the calling node's attributes."""
    given = {**function.defaults, **node.attributes}
    return [_fill_references(inner, given) for inner in function.nodes]


def _fill_references(node: Node, given: Mapping[str, Attribute]) -> Node:
    attributes: dict[str, Attribute] = {}
    for name, value in node.attributes.items():
        if isinstance(value, AttributeReference):
            if value.name in given:
                attributes[name] = given[value.name]
        elif isinstance(value, Graph):
            attributes[name] = replace(value, nodes=tuple(_fill_references(n, given) for n in value.nodes))
        else:
            attributes[name] = value
    return replace(node, attributes=attributes)


def check_said(ports: Iterable[Signature], names: Names) -> None:
    """Check that values have the types and sizes that the file declares. Raises: NotTaken."""
    for port in ports:
        value = names.get(port.name)
        wrong = port.contradicts(value.dtype, value.shape) if value is not None else ""
        if wrong:
            raise NotTaken(f"`{port.name}`: {wrong}")


def _size_input(node: Node, inputs: Sequence[Value | None]) -> str:
    """Return the input that most likely determines sizes inside a node, or ""."""
    for name, value in zip(node.inputs, inputs, strict=True):
        if value is not None and value.known is None and value.dtype in ("i32", "i64") and value.rank < 2:
            return name
    return ""


_ABSENT = Value("", ())


def _value(names: Names, name: str) -> Value | None:
    """Return a value by its name, or None for an omitted one. Raises: NotTaken if nothing computes it."""
    if not name:
        return None
    if name not in names:
        raise NotTaken(f"its input `{name}` is computed by no node before it")
    return names[name]


def _where(steps: Sequence[Open]) -> str:
    if not steps:
        return "view"
    return "move" if all(isinstance(step, Move) for step in steps) else "kernel"


def known_names(constants: Mapping[str, Array]) -> Names:
    """Return the constants of a model as values by name."""
    return {name: Value.of(array) for name, array in constants.items()}


# Nodes with graphs inside. Where it is known how often these run, they are lowered in place, once per iteration.
# Otherwise each graph becomes a program of its own, a body, and the node a step that calls it as data decides.


MOST_TRIPS = 1000
UNENDING = (1 << 62) - 1
"""The iterations of a loop whose number is not given."""


def _if(to: Lowering, node: Node, inputs: Sequence[Value | None], scope: KernelScope) -> Sequence[Value]:
    condition = inputs[0] if inputs else None
    branches = [node.attributes.get(name) for name in ("then_branch", "else_branch")]
    graphs = [branch for branch in branches if isinstance(branch, Graph)]
    if condition is None or len(graphs) < 2:
        raise NotTaken("it has no such branch")
    kinds = [[(port.dtype or port.said) for port in graph.outputs] for graph in graphs]
    if len(graphs[0].outputs) != len(node.outputs) or kinds[0] != kinds[1]:
        raise NotTaken(f"its branches give {kinds[0]} and {kinds[1]} for {len(node.outputs)} results")
    if condition.known is not None:
        return to.of_graph(graphs[not condition.known.reshape(-1)[0]], (), scope)
    bodies = [
        to.body_of(graph, (), scope, kind) for graph, kind in zip(graphs, ("then", "else"), strict=True)
    ]
    results: list[Value] = []
    counted: list[tuple[Value, tuple[int, ...]]] = []
    for port, values in zip(
        graphs[0].outputs, zip(*(body.results for body in bodies), strict=True), strict=True
    ):
        one, other = values
        if (one.dtype, one.rank) != (other.dtype, other.rank):
            said = " or ".join(f"{v.dtype}[{', '.join(map(repr, v.shape))}]" for v in values)
            raise NotTaken(f"data decides whether its result `{port.name}` is {said}")
        results.append(
            Value(
                one.dtype,
                tuple(
                    _join(to, sizes, bodies, counted) for sizes in zip(one.shape, other.shape, strict=True)
                ),
            )
        )
    reads = [to.making.passed(condition)]
    given: list[tuple[BodyInput, ...]] = []
    for body in bodies:
        given.append(tuple(BodyInput("read", len(reads) + n) for n in range(len(body.captured))))
        reads += body.captured
    return _add_control(to, "if", bodies, tuple(given), reads, results, counted)


def _join(
    to: Lowering, sizes: tuple[int, int], bodies: Sequence[Body], counted: list[tuple[Value, tuple[int, ...]]]
) -> int:
    """Return the size of a result that two bodies compute: a new run-time size if they differ."""
    inner = {size.symbol for body in bodies for size in body.program.counts}
    one, other = map(index_of, sizes)
    if one == other and not inner.intersection(one.symbols):
        return sizes[0]
    size, count = to.making.counted(max(map(most_of, sizes)))
    counted.append((count, sizes))
    return size


def _add_control(
    to: Lowering,
    function: Literal["if", "loop"],
    bodies: Sequence[Body],
    given: tuple[tuple[BodyInput, ...], ...],
    reads: Sequence[TensorView],
    results: Sequence[Value],
    counted: Sequence[tuple[Value, tuple[int, ...]]] = (),
    **facts: Any,
) -> list[Value]:
    """Return the results, with these types and sizes, of a step that calls bodies."""
    inner = {size.symbol for body in bodies for size in body.program.counts}
    if any(inner.intersection(index_of(size).symbols) for value in results for size in value.shape):
        raise NotTaken("data inside of it decides the size of a result")
    made = [to.making.fresh(value.dtype, value.shape) for value in results]
    programs = tuple(body.program for body in bodies)
    name = f"{to.name}_{function}{next(to.bodies)}"
    writes = tuple(map(to.making.passed, (*made, *(count for count, _ in counted))))
    facts["counted"] = tuple((len(made) + n, sizes) for n, (_, sizes) in enumerate(counted))
    to.making.steps.append(Control(function, name, programs, given, tuple(reads), writes, **facts))
    return made


def _loop(to: Lowering, node: Node, inputs: Sequence[Value | None], scope: KernelScope) -> Sequence[Value]:
    body = node.attributes.get("body")
    if not isinstance(body, Graph):
        raise NotTaken("it has no body")
    trips, condition, *state = (*inputs, None, None)[: max(len(inputs), 2)]
    unknown = [n for n, v in enumerate((trips, condition)) if v is not None and v.known is None]
    refusal: Exception | None = NeedsConstant(node.inputs[unknown[0]]) if unknown else None
    number = trips.known.reshape(-1)[0] if trips is not None and trips.known is not None else 0
    is_short = not is_open(number) and number <= min(MOST_TRIPS, MOST_NODES // (1 + len(body.nodes)))
    if not unknown and is_short:
        mark = to.making.mark()
        try:
            return _unroll_loop(to, body, number if trips is not None else None, condition, state, scope)
        except NotTaken as reason:
            to.making.drop_after(mark)
            refusal = reason
    try:
        return _repeat_body(to, body, trips, condition, state, scope)
    except (NotTaken, RefusedNode) as reason:
        raise refusal or reason from None


def _unroll_loop(
    to: Lowering,
    body: Graph,
    trips: int | None,
    condition: Value | None,
    state: Sequence[Value | None],
    scope: KernelScope,
) -> Sequence[Value]:
    """Return the results of a loop whose body is lowered once per iteration."""
    goes_on = condition is None or condition.known is None or bool(condition.known.reshape(-1)[0])
    scanned: list[list[Value]] = [[] for _ in body.outputs[1 + len(state) :]]
    trip = 0
    while goes_on and (trips is None or trip < trips):
        if trip >= MOST_TRIPS:
            raise NotTaken(f"it runs more than {MOST_TRIPS} times")
        given = [_index(trip), Value.of(np.asarray(True)), *state]
        found = to.of_graph(body, given, scope)
        if found[0].known is None:
            raise NotTaken("data decides how often it runs")
        goes_on = bool(found[0].known.reshape(-1)[0])
        kinds = [[v.dtype for v in values if v] for values in (state, found[1 : 1 + len(state)])]
        if kinds[0] != kinds[1]:
            raise NotTaken(f"an iteration makes {kinds[1]} of {kinds[0]}")
        state = list(found[1 : 1 + len(state)])
        for rows, value in zip(scanned, found[1 + len(state) :], strict=True):
            rows.append(value.shaped((1, *value.shape)))
        trip += 1
    if any(not rows for rows in scanned):
        raise NotTaken("it never runs, so that results have no sizes")
    stacked = [_apply_operator(to, "Concat", rows, {"axis": 0}, scope) for rows in scanned]
    return [v for v in state if v is not None] + stacked


def _repeat_body(
    to: Lowering,
    graph: Graph,
    trips: Value | None,
    condition: Value | None,
    state: Sequence[Value | None],
    scope: KernelScope,
) -> Sequence[Value]:
    """Return the results of a loop whose body is a program, called once per iteration."""
    initial = [to.making.plain(value) for value in state if value is not None]
    if len(initial) < len(state) or any(v is not None and v.count != 1 for v in (trips, condition)):
        raise NotTaken("it has no such inputs")
    states = [Value(value.dtype, value.shape) for value in initial]
    true = Value.of(np.asarray(True))  # where an iteration runs, it is
    body = to.body_of(graph, [Value("i64", ()), true, *states], scope, "body")
    going, *results = body.results
    _check_states(initial, results)
    reads: list[TensorView] = []
    facts: dict[str, Any] = {"trips": UNENDING}
    for name, value in (("trips", trips), ("goes", condition)):
        if value is not None and value.known is None:
            facts[f"{name}_at"] = len(reads)
            reads.append(to.making.passed(value))
    if trips is not None and trips.known is not None:
        number = whole(trips.known.reshape(-1)[0])
        facts["trips"] = number if is_open(number) else max(0, number)
    is_sure = going.known is not None and bool(going.known) and "goes_at" not in facts
    if is_sure and trips is None:
        raise NotTaken("it never ends")
    rows = results[len(initial) :]
    if rows and ("trips_at" in facts or trips is None):
        raise NotTaken("data decides how many rows its results have, and nothing how many at most")
    if condition is not None and condition.known is not None and not condition.known:
        facts["trips"] = 0
    given = [BodyInput("trip"), *(BodyInput("state", n) for n in range(len(initial)))]
    counted: list[tuple[Value, tuple[int, ...]]] = []
    count = facts["trips"]
    if rows and not is_sure:
        count, number = to.making.counted(count)
        counted.append((number, ()))
    return _loop_step(to, body, given, reads, initial, rows, facts, count, counted)


def _check_states(initial: Sequence[Value], results: Sequence[Value]) -> None:
    """Check that iterations keep the type and the sizes of each state. Raises: NotTaken."""
    for before, behind in zip(initial, results, strict=False):
        if (before.dtype, before.shape) != (behind.dtype, behind.shape):
            one, other = (f"{v.dtype}[{', '.join(map(repr, v.shape))}]" for v in (before, behind))
            raise NotTaken(f"an iteration makes {other} of {one}")


def _loop_step(
    to: Lowering,
    body: Body,
    given: Sequence[BodyInput],
    reads: list[TensorView],
    initial: Sequence[Value],
    rows: Sequence[Value],
    facts: dict[str, Any],
    count: int,
    counted: Sequence[tuple[Value, tuple[int, ...]]] = (),
) -> list[Value]:
    """Return the final states of a loop, and its stacked rows."""
    starts = tuple(range(len(reads), len(reads) + len(initial)))
    reads += map(to.making.passed, initial)
    more = tuple(BodyInput("read", len(reads) + n) for n in range(len(body.captured)))
    results = [*initial, *(Value(row.dtype, (count, *row.shape)) for row in rows)]
    facts = {"backward": (False,) * len(rows), **facts, "starts": starts}
    everything = (*reads, *body.captured)
    return _add_control(to, "loop", [body], ((*given, *more),), everything, results, counted, **facts)


def _scan(to: Lowering, node: Node, inputs: Sequence[Value | None], scope: KernelScope) -> Sequence[Value]:
    body, attributes = node.attributes.get("body"), node.attributes
    if not isinstance(body, Graph) or scope.opsets.get("", 1) < 9:
        raise NotTaken("it has no body, or is of a version before 9")
    given = [value for value in inputs if value is not None]
    count = attributes.get("num_scan_inputs")
    if not isinstance(count, int) or not 0 < count <= len(given):
        raise NotTaken("it does not say how many inputs are scanned")
    state, scanned = given[: len(given) - count], given[len(given) - count :]
    results = len(body.outputs) - len(state)
    in_axes, out_axes = (
        _numbers(node, f"scan_{n}_axes", k) for n, k in (("input", count), ("output", results))
    )
    back, ahead = (
        _numbers(node, f"scan_{n}_directions", k) for n, k in (("input", count), ("output", results))
    )
    trips = scanned[0].shape[in_axes[0]]
    if is_open(trips) or trips > MOST_TRIPS:
        moved = [_with_axis(to, x, a, 0, scope) for x, a in zip(scanned, in_axes, strict=True)]
        if any(one.shape[0] != trips for one in moved):
            raise NotTaken("its inputs have different numbers of rows")
        firsts = [
            Value(x.dtype, shape)
            for x, shape in [(x, x.shape) for x in state] + [(x, x.shape[1:]) for x in moved]
        ]
        made = to.body_of(body, firsts, scope, "body")
        _check_states(state, made.results)
        sources = [BodyInput("state", n) for n in range(len(state))]
        sources += [BodyInput("row", n, bool(b)) for n, b in enumerate(back)]
        reads = [to.making.passed(x) for x in moved]
        facts = {"trips": trips, "has_condition": False, "backward": tuple(map(bool, ahead))}
        found = _loop_step(to, made, sources, reads, state, made.results[len(state) :], facts, trips)
        stacked = zip(found[len(state) :], out_axes, strict=True)
        return [*found[: len(state)], *(_with_axis(to, x, 0, a, scope) for x, a in stacked)]
    rows: list[list[Value]] = [[] for _ in range(results)]
    for trip in range(trips):
        at = [
            _apply_operator(to, "Gather", [x, _index(trips - 1 - trip if b else trip)], {"axis": a}, scope)
            for x, a, b in zip(scanned, in_axes, back, strict=True)
        ]
        found = to.of_graph(body, [*state, *at], scope)
        state = found[: len(state)]
        for row, value, axis, is_first in zip(rows, found[len(state) :], out_axes, ahead, strict=True):
            size = [*value.shape]
            size.insert(axis if axis >= 0 else axis + value.rank + 1, 1)
            row.insert(0 if is_first else len(row), value.shaped(size))
    stacked = [
        _apply_operator(to, "Concat", row, {"axis": a}, scope) for row, a in zip(rows, out_axes, strict=True)
    ]
    return [*state, *stacked]


def _with_axis(to: Lowering, value: Value, axis: int, place: int, scope: KernelScope) -> Value:
    """Return a value with one axis moved to another place."""
    order = list(range(value.rank))
    order.insert(place % value.rank, order.pop(axis % value.rank))
    return to.making.plain(_apply_operator(to, "Transpose", [value], {"perm": tuple(order)}, scope))


def _numbers(node: Node, name: str, count: int) -> list[int]:
    """Return an attribute that has one integer for each of `count`. The default is 0 for each."""
    found = node.attributes.get(name)
    return [int(number) for number in found] if isinstance(found, tuple) else [0] * count


def _index(number: int) -> Value:
    return Value.of(np.asarray(number, np.int64))


def _apply_operator(
    to: Lowering, op: str, values: Sequence[Value], attributes: Mapping[str, Attribute], scope: KernelScope
) -> Value:
    """Return the result of an operator. Raises: Refused."""
    names = tuple(f"v{n}" for n in range(len(values)))
    inside = KernelScope(dict(zip(names, values, strict=True)), scope.opsets, scope.depth + 1)
    to.lower(Node(op, "", "", names, ("made",), attributes), inside)
    found = inside.names["made"]
    assert found is not None
    return found


OfGraphs = Callable[[Lowering, Node, Sequence[Value | None], KernelScope], Sequence[Value]]
BODIES: Mapping[str, OfGraphs] = {"If": _if, "Loop": _loop, "Scan": _scan}
