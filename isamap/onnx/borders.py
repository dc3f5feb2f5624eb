"""Borders of zeros written with an image that one kernel reads beyond its edges: nothing is copied for them.

y[p, q, k] = max(s[p, q, k], 0)                          y is an image of 8 x 8 x 16
z[p, q, k] += (y[p + r - 1, q + t - 1, k] else 0) * …

for q in 10, k in 16 { y[0, q, k] = 0; } …               of 10 x 10 x 16
y[p + 1, q + 1, k] = max(s[p, q, k], 0)
z[p, q, k] += y[p + r, q + t, k] * …
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from isamap.onnx.making import nest
from isamap.onnx.pending import Border, Pointwise, Written
from isamap.onnx.program import Move, Passed

Open = Move | Written | Pointwise


def bordered(steps: Sequence[Open], readers: Counter[str]) -> list[Open]:
    """The steps with borders where what they are read by wants them; `readers` counts steps by tensor."""
    found = list(steps)
    made = {
        p.tensor: n for n, step in enumerate(steps) if isinstance(step, Written) for p in step.writes.values()
    }
    for number, step in enumerate(steps):
        if not isinstance(step, Written):
            continue
        for name, border in step.borders.items():
            reader, passed = found[number], step.reads[name]
            assert isinstance(reader, Written)
            producer = found[made[passed.tensor]] if passed.tensor in made else None
            if (
                isinstance(producer, Written)
                and readers[passed.tensor] == 1
                and sum(p.tensor == passed.tensor for p in step.reads.values()) == 1
                and not any(border[-1])  # neighbours stay in one register
                and (wider := _written_wider(producer, passed, border)) is not None
            ):
                found[made[passed.tensor]] = wider
                found[number] = _read_wider(reader, name, border)
    return found


def _wide(passed: Passed, border: Border) -> Passed:
    sizes = zip(passed.shape, border, strict=True)
    return replace(passed, shape=tuple(before + size + behind for size, (before, behind) in sizes))


def _declared(kernel: Written, name: str, wide: Passed) -> tuple[str, ...]:
    """The declarations of a kernel with other sizes of an operand."""
    sizes = f"[{', '.join(map(str, wide.shape))}];"
    return tuple(
        line.partition("[")[0] + sizes if re.match(f"[a-z]+ {name}:", line) else line
        for line in kernel.declared
    )


def _shifted(index: str, border: Border) -> str:
    """An index that counts from the border on."""
    parts = zip(index.split(", "), border, strict=True)
    return ", ".join(f"{part} + {before}" if before else part for part, (before, _) in parts)


def _read_wider(kernel: Written, name: str, border: Border) -> Written:
    """The kernel that reads zeros where it read beyond the edge of an operand."""
    wide = _wide(kernel.reads[name], border)
    beyond = re.compile(rf"\({name}\[([^\]]*)\] else 0\)")
    statements = tuple(
        beyond.sub(lambda found: f"{name}[{_shifted(found[1], border)}]", text) for text in kernel.statements
    )
    return replace(
        kernel,
        declared=_declared(kernel, name, wide),
        statements=statements,
        reads={**kernel.reads, name: wide},
        borders={},
    )


def _written_wider(kernel: Written, passed: Passed, border: Border) -> Written | None:
    """The kernel that writes its only result with a border; None where more than one statement writes it."""
    name, written = next(iter(kernel.writes.items()))
    if (
        len(kernel.writes) > 1
        or written != passed
        or sum(text.count(f"{name}[") for text in kernel.statements) != 1
    ):
        return None
    wide = _wide(passed, border)
    place = re.compile(rf"\b{name}\[([^\]]*)\]")
    statements = (
        place.sub(lambda found: f"{name}[{_shifted(found[1], border)}]", text) for text in kernel.statements
    )
    return replace(
        kernel,
        declared=_declared(kernel, name, wide),
        statements=(*_strips(name, passed, border), *statements),
        writes={name: wide},
    )


def _strips(name: str, passed: Passed, border: Border) -> list[str]:
    """Statements that write the zeros: of each axis before and behind, of axes before it the inside alone."""
    found: list[str] = []
    starts, sizes = [0] * len(border), [b + s + e for s, (b, e) in zip(passed.shape, border, strict=True)]
    for axis, (before, behind) in enumerate(border):
        for start, size in (0, before), (before + passed.shape[axis], behind):
            if size:
                axes = [size if n == axis else full for n, full in enumerate(sizes)]
                first = [start if n == axis else begin for n, begin in enumerate(starts)]
                found.append(_zeros(name, first, axes))
        starts[axis], sizes[axis] = before, passed.shape[axis]
    return found


def _zeros(name: str, first: Sequence[int], sizes: Sequence[int]) -> str:
    index = [
        str(start) if size == 1 else f"e{n} + {start}" if start else f"e{n}"
        for n, (start, size) in enumerate(zip(first, sizes, strict=True))
    ]
    return nest({f"e{n}": size for n, size in enumerate(sizes)}, f"{name}[{', '.join(index)}] = 0;")
