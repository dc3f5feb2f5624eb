"""Which lines of a kernel, its schedule and its code belong together.

    for m in M, n in N, k in K {        own s0.m.0 s0.n.0 s0.k.0        kernel
      for k by 1 {                      own s0.k.0  inside s0 s0.m.0    schedule
        for (int64_t k0 = 0; …          own s0.k.0  inside s0 s0.m.0    code

Of the code it is its layout that is read: a scope begins with `{`, and says in a comment what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from isamap.codegen.c_interface import clean
from isamap.ir import Kernel
from isamap.ir.nodes import Assign, Loop, Stmt
from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule
from isamap.report.page.facts import Line
from isamap.source import Span

Names = tuple[str, ...]
_LOOP = re.compile(r"^(?:for|unroll|par) (?P<axis>.+) by [0-9]+")
_DECIDED = re.compile(
    r"^(?P<word>stage|prefetch|spread write|fuse|carry|hold|pipeline)\b ?(?P<of>[0-9A-Za-z_ ]*)"
)
_NOTE = re.compile(r"\{ /\* (?P<note>.*) \*/$")
_COUNTER = re.compile(r"^for \(int64_t (?P<name>[0-9A-Za-z_]+) = 0;")
_INLINED = "__attribute__((always_inline)) inline "
_FUNCTION = re.compile(
    r"^(?!static inline |[ #/}])(?:[^(]|__attribute__\(\([a-z_]+\)\))*?(?P<name>[0-9A-Za-z_]+)\((?:.*\{)?$"
)
_CALL = re.compile(r"^ *(?P<name>[0-9A-Za-z_]+)\((?P<given>.*)\);")
_COPY = re.compile(r"^(?P<word>stage|write|prefetch|hold|pack)[0-9A-Za-z_]* (?P<of>[0-9A-Za-z_]+)")


@dataclass(frozen=True, slots=True)
class Nest:
    """A nest of the schedule as links know it: the option that it takes, and its statements' texts."""

    schedule: NestSchedule
    option: NestOption
    texts: Names

    @property
    def note(self) -> str:
        """What lowering calls it."""
        return "; ".join(self.texts)

    @property
    def statements(self) -> Names:
        """Names of the statement and those that it takes along."""
        return tuple(f"s{n}" for n in sorted((self.schedule.statement, *self.schedule.fused)))

    @property
    def key(self) -> str:
        return f"s{self.schedule.statement}"


# --- the kernel -------------------------------------------------------------------------------------------


def kernel_lines(text: str, kernel: Kernel, nests: Sequence[Nest]) -> tuple[Line, ...]:
    """The lines of a kernel's text, which `kernel` was read from."""
    own: dict[int, list[str]] = {}
    inside: dict[int, list[str]] = {}
    around = {name: nest for nest in nests for name in nest.statements}
    for number, (statement, loops) in enumerate(_statements(kernel.body, ())):
        nest = around.get(f"s{number}")
        if nest is None or statement.span is None:
            continue
        for line in _lines_of(statement.span):
            own.setdefault(line, []).append(f"s{number}")
            inside.setdefault(line, []).extend(nest.statements)
        for axis, span in ((a.name, a.span) for loop in loops for a in loop.axes):
            if span is not None:
                own.setdefault(span.line, []).extend(_loops_over(axis, nest))
    for operand in kernel.operands:
        if operand.span is not None:
            own.setdefault(operand.span.line, []).extend(_copies_of(operand.name, nests))
    return tuple(
        Line(line, _once(own.get(n, ())), _once((*own.get(n, ()), *inside.get(n, ()))))
        for n, line in enumerate(text.splitlines(), 1)
    )


def _statements(
    body: tuple[Stmt, ...], around: tuple[Loop, ...]
) -> Iterator[tuple[Assign, tuple[Loop, ...]]]:
    for one in body:
        if isinstance(one, Loop):
            yield from _statements(one.body, (*around, one))
        else:
            yield one, around


def _lines_of(span: Span) -> range:
    return range(span.line, span.source.position(max(span.start, span.end - 1))[0] + 1)


def _loops_over(axis: str, nest: Nest) -> Iterator[str]:
    """Names of the schedule's loops over an axis of the kernel, or over several with it among them."""
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
    """The lines of a schedule's text."""
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
            own = _scheduled(words, nest, counts)
        around = tuple(name for scope in scopes for name in scope)
        if words == "}":
            own = scopes.pop()
        elif words.endswith("{"):
            scopes.append(own)
        found.append(Line(line, own, _once((*around, *own))))
        nest = nest if scopes else None
    return tuple(found)


def _scheduled(words: str, nest: Nest, counts: dict[str, int]) -> Names:
    """What a line inside a nest is about; `counts` are the loops over each axis so far."""
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


# --- the code ---------------------------------------------------------------------------------------------


def code_lines(text: str, nests: Sequence[Nest]) -> tuple[Line, ...]:
    """The lines of emitted C. A function is a part of what calls it, as copies and parts for threads are."""
    lines = text.splitlines()
    found = [Line(line) for line in lines]
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
    """Where the body of each function begins and ends, and its name; what instructions do is left out."""
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
    """A scope of the code; `is_copy` where its loops are a copy's, `depths` of loops by axis so far."""

    own: Names
    is_copy: bool
    depths: Mapping[str, int]


class _Code:
    """Reads a function line by line."""

    def __init__(self, nests: Sequence[Nest], inside: Names) -> None:
        self.by_note: dict[str, list[Nest]] = {}
        for nest in nests:
            self.by_note.setdefault(clean(nest.note), []).append(nest)
        keys = {nest.key: nest for nest in nests}
        self.nest = next((keys[name] for name in inside if name in keys), None)
        self.inside = inside
        self.scopes = [_Scope(inside[-1:], any(".stage." in name for name in inside), {})]

    def line(self, line: str) -> Line:
        """The next line."""
        words = line.strip()
        own = self.scopes[-1].own
        if words.startswith("}"):
            own = self.scopes.pop().own if len(self.scopes) > 1 else own
        inside = self._path(own)
        if words.endswith("{") or _NOTE.search(words):
            scope = self._opened(words)
            self.scopes.append(scope)
            own, inside = scope.own, self._path(())
        if len(self.scopes) == 1 and not self.inside:
            self.nest = None
        return Line(line, own, inside)

    def _path(self, last: Names) -> Names:
        return _once((*self.inside, *(name for scope in self.scopes for name in scope.own), *last))

    def _opened(self, words: str) -> _Scope:
        last = self.scopes[-1]
        note = found["note"] if (found := _NOTE.search(words)) is not None else ""
        if note in self.by_note:
            named = self.by_note[note]
            self.nest = named.pop(0) if len(named) > 1 else named[0]
            return _Scope(self.nest.statements, False, {})
        if self.nest is None:
            return _Scope((), False, {})
        copy = _COPY.match(note)
        operands = {o.name for o in self.nest.option.operands}
        if copy is not None and copy["of"] in operands:
            word = {"write": "stage", "pack": "stage"}.get(copy["word"], copy["word"])
            name = f"{self.nest.key}.hold" if word == "hold" else f"{self.nest.key}.{word}.{copy['of']}"
            return _Scope((name,), word != "hold", last.depths)
        counter = _COUNTER.match(words)
        if counter is None or last.is_copy:
            return _Scope(last.own, last.is_copy, last.depths)
        return self._loop(counter["name"], last)

    def _loop(self, name: str, last: _Scope) -> _Scope:
        """One of the schedule's loops: of several over an axis, those with one turn are not written."""
        assert self.nest is not None, "it is inside one"
        stem = name.rstrip("0123456789")
        loops = list(self._written(stem))
        depth = last.depths.get(stem, 0)
        own = (loops[min(depth, len(loops) - 1)],) if loops else last.own
        return _Scope(own, False, {**last.depths, stem: depth + 1})

    def _written(self, stem: str) -> Iterator[str]:
        """Names of the loops over an axis that turn more than once."""
        assert self.nest is not None, "it is inside one"
        extents = {axis.name: axis.extent for axis in self.nest.option.axes}
        counts: dict[str, int] = {}
        for loop in self.nest.schedule.loops:
            number = counts.get(loop.axis, 0)
            counts[loop.axis] = number + 1
            left = extents.get(loop.axis, 1)
            extents[loop.axis] = min(left, loop.step)
            if re.sub(r"[^0-9A-Za-z_]", "", loop.axis) == stem and not loop.is_unrolled and left > loop.step:
                yield f"{self.nest.key}.{loop.axis}.{number}"


# --- words ------------------------------------------------------------------------------------------------


def listing_lines(text: str, code: Sequence[Line], arrays: frozenset[str]) -> tuple[Line, ...]:
    """The lines of a listing: an instruction belongs to where the code calls it on the same arrays."""
    known: dict[tuple[str, frozenset[str]], Line] = {}
    for line in code:
        call = _CALL.match(line.text)
        if line.inside and call is not None:
            named = frozenset(re.findall("[0-9A-Za-z_]+", call["given"]))
            known.setdefault((call["name"], named & arrays), line)
    found: list[Line] = []
    for line in text.splitlines():
        words = line.split()
        named = frozenset(word.partition("=")[2].partition("+")[0] for word in words) & arrays
        match = known.get((words[1] if len(words) > 1 else "", named))
        found.append(Line(line, match.own, match.inside) if match is not None else Line(line))
    return tuple(found)


def _once(names: Sequence[str]) -> Names:
    return tuple(dict.fromkeys(names))
