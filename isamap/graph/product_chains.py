"""Two products and the kernel between them as one kernel: attention's scores, their softmax, the sum of values.

    s = q k^T   t = softmax(s)   o = t v        one kernel, of which blocks of rows are computed after each other

What lies between two of the kernels becomes a temporary, so that a block of its rows stays in a near cache. This
pays only if that is large, and larger than all that the chain reads and writes: the scores of more keys than a head
is wide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from isamap.graph.model_program import Passed
from isamap.graph.pending import Open, Written, reads_of, writes_of

NAME = re.compile(r"\b([asy][0-9]+)\b(?=\[)")
MOST_KERNELS = 3
"""Scores, what becomes of their rows, and the second product."""


LEAST_ELEMENTS = 1 << 14
"""Between two kernels: smaller results stay in a near cache by themselves, so that no search for blocks pays."""


def chain_products(steps: Sequence[Open], results: set[str]) -> list[Open]:
    """Return the steps with chains between two products as one kernel each, at the place of the last one."""
    readers = Counter(tensor for step in steps for tensor in {p.tensor for p in reads_of(step)})
    for tensor in results:
        readers[tensor] += 1
    made = {p.tensor: n for n, step in enumerate(steps) for p in writes_of(step)}
    found: list[Open | None] = list(steps)
    for number, step in enumerate(steps):
        chain = [number]
        while len(chain) < MOST_KERNELS and (before := _producer(found, chain[0], made, readers)) is not None:
            chain.insert(0, before)
        parts = [part for n in chain if isinstance(part := found[n], Written)]
        if isinstance(step, Written) and len(chain) == MOST_KERNELS and _pays(parts):
            for n in chain:
                found[n] = None
            found[number] = _join_parts(parts)
    return [step for step in found if step is not None]


def _producer(
    found: Sequence[Open | None], number: int, made: dict[str, int], readers: Counter[str]
) -> int | None:
    """Return the kernel whose only result a kernel reads whole and alone; None if there is none or are several."""
    step, there = found[number], list[int]()
    if not isinstance(step, Written) or step.borders:
        return None
    for passed in step.reads.values():
        place = made.get(passed.tensor, number)
        kernel = found[place] if place < number else None
        if not isinstance(kernel, Written) or kernel.borders or readers[passed.tensor] > 1:
            continue
        if tuple(kernel.writes.values()) == (passed,):
            there.append(place)
    return there[0] if len(there) == 1 else None


def _pays(parts: Sequence[Written]) -> bool:
    """Return whether it is two products around reductions of rows, with more between them than around."""
    first, rows, last = parts
    products = [any(" * " in text and "+=" in text for text in part.statements) for part in parts]
    if products != [True, False, True] or "max=" not in "".join(rows.statements):
        return False
    inner = {p.tensor: prod(p.shape) for part in (first, rows) for p in part.writes.values()}
    outer = [prod(p.shape) for part in parts for p in reads_of(part) if p.tensor not in inner and not p.band]
    return min(inner.values()) >= LEAST_ELEMENTS and min(inner.values()) > max(
        (*outer, *(prod(p.shape) for p in last.writes.values()))
    )


def _join_parts(parts: Sequence[Written]) -> Written:
    """Return one kernel with the statements of all: results that the next one reads become temporaries."""
    declared: list[str] = []
    statements: list[str] = []
    reads: dict[str, Passed] = {}
    inside: dict[str, str] = {}
    outputs: dict[str, Passed] = {}
    temporaries = 0
    for part in parts:
        names: dict[str, str] = {}
        for line in part.declared:
            role, name = line.partition(":")[0].split(" ")
            passed = part.reads.get(name) or part.writes.get(name)
            if role == "in" and passed is not None and passed.tensor in inside:
                names[name] = inside[passed.tensor]
                continue
            if role == "in" and passed is not None:
                known = next((n for n, p in reads.items() if p == passed), None)
                names[name] = known or f"a{len(reads)}"
                if known:
                    continue
                reads[names[name]] = passed
            elif passed is not None and part is parts[-1]:
                names[name] = f"y{len(outputs)}"
                outputs[names[name]] = passed
            else:
                names[name], role, temporaries = f"s{temporaries}", "temp", temporaries + 1
                if passed is not None:
                    inside[passed.tensor] = names[name]
            declared.append(f"{role} {names[name]}:{line.partition(':')[2]}")
        statements += [NAME.sub(lambda found, own=names: own[found[1]], text) for text in part.statements]
    name = "_".join(part.name for part in parts)
    definitions = "".join(dict.fromkeys(part.definitions for part in parts))
    return replace(
        parts[-1], name=name, definitions=definitions, declared=tuple(declared),
        statements=tuple(statements), reads=reads, writes=outputs,
    )  # fmt: skip
