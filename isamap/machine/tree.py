"""Parse YAML to a tree of nodes with spans, and refuse YAML features that a description may not use.

`unit: fma` is `MappingNode(((ScalarNode("unit"), ScalarNode("fma")),))`. Scalars stay text: the reader of each key
says which are numbers, so that `no` is never a boolean.

The collection of findings of one description, so that a person sees all mistakes at once.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from typing import Any, Literal

from isamap.source import Diagnostic, IsamapError, Source, Span, SpecProblem, dataclass, field, replace

MAX_FILE_BYTES = 1_000_000
MAX_DEPTH = 50
_MAX_REFUSALS = 20


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A text. `style` is how it was written: `plain`, `quoted`, `literal` (|) or `folded` (>)."""

    text: str
    span: Span
    style: Literal["plain", "quoted", "literal", "folded"] = "plain"


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class MappingNode:
    """Keys, each once, and their values, in the order of the file."""

    entries: tuple[tuple[ScalarNode, Node], ...]
    span: Span

    def get(self, key: str) -> Node | None:
        """Return the value of a key, or None."""
        return next((value for name, value in self.entries if name.text == key), None)


Node = ScalarNode | Sequence | MappingNode


def decode(name: str, data: bytes) -> Source:
    """Return the text of a file. Raises: SpecProblem if it is too large or not UTF-8."""
    if len(data) > MAX_FILE_BYTES:
        raise _problem("yaml-too-large", f"{name} has {len(data)} bytes; the limit is {MAX_FILE_BYTES}", None)
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _problem(
            "yaml-not-utf",
            f"{name} is not UTF-8: byte 0x{data[error.start]:02x} in line {line}",
            None,
            "save the file as UTF-8",
        ) from None


_ENTRY = re.compile(r"^(?=[A-Za-z_])", re.MULTILINE)


def read_entries(source: Source, starts: tuple[str, ...]) -> MappingNode:
    """Return the top-level entries that start so, of a text whose entries are correct alone, as shipped ones are.

    Spans point into a text of only these entries. Raises: SpecProblem.
    """
    places = [*(found.start() for found in _ENTRY.finditer(source.text)), len(source.text)]
    own = [source.text[start:end] for start, end in pairwise(places) if source.text.startswith(starts, start)]
    return read_tree(Source(source.name, "".join(own)))


@lru_cache(maxsize=64)
def read_tree(source: Source, stop_before: str | None = None) -> MappingNode:
    """Return the mapping in a text's only document, or its part before the top-level key `stop_before`.

    Raises: SpecProblem.
    """
    yaml: Any = import_module("yaml")  # only where a description is read
    with suppress(yaml.YAMLError, UnicodeEncodeError):
        return _Reader(source, stop_before).document(yaml.parse(source.text, yaml_loader()))
    try:  # the parser in Python says more about an error
        return _Reader(source, stop_before).document(yaml.parse(source.text, yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        raise _translate_error(error, source) from None
    except yaml.YAMLError as error:
        raise _problem("yaml-syntax", f"{source.name} is not YAML: {_one_line(str(error))}", None) from None


def yaml_loader() -> Any:
    """Return the loader of plain values. The one in C is ten times faster; a build without it has the other one."""
    yaml = import_module("yaml")
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Reader:
    """A reader that builds nodes from parser events, and collects errors after which it can continue."""

    def __init__(self, source: Source, stop_before: str | None) -> None:
        self.source = source
        self.stop_before = stop_before
        self.refused: list[Diagnostic] = []

    def document(self, events: Iterator[Any]) -> MappingNode:
        next(events)  # the start of the stream
        start = next(events)
        if _kind(start) != "DocumentStart":
            raise _problem("yaml-empty", f"{self.source.name} is empty", None, "start with `isamap: 1`")
        if start.version or start.tags:
            self.refuse("yaml-directive", "directives such as `%YAML` are not read", start)
        root = self.node(next(events), events, 0)
        if self.stop_before is None:
            next(events)  # the end of the document
            if _kind(after := next(events)) != "StreamEnd":
                self.refuse(
                    "yaml-several-documents", "a file holds one document; a second one starts here", after
                )
        if self.refused:
            raise SpecProblem(*self.refused)
        if isinstance(root, MappingNode):
            return root
        raise _problem(
            "yaml-not-a-mapping",
            "a machine is a mapping of keys to values",
            root.span,
            "start with `isamap: 1`",
        )

    def node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        if depth > MAX_DEPTH:
            span = self.span(event)
            raise _problem("yaml-too-deep", f"this is nested more than {MAX_DEPTH} levels deep", span)
        kind = _kind(event)
        if kind == "Alias" or event.anchor is not None:
            self.refuse_alias(kind, event)
        if kind == "Alias":
            return ScalarNode("", self.span(event))
        if event.tag not in (None, "!"):
            self.refuse("yaml-tag", f"tags such as `{event.tag}` are not read", event, "leave the tag out")
        match kind:
            case "Scalar":
                return self.scalar(event)
            case "SequenceStart":
                items, end = self.items(events, depth)
                return Sequence(items, Span(self.source, event.start_mark.index, end))
            case _:
                return self.mapping(event, events, depth)

    def scalar(self, event: Any) -> ScalarNode:
        styles: dict[str | None, Literal["plain", "quoted", "literal", "folded"]] = {
            "'": "quoted", '"': "quoted", "|": "literal", ">": "folded",
        }  # fmt: skip
        return ScalarNode(str(event.value), self.span(event), styles.get(event.style, "plain"))

    def items(self, events: Iterator[Any], depth: int) -> tuple[tuple[Node, ...], int]:
        items: list[Node] = []
        while _kind(event := next(events)) != "SequenceEnd":
            items.append(self.node(event, events, depth + 1))
        return tuple(items), event.end_mark.index

    def mapping(self, start: Any, events: Iterator[Any], depth: int) -> MappingNode:
        entries: dict[str, tuple[ScalarNode, Node]] = {}
        while _kind(event := next(events)) != "MappingEnd":
            key = self.node(event, events, depth + 1)
            if depth == 0 and isinstance(key, ScalarNode) and key.text == self.stop_before:
                break
            value = self.node(next(events), events, depth + 1)
            if not isinstance(key, ScalarNode):
                self.refuse("yaml-key", "a key is a name, not a list or a mapping", event)
            elif key.text in entries:
                first = entries[key.text][0].span.line
                self.refuse(
                    "yaml-duplicate-key", f"the key `{key.text}` is given again here", event,
                    "keep one of the two", f"it is first given in line {first}",
                )  # fmt: skip
            else:
                entries[key.text] = (key, value)
        return MappingNode(
            tuple(entries.values()), Span(self.source, start.start_mark.index, event.end_mark.index)
        )

    def span(self, event: Any) -> Span:
        return Span(self.source, event.start_mark.index, max(event.end_mark.index, event.start_mark.index))

    def refuse_alias(self, kind: str, event: Any) -> None:
        """Refuse the first alias. Later ones are not reported, because there may be millions."""
        if all(d.code != "yaml-alias" for d in self.refused):
            word = "aliases (`*name`)" if kind == "Alias" else "anchors (`&name`)"
            self.refuse(
                "yaml-alias", f"{word} are not read", event, "write the value out, or use a `for` family"
            )

    def refuse(self, code: str, message: str, event: Any, advice: str | None = None, *notes: str) -> None:
        self.refused.append(Diagnostic(code, message, self.span(event), notes=notes, help=advice))
        if len(self.refused) >= _MAX_REFUSALS:
            raise SpecProblem(*self.refused)


def _kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _problem(code: str, message: str, span: Span | None, advice: str | None = None) -> SpecProblem:
    return SpecProblem.of(code, message, span, help=advice)


def _translate_error(error: Any, source: Source) -> SpecProblem:
    """Return an error of the YAML parser as a finding at its position."""
    mark = error.problem_mark or error.context_mark
    # At the end of the text there is nothing to underline: the last character stands in for it.
    last = max(0, len(source.text.rstrip()) - 1)
    start = min(mark.index, last) if mark is not None else 0
    message = _one_line(error.problem or str(error))
    advice = None
    if "could not find expected ':'" in message or "mapping values" in message:
        advice = "quote texts that contain `: `, and put language text into a block (`|`)"
    elif "cannot start any token" in message and source.text[start : start + 1] == "\t":
        advice = "indent with blanks, not with tabs"
    end = min(start + 1, len(source.text))
    return _problem("yaml-syntax", f"this is not YAML: {message}", Span(source, start, end), advice)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


MAX_FINDINGS = 50
"""The number of unknown names that get a suggestion. Each suggestion compares a name with all known ones."""


@dataclass
class Findings:
    """The diagnostics that are collected while one machine is read."""

    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def report(
        self, code: str, message: str, span: Span | None, *notes: str, advice: str | None = None
    ) -> None:
        """Add one finding and continue."""
        self.diagnostics.append(Diagnostic(code, message, span, notes=notes, help=advice))

    def unknown(
        self, code: str, what: str, name: str, span: Span | None, known: Iterable[str], *notes: str
    ) -> None:
        """Add the finding that a name is unknown, with the known names and the nearest one."""
        shown = sorted(known)
        listed = (
            f"known: {', '.join(shown[:16])}{', …' if len(shown) > 16 else ''}" if shown else "there is none"
        )
        near = self.nearest(name, shown)
        advice = f"did you mean `{near}`?" if near else None
        self.report(code, f"there is no {what} called `{name}`", span, listed, *notes, advice=advice)

    def nearest(self, name: str, known: Iterable[str]) -> str | None:
        """Return the nearest known name, or None. No name is searched once more findings exist than are shown."""
        return nearest(name, known) if len(self.diagnostics) < MAX_FINDINGS else None

    @contextmanager
    def collect(self, *notes: str) -> Generator[None]:
        """Run a block and record its errors, with these notes, instead of raising them."""
        try:
            yield
        except IsamapError as error:
            self.diagnostics += (replace(d, notes=(*d.notes, *notes)) for d in error.diagnostics)

    def raise_any(self) -> None:
        """Raise one error with all findings, in textual order."""
        if not self.diagnostics:
            return
        # Members of one family tend to fail alike: the first one speaks for them.
        first: dict[tuple[str, str, int], Diagnostic] = {}
        for d in self.diagnostics:
            first.setdefault((d.code, d.message, d.span.start if d.span else -1), d)
        ordered = sorted(first.values(), key=lambda d: d.span.start if d.span else -1)
        raise SpecProblem(*ordered)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, or None."""
    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else None
