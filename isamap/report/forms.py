"""The forms that a kernel can be rewritten to, with what matches each: the best first.

0  as written  0 whole, 0 split, 0 degenerate; 1 statement that nothing performs
1  better      14 whole, 0 split, 42 degenerate
     factorisation: `X_F[n, c, p] += …`, then `Y[n, k, p] += …`: … operations in place of …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isamap.ir import Kernel, print_routine
from isamap.report.facts import Matched
from isamap.report.mappings import counts_text
from isamap.report.tally import Tally, computed, is_computing

FEW = 8


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a kernel and what matches it; the kernel as it is written has no steps.

    `kernel` is before sizes are given. `unperformed` counts the statements that compute and have no mapping.
    """

    kernel: Kernel
    steps: tuple[str, ...]
    matched: Matched

    @property
    def tally(self) -> Tally:
        return computed(self.matched.statements, self.matched.mappings)

    @property
    def unperformed(self) -> int:
        return sum(is_computing(self.matched.statements[n]) for n in self.matched.unperformed)

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """More of it is performed, or in more ways, the higher this is."""
        t = self.tally
        return -self.unperformed, t.count, t.split, t.degenerate


def forms_text(forms: Sequence[Form], chosen: int | None, *, every: bool = False) -> str:
    """The kernel as written, the forms of which more is performed, and which one was chosen."""
    written = forms[0]
    name = f"{written.matched.kernel.name} on {written.matched.machine.name}"
    shown = [n for n, f in enumerate(forms) if every or not n or f.rank > written.rank][
        : None if every else FEW
    ]
    lines = [f"{name}, {_counted(len(forms) - 1, 'rewrite')}"]
    lines += [line for n in shown for line in _form_lines(n, forms[n], written)]
    if len(shown) < len(forms):
        lines.append(f"  … and {len(forms) - len(shown)} more: --all lists them")
    if chosen is None:
        lines.append("no rewrite matches more than the kernel as written")
    else:
        lines.append(f"the kernel in form {chosen}:")
    return "\n".join(lines)


def _form_lines(number: int, form: Form, written: Form) -> Iterator[str]:
    worth = "better" if form.rank > written.rank else "as good" if form.rank == written.rank else "worse"
    said = counts_text(form.tally)
    if form.unperformed:
        said += f"; {_counted(form.unperformed, 'statement')} that nothing performs"
    yield f"{number:>3}  {worth if number else 'as written':<10}  {said}"
    yield from (f"       {step}" for step in form.steps)


def forms_json(forms: Sequence[Form], chosen: int | None) -> dict[str, object]:
    """All forms as JSON, and the text of the chosen one."""
    written = forms[0].matched
    return {
        "kernel": written.kernel.name,
        "machine": written.machine.name,
        "mode": written.mode,
        "forms": [
            {
                "steps": list(form.steps),
                "unperformed": form.unperformed,
                **form.tally.as_json(),
                "text": print_routine(form.kernel),
            }
            for form in forms
        ],
        "chosen": chosen,
        "text": None if chosen is None else print_routine(forms[chosen].kernel),
    }


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
