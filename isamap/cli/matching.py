"""`isamap match`: every way in which a machine's instructions perform a kernel, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from isamap.cli.answer import Answer, Finding
from isamap.cli.coverage import coverage_answer, is_several
from isamap.cli.inputs import machine_of, read_kernel
from isamap.cli.options import AsJson, KernelNames, MachineName, SizeWords
from isamap.cli.progress import Progress
from isamap.cli.words import did_you_mean, read_choice, read_sizes
from isamap.source import Diagnostic, UsageProblem

if TYPE_CHECKING:
    from isamap.machine import Machine
    from isamap.match import CountMode, Rejection
    from isamap.report.facts import Matched

COUNTS: tuple[CountMode, ...] = ("complete", "fixed", "amos")


def match_command(
    kernels: KernelNames,
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
    every: Annotated[bool, typer.Option("--all", help="Print everything, however much.")] = False,
    as_json: AsJson = False,
) -> Answer:
    """List every mapping of a kernel onto a machine's instructions, or what it has for many kernels."""
    from isamap.driver.matching import match_kernel
    from isamap.machine import load_machine
    from isamap.match import refusals
    from isamap.report.mappings import mappings_json, mappings_text
    from isamap.report.refusals import refusals_text, rejections_json

    mode = read_choice(count, "--count", COUNTS)
    given = read_sizes(sizes or ())
    if is_several(kernels):
        _check_alone({"-D": given, "--explain": explain, "--instruction": instruction})
        return coverage_answer(kernels, machine_of(hw), mode)
    source = read_kernel(kernels[0])
    with Progress() as progress:
        progress("match")
        machine = load_machine(machine_of(hw))
        _check_instruction(instruction, machine)
        matched = match_kernel(source, machine, given, mode)
        unmatched = set(range(len(matched.statements))) - {m.statement for m in matched.mappings}
        asked = explain or as_json or unmatched
        rejections = refusals(matched.kernel, machine, matched.mappings) if asked else ()
        findings: tuple[Finding, ...] = ()
        if instruction is not None:
            own = tuple(m for m in matched.mappings if m.instruction == instruction)
            matched = replace(matched, mappings=own)
            rejections = tuple(r for r in rejections if r.instruction == instruction)
        else:
            findings = tuple(_no_mapping(matched, rejections, number) for number in sorted(unmatched))
        payload = {**mappings_json(matched), "rejections": rejections_json(rejections)} if as_json else {}
        text = "" if as_json else mappings_text(matched, every=every)
        if explain and not as_json:
            text += "\n\n" + refusals_text(matched, rejections, every=every)
    return Answer(payload, text, findings, 3 if findings else 0)


def _check_alone(options: Mapping[str, object]) -> None:
    given = [option for option, value in options.items() if value]
    if given:
        raise UsageProblem(
            Diagnostic(
                "one-kernel-only",
                f"`isamap match` takes {given[0]} with one kernel, not with several",
                help="name one kernel, or leave the option out",
            )
        )


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


def _no_mapping(matched: Matched, rejections: tuple[Rejection, ...], statement: int) -> Finding:
    nearest = [r for r in rejections if r.statement == statement][:3]
    name = matched.machine.name
    return Finding.of(
        Diagnostic(
            "no-mapping",
            f"{name} has no instruction that performs statement {statement} of {matched.kernel.name}",
            nearest[0].span if nearest else None,
            notes=tuple(r.message for r in nearest),
        )
    )
