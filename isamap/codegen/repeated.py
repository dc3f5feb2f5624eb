"""A call like one that was checked in full: only what may differ is looked at.

f(A=a, B=b, C=c)    the first: every check, every message
f(A=d, B=b, C=e)    arrays of the same types, shapes and strides, elsewhere: a microsecond
f(A=x, B=b, C=e)    x is of another shape: the first way again, which refuses it or goes on with it

isamap_call.c looks at them, and at no value of an array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from isamap.codegen.arguments import Call, Passed
from isamap.codegen.c_interface import Interface
from isamap.codegen.foreign import capsule_of, dlpack_code
from isamap.codegen.toolchain import Compiler, build
from isamap.ir import DType
from isamap.lower.program import Tensor

_SOURCE = "isamap_call.c"
_FLAGS = ("-O2", "-std=c11")
_EXACT = 1 << 53  # whole numbers up to this are numbers of C's double


class _Array(ctypes.Structure):
    """`expected_array` of isamap_call.c."""

    _fields_ = (
        *((name, ctypes.py_object) for name in ("name", "dtype")),
        *((name, ctypes.c_int64) for name in ("code", "item_bytes", "dimensions", "written", "span_bytes")),
        ("offset", ctypes.c_int64),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("shape", "strides")),
    )


class _Scalar(ctypes.Structure):
    """`expected_scalar` of isamap_call.c."""

    _fields_ = (
        ("name", ctypes.py_object),
        *((name, ctypes.c_int64) for name in ("is_float", "bytes", "offset")),
        *((name, ctypes.c_double) for name in ("low", "high")),
    )


class _Like(ctypes.Structure):
    """`like` of isamap_call.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("arrays", "scalars", "bytes")),
        ("array", ctypes.POINTER(_Array)),
        ("scalar", ctypes.POINTER(_Scalar)),
        *((name, ctypes.c_void_p) for name in ("arguments", "function")),
        *((name, ctypes.py_object) for name in ("numpy_type", "array_struct", "dtype", "capsule_of")),
    )


class Repeated:
    """Calls of the same sizes that are like a first one in their arrays but for where these lie.

    `run(values, workspace, pool)` gives the status of a call of arrays and scalars by name, or `UNLIKE` where
    nothing was done; the workspace is one of `needed_bytes`. Python's lock is given back meanwhile.
    """

    UNLIKE = -1

    @staticmethod
    def is_possible(interface: Interface) -> bool:
        """Whether calls are known by their types, shapes and strides; else values are looked at, too."""
        types = [t.dtype for t in interface.tensors if t.role != "out"]
        whole = all(not t.is_integer or t.bits == 8 * t.numpy().itemsize for t in types)
        return whole and all(_range(dtype) is not None for _, dtype in interface.scalars)

    def __init__(
        self,
        interface: Interface,
        call: Call,
        arguments: ctypes.Structure,
        function: Any,
        needed_bytes: int,
        compiler: Compiler,
    ) -> None:
        """After a call of `function` with such arguments. Raises: CompilerRefused, MissingTool."""
        self.needed_bytes = needed_bytes
        again, members = _again(compiler), type(arguments)
        offsets = {
            (f.kind, f.source): getattr(members, f"f{n}").offset
            for n, f in enumerate(interface.fields)
            if f.kind in ("pointer", "scalar")
        }
        arrays = [
            _array(t, passed, offsets["pointer", t.name])
            for t, passed in zip(interface.tensors, call.tensors, strict=True)
        ]
        scalars = [_scalar(name, dtype, offsets["scalar", name]) for name, dtype in interface.scalars]
        like = _Like(
            *(len(arrays), len(scalars), ctypes.sizeof(arguments)),
            *((_Array * len(arrays))(*arrays), (_Scalar * len(scalars))(*scalars)),
            *(ctypes.addressof(arguments), ctypes.cast(function, ctypes.c_void_p)),
            *(np.ndarray, "__array_struct__", "dtype", capsule_of),
        )
        address = ctypes.addressof(like)
        self._kept = like, arguments, function
        self.run: Callable[[Mapping[str, object], Any, int | None], int] = lambda values, room, pool: again(
            address, values, room, pool
        )


def _array(t: Tensor, passed: Passed, offset: int) -> _Array:
    array = passed.array
    shape, strides = _numbers(array.shape), _numbers(passed.strides)
    sizes = array.itemsize, array.ndim, passed.written, passed.span_bytes
    return _Array(t.name, array.dtype, dlpack_code(t.dtype), *sizes, offset, shape, strides)


def _scalar(name: str, dtype: DType, offset: int) -> _Scalar:
    limits = _range(dtype)
    assert limits is not None
    return _Scalar(name, dtype.is_float, dtype.bits // 8, offset, *limits)


def _numbers(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def _range(dtype: DType) -> tuple[float, float] | None:
    """The numbers that C takes for a scalar just as they are, or rounded once; None where it does not."""
    if dtype.is_integer:
        return (dtype.low, dtype.high) if dtype.high <= _EXACT else None
    return (-dtype.largest, dtype.largest) if dtype.name in ("f32", "f64") else None


@cache
def _again(compiler: Compiler) -> Callable[..., int]:
    """The function that looks at a call and makes it. Raises: CompilerRefused, MissingTool."""
    text = Path(__file__).with_name(_SOURCE).read_text(encoding="utf-8")
    library = ctypes.PyDLL(str(build(compiler, _FLAGS, {_SOURCE: text}, _SOURCE)))  # keeps Python's lock
    function = library.isamap_again
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p]
    return function
