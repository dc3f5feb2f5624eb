"""Kernels edited until an instruction performs them: what `--fix` writes.

    in C: bf16[M, N];  C[m, n] += A[m, k] * B[k, n]      for an instruction that widens and sums in f32:
    in C: bf16[M, N] accumulate f32;  C[m, n] += f32(A[m, k]) * f32(B[k, n])

A rejection's edits meet the condition that failed first. They are applied, and the next condition is asked
for, until the instruction performs the statement; what does not come that far is no fix.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from isamap.ir import Instruction, Kernel, Range, bind
from isamap.machine import Machine
from isamap.match.mappings.enumerate import find_in_statement
from isamap.match.mappings.mapping import Mapping as Found
from isamap.match.patterns.pattern import pattern_of
from isamap.match.refusals.refuse import refusal
from isamap.match.refusals.rejection import LACKING, Rejection, changes_result
from isamap.match.refusals.surroundings import Surroundings
from isamap.source import Edit, IsamapError, Source, Span, apply_edits
from isamap.syntax import parse_kernel
from isamap.transform import Statement, statements

ROUNDS = 4
_TOKEN = re.compile(r"[A-Za-z0-9_]+|\s+|[^A-Za-z0-9_\s]")

Sizes = Mapping[str, int | Range]


@dataclass(frozen=True, slots=True)
class Fix:
    """A kernel's text after which an instruction performs the statement that it was rejected for.

    `edits` are the change of the original text as a whole. `keeps_result` is False when the kernel computes
    something else now; otherwise it computes the same for the sizes that it still allows, perhaps in other
    types. `mapping` is the first that there is.
    """

    rejection: Rejection
    text: str
    edits: tuple[Edit, ...]
    keeps_result: bool
    mapping: Found


def fixes(
    kernel: Kernel, machine: Machine, rejections: Iterable[Rejection], sizes: Sizes | None = None
) -> tuple[Fix, ...]:
    """A fix for each rejection that has one, in their order; `sizes` are bound again where they were."""
    found: list[Fix] = []
    texts: dict[str, Kernel | None] = {}
    for rejection in rejections:
        fix = _fix(kernel, machine, rejection, sizes, texts)
        if fix is not None:
            found.append(fix)
    return tuple(found)


def _fix(
    kernel: Kernel,
    machine: Machine,
    rejection: Rejection,
    sizes: Sizes | None,
    texts: dict[str, Kernel | None],
) -> Fix | None:
    """Round after round; `texts` remembers what edited texts became."""
    if kernel.span is None or not rejection.edits:
        return None
    source = kernel.span.source
    item = machine.instructions[rejection.instruction]
    before = len(statements(kernel))
    text, current, keeps = source.text, rejection, True
    for _ in range(ROUNDS):
        keeps = keeps and not changes_result(current)
        text = apply_edits(text, current.edits)
        if text not in texts:
            texts[text] = _read(Source(source.name, text), kernel.name, sizes)
        changed = texts[text]
        if changed is None:
            return None
        parts = statements(changed)
        # What initialises stands before what accumulates.
        number = rejection.statement + len(parts) - before
        mappings = tuple(_performing(item.instruction, changed, parts[number], number))
        again = refusal(Surroundings(changed, machine), item, parts[number], number, mappings)
        whole = next((m for m in mappings if m.kind != "degenerate"), None)
        if whole is not None and (again is None or again.reason in LACKING):
            return Fix(rejection, text, tuple(_changes(source, text)), keeps, whole)
        if again is None or not again.edits:
            return None
        current = again
    return None


def _read(source: Source, name: str, sizes: Sizes | None) -> Kernel | None:
    try:
        kernel = parse_kernel(source, name)
        return bind(kernel, sizes) if sizes else kernel
    except IsamapError:  # the edit is not allowed here: no fix
        return None


def _performing(
    instruction: Instruction, kernel: Kernel, statement: Statement, number: int
) -> Iterator[Found]:
    pattern = pattern_of(instruction)
    if pattern is not None:
        yield from find_in_statement(pattern, statement, number, kernel=kernel)


def _changes(source: Source, text: str) -> Iterator[Edit]:
    """The difference of two texts, word by word."""
    before, after = _TOKEN.findall(source.text), _TOKEN.findall(text)
    starts = [0]
    for token in before:
        starts.append(starts[-1] + len(token))
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            yield Edit(Span(source, starts[a], starts[b]), "".join(after[c:d]))
