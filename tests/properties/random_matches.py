"""Strategies for an instruction and a kernel, both of one small statement, that often belong together.

    instruction: for i in 2, j in 3 { c[i] += f32(a[i + j]) * f32(b[j]); }
    kernel:      for m in 3, n in 2, k in 4 { Y[n, m] += f32(B[k]) * f32(A[m + k, 2*n]); }

Each kernel axis is given a home, an axis of the instruction or the loops around it, and then indexes what
that home indexes: mostly, for what there is to get wrong lies in the exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from hypothesis import strategies as st
from properties.forms import FORMS, RELATED, Form

MOST_ITERATIONS = 64
MOST_LANES = 24


@dataclass(frozen=True)
class Pair:
    """Texts of an instruction and of a kernel; the kernel once more with its sizes left open, and these."""

    instruction: str
    kernel: str
    generic: str
    sizes: dict[str, int]

    def __repr__(self) -> str:
        return f"\n{self.instruction}\n{self.kernel}\n"


@dataclass(frozen=True)
class Subscript:
    """`2*i + j + 1`; steps back count from the end of the axis, and `ending` is `/ 2`, `% 2` or nothing."""

    steps: tuple[tuple[str, int], ...]
    constant: int = 0
    ending: str = ""

    def text(self, extents: Mapping[str, str]) -> str:
        parts = [
            f"{step}*{axis}" if step > 0 else f"{-step}*({extents[axis]} - 1 - {axis})"
            for axis, step in self.steps
        ]
        total = " + ".join([*parts, str(self.constant)])
        return f"({total}) {self.ending}" if self.ending else total

    def extent(self, extents: Mapping[str, str]) -> str:
        """Return one more than the largest value before the ending."""
        return " + ".join([f"{abs(s)}*({extents[a]} - 1)" for a, s in self.steps] + [str(self.constant + 1)])


Shape = tuple[Subscript, ...]


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Return an instruction, and a kernel that mostly does what several of its issues do."""
    mine, theirs = (FORMS[n] for n in draw(st.sampled_from(RELATED)))
    if draw(st.integers(0, 11)) == 0:
        theirs = draw(st.sampled_from(FORMS))
    op = draw(st.sampled_from([o for o in mine.ops if o in theirs.ops] or mine.ops))
    lengths = draw(_lengths())
    inside = _subsets(draw, list(lengths), len(mine.types))
    output = list(lengths) if op == "=" else _subset(draw, list(lengths))
    shapes = [_forward(draw(_subscripts(axes, fancy=3))) for axes in inside]
    target = _forward(draw(_subscripts(output, fancy=0 if op == "=" else 6)))
    again = [_forward(draw(_elsewhere(shapes[n]))) for n in mine.again]
    shapes = [draw(_spread(s)) if n in mine.again else s for n, s in enumerate(shapes)]
    extents = {j: name for j, (name, _) in lengths.items()}
    params = [declared for _, declared in lengths.values() if declared]
    where = draw(_demands(params))
    memories = [draw(st.sampled_from(("reg", "reg", "reg", "reg", "mem"))) for _ in shapes]
    inside += [inside[n] for n in mine.again]
    shapes += again
    instruction = _instruction(mine, op, extents, params, where, memories, shapes, target)
    kernel, generic, sizes = draw(_kernels(mine, theirs, op, inside, output, shapes, list(lengths)))
    return Pair(instruction, kernel, generic, {a.upper(): int(n) for a, n in sizes.items()})


@st.composite
def _lengths(draw: st.DrawFn) -> dict[str, tuple[str, str]]:
    """Axes of an instruction: what each extent is called, and the declaration of the parameter that it is."""
    found: dict[str, tuple[str, str]] = {}
    lanes = 1
    is_open = False
    for axis in "ijkl"[: draw(st.sampled_from((1, 1, 2, 2, 3, 3, 4)))]:
        length = min(draw(st.sampled_from((1, 2, 2, 2, 3, 3, 4))), MOST_LANES // lanes)
        lanes *= length
        kind = draw(st.sampled_from(("", "", "", "", "", "choose", "scalar", "open")))
        name = axis.upper()
        if not kind:
            found[axis] = (str(length), "")
        elif kind == "open" and not is_open:
            found[axis] = (name, f"choose {name}")
            is_open = True
        else:
            found[axis] = (name, f"{kind.replace('open', 'choose')} {name}: 1..{length}")
    return found


@st.composite
def _demands(draw: st.DrawFn, params: Sequence[str]) -> str:
    """Return what is demanded of parameters that have a range, if anything; perhaps more than can be met."""
    bounded = [p.split()[1].removesuffix(":") for p in params if ".." in p]
    if not bounded or draw(st.integers(0, 5)):
        return ""
    name = draw(st.sampled_from(bounded))
    return f" where {name} {draw(st.sampled_from(('<= 2', '< 2', '>= 2', '== 3', '% 2 == 0', '!= 2')))}"


def _subset(draw: st.DrawFn, axes: list[str]) -> list[str]:
    return [a for a in axes if draw(st.integers(0, 4)) < 3]


def _subsets(draw: st.DrawFn, axes: list[str], count: int) -> list[list[str]]:
    found = [_subset(draw, axes) for _ in range(count)]
    for axis in axes:
        if not any(axis in f for f in found):
            found[draw(st.integers(0, count - 1))].append(axis)
    return found


@st.composite
def _subscripts(draw: st.DrawFn, axes: Sequence[str], fancy: int) -> Shape:
    """Axes in some order, most in a dimension of their own; one in `fancy` dimensions is something else."""
    left = draw(st.permutations(list(axes)))
    found: list[Subscript] = []
    while left:
        plain = not fancy or draw(st.integers(0, fancy)) > 0
        count = 1 if plain else draw(st.integers(1, min(2, len(left))))
        own, left = left[:count], left[count:]
        if plain:
            found.append(Subscript(((own[0], 1),)))
            continue
        steps = tuple((a, draw(st.sampled_from((1, 1, 2, 3, -1, -2)))) for a in own)
        ending = draw(st.sampled_from((*[""] * 20, "/ 2", "% 2")))
        found.append(Subscript(steps, draw(st.sampled_from((0, 0, 1, 2))), ending))
    return tuple(found)


def _forward(shape: Shape) -> Shape:
    """Return a quotient of an axis that runs backwards depends on its length, which may be open."""
    return tuple(
        replace(s, steps=tuple((a, abs(step)) for a, step in s.steps)) if s.ending else s for s in shape
    )


@st.composite
def _spread(draw: st.DrawFn, shape: Shape) -> Shape:
    """Return the same subscripts, one of them perhaps with room between its elements, as in `2*i`."""
    step = draw(st.sampled_from((1, 2, 2, 3)))
    place = draw(st.integers(0, len(shape)))
    return tuple(
        replace(s, steps=tuple((a, step * by) for a, by in s.steps)) if n == place and not s.ending else s
        for n, s in enumerate(shape)
    )


@st.composite
def _elsewhere(draw: st.DrawFn, shape: Shape) -> Shape:
    """Subscripts of a second read: mostly some elements on, or spread as well, or exchanged, or backwards."""
    found = list(draw(_spread(shape)))
    if draw(st.integers(0, 5)) == 0:
        found = list(draw(st.permutations(found)))
    if found and draw(st.integers(0, 7)) > 0:
        place = draw(st.integers(0, len(found) - 1))
        one = found[place]
        steps = one.steps if draw(st.integers(0, 7)) else tuple((a, -by) for a, by in one.steps)
        found[place] = replace(
            one, steps=steps, constant=one.constant + draw(st.sampled_from((1, 1, 1, 2, 3)))
        )
    return tuple(found)


def _declaration(
    role: str, name: str, dtype: str, shapes: Sequence[Shape], extents: Mapping[str, str], end: str
) -> str:
    """Return an operand that all of these subscripts lie in."""
    sizes = ", ".join(
        " + ".join(dict.fromkeys(s.extent(extents) for s in dimension))
        for dimension in zip(*shapes, strict=True)
    )
    return f"{role} {name}: {dtype}[{sizes}]{end};" if shapes[0] else f"{role} {name}: {dtype}{end};"


def _access(name: str, shape: Shape, extents: Mapping[str, str]) -> str:
    return f"{name}[{', '.join(s.text(extents) for s in shape)}]" if shape else name


def _scalars(form: Form) -> list[str]:
    found = {"alpha": "scalar alpha: f32", "beta": "scalar beta: i64"}
    return [declared for name, declared in found.items() if name in form.value]


def _loops(extents: Mapping[str, str], statement: str) -> str:
    loops = ", ".join(f"{a} in {n}" for a, n in extents.items())
    return f"for {loops} {{ {statement} }}"


def _instruction(
    form: Form,
    op: str,
    extents: Mapping[str, str],
    params: list[str],
    where: str,
    memories: list[str],
    shapes: list[Shape],
    target: Shape,
) -> str:
    declared = [
        _declaration("in", "abde"[n], t, _reads_of(n, form, shapes), extents, f" @ {memories[n]}")
        for n, t in enumerate(form.types)
    ]
    declared.append(_declaration("inout", "c", form.result, [target], extents, " @ reg"))
    params = [*params, *_scalars(form)]
    value = form.text([_access("abde"[n], s, extents) for n, s in zip(form.owners, shapes, strict=True)])
    body = _loops(extents, f"{_access('c', target, extents)} {op} {value};")
    return f"instruction perform({', '.join(params)}){where} {{ {' '.join(declared)} {body} }}"


def _reads_of(operand: int, form: Form, shapes: Sequence[Shape]) -> list[Shape]:
    """Return the subscripts at which an operand is read."""
    return [s for n, s in zip(form.owners, shapes, strict=True) if n == operand]


@st.composite
def _kernels(
    draw: st.DrawFn,
    mine: Form,
    theirs: Form,
    op: str,
    inside: list[list[str]],
    output: list[str],
    shapes: list[Shape],
    homes: list[str],
) -> tuple[str, str, dict[str, str]]:
    """Return a kernel whose axes index what their homes do, with exceptions, with extents and with open sizes."""
    extents, home = _kernel_axes(draw, homes)
    numbers = range(len(theirs.owners))
    order = draw(st.permutations(numbers)) if draw(st.booleans()) else numbers
    inputs: list[Input] = []
    for owner, source in zip(theirs.owners, order, strict=True):
        like = inside[source] if source < len(inside) else draw(st.sampled_from(inside))
        first = inputs[owner] if owner < len(inputs) else None
        axes = [a for a in extents if _indexes(draw, home[a], like)] if first is None else first.axes
        shape = None
        if source < len(shapes) and draw(st.integers(0, 2 if first is None else 3)) > 0:
            shape = _imitation(draw, shapes[source], {h: a for a, h in home.items() if a in axes}, axes)
        if first is not None and (shape is None or len(shape) != len(first.shape)):
            shape = draw(_elsewhere(first.shape))
        shape = shape or draw(_subscripts(axes, fancy=4))
        fills = bool(shape) and draw(st.integers(0, 9)) == 0
        inputs.append(Input("ABDE"[owner], theirs.types[owner], shape, fills, axes))
    if op == "=":
        target = tuple(Subscript(((a, 1),)) for a in draw(st.permutations(list(extents))))
    else:
        target = draw(_subscripts([a for a in extents if _indexes(draw, home[a], output)], fancy=8))
    guard = " if i < 1" if draw(st.integers(0, 29)) == 0 else ""
    ordered = 1 if draw(st.integers(0, 9)) == 0 else 0
    written = _Written(theirs, op, tuple(inputs), target, guard, ordered)
    return written.text(extents), written.text({a: a.upper() for a in extents}), extents


@dataclass(frozen=True)
class Input:
    """An operand that a kernel reads; one element lower, and 0 outside, when it fills. `axes` are in it."""

    name: str
    dtype: str
    shape: Shape
    fills: bool
    axes: list[str]

    def access(self, extents: Mapping[str, str]) -> str:
        if not self.fills:
            return _access(self.name, self.shape, extents)
        first, *others = self.shape
        lower = Subscript(first.steps, first.constant - 1, first.ending)
        return f"({_access(self.name, (lower, *others), extents)} else 0)"


@dataclass(frozen=True)
class _Written:
    """A kernel but for its extents: numbers, or the names of sizes. The first `ordered` axes are in order."""

    form: Form
    op: str
    inputs: tuple[Input, ...]
    target: Shape
    guard: str
    ordered: int

    def text(self, extents: Mapping[str, str]) -> str:
        shapes = [i.shape for i in self.inputs]
        declared = [
            _declaration("in", i.name, i.dtype, _reads_of(n, self.form, shapes), extents, "")
            for n, i in enumerate(self.inputs[: len(self.form.types)])
        ]
        declared.append(_declaration("inout", "Y", self.form.result, [self.target], extents, ""))
        value = self.form.text([i.access(extents) for i in self.inputs])
        body = f"{_access('Y', self.target, extents)} {self.op} {value}{self.guard};"
        axes = list(extents)
        if free := axes[self.ordered :]:
            body = _loops({a: extents[a] for a in free}, body)
        for a in axes[: self.ordered]:
            body = f"seq {a} in {extents[a]} {{ {body} }}"
        sizes = [n for n in extents.values() if not n.isdigit()]
        params = ", ".join([*sizes, *_scalars(self.form)])
        return f"kernel k({params}) {{ {' '.join(declared)} {body} }}"


def _kernel_axes(draw: st.DrawFn, homes: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Axes with their extents, and the instruction's axis that each is meant for, '' for a loop."""
    count = draw(st.sampled_from((1, 2, 2, 3, 3, 3, 4, 4, 5)))
    extents: dict[str, str] = {}
    for axis in "ikmnp"[:count]:
        room = MOST_ITERATIONS // prod(map(int, extents.values()))
        extents[axis] = str(min(room, draw(st.sampled_from((1, 2, 2, 3, 3, 4)))))
    left = list(draw(st.permutations(homes)))
    home = {
        a: left.pop() if left and draw(st.integers(0, 5)) else draw(st.sampled_from(["", *homes]))
        for a in extents
    }
    return extents, home


def _indexes(draw: st.DrawFn, home: str, axes: Sequence[str]) -> bool:
    """Return whether a kernel axis indexes what its home indexes, mostly; a loop may index anything."""
    if not home:
        return draw(st.booleans())
    return (home in axes) != (draw(st.integers(0, 19)) == 0)


def _imitation(
    draw: st.DrawFn, shape: Shape, axis_at: Mapping[str, str], axes: Sequence[str]
) -> Shape | None:
    """Return the instruction's own subscripts over kernel axes, steps scaled; axes left over get dimensions."""
    if not all(a in axis_at for s in shape for a, _ in s.steps):
        return None
    scale = draw(st.sampled_from((1, 1, 1, 2)))
    found = [
        Subscript(tuple((axis_at[a], scale * step) for a, step in s.steps), s.constant, s.ending)
        for s in shape
    ]
    used = {a for s in found for a, _ in s.steps}
    return (*found, *(Subscript(((a, 1),)) for a in axes if a not in used))
