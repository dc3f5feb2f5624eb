"""Join programs for several vector lengths into one: equal parts once, with the length as a symbol.

    Q = 2: For("n0", trips=N / 8)  { load(C + 8*n0, L = 4) }
    Q = 4: For("n0", trips=N / 16) { load(C + 16*n0, L = 8) }
    both:  For("n0", trips=N / (4*Q)) { load(C + 4*Q*n0, L = 2*Q) }

Different parts become an `If` for each length. The joined program supports only the lengths that it was
lowered for.

Numbers that differ between lengths become expressions of the length:

    length Q        2        4        8
    index         4*n0     8*n0    16*n0    ->  2*Q*n0
    trips           11        6        3    ->  q0, with (11, 6, 3) in a table

An expression represents only the numbers that it was built from: a program runs only at the lengths that it
was lowered for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar, assert_never

from isamap.ir.index import ZERO, Atom, Element, FloorDiv, Index, MinMax, Mod, index_max, index_min, product
from isamap.ir.nodes import Call, Cast, Const, Expr, IndexValue, Read, Scalar
from isamap.lower import program as lir
from isamap.lower.length_check import check_join
from isamap.lower.passes import names_of
from isamap.machine import Machine
from isamap.source.records import dataclass, field, replace

Which = tuple[int, ...]
"""For which of the programs, by number."""
T = TypeVar("T")
Nodes = tuple[lir.Node, ...]


def join_lengths(
    constant: str, values: Values, programs: Sequence[lir.LoweredProgram], machine: Machine
) -> lir.LoweredProgram:
    """Return one program for all lengths. At each length, it equals the program that is given for it.

    They are of one kernel and its sizes, in this order for these values, the machine at any of them.
    """
    first = programs[0]
    names = names_of(first.kernel)
    trail: list[tuple[dict[str, Any], str]] = []
    numbers = Numbers(constant, names.reserve_name(constant), values, names.fresh, trail)
    join = _Join(programs, machine, names, numbers, trail)
    everywhere = tuple(range(len(programs)))
    body = join.block([program.body for program in programs], everywhere)
    checks = tuple(dict.fromkeys(check for program in programs for check in program.checks))
    buffers = tuple(join.buffer(name) for name in join.claimed)
    made = replace(first, body=body, buffers=buffers, checks=checks, lengths=join.numbers.lengths)
    found = check_join(made, programs)
    assert not found, f"programs for several lengths were joined into another one: {found}"
    return made


class _NotAlike(Exception):
    """An exception: nodes differ in more than names and numbers."""


@dataclass
class _Join:
    """A joint program under construction.

    `known` are the joint names of the values that each program has declared so far, `claimed` its buffers by
    their joint names. `trail` records additions in order, so that a failed trial can undo them.
    """

    programs: Sequence[lir.LoweredProgram]
    machine: Machine
    names: lir.Names
    numbers: Numbers
    trail: list[tuple[dict[str, Any], str]]
    known: list[dict[str, str]] = field(init=False)
    global_names: frozenset[str] = field(init=False)
    claimed: dict[str, dict[int, lir.Buffer]] = field(default_factory=dict[str, dict[int, lir.Buffer]])

    def __post_init__(self) -> None:
        first = self.programs[0]
        self.known = [{} for _ in self.programs]
        strides = (s for t in first.tensors for stride in t.strides for s in stride.symbols)
        parameters = (p.name for p in first.kernel.params)
        self.global_names = frozenset((*strides, *parameters, *(t.name for t in first.tensors)))

    # --- bodies

    def block(self, bodies: Sequence[Nodes], which: Which) -> Nodes:
        """Return the common beginning of some bodies, then the remainder of each under a condition on the length."""
        front = self._alike(bodies, which)
        rests = [body[len(front) :] for body in bodies]
        if len(which) == 1:
            assert not rests[0], "a program is like itself"
            return front
        if not any(rests):
            return front
        middle = tuple(
            lir.If((self._only(n),), self.block([rest], (n,)))
            for n, rest in zip(which, rests, strict=True)
            if rest
        )
        return (*front, *middle)

    def _alike(self, bodies: Sequence[Nodes], which: Which) -> Nodes:
        found: list[lir.Node] = []
        for nodes in zip(*bodies, strict=False):
            node = self._try_join(lambda nodes=nodes: self.node(nodes, which))
            if node is None:
                break
            found.append(node)
        return tuple(found)

    def _try_join(self, make: Callable[[], T]) -> T | None:
        """Return the result of `make`, or None if the parts differ, with the declarations of `make` undone."""
        before = len(self.trail)
        try:
            return make()
        except _NotAlike:
            for kept, name in self.trail[before:]:
                del kept[name]
            del self.trail[before:]
            return None

    def _only(self, n: int) -> lir.Condition:
        return Index.of(self.numbers.name), "==", Index.of(self.numbers.values[n])

    # --- nodes

    def node(self, nodes: Sequence[lir.Node], which: Which) -> lir.Node:
        """Return one node for corresponding nodes of all programs. Raises: _NotAlike."""
        first = nodes[0]
        match first:
            case lir.Issue():
                return self._issue(_all(lir.Issue, nodes), which)
            case lir.Declare():
                return self._declare(_all(lir.Declare, nodes), which)
            case lir.For():
                return self._loop(_all(lir.For, nodes), which)
            case lir.Parallel():
                return self._parallel(_all(lir.Parallel, nodes), which)
            case lir.If():
                ifs = _all(lir.If, nodes)
                conditions = self._conditions([n.conditions for n in ifs], which)
                return lir.If(conditions, self.block([n.body for n in ifs], which))
            case lir.Block():
                blocks = _all(lir.Block, nodes)
                body = self.block([n.body for n in blocks], which)
                return lir.Block(_note(blocks), body, _common_value([n.is_copy for n in blocks]))
            case lir.Fill():
                fills = _all(lir.Fill, nodes)
                name = self._array([n.buffer for n in fills], which)
                offset = self._index([n.offset for n in fills], which)
                return lir.Fill(name, offset, self._index([n.elements for n in fills], which))
            case lir.Hint():
                hints = _all(lir.Hint, nodes)
                place = self._memory([n.place for n in hints], which)
                named = _common_value([(n.instruction, n.operand) for n in hints])
                return lir.Hint(*named, place)
            case lir.Configure():
                return _common_value(_all(lir.Configure, nodes))
            case lir.Barrier():
                return _common_value(_all(lir.Barrier, nodes))
            case lir.ProductGroup():
                return _common_value(_all(lir.ProductGroup, nodes))
            case lir.Begin():
                return self._begin(_all(lir.Begin, nodes), which)
            case lir.WorkSlice():
                return self._share(_all(lir.WorkSlice, nodes), which)
            case _:
                assert_never(first)

    def _issue(self, issues: Sequence[lir.Issue], which: Which) -> lir.Issue:
        name = _common_value([n.instruction for n in issues])
        operands = _columns([n.operands for n in issues], lambda _, refs: self._ref(refs, which))
        kinds = {p.name: p.kind for p in self.machine.instructions[name].instruction.params}

        def argument(param: str, given: Sequence[lir.Argument]) -> lir.Argument:
            return self._argument(given, which, is_encoded=kinds[param] != "scalar")

        params = _columns([n.params for n in issues], argument)
        return lir.Issue(name, operands, params, _note(issues))

    def _declare(self, declared: Sequence[lir.Declare], which: Which) -> lir.Declare:
        values = [self._value(v, which) for v in _zip_alike([n.values for n in declared])]
        return lir.Declare(tuple(values))

    def _value(self, values: Sequence[lir.Value], which: Which) -> lir.Value:
        """Return a value with its shape at the longest length, because C has one type for all lengths."""
        _common_value([(v.memory, v.dtype, v.registers, v.register, len(v.shape)) for v in values])
        widest = max(values, key=lambda v: prod(v.shape))
        return replace(widest, name=self._name_declaration([v.name for v in values], which))

    def _loop(self, loops: Sequence[lir.For], which: Which) -> lir.For:
        trips = self._index([n.trips for n in loops], which)
        counter = self._name_declaration([n.variable for n in loops], which)
        return lir.For(counter, trips, self.block([n.body for n in loops], which), _note(loops))

    def _parallel(self, loops: Sequence[lir.Parallel], which: Which) -> lir.Parallel:
        counters: list[tuple[str, Index]] = []
        for some in _zip_alike([n.counters for n in loops]):
            trips = self._index([count for _, count in some], which)
            counters.append((self._name_declaration([name for name, _ in some], which), trips))
        return lir.Parallel(tuple(counters), self.block([n.body for n in loops], which), _note(loops))

    def _begin(self, begun: Sequence[lir.Begin], which: Which) -> lir.Begin:
        pieces, trips = (
            self._index(list(of), which) for of in zip(*((n.pieces, n.trips) for n in begun), strict=True)
        )
        depth, parts = _common_value([(n.depth, n.parts) for n in begun])
        return lir.Begin(self._name_declaration([n.work for n in begun], which), pieces, trips, depth, parts)

    def _share(self, shares: Sequence[lir.WorkSlice], which: Which) -> lir.WorkSlice:
        work = self._joint_name([n.work for n in shares], which)
        now, trips = (
            self._index(list(of), which) for of in zip(*((n.now, n.trips) for n in shares), strict=True)
        )
        nth, depths = (
            self._name_declaration([n.nth for n in shares], which),
            _common_value([n.depths for n in shares]),
        )
        return lir.WorkSlice(work, now, trips, nth, depths, self.block([n.body for n in shares], which))

    def _conditions(
        self, conditions: Sequence[tuple[lir.Condition, ...]], which: Which
    ) -> tuple[lir.Condition, ...]:
        found: list[lir.Condition] = []
        for some in _zip_alike(conditions):
            left, right = (
                self._index(list(side), which) for side in zip(*((c[0], c[2]) for c in some), strict=True)
            )
            found.append((left, _common_value([c[1] for c in some]), right))
        return tuple(found)

    # --- what nodes are made of

    def _ref(self, refs: Sequence[lir.OperandRef], which: Which) -> lir.OperandRef:
        first = refs[0]
        if isinstance(first, lir.RegisterRef):
            return lir.RegisterRef(
                self._joint_name([ref.value for ref in _all(lir.RegisterRef, refs)], which)
            )
        return self._memory(_all(lir.MemoryRef, refs), which)

    def _memory(self, refs: Sequence[lir.MemoryRef], which: Which) -> lir.MemoryRef:
        name = self._array([ref.buffer for ref in refs], which)
        offset = self._index([ref.offset for ref in refs], which)
        strides = [self._index(some, which) for some in _zip_alike([ref.strides for ref in refs])]
        return lir.MemoryRef(name, offset, tuple(strides))

    def _argument(self, given: Sequence[lir.Argument], which: Which, *, is_encoded: bool) -> lir.Argument:
        """Return a joint argument, equal for all programs if it is encoded or chosen. Raises: _NotAlike."""
        if all(one == given[0] for one in given) and isinstance(given[0], int):
            return given[0]
        numbers = [Index.of(one) for one in given if isinstance(one, int | Index)]
        if len(numbers) == len(given) and not is_encoded:
            return self._index(numbers, which)
        exprs = [one for one in given if not isinstance(one, int | Index)]
        if len(exprs) < len(given):
            raise _NotAlike
        return self._expr(exprs, which)

    def _expr(self, exprs: Sequence[Expr], which: Which) -> Expr:
        first = exprs[0]
        match first:
            case Const() | Scalar():
                return _common_value(exprs)
            case IndexValue():
                values = _all(IndexValue, exprs)
                index = self._index([e.index for e in values], which)
                return replace(first, index=index, dtype=_common_value([e.dtype for e in values]))
            case Read():
                found = _all(Read, exprs)
                _common_value([(e.dtype, e.fill) for e in found])
                index = tuple(self._index(some, which) for some in _zip_alike([e.index for e in found]))
                return replace(first, buffer=self._array([e.buffer for e in found], which), index=index)
            case Call():
                calls = _all(Call, exprs)
                _common_value([(e.op, e.dtype, e.mode) for e in calls])
                args = tuple(self._expr(some, which) for some in _zip_alike([e.args for e in calls]))
                return replace(first, args=args)
            case Cast():
                casts = _all(Cast, exprs)
                _common_value([(e.dtype, e.mode) for e in casts])
                return replace(first, value=self._expr([e.value for e in casts], which))
            case _:
                assert_never(first)

    def _index(self, indices: Sequence[Index], which: Which) -> Index:
        renamed = [self._rename_index(index, n) for index, n in zip(indices, which, strict=True)]
        found = self.numbers.joined(renamed, which)
        if found is None:
            raise _NotAlike
        return found

    def _rename_index(self, index: Index, n: int) -> Index:
        own = index.symbols - self.global_names
        if not own <= self.known[n].keys():
            raise _NotAlike
        return index.substitute({name: Index.of(self.known[n][name]) for name in own})

    # --- names

    def _keep(self, kept: dict[str, T], name: str, value: T) -> None:
        """Register a value. It is removed if the current trial fails."""
        assert name not in kept, f"`{name}` is declared twice"
        kept[name] = value
        self.trail.append((kept, name))

    def _name_declaration(self, own: Sequence[str], which: Which) -> str:
        """Return the joint name of a new declaration."""
        name = self.names.reserve_name(own[0])
        for n, one in zip(which, own, strict=True):
            self._keep(self.known[n], one, name)
        return name

    def _joint_name(self, own: Sequence[str], which: Which) -> str:
        """Return the joint name of an earlier declaration."""
        names = {self.known[n].get(one) for n, one in zip(which, own, strict=True)}
        found = names.pop()
        if found is None or names:
            raise _NotAlike
        return found

    def _array(self, own: Sequence[str], which: Which) -> str:
        """Return the joint name of a tensor or buffer."""
        if own[0] in self.global_names:
            return _common_value(own)
        if not any(one in self.known[n] for n, one in zip(which, own, strict=True)):
            self._join_buffer(own, which)
        return self._joint_name(own, which)

    def _join_buffer(self, own: Sequence[str], which: Which) -> None:
        buffers: dict[int, lir.Buffer] = {}
        for n, name in zip(which, own, strict=True):
            found = next((b for b in self.programs[n].buffers if b.name == name), None)
            if found is None:
                raise _NotAlike
            buffers[n] = found if found.memory else replace(found, offset=None)
        _common_value([(b.dtype, b.memory, b.offset) for b in buffers.values()])
        self._keep(self.claimed, self._name_declaration(own, which), buffers)

    def buffer(self, name: str) -> lir.Buffer:
        """Return a buffer with room for its contents at each length."""
        of = self.claimed[name]
        which = tuple(of)
        sizes = [self._rename_index(b.elements, n) for n, b in of.items()]
        numbers = [size.value for size in sizes if size.value is not None]
        elements = Index.of(max(numbers)) if len(numbers) == len(sizes) else self.numbers.joined(sizes, which)
        if elements is None:
            elements = sizes[0]
            for size in sizes[1:]:
                elements = index_max(elements, size)
        return replace(next(iter(of.values())), name=name, elements=elements, life=None)


def _all(kind: type[T], given: Sequence[object]) -> list[T]:
    """Return the objects if all are of one kind. Raises: _NotAlike."""
    found = [one for one in given if isinstance(one, kind)]
    if len(found) < len(given):
        raise _NotAlike
    return found


def _common_value(given: Sequence[T]) -> T:
    """Return the value that all programs have in common. Raises: _NotAlike."""
    if any(one != given[0] for one in given):
        raise _NotAlike
    return given[0]


def _zip_alike(given: Sequence[Sequence[T]]) -> list[tuple[T, ...]]:
    """Return the tuples of corresponding elements. Raises: _NotAlike if the lengths differ."""
    _common_value([len(one) for one in given])
    return list(zip(*given, strict=True))


def _columns(
    given: Sequence[tuple[tuple[str, T], ...]], join: Callable[[str, list[T]], T]
) -> tuple[tuple[str, T], ...]:
    """Return the values of all programs joined, by name."""
    names = _common_value([tuple(name for name, _ in one) for one in given])
    return tuple(
        (name, join(name, [thing for _, thing in some]))
        for name, some in zip(names, _zip_alike(given), strict=True)
    )


def _note(
    nodes: Sequence[lir.Issue] | Sequence[lir.For] | Sequence[lir.Parallel] | Sequence[lir.Block],
) -> str:
    """Return the note that all nodes have in common, or ""."""
    return nodes[0].note if all(n.note == nodes[0].note for n in nodes) else ""


# --- numbers as expressions of the length


Term = tuple[tuple[Atom, ...], int]
Values = tuple[int, ...]


@dataclass
class Numbers:
    """A builder of joint indices. Numbers that are no multiples of the length become tables.

    `name` is the constant's name in programs. `fresh` returns unused names, and `trail` records additions.
    `tables` are numbers by name, one for each of `values`; 0 if no program reads it.
    """

    constant: str
    name: str
    values: Values
    fresh: Callable[[str], str]
    trail: list[tuple[dict[str, Any], str]]
    tables: dict[str, Values] = field(default_factory=dict[str, Values])

    @property
    def lengths(self) -> lir.Lengths:
        """The lengths that programs with these numbers query from the hardware."""
        return lir.Lengths(self.constant, self.name, self.values, tuple(self.tables.items()))

    def joined(self, indices: Sequence[Index], which: Sequence[int]) -> Index | None:
        """Return one index that equals each given one at its length, or None if their forms differ."""
        if all(index == indices[0] for index in indices):
            return indices[0]
        ordered = [_by_form(index) for index in indices]
        forms = dict.fromkeys(form for one in ordered for form in one)
        total = Index.of(0)
        for form in forms:
            found = [one.get(form) for one in ordered]
            if any(term is None for term in found) and not all(isinstance(atom, str) for atom in form[0]):
                return None
            plain = next(term for term in found if term is not None)
            terms = [(plain[0], 0) if term is None else term for term in found]
            factors = self._factors([m for m, _ in terms], which)
            if factors is None:
                return None
            total = total + self._number([c for _, c in terms], which) * factors
        told = [total.substitute(self.lengths.at(n)) for n in which]
        return total if told == list(indices) else None

    def _factors(self, monomials: Sequence[tuple[Atom, ...]], which: Sequence[int]) -> Index | None:
        found: list[Index] = []
        for atoms in zip(*monomials, strict=True):
            atom = self._atom(atoms, which)
            if atom is None:
                return None
            found.append(atom)
        return product(found)

    def _atom(self, atoms: tuple[Atom, ...], which: Sequence[int]) -> Index | None:
        first = atoms[0]
        if isinstance(first, str):
            return Index.of(first)
        one, other = (self.joined([_sides(atom)[n] for atom in atoms], which) for n in (0, 1))
        if one is None or other is None:
            return None
        match first:
            case FloorDiv():
                return one.floordiv(other)
            case Mod():
                return one.mod(other)
            case MinMax(op):
                return index_min(one, other) if op == "min" else index_max(one, other)
            case Element():
                return Index.of(first.with_parts((one, other, first.high, first.count)))

    def _number(self, numbers: Sequence[int], which: Sequence[int]) -> Index:
        """Return an index for numbers that vary with the length: a multiple of it or of its square, or a table."""
        lengths, length = [self.values[n] for n in which], Index.of(self.name)
        step = (numbers[-1] - numbers[0]) // (lengths[-1] - lengths[0])
        rest = numbers[0] - step * lengths[0]
        if all(number == step * v + rest for number, v in zip(numbers, lengths, strict=True)):
            return length * step + rest
        square = numbers[0] // lengths[0] ** 2
        if all(number == square * v * v for number, v in zip(numbers, lengths, strict=True)):
            return length * length * square
        row = tuple(dict(zip(which, numbers, strict=True)).get(n, 0) for n in range(len(self.values)))
        known = next((name for name, kept in self.tables.items() if kept == row), None)
        if known is None:
            known = self.fresh("q")
            self.tables[known] = row
            self.trail.append((self.tables, known))
        return Index.of(known)


def _sides(atom: Atom) -> tuple[Index, Index]:
    assert not isinstance(atom, str), "terms of one form"
    match atom:
        case MinMax(_, left, right) | FloorDiv(left, right) | Mod(left, right):
            return left, right
        case Element(at=at, low=low):
            return at, low


Form = tuple[tuple[object, ...], int]


def _by_form(index: Index) -> dict[Form, Term]:
    """Return the terms of an index by their form without numbers, and by position within a form."""
    seen: Counter[tuple[object, ...]] = Counter()
    found: dict[Form, Term] = {}
    for term in sorted(index.terms, key=lambda t: [n for atom in t[0] for n in _numbers_in(atom)]):
        form = tuple(_form(atom) for atom in term[0])
        found[form, seen[form]] = term
        seen[form] += 1
    return found


def _form(atom: Atom) -> object:
    """Return an atom without its numbers."""
    if isinstance(atom, str):
        return atom
    kind: object = type(atom).__name__
    if isinstance(atom, MinMax | Element):
        kind = (
            atom.op if isinstance(atom, MinMax) else str(atom.with_parts((ZERO, ZERO, atom.high, atom.count)))
        )
    return kind, *(frozenset(_by_form(side)) for side in _sides(atom))


def _numbers_in(atom: Atom) -> list[int]:
    """Return the numbers of an atom that grow with the length."""
    if isinstance(atom, str):
        return []
    terms = [term for side in reversed(_sides(atom)) for term in side.terms]
    return [n for m, c in terms for n in (*(k for inner in m for k in _numbers_in(inner)), c)]
