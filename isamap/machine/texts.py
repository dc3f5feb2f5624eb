"""The language text of a description: found in its blocks, parsed in one go, with the file's own positions.

All that is not of the language is blanked, which leaves every character where it was: a span of the syntax
tree is a span of the YAML file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from isamap.machine.findings import MAX_FINDINGS, Findings
from isamap.machine.tree import Scalar
from isamap.source import Diagnostic, IsamapError, Source, SpecProblem
from isamap.syntax import parse_template
from isamap.syntax.ast import DeclarationSyntax

Declarations = tuple[DeclarationSyntax, ...]


def parse_texts(
    source: Source, scalars: Sequence[Scalar], findings: Findings
) -> tuple[Declarations | None, ...]:
    """The declarations of each text; None for one that was refused."""
    regions: list[tuple[int, int] | None] = []
    for scalar in scalars:
        region = None
        with findings.collect():
            region = text_region(scalar)
        regions.append(region)
    present = [region for region in regions if region is not None]
    try:
        declarations = parse_template(source, _blanked(source.text, present))
    except IsamapError:
        return tuple(_parse_alone(source, region, findings) for region in regions)
    starts = sorted(start for start, _ in present)
    found: dict[int, list[DeclarationSyntax]] = {start: [] for start in starts}
    for declaration in declarations:
        found[starts[bisect_right(starts, declaration.span.start) - 1]].append(declaration)
    return tuple(tuple(found[region[0]]) if region is not None else None for region in regions)


def _parse_alone(source: Source, region: tuple[int, int] | None, findings: Findings) -> Declarations | None:
    """The declarations of one text, so that a mistake in one does not hide those in others.

    Each takes as long as the whole file: of a file with more mistakes than are shown the rest is left out.
    """
    if region is not None and len(findings.diagnostics) < MAX_FINDINGS:
        with findings.collect():
            return parse_template(source, _blanked(source.text, [region]))
    return None


def text_region(scalar: Scalar) -> tuple[int, int]:
    """Where the text of a scalar stands, character by character. Raises: SpecProblem when it does not."""
    span = scalar.span
    raw = span.text
    match scalar.style:
        case "literal":
            newline = raw.find("\n")
            return span.start + (newline + 1 if newline >= 0 else len(raw)), span.end
        case "plain" if raw == scalar.text:
            return span.start, span.end
        case "quoted" if raw[1:-1] == scalar.text:
            return span.start + 1, span.end - 1
        case _:
            raise SpecProblem(
                Diagnostic(
                    "text-not-literal",
                    "language text stands in a literal block, so that errors can point into it",
                    span,
                    help="write `|` behind the key and the text in the lines below",
                )
            )


def _blanked(text: str, regions: Sequence[tuple[int, int]]) -> str:
    """The text with everything outside the regions made blank; lines stay lines."""
    pieces: list[str] = []
    at = 0
    for start, end in sorted(regions):
        pieces += [_blanks(text[at:start]), text[start:end]]
        at = end
    return "".join((*pieces, _blanks(text[at:])))


def _blanks(text: str) -> str:
    return "\n".join(" " * len(line) for line in text.split("\n"))
