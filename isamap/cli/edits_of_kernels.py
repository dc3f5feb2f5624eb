"""`isamap match --fix` and `--transform`: edit a kernel's text so that more of a machine matches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, write_text
from isamap.driver.request import BEST_FORM
from isamap.source import Diagnostic, Source, UsageProblem, is_digits

if TYPE_CHECKING:
    from isamap.driver.request import Size
    from isamap.machine import Machine
    from isamap.match import CountMode
    from isamap.report.kernel_forms import Form


@dataclass(frozen=True, slots=True)
class Output:
    """The destination of a changed kernel: a file, or standard output without a path."""

    path: str | None
    overwrite: bool

    def place(self, said: str, text: str) -> str:
        """Write the kernel's text, and return what is printed: what was done, and the text or its file."""
        if self.path is None:
            return f"{said}\n\n{text}"
        if self.path == "-":
            return text
        write_text(Path(self.path), text, overwrite=self.overwrite)
        return f"{said}\nwrote {self.path}"


def fix_answer(
    source: Source,
    machine: Machine,
    sizes: Mapping[str, Size],
    mode: CountMode,
    instruction: str | None,
    output: Output,
) -> Answer:
    """Return the kernel edited so that an instruction performs it. Raises: UsageProblem where no edit is known."""
    from isamap.driver.matching import fix_kernel
    from isamap.report.kernel_forms import fix_text
    from isamap.report.mapping_json import mappings_json
    from isamap.report.refusals import rejections_json

    fixed = fix_kernel(source, machine, sizes, mode, instruction)
    if fixed is None:
        raise _nothing_to_fix(source, machine, instruction)
    said = fix_text(source, fixed.fix, fixed.matched)
    printed = output.place(said, fixed.fix.text)
    payload = {
        **mappings_json(fixed.matched),
        "answered": rejections_json((fixed.fix.rejection,))[0],
        "keeps_result": fixed.fix.keeps_result,
        "text": fixed.fix.text,
        "file": output.path,
    }
    return Answer(payload, printed)


def _nothing_to_fix(source: Source, machine: Machine, instruction: str | None) -> UsageProblem:
    what = instruction if instruction is not None else f"any instruction of {machine.name}"
    return UsageProblem(
        Diagnostic(
            "nothing-to-fix",
            f"no edit of {source.name} is known that makes {what} perform more of it",
            help="`isamap match --explain` says why instructions do not match",
        )
    )


def transform_answer(
    source: Source,
    machine: Machine,
    sizes: Mapping[str, Size],
    mode: CountMode,
    instruction: str | None,
    which: str,
    output: Output,
    *,
    every: bool,
) -> Answer:
    """Return a rewrite of the kernel, the best or a numbered one, and what each would match."""
    from isamap.driver.matching import forms_of
    from isamap.ir import print_routine
    from isamap.report.kernel_forms import forms_json, forms_text

    forms = forms_of(source, machine, sizes, mode, instruction)
    number = _chosen(which, forms)
    said = forms_text(forms, number, every=every)
    payload = {**forms_json(forms, number), "file": output.path if number else None}
    if number is None:
        if output.path is not None:
            raise _nothing_better(forms)
        return Answer(payload, said)
    return Answer(payload, output.place(said, print_routine(forms[number].kernel)))


def _chosen(which: str, forms: Sequence[Form]) -> int | None:
    """Return the number of a form; the best has number 1 where it is better than the kernel as written."""
    if which == BEST_FORM:
        return 1 if len(forms) > 1 and forms[1].gains else None
    number = int(which) if is_digits(which) and len(which) < 9 else 0
    if not 1 <= number < len(forms):
        there = f"1 to {len(forms) - 1}" if len(forms) > 2 else "1" if len(forms) > 1 else "there is none"
        raise UsageProblem(
            Diagnostic(
                "option-value",
                f"--transform takes the number of a rewrite, {there}, not `{which[:40]}`",
                help="`--transform --all` lists them",
            )
        )
    return number


def _nothing_better(forms: Sequence[Form]) -> UsageProblem:
    written = forms[0].matched
    return UsageProblem(
        Diagnostic(
            "nothing-to-transform",
            f"no rewrite of {written.kernel.name} makes {written.machine.name} match more of it",
            notes=(f"tried: {len(forms) - 1}",),
            help="`--transform N` writes one of them all the same" if len(forms) > 1 else None,
        )
    )
