"""What was changed in a kernel's text, and what matches it now.

gemm_f32 edited for tdpbf16ps on x86-amx
  [operand-type-differs] tdpbf16ps takes a of bf16; `A[m, k]` is f32
  2 -   in A: f32[M, K];
  2 +   in A: bf16[M, K];
tdpbf16ps now has 0 whole, 2 split, 0 degenerate: tdpbf16ps { m: m, n: n, k: k, p: k } (a = A[m, k], …)
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from isamap.match import Fix
from isamap.report.facts import Matched
from isamap.report.mappings import counts_text
from isamap.report.tally import tally
from isamap.source import Source


def fix_text(before: Source, fix: Fix, matched: Matched) -> str:
    """The refusal that was answered, the lines that changed, and what the instruction performs now."""
    name = fix.rejection.instruction
    own = (m for m in matched.mappings if (m.instruction, m.statement) == (name, fix.mapping.statement))
    lines = [f"{matched.kernel.name} edited for {name} on {matched.machine.name}"]
    lines.append(f"  [{fix.rejection.reason}] {fix.rejection.message}")
    lines += [f"  {line}" for line in changed_lines(before.text, fix.text)]
    if not fix.keeps_result:
        lines.append("the kernel computes something else now: see whether it is what you want")
    lines.append(f"{name} now has {counts_text(tally(own))}: {fix.mapping.ident}")
    return "\n".join(lines)


def changed_lines(before: str, after: str) -> Iterator[str]:
    """Lines that are in one of two texts only, with their numbers: `-` was there, `+` is there now."""
    old, new = before.splitlines(), after.splitlines()
    for what, i, j, k, n in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what != "equal":
            yield from (f"{at + 1:>3} - {old[at]}" for at in range(i, j))
            yield from (f"{at + 1:>3} + {new[at]}" for at in range(k, n))
