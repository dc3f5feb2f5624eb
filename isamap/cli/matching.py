"""`isamap match`: every way in which a machine's instructions perform a kernel, and why the others do not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from isamap.cli.answer import Answer, table
from isamap.cli.inputs import machine_of, read_kernel
from isamap.cli.options import AsJson, KernelName, MachineName, SizeWords
from isamap.cli.progress import Progress
from isamap.cli.words import did_you_mean, read_choice, read_sizes
from isamap.source import Diagnostic, NoMapping, UsageProblem

if TYPE_CHECKING:
    from isamap.machine import Machine
    from isamap.match import Mapping, Rejection

COUNTS = ("complete", "fixed")
KINDS = ("whole", "split", "degenerate")
SHOWN = 40


def match_command(
    kernel: KernelName,
    hw: MachineName,
    sizes: SizeWords = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why the other instructions do not match.")
    ] = False,
    count: Annotated[
        str,
        typer.Option(
            "--count", metavar="MODE", help="complete, or fixed: operands paired as they are written."
        ),
    ] = "complete",
    instruction: Annotated[
        str | None,
        typer.Option("--instruction", metavar="NAME", help="Of this instruction only.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Print every mapping, however many.")] = False,
    as_json: AsJson = False,
) -> Answer:
    """List every mapping of a kernel onto a machine's instructions."""
    from isamap.driver.pipeline import complete_sizes
    from isamap.ir import bind
    from isamap.machine import load_machine
    from isamap.match import find_mappings, refusals
    from isamap.syntax import parse_kernel
    from isamap.transform import statements

    mode = read_choice(count, "--count", COUNTS)
    given = read_sizes(sizes or ())
    routine = parse_kernel(read_kernel(kernel))
    if given:
        routine = bind(routine, complete_sizes(routine, given))
    with Progress() as progress:
        progress("match")
        machine = load_machine(machine_of(hw))
        _check_instruction(instruction, machine)
        mappings = find_mappings(routine, machine, "fixed" if mode == "fixed" else "complete")
        rejections = refusals(routine, machine, mappings)
    unmatched = set(range(len(statements(routine)))) - {m.statement for m in mappings}
    if instruction is not None:
        mappings = tuple(m for m in mappings if m.instruction == instruction)
        rejections = tuple(r for r in rejections if r.instruction == instruction)
    elif unmatched:
        raise _no_mapping(routine.name, machine, rejections, min(unmatched))
    counts = Counter(m.kind for m in mappings if not m.composed)
    payload = {
        "kernel": routine.name,
        "machine": machine.name,
        "mappings": [_mapping_json(m) for m in mappings],
        "count": counts["whole"],
        "split": counts["split"],
        "degenerate": counts["degenerate"],
        "composed": sum(m.composed for m in mappings),
        "rejections": [_rejection_json(r) for r in rejections],
    }
    return Answer(payload, _text(mappings, rejections if explain else (), every))


def _check_instruction(name: str | None, machine: Machine) -> None:
    if name is None or name in machine.instructions:
        return
    raise UsageProblem(
        Diagnostic(
            "unknown-instruction",
            f"{machine.name} has no instruction `{name[:80]}`",
            help=did_you_mean(name, machine.instructions) or f"`isamap hw show {machine.name}` lists them",
        )
    )


def _no_mapping(
    kernel: str, machine: Machine, rejections: tuple[Rejection, ...], statement: int
) -> NoMapping:
    nearest = [r for r in rejections if r.statement == statement][:3]
    return NoMapping(
        Diagnostic(
            "no-mapping",
            f"{machine.name} has no instruction that performs statement {statement} of {kernel}",
            nearest[0].span if nearest else None,
            notes=tuple(r.message for r in nearest),
        )
    )


def _mapping_json(m: Mapping) -> dict[str, object]:
    from isamap.ir import print_expr

    return {
        "instruction": m.instruction,
        "statement": m.statement,
        "operands": {b.name: print_expr(b.subject) for b in m.bindings},
        "axes": {axis: list(kernel_axes) for axis, kernel_axes in m.axes.items()},
        "kind": m.kind,
        "composed": m.composed,
        "proof": "unproved",
    }


def _rejection_json(r: Rejection) -> dict[str, object]:
    span = None
    if r.span is not None:
        span = {"file": r.span.source.name, "line": r.span.line, "column": r.span.column}
    return {
        "instruction": r.instruction,
        "statement": r.statement,
        "reason": r.reason,
        "message": r.message,
        "span": span,
        "edit": r.edit,
    }


def _text(mappings: tuple[Mapping, ...], rejections: tuple[Rejection, ...], every: bool) -> str:
    per_instruction = Counter((m.statement, m.instruction, m.kind, m.composed) for m in mappings)
    rows: list[tuple[str, ...]] = [("statement", "instruction", *KINDS, "composed")]
    for statement, name in dict.fromkeys((m.statement, m.instruction) for m in mappings):
        plain = [per_instruction[statement, name, kind, False] for kind in KINDS]
        composed = sum(per_instruction[statement, name, kind, True] for kind in KINDS)
        rows.append((str(statement), name, *map(str, plain), str(composed)))
    shown = mappings if every else mappings[:SHOWN]
    lines = [table(rows), ""]
    lines += [
        f"statement {m.statement}: {m.ident}  ({m.kind}{', composed' if m.composed else ''})" for m in shown
    ]
    if len(shown) < len(mappings):
        lines.append(
            f"… and {len(mappings) - len(shown)} more: --all shows them, --instruction NAME those of one"
        )
    if not mappings:
        lines = ["no mapping"]
    if rejections:
        lines += [
            "",
            table(
                [
                    ("statement", "reason", "why not"),
                    *((str(r.statement), r.reason, r.message) for r in rejections),
                ]
            ),
        ]
    return "\n".join(lines)
