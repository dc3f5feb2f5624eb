"""Arrays, sizes and scalars as the arguments of a compiled program, checked against its interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, SupportsFloat, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

from isamap.codegen.c_interface import Field, Interface
from isamap.lower.program import Tensor
from isamap.source import Diagnostic, UsageProblem

POISON = 0xA5
"""What lies where a program has to write, and where it must not: what it forgets shows, and what it adds."""

_MOST_WORK = 100_000
"""Steps after which numpy stops looking for an element that two arrays share; matrices take a few."""


@dataclass(frozen=True, slots=True)
class Passed:
    """One tensor as it is passed. Units: `strides` in bytes; `span_bytes` from its first to its last byte."""

    name: str
    array: NDArray[Any]
    strides: tuple[int, ...]
    span_bytes: int
    written: bool

    @property
    def has_gaps(self) -> bool:
        """Whether bytes between its first and its last belong to no element."""
        return self.span_bytes > self.array.nbytes

    def view(self, buffer: Any, offset: int) -> NDArray[Any]:
        """The same tensor in other memory."""
        return np.ndarray(self.array.shape, self.array.dtype, buffer, offset, self.strides)

    def gaps(self, buffer: Any, offset: int) -> NDArray[np.uint8]:
        """Its bytes in other memory, those of its elements replaced by poison."""
        found: NDArray[np.uint8] = np.frombuffer(buffer, np.uint8, self.span_bytes, offset).copy()
        elements = (*self.array.shape, self.array.itemsize)
        np.ndarray(elements, np.uint8, found.data, 0, (*self.strides, 1))[...] = POISON
        return found


@dataclass(frozen=True, slots=True)
class Call:
    """The tensors, and the fields of the argument struct as (kind, C type, value)."""

    tensors: tuple[Passed, ...]
    fields: list[tuple[str, str, Any]]


def make_call(
    interface: Interface,
    arrays: Mapping[str, NDArray[Any]],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
    in_place: bool = False,
) -> Call:
    """The arguments of a call; `in_place` takes arrays where they lie. Raises: UsageProblem."""
    _check_names("size", sizes, [name for name, _, _ in interface.symbols], interface)
    _check_names("scalar", scalars, [name for name, _ in interface.scalars], interface)
    for name, value in (*sizes.items(), *scalars.items()):
        _check_number(name, value, whole=name in sizes)
    bound = {**dict(interface.sizes), **sizes}
    needed = [t.name for t in interface.tensors if t.role != "out" or in_place]
    _check_names("array", arrays, needed, interface, [t.name for t in interface.tensors])
    tensors = tuple(_pass(t, _array(t, arrays.get(t.name)), bound, in_place) for t in interface.tensors)
    numbers = {t.name: n for n, t in enumerate(tensors)}
    fields = [_field(f, tensors, numbers, bound, scalars) for f in interface.fields]
    if in_place:
        _check_apart(tensors)
    return Call(tensors, fields)


def _field(
    f: Field,
    tensors: tuple[Passed, ...],
    numbers: Mapping[str, int],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
) -> tuple[str, str, Any]:
    c_type = f.c_type.strip()
    match f.kind:
        case "pointer":
            return f.kind, c_type, numbers[f.source]
        case "stride":
            return f.kind, c_type, tensors[numbers[f.source]].strides[f.axis]
        case "size":
            return f.kind, c_type, int(sizes[f.source])
        case "scalar":
            value = scalars[f.source]
            return f.kind, c_type, float(value) if c_type in ("float", "double") else int(value)


def _array(t: Tensor, given: object) -> NDArray[Any] | None:
    """What a caller gives for a tensor, if it is an array. Raises: UsageProblem."""
    if given is None or isinstance(given, np.ndarray):
        return cast("NDArray[Any] | None", given)
    raise _mismatch(
        f"`{t.name}` is an array of {t.dtype}, and a {type(given).__name__} is given",
        help=f"pass an array of numpy, of type {t.dtype.numpy()}",
    )


def _pass(t: Tensor, array: NDArray[Any] | None, sizes: Mapping[str, int], in_place: bool) -> Passed:
    shape = tuple(extent.evaluate(sizes) for extent in t.shape)
    dtype = t.dtype.numpy()
    if array is None:
        array = np.frombuffer(bytes([POISON]) * (int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
    if array.shape != shape or array.dtype != dtype:
        raise _mismatch(
            f"`{t.name}` is {t.dtype}{list(shape)}, the array given is {array.dtype}{list(array.shape)}"
        )
    dense = array.itemsize
    regular = array.strides[-1:] in ((), (dense,)) and all(s >= 0 and s % dense == 0 for s in array.strides)
    if not regular or not _is_apart(array):
        if in_place:
            raise _mismatch(f"the last axis of `{t.name}` is not dense, or its elements overlap")
        array = np.ascontiguousarray(array).reshape(shape)
    if in_place and t.role != "in" and not array.flags.writeable:
        raise _mismatch(f"`{t.name}` is written, but the array given is read-only")
    span = dense + sum((n - 1) * s for n, s in zip(shape, array.strides, strict=True)) if array.size else 0
    return Passed(t.name, array, array.strides, span, t.role != "in")


def _is_apart(array: NDArray[Any]) -> bool:
    """Whether no two elements share bytes: each stride spans all that lies inside of it."""
    inner = array.itemsize
    for extent, stride in sorted(zip(array.shape, array.strides, strict=True), key=lambda p: p[1]):
        if extent > 1 and stride < inner:
            return False
        inner = max(inner, extent * stride)
    return True


def _check_apart(tensors: tuple[Passed, ...]) -> None:
    """Nothing, where no tensor that is written shares elements with another. Raises: UsageProblem.

    Rows of one may lie between rows of another. Where telling so takes too long, they count as shared.
    """
    for n, one in enumerate(tensors):
        for other in tensors[n + 1 :]:
            if (one.written or other.written) and _is_shared(one.array, other.array):
                written, read = (one, other) if one.written else (other, one)
                raise _mismatch(
                    f"`{written.name}` is written, and shares memory with `{read.name}`",
                    help="pass a copy of one of them",
                )


def _is_shared(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if not np.may_share_memory(one, other):  # of most pairs, first and last bytes say so
        return False
    try:
        return np.shares_memory(one, other, max_work=cast("Any", _MOST_WORK))  # stubs know two numbers
    except np.exceptions.TooHardError:
        return True


def _check_names(
    what: str,
    given: Mapping[str, Any],
    needed: list[str],
    interface: Interface,
    known: list[str] | None = None,
) -> None:
    missing = [n for n in needed if n not in given]
    extra = [n for n in given if n not in (needed if known is None else known)]
    if not missing and not extra:
        return
    said = f"the {what} `{missing[0]}` is not given" if missing else f"it takes no {what} `{extra[0]}`"
    listed = ", ".join(needed) or "none"
    raise UsageProblem(
        Diagnostic("argument-mismatch", f"`{interface.name}`: {said}", notes=(f"{what}s taken: {listed}",))
    )


def _check_number(name: str, value: object, *, whole: bool) -> None:
    """Nothing, where a size or a scalar is a number. Raises: UsageProblem."""
    try:
        _ = index(cast("SupportsIndex", value)) if whole else float(cast("SupportsFloat", value))
    except (TypeError, ValueError):
        what = "whole number" if whole else "number"
        raise _mismatch(f"`{name}` is a {what}, and a {type(value).__name__} is given") from None


def _mismatch(said: str, *, help: str | None = None) -> UsageProblem:  # noqa: A002 - as a diagnostic has it
    return UsageProblem(Diagnostic("argument-mismatch", said, help=help))
