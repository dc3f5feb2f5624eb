"""Graphs of hundreds to tens of thousands of nodes: how long CP-SAT takes, what it wins, and the gap.

    python benchmarks/large_graphs.py 100 1000 10000 80000          training of an RNN and of a transformer
    python benchmarks/large_graphs.py --graphnet GraphNet/samples/torchvision/alexnet …

Graphs are what torch performs on tensors without data: forward and backward, operation by operation.
Folders are those of GraphNet (github.com/PaddlePaddle/GraphNet, MIT), as cloned by hand; their
code may only call torch. Prices are bounds by bytes and operations: only the time to decide is measured.
"""

from __future__ import annotations

import argparse
import ast
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from isamap.formulate.hierarchy import Memories
from isamap.graph.group_prices import lines, near_of
from isamap.machine import load_machine
from isamap.plan.graph_check import check_graph_plan
from isamap.plan.graphs import GraphNode, GraphProblem, KernelGroup
from isamap.scheduler.graphs.bound import bound_ns
from isamap.scheduler.graphs.grouping import Edges, NodeGroup, cones_of, greedily
from isamap.scheduler.graphs.improving import choose_start, improved_in_pieces, make_plan

MACHINE = "x86-avx512"
OPERATIONS_PER_NS = 64.0
"""Of products and of operations on single elements: a bound of one core, for these graphs alone."""
OPERATORS = tuple(
    f"__{name}__" for name in ("and", "or", "xor", "invert", "eq", "ne", "lt", "le", "gt", "ge")
)
"""Methods of tensors that GraphNet's code calls by these names."""
POINTWISE = torch.Tag.pointwise


def tensors_of(values: Any) -> list[Any]:
    """Return the tensors in nested values."""
    tree: Any = import_module("torch.utils._pytree")
    return [leaf for leaf in tree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


@dataclass
class Recorder(TorchDispatchMode):
    """The operations that torch performs: nodes over storages, views being none."""

    nodes: list[GraphNode] = field(default_factory=list[GraphNode])
    shapes: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    work: list[float] = field(default_factory=list[float])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    kept: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        mode: Any = TorchDispatchMode
        mode.__init__(self)
        self.names: dict[int, str] = {}
        self.makers: dict[str, int] = {}

    def name(self, tensor: Any) -> str:
        """Return what a tensor's memory is called; it is kept alive, so that no other gets its place."""
        key = tensor.untyped_storage()._cdata
        if key not in self.names:
            self.names[key] = f"i{len(self.names)}"
            self.kept.append(tensor)
        return self.names[key]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        given = tensors_of((args, kwargs or {}))
        reads = tuple(dict.fromkeys(self.name(t) for t in given))
        known = {t.untyped_storage()._cdata for t in given}
        news = [t for t in tensors_of(found) if t.untyped_storage()._cdata not in known and t.numel()]
        if news:
            self.add(func, reads, given, news, args, kwargs or {}, found)
        return found

    def add(
        self, func: Any, reads: Sequence[str], given: Any, news: Any, args: Any, kwargs: Any, found: Any
    ) -> None:
        """A node for an operation whose results are new."""
        number = len(self.nodes)
        writes: list[str] = []
        for tensor in news:
            key = tensor.untyped_storage()._cdata
            name = self.names[key] = f"t{number}_{len(writes)}"
            self.kept.append(tensor)
            writes.append(name)
            self.sizes[name] = lines(tensor.numel() * tensor.element_size())
            self.makers[name] = number
        shape = tuple(news[0].shape)
        is_single = POINTWISE in func.tags and len(news) == 1
        inlined: set[str] = set()
        behind: set[str] = set()
        if is_single:
            for tensor in given:
                maker = self.makers.get(self.name(tensor), -1)
                if tuple(tensor.shape) == shape and maker >= 0 and self.shapes[maker] == shape:
                    name = self.name(tensor)
                    (inlined if self.nodes[maker].kind == "pointwise" else behind).add(name)
        kind = "pointwise" if is_single else "kernel"
        self.nodes.append(
            GraphNode(str(func), kind, tuple(reads), tuple(writes), frozenset(inlined), frozenset(behind))
        )
        self.shapes.append(shape)
        count = flop_registry.get(func.overloadpacket)
        work = count(*args, **kwargs, out_val=found) if count else sum(t.numel() for t in news)
        self.work.append(float(work))


def problem_of(recorder: Recorder) -> tuple[GraphProblem, list[NodeGroup]]:
    """Return the graph with its groups, priced by bytes and operations."""
    nodes = recorder.nodes
    read = {t for node in nodes for t in node.reads}
    results = frozenset(t for node in nodes for t in node.writes if t not in read)
    edges = Edges.of(nodes, results)
    machine = load_machine(MACHINE)
    memories = Memories.of(machine)
    weights: dict[str, int] = {}
    for tensor in recorder.kept:
        name = recorder.name(tensor)
        weights.setdefault(name, tensor.numel() * tensor.element_size())
    greedy = greedily(edges)
    expected = dict.fromkeys(cone for n in range(len(nodes)) for cone in cones_of(edges, n, 6))
    expected |= dict.fromkeys(greedy)

    def priced(cone: NodeGroup) -> KernelGroup:
        reads = edges.reads(cone)
        moved = sum(memories.moved_ns(weights[t]) for t in (*reads, *nodes[cone.root].writes))
        work = sum(recorder.work[n] for n in cone.members) / OPERATIONS_PER_NS
        passing = sum(weights[t] for t in reads if t not in edges.makers)
        return KernelGroup(
            cone.root,
            tuple(sorted(cone.inner)),
            reads,
            machine.model.call_ns + moved + work,
            passing_bytes=passing,
        )

    groups = tuple(priced(cone) for cone in expected)
    return GraphProblem(tuple(nodes), recorder.sizes, groups, results, near_of(machine)), list(expected)


def trained(model: Any, x: Any) -> Recorder:
    """Return a step of training: forward, the mean of squares, backward."""
    with Recorder() as recorder:
        found: Any = model(x)
        (found * found).mean().backward()
    return recorder


class Cell(torch.nn.Module):
    """A gated cell, unrolled."""

    def __init__(self, steps: int, size: int) -> None:
        super().__init__()
        self.steps = steps
        self.gate = torch.nn.Linear(2 * size, size)
        self.new = torch.nn.Linear(2 * size, size)

    def forward(self, x: Any) -> Any:
        """Return the state after all steps."""
        state = torch.zeros_like(x)
        for _ in range(self.steps):
            both = torch.cat((x, state), 1)
            gate = torch.sigmoid(self.gate(both))
            state = gate * state + (1 - gate) * torch.tanh(self.new(both))
        return state


def rnn(nodes: int) -> Recorder:
    """Training of a gated recurrent cell, unrolled to about so many nodes."""
    with torch.device("meta"):
        one, two = (len(trained(Cell(n, 128), torch.empty(16, 128)).nodes) for n in (2, 4))
        steps = max(1, round((nodes - one) / ((two - one) / 2)) + 2)
        return trained(Cell(steps, 128), torch.empty(16, 128))


def transformer(nodes: int) -> Recorder:
    """Training of a transformer of about so many nodes."""

    def made(layers: int) -> Recorder:
        layer = torch.nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        return trained(model, torch.empty(2, 32, 128))

    with torch.device("meta"):
        one, two = (len(made(n).nodes) for n in (1, 2))
        return made(max(1, round((nodes - one) / (two - one)) + 1))


class Elsewhere(ast.NodeTransformer):
    """Devices that code names, replaced by the one of tensors without data."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Return a device that is made, and a tensor that is moved to one."""
        self.generic_visit(node)
        called = ast.unparse(node.func)
        if called in ("device", "torch.device"):
            return ast.copy_location(ast.parse("device('meta')", mode="eval").body, node)
        for keyword in node.keywords:
            if keyword.arg == "device" and isinstance(keyword.value, ast.Constant) and keyword.value.value:
                keyword.value = ast.copy_location(ast.Constant("meta"), keyword.value)
        return node


def graphnet(folder: Path) -> Recorder:
    """Return a graph of GraphNet, forward, on tensors without data wherever it was recorded.

    Raises: ValueError for code that does more than call torch, and whatever torch raises.
    """
    text = (folder / "model.py").read_text()
    tree = Elsewhere().visit(ast.parse(text))
    for node in ast.walk(tree):
        banned = isinstance(node, (ast.Import, ast.ImportFrom)) and ast.unparse(node) not in (
            "import torch", "from torch import device", "from torch import inf",
        )  # fmt: skip
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        is_inner = name.startswith("__") and name not in ("__init__", *OPERATORS)
        if banned or is_inner or name in ("exec", "eval", "open", "getattr"):
            raise ValueError(f"{folder}: {ast.unparse(node)}")
    space: dict[str, Any] = {"torch": torch, "device": torch.device, "inf": torch.inf}
    exec(compile(tree, str(folder), "exec"), space)  # noqa: S102 - looked through above
    metas: dict[str, Any] = {}
    for file in (folder / "input_meta.py", folder / "weight_meta.py"):
        for item in ast.parse(file.read_text()).body if file.exists() else ():
            if isinstance(item, ast.ClassDef):
                one = {
                    a.targets[0].id: ast.literal_eval(a.value)
                    for a in item.body
                    if isinstance(a, ast.Assign) and isinstance(a.targets[0], ast.Name)
                }
                metas[one["name"]] = one
    module = space["GraphModule"]()
    forward = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "forward")
    with torch.device("meta"), torch.no_grad(), Recorder() as recorder:
        module(*(given(metas[a.arg]) for a in forward.args.args[1:]))
    return recorder


def given(meta: dict[str, Any]) -> Any:
    """Return an argument without data; a number where the graph wants one."""
    data, shape, kind = meta.get("data"), meta["shape"], str(meta["dtype"]).removeprefix("torch.")
    if not shape and data is not None and "int" in kind:
        return int(str(data).strip("[]"))
    return torch.empty(shape, dtype=getattr(torch, kind), device="meta")


def row(name: str, recorder: Recorder, limit_s: float) -> str:
    """Return a row of the table."""
    started = time.process_time()
    problem, cones = problem_of(recorder)
    number = {cone: n for n, cone in enumerate(cones)}
    none = make_plan(problem, [number[NodeGroup(n)] for n in range(len(problem.nodes))])
    greedy = make_plan(problem, [number[cone] for cone in greedily(Edges.of(problem.nodes, problem.results))])
    formulated, started = time.process_time() - started, time.monotonic()
    room = max(none.peak_bytes, greedy.peak_bytes)
    plan = improved_in_pieces(problem, choose_start(none, greedy, room), limit_s, room)
    solved, started = time.monotonic() - started, time.monotonic()
    bound = max(plan.bound_ns, bound_ns(problem))
    bounded = time.monotonic() - started
    assert not check_graph_plan(problem, plan, room)
    cells = (
        name, f"{len(problem.nodes)}", f"{len(problem.groups)}",
        " / ".join(f"{p.cost_ns / 1e3:.0f}" for p in (none, greedy, plan)),
        f"{none.cost_ns / plan.cost_ns:.2f}", f"{greedy.cost_ns / plan.cost_ns:.3f}",
        f"{100 * max(0.0, 1 - bound / plan.cost_ns):.2f}",
        " / ".join(f"{p.peak_bytes / 2**20:.2f}" for p in (none, greedy, plan)),
        f"{formulated:.1f} / {solved:.1f} / {bounded:.1f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a row for each graph."""
    parser = argparse.ArgumentParser(description="Large graphs parted by CP-SAT.")
    parser.add_argument("nodes", nargs="*", type=int, help="how many nodes")
    parser.add_argument("--graphnet", nargs="*", type=Path, default=[], help="folders of GraphNet")
    parser.add_argument("--limit", type=float, default=60.0)
    asked = parser.parse_args()
    print("| graph | nodes | groups | none / greedy / cpsat, µs | ÷ | greedy ÷ | gap, % | MiB | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    kinds: dict[str, Callable[[int], Recorder]] = {"rnn": rnn, "transformer": transformer}
    for count in asked.nodes:
        for name, make in kinds.items():
            print(row(name, make(count), asked.limit), flush=True)
    for folder in asked.graphnet:
        print(row(folder.name, graphnet(folder), asked.limit), flush=True)


if __name__ == "__main__":
    main()
