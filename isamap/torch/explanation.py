"""Explain where each node of a model runs, as a table.

node     operation         result           ran
addmm    addmm.default     float32 [3, 16]  kernel 0: addmm_relu
relu     relu.default      float32 [3, 16]  kernel 0: addmm_relu
sort     sort.default                       eager: it has no kernel here
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from isamap.source import Diagnostic, UsageProblem
from isamap.torch.dynamo_backend import compiler
from isamap.torch.segments import Options, Program, Ran


@dataclass(frozen=True, slots=True)
class Explanation:
    """The nodes of all graphs of a model, in order; printed, it is a table."""

    graphs: tuple[tuple[str, tuple[Ran, ...]], ...]
    """By kind of graph the nodes."""

    @property
    def nodes(self) -> tuple[Ran, ...]:
        """Those of all graphs."""
        return tuple(ran for _, nodes in self.graphs for ran in nodes)

    def __str__(self) -> str:
        lines: list[str] = []
        for kind, nodes in self.graphs:
            there = f"{sum(n.where.startswith('kernel') for n in nodes)} in kernels"
            eager = f"{sum(n.where == 'eager' for n in nodes)} by torch"
            lines.append(f"{kind}: {len(nodes)} nodes, {there}, {eager}")
            rows = [("node", "operation", "result", "ran")]
            rows += [(n.node, n.operation, n.shape, _where(n)) for n in nodes]
            widths = [max(len(row[column]) for row in rows) for column in range(3)]
            lines += ["  ".join((*map(str.ljust, row[:3], widths), row[3])).rstrip() for row in rows]
        return "\n".join(lines)


def _where(ran: Ran) -> str:
    return f"{ran.where}{', ' if ran.where.startswith('kernel') else ': '}{ran.why}" if ran.why else ran.where


def _torch() -> Any:
    """Return the package. Raises: UsageProblem where it is not installed."""
    try:
        return import_module("torch")
    except ModuleNotFoundError:
        said = "`isamap.torch` compiles models of torch, which is not installed"
        raise UsageProblem(Diagnostic("usage", said, help="pip install 'isamap[torch]'")) from None


def explain(
    model: Any, inputs: Any, *, training: bool = False, options: dict[str, Any] | None = None
) -> Explanation:
    """Return where each node of a model runs for such inputs, one tensor or several, and why not in a kernel.

    The model is compiled and called once; with `training`, its gradients are computed, too, of the sum of its
    first result, and added to what its parameters hold. Raises: UsageProblem for options that are not there,
    and where torch is not installed.
    """
    torch = _torch()
    found: list[tuple[str, Program]] = []

    def seen(kind: str, program: Program) -> None:
        found.append((kind, program))

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=compiler(Options.of(options), seen))
    given: Any = inputs if type(inputs) in (tuple, list) else (inputs,)
    with torch.set_grad_enabled(training):
        result: Any = compiled(*given)
        if training:
            first = result[0] if type(result) in (tuple, list) else result
            first.sum().backward()
    return Explanation(tuple((_titled(kind, program), program.told()) for kind, program in found))


def _titled(kind: str, program: Program) -> str:
    """Return a kind of graph, and what is unusual of its program."""
    remark = program.remark()
    return f"{kind}, {remark}" if remark else kind
