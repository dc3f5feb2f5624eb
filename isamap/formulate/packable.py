"""Operands that the caller passes packed: with `--packed B`, a separate program copies B once.

    stage b packed;      like `stage b;` outside all loops, but the copy was made before the call, and costs nothing

An input can be packed if one sum reads it, at one place. The packing program writes whole tiles in the order
in which that sum reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from isamap.ir import Kernel, Read
from isamap.plan.problem import NestOption, Problem, TileOperand, with_fields
from isamap.plan.schedule import Schedule
from isamap.source import NoMapping, UsageProblem, replace
from isamap.transform import Statement, reads, statements, symbols


def require_packable(kernel: Kernel, packed: Sequence[str]) -> None:
    """Check that each name is an input of the kernel that can be packed. Raises: UsageProblem."""
    given = statements(kernel)
    for name in packed:
        _check_input(kernel, name)
        places = [(s, read) for s in given for read in _reads_of(s) if read.buffer == name]
        if len(places) != 1:
            raise _read_elsewhere(name, [s for s, _ in places])
        ((statement, read),) = places
        turning = sorted(symbols(read) & {axis.name for axis in statement.sequence})
        if turning:
            raise UsageProblem.of(
                "packed-twice",
                f"each iteration of the loop over `{turning[0]}` reads other elements of `{name}`",
                statement.assign.span,
                notes=("what is packed is one copy, which all iterations read",),
                help="leave it to the program: compile without --packed " + name,
            )


def _reads_of(statement: Statement) -> tuple[Read, ...]:
    guard = statement.assign.guard
    return (*reads(statement.assign.value), *(reads(guard) if guard is not None else ()))


def _check_input(kernel: Kernel, name: str) -> None:
    roles = {o.name: o.role for o in kernel.operands}
    inputs = [n for n, role in roles.items() if role == "in"]
    if name not in roles:
        near = get_close_matches(name, inputs, n=1, cutoff=0.5)
        raise UsageProblem.of(
            "packed-unknown",
            f"{kernel.name} has no operand `{name}` to pack",
            notes=(f"its inputs are {', '.join(inputs) or 'none'}",),
            help=f"did you mean `{near[0]}`?" if near else None,
        )
    if roles[name] != "in":
        raise UsageProblem.of(
            "packed-unknown",
            f"`{name}` of {kernel.name} is written: only inputs can be packed before",
            notes=(f"its inputs are {', '.join(inputs) or 'none'}",),
        )


def _read_elsewhere(name: str, where: Sequence[Statement]) -> UsageProblem:
    if not where:
        said = f"nothing reads `{name}`: it cannot be packed"
        return UsageProblem.of("packed-twice", said)
    return UsageProblem.of(
        "packed-twice",
        f"`{name}` is read at {len(where)} places, and a packed copy serves one",
        where[1].assign.span,
        notes=("each place may need another order of its elements",),
        help=f"give each place a separate operand, or compile without --packed {name}",
    )


# --- options ----------------------------------------------------------------------------------------------


def packed_in(statement: Statement, packed: Sequence[str]) -> tuple[str, ...]:
    """Return the packed tensors that a statement reads."""
    return tuple(name for name in packed if any(read.buffer == name for read in _reads_of(statement)))


def packed_options(
    options: Sequence[NestOption], packed: Sequence[str], statement: Statement, machine: str
) -> list[NestOption]:
    """Return the options that can read these tensors packed, modified to do so.

    Raises: NoMapping if there are options, but none of them can.
    """
    here = packed_in(statement, packed)
    if not here or not options:
        return list(options)
    made = [with_packed(option, here) for option in options if statement.is_reduction]
    found = [option for option in made if option is not None]
    if found:
        return found
    names = ", ".join(f"`{name}`" for name in here)
    why = (
        "it is not a sum, and a statement that reads each element once does not benefit from another order"
        if not statement.is_reduction
        else "each mapping reads it in place or through a scratchpad, or computes an operand of it in tiles that "
        "do not divide their axes"
    )
    raise NoMapping.of(
        "packed-in-place",
        f"no mapping of this statement on {machine} takes {names} from a packed buffer",
        statement.assign.span,
        notes=(why,),
        help=f"leave out --packed {', '.join(here)}: the tensor is then read in place",
    )


def with_packed(option: NestOption, packed: Sequence[str]) -> NestOption | None:
    """Return the option with those tensors packed, or None if it cannot read one of them from a buffer."""
    served = {o.tensor for o in option.operands if _can_be_packed(o)}
    if not served.issuperset(packed):
        return None
    made = tuple(_pack_operand(o) if o.tensor in packed else o for o in option.operands)
    return replace(option, operands=made)


def _can_be_packed(operand: TileOperand) -> bool:
    """Return whether an operand is an input that is read from a buffer in main memory."""
    return not operand.is_accumulator and operand.costs.staged_ns is not None and not operand.staging.homes[0]


def _pack_operand(operand: TileOperand) -> TileOperand:
    return with_fields(operand, direct_ns=None, pack_ns_per_element=0.0, is_packed=True)


# --- schedules --------------------------------------------------------------------------------------------


def packed_tensors(schedule: Schedule, problem: Problem) -> tuple[str, ...]:
    """Return the tensors that a schedule takes packed, sorted by name."""
    options = {(n.statement, o.mapping): o for n in problem.nests for o in n.options}
    found: set[str] = set()
    for nest in schedule.nests:
        option = options.get((nest.statement, nest.mapping))
        staged = {stage.operand for stage in nest.stages if stage.packed}
        found |= {o.tensor for o in option.operands if o.name in staged} if option is not None else set()
    return tuple(sorted(found))
