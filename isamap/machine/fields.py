"""Typed reading of YAML nodes: each function returns the value of a key, or adds a finding."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from math import isfinite

from isamap.machine.keys import Keys
from isamap.machine.tree import Findings, MappingNode, Node, ScalarNode, Sequence
from isamap.source import Span
from isamap.source.numbers import BYTES_PER_UNIT

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNITS = re.compile(
    r"_(pj|nj|fj|uj|mw|mm2|um2|[pn]j_per_(byte|bit|ns|word)|ns|us|ms|s|ps|cycles?|bits?|bytes?|kib|mib|kb|mb|[kmg]?hz|bytes_per_(ns|cycle|s)|gb_per_s|gb_s|gbps)$"
)


def read_mapping(node: Node | None, what: str, keys: Keys, findings: Findings) -> dict[str, Node]:
    """Return the values of a mapping with a fixed set of keys."""
    allowed = tuple(keys.values)
    entries = read_names(node, what, findings)
    given = {key.text: value for key, value in entries}
    for key, _ in entries:
        if key.text not in allowed:
            _unknown_key(key, what, allowed, findings)
    # An unknown key is taken for a missing one misspelt: one finding says it.
    if isinstance(node, MappingNode) and all(key in allowed for key in given):
        for name in keys.required:
            if name not in given:
                findings.report(
                    "missing-key", f"{what} does not give `{name}`", _head(node), advice=f"add `{name}: …`"
                )
    return {key: value for key, value in given.items() if key in allowed}


def read_names(node: Node | None, what: str, findings: Findings) -> tuple[tuple[ScalarNode, Node], ...]:
    """Return the entries of a mapping whose keys are the writer's own names."""
    match node:
        case None:
            return ()
        case MappingNode(entries):
            return entries
        case _:
            findings.report("wrong-kind", f"{what} should be a mapping, as `key: value`", _head(node))
            return ()


def read_items(node: Node | None, what: str, findings: Findings) -> tuple[Node, ...]:
    """Return the items of a list."""
    match node:
        case None:
            return ()
        case Sequence(items):
            return items
        case _:
            findings.report("wrong-kind", f"{what} should be a list, as `[a, b]`", _head(node))
            return ()


def read_text(node: Node | None, what: str, findings: Findings) -> ScalarNode | None:
    """Return a text that is not empty."""
    if node is None:
        return None
    if not isinstance(node, ScalarNode):
        findings.report("wrong-kind", f"{what} should be a text", _head(node))
        return None
    if not node.text.strip() or (node.style == "plain" and node.text in ("null", "~")):
        findings.report("empty-value", f"{what} is empty", node.span)
        return None
    return node


def read_name(node: Node | None, what: str, findings: Findings) -> ScalarNode | None:
    """Return a text that is a name of the language."""
    text = read_text(node, what, findings)
    if text is None or _NAME.fullmatch(text.text):
        return text
    findings.report("not-a-name", f"{what} should be a name, not `{_short(text.text)}`", text.span)
    return None


def read_texts(
    node: Node | None, what: str, findings: Findings, check: Callable[[ScalarNode], bool]
) -> tuple[str, ...]:
    """Return a list of texts, each once, without those that `check` refuses and reports."""
    found: dict[str, bool] = {}
    for item in read_items(node, what, findings):
        text = read_text(item, f"an item of {what}", findings)
        if text is None:
            continue
        if text.text in found:
            findings.report("listed-twice", f"{what} lists `{text.text}` twice", text.span)
            continue
        found[text.text] = check(text)
    return tuple(text for text, allowed in found.items() if allowed)


def read_number(
    node: Node | None, what: str, findings: Findings, lowest: float = 0.0, whole: bool = False
) -> float | None:
    """Return a number of at least `lowest`. If `whole`, it must be an integer."""
    if node is None:
        return None
    text = node.text if isinstance(node, ScalarNode) and node.style == "plain" else None
    if text is None or not NUMBER.fullmatch(text) or not isfinite(value := float(text)):
        shown = f", not `{_short(node.text)}`" if isinstance(node, ScalarNode) else ""
        findings.report("not-a-number", f"{what} should be a number{shown}", _head(node))
        return None
    if whole and value != int(value):
        findings.report("not-a-number", f"{what} should be a whole number, not `{text}`", node.span)
        return None
    if value < lowest or value > 2**63:
        bound = f"at least {lowest:g}" if value < lowest else "below 2**63"
        findings.report("number-out-of-range", f"{what} is {text}; it should be {bound}", node.span)
        return None
    return value


_SIZE = re.compile(rf"([0-9]{{1,12}}) ?({'|'.join(BYTES_PER_UNIT)})")

_OTHER_SIZE = re.compile("[0-9.]+ ?([A-Za-z]{1,8})")


def read_bytes(node: Node | None, what: str, findings: Findings, lowest: float = 1) -> int | None:
    """Return an integer of bytes of at least `lowest`: `524288`, or `512 KiB`."""
    if isinstance(node, ScalarNode) and node.style == "plain" and (found := _SIZE.fullmatch(node.text)):
        return int(found[1]) * BYTES_PER_UNIT[found[2]]
    if isinstance(node, ScalarNode) and (found := _OTHER_SIZE.fullmatch(node.text)):
        advice = "write KiB, MiB or GiB (of 1024), or the bytes as a number"
        findings.report("unknown-unit", f"`{found[1]}` is not a unit of sizes", node.span, advice=advice)
        return None
    value = read_number(node, what, findings, lowest, whole=True)
    return int(value) if value is not None else None


def read_flag(node: Node | None, what: str, findings: Findings) -> bool:
    """Return `true` or `false` of a field, or false if the field is missing."""
    match node:
        case None:
            return False
        case ScalarNode("true" | "false" as word, _, "plain"):
            return word == "true"
        case ScalarNode(text) if text.lower() in ("yes", "no", "on", "off"):
            advice = f"write `{'true' if text.lower() in ('yes', 'on') else 'false'}`"
            findings.report(
                "not-a-boolean", f"{what} should be true or false; `{text}` is a text in YAML 1.2", node.span,
                advice=advice,
            )  # fmt: skip
        case _:
            findings.report("not-a-boolean", f"{what} should be true or false", _head(node))
    return False


def _unknown_key(key: ScalarNode, what: str, allowed: Collection[str], findings: Findings) -> None:
    stem = _UNITS.sub("", key.text)
    same = sorted(k for k in allowed if _UNITS.sub("", k) == stem and k != stem)
    if same:
        unit = key.text[len(stem) + 1 :]
        said = (
            f"the unit `{unit}` is not known for `{stem}`" if unit else f"`{key.text}` does not say its unit"
        )
        findings.report(
            "unknown-unit",
            f"{said} in {what}",
            key.span,
            advice=f"write {' or '.join(f'`{k}`' for k in same)}",
        )
        return
    near = findings.nearest(key.text, allowed)
    findings.report(
        "unknown-key",
        f"{what} has no key `{_short(key.text)}`",
        key.span,
        f"its keys are {', '.join(allowed)}",
        advice=f"did you mean `{near}`?" if near else None,
    )


def _head(node: Node) -> Span:
    """Return the span of a node's first line, which messages about the whole node underline."""
    if isinstance(node, ScalarNode) and node.style == "plain":
        return node.span
    start, end = node.span.start, node.span.end
    line_end = node.span.source.text.find("\n", start)
    return Span(node.span.source, start, end if line_end < 0 else max(start, min(end, line_end)))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:37] + "..."
