"""Fuse elementwise operations into their successors, and into kernels whose results they read.

    conv -> add -> relu      one kernel: the sums, and what is done to each of them

A value is computed in its reader if it has no other reader, the sizes are equal, and it is read once or is
cheap. Each result is rounded as before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from isamap.graph import thresholds
from isamap.graph.making import axes_of, nest
from isamap.graph.model_program import Direct, Step, TensorView
from isamap.graph.pending import (
    PLACE,
    Border,
    Open,
    Pointwise,
    WrittenKernel,
    call_of,
    declaration,
    element_of,
    place_elements,
    reads_of,
    reshape_operation,
    with_compared_indices,
    write_kernel,
    writes_of,
)
from isamap.graph.sizes import record_of_open
from isamap.ir import DTYPES

# --- chains of products in one kernel -------------------------------------------------------------------

NAME = re.compile(r"\b([asy][0-9]+)\b(?=\[)")


def chain_products(steps: Sequence[Open], results: set[str]) -> list[Open]:
    """Return the steps with each chain between two products as one kernel, at the last one's place."""
    readers = Counter(tensor for step in steps for tensor in {p.tensor for p in reads_of(step)})
    for tensor in results:
        readers[tensor] += 1
    made = {p.tensor: n for n, step in enumerate(steps) for p in writes_of(step)}
    found: list[Open | None] = list(steps)
    for number, step in enumerate(steps):
        chain = [number]
        while (
            len(chain) < thresholds.CHAIN_KERNELS
            and (before := _producer(found, chain[0], made, readers)) is not None
        ):
            chain.insert(0, before)
        parts = [part for n in chain if isinstance(part := found[n], WrittenKernel)]
        if isinstance(step, WrittenKernel) and len(chain) == thresholds.CHAIN_KERNELS and _saves_time(parts):
            for n in chain:
                found[n] = None
            found[number] = _join_parts(parts)
    return [step for step in found if step is not None]


def _producer(
    found: Sequence[Open | None], number: int, made: dict[str, int], readers: Counter[str]
) -> int | None:
    """Return the kernel from which alone another kernel reads its whole result, or None."""
    step, there = found[number], list[int]()
    if not isinstance(step, WrittenKernel) or step.borders:
        return None
    for passed in step.reads.values():
        place = made.get(passed.tensor, number)
        kernel = found[place] if place < number else None
        if not isinstance(kernel, WrittenKernel) or kernel.borders or readers[passed.tensor] > 1:
            continue
        if tuple(kernel.writes.values()) == (passed,):
            there.append(place)
    return there[0] if len(there) == 1 else None


def _saves_time(parts: Sequence[WrittenKernel]) -> bool:
    """Return whether joining these parts saves time: two products, with the larger tensor between them."""
    first, rows, last = parts
    products = [any(" * " in text and "+=" in text for text in part.statements) for part in parts]
    if products != [True, False, True] or "max=" not in "".join(rows.statements):
        return False
    inner = {p.tensor: prod(p.shape) for part in (first, rows) for p in part.writes.values()}
    outer = [prod(p.shape) for part in parts for p in reads_of(part) if p.tensor not in inner and not p.band]
    return min(inner.values()) >= thresholds.CHAIN_ELEMENTS and min(inner.values()) > max(
        (*outer, *(prod(p.shape) for p in last.writes.values()))
    )


def _join_parts(parts: Sequence[WrittenKernel]) -> WrittenKernel:
    """Return one kernel with the statements of all parts. Results that the next part reads become temporaries."""
    declared: list[str] = []
    statements: list[str] = []
    reads: dict[str, TensorView] = {}
    inside: dict[str, str] = {}
    outputs: dict[str, TensorView] = {}
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


Fuse = Callable[[Sequence[Open], set[str]], tuple[list[Step], dict[str, str]]]
"""From open steps, and the tensors that the caller reads, to calls and moves with kernels' texts by name."""


def fuse_steps(
    steps: Sequence[Open], results: set[str], *, freely: bool = False, borders: bool = True
) -> tuple[list[Step], dict[str, str]]:
    """Return the fewest steps that compute the results, with their kernels' texts by name.

    Where this is done `freely`, an operation also goes behind a kernel whose result others read, too, and where
    it sees a result in other sizes. Without `borders`, images are copied to have those that kernels read.
    """
    readers = Counter(tensor for step in steps for tensor in {p.tensor for p in reads_of(step)})
    for tensor in results:
        readers[tensor] += 1
    made: dict[str, int] = {}
    found: list[Open | None] = []
    for step in steps:
        current = step
        if isinstance(current, Pointwise):
            current = _with_producers(current, made, found, readers, freely)
        for passed in writes_of(current):
            made[passed.tensor] = len(found)
        found.append(current)
    for number, step in enumerate(found):  # once they are as few as may be: each is a statement
        if isinstance(step, Pointwise):
            place, kernel = _fuse_after(step, number, made, found, readers, freely)
            found[number] = None
            found[place] = kernel
            made[step.output.tensor] = place
    kept = [step for step in found if step is not None]
    return finish_steps(chain_products(kept, results), results, borders=borders)


def finish_steps(
    steps: Sequence[Open], results: set[str], *, borders: bool = True
) -> tuple[list[Step], dict[str, str]]:
    """Return the calls and moves of fused steps, with their kernels' texts by name."""
    readers = Counter(tensor for step in steps for tensor in {p.tensor for p in reads_of(step)})
    for tensor in results:
        readers[tensor] += 1
    kernels: dict[str, str] = {}
    calls: list[Step] = []
    opened = record_of_open(
        size for step in steps for p in (*reads_of(step), *writes_of(step)) for size in p.shape
    )
    for step in pad_for_readers(steps, readers) if borders else steps:
        if isinstance(step, Direct):
            calls.append(step)
            continue
        call, text = call_of(
            with_compared_indices(step if isinstance(step, WrittenKernel) else write_kernel(step)),
            opened.sizes if opened else (),
        )
        kernels[call.kernel] = text
        calls.append(call)
    return calls, kernels


def _with_producers(
    step: Pointwise, made: Mapping[str, int], found: list[Open | None], readers: Counter[str], freely: bool
) -> Pointwise:
    """Return the step with the expressions of inputs inlined that no other step reads."""
    inputs: list[TensorView] = []
    elements: list[str] = []
    joined: list[set[str]] = [set()]
    names = [step.name]
    places = Counter(int(n) for n in PLACE.findall(step.expression))
    size = len(step.expression)
    apart = _narrower(step, made, found)[:-1]
    for number, given in enumerate(step.inputs):
        passed, producer = given, found[made[given.tensor]] if given.tensor in made else None
        if freely and isinstance(producer, Pointwise) and not given.is_part:
            passed, producer = _in_sizes(given, producer, step.output.shape)
        if (
            isinstance(producer, Pointwise)
            and given.tensor not in apart
            and not (_widens(step, given) and _is_narrowed(producer, made, found))
            and readers[passed.tensor] == 1
            and (places[number] == 1 or _is_cheap(producer.expression, places[number]))
            and sum(p.tensor == passed.tensor for p in step.inputs) == 1
            and producer.output == passed
            and passed.shape == step.output.shape
            and size + places[number] * len(producer.expression) <= thresholds.EXPRESSION_CHARACTERS
        ):
            size += places[number] * len(producer.expression)
            elements.append(f"({place_elements(producer.expression, put_places(inputs, producer.inputs))})")
            joined.append({p.tensor for p in producer.inputs})
            names.insert(0, producer.name)
            found[made[passed.tensor]] = None
        else:
            elements += put_places(inputs, [passed])
            joined[0].add(passed.tensor)
    for tensor, count in Counter(tensor for own in joined for tensor in own).items():
        readers[tensor] -= count - 1  # that many steps that read it have become one
    expression = place_elements(step.expression, elements)
    return replace(step, name="_".join(names), inputs=tuple(inputs), expression=expression)


def _narrower(step: Pointwise, made: Mapping[str, int], found: Sequence[Open | None]) -> list[str]:
    """Return the narrower inputs from which kernels of a step's inputs are computed, in order.

    One of those kernels may be fused with the step. The others store their results or these narrower inputs.
    """
    numbers: dict[str, int] = {}
    for passed in step.inputs:
        producer = found[made[passed.tensor]] if passed.tensor in made else None
        if isinstance(producer, Pointwise) and _is_narrowed(producer, made, found):
            numbers[passed.tensor] = made[passed.tensor]
    return sorted(numbers, key=lambda tensor: numbers[tensor])


def _is_narrowed(step: Pointwise, made: Mapping[str, int], found: Sequence[Open | None]) -> bool:
    """Return whether an operation narrows the result of a kernel, with which it may be fused."""
    return any(
        isinstance(found[made[p.tensor]], WrittenKernel)
        and DTYPES[p.dtype].bits > DTYPES[step.output.dtype].bits
        and real_sizes(p.shape) == real_sizes(step.output.shape)
        for p in step.inputs
        if p.tensor in made
    )


def _widens(step: Pointwise, passed: TensorView) -> bool:
    """Return whether an operation widens integers. Its reader takes it, and memory holds the narrow numbers."""
    narrow = DTYPES[passed.dtype]
    return narrow.is_integer and narrow.bits < min(32, DTYPES[step.output.dtype].bits)


def _is_cheap(expression: str, times: int) -> bool:
    """Return whether an expression may be computed `times` times: it is short, without division or functions."""
    called = set(re.findall(r"([a-z][a-z0-9_]*)\(", expression))
    is_short = times * len(expression) <= thresholds.REPEATED_CHARACTERS and not set("/%") & set(expression)
    return is_short and called <= {*DTYPES, "abs", "max", "min", "select"}


def put_places(inputs: list[TensorView], more: Sequence[TensorView]) -> list[str]:
    """Return the names of further operands, after these inputs have been appended to others."""
    inputs += [passed for passed in dict.fromkeys(more) if passed not in inputs]
    return [f"«{inputs.index(passed)}»" for passed in more]


def _in_sizes(
    passed: TensorView, producer: Pointwise, sizes: tuple[int, ...]
) -> tuple[TensorView, Pointwise]:
    """Return a result and its operation in other sizes, if readers access all of its elements with these."""
    if prod(passed.shape) == prod(sizes) and (made := reshape_operation(producer, sizes)) is not None:
        return made.output, made
    return passed, producer


def _fuse_after(
    step: Pointwise,
    number: int,
    made: Mapping[str, int],
    found: list[Open | None],
    readers: Counter[str],
    freely: bool,
) -> tuple[int, WrittenKernel | Pointwise]:
    """Return the step fused after the kernel whose result it alone reads, and the number of that kernel.

    Results of the widest type come first.
    """
    for passed in sorted(step.inputs, key=lambda passed: -DTYPES[passed.dtype].bits):
        place = made.get(passed.tensor)
        kernel = found[place] if place is not None else None
        if place is None or passed.is_part or kernel is None or isinstance(kernel, Direct):
            continue
        if _widens(step, passed):
            continue  # and an accelerator may perform the kernel, but not what widens its result
        if freely and isinstance(kernel, Pointwise):
            kernel = write_kernel(kernel)
        if isinstance(kernel, Pointwise) or len(kernel.statements) >= thresholds.KERNEL_STATEMENTS:
            continue
        result = next(p for p in kernel.writes.values() if p.tensor == passed.tensor)
        is_alone = readers[passed.tensor] == 1 and len(kernel.writes) == 1
        if is_alone and real_sizes(passed.shape) == real_sizes(step.output.shape) == real_sizes(result.shape):
            found[place] = None
            return number, join_kernels(kernel, step, passed.tensor)
        if freely and prod(step.output.shape) == prod(result.shape):
            others = [p for p in step.inputs if p.tensor != passed.tensor]
            is_ready = all(made.get(p.tensor, -1) < place for p in others)
            there = reshape_operation(step, result.shape)
            if there is None or not is_ready or any(p.is_part for p in _of(there, passed.tensor)):
                continue
            readers[passed.tensor] -= 1
            return place, join_kernels(kernel, there, passed.tensor, keeps=readers[passed.tensor] > 0)
    return number, step


def _of(step: Pointwise, tensor: str) -> list[TensorView]:
    return [passed for passed in step.inputs if passed.tensor == tensor]


def real_sizes(shape: Sequence[int]) -> list[int]:
    """Return the sizes of axes with more than one element."""
    return [size for size in shape if size != 1]


def free_name(reads: Mapping[str, TensorView]) -> str:
    """Return a name for one more input of a kernel."""
    return next(name for n in range(len(reads) + 1) if (name := f"a{n}") not in reads)


def join_kernels(
    kernel: WrittenKernel, step: Pointwise, tensor: str, *, keeps: bool = False
) -> WrittenKernel:
    """Return one kernel of both steps. The tensor between them becomes a temporary, or stays a result if `keeps`."""
    inner, result = next((name, p) for name, p in kernel.writes.items() if p.tensor == tensor)
    kept = {name: p for name, p in kernel.writes.items() if keeps or name != inner}
    declared = [
        line if keeps else line.replace(f"out {inner}:", f"temp {inner}:", 1) for line in kernel.declared
    ]
    reads = dict(kernel.reads)
    at, loops = axes_of(step.output.shape)
    real = iter([name for name in at if name != "0"])
    inside = f"{inner}[{', '.join('0' if size == 1 else next(real) for size in result.shape) or '0'}]"
    elements: list[str] = []
    for passed in step.inputs:
        if passed.tensor == tensor:
            elements.append(inside)
            continue
        name = free_name(reads)
        element, reads[name] = element_of(name, passed, at[len(at) - len(passed.shape) :])
        declared.append(declaration("in", name, reads[name]))
        elements.append(element)
    output = f"y{sum(line.startswith(('out ', 'temp y')) for line in declared)}"
    declared.append(declaration("out", output, step.output))
    target = f"{output}[{', '.join(at or ['0'])}]"
    head = ", ".join(f"{name} in {size}" for name, size in loops.items())
    statement = f"{target} = {place_elements(step.expression, elements)};"
    statements = (*kernel.statements, f"for {head} {{ {statement} }}" if loops else statement)
    name = f"{kernel.name}_{step.name}"
    written = {**kept, output: step.output}
    return replace(
        kernel, name=name, declared=tuple(declared), statements=statements, reads=reads, writes=written
    )


# Borders written with an image that one kernel reads beyond its edges: nothing is copied for them.
#
# y[p, q, k] = max(s[p, q, k], 0)                          y is an image of 8 x 8 x 16
# z[p, q, k] += (y[p + r - 1, q + t - 1, k] else 0) * …
#
# for q in 10, k in 16 { y[0, q, k] = 0; } …               of 10 x 10 x 16
# y[p + 1, q + 1, k] = max(s[p, q, k], 0)
# z[p, q, k] += y[p + r, q + t, k] * …


def pad_for_readers(steps: Sequence[Open], readers: Counter[str]) -> list[Open]:
    """Return the steps with the borders that later steps read beyond images."""
    found = list(steps)
    made = {
        p.tensor: n
        for n, step in enumerate(steps)
        if isinstance(step, WrittenKernel)
        for p in step.writes.values()
    }
    for number, step in enumerate(steps):
        if not isinstance(step, WrittenKernel):
            continue
        for name, border in step.borders.items():
            reader, passed = found[number], step.reads[name]
            assert isinstance(reader, WrittenKernel)
            producer = found[made[passed.tensor]] if passed.tensor in made else None
            if (
                isinstance(producer, WrittenKernel)
                and readers[passed.tensor] == 1
                and sum(p.tensor == passed.tensor for p in step.reads.values()) == 1
                and not any(border.widths[-1])  # neighbours stay in one register
                and (wider := _written_wider(producer, passed, border)) is not None
            ):
                found[made[passed.tensor]] = wider
                found[number] = _read_wider(reader, name, border)
    return found


def _wide(passed: TensorView, border: Border) -> TensorView:
    sizes = zip(passed.shape, border.widths, strict=True)
    return replace(passed, shape=tuple(before + size + behind for size, (before, behind) in sizes))


def _redeclare_operand(kernel: WrittenKernel, name: str, wide: TensorView) -> tuple[str, ...]:
    """Return the declarations of a kernel with other sizes for an operand."""
    sizes = f"[{', '.join(map(str, wide.shape))}];"
    return tuple(
        line.partition("[")[0] + sizes if re.match(f"[a-z]+ {name}:", line) else line
        for line in kernel.declared
    )


def _shift_index(index: str, border: Border) -> str:
    """Return the index, shifted by the width of the border on each axis."""
    parts = zip(index.split(", "), border.widths, strict=True)
    return ", ".join(f"{part} + {before}" if before else part for part, (before, _) in parts)


def _read_wider(kernel: WrittenKernel, name: str, border: Border) -> WrittenKernel:
    """Return the kernel that reads a stored border where it read the fill outside of an operand."""
    wide = _wide(kernel.reads[name], border)
    beyond = re.compile(rf"\({name}\[([^\]]*)\] else {re.escape(border.fill)}\)")
    statements = tuple(
        beyond.sub(lambda found: f"{name}[{_shift_index(found[1], border)}]", text)
        for text in kernel.statements
    )
    return replace(
        kernel,
        declared=_redeclare_operand(kernel, name, wide),
        statements=statements,
        reads={**kernel.reads, name: wide},
        borders={},
    )


def _written_wider(kernel: WrittenKernel, passed: TensorView, border: Border) -> WrittenKernel | None:
    """Return the kernel with a border around its result, or None if several statements write the result."""
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
        place.sub(lambda found: f"{name}[{_shift_index(found[1], border)}]", text)
        for text in kernel.statements
    )
    return replace(
        kernel,
        declared=_redeclare_operand(kernel, name, wide),
        statements=(*_strips(name, passed, border), *statements),
        writes={name: wide},
    )


def _strips(name: str, passed: TensorView, border: Border) -> list[str]:
    """Return the statements that write a border: before and behind each axis, inside the axes before."""
    found: list[str] = []
    starts = [0] * len(border.widths)
    sizes = [b + s + e for s, (b, e) in zip(passed.shape, border.widths, strict=True)]
    for axis, (before, behind) in enumerate(border.widths):
        for start, size in (0, before), (before + passed.shape[axis], behind):
            if size:
                axes = [size if n == axis else full for n, full in enumerate(sizes)]
                first = [start if n == axis else begin for n, begin in enumerate(starts)]
                found.append(_write_border(name, first, axes, border.fill))
        starts[axis], sizes[axis] = before, passed.shape[axis]
    return found


def _write_border(name: str, first: Sequence[int], sizes: Sequence[int], fill: str) -> str:
    index = [
        str(start) if size == 1 else f"e{n} + {start}" if start else f"e{n}"
        for n, (start, size) in enumerate(zip(first, sizes, strict=True))
    ]
    return nest({f"e{n}": size for n, size in enumerate(sizes)}, f"{name}[{', '.join(index)}] = {fill};")
