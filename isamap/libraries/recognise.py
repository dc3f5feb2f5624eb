"""Find the library call that computes a kernel, by meaning and not by name.

    kernel   Y[p, q] += X[p, r] * W[r, q]        meaning of a call   C[m, n] += A[m, k] * B[k, n]

agree with m as p, n as q, k as r, and so A as X, B as W, C as Y. Both trees are unified, as those of
instructions and statements are. Every subscript, extent and type must be equal under that renaming.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, assert_never

from isamap.ir import Const, Constraint, Expr, Index, Kernel, Read, Scalar
from isamap.ir.bind import comparison_holds
from isamap.libraries.description import CallForm, Library, LibraryArgument, LibraryCall
from isamap.match.patterns.unify import Binding, unify
from isamap.match.tiles.operand_tiles import tensor_strides
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, statements


@dataclass(frozen=True, slots=True)
class CallArgument:
    """An argument of a call that computes a kernel.

    It is a C text for a number or its address, a size or a stride, a pointer to the first element of a
    tensor, or the value of a scalar.
    """

    kind: Literal["number", "address", "index", "pointer", "value"]
    text: str = ""
    index: Index | None = None
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class RecognisedCall:
    """A call that computes a kernel. The sizes and strides of each call must satisfy `checks`."""

    call: LibraryCall
    form: CallForm
    arguments: tuple[CallArgument, ...]
    checks: tuple[Constraint, ...]


def find_call(kernel: Kernel, library: Library, features: frozenset[str]) -> RecognisedCall | None:
    """Return the first library call that computes a kernel on a processor with these features, or None."""
    if kernel.strict:  # its sums have an order, which no library promises
        return None
    for call in library.calls:
        if features.issuperset(call.features):
            for form in call.forms:
                if (found := _find_performed(kernel, call, form)) is not None:
                    return found
    return None


@dataclass(frozen=True, slots=True)
class _Renaming:
    """The kernel's names for the names in a call: tensors, sizes, scalars, and the statement's axes."""

    tensors: dict[str, str]
    sizes: dict[str, Index]
    values: dict[str, Expr]


def _find_performed(kernel: Kernel, call: LibraryCall, form: CallForm) -> RecognisedCall | None:
    mine, theirs = statements(form.kernel), statements(kernel)
    if len(mine) != len(theirs) or len(form.kernel.operands) != len(kernel.operands):
        return None
    for found in _renamings(mine, theirs, _Renaming({}, {}, {})):
        whole = _with_shapes(found, form.kernel, kernel)
        made = _bind_call(whole, kernel, call, form) if whole is not None else None
        if made is not None:
            return made
    return None


def _renamings(
    mine: tuple[Statement, ...], theirs: tuple[Statement, ...], known: _Renaming
) -> Iterator[_Renaming]:
    """Yield the renamings with which the statements of a form equal those of a kernel."""
    if not mine:
        yield known
        return
    for found in _of_statement(mine[0], theirs[0], known):
        yield from _renamings(mine[1:], theirs[1:], found)


def _of_statement(own: Statement, other: Statement, known: _Renaming) -> Iterator[_Renaming]:
    plain = not (own.sequence or other.sequence or own.assign.guard or other.assign.guard)
    alike = (own.assign.op, own.accumulator) == (other.assign.op, other.accumulator)
    if not plain or not alike or len(own.axes) != len(other.axes):
        return
    target = Binding(own.assign.target.buffer, own.assign.target.index, other.assign.target)
    for bindings in unify(own.assign.value, other.assign.value):
        found = _with_bindings((target, *bindings), own, other, known)
        if found is not None:
            yield found


def _with_bindings(
    bindings: tuple[Binding, ...], own: Statement, other: Statement, known: _Renaming
) -> _Renaming | None:
    """Return the renaming extended by a statement, or None if that contradicts it."""
    tensors, values, axes = dict(known.tensors), dict(known.values), dict[str, str]()
    for binding in bindings:
        match binding.subject:
            case Read(buffer, index, fill=None) if len(index) == len(binding.pattern) and index:
                if tensors.setdefault(binding.name, buffer) != buffer:
                    return None
                for a, b in zip(binding.pattern, index, strict=True):
                    if not _is_symbol(a) or not _is_symbol(b) or axes.setdefault(str(a), str(b)) != str(b):
                        return None
            case Const() | Scalar() if not binding.pattern:
                if values.setdefault(binding.name, binding.subject) != binding.subject:
                    return None
            case _:
                return None
    if (
        len({*tensors.values()}) < len(tensors)
        or len({*axes.values()}) < len(axes)
        or len(axes) < len(own.axes)
    ):
        return None
    if not all(name in {a.name for a in other.axes} for name in axes.values()):
        return None
    sizes = dict(known.sizes)
    for axis in own.axes:
        if not _agree(axis.extent, other.axis(axes[axis.name]).extent, sizes):
            return None
    return _Renaming(tensors, sizes, values)


def _is_symbol(index: Index) -> bool:
    return index.symbols == frozenset((str(index),))


def _agree(own: Index, other: Index, sizes: dict[str, Index]) -> bool:
    """Return whether an extent of a form can equal an extent of the kernel, and bind its size if it does."""
    if _is_symbol(own):
        return sizes.setdefault(str(own), other) == other
    return own.substitute(sizes) == other


def _with_shapes(found: _Renaming, form: Kernel, kernel: Kernel) -> _Renaming | None:
    """Return the renaming if all operands of the kernel occur in it with equal declarations, else None."""
    sizes = dict(found.sizes)
    for own in form.operands:
        if own.name not in found.tensors:
            return None
        other = kernel.operand(found.tensors[own.name])
        declared = (own.role, own.dtype, own.accumulate or own.dtype, len(own.shape))
        if declared != (other.role, other.dtype, other.accumulate or other.dtype, len(other.shape)):
            return None
        if other.given is not None or other.domain is not None:
            return None
        if not all(_agree(a, b, sizes) for a, b in zip(own.shape, other.shape, strict=True)):
            return None
    scalars = {p.name for p in form.params if p.dtype is not None}
    used = {v.name for v in found.values.values() if isinstance(v, Scalar)}
    every = {p.name for p in kernel.params if p.dtype is not None}
    return replace(found, sizes=sizes) if scalars == found.values.keys() and used == every else None


def _bind_call(found: _Renaming, kernel: Kernel, call: LibraryCall, form: CallForm) -> RecognisedCall | None:
    """Return the call with its arguments, or None if sizes exclude it."""
    meanings: dict[str, Index | int] = dict(found.sizes)
    for own in form.kernel.operands:
        strides = tensor_strides(kernel.operand(found.tensors[own.name]))
        meanings |= {f"stride({own.name},{axis})": stride for axis, stride in enumerate(strides)}
        meanings[f"align({own.name})"] = Index.of(f"align({found.tensors[own.name]})")
    arguments = tuple(_pass_argument(argument, found, meanings) for argument in form.arguments)
    checks = [
        Constraint(c.left.substitute(meanings), c.comparison, c.right.substitute(meanings))
        for c in form.kernel.where
    ]
    for argument, parameter in zip(arguments, call.prototype.parameters, strict=True):
        if argument.index is not None and parameter.most is not None:
            checks.append(Constraint(argument.index, "<=", Index.of(parameter.most)))
    truths = [_truth(check, kernel) for check in checks]
    if False in truths:
        return None
    open_checks = tuple(c for c, truth in zip(checks, truths, strict=True) if truth is None)
    if not all(_is_about_layout(check) for check in open_checks):
        return None  # sizes that our own code serves
    return RecognisedCall(call, form, arguments, tuple(dict.fromkeys(open_checks)))


def _pass_argument(
    argument: LibraryArgument, found: _Renaming, meanings: dict[str, Index | int]
) -> CallArgument:
    match argument.kind:
        case "number" | "address":
            return CallArgument(argument.kind, argument.text)
        case "pointer":
            return CallArgument("pointer", found.tensors[argument.text])
        case "value":
            return CallArgument("value", value=found.values[argument.text])
        case "index":
            return CallArgument("index", index=Index.of(meanings[argument.text]))
        case _:
            assert_never(argument.kind)


def _is_about_layout(check: Constraint) -> bool:
    """Return whether a relation is about strides or alignments."""
    return any("." in s or "(" in s for s in check.left.symbols | check.right.symbols)


def _truth(check: Constraint, kernel: Kernel) -> bool | None:
    """Return whether a relation of numbers holds, or None if it is not known before the call."""
    if check.comparison == "<=":
        check = replace(check, left=_largest(check.left, kernel))
    gap = (check.right - check.left).value
    return None if gap is None else comparison_holds(0, check.comparison, gap)


def _largest(index: Index, kernel: Kernel) -> Index:
    """Return an index with the sizes of the kernel at their largest values."""
    highs = {p.name: p.high for p in kernel.params if p.high is not None and p.high.value is not None}
    return highs.get(str(index), index)
