"""List the variants to which a kernel can be rewritten, with their mappings, the best first.

0  as written  0 whole, 0 split, 0 degenerate; 1 statement that nothing performs
1  better      14 whole, 0 split, 42 degenerate
     factorisation: `X_F[n, c, p] += …`, then `Y[n, k, p] += …`: … operations instead of …

The module also prints the edits of a kernel's text, and its mappings afterwards:

gemm_f32 edited for tdpbf16ps on x86-amx
  [operand-type-differs] tdpbf16ps takes a of bf16; `A[m, k]` is f32
  2 -   in A: f32[M, K];
  2 +   in A: bf16[M, K];
tdpbf16ps now has 0 whole, 2 split, 0 degenerate: tdpbf16ps { m: m, n: n, k: k, p: k } (a = A[m, k], …)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from isamap.ir import Kernel, print_routine
from isamap.match import Fix, Gain
from isamap.report.columns import count_text
from isamap.report.mapping_facts import Matched, Tally, tally
from isamap.report.mappings import counts_text
from isamap.source import Source, asdict, dataclass
from isamap.transform import Refusal, refused_rewrites


def fix_text(before: Source, fix: Fix, matched: Matched) -> str:
    """Return the refusal, the changed lines, and the instruction's mappings after the edit."""
    name = fix.rejection.instruction
    own = (m for m in matched.mappings if (m.instruction, m.statement) == (name, fix.mapping.statement))
    lines = [f"{matched.kernel.name} edited for {name} on {matched.machine.name}"]
    lines.append(f"  [{fix.rejection.reason}] {fix.rejection.message}")
    lines += [f"  {line}" for line in changed_lines(before.text, fix.text)]
    if not fix.keeps_result:
        lines.append("the kernel computes a different result now: check that this is intended")
    lines.append(f"{name} now has {counts_text(tally(own))}: {fix.mapping.ident}")
    return "\n".join(lines)


def changed_lines(before: str, after: str) -> Iterator[str]:
    """Yield the lines that only one of two texts has, with their numbers: `-` for removed, `+` for added lines."""
    old, new = before.splitlines(), after.splitlines()
    for what, i, j, k, n in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what != "equal":
            yield from (f"{at + 1:>3} - {old[at]}" for at in range(i, j))
            yield from (f"{at + 1:>3} + {new[at]}" for at in range(k, n))


FEW = 8
"""Forms shown that are better than the kernel as written."""

GAINS = 4
"""Instructions named of those that perform more of a form."""


@dataclass(frozen=True, slots=True)
class KernelVariant:
    """A variant of a kernel with its mappings. The kernel as written has no steps.

    `kernel` is before sizes are given. `gains` are the instructions that perform more of it, `rounded` is as
    that of the rewrite.
    """

    kernel: Kernel
    steps: tuple[str, ...]
    gains: tuple[Gain, ...]
    matched: Matched
    rounded: Kernel | None = None

    @property
    def tally(self) -> Tally:
        return self.matched.counts


def forms_text(forms: Sequence[KernelVariant], chosen: int | None, *, every: bool = False) -> str:
    """Return the kernel as written, the variants with more mappings, and the chosen one."""
    written = forms[0].matched
    best = [n for n, f in enumerate(forms) if not n or f.gains][: FEW + 1]
    shown = range(len(forms)) if every else sorted({*best, chosen or 0})
    lines = [f"{written.kernel.name} on {written.machine.name}, {count_text(len(forms) - 1, 'rewrite')}"]
    lines += [line for n in shown for line in _form_lines(n, forms[n])]
    if len(shown) < len(forms):
        lines.append(f"  … and {len(forms) - len(shown)} more: --all lists them")
    if every:
        lines += [f"not rewritten: {_refusal_text(r)}" for r in refused_rewrites(forms[0].kernel)]
    if chosen is None:
        lines.append("no rewrite matches more than the kernel as written")
    else:
        lines.append(f"the kernel in form {chosen}:")
    return "\n".join(lines)


def _refusal_text(refusal: Refusal) -> str:
    return refusal.reason if refusal.help is None else f"{refusal.reason}; {refusal.help}"


def _form_lines(number: int, form: KernelVariant) -> Iterator[str]:
    counts = counts_text(form.tally)
    yield f"{number:>3}  {'' if number else 'as written: '}{counts}"
    yield from (f"       {step}" for step in form.steps)
    yield from (f"       so {_gain_text(gain)}" for gain in form.gains[:GAINS])
    if len(form.gains) > GAINS:
        yield f"       and {count_text(len(form.gains) - GAINS, 'gain')} more"


def _gain_text(gain: Gain) -> str:
    numbers = " and ".join(map(str, gain.statements))
    statements = "statement" if len(gain.statements) == 1 else "statements"
    more = f"{gain.before} as written" if gain.before else "none as written"
    return f"{gain.instruction} performs {statements} {numbers} in {count_text(gain.mappings, 'way')}, {more}"


def forms_json(forms: Sequence[KernelVariant], chosen: int | None) -> dict[str, object]:
    """Return all variants as JSON, with the text of the chosen one."""
    written = forms[0].matched
    return {
        "kernel": written.kernel.name,
        "machine": written.machine.name,
        "mode": written.mode,
        "forms": [
            {
                "steps": list(form.steps),
                "gains": [asdict(gain) for gain in form.gains],
                **form.tally.as_json(),
                "text": print_routine(form.kernel),
            }
            for form in forms
        ],
        "refused": [_refusal_text(r) for r in refused_rewrites(forms[0].kernel)],
        "chosen": chosen,
        "text": None if chosen is None else print_routine(forms[chosen].kernel),
    }
