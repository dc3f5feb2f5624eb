"""Link lines of the emitted code, in C and in encoded instructions, to lines of the schedule.

      for (int64_t k0 = 0; …          own s0.k.0  inside s0 s0.m.0

For C the layout is parsed: a scope starts with `{`, and a comment there names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from isamap.emit.c_interface import clean_comment
from isamap.report.page.line_links import Names, Nest, once
from isamap.report.page.report_facts import Line
from isamap.source.records import dataclass, replace

_NOTE = re.compile(r"\{ /\* (?P<note>.*) \*/$")
_COUNTER = re.compile(r"^for \(int64_t (?P<name>[0-9A-Za-z_]+) = 0;")
_INLINED = "__attribute__((always_inline)) inline "
_FUNCTION = re.compile(
    r"^(?!static inline |[ #/}])(?:[^(]|__attribute__\(\([a-z_]+\)\))*?(?P<name>[0-9A-Za-z_]+)\((?:.*\{)?$"
)
_CALL = re.compile(r"^ *(?P<name>[0-9A-Za-z_]+)\((?P<given>.*)\);")
_COPY = re.compile(r"^(?P<word>stage|write|prefetch|hold|pack)[0-9A-Za-z_]* (?P<of>[0-9A-Za-z_]+)")


def code_lines(text: str, nests: Sequence[Nest]) -> tuple[Line, ...]:
    """Return the lines of emitted C. A function belongs to its caller, as copies and parts for threads do."""
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
    """Yield the start and the end of each function's body, and its name, without the functions of instructions."""
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
    """A scope of the code, of a nest or of none: `is_copy` where its loops are a copy's, `depths` by axis."""

    own: Names
    nest: Nest | None
    is_copy: bool
    depths: Mapping[str, int]


class _Code:
    """Reads a function line by line."""

    def __init__(self, nests: Sequence[Nest], inside: Names) -> None:
        self.by_note: dict[str, list[Nest]] = {}
        for nest in nests:
            self.by_note.setdefault(clean_comment(nest.note), []).append(nest)
        keys = {nest.key: nest for nest in nests}
        nest = next((keys[name] for name in inside if name in keys), None)
        self.inside = inside
        self.scopes = [_Scope(inside[-1:], nest, any(".stage." in name for name in inside), {})]

    def line(self, line: str) -> Line:
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
        return Line(line, own, inside)

    def _path(self, last: Names) -> Names:
        return once((*self.inside, *(name for scope in self.scopes for name in scope.own), *last))

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


def _loop(name: str, last: _Scope, nest: Nest) -> _Scope:
    """Return one of the schedule's loops: of several over an axis, those with one iteration are not written."""
    axis = _axis(name, nest)
    loops = list(_name_loops(axis, nest))
    depth = last.depths.get(axis, 0)
    own = (loops[min(depth, len(loops) - 1)],) if loops else last.own
    return _Scope(own, nest, False, {**last.depths, axis: depth + 1})


def _axis(counter: str, nest: Nest) -> str:
    """Return the axis that a counter is named after, with a number behind it; "" if there is none."""
    stems = {re.sub(r"[^0-9A-Za-z_]", "", loop.axis): loop.axis for loop in nest.schedule.loops}
    fitting = [stem for stem in stems if re.fullmatch(f"{stem}[0-9]*_*", counter)]
    return stems[max(fitting, key=len)] if fitting else ""


def _name_loops(axis: str, nest: Nest) -> Iterator[str]:
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


def listing_lines(text: str, code: Sequence[Line], arrays: frozenset[str]) -> tuple[Line, ...]:
    """Return the lines of a listing: an instruction belongs to where the code calls it on the same arrays."""
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
