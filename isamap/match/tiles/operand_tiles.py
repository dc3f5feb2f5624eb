"""A mapping applied to a statement: loop axes with their tiles, and the tile of each operand.

For `tdpbf16ps { m: m, n: n, k: k, p: k }` with R = N = 16 and Q = 16 the loop axes are m by 16, n by 16 and k
by 32; element (i, j) of operand a is A[@m + i, @k + j], where @x is the current position of the loops of axis
x.

It also has the layout of a kernel's arrays, and the buffers of whole tiles into which operands may be copied:

    A: f32[M, K], an argument   ->  (A.s0, 1)     the caller gives the distance of its rows
    T: f32[M, K], a temporary   ->  (K, 1)
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as MappingType
from math import prod

from isamap.ir import Cast, Const, DType, Expr, Index, Kernel, Operand, Read, product, substitute_expr
from isamap.ir.index import ONE, ZERO
from isamap.ir.walk import map_reads
from isamap.machine import Machine, home_of, main_memories
from isamap.match.mappings.mapping import Mapping
from isamap.match.operand_loads import load_request as requests
from isamap.match.operand_loads.load_search import find_operand_load, find_place
from isamap.match.patterns.address import Location, simplify_expr
from isamap.match.patterns.lane_indices import have_short_indices
from isamap.match.patterns.layouts import stated_alignments, stated_strides
from isamap.match.patterns.padding import Fills, neutral_fills
from isamap.match.patterns.pattern import Pattern, digits_of, encoded_values, invert
from isamap.match.patterns.reach import Params, coordinate_names, extents_of
from isamap.match.tiles.walks import LoopAxis, Loops, lengths_at_run_time, walk_of
from isamap.source import NoMapping, dataclass, replace
from isamap.transform import Statement, bounding_axes, distinct_reads, statements, symbols


@dataclass(frozen=True, slots=True)
class OperandTile:
    """The part of one operand that one issue uses.

    `subject` is the kernel's expression over positions `@axis`. `pattern` are the operand's subscripts over
    the instruction's axes. `elements` is the expression over the operand's own coordinates `%0`, … and
    positions. `parts` names, per coordinate, the loop axis whose remainder limits the valid elements.
    `scattered` are axes whose remainder limits no coordinate. A buffer stores elements that repeat in the
    register once: `cell_shape` is the shape without repetitions, `cell_pattern` a cell's subscripts over
    the instruction's axes, and `cells` the same over the register's coordinates. `fill` is the value of
    elements beyond the end of reduced axes. Where a buffer is to hold what a register's value is computed
    of, `computed` is that value over the `ELEMENT`, with its type. All else is then of the element. `idle` are
    coordinates along which only the first element counts: those of an instruction axis that no kernel axis uses. The
    last `padding` cells of each row, which `cell_shape` includes, hold no element. `spans` are the elements along
    each coordinate that the instruction reaches, None for all: a store of 8 of 16 lanes.
    """

    name: str
    subject: Expr
    pattern: tuple[Index, ...]
    elements: Expr
    memory: str
    dtype: DType
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    parts: tuple[str | None, ...]
    scattered: frozenset[str]
    cell_shape: tuple[int, ...]
    cell_pattern: tuple[Index, ...]
    cells: tuple[Index, ...]
    placement: requests.Places
    fill: Const
    computed: tuple[Expr, DType] | None = None
    idle: tuple[int, ...] = ()
    padding: int = 0
    spans: tuple[Index | None, ...] = ()

    @property
    def held(self) -> Read:
        """The register over its coordinates, as a value to be written."""
        return Read(
            f"$value:{self.memory}", tuple(Index.of(d) for d in coordinate_names(len(self.shape))), self.dtype
        )

    @property
    def register_dtype(self) -> DType:
        """The type of the register's elements. A buffer may hold them in another type."""
        return self.dtype if self.computed is None else self.computed[1]

    def request(
        self, partial: MappingType[str, Index], *, expr: Expr | None = None, filled: bool = False
    ) -> requests.LoadRequest:
        """Return the load request if only a number of elements is valid along each axis in `partial`."""
        whole = self.spans or (None,) * len(self.parts)
        valid = tuple(partial.get(p or "") or span for p, span in zip(self.parts, whole, strict=True))
        value = expr if expr is not None else self.elements
        if self.computed is not None:
            element, (over, _) = value, self.computed
            value = map_reads(over, lambda read: element if read.buffer == ELEMENT else read)
        return requests.LoadRequest(
            value,
            self.memory,
            self.register_dtype,
            self.shape,
            valid,
            self.fill if filled else None,
            placement=self.placement,
            idle=self.idle,
        )


@dataclass(frozen=True, slots=True)
class Tile:
    """One issue of a mapped instruction: the loop axes around it and its operands.

    `accumulator` is None for a statement that only assigns, unless its instruction leaves the result in a
    scratchpad, as it would sums. If it is None, `result` is the register to be written.
    The target is given over its coordinates (`target_elements`) and over positions (`target_positions`),
    and so is the value, which the instruction may convert (`value_elements`, `value_positions`). With
    `held` the accumulator's lanes are partial sums, which are added to `held` at the end.
    """

    statement: Statement
    mapping: Mapping
    pattern: Pattern
    params: tuple[tuple[str, int], ...]
    axes: tuple[LoopAxis, ...]
    inputs: tuple[OperandTile, ...]
    accumulator: OperandTile | None
    result: OperandTile | None
    scalars: tuple[tuple[str, Expr], ...]
    target_elements: Read | None = None
    target_positions: Read | None = None
    value_elements: Expr | None = None
    value_positions: Expr | None = None
    held: OperandTile | None = None

    def axis(self, name: str) -> LoopAxis:
        return next(a for a in self.axes if a.name == name)

    def overwrites(self, operand: OperandTile) -> bool:
        """Return whether the instruction overwrites an operand without reading it, so that no load is needed."""
        return self.statement.assign.op is None and operand.name == self.pattern.target.buffer

    @property
    def run_time_lengths(self) -> dict[str, str]:
        """For each loop axis with a run-time length: the parameter with the number of elements per issue."""
        if self.accumulator is None or not self.overwrites(self.accumulator):
            return {}
        return lengths_at_run_time(self.pattern, self.axes)


def bring(
    search: requests.MoveSearch, tile: Tile, operand: OperandTile, request: requests.LoadRequest
) -> requests.OperandMove | requests.Present | Location | None:
    """Return how an operand of an issue is loaded: by a chain of instructions, or from its location."""
    if not search.is_addressable(operand.memory):
        return find_operand_load(search, request)
    if not tile.run_time_lengths.keys().isdisjoint(operand.parts):
        lengths = tile.run_time_lengths
        valid = zip(request.valid, operand.parts, strict=True)
        request = replace(request, valid=tuple(None if part in lengths else left for left, part in valid))
    return find_place(search, tile.pattern.instruction, operand.name, request, dict(tile.params))


def apply_mapping(
    statement: Statement,
    mapping: Mapping,
    pattern: Pattern,
    profile: MappingType[str, int],
    machine: Machine | None = None,
) -> Tile | None:
    """Return the tile of a mapping, or None if its iterations do not follow from its elements.

    An operand's elements may leave the iterations open, or two subscripts may fill them from two expressions.
    `machine` tells which instructions leave their results in a scratchpad.
    """
    walk = walk_of(Loops.of(statement), mapping, pattern, profile)
    if walk is None:
        return None
    params, lengths, axes = walk
    encoded = encoded_values(pattern.instruction, mapping.bindings) or {}
    positions = _positions(statement, mapping, axes)
    named = {p.name for p in pattern.instruction.params}
    bindings = {b.name: b for b in mapping.bindings}
    operands: list[OperandTile] = []
    leaves = leaves_in_scratchpad(pattern, machine)
    for name, binding in bindings.items():
        if name in named:
            continue
        known = binding.subject, binding.pattern, params, axes, lengths, positions
        repeats = leaves and statement.assign.op is None
        tile = _operand(pattern, name, *known, repeats=repeats)
        if tile is None:
            return None
        in_register = machine is not None and machine.memories[tile.memory].kind == "registers"
        operands.append(_of_its_array(tile) if repeats and in_register else tile)
    scalars = tuple((n, b.subject) for n, b in bindings.items() if n in named - encoded.keys())
    chosen = tuple(sorted(params.items()))
    if statement.assign.op is not None or leaves:
        held, target = _initial_value(statement), pattern.target
        acc = _operand(pattern, target.buffer, held, target.index, params, axes, lengths, positions)
        if acc is None:
            return None
        fills = fills_behind(pattern, operands, (a for a in axes if cuts_sum(a)), finite=True) or {}
        inputs = tuple(replace(o, fill=fills.get(o.name, o.fill)) for o in operands)
        return Tile(statement, mapping, pattern, chosen, axes, inputs, acc, None, scalars)
    if len(operands) != 1:
        return None
    (result,) = operands
    target = statement.assign.target
    written = _operand(pattern, result.name, target, result.pattern, params, axes, lengths, positions)
    value = statement.assign.value
    made = _operand(pattern, result.name, value, result.pattern, params, axes, lengths, positions)
    if written is None or made is None:
        return None
    assert isinstance(written.elements, Read)
    assert isinstance(written.subject, Read)
    # A value that is the same everywhere follows no axis, but where it is written does.
    result = replace(result, scattered=result.scattered | written.scattered)
    ends = (written.elements, written.subject, made.elements, made.subject)
    return Tile(statement, mapping, pattern, chosen, axes, (), None, result, scalars, *ends)


def _of_its_array(tile: OperandTile) -> OperandTile:
    """Return the tile of a computed register as a tile of the array that it is computed from.

    Registers that load from a scratchpad compute it behind the load. It stays where several elements make a value.
    """
    found, elements = distinct_reads(tile.subject), distinct_reads(tile.elements)
    if isinstance(tile.subject, Read) or len(found) != 1 or len(elements) != 1 or found[0].fill is not None:
        return tile
    (read,), (element,) = found, elements
    over = map_reads(tile.subject, lambda read: Read(ELEMENT, (), read.dtype))
    if symbols(over):
        return tile
    known = {"subject": read, "elements": element, "dtype": read.dtype, "fill": zero_of(read.dtype)}
    return replace(tile, **known, computed=(over, tile.dtype))


def part_of(tile: Tile, operand: OperandTile, position: int) -> OperandTile | None:
    """Return the tile of one source array of a computed operand, for a buffer of that array, or None.

    The value is computed behind the load from the buffer. What it needs of other arrays is read where that lies.
    `position` counts the arrays' elements in the order of `distinct_reads`. None if a value takes several
    elements of the array, if a tile repeats an element of it, or if an axis may end inside of a tile.
    """
    binding = next(b for b in tile.mapping.bindings if b.name == operand.name)
    read = distinct_reads(binding.subject)[position]
    lengths, positions = (
        extents_of(tile.pattern, dict(tile.params))[0],
        _positions(tile.statement, tile.mapping, tile.axes),
    )
    known = dict(tile.params), tile.axes, lengths, positions
    part = _operand(tile.pattern, operand.name, read, binding.pattern, *known)
    if part is None or read.fill is not None or prod(part.cell_shape) != prod(operand.shape):
        return None
    elements = [r for r in distinct_reads(operand.elements) if r.buffer == read.buffer]
    cut = (a for a in tile.axes if a.tile > 1 and any(count % a.tile for _, count in a.extent.terms))
    if elements != [part.elements] or any(a.name in operand.axes for a in cut):
        return None
    over = map_reads(operand.elements, lambda r: Read(ELEMENT, (), r.dtype) if r == part.elements else r)
    return replace(part, dtype=read.dtype, fill=zero_of(read.dtype), computed=(over, operand.dtype))


def leaves_in_scratchpad(pattern: Pattern, machine: Machine | None) -> bool:
    """Return whether an instruction leaves its result in a scratchpad, where other instructions read it."""
    memory = machine.memories.get(pattern.output.memory or "") if machine is not None else None
    return memory is not None and memory.kind == "scratchpad"


def cuts_sum(axis: LoopAxis) -> bool:
    """Return whether a reduction axis may end within a tile."""
    filled = axis.tile == 1 or all(count % axis.tile == 0 for _, count in axis.extent.terms)
    return axis.is_reduction and not filled


def fills_behind(
    pattern: Pattern, inputs: Iterable[OperandTile], summed: Iterable[LoopAxis], *, finite: bool = False
) -> Fills | None:
    """Return the input values beyond the end of reduction axes with which the result is unchanged, or None.

    `finite` has the same meaning as in `neutral_fills`.
    """
    in_use = frozenset(
        frozenset(o.name for o in inputs if a.name not in (*o.parts, *o.scattered)) for a in summed
    )
    return neutral_fills(pattern, in_use, finite=finite) if in_use else {}


def sums_can_be_padded(tile: Tile) -> bool:
    """Return whether lanes beyond the end of a sum can be filled with a neutral value."""
    cut = [axis for axis in tile.axes if cuts_sum(axis)]
    return not cut or fills_behind(tile.pattern, tile.inputs, cut, finite=True) is not None


def zero_of(dtype: DType) -> Const:
    """Return the zero of a type (false for bool)."""
    return Const(False if dtype.kind == "bool" else 0.0 if dtype.is_float else 0, dtype)


def _initial_value(statement: Statement) -> Expr:
    """Return the initial value of the accumulator: the target in the accumulator's type."""
    target = statement.assign.target
    return target if target.dtype == statement.accumulator else Cast(target, statement.accumulator)


def _positions(statement: Statement, mapping: Mapping, axes: tuple[LoopAxis, ...]) -> dict[str, Index]:
    """Return each kernel axis as an expression of its loop's position. Fused axes are quotients and remainders."""
    groups = {g.name: g.kernel_axes for g in mapping.groups}
    found: dict[str, Index] = {}
    known = {a.name for a in statement.axes}
    for axis in axes:
        members = groups.get(axis.name, (axis.name,))
        inner = Index.of(1)
        for position, name in reversed(list(enumerate(members))):
            if name not in known:  # an instruction axis that stays empty
                continue
            value = Index.of(f"@{axis.name}").floordiv(inner)
            extent = statement.axis(name).extent
            found[name] = value if position == 0 else value.mod(extent)
            inner = inner * extent
    return found


def _operand(
    pattern: Pattern,
    name: str,
    subject: Expr,
    subscripts: tuple[Index, ...],
    params: Params,
    axes: tuple[LoopAxis, ...],
    lengths: dict[str, int],
    positions: dict[str, Index],
    *,
    repeats: bool = False,
) -> OperandTile | None:
    """Return the tile of an operand, or None. With `repeats`, an element has a cell for each of its reads."""
    operand = pattern.instruction.operand(name)
    shape = tuple(s.substitute(params).value for s in operand.shape)
    if None in shape:
        return None
    sizes = tuple(int(s or 1) for s in shape)
    names = coordinate_names(len(sizes))
    back = invert(subscripts, lengths, names)
    if back is None:
        return None
    over_positions = substitute_expr(subject, positions)
    read = {symbol for index in subscripts for symbol in index.symbols} if repeats else set[str]()
    used = tuple(
        a.name
        for a in axes
        if f"@{a.name}" in symbols(over_positions)
        or (a.tile > 1 and all(digit in read for digit, length in a.digits if length > 1))
    )
    moved: dict[str, Index] = {}
    for axis in axes:
        total, step = Index.of(f"@{axis.name}"), 1
        for digit, length in reversed(axis.digits):
            if axis.name in used and digit not in back and length > 1:
                return None
            total = total + back.get(digit, ZERO) * step
            step *= length
        moved[f"@{axis.name}"] = total
    elements = simplify_expr(substitute_expr(over_positions, moved), dict(zip(names, sizes, strict=True)))
    parts = tuple(_part(index, axes, lengths) for index in subscripts)
    touched = {
        a.name
        for a in axes
        if any(d in i.symbols for d, n in a.digits if n > 1 for i in subscripts)
        and (a.name in used or a.name.startswith("_"))
    }
    scattered = frozenset(touched - {p for p in parts if p is not None})
    kept = {d for a in axes if a.name in used or a.name.startswith("_") for d, _ in a.digits}
    idle = {a.name for a in axes if a.name.startswith("_") and not a.is_reduction}
    cells = [_cell(index, dim, kept, lengths) for index, dim in zip(subscripts, names, strict=True)]
    return OperandTile(
        name,
        over_positions,
        subscripts,
        elements,
        operand.memory or "",
        operand.dtype,
        sizes,
        used,
        parts,
        scattered,
        tuple(c[0] for c in cells),
        tuple(c[1] for c in cells),
        tuple(c[2] for c in cells),
        requests.placement_of(operand, params),
        zero_of(operand.dtype),
        idle=tuple(n for n, part in enumerate(parts) if part in idle),
        spans=tuple(_span(index, size, lengths) for index, size in zip(subscripts, sizes, strict=True)),
    )


def _span(index: Index, size: int, lengths: dict[str, int]) -> Index | None:
    """Return how many elements of a coordinate the instruction's axes reach, or None for all `size` of them."""
    digits = digits_of(index, lengths)
    reach = size if not digits else digits[0][1] * lengths[digits[0][0]]
    return None if reach >= size else Index.of(reach)


def _cell(index: Index, dim: str, kept: set[str], lengths: dict[str, int]) -> tuple[int, Index, Index]:
    """Return a coordinate without repeating digits: its size, its expression in axes, and the one in `dim`."""
    size, over_axes, over_dim = 1, ZERO, ZERO
    digits = digits_of(index, lengths) or ()
    for position, (digit, step) in reversed(list(enumerate(digits))):
        if digit not in kept:
            continue
        value = Index.of(dim).floordiv(step)
        over_axes = over_axes + Index.of(digit) * size
        over_dim = over_dim + (value if position == 0 else value.mod(lengths[digit])) * size
        size *= lengths[digit]
    return size, over_axes, over_dim


def _part(index: Index, axes: tuple[LoopAxis, ...], lengths: dict[str, int]) -> str | None:
    """Return the loop axis whose digits form exactly this coordinate, in the same order, or None."""
    digits = digits_of(index, lengths)
    if not digits:
        return None
    for axis in axes:
        expected: list[tuple[str, int]] = []
        step = 1
        for digit, length in reversed(axis.digits):
            if length > 1:
                expected.insert(0, (digit, step))
            step *= length
        if tuple(expected) == digits:
            return axis.name
    return None


def over_tile(tile: Tile, expr: Expr) -> OperandTile | None:
    """Return the tile of an expression over the accumulator's coordinates, or None if it has none."""
    target, lengths = tile.pattern.target, extents_of(tile.pattern, dict(tile.params))[0]
    positions = _positions(tile.statement, tile.mapping, tile.axes)
    args = (dict(tile.params), tile.axes, lengths, positions)
    return _operand(tile.pattern, target.buffer, expr, target.index, *args)


def accumulator_store(tile: Tile) -> tuple[Read, Expr]:
    """Return the target and the value, over the accumulator's coordinates, of the store of the accumulator.

    The value reads the pseudo-buffer of the register that the accumulator lives in.
    """
    acc = tile.accumulator
    assert acc is not None
    inner = acc.elements.value if isinstance(acc.elements, Cast) else acc.elements
    assert isinstance(inner, Read)
    value: Expr = acc.held if inner.dtype == acc.dtype else Cast(acc.held, inner.dtype)
    return inner, value


def is_read_of(expr: Expr) -> str | None:
    """Return the array if an expression is an element of it, or a cast of one, else None."""
    while isinstance(expr, Cast):
        expr = expr.value
    return expr.buffer if isinstance(expr, Read) else None


ELEMENT = "$element"  # a stand-in for the element of an array that a register's value is computed of
PROBE = "$tiles"  # a stand-in for the staging buffer that an operand might get
OFFSET = "@offset"  # where a tile starts in its staging buffer, in expressions of its elements


def tensor_strides(operand: Operand) -> tuple[Index, ...]:
    """Return strides in elements: stated ones, the caller's with a contiguous last axis, or row-major."""
    rank = len(operand.shape)
    if operand.role == "temp":
        return tuple(product(operand.shape[d + 1 :]) for d in range(rank))
    stated = operand.strides or (None,) * rank
    own = (Index.of(f"{operand.name}.s{d}") if s is None else s for d, s in enumerate(stated[:-1]))
    return (*own, *(ONE for _ in operand.shape[-1:]))


def layouts(kernel: Kernel) -> dict[str, tuple[Index, ...]]:
    """Return the strides of all arrays of a kernel."""
    return {o.name: tensor_strides(o) for o in kernel.operands}


def move_search_of(kernel: Kernel, machine: Machine) -> requests.MoveSearch:
    """Return the search for moves of a kernel's arrays, with its caches. Raises: NoMapping for an unknown memory."""
    placed = {o.name: o.memory for o in kernel.operands if o.memory is not None}
    mains = main_memories(machine)
    for operand in (o for o in kernel.operands if o.name in placed and o.memory not in mains):
        said = f"`{operand.name}` is in `{operand.memory}`, which is not a main memory of {machine.name}"
        help_ = f"write one of: {', '.join(mains)}; or leave out `@ {operand.memory}`"
        raise NoMapping.of("unknown-memory", said, operand.span, help=help_)
    passing = frozenset(o.name for o in kernel.operands if o.role == "temp")
    return requests.MoveSearch(
        machine,
        layouts(kernel),
        alignments=stated_alignments(kernel),
        steps=stated_strides(kernel),
        strict=kernel.strict,
        passing=passing,
        main=placed | (dict.fromkeys(passing, home_of(machine)) if len(mains) > 1 else {}),
        ordered=bounding_axes(statements(kernel)),
        short_indices=have_short_indices(kernel),
        index_types={o.name: o.dtype for o in kernel.operands if o.domain is not None},
        dense={
            f"{o.name}.s{d}": rows.value
            for o in kernel.operands
            for d in range(len(o.shape))
            if (rows := product(o.shape[d + 1 :])).value is not None
        },
    )


def profile_sizes(statement: Statement) -> dict[str, int]:
    """Return a large value for each open size, from which lengths are chosen."""
    return {s: 2**20 for a in statement.axes for s in a.extent.symbols}


def in_tiles(operand: OperandTile, search: requests.MoveSearch, home: str = "") -> Read:
    """Return an operand's elements in the layout of a staging buffer, over the operand's coordinates.

    `home` is the scratchpad of the buffer. "" means the workspace.
    """
    name = f"{PROBE}:{operand.dtype}:{operand.cell_shape}" + (f"@{home}" if home else "")
    if home:
        search.homes[name] = home
    strides = tuple(Index.of(prod(operand.cell_shape[d + 1 :])) for d in range(len(operand.cell_shape)))
    search.strides.setdefault(name, (ONE, *strides))
    search.steps[name] = {OFFSET: prod(operand.cell_shape)}
    return Read(name, (Index.of(OFFSET), *operand.cells), operand.dtype)
