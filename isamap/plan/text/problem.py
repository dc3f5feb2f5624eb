"""Print a scheduling problem: each statement's options with what their issues and operands cost.

statement 0: 2 options
  option 0: fma_zmm_f32 { i: n } (a = A[m, k], b = B[k, n])
    issue    0.5 ns of fma, result after 1.1 ns
    axes     m 64 by 1, n 64 by 16, k 64 by 1 summed
    operand  c = C: 1 of zmm; in place 1.2 ns, from a buffer 0.9 ns, copied for 0.06 ns an element
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.plan.problem import NestOption, Problem, TileAxis, TileOperand


def print_problem(problem: Problem) -> str:
    """Return the problem as text: all that a schedule of each option is made of, with its costs per tile."""
    lines: list[str] = []
    for nest in problem.nests:
        runs = f", performed {nest.iterations} times" if nest.iterations > 1 else ""
        lines.append(f"statement {nest.statement}: {len(nest.options)} options{runs}")
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
    for fusion in option.fusions:
        yield f"fuses    statement {fusion.statement} for {fusion.extra_ns:.4g} ns"


def _axis(axis: TileAxis) -> str:
    size = f"{axis.extent} or what the run gives" if axis.is_open else str(axis.extent)
    return f"{axis.name} {size} by {axis.tile}" + (" summed" if axis.is_reduction else "")


def _operand(o: TileOperand) -> str:
    tile = f"{o.name} = {o.tensor}: {o.registers} of {o.memory or 'memory'}"
    ways = [f"in place {o.costs.direct_ns:.4g} ns"] if o.costs.direct_ns is not None else []
    if o.costs.staged_ns is not None:
        where = " or ".join(home or "the workspace" for home in o.staging.homes)
        ways.append(f"from a buffer in {where} {o.costs.staged_ns:.4g} ns")
    copied = (
        f"copied for {o.staging.pack_ns_per_element:.4g} ns an element"
        if o.staging.pack_ns_per_element
        else "copied at no cost"
    )
    return f"{tile}; {', '.join((*ways, copied))}"
