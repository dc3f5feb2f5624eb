"""The backend of `torch.compile`: functional ATen graphs for inference and training."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

from isamap.graph.model_library import check_tools
from isamap.graph.terms import NotTaken
from isamap.source.progress import LOG
from isamap.torch.fx_nodes import open_graph
from isamap.torch.packing import PackedGraph
from isamap.torch.segments import Options, TorchProgram, make_program

Seen = Callable[[str, TorchProgram], None]
"""A callback that receives each program, and its kind of graph: "forward", "backward" or "inference"."""


def backend(module: Any, inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **_: Any) -> Any:
    """Compile a model's graph, as the backend of `torch.compile(model, backend="isamap")`.

    Raises: UsageProblem for an option that is not there, and as `check_tools`.
    """
    return compiler(Options.of(options))(module, inputs)


def compiler(options: Options, seen: Seen = lambda _kind, _program: None) -> Callable[..., Any]:
    """Return a backend that reports its programs. Raises: SpecProblem, UsageProblem, MissingTool."""
    check_tools(options.how())
    common: Any = import_module("torch._dynamo.backends.common")

    def compile_whole(module: Any, inputs: Sequence[Any]) -> Any:
        made: list[PackedGraph] = []
        compile_module = common.aot_autograd(
            fw_compiler=_of_kind("forward", options, seen, made),
            bw_compiler=_of_kind("backward", options, seen, made),
            inference_compiler=_of_kind("inference", options, seen, made),
            decompositions=_decompositions(),
        )
        compiled = compile_module(with_whole_layers(module, inputs), inputs)
        return call_directly(compiled, made[0]) if len(made) == 1 else compiled

    return compile_whole


def _of_kind(
    kind: str, options: Options, seen: Seen, made: list[PackedGraph]
) -> Callable[[Any, Sequence[Any]], Any]:
    functorch: Any = import_module("torch._functorch.aot_autograd")

    def compile_graph(module: Any, inputs: Sequence[Any]) -> Any:
        if any(_is_open(node) for node in module.graph.nodes if node.op == "placeholder"):
            return functorch.make_boxed_func(_by_size(module, kind, options, seen))
        if options.pack and kind == "inference":
            made.append(PackedGraph(module.graph, options))
            program = made[-1].program
        else:
            program = make_program(module.graph, options)
        seen(kind, program)
        return functorch.make_boxed_func(program.call)

    return compile_graph


def _is_open(node: Any) -> bool:
    """Return whether an input is an open size, or a tensor with one."""
    torch: Any = import_module("torch")
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return True
    return isinstance(value, torch.Tensor) and not all(isinstance(size, int) for size in value.shape)


def _by_size(module: Any, kind: str, options: Options, seen: Seen) -> Callable[..., Any]:
    """Return a function that compiles for ranges of sizes, or else for each set of sizes that occurs in calls."""
    torch: Any = import_module("torch")
    made: dict[Any, TorchProgram] = {}
    ranges: list[tuple[Sequence[range], TorchProgram]] = []
    refusals: list[str] = [] if kind == "inference" else [""]  # gradients are compiled for each set

    def ranged(given: Sequence[Any]) -> TorchProgram | None:
        """Return the program whose ranges contain the sizes of a call. It is compiled if there is none."""
        numbers = [value for value in given if not isinstance(value, torch.Tensor)]
        for sizes, program in ranges:
            if all(number in size for size, number in zip(sizes, numbers, strict=True)):
                return program
        if refusals:
            return None
        try:
            ranges.append(_open_ranges(module, given, options))
        except Exception as problem:  # noqa: BLE001 - sizes that are known may compile whatever is raised
            kept = "" if isinstance(problem, NotTaken) else f"{type(problem).__name__}: "
            refusals.append(f"compiled for each set of sizes: {kept}{problem}")
            LOG.info("%s", refusals[0])
            return None
        seen(kind, ranges[-1][1])
        return ranges[-1][1]

    def call(*given: Any) -> Any:
        if (program := ranged(given)) is not None:
            return program.run(given)
        key = tuple((tuple(v.shape), v.stride()) if isinstance(v, torch.Tensor) else int(v) for v in given)
        if key not in made:
            copy = torch.fx.GraphModule(module, deepcopy(module.graph))
            made[key] = replace(_compile_sizes(copy, given, options), remark=lambda: refusals[0])
            seen(kind, made[key])
        return made[key].run(given)

    return call


def _open_ranges(module: Any, given: Sequence[Any], options: Options) -> tuple[Sequence[range], TorchProgram]:
    """Return the range of each size, and the graph's program for these ranges. Raises: NotTaken."""
    torch: Any = import_module("torch")
    graph = deepcopy(module.graph)
    copy = torch.fx.GraphModule(module, graph)
    numbers = [value for value in given if not isinstance(value, torch.Tensor)]
    environments = {
        value.node.shape_env
        for value in (node.meta.get("val") for node in graph.nodes if node.op == "placeholder")
        if isinstance(value, torch.SymInt)
    }
    before = [len(found.guards) for found in environments]
    opened = open_graph(copy.graph, given)
    program = make_program(copy.graph, options, opened=opened)
    if before != [len(found.guards) for found in environments]:
        raise NotTaken("the code depends on the number of a size")
    if len(opened.sizes) != len(numbers):
        raise NotTaken("data decides a size, or an argument is not a size")
    said = ", ".join(f"{size.low} to {size.high}" for size in opened.sizes)
    ranges = [range(size.low, size.high + 1) for size in opened.sizes]
    return ranges, replace(program, remark=lambda: f"one library for sizes from {said}")


def _compile_sizes(module: Any, given: Sequence[Any], options: Options) -> TorchProgram:
    """Return the graph's program for the sizes of these inputs."""
    torch: Any = import_module("torch")
    propagation: Any = import_module("torch.fx.passes.fake_tensor_prop")
    symbols: Any = import_module("torch.fx.experimental.symbolic_shapes")
    mode = import_module("torch._subclasses.fake_tensor").FakeTensorMode(shape_env=symbols.ShapeEnv())
    fake = [mode.from_tensor(v, static_shapes=True) if isinstance(v, torch.Tensor) else v for v in given]
    for node in module.graph.nodes:  # sizes that data decides become symbols of the mode
        node.meta.pop("unbacked_bindings", None)
    with torch.no_grad():
        propagation.FakeTensorProp(module, mode).propagate_dont_convert_inputs(*fake)
    places = [node for node in module.graph.nodes if node.op == "placeholder"]
    numbers = {n: v for n, v in zip(places, given, strict=True) if isinstance(v, int)}

    def number(node: Any) -> Any:
        return numbers.get(node, node)

    for node in module.graph.nodes:
        if node.op == "call_function":
            is_number = node.all_input_nodes and all(n in numbers for n in node.all_input_nodes)
            is_tensor = isinstance(node.meta.get("val"), torch.Tensor | tuple | list)
            args, kwargs = (torch.fx.node.map_arg(part, number) for part in (node.args, node.kwargs))
            if is_number and not is_tensor:
                numbers[node] = node.target(*args, **kwargs)
            else:
                node.args, node.kwargs = args, kwargs
    return make_program(module.graph, options)


def _decompositions() -> dict[Any, Any]:
    """Return torch's decompositions of operations that no kernel performs as a whole."""
    aten: Any = import_module("torch").ops.aten
    names = """addcmul addcdiv lerp mse_loss mse_loss_backward native_layer_norm_backward _softmax_backward_data
        _log_softmax_backward_data silu_backward hardswish_backward hardtanh_backward native_batch_norm
        _native_batch_norm_legit _native_batch_norm_legit_no_training"""  # these three are not functional
    operations = [getattr(aten, name) for name in names.split()]
    return import_module("torch._decomp").get_decompositions(operations)


# What AOT makes of a program, passed by where it was seen to hand on what it gets.
#
# Around a program AOT checks and wraps inputs and results for what a graph may do: alias, mutate, need
# gradients. Of a graph that does none of it, it gives the program the very tensors that it gets, and the
# caller the very results. Dynamo's guards see to it that this stays so.


Run = Callable[..., Any]


def call_directly(compiled: Run, prepared: PackedGraph) -> Run:
    """Return AOT's function. From the second call on, it calls the program inside directly."""
    known: list[bool] = []

    def call(*given: Any) -> Any:
        if known:
            return prepared.run(given) if known[0] else compiled(*given)
        seen: list[tuple[Sequence[Any], Sequence[Any]]] = []
        with prepared.watched(seen):
            results = compiled(*given)
        known[:] = [len(seen) == 1 and _identical(seen[0][0], given) and _identical(seen[0][1], results)]
        return results

    return call


def _identical(found: Sequence[Any], expected: Any) -> bool:
    """Return whether two sequences have the same tensor objects in the same order."""
    is_row = type(expected) in (tuple, list) and len(found) == len(expected)
    return is_row and all(a is b for a, b in zip(found, expected, strict=True))


# Recurrent layers as operations of torch, `isamap::gru` and so on: torch takes its own apart, step by step.
#
# torch.gru(x, h, [w, u, b, d], True, 1, 0.0, False, False, False)
#     ->  y, last = isamap.gru(x, h[0], None, w as [3, H, C], u as [3, H, H], b, d, False)
#
# One operation is a layer in one direction. Where no kernel performs it, torch does, by its own layer.


GATES: Mapping[str, int] = {"gru": 3, "lstm": 4, "rnn_tanh": 1, "rnn_relu": 1}
"""The number of gates of a layer, by torch's name of it."""


def with_whole_layers(module: Any, inputs: Sequence[Any]) -> Any:
    """Return a module of Dynamo in which recurrent layers stay whole, unless their gradients are needed."""
    torch: Any = import_module("torch")
    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in inputs):
        return module
    kinds = {getattr(torch, kind): kind for kind in GATES}
    found = [n for n in module.graph.nodes if n.op == "call_function" and n.target in kinds]
    layers = [(node, layer) for node in found if (layer := _Layers.of(node, kinds[node.target])) is not None]
    for node, layer in layers:  # in place: a copy would not know which of its inputs are weights
        _replace_call(module.graph, node, layer)
    module.recompile()
    return module


@dataclass(frozen=True, slots=True)
class _Layers:
    """The arguments of a call of torch's recurrent layers, without tensors."""

    kind: str
    has_biases: bool
    count: int
    ways: int
    is_transposed: bool

    @staticmethod
    def of(node: Any, kind: str) -> _Layers | None:
        """Return the layers of a node, or None for packed sequences, dropout between layers, and projections."""
        if len(node.args) != 9 or not isinstance(node.args[2], list | tuple):
            return None
        has_biases, count, dropout, training, both, is_transposed = node.args[3:]
        if training and dropout:
            return None
        if len(node.args[2]) != count * (1 + both) * (4 if has_biases else 2):
            return None
        return _Layers(kind, has_biases, count, 1 + both, is_transposed)


def _replace_call(graph: Any, node: Any, layers: _Layers) -> None:
    """Replace a call of torch's layers by single layers."""
    torch: Any = import_module("torch")
    x, states, weights = node.args[:3]
    states = list(states) if layers.kind == "lstm" else [states]
    each = len(weights) // (layers.count * layers.ways)
    with graph.inserting_before(node):

        def call(target: Any, *args: Any) -> Any:
            return graph.call_function(target, args)

        y = call(torch.transpose, x, 0, 1) if layers.is_transposed else x
        last: list[list[Any]] = [[] for _ in states]
        for number in range(layers.count):
            ways: list[Any] = []
            for way in range(layers.ways):
                place = number * layers.ways + way
                first = [call(torch.select, state, 0, place) for state in states]
                given = [
                    call(torch.unflatten, w, 0, (GATES[layers.kind], -1))
                    for w in weights[place * each :][:each]
                ]
                given += [None] * (4 - each)
                first += [None] * (2 - len(first))
                made = call(operation(layers.kind), y, *first, *given, way == 1)
                ways.append(call(operator.getitem, made, 0))
                for n, results in enumerate(last):
                    results.append(call(operator.getitem, made, n + 1))
            y = call(torch.cat, ways, 2) if layers.ways == 2 else ways[0]
        y = call(torch.transpose, y, 0, 1) if layers.is_transposed else y
        results = (y, *(call(torch.stack, parts) for parts in last))
    for user in list(node.users):
        assert user.target is operator.getitem, "torch gives a tuple"
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


@cache
def operation(kind: str) -> Any:
    """Return the torch operation for a layer. It is defined at its first use."""
    library: Any = import_module("torch.library")
    results = ", ".join(["Tensor"] * (3 if kind == "lstm" else 2))
    library.define(
        f"isamap::{kind}",
        "(Tensor x, Tensor h, Tensor? c, Tensor w, Tensor u, Tensor? b, Tensor? d, bool backwards)"
        f" -> ({results})",
    )
    library.impl(f"isamap::{kind}", "default", _by_torch(kind))
    library.register_fake(f"isamap::{kind}", _shapes(kind))
    return getattr(import_module("torch").ops.isamap, kind).default


def _by_torch(kind: str) -> Callable[..., Any]:
    """Return a layer as torch computes it."""
    torch: Any = import_module("torch")

    def performed(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any, d: Any, backwards: bool) -> Any:
        weights = [t.flatten(0, 1).contiguous() for t in (w, u, b, d) if t is not None]
        states = [t.unsqueeze(0).contiguous() for t in (h, c) if t is not None]
        y, *last = getattr(torch, kind)(
            x.flip(0) if backwards else x, states if kind == "lstm" else states[0],
            weights, b is not None, 1, 0.0, False, False, False,
        )  # fmt: skip
        return (y.flip(0) if backwards else y, *(t[0].clone() for t in last))

    return performed


def _shapes(kind: str) -> Callable[..., Any]:
    def shape(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any, d: Any, backwards: bool) -> Any:
        y = x.new_empty(x.shape[0], x.shape[1], u.shape[2])
        return (y, *(h.new_empty(h.shape) for _ in range(2 if kind == "lstm" else 1)))

    return shape
