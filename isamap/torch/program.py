"""A graph of torch.fx as units in an order in which each finds what it needs: kernels, and nodes of torch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from isamap.models.terms import NotTaken
from isamap.source import IsamapError
from isamap.torch.anchors import SEARCHED
from isamap.torch.graph import is_result, is_view, name_of
from isamap.torch.groups import Group, find_groups
from isamap.torch.kernel_text import Text, kernel_text
from isamap.torch.kernels import Options, Wanted, compile_ahead, kernel_of
from isamap.torch.packing import packed_of, weights_of
from isamap.torch.portfolio import faster, recalled
from isamap.torch.running import Performed, make_run


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
    """A graph ready to run, and where each of its nodes does, as far as that is known.

    `why_apart` says why its kernels are not one library, where one was asked for.
    """

    run: Callable[[Sequence[Any]], Any]
    told: Callable[[], tuple[Ran, ...]]
    why_apart: Callable[[], str] = lambda: ""

    def call(self, *inputs: Any) -> Any:
        """The results for such inputs."""
        return self.run(inputs)


def make_program(graph: Any, options: Options, weights: frozenset[Any] | None = None) -> Program:
    """The program of a graph whose nodes know the shapes of their results.

    `weights` are the inputs that are packed, by default those that torch names while it compiles.
    """
    groups, refused = find_groups(graph)
    if weights is None:
        weights = weights_of(graph) if options.pack else frozenset()
    taken: list[tuple[Group, Text, Wanted]] = []
    needed: list[Wanted] = []
    for group in groups:
        with _noted(group, refused):
            text = kernel_text(group)
            own = options.of_kernel(
                is_searched=group.anchor is not None and name_of(group.anchor) in SEARCHED
            )
            wanted = text.text, own, packed_of(group, text, weights)
            if not options.portfolio or (kept := recalled(group.members, wanted)) is None or kept.is_ours:
                needed.append(wanted)
            taken.append((group, text, wanted))
    compile_ahead(needed)
    kernels: list[Performed] = []
    compared: dict[Any, str] = {}
    for group, text, wanted in taken:
        with _noted(group, refused):
            make = partial(_performed, group, text, wanted)
            choice = faster(group.members, wanted, make) if options.portfolio else None
            if choice is None or choice.is_ours:
                kernels.append(make())
            if choice is not None:
                compared |= dict.fromkeys(group.members, choice.said)
    of = {member: kernel for kernel in kernels for member in kernel.members}
    ran = tuple(_ran(graph, kernels, of, {**refused, **compared}))
    return Program(make_run(graph, tuple(_in_order(graph, of))), lambda: ran)


def _performed(group: Group, text: Text, wanted: Wanted) -> Performed:
    return Performed.of(text, kernel_of(*wanted), group.members, packed=wanted[2])


@contextmanager
def _noted(group: Group, refused: dict[Any, str]) -> Generator[None]:
    """What is refused inside is noted of all nodes of a group."""
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
    """Where a node runs."""
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
    """Whether a node is performed though none may read it: views and single results wait for a reader."""
    return node.op == "call_function" and not is_view(node) and (bool(node.users) or node not in of)
