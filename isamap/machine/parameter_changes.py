"""Change parameters in the texts of a description, as `isamap hw sweep --set` requests.

memories.spad.bytes = 128KiB          memory spad: scratchpad(bytes = 512 KiB, …)   ->   bytes = 128KiB
links.dram.spad.bandwidth_bytes_per_ns = 32
units.execute.count = 2
clock_ghz = 1.5

An inherited parameter is changed in the nearest file of the chain that states it.
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

# Other words of a memory are of the language.
_KEYS_OF_MEMORIES = ("source", "c_types", "c_variables", "area_mm2", "area_mm2_per_kib")

# A child adds to these mappings of its parent, at so many names below the key. It replaces others as a whole.
_ADDED_TO = {"units": 1, "memories": 2, "links": 3, "loops": 1, "model": 1}


def edit_parameters(chain: tuple[File, ...], values: Mapping[str, str]) -> tuple[File, ...]:
    """Return a chain of descriptions, nearest first, with other values of parameters.

    Its files are for one folder: a child of a changed file extends the file next to it. Raises: UsageProblem if
    no file states a parameter.
    """
    edits: list[list[tuple[Span, str]]] = [[] for _ in chain]
    for path, value in values.items():
        at, span = _find(chain, path)
        edits[at].append((span, value))
    for at in range(max(at for at, changes in enumerate(edits) if changes or not at)):
        extends, parent = read_tree(chain[at].source).get("extends"), chain[at + 1]
        assert extends is not None, "a chain's file names its parent"
        if any(file.stem == parent.stem for file in chain[: at + 1]):
            said = (
                f"`{parent.stem}` extends a machine of the same name: inherited parameters cannot be changed"
            )
            raise UsageProblem.of("unknown-place", said, help="give this machine and its file another name")
        edits[at].append((extends.span, f"{parent.stem}.yaml"))
    files = list(chain)
    for at, changes in enumerate(edits):
        for span, value in sorted(changes, key=lambda change: -change[0].start):
            text = files[at].source.text[: span.start] + value + files[at].source.text[span.end :]
            files[at] = File(Source(chain[at].source.name, text), chain[at].path)
    return tuple(files)


class _NotStated(UsageProblem):
    """An error: a file lacks a name in a path. `depth` is the number of names that precede it."""

    depth = 0

    @staticmethod
    def of_name(source: Source, path: str, name: str, known: Iterable[str], depth: int) -> _NotStated:
        names = list(known)
        found = _NotStated.of(
            "unknown-place",
            f"{source.name} does not state `{path[:80]}`: it has no `{name[:40]}` there",
            notes=(f"there are {', '.join(names[:16])}" if names else "there is none",),
            help=did_you_mean(name, names),
        )
        found.depth = depth
        return found


@lru_cache(maxsize=64)
def _find(chain: tuple[File, ...], path: str) -> tuple[int, Span]:
    """Return the nearest file that states a parameter, by its number, and the position of the value."""
    errors: list[_NotStated] = []
    for at, file in enumerate(chain):
        try:
            return at, _place(file.source, path)
        except _NotStated as error:
            errors.append(error)
            if error.depth > _ADDED_TO.get(path.split(".", maxsplit=1)[0], 0):
                break
    raise max(errors, key=lambda error: error.depth)


def _place(source: Source, path: str) -> Span:
    """Return the position of a parameter's value in the text. Raises: UsageProblem."""
    root, keys = read_tree(source), path.split(".")
    if keys[0] == "memories" and len(keys) == 3 and keys[2] not in _KEYS_OF_MEMORIES:
        return _attribute(source, root, path, keys[1], keys[2])
    node: Node = root
    depth = 0
    while depth < len(keys):
        if isinstance(node, Sequence):
            node, depth = _item(node, path, keys), 3
        elif isinstance(node, tree.MappingNode):
            below = node.get(keys[depth])
            if below is None:
                raise _NotStated.of_name(source, path, keys[depth], [k.text for k, _ in node.entries], depth)
            node, depth = below, depth + 1
        else:
            break
    if depth < len(keys) or not isinstance(node, ScalarNode):
        raise UsageProblem.of(
            "unknown-place",
            f"`{path[:80]}` is not a parameter",
            help="name one, as in `units.execute.count`, `links.dram.spad.bandwidth_bytes_per_ns`, "
            "`memories.spad.bytes` or `clock_ghz`",
        )
    return node.span


def _item(items: Sequence, path: str, keys: list[str]) -> Node:
    """Return the link between the two memories of a path. Raises: UsageProblem."""
    ends: list[str] = []
    for item in items.items:
        pair = [item.get(key) if isinstance(item, tree.MappingNode) else None for key in ("from", "to")]
        names = [end.text for end in pair if isinstance(end, ScalarNode)]
        if names == keys[1:3]:
            return item
        ends += [".".join(names)] if len(names) == 2 else []
    raise _NotStated.of_name(items.span.source, path, ".".join(keys[1:3]), ends, 1)


def _attribute(source: Source, root: tree.MappingNode, path: str, memory: str, attribute: str) -> Span:
    """Return the position of a memory's attribute in the language text."""
    language = root.get("language")
    span = language.span if language is not None else Span(source, 0, 0)
    # Comments become blanks, so that places stay what they are.
    text = _COMMENT.sub(lambda found: " " * len(found[0]), source.text[: span.end])
    known = {found[1]: found for found in _MEMORY.finditer(text, span.start)}
    if memory not in known:
        raise _NotStated.of_name(source, path, memory, known, 1)
    given = {found[1]: found for found in _ATTRIBUTE.finditer(text, *known[memory].span(2))}
    if attribute not in given:
        raise _NotStated.of_name(source, path, attribute, given, 3)
    return Span(source, *given[attribute].span(2))
