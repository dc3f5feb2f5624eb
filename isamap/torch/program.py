"""A graph of torch.fx as steps: kernels, and nodes that torch performs.

Steps run in an order in which each finds what it needs; a value is let go after the last one that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from isamap.source import IsamapError
from isamap.torch.graph import is_result, is_view, lying, name_of
from isamap.torch.groups import Group, find_groups
from isamap.torch.kernel_text import Passed, Text, kernel_text
from isamap.torch.kernels import Options, kernel_of
from isamap.torch.terms import NotTaken

Values = dict[Any, Any]
Step = Callable[[Values], None]


@dataclass(frozen=True, slots=True)
class Ran:
    """Where a node of a graph runs: in a kernel, by torch ("eager"), or "nowhere", as a view does."""

    node: str
    operation: str
    shape: str
    where: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A graph ready to run, and where each of its nodes does."""

    run: Callable[[Sequence[Any]], Any]
    ran: tuple[Ran, ...]

    def call(self, *inputs: Any) -> Any:
        """The results for such inputs."""
        return self.run(inputs)


def make_program(graph: Any, options: Options) -> Program:
    """The program of a graph whose nodes know the shapes of their results."""
    groups, refused = find_groups(graph)
    texts: dict[int, tuple[Group, Text, Any]] = {}
    for n, group in enumerate(groups):
        try:
            text = kernel_text(group)
            texts[n] = group, text, kernel_of(text.text, options)
        except NotTaken as reason:
            refused |= dict.fromkeys(group.members, str(reason))
        except IsamapError as error:
            refused |= dict.fromkeys(group.members, error.diagnostics[0].message)
    of = {member: n for n, (group, _, _) in texts.items() for member in group.members}
    steps = tuple(_steps(graph, of, texts))
    return Program(_runner(graph, steps), tuple(_ran(graph, of, texts, refused)))


def _ran(graph: Any, of: dict[Any, int], texts: Any, refused: dict[Any, str]) -> Iterator[Ran]:
    for node in graph.nodes:
        if node.op != "call_function" or is_result(node):
            continue
        value = node.meta.get("val")
        shape = f"{value.dtype} {list(value.shape)}".removeprefix("torch.") if hasattr(value, "shape") else ""
        operation = name_of(node) or str(node.target)
        if node in of:
            _, text, _ = texts[of[node]]
            name = text.text.partition("(")[0].removeprefix("kernel ")
            yield Ran(node.name, operation, shape, f"kernel {of[node]}: {name}")
        elif is_view(node):
            yield Ran(node.name, operation, shape, "nowhere", "a view computes nothing")
        else:
            yield Ran(node.name, operation, shape, "eager", refused.get(node, "it has no kernel here"))


def _steps(
    graph: Any, of: dict[Any, int], texts: Any
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...], Step]]:
    """What each step needs and gives, in an order in which all of it is there."""
    done: set[int] = set()

    def visit(node: Any) -> Iterator[Any]:
        """The steps that make a node, those it needs first, by a stack of their own."""
        stack = [node]
        while stack:
            found = stack[-1]
            unit = of.get(found)
            key = id(found) if unit is None else -1 - unit
            if key in done or found.op in ("placeholder", "output"):
                stack.pop()
                continue
            needed = found.all_input_nodes if unit is None else [p.node for p in texts[unit][1].reads]
            missing = [n for n in needed if not _is_there(n, of, done)]
            if missing:
                stack += reversed(missing)
                continue
            done.add(key)
            stack.pop()
            yield _eager(found) if unit is None else _kernel(texts[unit][1], texts[unit][2])

    output = next(n for n in graph.nodes if n.op == "output")
    for node in graph.nodes:
        if node.op not in ("placeholder", "output") and (node in of or not is_view(node)) and node.users:
            yield from visit(node)
    for node in output.all_input_nodes:
        yield from visit(node)


def _is_there(node: Any, of: dict[Any, int], done: set[int]) -> bool:
    unit = of.get(node)
    return node.op == "placeholder" or (id(node) if unit is None else -1 - unit) in done


def _eager(node: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], Step]:
    torch: Any = import_module("torch")

    def step(values: Values) -> None:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        if node.op == "get_attr":
            raise AssertionError("attributes are inputs of functional graphs")
        values[node] = node.target(*args, **kwargs)

    return tuple(node.all_input_nodes), (node,), step


def _kernel(text: Text, kernel: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], Step]:
    reads = [(p.name, p.node, _reading(p)) for p in text.reads]
    writes = [(p.name, p.node, _making(p)) for p in text.writes]

    def step(values: Values) -> None:
        passed = {name: read(values[node]) for name, node, read in reads}
        for name, node, make in writes:
            values[node], passed[name] = make()
        kernel(**passed)

    return tuple(p.node for p in text.reads), tuple(p.node for p in text.writes), step


def _reading(passed: Passed) -> Callable[[Any], Any]:
    """How a tensor is passed to a kernel: where it lies, as it is walked there."""
    torch: Any = import_module("torch")
    found = lying(passed.node)
    sizes, strides = passed.sizes, passed.strides

    def read(tensor: Any) -> Any:
        if tensor.stride() != found.strides:  # torch foretold another layout
            tensor = torch.empty_strided(found.sizes, found.strides, dtype=tensor.dtype).copy_(tensor)
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_neg()
        return (
            tensor if (sizes, strides) == (found.sizes, found.strides) else tensor.as_strided(sizes, strides)
        )

    return read


def _making(passed: Passed) -> Callable[[], tuple[Any, Any]]:
    """A new tensor, and how it is passed to a kernel."""
    torch: Any = import_module("torch")
    found, dtype = lying(passed.node), passed.node.meta["val"].dtype
    sizes, strides = passed.sizes, passed.strides

    def make() -> tuple[Any, Any]:
        tensor = torch.empty_strided(found.sizes, found.strides, dtype=dtype)
        is_plain = (sizes, strides) == (found.sizes, found.strides)
        return tensor, tensor if is_plain else tensor.as_strided(sizes, strides)

    return make


def _runner(graph: Any, steps: Sequence[tuple[Any, Any, Step]]) -> Callable[[Sequence[Any]], Any]:
    torch: Any = import_module("torch")
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    (returned,) = (n.args[0] for n in graph.nodes if n.op == "output")
    last: dict[Any, int] = {}
    for n, (needed, made, _) in enumerate(steps):
        last |= dict.fromkeys((*needed, *made), n)
    for node in next(n for n in graph.nodes if n.op == "output").all_input_nodes:
        last.pop(node, None)
    gone = [[node for node, at in last.items() if at == n] for n in range(len(steps))]

    def run(given: Sequence[Any]) -> Any:
        values: Values = dict(zip(inputs, given, strict=True))
        with torch.no_grad():
            for (_, _, step), unneeded in zip(steps, gone, strict=True):
                step(values)
                for node in unneeded:
                    del values[node]
        return torch.fx.node.map_arg(returned, values.__getitem__)

    return run
