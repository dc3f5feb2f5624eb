"""Report why instructions do not perform a statement, the nearest first, with both source lines.

statement 0: C[m, n] += A[m, k] * B[k, n];
  1  tdpbf16ps [types-differ] takes a of bf16; `A[m, k]` is f32
       kernel       gemm.ir:6:16        C[m, n] += A[m, k] * B[k, n];
                                                   ^^^^^^^
       instruction  x86-amx.yaml:81:30  c[m, n] += f32(a[m, 2*k + p]) * f32(b[k, 2*n + p]);
                                                       ^^^^^^^^^^^^^^^
       edit         A: bf16[…]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isamap.match import LACKING, Rejection
from isamap.report.columns import align
from isamap.report.mapping_facts import Matched
from isamap.report.mappings import statement_line
from isamap.source import Span

FEW = 5
"""The number of refusals of a statement shown in full, of computing instructions; the others are counted."""

_NAMED = 4


def refusals_text(
    matched: Matched, rejections: Sequence[Rejection], *, every: bool = False, moved: bool = True
) -> str:
    """Return text with the nearest refusals of each statement and their source lines, and the others by reason.

    Without `moved` it was said before that operands of mappings cannot be moved.
    """
    if not rejections and not moved:
        return (
            "no refusal: every named instruction has mappings; operands that cannot be moved are listed above"
        )
    if not rejections:
        return "no refusal: every requested instruction performs every statement"
    blocks: list[str] = []
    for number in sorted({r.statement for r in rejections}):
        own = [r for r in rejections if r.statement == number]
        near = [r for r in own if r.instruction in matched.computing or r.reason in LACKING] or own
        shown = own if every else near[:FEW]
        lines = [f"not performing {statement_line(number, matched.statements[number])}"]
        for place, rejection in enumerate(shown, 1):
            lines += _rejection_lines(place, rejection)
        if len(shown) < len(own):
            lines += _summarise_others([r for r in own if r not in shown])
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _rejection_lines(place: int, rejection: Rejection) -> Iterator[str]:
    yield f"{place:>3}  [{rejection.reason}] {rejection.message}"
    sides = (("kernel", rejection.span), ("instruction", rejection.instruction_span))
    shown = [(what, span, f"{span}") for what, span in sides if span is not None]
    width = max((len(place) for _, _, place in shown), default=0)
    for what, span, name in shown:
        yield from _source_lines(f"       {what:<11}  {name:<{width}}  ", span)
    if rejection.edit:
        yield f"       {'edit':<11}  {rejection.edit}"


def _source_lines(head: str, span: Span) -> Iterator[str]:
    """Yield the source line of a span after `head`, and a line of carets."""
    line = span.source.line_text(span.line).expandtabs(1)
    text = line.strip()
    offset = max(0, span.column - 1 - (len(line) - len(line.lstrip())))
    width = max(1, min(span.end - span.start, len(text) - offset))
    yield f"{head}{text}"
    yield f"{' ' * (len(head) + offset)}{'^' * width}"


def _summarise_others(rejections: Sequence[Rejection]) -> Iterator[str]:
    """Yield text with the number of other refusals for each reason, and the first names."""
    by_reason: dict[str, list[str]] = {}
    for r in rejections:
        by_reason.setdefault(r.reason, []).append(r.instruction)
    yield f"  … and {len(rejections)} more: --all shows them, --instruction NAME one of them"
    rows = [(str(len(names)), reason, _names(names)) for reason, names in by_reason.items()]
    yield "\n".join(f"     {line}" for line in align(rows, right=(0,)).splitlines())


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


def rejections_json(rejections: Sequence[Rejection]) -> list[dict[str, object]]:
    """Return all refusals as JSON."""
    return [
        {
            "instruction": r.instruction,
            "statement": r.statement,
            "reason": r.reason,
            "message": r.message,
            "span": _span_json(r.span),
            "instruction_span": _span_json(r.instruction_span),
            "edit": r.edit,
            "edits": [
                {"start": e.span.start, "end": e.span.end, "replacement": e.replacement} for e in r.edits
            ],
        }
        for r in rejections
    ]


def _span_json(span: Span | None) -> dict[str, object] | None:
    return None if span is None else {"file": span.source.name, "line": span.line, "column": span.column}
