"""Build the kernel that computes derivatives of another one: its statements in reverse order."""

from __future__ import annotations

from collections.abc import Sequence

from isamap.adjoint.backward import Backward, required_arrays
from isamap.adjoint.partials import depends
from isamap.adjoint.single_assignment import Built, single_assignment
from isamap.adjoint.value_storage import AdjointNames, no_derivative
from isamap.ir import Assign, Index, Kernel, Operand, Read
from isamap.source import UsageProblem, dataclass, did_you_mean, replace
from isamap.transform.rewrite import accesses, with_statements
from isamap.transform.statements import Statement


@dataclass(frozen=True, slots=True)
class Derivative:
    """The backward kernel, and the forward kernel that returns the kept arrays (None without any).

    `kept` are outputs of the forward kernel and inputs of the backward kernel. `again` are recomputed arrays.
    """

    backward: Kernel
    forward: Kernel | None
    kept: tuple[str, ...]
    again: tuple[str, ...]


def gradient(kernel: Kernel, of: Sequence[str] = (), by: Sequence[str] = ()) -> Kernel:
    """Return the kernel of derivatives that recomputes all intermediate values that it needs."""
    return differentiate(kernel, of, by).backward


def differentiate(
    kernel: Kernel, of: Sequence[str] = (), by: Sequence[str] = (), keep: Sequence[str] = ()
) -> Derivative:
    """Return the kernels `NAME_back` and `NAME_forward`: the first computes adjoints of `by` from those of `of`.

    It reads the inputs of `kernel` and, for each result Y in `of`, an input `d_Y`; for each A in `by` it has
    an output `d_A`. `of` are all results of floats unless some are named, `by` all inputs of floats that the
    results depend on; scalars and the old values of a result have to be named. It recomputes the results of
    `kernel` that it needs. Arrays of `keep`, by their names in the text, are inputs instead, and outputs of
    the forward kernel. Shapes: each `d_…` has the shape of its array. Raises: UsageProblem if a name is
    unknown or an operation has no derivative.
    """
    names = AdjointNames(kernel)
    built = single_assignment(kernel, names)
    results = _of(kernel, of)
    arrays = [o for o in kernel.operands if o.role in ("in", "inout") and o.dtype.is_float]
    scalars = [p.name for p in kernel.params if p.dtype is not None and p.dtype.is_float]
    known = [*(o.name for o in arrays), *scalars]
    sources = check_names(by, known, "an input of floats of the kernel", "--by") or [
        o.name for o in arrays if o.role == "in"
    ]
    active = _active(built, set(sources))
    backward = Backward(kernel, built, active, names)
    backward.seed(results)
    backward.run(results)
    if not by:
        sources = [n for n in sources if n in backward.adjoints]
    for name in sources:
        if name not in backward.adjoints:
            said = f"no requested result depends on `{name}`"
            raise UsageProblem.of("no-gradient", said, help="leave it out of --by")
    if not sources:
        raise no_derivative("no result depends on an input of floats", kernel.span, "name results by --of")
    made, again = backward.finish(sources)
    if not keep:
        return Derivative(made, None, (), again)
    asked = check_names(keep, again, "an array that the derivative computes again", "--keep")
    made, again = backward.finish(sources, asked)
    there = {o.name for o in made.operands}
    kept = tuple(name for name in asked if name in there)
    return Derivative(made, forward(kernel, built, kept, names), kept, again)


def _of(kernel: Kernel, named: Sequence[str]) -> list[str]:
    known = [o.name for o in kernel.operands if o.role in ("out", "inout") and o.dtype.is_float]
    return check_names(named, known, "a result of floats of the kernel", "--of") or known


def check_names(named: Sequence[str], known: Sequence[str], what: str, option: str) -> list[str]:
    """Return the names, each once. Raises: UsageProblem for one that is not known."""
    for name in named:
        if name not in known:
            said = f"`{name}` is not {what}"
            takes = f"{option} takes {', '.join(known)}" if known else f"leave {option} out: there is none"
            help_ = did_you_mean(name, known) or takes
            raise UsageProblem.of("no-gradient", said, help=help_)
    return list(dict.fromkeys(named))


def _active(built: Built, sources: set[str]) -> set[str]:
    """Return the arrays that depend on `sources` through floating-point values."""
    found = set(sources)
    while True:
        more = {
            s.assign.target.buffer
            for s in built.statements
            if s.accumulator.is_float and depends(s.assign.value, found.__contains__)
        }
        if more <= found:
            return found
        found |= more


# The kernel forwards, over arrays that are built once, with some of them as further outputs.
#
# What the derivative of a layer needs of each step is there after it, and need not be computed again.


def forward(kernel: Kernel, built: Built, kept: Sequence[str], names: AdjointNames) -> Kernel:
    """Return the kernel `NAME_forward`, which computes the results of `kernel` and the arrays `kept`."""
    results = [o for o in kernel.operands if o.role in ("out", "inout") and o.name in built.finals]
    ends = {o.name: built.finals[o.name].name for o in results}
    given = required_arrays(built.statements, {*ends.values(), *kept})
    given += [_assign_alias(built, o, names) for o in results if ends[o.name] != o.name]
    used = {r.buffer for s in given for r in accesses(s)}
    interface = [o for o in kernel.operands if o.role != "temp"]
    own = {o.name for o in interface}
    operands = [
        *interface,
        *(replace(o, role="out") for o in built.operands if o.name in kept and o.name not in own),
        *(o for o in built.operands if o.name in used and o.name not in {*kept, *own}),
    ]
    frame = replace(kernel, name=f"{kernel.name}_forward")
    return with_statements(frame, given, operands)


def _assign_alias(built: Built, result: Operand, names: AdjointNames) -> Statement:
    """Return the statement that assigns a result which is an alias of another array."""
    place = built.finals[result.name]
    axes = names.axes(result.shape)
    index = tuple(Index.of(a.name) for a in axes)
    value = Read(place.name, place.index(index), result.dtype)
    return Statement(axes, Assign(Read(result.name, index, result.dtype), None, value), result.dtype)
