"""Arrays in single-assignment form: the storage of each value while a kernel's statements are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import count

from isamap.ir import Assign, Axis, Call, Const, Expr, Index, IndexValue, Kernel, Loop, Operand, Read, Stmt
from isamap.ir.dtypes import BOOL, I64
from isamap.ir.walk import map_reads, reads
from isamap.source import Span, UsageProblem, dataclass, field, replace
from isamap.syntax.bodies import RESERVED
from isamap.transform.rewrite import accesses, line_of
from isamap.transform.shared_elements import Conflicts, may_be_one
from isamap.transform.statements import Statement


class AdjointNames:
    """The names of a kernel, and the names generated since."""

    def __init__(self, kernel: Kernel) -> None:
        self._taken = {o.name for o in kernel.operands} | {p.name for p in kernel.params}
        self._taken |= {let.name for let in kernel.lets} | RESERVED
        self._axes = set(_axes(kernel.body))

    def fresh(self, preferred: str) -> str:
        """Return `preferred` or a similar unused name for an array: `h`, then `h_1` and `h_2`; or `x`, then `x_`."""
        stem, _, end = preferred.rpartition("_")
        others = (
            (f"{stem}_{n}" for n in count(int(end)))
            if stem and re.fullmatch("[0-9]+", end)
            else _longer(preferred)
        )
        name = next(n for n in others if n not in self._taken | self._axes)
        self._taken.add(name)
        return name

    def axis(self, preferred: str, others: Iterable[Axis]) -> str:
        """Return an unused name for an axis of a statement whose other axes are `others`."""
        taken = self._taken | {a.name for a in others}
        return next(n for n in _longer(preferred) if n not in taken)

    def axes(self, shape: tuple[Index, ...], others: Iterable[Axis] = ()) -> tuple[Axis, ...]:
        """Return a new axis for each dimension of a shape."""
        return tuple(Axis(self.axis(f"i{n}", others), extent) for n, extent in enumerate(shape))


def _longer(name: str) -> Iterator[str]:
    while True:
        yield name
        name += "_"


def _axes(body: Iterable[Stmt]) -> Iterator[str]:
    for s in body:
        if isinstance(s, Loop):
            yield from (a.name for a in s.axes)
            yield from _axes(s.body)


Others = Callable[[tuple[Axis, ...]], list[Expr]]
"""Conditions on axes that run over an array, by which some of its elements are chosen."""


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """The storage of an array's value.

    `step` is the value's index along the steps, `drop` a dimension that the storage lacks.
    """

    name: str
    step: Index | None = None
    drop: int | None = None

    def index(self, given: tuple[Index, ...]) -> tuple[Index, ...]:
        kept = tuple(i for n, i in enumerate(given) if n != self.drop)
        return kept if self.step is None else (self.step, *kept)


def no_derivative(message: str, span: Span | None, help_: str) -> UsageProblem:
    """Return the error that a kernel has no derivative. `message` has the reason."""
    return UsageProblem.of("no-gradient", message, span, help=help_)


@dataclass(slots=True)
class StorageState:
    """The state while statements are read in order.

    `current` maps each array to the place of its value. `unread` are the places that no statement has read
    since their start. Contributions are added only to these.
    """

    kernel: Kernel
    of: Conflicts
    names: AdjointNames
    operands: dict[str, Operand] = field(default_factory=dict[str, Operand])
    current: dict[str, StoragePlace] = field(default_factory=dict[str, StoragePlace])
    unread: set[str] = field(default_factory=set[str])
    written: dict[str, list[Statement]] = field(default_factory=dict[str, list[Statement]])
    made: list[Statement] = field(default_factory=list[Statement])

    # --- one statement --------------------------------------------------------------------------------

    def single(self, s: Statement) -> None:
        """Append a statement that is outside of ordered loops."""
        operand = self.kernel.operand(s.assign.target.buffer)
        own = any(r.buffer == operand.name for r in accesses(s)[1:])
        known = self.current.get(operand.name)
        if covers(s, operand, self.of):
            place = self.begin(operand)
        elif known and s.assign.op is None and (known.name not in self.unread or self.replaces(s, known)):
            place = self.begin(operand)
            self.copy(known, place, operand, but=self.others(s, operand))
        else:
            place = self.open(operand, own or self.changes_how(s))
        self.append(s, place, {})
        self.current[operand.name] = place

    def open(self, operand: Operand, anew: bool = False) -> StoragePlace:
        """Return a place that may be added to: the current value if no statement has read it, else a copy of it."""
        known = self.current.get(operand.name)
        if known is None:
            return self.begin(operand)
        if known.name in self.unread and not anew:
            return known
        place = self.begin(operand)
        self.copy(known, place, operand)
        return place

    def changes_how(self, s: Statement) -> bool:
        """Return whether other statements have reduced into the target of `s` by another operation."""
        place = self.current.get(s.assign.target.buffer)
        if place is None or s.assign.op is None:
            return False
        return any(q.assign.op not in (None, s.assign.op) for q in self.written.get(place.name, []))

    def append(self, s: Statement, place: StoragePlace, inside: dict[str, StoragePlace]) -> None:
        """Append the statement with its reads and writes of places.

        `inside` are values of the step that it belongs to.
        """
        target = s.assign.target

        def there(r: Read) -> Read:
            at = inside.get(r.buffer) or self.current.get(r.buffer)
            if at is None:
                raise no_derivative(
                    f"`{r.buffer}` is read by `{line_of(s)}` before it is assigned",
                    s.assign.span,
                    "assign it first",
                )
            self.unread.discard(at.name)
            return replace(r, buffer=at.name, index=at.index(r.index))

        written = replace(target, buffer=place.name, index=place.index(target.index))
        value = map_reads(s.assign.value, there)
        guard = map_reads(s.assign.guard, there) if s.assign.guard is not None else None
        moved = replace(s, assign=replace(s.assign, target=written, value=value, guard=guard))
        if (
            s.assign.op is None
            and place.name in self.written
            and self.replaces(moved, StoragePlace(place.name))
        ):
            raise no_derivative(
                f"`{line_of(s)}` replaces a part of `{target.buffer}` that was assigned before",
                s.assign.span,
                "write the part into a separate array, or choose by `select` in one statement",
            )
        self.written.setdefault(place.name, []).append(moved)
        self.made.append(moved)

    def replaces(self, s: Statement, place: StoragePlace) -> bool:
        """Return whether an assignment may overwrite elements that other statements have changed."""
        of = Conflicts.of(replace(self.kernel, operands=tuple(self.operands.values())))
        target = replace(s.assign.target, buffer=place.name, index=place.index(s.assign.target.index))
        given = place.name not in self.written
        return given or any(
            (q.assign.op is not None or bool(reads(q.assign.value)))
            and may_be_one(q.assign.target, q, target, s, of, in_turn=True)
            for q in self.written[place.name]
        )

    def others(self, s: Statement, operand: Operand) -> Others:
        """Return conditions on axes, one of which holds for each element that an assignment does not write.

        Raises: UsageProblem if these are no whole slices.
        """
        axes, target = {a.name: a.extent for a in s.axes}, s.assign.target
        fixed: dict[int, Index] = {}
        for n, (i, extent) in enumerate(zip(target.index, operand.shape, strict=True)):
            if str(i) not in axes or not self.of.same(axes[str(i)], extent):
                fixed[n] = i
        free = {x for i in fixed.values() for x in i.symbols & axes.keys()}
        names = [str(i) for n, i in enumerate(target.index) if n not in fixed]
        if free or s.assign.guard is not None or len(set(names)) < len(names):
            raise no_derivative(
                f"`{line_of(s)}` replaces a part of `{operand.name}` that was assigned before",
                s.assign.span,
                "write the part into a separate array, or choose by `select` in one statement",
            )
        return lambda over: _where_different([(Index.of(over[n].name), i) for n, i in fixed.items()])

    def begin(self, operand: Operand, steps: Index | None = None, drop: int | None = None) -> StoragePlace:
        """Add an array for a value of `operand`, with a first axis of length `steps` if given. Return its place."""
        name = operand.name if operand.name not in self.operands else self.names.fresh(f"{operand.name}_1")
        shape = tuple(e for n, e in enumerate(operand.shape) if n != drop)
        shape = shape if steps is None else (steps, *shape)
        self.operands[name] = replace(
            operand, name=name, role="temp", shape=shape, strides=None, given=None, outside=None
        )
        self.unread.add(name)
        return StoragePlace(name)

    def copy(
        self,
        source: StoragePlace,
        place: StoragePlace,
        operand: Operand,
        around: tuple[tuple[Axis, ...], tuple[int, ...]] = ((), ()),
        but: Others | None = None,
    ) -> None:
        """Copy a value to another place in the ordered loops `around`. `but` excludes elements."""
        self.fill(source)
        axes = self.names.axes(operand.shape, around[0])
        index = tuple(Index.of(a.name) for a in axes)
        value = Read(source.name, source.index(index), operand.dtype)
        at = Read(place.name, place.index(index), operand.dtype)
        self.unread.discard(source.name)
        for guard in [None] if but is None else but(axes):
            assign = Assign(at, None, value, guard)
            s = Statement(axes, assign, operand.accumulate or operand.dtype, *around)
            if guard is None:
                self.written.setdefault(place.name, []).append(s)
            self.made.append(s)

    def fill(self, place: StoragePlace) -> None:
        """Zero the elements of a place that no statement has assigned, before all of it is read."""
        first = next(iter(self.written.get(place.name, ())), None)
        operand = self.operands[place.name]
        if first is None or place.step is not None or covers(first, operand, self.of):
            return
        axes = self.names.axes(operand.shape)
        at = Read(place.name, tuple(Index.of(a.name) for a in axes), operand.dtype)
        zeros = Statement(axes, Assign(at, None, Const(0, operand.dtype)), operand.dtype)
        self.written[place.name].insert(0, zeros)
        self.made.insert(0, zeros)


def covers(s: Statement, operand: Operand, of: Conflicts, but: int | None = None) -> bool:
    """Return whether a statement assigns all elements of an array, or all of one step."""
    if s.assign.op is not None or s.assign.guard is not None:
        return False
    pairs = [
        (i, e) for n, (i, e) in enumerate(zip(s.assign.target.index, operand.shape, strict=True)) if n != but
    ]
    axes = {a.name: a.extent for a in s.axes}
    names = [str(i) for i, _ in pairs]
    plain = len(set(names)) == len(names) and set(names) <= axes.keys()
    return plain and all(of.same(axes[str(i)], e) for i, e in pairs)


def _where_different(subscripts: Sequence[tuple[Index, Index]]) -> list[Expr]:
    """Return disjoint conditions, one of which holds if some pair of subscripts differs."""
    found: list[Expr] = []
    equal: list[Expr] = []
    for i, fixed in subscripts:
        sides = (_value(i), _value(fixed))
        ops = ("gt",) if fixed.value == 0 else ("lt", "gt")
        found += [reduce(_and, [*equal, Call(op, sides, BOOL)]) for op in ops]
        equal.append(Call("eq", sides, BOOL))
    return found


def _and(a: Expr, b: Expr) -> Expr:
    return Call("and", (a, b), BOOL)


def _value(i: Index) -> Expr:
    return IndexValue(i, I64) if i.value is None else Const(i.value, I64)
