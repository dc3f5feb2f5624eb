"""Analyse a text in an editor, saved or not: its errors, its warnings, and the places of its names.

analyse(Source("gemm.ir", text), path)       a kernel
analyse(Source("npu.yaml", text), path)      a description, and the language inside it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from isamap.ir import ConstantDecl, MemoryDecl, StateDecl
from isamap.lsp.symbols import Definition, NameUse, defined_in, find_uses
from isamap.machine.chain import File, follow
from isamap.machine.emission import parse_texts, text_region
from isamap.machine.families import Row
from isamap.machine.lint import find_warnings
from isamap.machine.load import load_files
from isamap.machine.model import Machine
from isamap.machine.spec import Spec, read_spec
from isamap.machine.tree import Findings, Node, ScalarNode, Sequence, read_tree
from isamap.machine.tree import MappingNode as YamlMapping
from isamap.source import Diagnostic, IsamapError, Source, dataclass, field, replace
from isamap.syntax import VARIABLE, parse_module
from isamap.syntax.tree_builder import parse_declarations

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Analysis:
    """The errors, warnings and names of a text.

    `regions` are the pieces of it that are written in the language. `paths` are the files of other texts,
    by the names under which spans know them. `memories`, `units` and `sources` are names that the text may
    use.
    """

    source: Source
    findings: tuple[Diagnostic, ...] = ()
    uses: tuple[NameUse, ...] = ()
    regions: tuple[tuple[int, int], ...] = ()
    paths: Mapping[str, Path] = field(default_factory=dict[str, Path])
    memories: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def use_at(self, offset: int) -> NameUse | None:
        """Return the name at an offset, or None. Of overlapping names, the shortest counts."""
        found = [use for use in self.uses if use.span.start <= offset <= use.span.end]
        return min(found, key=lambda use: use.span.end - use.span.start, default=None)


@lru_cache(maxsize=16)
def analyse(source: Source, path: Path | None) -> Analysis:
    """Return the analysis of a text."""
    name = path.name if path is not None else source.name
    return _description(source, path) if name.endswith(SUFFIXES) else _kernel(source)


def _kernel(source: Source) -> Analysis:
    regions = ((0, len(source.text)),)
    try:
        declarations = parse_declarations(source)
    except IsamapError as error:
        return Analysis(source, error.diagnostics, regions=regions)
    findings: tuple[Diagnostic, ...] = ()
    try:
        parse_module(source)
    except IsamapError as error:
        findings = error.diagnostics
    return Analysis(source, findings, tuple(find_uses(declarations, {})), regions)


# --- descriptions -----------------------------------------------------------------------------------------


def _description(source: Source, path: Path | None) -> Analysis:
    file = File(source, path.resolve() if path is not None else None)
    try:
        root = read_tree(source)
        files = follow(file)
    except IsamapError as error:
        return Analysis(source, error.diagnostics)
    findings: tuple[Diagnostic, ...] = ()
    parent: Machine | None = None
    try:
        parent = load_files(files[1:], "") if files[1:] else None
        findings = tuple(find_warnings(load_files(files, "")))
    except IsamapError as error:
        findings = error.diagnostics
    known = _inherit_definitions(parent)
    spec = read_spec(root, Findings())
    scalars = _texts(spec)
    parsed = parse_texts(source, scalars, Findings())
    own = {name: d for text in parsed for name, d in defined_in(text or ()).items()}
    rows = (*(() for _ in scalars[len(spec.instructions) :]), *(item.rows for item in spec.instructions))
    uses = [
        _of_family(use, members)
        for text, members in zip(parsed, rows, strict=True)
        for use in find_uses(text or (), {**known, **own})
    ]
    units = {**_inherited_units(parent), **_keys(root, "units", "unit")}
    sources = _keys(root, "sources", "source")
    uses += _yaml_uses(root, {**known, **own}, units, sources)
    return Analysis(
        source,
        findings,
        tuple(uses),
        tuple(_regions(scalars)),
        {f.source.name: f.path for f in files if f.path is not None},
        _memories(parent, own),
        tuple(units),
        tuple(sources),
    )


def _of_family(use: NameUse, members: tuple[Row, ...]) -> NameUse:
    """Return the name with the values that the members of its family give its variables."""
    names = dict.fromkeys(VARIABLE.findall(use.definition.text))
    values = {name: dict.fromkeys(row[name] for row in members if name in row) for name in names}
    said = "; ".join(f"{name} is {', '.join(found)}" for name, found in values.items() if found)
    if not said:
        return use
    return replace(use, definition=replace(use.definition, text=f"{use.definition.text}  # {said}"))


def _texts(spec: Spec) -> tuple[ScalarNode, ...]:
    """Return the scalars of a description that contain language text."""
    language = (spec.language,) if spec.language is not None else ()
    return (*language, *(item.semantics for item in spec.instructions))


def _regions(scalars: tuple[ScalarNode, ...]) -> Iterator[tuple[int, int]]:
    findings = Findings()
    for scalar in scalars:
        with findings.collect():
            yield text_region(scalar)


def _inherit_definitions(parent: Machine | None) -> dict[str, Definition]:
    if parent is None:
        return {}
    declared = [*(m.decl for m in parent.memories.values()), *(s.decl for s in parent.states.values())]
    found = {d.name: Definition(d.name, _describe_finding(d), d.span) for d in declared}
    constants = {p.name: Definition(p.name, f"machine {p.name}", p.span) for p in parent.constants}
    return {**found, **constants}


def _describe_finding(d: MemoryDecl | StateDecl | ConstantDecl) -> str:
    return " ".join(d.span.text.split()).rstrip(";") if d.span is not None else ""


def _inherited_units(parent: Machine | None) -> dict[str, Definition]:
    units = parent.units.values() if parent is not None else ()
    return {u.name: Definition(u.name, f"unit {u.name}, {u.count} of it, inherited") for u in units}


def _memories(parent: Machine | None, own: Mapping[str, Definition]) -> tuple[str, ...]:
    inherited = tuple(parent.memories) if parent is not None else ()
    declared = (name for name, d in own.items() if d.text.startswith(("memory ", "view ")))
    return tuple(dict.fromkeys((*inherited, *declared)))


def _keys(root: YamlMapping, key: str, what: str) -> dict[str, Definition]:
    """Return the definitions that the keys of a mapping introduce."""
    node = root.get(key)
    entries = node.entries if isinstance(node, YamlMapping) else ()
    return {
        k.text: Definition(k.text, f"{what} {k.text}: {' '.join(v.span.text.split())}", k.span)
        for k, v in entries
    }


def _yaml_uses(
    root: YamlMapping,
    language: Mapping[str, Definition],
    units: Mapping[str, Definition],
    sources: Mapping[str, Definition],
) -> Iterator[NameUse]:
    """Yield the names outside of language text: of memories, units and sources."""
    named = {"from": language, "to": language, "unit": units, "source": sources}

    def below(node: Node) -> Iterator[NameUse]:
        match node:
            case YamlMapping(entries):
                for key, value in entries:
                    known = named.get(key.text)
                    if known is not None and isinstance(value, ScalarNode) and value.text in known:
                        yield NameUse(value.span, known[value.text])
                    yield from below(value)
            case Sequence(items):
                for item in items:
                    yield from below(item)
            case ScalarNode():
                pass

    yield from below(root)
    for table, known in (("memories", language), ("units", units), ("sources", sources)):
        node = root.get(table)
        for key, _ in node.entries if isinstance(node, YamlMapping) else ():
            if key.text in known:
                yield NameUse(key.span, known[key.text])


def in_language(analysis: Analysis, offset: int) -> bool:
    """Return whether an offset is in language text, not in the YAML around it."""
    return any(start <= offset <= end for start, end in analysis.regions)
