"""Explain where a model's nodes run, as a table: a row for each kernel or library, and each torch node.

nodes         operations   result           ran
addmm … relu  addmm, relu  float32 [3, 16]  kernel 0: addmm_relu
sort          sort                          eager: it has no kernel here
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from isamap.source import UsageProblem
from isamap.torch.dynamo_backend import compiler
from isamap.torch.segments import Options, Ran, TorchProgram


@dataclass(frozen=True, slots=True)
class Explanation:
    """The nodes of all graphs of a model, in order. It prints as a table."""

    graphs: tuple[tuple[str, tuple[Ran, ...]], ...]
    """By kind of graph the nodes."""
    every: bool = False
    """True if the table has a row for each node, views as well."""

    @property
    def nodes(self) -> tuple[Ran, ...]:
        """The nodes of all graphs."""
        return tuple(ran for _, nodes in self.graphs for ran in nodes)

    def __str__(self) -> str:
        lines: list[str] = []
        for kind, nodes in self.graphs:
            there = f"{sum(n.where.startswith('kernel') for n in nodes)} in kernels"
            eager = f"{sum(n.where == 'eager' for n in nodes)} by torch"
            lines.append(f"{kind}: {len(nodes)} nodes, {there}, {eager}")
            rows = [("nodes", "operations", "result", "ran"), *_rows(nodes, every=self.every)]
            widths = [max(len(row[column]) for row in rows) for column in range(3)]
            lines += ["  ".join((*map(str.ljust, row[:3], widths), row[3])).rstrip() for row in rows]
        return "\n".join(lines)


MOST_NAMED = 6
"""The most operations of a library that a row names."""


def _rows(nodes: Sequence[Ran], *, every: bool) -> Iterator[tuple[str, str, str, str]]:
    """Yield table rows. Nodes of one kernel share a row unless `every` is set."""
    groups: dict[str, list[Ran]] = {}
    for n in nodes:
        if every or n.where != "nowhere":
            groups.setdefault(_where(n) if n.where.startswith("kernel") and not every else n.node, []).append(
                n
            )
    for group in groups.values():
        names = list(dict.fromkeys(n.operation.removesuffix(".default") for n in group))
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        called = group[0].node if len(group) == 1 else f"{group[0].node} … {group[-1].node}"
        yield called, ", ".join(names[:MOST_NAMED]) + more, group[-1].shape, _where(group[-1])


def _where(ran: Ran) -> str:
    return f"{ran.where}{', ' if ran.where.startswith('kernel') else ': '}{ran.why}" if ran.why else ran.where


def _torch() -> Any:
    """Return the package torch. Raises: UsageProblem if it is not installed."""
    try:
        return import_module("torch")
    except ModuleNotFoundError:
        said = "`isamap.torch` compiles models of torch, which is not installed"
        raise UsageProblem.of("usage", said, help="pip install 'isamap[torch]'") from None


def explain(
    model: Any,
    inputs: Any,
    *,
    training: bool = False,
    every: bool = False,
    options: dict[str, Any] | None = None,
) -> Explanation:
    """Return where each node of a model runs for these inputs, and why a node runs in no kernel.

    Printed, it is a table with a row for each kernel, or with `every` for each node. The model is compiled
    and called once. With `training`, the gradients of the sum of its first result are computed, too, and
    added to those of its parameters. Raises: UsageProblem for unknown options, and if torch is not installed.
    """
    torch = _torch()
    found: list[tuple[str, TorchProgram]] = []

    def seen(kind: str, program: TorchProgram) -> None:
        found.append((kind, program))

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=compiler(Options.of(options), seen))
    given: Any = inputs if type(inputs) in (tuple, list) else (inputs,)
    with torch.set_grad_enabled(training):
        result: Any = compiled(*given)
        if training:
            first = result[0] if type(result) in (tuple, list) else result
            first.sum().backward()
    return Explanation(tuple((_title_of(kind, program), program.told()) for kind, program in found), every)


def _title_of(kind: str, program: TorchProgram) -> str:
    """Return the title of a kind of graph, with remarks about its program."""
    remark = program.remark()
    return f"{kind}, {remark}" if remark else kind
