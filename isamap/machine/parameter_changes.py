"""Change parameters in the text of a description, as `isamap hw sweep --set` requests.

memories.spad.bytes = 128KiB          memory spad: scratchpad(bytes = 512 KiB, …)   ->   bytes = 128KiB
links.dram.spad.bandwidth_bytes_per_ns = 32
units.execute.count = 2
clock_ghz = 1.5
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from isamap.machine import tree
from isamap.machine.chain import File
from isamap.machine.tree import Node, ScalarNode, Sequence, read_tree
from isamap.source import Source, Span, UsageProblem, did_you_mean

_MEMORY = re.compile(r"\b(?:memory|view)\s+([A-Za-z_][A-Za-z_0-9]*)\b[^;(]*\(([^)]*)\)")
_ATTRIBUTE = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)\s*=\s*([^,]*[^,\s])")
_COMMENT = re.compile(r"#[^\n]*")


def edit_parameters(file: File, values: Mapping[str, str]) -> File:
    """Return the description with other values of parameters. Raises: UsageProblem if it does not state one."""
    spans = {path: _place(file.source, path) for path in values}
    text = file.source.text
    for path, span in sorted(spans.items(), key=lambda item: -item[1].start):
        text = text[: span.start] + values[path] + text[span.end :]
    return File(Source(file.source.name, text), file.path)


@lru_cache(maxsize=64)
def _place(source: Source, path: str) -> Span:
    """Return the position of a parameter's value in the text."""
    root, keys = read_tree(source), path.split(".")
    if keys[0] == "memories" and len(keys) == 3 and keys[2] not in ("source", "c_types"):
        return _attribute(source, root, path, keys[1], keys[2])
    node: Node = root
    while keys:
        if isinstance(node, Sequence):
            node, keys = _item(node, path, keys)
        elif isinstance(node, tree.MappingNode):
            found = node.get(keys[0])
            if found is None:
                raise _unknown(source, path, keys[0], [key.text for key, _ in node.entries])
            node, keys = found, keys[1:]
        else:
            break
    if keys or not isinstance(node, ScalarNode):
        raise UsageProblem.of(
            "unknown-place",
            f"`{path[:80]}` is not a parameter",
            help="name one, as in `units.execute.count`, `links.dram.spad.bandwidth_bytes_per_ns`, "
            "`memories.spad.bytes` or `clock_ghz`",
        )
    return node.span


def _item(items: Sequence, path: str, keys: list[str]) -> tuple[Node, list[str]]:
    """Return the link from one memory to another, and the rest of the path."""
    ends: list[str] = []
    for item in items.items:
        pair = [item.get(key) if isinstance(item, tree.MappingNode) else None for key in ("from", "to")]
        names = [end.text for end in pair if isinstance(end, ScalarNode)]
        if names == keys[:2]:
            return item, keys[2:]
        ends += [".".join(names)] if len(names) == 2 else []
    raise _unknown(items.span.source, path, ".".join(keys[:2]), ends)


def _attribute(source: Source, root: tree.MappingNode, path: str, memory: str, attribute: str) -> Span:
    """Return the position of a memory's attribute in the language text."""
    language = root.get("language")
    span = language.span if language is not None else Span(source, 0, 0)
    # Comments become blanks, so that places stay what they are.
    text = _COMMENT.sub(lambda found: " " * len(found[0]), source.text[: span.end])
    known = {found[1]: found for found in _MEMORY.finditer(text, span.start)}
    if memory not in known:
        raise _unknown(source, path, memory, known)
    given = {found[1]: found for found in _ATTRIBUTE.finditer(text, *known[memory].span(2))}
    if attribute not in given:
        raise _unknown(source, path, attribute, given)
    return Span(source, *given[attribute].span(2))


def _unknown(source: Source, path: str, word: str, known: Iterable[str]) -> UsageProblem:
    names = list(known)
    return UsageProblem.of(
        "unknown-place",
        f"{source.name} does not state `{path[:80]}`: it has no `{word[:40]}` there",
        notes=(
            f"there are {', '.join(names[:16])}" if names else "there is none",
            "to change an inherited parameter, state it in this file",
        ),
        help=did_you_mean(word, names),
    )
