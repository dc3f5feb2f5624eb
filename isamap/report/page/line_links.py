"""Link lines of a kernel to lines of its schedule; `code_links` does the same for the code.

for m in M, n in N, k in K {        own s0.m.0 s0.n.0 s0.k.0        kernel
  for k by 1 {                      own s0.k.0  inside s0 s0.m.0    schedule
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from isamap.ir import Kernel
from isamap.ir.nodes import Assign, Loop, Stmt
from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule
from isamap.report.page.report_facts import Line, Mark
from isamap.source.records import dataclass

Names = tuple[str, ...]
_LOOP = re.compile(r"^(?:for|unroll|par) (?P<axis>.+) by [0-9]+")
_DECIDED = re.compile(
    r"^(?P<word>stage|prefetch|spread write|fuse|carry|hold|pipeline)\b ?(?P<of>[0-9A-Za-z_ ]*)"
)


@dataclass(frozen=True, slots=True)
class Nest:
    """A nest of the schedule as links know it: the option that it takes, and its statements' texts."""

    schedule: NestSchedule
    option: NestOption
    texts: Names

    @property
    def note(self) -> str:
        """The name of the nest in lowering."""
        return "; ".join(self.texts)

    @property
    def statements(self) -> Names:
        """Names of the statement and those fused with it."""
        return tuple(f"s{n}" for n in sorted((self.schedule.statement, *self.schedule.fused)))

    @property
    def key(self) -> str:
        return f"s{self.schedule.statement}"


# --- the kernel -------------------------------------------------------------------------------------------


def kernel_lines(text: str, kernel: Kernel, nests: Sequence[Nest]) -> tuple[Line, ...]:
    """Return the lines of a kernel's text; loops and statements are marks in them.

    `kernel` is the scheduled kernel: statements that are not in the text have no place there.
    """
    marks: dict[tuple[int, int], tuple[list[str], list[str]]] = {}
    around = {name: nest for nest in nests for name in nest.statements}
    for number, (statement, loops) in enumerate(_statements(kernel.body, ())):
        nest = around.get(f"s{number}")
        if nest is None:
            continue
        named = [(statement.span, (f"s{number}",))]
        named += [(a.span, _over(a.name, loop, nest)) for loop in loops for a in loop.axes]
        for span, names in named:
            if span is not None and names:
                own, inside = marks.setdefault((span.start, span.end), ([], []))
                own += names
                inside += (*names, *nest.statements)
    copies = {
        operand.span.line: names
        for operand in kernel.operands
        if operand.span is not None and (names := once(tuple(_copies_of(operand.name, nests))))
    }
    found: list[Line] = []
    start = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        bare = line.rstrip("\r\n")
        pieces = tuple(_marks_in(start, start + len(bare), marks))
        names = once((*copies.get(number, ()), *(name for mark in pieces for name in mark.own)))
        around_it = once((*names, *(name for mark in pieces for name in mark.inside)))
        found.append(Line(bare, names, around_it, pieces))
        start += len(line)
    return tuple(found)


def _statements(
    body: tuple[Stmt, ...], around: tuple[Loop, ...]
) -> Iterator[tuple[Assign, tuple[Loop, ...]]]:
    for one in body:
        if isinstance(one, Loop):
            yield from _statements(one.body, (*around, one))
        else:
            yield one, around


def _marks_in(
    start: int, end: int, marks: Mapping[tuple[int, int], tuple[Sequence[str], Sequence[str]]]
) -> Iterator[Mark]:
    """Yield the marks, or parts of them, that lie on a line, given by its place in the text."""
    for (first, last), (own, inside) in sorted(marks.items()):
        if first < end and start < last:
            yield Mark(max(first, start) - start, min(last, end) - start, once(own), once(inside))


def _over(axis: str, loop: Loop, nest: Nest) -> Names:
    """Return the loops of the schedule over a kernel's axis, or the ordered loop, which the schedule omits."""
    return (f"seq.{axis}",) if loop.ordered else tuple(_loops_over(axis, nest))


def _loops_over(axis: str, nest: Nest) -> Iterator[str]:
    """Yield the names of the schedule's loops over an axis of the kernel, or over several with it among them."""
    counts: dict[str, int] = {}
    for loop in nest.schedule.loops:
        number = counts.get(loop.axis, 0)
        counts[loop.axis] = number + 1
        if axis in re.split(r"[^0-9A-Za-z_]+", loop.axis):
            yield f"{nest.key}.{loop.axis}.{number}"


def _copies_of(tensor: str, nests: Sequence[Nest]) -> Iterator[str]:
    for nest in nests:
        tensors = {o.name: o.tensor for o in nest.option.operands}
        for stage in nest.schedule.stages:
            if tensors.get(stage.operand) == tensor:
                yield f"{nest.key}.stage.{stage.operand}"


# --- the schedule -----------------------------------------------------------------------------------------


def schedule_lines(text: str, nests: Sequence[Nest]) -> tuple[Line, ...]:
    """Return the lines of a schedule's text."""
    known = {f"nest {nest.schedule.statement} {{": nest for nest in nests}
    found: list[Line] = []
    scopes: list[Names] = []
    nest: Nest | None = None
    counts: dict[str, int] = {}
    for line in text.splitlines():
        words = line.strip()
        if words in known:
            nest, counts = known[words], {}
            own: Names = nest.statements
        elif nest is None or not words:
            found.append(Line(line))
            continue
        else:
            own = _link_names(words, nest, counts)
        around = tuple(name for scope in scopes for name in scope)
        if words == "}":
            own = scopes.pop()
        elif words.endswith("{"):
            scopes.append(own)
        found.append(Line(line, own, once((*around, *own))))
        nest = nest if scopes else None
    return tuple(found)


def _link_names(words: str, nest: Nest, counts: dict[str, int]) -> Names:
    """Return the names in a line inside a nest; `counts` are the loops over each axis so far."""
    if (loop := _LOOP.match(words)) is not None:
        axis = loop["axis"]
        number = counts.get(axis, 0)
        counts[axis] = number + 1
        return (f"{nest.key}.{axis}.{number}",)
    if (decided := _DECIDED.match(words)) is None:
        return (nest.key,)
    of = decided["of"].split()[:1]
    match decided["word"]:
        case "fuse":
            return tuple(f"s{n}" for n in nest.schedule.fused)
        case "stage" | "spread write":
            return (f"{nest.key}.stage.{of[0]}",)
        case word:
            return (".".join((nest.key, word, *of)),)


def once(names: Sequence[str]) -> Names:
    """Return the names in their order, each but once."""
    return tuple(dict.fromkeys(names))
