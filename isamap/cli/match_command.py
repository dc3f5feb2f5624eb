"""`isamap match`: list all mappings of a kernel onto a machine's instructions, and explain the rejections.

For several kernels or folders of kernels, it prints a coverage matrix. `--fix` and `--transform` edit a
kernel's text so that more of a machine matches it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding, write_text
from isamap.cli.early_words import read_sizes
from isamap.cli.option_parser import (
    KERNEL_HELP,
    MACHINE_HELP,
    SIZES,
    CommandOptions,
    argument,
    flag,
    one_word,
)
from isamap.driver.inputs import machine_of, read_file, read_kernel
from isamap.driver.options import WORDS, given_flags, one_of, option
from isamap.driver.request import BEST_FORM
from isamap.ir import print_stmt
from isamap.kernels import kernel_path, list_kernels
from isamap.match import lacking_abilities
from isamap.source import Diagnostic, IsamapError, NoMapping, Source, UsageProblem, did_you_mean, is_digits
from isamap.source.progress import Progress
from isamap.source.records import dataclass
from isamap.transform import statements

if TYPE_CHECKING:
    from isamap.driver.request import Size
    from isamap.machine import Machine
    from isamap.match import CountMode, Rejection
    from isamap.report.coverage import Coverage
    from isamap.report.kernel_forms import KernelVariant
    from isamap.report.mapping_facts import Matched


COUNTS: tuple[CountMode, ...] = ("complete", "fixed", "amos")


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchOptions(CommandOptions):
    """The options of `match`."""

    kernels: tuple[str, ...] = argument(
        "KERNEL…", f"{KERNEL_HELP}; several of them, or a folder, give a matrix.", kind=WORDS
    )
    hw: tuple[str, ...] = option("--hw", "MACHINE", f"{MACHINE_HELP}; several give a matrix.", WORDS)
    sizes: tuple[str, ...] = SIZES.field()
    explain: bool = flag("--explain", "Say why the other instructions do not match, nearest first.")
    variants: bool = flag("--variants", "List fusion orders, cuts and tails, with the data movement of each.")
    count: CountMode = option(
        "--count", "MODE", "complete; fixed: operands paired as they are written; "
        "amos: what AMOS's code finds.",
        one_of(*COUNTS), default="complete",
    )  # fmt: skip
    instruction: str | None = one_word("--instruction", "NAME", "Of this instruction only.")
    fix: bool = flag("--fix", "Edit the kernel as the nearest refusal says.")
    transform: str | None = one_word(
        "--transform",
        "[N]",
        "Rewrite the kernel so that more matches: the best way, or way N of those listed.",
    )
    output: str | None = one_word(
        "-o, --output", "FILE", "Where --fix and --transform write the kernel; - prints it alone."
    )
    overwrite: bool = flag("--overwrite", "Replace FILE where it exists.")
    every: bool = flag("--all", "Print everything, however much.")


SHIPPED = "kernels"
"""The word for the folder of shipped kernels, unless a local folder has that name."""


def is_several(words: Sequence[str]) -> bool:
    """Return whether words name more than one kernel, or a folder."""
    return len(words) > 1 or _is_folder(words[0])


def coverage_answer(words: Sequence[str], machines: Sequence[str], mode: CountMode) -> Answer:
    """Return the coverage matrix of the named kernels. A kernel with errors is a finding and has no row."""
    from isamap.report.coverage import coverage_json, coverage_text, overview_text

    sources = [source for word in dict.fromkeys(words) for source in _sources(word)]
    found: list[Coverage] = []
    findings: tuple[Finding, ...] = ()
    with Progress() as progress:
        for machine in dict.fromkeys(machines):
            one, findings = _find_coverage(sources, machine, mode, progress)
            found.append(one)
    if len(found) == 1:
        payload, text = coverage_json(found[0]), coverage_text(found[0])
    else:
        payload, text = {"machines": [coverage_json(c) for c in found]}, overview_text(found)
    return Answer(payload, text if found[0].rows else "", findings, 2 if findings else 0)


def _find_coverage(
    sources: Sequence[Source], machine_name: str, mode: CountMode, progress: Progress
) -> tuple[Coverage, tuple[Finding, ...]]:
    """Return the coverage matrix of one machine, and the errors in kernels."""
    from isamap.driver.matching import match_kernel
    from isamap.machine import at_one_length, load_machine
    from isamap.report.coverage import coverage_of

    machine = at_one_length(load_machine(machine_name))
    found: list[Matched] = []
    findings: list[Finding] = []
    for source in sources:
        progress(f"match {source.name} on {machine.name}")
        try:
            found.append(match_kernel(source, machine, {}, mode))
        except IsamapError as error:
            findings += [Finding.of(d) for d in error.diagnostics]
    return coverage_of(machine, found, mode), tuple(findings)


def _sources(word: str) -> list[Source]:
    """Return the kernel that a word names, or all kernels in a folder. Raises: UsageProblem."""
    if not _is_folder(word):
        return [read_kernel(word)]
    folder = Path(word)
    if not folder.is_dir():
        return [read_file(kernel_path(name), f"{name}.ir") for name in list_kernels()]
    try:
        paths = sorted(p for p in folder.iterdir() if p.suffix == ".ir" and p.is_file())
    except OSError as error:
        raise UsageProblem.of("file-unreadable", f"{word} cannot be read: {error.strerror}") from None
    if not paths:
        raise UsageProblem.of(
            "no-kernels", f"the folder {word} holds no kernel", help="a kernel's file ends in .ir"
        )
    return [read_file(path, str(path)) for path in paths]


def _is_folder(word: str) -> bool:
    try:
        return Path(word).is_dir() or word.rstrip("/") == SHIPPED
    except ValueError:
        return False


def match_command(asked: MatchOptions) -> Answer:
    """List every mapping of a kernel onto a machine's instructions, or count them for many kernels."""
    from isamap.driver.matching import match_kernel
    from isamap.machine import at_one_length, load_machine

    sizes = read_sizes(asked.sizes)
    machines = [machine_of(word) for word in asked.hw]
    # Check that `-o` has exactly one result to write. Raises: UsageProblem.
    writers = [one for one in ("--fix", "--transform") if one in given_flags(asked)]
    if len(writers) > 1:
        raise _usage(f"`isamap match` takes {' or '.join(writers)}, not both", "run one after the other")
    if (asked.output is not None or asked.overwrite) and not writers:
        option = "-o" if asked.output is not None else "--overwrite"
        raise _usage(f"`isamap match` takes {option} with --fix or --transform", "only they write a kernel")
    if is_several(asked.kernels) or len(machines) > 1:
        _check_alone(asked)
        return coverage_answer(asked.kernels, machines, asked.count)
    source = read_kernel(asked.kernels[0])
    with Progress() as progress:
        progress("match")
        machine = at_one_length(load_machine(machines[0]))
        _check_instruction(asked.instruction, machine)
        if asked.fix:
            return _fix_answer(asked, source, machine, sizes)
        if asked.transform is not None:
            return _transform_answer(asked, source, machine, sizes, asked.transform)
        return _list_mappings(match_kernel(source, machine, sizes, asked.count), asked)


def _list_mappings(matched: Matched, asked: MatchOptions) -> Answer:
    """Return the mappings of a kernel to all instructions or to one, with the additions that options request."""
    from isamap.match import refusals
    from isamap.report.mapping_json import mappings_json
    from isamap.report.mappings import FEW, mappings_text, unmoved_text, variants_json, variants_text
    from isamap.report.refusals import refusals_text, rejections_json

    instruction, every, as_json = asked.instruction, asked.every, asked.as_json
    unmatched = matched.unperformed
    findings: tuple[Finding, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    if asked.explain or as_json or unmatched:
        rejections = refusals(matched.kernel, matched.machine, matched.mappings)
    if instruction is None:
        findings = unmatched_findings(matched, rejections)
        if matched.sizes and not any(f.json["severity"] == "error" for f in findings):
            findings += scalar_findings(matched)
    else:
        matched = matched.only(instruction)
        rejections = tuple(r for r in rejections if r.instruction == instruction)
    status = 3 if any(f.json["severity"] == "error" for f in findings) else 0
    if as_json:
        payload = {
            **mappings_json(matched, None if every else FEW),
            "rejections": rejections_json(rejections),
            **({"variants": variants_json(matched, every=every)} if asked.variants else {}),
        }
        return Answer(payload, "", findings, status)
    text = mappings_text(matched, every=every)
    if asked.variants:
        text += "\n\n" + variants_text(matched, every=every)
    if asked.explain:
        unmoved = unmoved_text(matched, every=every)
        text += f"\n\n{unmoved}" if unmoved else ""
        text += "\n\n" + refusals_text(matched, rejections, every=every, moved=not unmoved)
    return Answer({}, text, findings, status)


def _usage(message: str, advice: str) -> UsageProblem:
    return UsageProblem.of("usage", message, help=advice)


def _check_alone(asked: MatchOptions) -> None:
    of_one = ("-D", "--explain", "--variants", "--instruction", "--fix", "--transform")
    if given := [option for option in of_one if option in given_flags(asked)]:
        raise UsageProblem.of(
            "one-kernel-only",
            f"`isamap match` takes {given[0]} with one kernel and one machine, not with several",
            help="name one of each, or leave the option out",
        )


def _check_instruction(name: str | None, machine: Machine) -> None:
    if name is None or name in machine.instructions:
        return
    raise UsageProblem.of(
        "unknown-instruction",
        f"{machine.name} has no instruction `{name[:80]}`",
        help=did_you_mean(name, machine.instructions) or f"`isamap hw show {machine.called}` lists them",
    )


def unmatched_findings(matched: Matched, rejections: tuple[Rejection, ...]) -> tuple[Finding, ...]:
    """Return findings about statements without a mapping: how compilation performs them, or why it refuses them.

    At given sizes a statement is one of these, too, if no mapping of it can move all of its operands. If every
    mapping has operands that must be computed first, compilation may refuse the statement.
    """
    numbers = range(len(matched.statements))
    uncarried = (n for n in numbers if matched.sizes and matched.look.reasons_against(n))
    lacking = tuple(dict.fromkeys((*matched.unperformed, *uncarried)))
    plain = {m.statement for m in matched.mappings if not m.composed}.union(
        *(g.statements for g in matched.groups)
    )
    if not lacking and plain.issuperset(numbers):
        return ()
    from isamap.driver.formulation import formulate_matched

    try:
        canonical, problem, sizes = formulate_matched(matched)
    except NoMapping as error:
        unmatched = tuple(_no_mapping(matched, rejections, number) for number in matched.unperformed)
        return unmatched or tuple(Finding.of(diagnostic) for diagnostic in error.diagnostics)
    if not lacking:
        return ()
    fine = {print_stmt(s.assign) for n, s in enumerate(matched.statements) if n not in lacking}
    forms = zip((print_stmt(s.assign) for s in statements(canonical)), problem.nests, strict=True)
    at = ", ".join(f"{name} = {value}" for name, value in sorted(sizes.items()))
    first = matched.statements[lacking[0]].assign
    return (
        Finding.of(
            Diagnostic(
                "performed-in-parts",
                f"no single instruction performs statement {lacking[0]} of {matched.kernel.name}; compilation "
                f"performs it in parts{f', for example at {at}' if at else ''}",
                first.guard.span if first.guard is not None else first.span,
                severity="note",
                notes=tuple(
                    f"`{text.rstrip(';')}` by {' or '.join(dict.fromkeys(o.mapping for o in nest.options))}"
                    if nest.options
                    else f"`{text.rstrip(';')}` fused into another statement"
                    for text, nest in forms
                    if text not in fine
                ),
                help=None
                if matched.sizes
                else "with sizes (`-D`), a warning names each statement that stays scalar",
            )
        ),
    )


def scalar_findings(matched: Matched) -> tuple[Finding, ...]:
    """Return warnings about statements that compilation performs one element at a time."""
    from isamap.driver.explaining import scalar_warnings
    from isamap.driver.formulation import formulate_matched

    canonical, problem, _ = formulate_matched(matched)
    return tuple(Finding.of(warning) for warning in scalar_warnings(canonical, matched.machine, problem))


def _no_mapping(matched: Matched, rejections: tuple[Rejection, ...], statement: int) -> Finding:
    own = [r for r in rejections if r.statement == statement]
    nearest = ([r for r in own if r.instruction in matched.computing] or own)[:3]
    name = matched.machine.name
    lacks = lacking_abilities(statements(matched.kernel)[statement], matched.machine)
    return Finding.of(
        Diagnostic(
            "no-mapping",
            f"{name} has no instruction that performs statement {statement} of {matched.kernel.name}",
            nearest[0].span if nearest else None,
            notes=lacks or tuple(r.message for r in nearest),
            help=f"`isamap match --explain --hw {matched.machine.called}` says what each instruction lacks",
        )
    )


def _write_kernel(asked: MatchOptions, said: str, text: str) -> str:
    """Write the kernel's text if `-o` is given. Return the output: the changes, and the text or its file."""
    if asked.output is None:
        return f"{said}\n\n{text}"
    if asked.output == "-":
        return text
    write_text(Path(asked.output), text, overwrite=asked.overwrite)
    return f"{said}\nwrote {asked.output}"


def _fix_answer(asked: MatchOptions, source: Source, machine: Machine, sizes: Mapping[str, Size]) -> Answer:
    """Return the kernel edited so that an instruction performs it. Raises: UsageProblem if no edit is known."""
    from isamap.driver.matching import fix_kernel
    from isamap.report.kernel_forms import fix_text
    from isamap.report.mapping_json import mappings_json
    from isamap.report.refusals import rejections_json

    fixed = fix_kernel(source, machine, sizes, asked.count, asked.instruction)
    if fixed is None:
        what = asked.instruction if asked.instruction is not None else f"any instruction of {machine.name}"
        raise UsageProblem.of(
            "nothing-to-fix",
            f"no edit of {source.name} is known that makes {what} perform more of it",
            help="`isamap match --explain` says why instructions do not match",
        )
    said = fix_text(source, fixed.fix, fixed.matched)
    printed = _write_kernel(asked, said, fixed.fix.text)
    payload = {
        **mappings_json(fixed.matched),
        "answered": rejections_json((fixed.fix.rejection,))[0],
        "keeps_result": fixed.fix.keeps_result,
        "text": fixed.fix.text,
        "file": asked.output,
    }
    return Answer(payload, printed)


def _transform_answer(
    asked: MatchOptions, source: Source, machine: Machine, sizes: Mapping[str, Size], which: str
) -> Answer:
    """Return a rewrite of the kernel, the best or a numbered one, with the mappings of each rewrite."""
    from isamap.driver.matching import forms_of
    from isamap.ir import print_routine
    from isamap.report.kernel_forms import forms_json, forms_text

    forms = forms_of(source, machine, sizes, asked.count, asked.instruction)
    number = _choose_form(which, forms)
    said = forms_text(forms, number, every=asked.every)
    payload = {**forms_json(forms, number), "file": asked.output if number else None}
    if number is None:
        if asked.output is not None:
            written = forms[0].matched
            raise UsageProblem.of(
                "nothing-to-transform",
                f"no rewrite of {written.kernel.name} makes {written.machine.name} match more of it",
                notes=(f"tried: {len(forms) - 1}",),
                help="`--transform N` writes one of them all the same" if len(forms) > 1 else None,
            )
        return Answer(payload, said)
    return Answer(payload, _write_kernel(asked, said, print_routine(forms[number].kernel)))


def _choose_form(which: str, forms: Sequence[KernelVariant]) -> int | None:
    """Return the number of a variant, or None for the kernel as written. The word `best` selects number 1."""
    if which == BEST_FORM:
        return 1 if len(forms) > 1 and forms[1].gains else None
    number = int(which) if is_digits(which) and len(which) < 9 else 0
    if not 1 <= number < len(forms):
        there = f"1 to {len(forms) - 1}" if len(forms) > 2 else "1" if len(forms) > 1 else "there is none"
        raise UsageProblem.of(
            "option-value",
            f"--transform takes the number of a rewrite, {there}, not `{which[:40]}`",
            help="`--transform --all` lists them",
        )
    return number
