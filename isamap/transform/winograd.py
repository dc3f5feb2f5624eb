"""Compute a convolution of stride 1 by products at points: Winograd's minimal filtering, by Toom and Cook.

    Y[p] += X[p + r] * F[r]      two results by three taps take six products

    V[x, p] = the sums of X[2*p] … X[2*p + 3] that row x of B says       4 points of each tile
    U[x]    = the sums of F[0] … F[2] that row x of G says
    M[x, p] = V[x, p] * U[x]                                             four products
    Y[2*p + i] += the sums of M[0, p] … M[3, p] that row i of A says

The matrices are derived from the points at which polynomials are evaluated, and proved for each use, in exact
fractions. Axes of an image are transformed one after the other. Rounding errors grow with the numbers of the
matrices, and an infinity reaches its whole tile: `strict` kernels keep their sums.
Source: Lavin and Gray 2016; Barabasz et al. 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product as tuples
from math import ceil, lcm, prod

from isamap.ir import Assign, Axis, Call, Const, Expr, Index, Kernel, Operand, Read
from isamap.ir.index import bounds
from isamap.ir.substitute import substitute_expr, substitute_read
from isamap.ir.walk import map_reads, reads
from isamap.source.records import dataclass, field, replace
from isamap.transform import rewrite
from isamap.transform.margins import zero_like
from isamap.transform.statements import Statement, statements

Matrix = tuple[tuple[Fraction, ...], ...]
POINTS = tuple(map(Fraction, ("0", "1", "-1", "2", "-2")))
"""The finite points of evaluation, those first that round least; the last point of all is infinity."""
TILES = (2, 4)
"""The numbers of results along an axis that a tile may have."""


# --- the matrices, and their proof ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filtering:
    """F(m, r): m results of r taps are `results` · ((`filters` · g) ⊙ (`image` · d)), with m + r - 1 products."""

    results: Matrix
    filters: Matrix
    image: Matrix


@cache
def derive_filtering(count: int, taps: int) -> Filtering | None:
    """Return the minimal filtering for `count` results and `taps` taps, or None if it needs too many points.

    The product of two polynomials of `count` and `taps` coefficients is interpolated from its values at the
    points, by Lagrange. A correlation is the transpose of that. Denominators go to the filters' matrix.
    """
    finite = POINTS[: count + taps - 2]
    size = count + taps - 1
    if len(finite) + 1 < size:
        return None
    image: list[tuple[Fraction, ...]] = []
    filters: list[tuple[Fraction, ...]] = []
    for point in finite:
        others = [other for other in finite if other != point]
        scale = prod((point - other for other in others), start=Fraction(1))
        sign = 1 if scale > 0 else -1
        image.append((*(sign * c for c in _from_roots(others)), Fraction(0)))
        filters.append(tuple(point**n / abs(scale) for n in range(taps)))
    image.append(_from_roots(finite))
    filters.append((*(Fraction(0) for _ in range(taps - 1)), Fraction(1)))
    results = tuple((*(point**n for point in finite), Fraction(int(n == count - 1))) for n in range(count))
    return Filtering(results, tuple(filters), tuple(image))


def _from_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the coefficients of the polynomial with these roots, the constant one first."""
    found = [Fraction(1)]
    for root in roots:
        found = [a - root * b for a, b in zip((Fraction(0), *found), (*found, Fraction(0)), strict=True)]
    return tuple(found)


def is_filtering(given: Filtering) -> bool:
    """Return whether the matrices compute a correlation for all data: one equation per result, tap and element."""
    rows = tuple(zip(*given.results, strict=True))
    at_points = tuple(zip(rows, given.filters, given.image, strict=True))
    sizes = len(given.results), len(given.filters[0]), len(given.image[0])
    return all(
        sum(r[i] * f[j] * d[k] for r, f, d in at_points) == (k == i + j)
        for i, j, k in tuples(*map(range, sizes))
    )


# --- convolutions in statements ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Window:
    """An axis of the image along which a window moves: the axes of its results and of its taps."""

    result: Axis
    taps: Axis


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A convolution: a sum over channels of image times filters, with axes in the order of their arrays.

    `image` are the axes of pixels, `channels` those that the sum removes, `filters` those of several filters.
    """

    statement: Statement
    pixel: Read
    tap: Read
    windows: tuple[_Window, ...]
    image: tuple[Axis, ...]
    channels: tuple[Axis, ...]
    filters: tuple[Axis, ...]


def _convolution(kernel: Kernel, s: Statement) -> _Convolution | None:
    match s.assign:
        case Assign(_, "add", Call("mul", (Read() as left, Read() as right)), None):
            pass
        case _:
            return None
    target = kernel.operand(s.assign.target.buffer)
    types = {left.dtype, right.dtype, target.dtype, target.accumulate or target.dtype}
    is_float = left.dtype.is_float and left.dtype.bits >= 32
    if s.sequence or len(types) > 1 or not is_float or any(a.extent.value is None for a in s.axes):
        return None
    if any(extent.value is None for o in (left, right) for extent in kernel.operand(o.buffer).shape):
        return None
    s = _without_single_taps(s)
    assert isinstance(s.assign.value, Call)
    for pixel, tap in (s.assign.value.args, s.assign.value.args[::-1]):
        assert isinstance(pixel, Read)
        assert isinstance(tap, Read)
        if tap.fill is None and (found := _as_convolution(s, pixel, tap)) is not None:
            return found
    return None


def _without_single_taps(s: Statement) -> Statement:
    """Return the statement without reduction axes of one element."""
    single = {a.name for a in s.reduction_axes if a.extent.value == 1}
    if not single:
        return s
    value = substitute_expr(s.assign.value, dict.fromkeys(single, 0))
    axes = tuple(a for a in s.axes if a.name not in single)
    return replace(s, axes=axes, assign=replace(s.assign, value=value))


def _as_convolution(s: Statement, pixel: Read, tap: Read) -> _Convolution | None:
    """Return the statement as a stride-1 convolution of this image and these filters, or None."""
    target, places, of_filter = (_steps(read) for read in (s.assign.target, pixel, tap))
    if target is None or places is None or of_filter is None:
        return None
    plain = [list(steps) for steps in (*target, *of_filter)]
    if any(len(names) > 1 for names in plain) or any(c != 1 for p in places for c in p.values()):
        return None
    t, f, x = ({name for steps in group for name in steps} for group in (target, of_filter, places))
    windows: list[_Window] = []
    for steps in places:
        if len(steps) > 2:
            return None
        if len(steps) == 2:
            result, taps = sorted(steps, key=lambda name: name not in t)
            if result not in t or taps in t or taps not in f or result in f:
                return None
            windows.append(_Window(s.axis(result), s.axis(taps)))
    moving = {name for w in windows for name in (w.result.name, w.taps.name)}
    single = [name for steps in places if len(steps) == 1 for name in steps]
    if not 1 <= len(windows) <= 2 or len(moving) < 2 * len(windows) or moving & {*single}:
        return None
    if t & f & x or t - f - x or x - f - t or f - t - x or {a.name for a in s.axes} != t | f | x:
        return None  # groups, or axes of one array alone
    named = {a.name: a for a in s.axes}
    image = tuple(named[n] for steps in places for n in steps if n in t)
    channels = tuple(named[n] for n in single if n not in t)
    filters = tuple(named[n] for steps in target for n in steps if n in f)
    return (
        _Convolution(s, pixel, tap, tuple(windows), image, channels, filters)
        if channels and filters
        else None
    )


def _steps(read: Read) -> list[dict[str, int]] | None:
    """Return the coefficients of axes in each subscript, or None for non-affine subscripts."""
    found: list[dict[str, int]] = []
    for index in read.index:
        atoms = [(atom, c) for monomial, c in index.terms for atom in monomial]
        steps = {atom: c for atom, c in atoms if isinstance(atom, str)}
        if len(steps) < sum(bool(monomial) for monomial, _ in index.terms) or len(atoms) > len(steps):
            return None
        found.append(steps)
    return found


# --- the rewrite ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WinogradForm(rewrite.Rewrite):
    """A rewrite of a convolution to products at points. `filters` is the array with the filter taps."""

    filters: str


def winograd_forms(kernel: Kernel) -> tuple[WinogradForm, ...]:
    """Return the kernel with its first convolution computed at points, for each tile size. Sizes are bound.

    A convolution of groups, of other strides than 1, or in floats narrower than f32 stays as it is.
    """
    if kernel.strict or not rewrite.is_rewritable(kernel):
        return ()
    for number, s in enumerate(statements(kernel)):
        found = _convolution(kernel, s)
        if found is not None:
            forms = (_form(kernel, found, number, count) for count in TILES)
            return tuple(form for form in forms if form is not None)
    return ()


def _form(kernel: Kernel, of: _Convolution, number: int, count: int) -> WinogradForm | None:
    """Return the kernel with tiles of `count` results along each window, or None if there are too few points."""
    by = [derive_filtering(count, _size(w.taps)) for w in of.windows]
    known = [one for one in by if one is not None]
    if len(known) < len(by) or any(min(_size(w.result), _size(w.taps)) < 2 for w in of.windows):
        return None
    assert all(map(is_filtering, known)), "the matrices of a minimal filtering are wrong"
    place = _place_of(kernel, number, of.statement)
    tiled = _Tiled(kernel, of, count, known)
    made = (*place.before, *tiled.statements(place), *place.after)
    used = {read.buffer for s in made for read in rewrite.accesses(s)}
    kept = (o for o in kernel.operands if o.role != "temp" or o.name in used)
    rewritten = rewrite.with_statements(kernel, made, (*kept, *tiled.made))
    taps = [_size(w.taps) for w in of.windows]
    named = "x".join([str(count)] * len(taps)), "x".join(map(str, taps))
    step = (
        f"minimal filtering: F({named[0]}, {named[1]}) for `{rewrite.line_of(of.statement)}` takes "
        f"{prod(tiled.sizes)} products for each tile in place of {prod(count * n for n in taps)}"
    )
    form = WinogradForm(rewritten, (step,), of.tap.buffer, rounded=rewritten)
    return form if rewrite.is_accepted(kernel, rewritten) else None


@dataclass(slots=True)
class _Tiled:
    """A convolution with tiles of `count` results along each axis of its windows.

    `by` are the filterings of the windows, `made` the temporaries of the statements so far.
    """

    kernel: Kernel
    of: _Convolution
    count: int
    by: list[Filtering]
    made: list[Operand] = field(default_factory=list[Operand])

    @property
    def sizes(self) -> list[int]:
        """The number of points of each window."""
        return [len(one.image) for one in self.by]

    def statements(self, place: _Place) -> list[Statement]:
        """Return the statements: filters and image at the points, their products, and the results."""
        found = list[Statement]()
        x, z = (
            Axis(self._free("x"), Index.of(prod(self.sizes))),
            Axis(self._free("z"), Index.of(self._all_tiles)),
        )
        filters, images = self._filters(found), self._image(found)
        element = self._temporary(place.hole, x.extent, z.extent, *(a.extent for a in self.of.filters))
        total = element(x.name, z.name, *_names(self.of.filters))
        of_filter = [a for a in _axes(self.of.tap, self.of.statement) if a not in self._taps]
        factors = (
            _element_at(images, x.name, z.name, *_names(self.of.channels)),
            _element_at(filters, x.name, *_names(of_filter)),
        )
        nothing = Assign(total, None, zero_like(total.dtype))
        found.append(Statement((x, z, *self.of.filters), nothing, total.dtype))
        product = Assign(total, "add", Call("mul", factors, total.dtype))
        axes = (x, z, *self.of.filters, *self.of.channels)
        found.append(Statement(axes, product, total.dtype))
        self._results(found, element, z, place)
        return found

    # --- axes ---

    def _free(self, name: str) -> str:
        return rewrite.free_name(self.kernel, name)

    @property
    def _points(self) -> tuple[Axis, ...]:
        """The axes of the points of each window."""
        return tuple(Axis(self._free(f"x{n}"), Index.of(size)) for n, size in enumerate(self.sizes))

    @property
    def _taps(self) -> list[Axis]:
        return [w.taps for w in self.of.windows]

    def _tiles(self, axis: Axis, windows: Sequence[_Window]) -> Axis:
        """Return an axis of the image. It counts tiles if a window moves along it."""
        is_moved = any(w.result == axis for w in windows)
        return replace(axis, extent=Index.of(ceil(_size(axis) / self.count))) if is_moved else axis

    @property
    def _tile_axes(self) -> list[Axis]:
        return [self._tiles(axis, self.of.windows) for axis in self.of.image]

    @property
    def _all_tiles(self) -> int:
        return prod(map(_size, self._tile_axes))

    def _temporary(self, like: Read, *shape: Index | int) -> Callable[..., Read]:
        """Return a function from subscripts to an element of a new temporary, whose name resembles `like`."""
        known = replace(self.kernel, operands=(*self.kernel.operands, *self.made))
        name, dtype = rewrite.free_name(known, f"{like.buffer}_points"), self.of.pixel.dtype
        self.made.append(Operand(name, "temp", dtype, tuple(map(Index.of, shape))))
        return lambda *index: Read(name, tuple(map(Index.of, index)), dtype)

    # --- statements ---

    def _filters(self, found: list[Statement]) -> Read:
        """Append the statements that evaluate the filters at each window's points. Return the last target."""
        kept = [a for a in _axes(self.of.tap, self.of.statement) if a not in self._taps]
        source = self.of.tap
        for n, (window, by) in enumerate(zip(self.of.windows, self.by, strict=True)):
            earlier, point = self._points[:n], self._points[n]
            inside = [*self._taps[n + 1 :], *kept]
            target = self._at_points(self.of.tap, n, inside, _names(inside))
            terms = [substitute_read(source, {window.taps.name: t}) for t in range(_size(window.taps))]
            found += _combine_terms(by.filters, terms, target, point, (*earlier, *inside))
            source = target
        return source

    def _image(self, found: list[Statement]) -> Read:
        """Append the statements that evaluate the image at each window's points. Return the last target."""
        windows = self.of.windows
        source = substitute_read(self.of.pixel, {w.taps.name: 0 for w in windows})
        for n, (window, by) in enumerate(zip(windows, self.by, strict=True)):
            earlier, point = self._points[:n], self._points[n]
            later = {
                w.result: _size(self._tiles(w.result, windows)) * self.count + _size(w.taps) - 1
                for w in windows[n + 1 :]
            }
            pixels = [a for a in _axes(self.of.pixel, self.of.statement) if a not in self._taps]
            inside = [
                replace(a, extent=Index.of(later[a])) if a in later else self._tiles(a, windows)
                for a in pixels
            ]
            places = [*_names(inside)]
            if not later:
                places = [_number(self._tile_axes), *_names(self.of.channels)]
            shape = inside if later else [Axis("", Index.of(self._all_tiles)), *self.of.channels]
            target = self._at_points(self.of.pixel, n, shape, places)
            name = window.result.name
            terms = [
                substitute_read(source, {name: Index.of(name) * self.count + k}) for k in range(len(by.image))
            ]
            ranges = {a.name: (0, _size(a) - 1) for a in inside}
            terms = [_inside(read, self.kernel, ranges) for read in terms] if n == 0 else terms
            found += _combine_terms(by.image, terms, target, point, (*earlier, *inside))
            source = target
        return source

    def _at_points(
        self, like: Read, number: int, inside: Sequence[Axis], places: Sequence[Index | str]
    ) -> Read:
        """Return an element of a new temporary, given the first points' axes and `places`.

        After the last window one axis of the temporary has all points.
        """
        points = self._points[: number + 1]
        if number < len(self.by) - 1:
            element = self._temporary(like, *(a.extent for a in (*points, *inside)))
            return element(*_names(points), *places)
        element = self._temporary(like, prod(self.sizes), *(a.extent for a in inside))
        return element(_number(self._points), *places)

    def _results(self, found: list[Statement], sums: Callable[..., Read], z: Axis, place: _Place) -> None:
        """Append the statements that interpolate the results from the products, one for each result of a tile."""
        source = sums(_number(self._points), z.name, *_names(self.of.filters))
        numbers: list[Axis] = []
        for n, by in enumerate(self.by[:-1]):
            numbers.append(Axis(self._free(f"y{n}"), Index.of(self.count)))
            inside = (*self._points[n + 1 :], z, *self.of.filters)
            element = self._temporary(place.hole, *(a.extent for a in (*numbers, *inside)))
            target = element(*_names(numbers), *_names(inside))
            terms = [substitute_read(source, {self._points[n].name: k}) for k in range(self.sizes[n])]
            found += _combine_terms(by.results, terms, target, numbers[-1], (*numbers[:-1], *inside))
            source = target
        for which in tuples(range(self.count), repeat=len(self.by)):
            at = {
                z.name: _number(self._tile_axes),
                **{a.name: k for a, k in zip(numbers, which, strict=False)},
            }
            terms = [substitute_read(source, {**at, self._points[-1].name: k}) for k in range(self.sizes[-1])]
            total = _sum_of(self.by[-1].results[which[-1]], terms)
            moved = {w.result: k for w, k in zip(self.of.windows, which, strict=True)}
            axes = [
                replace(a, extent=Index.of(ceil((_size(a) - moved[a]) / self.count))) if a in moved else a
                for a in place.axes
            ]
            if all(_size(a) > 0 for a in axes):
                there = {a.name: Index.of(a.name) * self.count + k for a, k in moved.items()}
                found.append(place.filled(tuple(axes), there, total))


def _combine_terms(
    matrix: Matrix, terms: Sequence[Read], target: Read, point: Axis, axes: tuple[Axis, ...]
) -> Iterator[Statement]:
    """Yield one statement per matrix row, which assigns that sum of terms to the target at its point."""
    for number, row in enumerate(matrix):
        assign = Assign(substitute_read(target, {point.name: number}), None, _sum_of(row, terms))
        yield Statement(axes, assign, target.dtype)


def _sum_of(row: Sequence[Fraction], terms: Sequence[Read]) -> Expr:
    """Return the sum of terms with rational factors: integer factors, then a division by the denominator."""
    divisor = lcm(*(c.denominator for c in row))
    given = [(int(c * divisor), term) for c, term in zip(row, terms, strict=True) if c]
    first = next((n for n, (c, _) in enumerate(given) if c > 0), 0)
    given.insert(0, given.pop(first))
    dtype = terms[0].dtype
    total: Expr | None = None
    for factor, term in given:
        size = abs(factor) if total is not None else factor
        part: Expr = term if size == 1 else Call("mul", (Const(float(size), dtype), term), dtype)
        total = part if total is None else Call("add" if factor > 0 else "sub", (total, part), dtype)
    assert total is not None, "no row of these matrices is empty"
    return total if divisor == 1 else Call("div", (total, Const(float(divisor), dtype)), dtype)


def _inside(read: Read, kernel: Kernel, ranges: Mapping[str, tuple[int, int]]) -> Read:
    """Return a read of the image with its fill, or 0, where tiles extend beyond an edge."""
    shape = kernel.operand(read.buffer).shape
    reach = [bounds(index, ranges) for index in read.index]
    is_there = all(low >= 0 and high < (e.value or 0) for (low, high), e in zip(reach, shape, strict=True))
    return replace(read, fill=None if is_there else read.fill or zero_like(read.dtype))


def _element_at(read: Read, *index: Index | str) -> Read:
    """Return an element of the same array at other subscripts."""
    return replace(read, index=tuple(map(Index.of, index)))


def _number(axes: Sequence[Axis]) -> Index:
    """Return the row-major number of an element over some axes."""
    found = Index.of(0)
    for axis in axes:
        found = found * axis.extent + Index.of(axis.name)
    return found


def _size(axis: Axis) -> int:
    assert axis.extent.value is not None, "the sizes are bound"
    return axis.extent.value


def _names(axes: Sequence[Axis]) -> list[str]:
    return [a.name for a in axes]


def _axes(read: Read, s: Statement) -> list[Axis]:
    """Return the axes in the subscripts of a read, in order."""
    steps = _steps(read) or []
    return [s.axis(name) for one in steps for name in one]


# --- what is around the sum -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """The assignment that consumes a sum (`hole` in its value), and the statements that compute the sum."""

    before: tuple[Statement, ...]
    after: tuple[Statement, ...]
    axes: tuple[Axis, ...]
    assign: Assign
    hole: Read

    def filled(self, axes: tuple[Axis, ...], at: Mapping[str, Index], total: Expr) -> Statement:
        """Return the consuming statement for elements at other subscripts, with the sum `total` substituted."""
        hole = substitute_read(self.hole, at)
        value = map_reads(substitute_expr(self.assign.value, at), lambda r: total if r == hole else r)
        assign = replace(self.assign, target=substitute_read(self.assign.target, at), value=value)
        return Statement(axes, assign, total.dtype)


def _place_of(kernel: Kernel, number: int, s: Statement) -> _Place:
    """Return the statement that initialises a sum, and the one that reads it."""
    given, hole = statements(kernel), s.assign.target
    summed = {a.name for a in s.reduction_axes}
    axes = tuple(a for a in s.axes if a.name not in summed)
    first = _rename(given[number - 1], given[number - 1].assign.target, hole, axes) if number else None
    if first is None or first.op is not None or any(r.buffer == hole.buffer for r in reads(first.value)):
        assign = Assign(hole, "add", hole)
        return _Place(given[:number], given[number + 1 :], axes, assign, hole)
    start, last = first.value, number
    is_zero = isinstance(start, Const) and start.value == 0
    assign = Assign(hole, None, hole if is_zero else Call("add", (start, hole), hole.dtype))
    for n in range(number + 1, len(given)):
        own = assign.target.buffer
        there = [r for r in reads(given[n].assign.value) if r.buffer == own]
        others = [
            r for i, g in enumerate(given) if i not in range(number - 1, n + 1) for r in rewrite.accesses(g)
        ]
        if kernel.operand(own).role != "temp" or len(there) != 1 or any(r.buffer == own for r in others):
            break
        following = _rename(given[n], there[0], assign.target, axes)
        if following is None or following.op is not None:
            break
        inner, taken = assign.value, assign.target
        value = map_reads(following.value, lambda r, i=inner, t=taken: i if r == t else r)
        assign, last = replace(following, value=value), n
    return _Place(given[: number - 1], given[last + 1 :], axes, assign, hole)


def _rename(s: Statement, read: Read, like: Read, axes: Sequence[Axis]) -> Assign | None:
    """Return an assignment with renamed axes, such that one of its accesses equals another access, or None."""
    mine, theirs = _steps(read), _steps(like)
    if (
        mine is None
        or theirs is None
        or read.buffer != like.buffer
        or s.sequence
        or s.assign.guard is not None
    ):
        return None
    names = {a: b for one, other in zip(mine, theirs, strict=True) for a, b in zip(one, other, strict=False)}
    to = {a: Index.of(b) for a, b in names.items()}
    extents = {names.get(a.name, ""): a.extent for a in s.axes}
    if substitute_read(read, to) != like or extents != {a.name: a.extent for a in axes}:
        return None
    a = s.assign
    return replace(a, target=substitute_read(a.target, to), value=substitute_expr(a.value, to))


# --- ahead ------------------------------------------------------------------------------------------------


def split_ahead(kernel: Kernel, given: Sequence[str]) -> tuple[Kernel, Kernel] | None:
    """Return a kernel of the statements that depend on some inputs alone, and a kernel of the others, or None.

    The second reads the results of the first, and not these inputs. None if no statement is of the first kind.
    """
    known, first, second = set(given), list[Statement](), list[Statement]()
    for s in statements(kernel):
        is_ahead = kernel.operand(s.assign.target.buffer).role == "temp" and all(
            r.buffer in known for r in rewrite.accesses(s)[1:]
        )
        is_ahead = is_ahead and bool(reads(s.assign.value))
        (first if is_ahead else second).append(s)
        known |= {s.assign.target.buffer} if is_ahead else set()
    made = {s.assign.target.buffer for s in first}
    read = {r.buffer for s in second for r in rewrite.accesses(s)}
    if not first or any(s.assign.target.buffer in made for s in second) or set(given) & read:
        return None

    def part(own: Sequence[Statement], role: str) -> Kernel:
        used = {r.buffer for s in own for r in rewrite.accesses(s)}
        operands = (
            replace(o, role=role) if o.name in made & read else o for o in kernel.operands if o.name in used
        )
        return rewrite.with_statements(kernel, own, tuple(operands))

    return part(first, "out"), part(second, "in")
