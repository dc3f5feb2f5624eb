"""The forms that a kernel can be rewritten to, with what matches each: the best first.

0  as written  0 whole, 0 split, 0 degenerate; 1 statement that nothing performs
1  better      14 whole, 0 split, 42 degenerate
     factorisation: `X_F[n, c, p] += …`, then `Y[n, k, p] += …`: … operations in place of …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isamap.ir import Kernel, print_routine
from isamap.match import Gain
from isamap.report.facts import Matched
from isamap.report.mappings import counts_text
from isamap.report.tally import Tally

FEW = 8
"""Forms shown that are better than the kernel as written."""

GAINS = 4
"""Instructions named of those that perform more of a form."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a kernel and what matches it; the kernel as it is written has no steps.

    `kernel` is before sizes are given. `gains` are the instructions that perform more of it.
    """

    kernel: Kernel
    steps: tuple[str, ...]
    gains: tuple[Gain, ...]
    matched: Matched

    @property
    def tally(self) -> Tally:
        return self.matched.counts


def forms_text(forms: Sequence[Form], chosen: int | None, *, every: bool = False) -> str:
    """The kernel as written, the forms of which more is performed, and which one was chosen."""
    written = forms[0].matched
    best = [n for n, f in enumerate(forms) if not n or f.gains][: FEW + 1]
    shown = range(len(forms)) if every else sorted({*best, chosen or 0})
    lines = [f"{written.kernel.name} on {written.machine.name}, {_counted(len(forms) - 1, 'rewrite')}"]
    lines += [line for n in shown for line in _form_lines(n, forms[n])]
    if len(shown) < len(forms):
        lines.append(f"  … and {len(forms) - len(shown)} more: --all lists them")
    if chosen is None:
        lines.append("no rewrite matches more than the kernel as written")
    else:
        lines.append(f"the kernel in form {chosen}:")
    return "\n".join(lines)


def _form_lines(number: int, form: Form) -> Iterator[str]:
    counts = counts_text(form.tally)
    yield f"{number:>3}  {'' if number else 'as written: '}{counts}"
    yield from (f"       {step}" for step in form.steps)
    yield from (f"       so {_gain_text(gain)}" for gain in form.gains[:GAINS])
    if len(form.gains) > GAINS:
        yield f"       and {_counted(len(form.gains) - GAINS, 'gain')} more"


def _gain_text(gain: Gain) -> str:
    numbers = " and ".join(map(str, gain.statements))
    statements = "statement" if len(gain.statements) == 1 else "statements"
    more = f"{gain.before} as written" if gain.before else "nothing as written"
    return f"{gain.instruction} performs {statements} {numbers} in {_counted(gain.mappings, 'way')}, {more}"


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
                "gains": [
                    {
                        "instruction": g.instruction,
                        "statements": list(g.statements),
                        "mappings": g.mappings,
                        "before": g.before,
                    }
                    for g in form.gains
                ],
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
