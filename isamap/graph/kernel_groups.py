"""Groups of steps that form one kernel: a root, and the steps that are fused into it.

    conv, add, relu     for … { s[…] += …; }  for … { y[…] = max(s[…] + b[…], 0); }

Elementwise operations are inlined into the expressions that read them: into each other, and into the
statements of kernels. If an operation is fused after a kernel, the kernel's result becomes a temporary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from isamap.graph.elementwise_fusion import (
    Open,
    free_name,
    join_kernels,
    put_places,
    reads_of,
    real_sizes,
    writes_of,
)
from isamap.graph.model_program import Direct, TensorView
from isamap.graph.pending import (
    PLACE,
    Pointwise,
    WrittenKernel,
    declaration,
    element_of,
    laid_out,
    place_elements,
    write_kernel,
)
from isamap.graph.thresholds import EXPRESSION_CHARACTERS, KERNEL_STATEMENTS
from isamap.plan.graphs import GraphNode


def nodes_of(steps: Sequence[Open]) -> tuple[GraphNode, ...]:
    """Return the steps as nodes, with the steps that can be inlined into each, or that it can follow."""
    made = {p.tensor: (n, p) for n, step in enumerate(steps) for p in writes_of(step)}
    return tuple(_node(step, steps, made) for step in steps)


def _node(step: Open, steps: Sequence[Open], made: Mapping[str, tuple[int, TensorView]]) -> GraphNode:
    inlined: set[str] = set()
    behind: set[str] = set()
    reads = tuple(dict.fromkeys(p.tensor for p in reads_of(step)))
    for tensor in reads:
        if tensor not in made:
            continue
        number, output = made[tensor]
        maker, own = steps[number], [p for p in reads_of(step) if p.tensor == tensor]
        is_whole = len(own) == 1 and own[0] == output
        if isinstance(step, Pointwise):
            if isinstance(maker, Pointwise) and is_whole and own[0].shape == step.output.shape:
                inlined.add(tensor)
            if isinstance(maker, WrittenKernel) and len(maker.writes) == 1 and len(own) == 1:
                sizes = [p.shape for p in (*own, step.output, *maker.writes.values())]
                if len({tuple(real_sizes(shape)) for shape in sizes}) == 1:
                    behind.add(tensor)
        elif isinstance(step, WrittenKernel) and isinstance(maker, Pointwise) and is_whole:
            name = next(n for n, p in step.reads.items() if p.tensor == tensor)
            if _accesses(step, name, len(own[0].shape)) is not None:
                inlined.add(tensor)
    kind = "move" if isinstance(step, Direct) else "pointwise" if isinstance(step, Pointwise) else "kernel"
    name = step.function if isinstance(step, Direct) else step.name
    written_ = tuple(dict.fromkeys(p.tensor for p in writes_of(step)))
    return GraphNode(name, kind, reads, written_, frozenset(inlined), frozenset(behind))


def _accesses(kernel: WrittenKernel, name: str, rank: int) -> re.Pattern[str] | None:
    """Return a pattern that matches an operand's accesses, or None if no expression can replace them.

    That is the case if it is read in several places, each of which would compute the expression again.
    """
    pattern = re.compile(rf"\b{name}\[([^\[\]]*)\]")
    if name in kernel.borders or sum(len(pattern.findall(text)) for text in kernel.statements) != 1:
        return None
    for text in kernel.statements:
        found = list(pattern.finditer(text))
        if len(found) != len(re.findall(rf"\b{name}\b", text)):
            return None
        if any(len(access[1].split(", ")) != max(1, rank) or " else " in access[1] for access in found):
            return None
    return pattern


class TooLong(Exception):
    """An exception: a kernel's expression is too long for the search for chains of instructions."""


@dataclass(slots=True)
class Writer:
    """The steps of a program, and the kernels of groups of them."""

    steps: Sequence[Open]
    makers: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.makers = {p.tensor: n for n, step in enumerate(self.steps) for p in writes_of(step)}

    def group(self, root: int, inner: frozenset[int]) -> Open | None:
        """Return the group as one step, or None if its kernel would be too long."""
        try:
            return self._group(root, inner)
        except TooLong:
            return None

    def _group(self, root: int, inner: frozenset[int]) -> Open:
        step = self.steps[root]
        if isinstance(step, Direct):
            return step
        if isinstance(step, WrittenKernel):
            return self._with_producers(step, inner)
        whole = self._expand_inputs(step, inner, {})
        kernel = next((n for n in inner if isinstance(self.steps[n], WrittenKernel)), None)
        if kernel is None:
            return whole
        below = self.steps[kernel]
        assert isinstance(below, WrittenKernel)
        if len(below.statements) >= KERNEL_STATEMENTS:
            raise TooLong
        (output,) = below.writes.values()
        return join_kernels(self._with_producers(below, inner), whole, output.tensor)

    def _expand_inputs(
        self, step: Pointwise, inner: frozenset[int], known: dict[str, Pointwise]
    ) -> Pointwise:
        """Return an operation with the expressions of other operations in place of its inputs."""
        if step.output.tensor in known:
            return known[step.output.tensor]
        inputs: list[TensorView] = []
        elements: list[str] = []
        names = [step.name]
        for passed in step.inputs:
            number = self.makers.get(passed.tensor, -1)
            maker = self.steps[number] if number in inner else None
            if isinstance(maker, Pointwise):
                own = self._expand_inputs(maker, inner, known)
                elements.append(f"({place_elements(own.expression, put_places(inputs, own.inputs))})")
                names.insert(0, own.name)
            else:
                elements += put_places(inputs, (passed,))
        size = len(step.expression) + sum(
            len(elements[int(place)]) for place in PLACE.findall(step.expression)
        )
        if size > EXPRESSION_CHARACTERS:
            raise TooLong
        found = replace(
            step,
            name="_".join(names),
            inputs=tuple(inputs),
            expression=place_elements(step.expression, elements),
        )
        known[step.output.tensor] = found
        return found

    def _with_producers(self, kernel: WrittenKernel, inner: frozenset[int]) -> WrittenKernel:
        """Return a kernel with the expressions of operations in place of reads of their results."""
        for name, passed in list(kernel.reads.items()):
            number = self.makers.get(passed.tensor, -1)
            maker = self.steps[number] if number in inner else None
            if isinstance(maker, Pointwise):
                kernel = _inline_step(kernel, name, self._expand_inputs(maker, inner, {}))
        return kernel


def _inline_step(kernel: WrittenKernel, name: str, step: Pointwise) -> WrittenKernel:
    """Return the kernel with an operation's expression for each element of an operand."""
    pattern = _accesses(kernel, name, len(step.output.shape))
    assert pattern is not None, "only these are inlined"
    reads = {n: p for n, p in kernel.reads.items() if n != name}
    declared = [line for line in kernel.declared if not re.match(rf"[a-z]+ {name}:", line)]
    names: list[str] = []
    for passed in step.inputs:
        _, taken = laid_out(passed)
        known = next((n for n, p in reads.items() if p == taken and n not in kernel.borders), None)
        if known is None:
            known = free_name({**reads, **kernel.reads})
            reads[known] = taken
            declared.append(declaration("in", known, taken))
        names.append(known)

    def element(access: re.Match[str]) -> str:
        index = access[1].split(", ") if step.output.shape else []
        elements = [
            element_of(n, p, index[len(index) - len(p.shape) :])[0]
            for n, p in zip(names, step.inputs, strict=True)
        ]
        return f"({place_elements(step.expression, elements)})"

    statements = tuple(pattern.sub(element, text) for text in kernel.statements)
    if max(map(len, statements)) > EXPRESSION_CHARACTERS:
        raise TooLong
    return replace(
        kernel,
        name=f"{step.name}_{kernel.name}",
        declared=tuple(declared),
        statements=statements,
        reads=reads,
    )


def as_kernel(step: WrittenKernel | Pointwise) -> WrittenKernel:
    """Return a group's step as a kernel."""
    return step if isinstance(step, WrittenKernel) else write_kernel(step)
