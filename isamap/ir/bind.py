"""Bind sizes of a routine: replace symbols by numbers, and check every limit first.

`bind(gemm, {"M": 64, "N": 64, "K": 32})` has no parameters left; `bind(gemm, {"M": Range(1, 8192, 512), …})`
keeps M with that range and profile value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from math import prod
from typing import TypeVar

from isamap.ir.facts import known_facts
from isamap.ir.index import Element, FloorDiv, Index, MinMax, Mod
from isamap.ir.index_casts import check_casts
from isamap.ir.nodes import Constraint, Let, Loop, Param, Routine, Stmt
from isamap.ir.substitute import substitute_constraint, substitute_routine
from isamap.source import Span, UsageProblem, dataclass, replace

MAX_EXTENT = 2**31
R = TypeVar("R", bound=Routine)


@dataclass(frozen=True, slots=True)
class Range:
    """A size that stays symbolic: bounds, both included, and the value that costs are computed for.

    The default value is the upper bound.
    """

    low: int
    high: int
    profile: int | None = None

    def __str__(self) -> str:
        return f"{self.low}..{self.high}@{self.typical}"

    @property
    def typical(self) -> int:
        return self.high if self.profile is None else self.profile


def typical_size(value: int | Range) -> int:
    """Return the number that represents a size: itself, or the profile value of a range."""
    return value if isinstance(value, int) else value.typical


def bind(routine: R, sizes: Mapping[str, int | Range]) -> R:
    """Return the routine with its parameters replaced by numbers, defaults applied, ranges kept as symbols.

    Raises: UsageProblem if a size is unknown, missing, out of its range, or breaks `where` or a limit, or
    when a cast may overflow.
    """
    _check_names(routine, sizes)
    kept, numbers = _bind_params(routine, sizes)
    lets, bindings = _bind_lets(routine, numbers)
    for constraint, left, right in _find_violated(routine, bindings):
        used = sorted(s for s in constraint.left.symbols | constraint.right.symbols if s in bindings)
        raise _refuse(
            "where-violated",
            f"`{routine.name}` requires {constraint.left} {constraint.comparison} {constraint.right}, "
            f"but {left} {constraint.comparison} {right} does not hold",
            constraint.span,
            f"with {', '.join(f'{s} = {Index.of(bindings[s])}' for s in used)}",
        )
    bound = substitute_routine(routine, bindings)
    bound = replace(bound, params=kept, lets=lets, where=tuple(c for c in bound.where if _is_open(c)))
    _check_extents(bound)
    overflowing = tuple(check_casts(bound, known_facts(bound), bound=True))
    if overflowing:
        raise UsageProblem(*overflowing)
    return bound


def comparison_holds(left: int, comparison: str, right: int) -> bool:
    """Return whether a comparison of two numbers is true."""
    return {
        "==": left == right,
        "!=": left != right,
        "<=": left <= right,
        "<": left < right,
        ">=": left >= right,
        ">": left > right,
    }[comparison]


# --- parameters -------------------------------------------------------------------------------------------


def _refuse(
    code: str, message: str, span: Span | None, *notes: str, advice: str | None = None
) -> UsageProblem:
    return UsageProblem.of(code, message, span, notes=notes, help=advice)


def _check_names(routine: Routine, sizes: Mapping[str, int | Range]) -> None:
    known = [p.name for p in routine.params if p.dtype is None]
    for name in sizes:
        if name in known:
            continue
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        near = near or [k for k in known if k.lower() == name.lower()]
        meant = f"did you mean `{near[0]}`?" if near else None
        is_scalar = any(p.name == name for p in routine.params)
        raise _refuse(
            "unknown-size",
            f"`{routine.name}` has no size `{name}`",
            None,
            f"its sizes are {', '.join(known) or 'none'}",
            advice="leave it out: each call gives the value of a scalar" if is_scalar else meant,
        )


def _bind_params(
    routine: Routine, sizes: Mapping[str, int | Range]
) -> tuple[tuple[Param, ...], dict[str, Index | int]]:
    """Return the parameters that stay symbolic, and the numbers that replace the other parameters."""
    kept: list[Param] = []
    numbers: dict[str, Index | int] = {}
    missing: list[Param] = []
    for param in routine.params:
        given = sizes.get(param.name, param.default)
        low = param.low.substitute(numbers) if param.low is not None else None
        high = param.high.substitute(numbers) if param.high is not None else None
        match given:
            case Range():
                _check_range(param, given, low, high)
                kept.append(
                    replace(param, low=Index.of(given.low), high=Index.of(given.high), default=given.profile)
                )
            case None:
                kept.append(replace(param, low=low, high=high))
                missing += [param] if param.kind == "size" else []
            case number:
                _check_size(param, int(number), low, high)
                numbers[param.name] = int(number)
    if missing:
        names = ", ".join(f"`{p.name}`" for p in missing)
        words = " ".join(f"{p.name}=…" for p in missing)
        given = ", ".join(f'"{p.name}": …' for p in missing)
        example = f"such as `-D {missing[0].name}=1..4096@512`"
        raise _refuse(
            "size-unbound",
            f"`{routine.name}` needs {'a value' if len(missing) == 1 else 'values'} for {names}",
            missing[0].span,
            advice=f"add `-D {words}`, or a range {example}; from Python, `{{{given}}}` to `sizes`",
        )
    return tuple(kept), numbers


def _check_size(param: Param, value: int, low: Index | None, high: Index | None) -> None:
    smallest = low.value if low is not None and low.value is not None else (1 if low is None else None)
    largest = high.value if high is not None else None
    if value > MAX_EXTENT:
        raise _refuse("size-too-large", f"{param.name}={value} is above the limit 2**31", param.span)
    if smallest is not None and value < smallest:
        if low is None:
            raise _refuse("size-not-positive", f"{param.name}={value}: sizes are at least 1", param.span)
        raise _refuse(
            "size-out-of-range", f"{param.name}={value} is below its smallest value {smallest}", param.span
        )
    if largest is not None and value > largest:
        raise _refuse(
            "size-out-of-range", f"{param.name}={value} is above its largest value {largest}", param.span
        )


def _check_range(param: Param, given: Range, low: Index | None, high: Index | None) -> None:
    if given.low > given.high:
        raise _refuse(
            "size-out-of-range", f"the range {given.low}..{given.high} of {param.name} is empty", param.span
        )
    _check_size(param, given.low, low, high)
    _check_size(param, given.high, low, high)
    if given.profile is not None and not given.low <= given.profile <= given.high:
        raise _refuse(
            "size-out-of-range",
            f"the profile value {given.profile} of {param.name} is outside {given.low}..{given.high}",
            param.span,
        )


# --- lets, where, extents ---------------------------------------------------------------------------------


def _bind_lets(
    routine: Routine, numbers: dict[str, Index | int]
) -> tuple[tuple[Let, ...], dict[str, Index | int]]:
    """Return the lets that stay symbolic, and the expressions that replace the other lets."""
    bindings = dict(numbers)
    kept: list[Let] = []
    for let in routine.lets:
        value = let.value.substitute(bindings)
        _check_divisors(value, let.name, let.span)
        if value.value is None:
            kept.append(replace(let, value=value))
        else:
            bindings[let.name] = value
    return tuple(kept), bindings


def _check_divisors(index: Index, name: str, span: Span | None) -> None:
    for monomial, _ in index.terms:
        for atom in monomial:
            match atom:
                case FloorDiv(value, divisor) | Mod(value, divisor):
                    if divisor.value is not None and divisor.value <= 0:
                        raise _refuse("division-by-zero", f"`{name}` divides by {divisor.value}", span)
                    _check_divisors(value, name, span)
                case MinMax(_, left, right):
                    _check_divisors(left, name, span)
                    _check_divisors(right, name, span)
                case Element():
                    for part in atom.parts:
                        _check_divisors(part, name, span)
                case str():
                    pass


def allows_sizes(routine: Routine, sizes: Mapping[str, int]) -> bool:
    """Return whether the given sizes satisfy `where`. Conditions that they leave open count as satisfied."""
    return next(_find_violated(routine, _bind_lets(routine, dict(sizes))[1]), None) is None


def _find_violated(
    routine: Routine, bindings: Mapping[str, Index | int]
) -> Iterator[tuple[Constraint, int, int]]:
    """Yield the constraints of `where` that do not hold, with the values of both sides."""
    for constraint in routine.where:
        bound = substitute_constraint(constraint, bindings)
        left, right = bound.left.value, bound.right.value
        if (
            left is not None
            and right is not None
            and not comparison_holds(left, constraint.comparison, right)
        ):
            yield constraint, left, right


def _is_open(constraint: Constraint) -> bool:
    return constraint.left.value is None or constraint.right.value is None


def _check_extents(routine: Routine) -> None:
    for operand in routine.operands:
        for extent in operand.shape:
            _check_divisors(extent, operand.name, operand.span)
            _check_extent(extent.value, f"an extent of `{operand.name}`", operand.span)
        bits = prod(e.value or 1 for e in operand.shape) * operand.dtype.bits
        if bits // 8 >= 2**63:
            raise _refuse(
                "size-too-large",
                f"`{operand.name}` would have {bits // 8} bytes: that exceeds 64 bits",
                operand.span,
            )
    for statement in routine.body:
        _check_loops(statement, 1)


def _check_loops(statement: Stmt, trips: int) -> None:
    if not isinstance(statement, Loop):
        return
    for axis in statement.axes:
        _check_extent(axis.extent.value, f"the extent of axis `{axis.name}`", axis.span)
        trips *= axis.extent.value or 1
    if trips >= 2**63:
        raise _refuse(
            "size-too-large", f"this loop would run {trips} times: that exceeds 64 bits", statement.span
        )
    for inner in statement.body:
        _check_loops(inner, trips)


def _check_extent(value: int | None, what: str, span: Span | None) -> None:
    if value is not None and value < 1:
        raise _refuse("extent-not-positive", f"{what} becomes {value}; the smallest is 1", span)
    if value is not None and value > MAX_EXTENT:
        raise _refuse("extent-too-large", f"{what} becomes {value}; the limit is 2**31", span)
