"""Print a scheduling problem: the machine's parameters, and each statement's options with all their costs.

gemm_f32 on x86-avx512: M = 64, N = 64, K = 64
registers zmm 32
cache l1: capacity_bytes 49152, bandwidth_bytes_per_ns 400, line_bytes 64
statement 0: 2 options
  option 0: fma_zmm_f32 { i: n } (a = A[m, k], b = B[k, n])
    issue    0.5 ns of fma, result after 1.1 ns
    axes     m 64 by 1, n 64 by 16, k 64 by 1 summed
    operand  c = C: 1 of zmm; in place 1.2 ns, from a buffer 0.9 ns, copied for 0.06 ns an element
             axes m n, tile_elements 16, layout (tensor_bytes 4, dense_axis n, pitch_bytes 256)

Fields with a name are those of `isamap.plan.problem`; one that has its default is omitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import cast

from isamap.plan.problem import NestOption, Problem, TileAxis, TileOperand


def print_problem(problem: Problem) -> str:
    """Return the problem as text, with every field that is not at its default."""
    sizes = ", ".join(f"{name} = {size}" for name, size in problem.sizes)
    lines = [f"{problem.kernel} on {problem.machine}{': ' if sizes else ''}{sizes}"]
    lines.append(f"registers {', '.join(f'{name} {count}' for name, count in problem.registers)}")
    lines += (f"cache {cache.name}: {', '.join(_fields(cache, 'name'))}" for cache in problem.caches)
    lines += _fields(problem, "kernel", "machine", "sizes", "nests", "registers", "caches")
    for nest in problem.nests:
        runs = f", performed {nest.iterations} times" if nest.iterations > 1 else ""
        lines.append(f"statement {nest.statement}: {len(nest.options)} options{runs}")
        lines += (f"  {more}" for more in _fields(nest, "statement", "options", "iterations"))
        for number, option in enumerate(nest.options):
            lines += [f"  option {number}: {option.mapping}", *(f"    {line}" for line in _option(option))]
    return "\n".join(lines)


def _option(option: NestOption) -> Iterator[str]:
    unit = f" of {option.unit}" if option.unit else ""
    yield f"issue    {option.interval_ns:.4g} ns{unit}, result after {option.latency_ns:.4g} ns"
    if option.choose:
        yield "choose   " + ", ".join(f"{name} = {value}" for name, value in option.choose)
    yield "axes     " + ", ".join(map(_axis, option.axes))
    for operand in option.operands:
        yield f"operand  {_operand(operand)}"
        shown = "name", "tensor", "is_accumulator", "memory", "registers", "costs"
        yield f"         {', '.join((*_fields(operand, *shown), *_fields(operand.costs, 'direct_ns', 'staged_ns')))}"
    for fusion in option.fusions:
        more = "".join(f", {one}" for one in _fields(fusion, "statement", "extra_ns"))
        yield f"fuses    statement {fusion.statement} for {fusion.extra_ns:.4g} ns{more}"
    shown = "mapping", "choose", "axes", "operands", "interval_ns", "latency_ns", "fusions", "unit"
    yield from _fields(option, *shown)


def _axis(axis: TileAxis) -> str:
    size = f"{axis.extent} or what the run gives" if axis.is_open else str(axis.extent)
    return f"{axis.name} {size} by {axis.tile}" + (" summed" if axis.is_reduction else "")


def _operand(o: TileOperand) -> str:
    tile = (
        f"{o.name} = {o.tensor}: {o.registers} of {o.memory or 'memory'}{', the result' * o.is_accumulator}"
    )
    ways = [f"in place {o.costs.direct_ns:.4g} ns"] if o.costs.direct_ns is not None else []
    if o.costs.staged_ns is not None:
        where = " or ".join(home or "the workspace" for home in o.staging.homes)
        ways.append(f"from a buffer in {where} {o.costs.staged_ns:.4g} ns")
    each = o.staging.pack_ns_per_element
    return f"{tile}; {', '.join((*ways, f'copied for {each:.4g} ns an element' if each else 'copied at no cost'))}"


_PRINTED = "homes", "pack_ns_per_element", "source"


def _fields(record: object, *shown: str) -> Iterator[str]:
    """Yield name and value of each field that is neither in `shown` nor at its default."""
    assert is_dataclass(record)
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name not in (*shown, *_PRINTED) and value != field.default:
            text = "" if value is True else f" {_text(value)}"
            if text != " ()":  # a record that differs in its source alone
                yield field.name + text


def _text(value: object) -> str:
    if is_dataclass(value):
        return f"({', '.join(_fields(value))})"
    if isinstance(value, tuple):
        parts = ((_text(one), isinstance(one, tuple)) for one in cast("tuple[object, ...]", value))
        return " ".join(f"({text})" if is_nested else text for text, is_nested in parts) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value) or '""'
