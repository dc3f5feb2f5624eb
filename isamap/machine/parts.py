"""Machine instructions for building blocks of elementary functions (`target.parts`).

    target: {parts: {scale_f32x16: "_mm512_scalef_ps(x, n)"}}

Without an entry, a part is written with C operators. `isamap hw check --run` tests each part by running the
functions that contain it on all kinds of floats.
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.ir import Instruction
from isamap.machine.calls import EmissionNames, resolve_nested
from isamap.machine.emission import CallTemplate, parse_emit
from isamap.machine.emit_nodes import EmitCall
from isamap.machine.target_fields import PartText
from isamap.machine.tree import Findings

PARTS = {
    "nearest": ("x",),
    "sqrt": ("x",),
    "scale": ("x", "n"),
    "at_least": ("x", "low"),
    "at_most": ("x", "high"),
    "if_less": ("a", "b", "c", "d"),
    "zero_if_less": ("a", "b", "d"),
    "some_beyond": ("a", "b"),
    "multiply_add": ("a", "b", "c"),
}
"""The parts, and their parameters, by the names that calls use."""
ANSWERS = frozenset({"some_beyond"})
"""The parts that say whether something holds, by a number that is not 0; the others make floats."""
KINDS = tuple(f"f32x{lanes}" for lanes in (4, 8, 16))


def resolve_parts(
    written: Sequence[PartText], headers: tuple[str, ...], findings: Findings
) -> tuple[tuple[str, EmitCall], ...]:
    """Return the parts of one file, checked."""
    known = [f"{part}_{kind}" for part in PARTS for kind in KINDS]
    found: list[tuple[str, EmitCall]] = []
    for part in written:
        if part.name.text not in known:
            findings.unknown("unknown-part", "part of functions", part.name.text, part.name.span, known)
            continue
        with findings.collect():
            found.append((part.name.text, _call(part, headers, findings)))
    return tuple(found)


def _call(part: PartText, headers: tuple[str, ...], findings: Findings) -> EmitCall:
    """Return the parsed and checked call of a part. Raises: SpecProblem."""
    template = parse_emit(part.text)
    given = PARTS[part.name.text.rpartition("_")[0]]
    if not isinstance(template, CallTemplate) or template.result is not None:
        findings.report(
            "emit-syntax", "a part is one call, and its value is the result", part.text.span,
            advice=f"write `function({', '.join(given)})`",
        )  # fmt: skip
        return EmitCall(None, None, "", ())
    around = EmissionNames({}, {}, headers, given)
    return resolve_nested(template.call, {}, Instruction(part.name.text, (), (), ()), around, findings)
