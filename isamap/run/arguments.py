"""Arrays, sizes and scalars as the arguments of a compiled program, checked against its interface.

A kernel's scalar parameters as the numbers that a compiled program takes, each in its own type.

scalar_value("s", DTYPES["i64"], 2**53 + 1)  ->  9007199254740993, exactly
scalar_value("s", DTYPES["i8"], 200)         ->  refused: it is a whole number from -128 to 127
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import isfinite, isnan, prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from isamap.emit.c_interface import Field, Interface
from isamap.ir import DTYPES, DType, round_to
from isamap.lower.program import PackedHeader, Tensor
from isamap.source.diagnostic import UsageProblem, did_you_mean
from isamap.source.numbers import real_number, show_value, truth_value, whole_number
from isamap.source.records import dataclass


def scalar_value(name: str, dtype: DType, given: object) -> int | float:
    """Return the value in its type: integers and truth values exactly, floats rounded once.

    Raises: UsageProblem for a value that is not a number of the type, or outside its range.
    """
    if dtype.is_float:
        return _float_value(name, dtype, given)
    number, truth = whole_number(given), truth_value(given)
    if dtype.kind == "bool":
        number = number if truth is None else int(truth)
        if number not in (0, 1):
            raise _refuse_argument(name, dtype, "True or False", given)
        return number
    if number is None or not dtype.low <= number <= dtype.high:
        raise _refuse_argument(name, dtype, f"a whole number from {dtype.low} to {dtype.high}", given)
    return number


def _float_value(name: str, dtype: DType, given: object) -> float:
    """Return a number rounded to a float type, including infinities and NaN if the type has them."""
    value = real_number(given)
    if value is None:
        raise _refuse_argument(name, dtype, "a number", given)
    with np.errstate(over="ignore"):
        rounded = float(round_to(np.asarray(value, np.float64), dtype))
    is_infinity = rounded == value and whole_number(given) is None
    if isfinite(rounded) or isnan(value) or is_infinity:
        return rounded
    raise _refuse_argument(name, dtype, f"a number from {-dtype.largest:.6g} to {dtype.largest:.6g}", given)


def _refuse_argument(name: str, dtype: DType, expected: str, given: object) -> UsageProblem:
    said = f"`{name}` is {dtype}: {expected}, not {show_value(given)}"
    return UsageProblem.of("argument-mismatch", said)


POISON = 0xA5
"""The initial byte of outputs and guard areas: it reveals elements not written, and writes out of bounds."""

_MOST_WORK = 100_000
"""Steps after which numpy stops looking for an element that two arrays share; matrices take a few."""


@dataclass(frozen=True, slots=True)
class PassedTensor:
    """One tensor as it is passed.

    `pitches` are the strides in the program's arguments. They have fewer dimensions than the array if the
    program merges some. Units: `strides` in bytes; `span_bytes` from its first to its last byte.
    """

    name: str
    array: NDArray[Any]
    strides: tuple[int, ...]
    span_bytes: int
    written: bool
    pitches: tuple[int, ...]

    @property
    def has_gaps(self) -> bool:
        """Return whether bytes between the first and the last element belong to no element."""
        return self.span_bytes > self.array.nbytes

    def view(self, buffer: Any, offset: int) -> NDArray[Any]:
        """Return the same tensor in other memory."""
        return np.ndarray(self.array.shape, self.array.dtype, buffer, offset, self.strides)

    def gaps(self, buffer: Any, offset: int) -> NDArray[np.uint8]:
        """Return the bytes of a copy in other memory, with poison in place of its elements."""
        found: NDArray[np.uint8] = np.frombuffer(buffer, np.uint8, self.span_bytes, offset).copy()
        elements = (*self.array.shape, self.array.itemsize)
        np.ndarray(elements, np.uint8, found.data, 0, (*self.strides, 1))[...] = POISON
        return found


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The tensors, and the fields of the argument struct as (kind, C type, value)."""

    tensors: tuple[PassedTensor, ...]
    fields: list[tuple[str, str, Any]]


def make_call(
    interface: Interface,
    arrays: Mapping[str, object],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
    in_place: bool = False,
) -> CallArguments:
    """Return the arguments of a call. With `in_place`, arrays are not copied. Raises: UsageProblem."""
    given = _whole_sizes(interface, sizes)
    types = dict(interface.scalars)
    _check_names("scalar", scalars, list(types), interface)
    values = {name: scalar_value(name, types[name], value) for name, value in scalars.items()}
    bound = {**dict(interface.sizes), **given}
    needed = [t.name for t in interface.tensors if t.role != "out" or in_place]
    _check_names("array", arrays, needed, interface, [t.name for t in interface.tensors])
    tensors = tuple(
        _pass(t, arrays[t.name], bound, in_place) if t.name in arrays else _room(t, bound)
        for t in interface.tensors
    )
    numbers = {t.name: n for n, t in enumerate(tensors)}
    fields = [_field(f, tensors, numbers, bound, values) for f in interface.fields]
    if in_place:
        _check_apart(tensors)
    return CallArguments(tensors, fields)


def checked_sizes(interface: Interface, sizes: object) -> dict[str, int]:
    """Return the sizes of a call. Each must be in the program's range. Raises: UsageProblem."""
    found = _whole_sizes(interface, sizes)
    for name, low, high in interface.symbols:
        if not low <= found[name] <= high:
            raise _mismatch(
                f"`{name}` = {found[name]} is outside of {low}..{high}, the range that "
                f"`{interface.name}` was made for",
                help="compile it for a wider range",
            )
    return found


def _whole_sizes(interface: Interface, sizes: object) -> dict[str, int]:
    """Return the sizes of a call as numbers. Raises: UsageProblem."""
    if not isinstance(sizes, Mapping):
        raise _mismatch(
            f"`{interface.name}` takes its sizes by name, and {show_value(sizes)} is given",
            help='they come first, as in `f({"M": 4}, A=a)`; arrays are given by name',
        )
    given = cast("Mapping[str, object]", sizes)
    _check_names("size", given, [name for name, _, _ in interface.symbols], interface)
    found: dict[str, int] = {}
    for name, value in given.items():
        number = whole_number(value)
        if number is None:
            raise _mismatch(f"`{name}` is a whole number, not {show_value(value)}")
        found[name] = number
    return found


def _field(
    f: Field,
    tensors: tuple[PassedTensor, ...],
    numbers: Mapping[str, int],
    sizes: Mapping[str, int],
    scalars: Mapping[str, int | float],
) -> tuple[str, str, Any]:
    c_type = f.c_type.strip()
    match f.kind:
        case "pointer":
            return f.kind, c_type, numbers[f.source]
        case "stride":
            return f.kind, c_type, tensors[numbers[f.source]].pitches[f.axis]
        case "size":
            return f.kind, c_type, sizes[f.source]
        case "scalar":
            return f.kind, c_type, scalars[f.source]


def _shape(t: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of the caller's array."""
    return tuple(extent.evaluate(sizes) for extent in t.given or t.shape)


def _room(t: Tensor, sizes: Mapping[str, int]) -> PassedTensor:
    """Return new memory for an output that the caller left out. Raises: UsageProblem if memory is short."""
    shape, dtype = _shape(t, sizes), t.dtype.numpy()
    size = prod(shape) * dtype.itemsize
    try:
        poison = bytes([POISON]) * size
    except (MemoryError, OverflowError):
        raise _mismatch(
            f"there is no memory for `{t.name}`: {t.dtype}{list(shape)} has {size} bytes"
        ) from None
    return _pass_tensor(t, np.frombuffer(poison, dtype).reshape(shape), sizes)


def _pass(t: Tensor, given: object, sizes: Mapping[str, int], in_place: bool) -> PassedTensor:
    """Return the caller's array for a tensor as it is passed to the program. Raises: UsageProblem."""
    array = _array(t, given, _shape(t, sizes))
    why_not = _why_not(array) or _gaps_in(t, array)
    if why_not and in_place:
        raise _mismatch(why_not.format(f"`{t.name}`"), help=_copy_in(t))
    if why_not:
        array = array.copy()
    if in_place and t.role != "in" and not array.flags.writeable:
        raise _mismatch(f"`{t.name}` is written, but the array given is read-only", help=_copy_in(t))
    return _pass_tensor(t, array, sizes)


def _pass_tensor(t: Tensor, array: NDArray[Any], sizes: Mapping[str, int]) -> PassedTensor:
    span = array.itemsize if array.size else 0
    span += sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) if span else 0
    pitches = array.strides
    if t.given is not None:
        pitches = array.reshape(tuple(extent.evaluate(sizes) for extent in t.shape)).strides
    return PassedTensor(t.name, array, array.strides, span, t.role != "in", pitches)


def _array(t: Tensor, given: object, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the caller's array for a tensor, checked for type and shape. Raises: UsageProblem."""
    dtype, expected = t.dtype.numpy(), f"`{t.name}` is an array {t.dtype}{list(shape)}"
    given = given if (foreign := as_numpy(given, t.name)) is None else foreign
    if not isinstance(given, np.ndarray):
        said = f"{expected}, and {show_value(given)} is given"
        raise _mismatch(said, help=f"pass an array of numpy, of type {dtype} and shape {shape}")
    array = cast("NDArray[Any]", given)
    if isinstance(array, np.ma.MaskedArray):
        said = f"{expected}, and one with a mask is given, which would be lost"
        raise _mismatch(said, help=f"pass `{t.name}.filled(…)`, or `{t.name}.data` to ignore the mask")
    if array.shape == shape and array.dtype == dtype:
        _check_values(t, array)
        # Strides along axes of one element may be any: here they become what dense arrays have.
        return array.reshape(-1).reshape(shape) if array.flags.c_contiguous else array
    said = f"`{t.name}` is {t.dtype}{list(shape)}, the array given is {array.dtype}{list(array.shape)}"
    converted = f"convert it: `{t.name}.astype({str(dtype)!r})`" + _copy_out(t)
    raise _mismatch(said, help=converted if array.shape == shape else None)


def _check_values(t: Tensor, array: NDArray[Any]) -> None:
    """Check that values of types narrower than numpy's are in range. Raises: UsageProblem."""
    if not t.dtype.is_integer or t.dtype.bits >= 8 * array.itemsize or t.role == "out" or not array.size:
        return
    low, high = int(array.min()), int(array.max())
    if low < t.dtype.low or high > t.dtype.high:
        wrong = low if low < t.dtype.low else high
        raise _mismatch(
            f"`{t.name}` is {t.dtype}: its values are {t.dtype.low} to {t.dtype.high}, not {wrong}"
        )


def _why_not(array: NDArray[Any]) -> str:
    """Return text that says why an array cannot be used in place, or "". `{}` stands for its name."""
    size = array.itemsize
    if not array.flags.aligned:
        return f"elements of {{}} do not begin at multiples of {array.dtype.alignment} bytes"
    if array.flags.c_contiguous:
        return ""
    if array.strides and array.strides[-1] != size:
        return "the last axis of {} is not dense"
    if any(s < 0 or s % size for s in array.strides):
        return "{} runs backwards, or its rows begin between elements"
    return "" if _is_apart(array) else "elements of {} overlap"


def _gaps_in(t: Tensor, array: NDArray[Any]) -> str:
    """Return text that says why dimensions of an array cannot be merged, or "". `{}` stands for its name."""
    if t.given is None or array.flags.c_contiguous:
        return ""
    return "{} has gaps between rows that the program takes as one"


def _copy_in(t: Tensor) -> str:
    return f"pass a copy, `{t.name}.copy()`" + _copy_out(t)


def _copy_out(t: Tensor) -> str:
    return "" if t.role == "in" else ", which is what is written then"


def _is_apart(array: NDArray[Any]) -> bool:
    """Return whether no two elements share bytes: the stride of each axis is at least the span of inner ones."""
    inner = array.itemsize
    for extent, stride in sorted(zip(array.shape, array.strides, strict=True), key=lambda p: p[1]):
        if extent > 1 and stride < inner:
            return False
        inner = max(inner, extent * stride)
    return True


def _check_apart(tensors: tuple[PassedTensor, ...]) -> None:
    """Check that no written tensor shares elements with another tensor. Raises: UsageProblem.

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
    help_ = _nearest_name(extra, missing or (needed if known is None else known)) or _advise_packing(
        missing, interface
    )
    raise UsageProblem.of(
        "argument-mismatch", f"`{interface.name}`: {said}", notes=(f"{what}s taken: {listed}",), help=help_
    )


def _nearest_name(extra: list[str], known: list[str]) -> str | None:
    """Return the known name that is nearest to the first unknown one, or None."""
    if not extra:
        return None
    same = [name for name in known if name.casefold() == str(extra[0]).casefold()]
    return f"did you mean `{same[0]}`?" if same else did_you_mean(str(extra[0]), known)


def _advise_packing(missing: list[str], interface: Interface) -> str | None:
    """Return advice on how to create a missing packed tensor, or None."""
    headers = {t.name: t.header for t in interface.tensors}
    match headers.get(missing[0]) if missing else None:
        case PackedHeader(source=source):
            return f"`f.pack({source}=…)` makes it, as in `f(…, **f.pack({source}=…))`"
        case _:
            return None


def _mismatch(said: str, *, help: str | None = None) -> UsageProblem:  # noqa: A002 - as a diagnostic has it
    return UsageProblem.of("argument-mismatch", said, help=help)


_CODES = {"int": 0, "uint": 1, "float": 2, "bool": 6}
_BFLOAT = 4
_CPU = 1


def dlpack_code(dtype: DType) -> int:
    """Return DLPack's code for the kind of a type, or -1 for none."""
    if dtype.name == "bf16":
        return _BFLOAT
    return _CODES[dtype.kind] if not dtype.is_float or dtype.bits >= 16 else -1


def capsule_of(value: Any) -> Any:
    """Return the DLPack capsule of a torch tensor, or None for other objects. It takes less than a microsecond."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if (value.requires_grad and torch.is_grad_enabled()) or value.is_neg():
        return None
    try:
        return torch.utils.dlpack.to_dlpack(value)
    except (RuntimeError, BufferError, TypeError):  # it lies on no device, or in no rows
        return None


def as_numpy(value: object, name: str) -> NDArray[Any] | None:
    """Return an array on the same memory, or None for other objects. Raises: UsageProblem for device memory."""
    if not hasattr(value, "__dlpack__") or isinstance(value, np.ndarray):
        return None
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            return _of_torch(value, torch)
        return cast("NDArray[Any]", np.from_dlpack(cast("Any", value)))
    except (RuntimeError, BufferError, TypeError, ValueError) as problem:
        said = f"`{name}` cannot be used in place: {problem}"
        raise UsageProblem.of(
            "argument-mismatch", said, help="pass it as an array of numpy in memory of the CPU"
        ) from None


def _of_torch(value: Any, torch: Any) -> NDArray[Any]:
    found = value if torch.is_grad_enabled() else value.detach()
    if found.dtype == torch.bfloat16:  # numpy has no such type of its own
        if found.requires_grad:
            raise RuntimeError("it requires a gradient: call within torch.no_grad()")
        return cast("NDArray[Any]", found.view(torch.int16).numpy().view(DTYPES["bf16"].numpy()))
    return cast("NDArray[Any]", found.numpy())
