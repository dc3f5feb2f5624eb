"""Run a compiled program in this process, for trusted kernels.

Workspaces are in huge pages if the system has them.

Packed panels are read repeatedly. In pages of 4 KiB their places in a physically indexed cache are random, so
that parts of a panel evict each other although the panel would fit. There are also more pages than the first
TLB holds: docs/decisions/0020-memory-model.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, cast
from weakref import finalize

import numpy as np

from isamap.emit.c_interface import Interface
from isamap.ir import DType
from isamap.lower.program import Tensor
from isamap.run import worker
from isamap.run.arguments import CallArguments, PassedTensor, capsule_of, dlpack_code, make_call
from isamap.run.child import report_permission
from isamap.run.toolchain import Compiled, Compiler, build
from isamap.source.records import dataclass

PAGE_BYTES = 2 << 20  # of x86-64, and of Arm with pages of 4 KiB; others are asked for what they have
LEAST_BYTES = 128 << 10  # less lies in few small pages


def large_room(size_bytes: int) -> ctypes.Array[Any]:
    """Return a zeroed buffer. A large one lies in huge pages if the system has them."""
    if size_bytes < LEAST_BYTES:
        return ctypes.create_string_buffer(max(size_bytes, 1))
    pages = -(-size_bytes // PAGE_BYTES)
    room = worker.private_memory((pages + 1) * PAGE_BYTES, large_pages=True)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    return (ctypes.c_char * size_bytes).from_buffer(room, -start % PAGE_BYTES)


MOST_SIZES = 64  # of calls that are known


@dataclass(frozen=True, slots=True)
class _Held:
    """The objects that must exist while a program uses them."""

    call: CallArguments
    arguments: ctypes.Structure


class InProcess:
    """A program loaded into this process and called on arrays in place, without copies.

    Its author is trusted: an error in it may end the process. With several `threads` it has a thread pool,
    which lives as long as this object. It may be called from several threads at once: each call has its own
    workspace.
    """

    def __init__(self, compiled: Compiled, threads: int = 1) -> None:
        self.compiled = compiled
        self._threads = threads
        self._pool: Any = None
        self._functions: tuple[Any, Any] | None = None
        self._loading = Lock()
        self._rooms: list[Any] = []  # workspaces that no call is using
        self._repeated: dict[tuple[tuple[str, int], ...], RepeatedCall] = {}  # by the sizes of calls
        self._is_repeated = RepeatedCall.is_possible(compiled.interface)

    def __call__(
        self,
        arrays: Mapping[str, object],
        sizes: Mapping[str, int] | None = None,
        scalars: Mapping[str, float] | None = None,
    ) -> int:
        """Return the status of a call. Outputs are written in place. Raises: UsageProblem if arrays do not fit."""
        held, pointer, needed = self._check_arguments(arrays, sizes, scalars)
        if self._is_repeated:
            if len(self._repeated) >= MOST_SIZES:
                self._repeated.clear()
            made = RepeatedCall(
                self.compiled.interface,
                held.call,
                held.arguments,
                self._load()[0],
                needed,
                self.compiled.compiler,
            )
            self._repeated[tuple((sizes or {}).items())] = made
        return self._run_pointer(pointer, needed)

    def again(self, values: Mapping[str, object], sizes: object) -> int | None:
        """Return the status of a call if it is like an earlier one, else None without a call.

        Return None without a call if they differ, or may differ.
        """
        known = _known_sizes(sizes)
        repeated = self._repeated.get(known) if known is not None else None
        if repeated is None:
            return None
        pool = self._pool.address if self._pool is not None else None
        if not repeated.needed_bytes:
            status = repeated.run(values, None, pool)
        else:
            room = self._take_room(repeated.needed_bytes)
            try:
                status = repeated.run(values, room, pool)
            finally:
                self._rooms.append(room)
        return None if status == RepeatedCall.UNLIKE else status

    def bind(
        self,
        arrays: Mapping[str, object],
        sizes: Mapping[str, int] | None = None,
        scalars: Mapping[str, float] | None = None,
    ) -> Callable[[], int]:
        """Return a function that calls the program on fixed arrays, which are checked now, and returns the status.

        Raises: UsageProblem if arrays do not fit.
        """
        held, pointer, needed = self._check_arguments(arrays, sizes, scalars)
        function, _ = self._load()
        pool = self._pool.address if self._pool is not None else None
        if not needed:
            return lambda held=held, owner=self: function(pointer, None, pool)
        return lambda held=held: self._run_pointer(pointer, needed)

    def _check_arguments(
        self,
        arrays: Mapping[str, object],
        sizes: Mapping[str, int] | None,
        scalars: Mapping[str, float] | None,
    ) -> tuple[_Held, int, int]:
        """Return the arguments of a call, their address, and the size of the workspace. Raises: UsageProblem."""
        _, workspace_bytes = self._load()
        call = make_call(self.compiled.interface, arrays, sizes or {}, scalars or {}, in_place=True)
        arguments = worker.make_arguments(call.fields, [t.array.ctypes.data for t in call.tensors])
        pointer = ctypes.addressof(arguments)
        return _Held(call, arguments), pointer, workspace_bytes(pointer)

    def _run_pointer(self, pointer: int, needed: int) -> int:
        function, _ = self._functions or self._load()
        pool = self._pool.address if self._pool is not None else None
        if not needed:
            return int(function(pointer, None, pool))
        room = self._take_room(needed)
        try:
            return int(function(pointer, room, pool))
        finally:
            self._rooms.append(room)

    def _load(self) -> tuple[Any, Any]:
        """Return the function and its workspace query, and create the pool that calls use."""
        with self._loading:
            if self._functions is None:
                for component in self.compiled.permissions:
                    if not worker.ask_permission(component):
                        raise report_permission()
                if self.compiled.pool is not None and self._threads > 1:
                    self._pool = worker.ThreadPool(str(self.compiled.pool), self._threads)
                library = worker.load_library(str(self.compiled.library))
                self._functions = worker.functions_of(library, self.compiled.interface.name)
                # Calls hold this object: none runs when it goes. At the process's end the system does it.
                finalize(self, worker.unload, library).atexit = False
            return self._functions

    def _take_room(self, needed: int) -> Any:
        """Return a workspace that is large enough and not used by another call."""

        try:
            room = self._rooms.pop()
        except IndexError:
            return large_room(needed)
        return room if len(room) >= needed else large_room(needed)


def _known_sizes(sizes: object) -> tuple[tuple[str, int], ...] | None:
    """Return sizes as Python integers with their names, or None if a size needs a closer check."""
    if sizes is None:
        return ()
    if type(sizes) is not dict:
        return None
    given = cast("dict[str, Any]", sizes)
    return tuple(given.items()) if all(type(size) is int for size in given.values()) else None


# A call like one that was checked in full: only what may differ is looked at.
#
# f(A=a, B=b, C=c)    the first: every check, every message
# f(A=d, B=b, C=e)    arrays of the same types, shapes and strides, elsewhere: a microsecond
# f(A=x, B=b, C=e)    x is of another shape: the first way again, which refuses it or goes on with it
#
# isamap_call.c looks at them, and at no value of an array.


_SOURCE = "isamap_call.c"
_FLAGS = ("-O2", "-std=c11")
_EXACT = 1 << 53  # whole numbers up to this are numbers of C's double


class _Array(ctypes.Structure):
    """The C struct `expected_array` of isamap_call.c."""

    _fields_ = (
        *((name, ctypes.py_object) for name in ("name", "dtype")),
        *((name, ctypes.c_int64) for name in ("code", "item_bytes", "dimensions", "written", "span_bytes")),
        ("offset", ctypes.c_int64),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("shape", "strides")),
    )


class _Scalar(ctypes.Structure):
    """The C struct `expected_scalar` of isamap_call.c."""

    _fields_ = (
        ("name", ctypes.py_object),
        *((name, ctypes.c_int64) for name in ("is_float", "bytes", "offset")),
        *((name, ctypes.c_double) for name in ("low", "high")),
    )


class _Like(ctypes.Structure):
    """The arguments of an earlier call, with which C code compares the next call: `like` of isamap_call.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("arrays", "scalars", "bytes")),
        ("array", ctypes.POINTER(_Array)),
        ("scalar", ctypes.POINTER(_Scalar)),
        *((name, ctypes.c_void_p) for name in ("arguments", "function")),
        *((name, ctypes.py_object) for name in ("numpy_type", "array_struct", "dtype", "capsule_of")),
    )


class RepeatedCall:
    """Calls with the sizes and array layouts of a first call. Only addresses and scalars may differ.

    `run(values, workspace, pool)` gives the status of a call of arrays and scalars by name, or `UNLIKE` where
    nothing was done. The workspace is one of `needed_bytes`. Python's lock is given back meanwhile.
    """

    UNLIKE = -1

    @staticmethod
    def is_possible(interface: Interface) -> bool:
        """Return whether types, shapes and strides alone decide if a call is valid."""
        types = [t.dtype for t in interface.tensors if t.role != "out"]
        whole = all(not t.is_integer or t.bits == 8 * t.numpy().itemsize for t in types)
        return whole and all(_range(dtype) is not None for _, dtype in interface.scalars)

    def __init__(
        self,
        interface: Interface,
        call: CallArguments,
        arguments: ctypes.Structure,
        function: Any,
        needed_bytes: int,
        compiler: Compiler,
    ) -> None:
        """Prepare calls of `function` with arguments of this structure. Raises: CompilerRefused, MissingTool."""
        self.needed_bytes = needed_bytes
        again, members = _make_checked_call(compiler), type(arguments)
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


def _array(t: Tensor, passed: PassedTensor, offset: int) -> _Array:
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
    """Return the range of scalars that C accepts unchanged, or rounded once, or None."""
    if dtype.is_integer:
        return (dtype.low, dtype.high) if dtype.high <= _EXACT else None
    return (-dtype.largest, dtype.largest) if dtype.name in ("f32", "f64") else None


@cache
def _make_checked_call(compiler: Compiler) -> Callable[..., int]:
    """Return the function that checks a call and performs it. Raises: CompilerRefused, MissingTool."""
    text = Path(__file__).with_name(_SOURCE).read_text(encoding="utf-8")
    library = ctypes.PyDLL(str(build(compiler, _FLAGS, {_SOURCE: text}, _SOURCE)))  # keeps Python's lock
    function = library.isamap_again
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p]
    return function
