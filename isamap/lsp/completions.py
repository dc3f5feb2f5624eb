"""What may be written at a place: names, types and words of the language; keys and words of a description.

Read from the text around the place, not from its tree: a text that is being written is seldom right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from isamap.ir import DTYPES
from isamap.ir.text_layout import KEYWORDS
from isamap.lsp.analysis import Analysis, in_language
from isamap.lsp.symbols import BUILT_IN
from isamap.machine.keys import Keys, Leaf, ListOf, NamedBy, OneOf, Value
from isamap.machine.spec import MACHINE

Kind = Literal["name", "type", "function", "word", "key", "value"]
_HEAD = re.compile(r"\b(?:kernel|instruction|function)\s+[A-Za-z_0-9]*\s*\(([^)]*)\)")
_DECLARED = re.compile(r"\b(?:inout|in|out|temp|let)\s+([A-Za-z_][A-Za-z_0-9]*)\s*[:=]")
_AXES = re.compile(r"\b(?:for|seq)\b([^{};]*)")
_AXIS = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)\s+in\b")
_PARAM = re.compile(r"(?:choose|machine|imm|scalar)?\s*([A-Za-z_][A-Za-z_0-9]*)\s*(?:[:=].*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Completion:
    """A word that may be written, and what it is."""

    label: str
    kind: Kind
    detail: str = ""


def complete(analysis: Analysis, offset: int) -> list[Completion]:
    """The words that may stand at a place."""
    before = analysis.source.text[:offset]
    if in_language(analysis, offset):
        return _of_language(analysis, before)
    return _of_description(analysis, before)


def _of_language(analysis: Analysis, before: str) -> list[Completion]:
    written = re.sub(r"[A-Za-z_0-9]*$", "", before).rstrip()
    if written.endswith("@"):
        return [Completion(name, "name", "memory") for name in analysis.memories]
    if re.search(r"\b(?:inout|in|out|temp)\s+[A-Za-z_0-9]+\s*:$", written):
        return [Completion(name, "type", BUILT_IN[name].text) for name in DTYPES]
    found = [Completion(name, "name") for name in _names(before)]
    found += [
        Completion(d.name, "type" if d.name in DTYPES else "function", d.text) for d in BUILT_IN.values()
    ]
    return [*found, *(Completion(word, "word") for word in sorted(KEYWORDS))]


def _names(before: str) -> Iterable[str]:
    """What the routine around a place has named so far."""
    heads = list(_HEAD.finditer(before))
    if not heads:
        return ()
    params = [
        match[1] for part in heads[-1][1].split(",") if (match := _PARAM.fullmatch(part.strip())) is not None
    ]
    body = before[heads[-1].end() :]
    axes = [axis for loop in _AXES.finditer(body) for axis in _AXIS.findall(loop[1])]
    return dict.fromkeys((*params, *_DECLARED.findall(body), *axes))


# --- descriptions -----------------------------------------------------------------------------------------

_ENTRY = re.compile(r"(?P<indent> *)(?:- )?(?P<key>[A-Za-z_0-9.-]+):")
_VALUE = re.compile(r"(?P<key>[A-Za-z_0-9-]+):\s*[A-Za-z_0-9-]*$")


def _of_description(analysis: Analysis, before: str) -> list[Completion]:
    line = before[before.rfind("\n") + 1 :]
    last = re.split(r"[{,]", line)[-1]
    table = _table(before)
    value = _VALUE.search(last)
    if value is not None:
        return _values(analysis, value["key"], table)
    if isinstance(table, Keys):
        return [Completion(key, "key", _shown(inner)) for key, inner in table.values.items()]
    return []


def _values(analysis: Analysis, key: str, table: Value | None) -> list[Completion]:
    named = {
        "unit": analysis.units,
        "from": analysis.memories,
        "to": analysis.memories,
        "source": analysis.sources,
    }
    if key in named:
        return [Completion(name, "value") for name in named[key]]
    leaf = table.values.get(key) if isinstance(table, Keys) else None
    if isinstance(leaf, Leaf) and leaf.words is not None:
        return [Completion(word, "value") for word in leaf.words()]
    return [Completion(word, "value") for word in ("true", "false")] if leaf == Leaf("flag") else []


def _table(before: str) -> Value | None:
    """What the mapping may hold in which the last line stands."""
    lines = before.split("\n")
    path = [match["key"] for match in [_flow(lines[-1])] if match is not None]
    width = len(lines[-1]) - len(lines[-1].lstrip(" -"))
    if path:
        entry = _ENTRY.match(lines[-1])
        width = len(entry["indent"]) if entry is not None else width
        if entry is not None and entry["key"] == path[0]:
            width = len(entry["indent"])
    for line in reversed(lines[:-1]):
        entry = _ENTRY.match(line)
        if entry is not None and len(entry["indent"]) + 2 * line.lstrip().startswith("- ") < width:
            path.append(entry["key"])
            width = len(entry["indent"])
    value: Value | None = MACHINE
    for key in reversed(path):
        value = _below(value, key)
    return _inside(value)


def _flow(line: str) -> re.Match[str] | None:
    """The key whose `{` is open at the end of a line."""
    opened = [n for n, c in enumerate(line) if c == "{"]
    closed = line.count("}")
    if len(opened) <= closed:
        return None
    return re.search(r"(?P<key>[A-Za-z_0-9-]+):\s*$", line[: opened[-1 - closed]])


def _below(value: Value | None, key: str) -> Value | None:
    value = _inside(value)
    match value:
        case Keys(values):
            return values.get(key)
        case NamedBy(inner):
            return inner
        case _:
            return None


def _inside(value: Value | None) -> Value | None:
    """What an item of a list is; of several kinds, the one with keys."""
    while isinstance(value, ListOf | OneOf):
        if isinstance(value, ListOf):
            value = value.item
        else:
            value = next((kind for kind in value.kinds if isinstance(kind, Keys | NamedBy)), None)
    return value


def _shown(value: Value) -> str:
    match value:
        case Leaf(kind):
            return {"whole": "a whole number", "bytes": "a size", "flag": "true or false"}.get(
                kind, f"a {kind}"
            )
        case ListOf():
            return "a list"
        case _:
            return "a mapping"
