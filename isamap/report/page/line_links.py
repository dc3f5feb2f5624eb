"""Link lines of a kernel to lines of its schedule, and lines of the schedule to lines of the code.

for m in M, n in N, k in K {        own s0.m.0 s0.n.0 s0.k.0        kernel
  for k by 1 {                      own s0.k.0  inside s0 s0.m.0    schedule
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from isamap.emit.c_interface import clean_comment
from isamap.ir import Assign, Kernel, Loop, Stmt
from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule
from isamap.report.page.report_facts import Mark, SubjectLine
from isamap.source.records import dataclass, replace

Names = tuple[str, ...]
_LOOP = re.compile(r"^(?:for|unroll|par) (?P<axis>.+) by [0-9]+")
_DECIDED = re.compile(
    r"^(?P<word>stage|prefetch|spread write|fuse|carry|hold|pipeline)\b ?(?P<of>[0-9A-Za-z_ ]*)"
)


@dataclass(frozen=True, slots=True)
class LinkedNest:
    """A nest of the schedule, with its option and the texts of its statements, for links between lines."""

    schedule: NestSchedule
    option: NestOption
    texts: Names

    @property
    def note(self) -> str:
        """The name of the nest in lowering."""
        return "; ".join(self.texts)

    @property
    def statements(self) -> Names:
        """The names of the statement and of those fused with it."""
        return tuple(f"s{n}" for n in sorted((self.schedule.statement, *self.schedule.fused)))

    @property
    def key(self) -> str:
        return f"s{self.schedule.statement}"


# --- the kernel -------------------------------------------------------------------------------------------


def kernel_lines(text: str, kernel: Kernel, nests: Sequence[LinkedNest]) -> tuple[SubjectLine, ...]:
    """Return the lines of a kernel's text, with loops and statements marked in them.

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
        if operand.span is not None and (names := distinct(tuple(_copies_of(operand.name, nests))))
    }
    found: list[SubjectLine] = []
    start = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        bare = line.rstrip("\r\n")
        pieces = tuple(_marks_in(start, start + len(bare), marks))
        names = distinct((*copies.get(number, ()), *(name for mark in pieces for name in mark.own)))
        around_it = distinct((*names, *(name for mark in pieces for name in mark.inside)))
        found.append(SubjectLine(bare, names, around_it, pieces))
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
    """Yield the marks, or parts of them, on a line between two offsets."""
    for (first, last), (own, inside) in sorted(marks.items()):
        if first < end and start < last:
            yield Mark(max(first, start) - start, min(last, end) - start, distinct(own), distinct(inside))


def _over(axis: str, loop: Loop, nest: LinkedNest) -> Names:
    """Return the names of the schedule's loops over a kernel axis, or that of an ordered loop."""
    return (f"seq.{axis}",) if loop.ordered else tuple(_loops_over(axis, nest))


def _loops_over(axis: str, nest: LinkedNest) -> Iterator[str]:
    """Yield the names of the schedule's loops over a kernel axis, alone or fused with others."""
    counts: dict[str, int] = {}
    for loop in nest.schedule.loops:
        number = counts.get(loop.axis, 0)
        counts[loop.axis] = number + 1
        if axis in re.split(r"[^0-9A-Za-z_]+", loop.axis):
            yield f"{nest.key}.{loop.axis}.{number}"


def _copies_of(tensor: str, nests: Sequence[LinkedNest]) -> Iterator[str]:
    for nest in nests:
        tensors = {o.name: o.tensor for o in nest.option.operands}
        for stage in nest.schedule.stages:
            if tensors.get(stage.operand) == tensor:
                yield f"{nest.key}.stage.{stage.operand}"


# --- the schedule -----------------------------------------------------------------------------------------


def schedule_lines(text: str, nests: Sequence[LinkedNest]) -> tuple[SubjectLine, ...]:
    """Return the lines of a schedule's text."""
    known = {f"nest {nest.schedule.statement} {{": nest for nest in nests}
    found: list[SubjectLine] = []
    scopes: list[Names] = []
    nest: LinkedNest | None = None
    counts: dict[str, int] = {}
    for line in text.splitlines():
        words = line.strip()
        if words in known:
            nest, counts = known[words], {}
            own: Names = nest.statements
        elif nest is None or not words:
            found.append(SubjectLine(line))
            continue
        else:
            own = _link_names(words, nest, counts)
        around = tuple(name for scope in scopes for name in scope)
        if words == "}":
            own = scopes.pop()
        elif words.endswith("{"):
            scopes.append(own)
        found.append(SubjectLine(line, own, distinct((*around, *own))))
        nest = nest if scopes else None
    return tuple(found)


def _link_names(words: str, nest: LinkedNest, counts: dict[str, int]) -> Names:
    """Return the names in a line inside a nest. `counts` has the number of loops over each axis so far."""
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


def distinct(names: Sequence[str]) -> Names:
    """Return the names in order without repetitions."""
    return tuple(dict.fromkeys(names))


# --- links between lines and code -----------------------------------------------------------------------

_NOTE = re.compile(r"\{ /\* (?P<note>.*) \*/$")
_COUNTER = re.compile(r"^for \(int64_t (?P<name>[0-9A-Za-z_]+) = 0;")
_INLINED = "__attribute__((always_inline)) inline "
_FUNCTION = re.compile(
    r"^(?!static inline |[ #/}])(?:[^(]|__attribute__\(\([a-z_]+\)\))*?(?P<name>[0-9A-Za-z_]+)\((?:.*\{)?$"
)
_CALL = re.compile(r"^ *(?P<name>[0-9A-Za-z_]+)\((?P<given>.*)\);")
_COPY = re.compile(r"^(?P<word>stage|write|prefetch|hold|pack)[0-9A-Za-z_]* (?P<of>[0-9A-Za-z_]+)")


def code_lines(text: str, nests: Sequence[LinkedNest]) -> tuple[SubjectLine, ...]:
    """Return the lines of emitted C. A function, such as a copy or a thread's part, belongs to its caller."""
    lines = text.splitlines()
    found = [SubjectLine(line) for line in lines]
    called: dict[str, Names] = {}
    for start, end, name in reversed(list(_functions(lines))):
        reader = _Code(nests, called.get(name, ()))
        for number in range(start, end):
            found[number] = reader.line(lines[number])
            if found[number].inside:
                for word in re.findall(
                    r"\b([0-9A-Za-z_]+)\(|\b([0-9A-Za-z_]+_task[0-9A-Za-z_]*),", lines[number]
                ):
                    called.setdefault(word[0] or word[1], found[number].inside)
    return tuple(found)


def _functions(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and name of each function's body, without the functions of instructions."""
    name = ""
    start: int | None = None
    for number, line in enumerate(lines):
        if (head := _FUNCTION.match(line.replace(_INLINED, ""))) is not None:
            name = head["name"]
        if name and start is None and line.endswith("{"):
            start = number + 1
        if line == "}" and start is not None:
            yield start, number, name
            name, start = "", None


@dataclass(frozen=True, slots=True)
class _Scope:
    """A scope in the code of a nest, or outside of nests. `is_copy` marks a copy's loops, `depths` counts by axis."""

    own: Names
    nest: LinkedNest | None
    is_copy: bool
    depths: Mapping[str, int]


class _Code:
    """A line-by-line reader of a function."""

    def __init__(self, nests: Sequence[LinkedNest], inside: Names) -> None:
        self.by_note: dict[str, list[LinkedNest]] = {}
        for nest in nests:
            self.by_note.setdefault(clean_comment(nest.note), []).append(nest)
        keys = {nest.key: nest for nest in nests}
        nest = next((keys[name] for name in inside if name in keys), None)
        self.inside = inside
        self.scopes = [_Scope(inside[-1:], nest, any(".stage." in name for name in inside), {})]

    def line(self, line: str) -> SubjectLine:
        """Return the next line."""
        words = line.strip()
        own = self.scopes[-1].own
        if words.startswith("}"):
            own = self.scopes.pop().own if len(self.scopes) > 1 else own
        inside = self._path(own)
        if words.endswith("{") or _NOTE.search(words):
            scope = self._open_scope(words)
            self.scopes.append(scope)
            own, inside = scope.own, self._path(())
        return SubjectLine(line, own, inside)

    def _path(self, last: Names) -> Names:
        return distinct((*self.inside, *(name for scope in self.scopes for name in scope.own), *last))

    def _open_scope(self, words: str) -> _Scope:
        last = self.scopes[-1]
        note = found["note"] if (found := _NOTE.search(words)) is not None else ""
        if note in self.by_note:
            named = self.by_note[note]
            nest = named.pop(0) if len(named) > 1 else named[0]
            return _Scope(nest.statements, nest, False, {})
        counter = _COUNTER.match(words)
        if last.nest is None:
            stem = counter["name"].rstrip("_").rstrip("0123456789") if counter is not None else ""
            return _Scope((f"seq.{stem}",) if stem else last.own, None, False, {})
        copy = _COPY.match(note)
        if copy is not None and copy["of"] in {o.name for o in last.nest.option.operands}:
            word = {"write": "stage", "pack": "stage"}.get(copy["word"], copy["word"])
            name = f"{last.nest.key}.hold" if word == "hold" else f"{last.nest.key}.{word}.{copy['of']}"
            return _Scope((name,), last.nest, word != "hold", last.depths)
        if counter is None or last.is_copy:
            return replace(last)
        return _loop(counter["name"], last, last.nest)


def _loop(name: str, last: _Scope, nest: LinkedNest) -> _Scope:
    """Return the scope of one of the schedule's loops."""
    axis = _axis(name, nest)
    loops = list(_name_loops(axis, nest))
    depth = last.depths.get(axis, 0)
    own = (loops[min(depth, len(loops) - 1)],) if loops else last.own
    return _Scope(own, nest, False, {**last.depths, axis: depth + 1})


def _axis(counter: str, nest: LinkedNest) -> str:
    """Return the axis after which a counter is named, or ""."""
    stems = {re.sub(r"[^0-9A-Za-z_]", "", loop.axis): loop.axis for loop in nest.schedule.loops}
    fitting = [stem for stem in stems if re.fullmatch(f"{stem}[0-9]*_*", counter)]
    return stems[max(fitting, key=len)] if fitting else ""


def _name_loops(axis: str, nest: LinkedNest) -> Iterator[str]:
    """Yield the names of the loops over an axis that run more than once."""
    extents = {axis.name: axis.extent for axis in nest.option.axes}
    counts: dict[str, int] = {}
    for loop in nest.schedule.loops:
        number = counts.get(loop.axis, 0)
        counts[loop.axis] = number + 1
        left = extents.get(loop.axis, 1)
        extents[loop.axis] = min(left, loop.step)
        if loop.axis == axis and not loop.is_unrolled and left > loop.step:
            yield f"{nest.key}.{loop.axis}.{number}"


# --- words ------------------------------------------------------------------------------------------------


def listing_lines(text: str, code: Sequence[SubjectLine], arrays: frozenset[str]) -> tuple[SubjectLine, ...]:
    """Return the lines of a listing. An instruction belongs to the code that issues it on the same arrays."""
    known: dict[tuple[str, frozenset[str]], SubjectLine] = {}
    for line in code:
        call = _CALL.match(line.text)
        if line.inside and call is not None:
            named = frozenset(re.findall("[0-9A-Za-z_]+", call["given"]))
            known.setdefault((call["name"], named & arrays), line)
    found: list[SubjectLine] = []
    for line in text.splitlines():
        words = line.split()
        named = frozenset(word.partition("=")[2].partition("+")[0] for word in words) & arrays
        match = known.get((words[1] if len(words) > 1 else "", named))
        found.append(SubjectLine(line, match.own, match.inside) if match is not None else SubjectLine(line))
    return tuple(found)
