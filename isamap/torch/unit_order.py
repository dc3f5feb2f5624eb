"""Order the units of a torch.fx graph, kernels and nodes of torch, by their dependences."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any

from isamap.graph.terms import NotTaken
from isamap.machine.processor import this_cpu
from isamap.source import IsamapError, OnlyWarned
from isamap.source.cache import digest
from isamap.torch.anchors import SEARCHED
from isamap.torch.fx_groups import Group, find_groups
from isamap.torch.fx_nodes import is_result, is_view, name_of
from isamap.torch.kernel_text import Text, kernel_text
from isamap.torch.kernels import KernelRequest, Options, compile_ahead, kernel_of, key_of
from isamap.torch.packing import packed_of, weights_of
from isamap.torch.program_runner import (
    Addresses,
    Performed,
    Values,
    eager_step,
    kernel_step,
    looking,
    make_run,
)
from isamap.tune.alternation import time_alternately
from isamap.tune.implementation_choices import OURS, Choice, Choices


@dataclass(frozen=True, slots=True)
class Ran:
    """The place where a node of a graph runs: in a kernel, by torch ("eager"), or "nowhere" (a view)."""

    node: str
    operation: str
    shape: str
    where: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A graph ready to run, and where each of its nodes does, as far as that is known.

    `why_apart` says why its kernels are not one library, where one was asked for.
    """

    run: Callable[[Sequence[Any]], Any]
    told: Callable[[], tuple[Ran, ...]]
    why_apart: Callable[[], str] = lambda: ""

    def call(self, *inputs: Any) -> Any:
        """Return the results for such inputs."""
        return self.run(inputs)


def make_program(graph: Any, options: Options, weights: frozenset[Any] | None = None) -> Program:
    """Return the program of a graph whose nodes know the shapes of their results.

    `weights` are the inputs that are packed, by default those that torch names while it compiles.
    """
    groups, refused = find_groups(graph)
    if weights is None:
        weights = weights_of(graph) if options.pack else frozenset()
    taken: list[tuple[Group, Text, KernelRequest]] = []
    needed: list[KernelRequest] = []
    for group in groups:
        with _noted(group, refused):
            text = kernel_text(group)
            own = options.of_kernel(
                is_searched=group.anchor is not None and name_of(group.anchor) in SEARCHED
            )
            kernel_request = text.text, own, packed_of(group, text, weights)
            if (
                not options.portfolio
                or (kept := recalled(group.members, kernel_request)) is None
                or kept.is_ours
            ):
                needed.append(kernel_request)
            taken.append((group, text, kernel_request))
    compile_ahead(needed)
    kernels: list[Performed] = []
    compared: dict[Any, str] = {}
    for group, text, kernel_request in taken:
        with _noted(group, refused):
            make = partial(_performed, group, text, kernel_request)
            choice = faster(group.members, kernel_request, make) if options.portfolio else None
            if choice is None or choice.is_ours:
                kernels.append(make())
            if choice is not None:
                compared |= dict.fromkeys(group.members, choice.said)
    of = {member: kernel for kernel in kernels for member in kernel.members}
    ran = tuple(_ran(graph, kernels, of, {**refused, **compared}))
    return Program(make_run(graph, tuple(_in_order(graph, of))), lambda: ran)


def _performed(group: Group, text: Text, kernel_request: KernelRequest) -> Performed:
    return Performed.of(text, kernel_of(*kernel_request), group.members, packed=kernel_request[2])


@contextmanager
def _noted(group: Group, refused: dict[Any, str]) -> Generator[None]:
    """Record a refusal inside for all nodes of a group."""
    try:
        yield
    except NotTaken as reason:
        refused |= dict.fromkeys(group.members, str(reason))
    except IsamapError as error:
        refused |= dict.fromkeys(group.members, error.diagnostics[0].message)


def _ran(
    graph: Any, kernels: list[Performed], of: dict[Any, Performed], reasons: dict[Any, str]
) -> Iterator[Ran]:
    for node in graph.nodes:
        if node.op != "call_function" or is_result(node):
            continue
        if node in of:
            where = f"kernel {kernels.index(of[node])}: {of[node].text.name}"
            yield ran_of(node, where, reasons.get(node, ""))
        elif is_view(node):
            yield ran_of(node, "nowhere", "a view computes nothing")
        else:
            yield ran_of(node, "eager", reasons.get(node, "it has no kernel here"))


def ran_of(node: Any, where: str, why: str = "") -> Ran:
    """Return where a node runs."""
    value = node.meta.get("val")
    shape = f"{value.dtype} {list(value.shape)}".removeprefix("torch.") if hasattr(value, "shape") else ""
    return Ran(node.name, name_of(node) or str(node.target), shape, where, why)


def _in_order(graph: Any, of: dict[Any, Performed]) -> Iterator[Any]:
    """Kernels, and nodes that torch performs: what each needs comes first, and nothing that none needs."""
    done: set[int] = set()
    (output,) = (n for n in graph.nodes if n.op == "output")
    waiting = list(reversed([n for n in graph.nodes if _is_begun(n, of)] + output.all_input_nodes))
    while waiting:
        node = waiting[-1]
        unit = of.get(node, node)
        if node.op == "placeholder" or id(unit) in done:
            waiting.pop()
            continue
        needed = unit.needed if isinstance(unit, Performed) else node.all_input_nodes
        missing = [n for n in needed if n.op != "placeholder" and id(of.get(n, n)) not in done]
        if missing:
            waiting += reversed(missing)
            continue
        waiting.pop()
        done.add(id(unit))
        yield unit


def _is_begun(node: Any, of: dict[Any, Performed]) -> bool:
    """Return whether a node is performed though none may read it: views and single results wait for a reader."""
    return node.op == "call_function" and not is_view(node) and (bool(node.users) or node not in of)


# Which of two performs a group of nodes, our kernel or torch by its own calls: what was measured faster.
#
# Both take turns on the same random tensors of the group's shapes. Torch performs a group only where it won
# so many rounds that this is no chance; what was found is kept for equal groups, also in other processes.


TORCH = "torch"

KNOWN: dict[str, Choice] = {}
"""The choices that this process has found or read. They remain if nothing can be stored."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The nodes of a group with the views between them, in order, and those of which they need tensors."""

    nodes: tuple[Any, ...]
    given: tuple[Any, ...]

    @staticmethod
    def of(members: Sequence[Any]) -> Alone:
        """Return those of a group's members."""
        inside, nodes, given = set(members), set[Any](), set[Any]()
        waiting = list(members)
        while waiting:
            node = waiting.pop()
            if node in nodes:
                continue
            if node in inside or is_view(node):
                nodes.add(node)
                waiting += node.all_input_nodes
            else:
                given.add(node)
        order = list(members[0].graph.nodes)
        return Alone(tuple(n for n in order if n in nodes), tuple(n for n in order if n in given))

    @property
    def text(self) -> str:
        """The computation and its inputs, without the names of a graph."""
        map_arg: Any = import_module("torch").fx.node.map_arg
        names = {node: f"v{n}" for n, node in enumerate((*self.given, *self.nodes))}
        lines = [f"{names[node]}: {_described(node.meta.get('val'))}" for node in self.given]
        for node in self.nodes:
            args, kwargs = map_arg((node.args, dict(node.kwargs)), names.__getitem__)
            lines.append(f"{names[node]} = {node.target}{args}{kwargs}")
        return "\n".join(lines)


def _described(value: Any) -> str:
    torch: Any = import_module("torch")
    if not isinstance(value, torch.Tensor):
        return str(value)
    return f"{value.dtype} {tuple(value.shape)} {value.stride()}"


def recalled(members: Sequence[Any], kernel_request: KernelRequest) -> Choice | None:
    """Return the choice that was kept of an equal group. Raises: IsamapError of every kind."""
    return _kept(_key(Alone.of(members), kernel_request))


def faster(members: Sequence[Any], kernel_request: KernelRequest, make: Callable[[], Performed]) -> Choice:
    """Return the choice that was kept of an equal group, or else what measuring finds, which is kept.

    Raises: IsamapError of every kind.
    """
    alone = Alone.of(members)
    key = _key(alone, kernel_request)
    if (kept := _kept(key)) is not None:
        return kept
    unit = make()  # its packed operands are not those of the program
    one_thread = kernel_request[1].threads == import_module("torch").get_num_threads() == 1
    with _as_in_calls():
        ours, theirs = _sides(alone, unit)
        clock = time.thread_time_ns if one_thread else time.perf_counter_ns
        rounds = time_alternately({OURS: ours, TORCH: theirs}, clock)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    choice = KNOWN[key] = Choice.of(rounds, key=key, kernel=unit.text.name, library=TORCH, time=now)
    with OnlyWarned():
        Choices.open().keep(choice)
    return choice


@contextmanager
def _as_in_calls() -> Generator[None]:
    """While torch compiles, its tensors hold nothing, and each operation takes some 5 µs more, in Python."""
    names = "torch", "torch.utils._python_dispatch", "torch._dispatch.python"
    torch, modes, dispatcher = (import_module(name) for name in names)
    with modes._disable_current_modes(), dispatcher.no_python_dispatcher(), torch.no_grad():
        yield


def _key(alone: Alone, kernel_request: KernelRequest) -> str:
    """Return the sha256 of all that may change which one is faster."""
    torch: Any = import_module("torch")
    threads = json.dumps([kernel_request[1].threads, torch.get_num_threads()])
    return digest(key_of(kernel_request), alone.text, threads, str(torch.__version__), this_cpu().key)


def _kept(key: str) -> Choice | None:
    with OnlyWarned():
        if key not in KNOWN and (found := Choices.open().find(key)) is not None:
            KNOWN[key] = found
    return KNOWN.get(key)


def _sides(alone: Alone, unit: Performed) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return a call of ours and one of torch's, on the same tensors, each with results in new memory."""
    torch: Any = import_module("torch")
    generator = torch.Generator().manual_seed(0)
    values: Values = {node: _filled(node, generator) for node in alone.given}
    addresses: Addresses = {}
    for node in unit.needed:
        looking(node)(values, addresses)
    kernel = kernel_step(unit, {})
    steps = [eager_step(node, is_read=False) for node in alone.nodes]

    def theirs() -> None:
        for step in steps:
            step(values, addresses)

    return lambda: kernel(values, addresses), theirs


def _filled(node: Any, generator: Any) -> Any:
    """Return a value like that of a node: random numbers as the node's tensor lies."""
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
