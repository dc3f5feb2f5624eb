"""A compiled program in this process, where its author is trusted.

Memory for workspaces: in large pages, where the system has them.

Packed panels are read again and again. In pages of 4 KiB they lie anywhere in a cache that is found by
physical addresses, so that parts of a panel which would fit evict each other, and there are more pages than
the first TLB holds: docs/decisions/0020-memory-model.md.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, cast
from weakref import finalize

from isamap.codegen.arguments import Call, make_call
from isamap.codegen.child import permission_refused
from isamap.codegen.repeated import Repeated
from isamap.codegen.toolchain import Compiled
from isamap.codegen.worker import (
    ThreadPool,
    ask_for_large_pages,
    ask_permission,
    functions_of,
    load_library,
    make_arguments,
    unload,
)

PAGE_BYTES = 2 << 20  # of x86-64, and of Arm with pages of 4 KiB; others are asked for what they have
LEAST_BYTES = 128 << 10  # less lies in few small pages


def large_room(size_bytes: int) -> ctypes.Array[Any]:
    """Zeros that stay as long as the array does, in large pages where that pays and the system has them."""
    if size_bytes < LEAST_BYTES:
        return ctypes.create_string_buffer(max(size_bytes, 1))
    pages = -(-size_bytes // PAGE_BYTES)
    room = mmap.mmap(-1, (pages + 1) * PAGE_BYTES)
    ask_for_large_pages(room)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    return (ctypes.c_char * size_bytes).from_buffer(room, -start % PAGE_BYTES)


MOST_SIZES = 64  # of calls that are known


@dataclass(frozen=True, slots=True)
class _Held:
    """What has to stay as long as a program works on it."""

    call: Call
    arguments: ctypes.Structure


class InProcess:
    """A program loaded into this process: called on arrays where they lie, nothing is copied.

    Its author is trusted: an error in it may end the process. With several `threads` it has a pool of them,
    which lives as long as this object, as the library does. It may be called from several threads at once:
    each call has a workspace of its own.
    """

    def __init__(self, compiled: Compiled, threads: int = 1) -> None:
        self.compiled = compiled
        self._threads = threads
        self._pool: Any = None
        self._functions: tuple[Any, Any] | None = None
        self._loading = Lock()
        self._rooms: list[Any] = []  # workspaces that no call is using
        self._repeated: dict[tuple[tuple[str, int], ...], Repeated] = {}  # by the sizes of calls
        self._is_repeated = Repeated.is_possible(compiled.interface)

    def __call__(
        self,
        arrays: Mapping[str, object],
        sizes: Mapping[str, int] | None = None,
        scalars: Mapping[str, float] | None = None,
    ) -> int:
        """The status; outputs are written in place. Raises: UsageProblem when arrays do not fit."""
        held, pointer, needed = self._checked(arrays, sizes, scalars)
        if self._is_repeated:
            if len(self._repeated) >= MOST_SIZES:
                self._repeated.clear()
            made = Repeated(
                self.compiled.interface,
                held.call,
                held.arguments,
                self._load()[0],
                needed,
                self.compiled.compiler,
            )
            self._repeated[tuple((sizes or {}).items())] = made
        return self._run(pointer, needed)

    def again(self, values: Mapping[str, object], sizes: object) -> int | None:
        """The status of a call that is like one before, of arrays and scalars by name.

        None, and nothing is done, where it is not, or may not be.
        """
        known = _known(sizes)
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
        return None if status == Repeated.UNLIKE else status

    def bind(
        self,
        arrays: Mapping[str, object],
        sizes: Mapping[str, int] | None = None,
        scalars: Mapping[str, float] | None = None,
    ) -> Callable[[], int]:
        """A call of always the same arrays, which are checked now: it gives the status.

        Raises: UsageProblem when arrays do not fit.
        """
        held, pointer, needed = self._checked(arrays, sizes, scalars)
        function, _ = self._load()
        pool = self._pool.address if self._pool is not None else None
        if not needed:
            return lambda held=held, owner=self: function(pointer, None, pool)
        return lambda held=held: self._run(pointer, needed)

    def moving(self, arrays: Mapping[str, object], order: Sequence[str]) -> Callable[[Sequence[int]], int]:
        """A call of arrays like these elsewhere: of their addresses in that order it gives the status.

        What lies at the addresses is the caller's word. Raises: UsageProblem when these arrays do not fit.
        """
        held, _, needed = self._checked(arrays, None, None)
        pointers = {
            f.source: f"f{n}" for n, f in enumerate(self.compiled.interface.fields) if f.kind == "pointer"
        }
        members = [pointers[name] for name in order]
        struct, spare = type(held.arguments), [held.arguments]

        def call(addresses: Sequence[int]) -> int:
            try:
                arguments = spare.pop()
            except IndexError:  # another thread has it
                arguments = struct.from_buffer_copy(held.arguments)
            for member, address in zip(members, addresses, strict=True):
                setattr(arguments, member, address)
            status = self._run(ctypes.addressof(arguments), needed)
            spare.append(arguments)
            return status

        return call

    def _checked(
        self,
        arrays: Mapping[str, object],
        sizes: Mapping[str, int] | None,
        scalars: Mapping[str, float] | None,
    ) -> tuple[_Held, int, int]:
        """The arguments, where they lie, and how large a workspace they need. Raises: UsageProblem."""
        _, workspace_bytes = self._load()
        call = make_call(self.compiled.interface, arrays, sizes or {}, scalars or {}, in_place=True)
        arguments = make_arguments(call.fields, [t.array.ctypes.data for t in call.tensors])
        pointer = ctypes.addressof(arguments)
        return _Held(call, arguments), pointer, workspace_bytes(pointer)

    def _run(self, pointer: int, needed: int) -> int:
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
        """The function and the one that tells its workspace, with the pool that calls use."""
        with self._loading:
            if self._functions is None:
                for component in self.compiled.permissions:
                    if not ask_permission(component):
                        raise permission_refused()
                if self.compiled.pool is not None and self._threads > 1:
                    self._pool = ThreadPool(str(self.compiled.pool), self._threads)
                library = load_library(str(self.compiled.library))
                self._functions = functions_of(library, self.compiled.interface.name)
                # Calls hold this object: none runs when it goes. At the process's end the system does it.
                finalize(self, unload, library).atexit = False
            return self._functions

    def _take_room(self, needed: int) -> Any:
        """A workspace that is large enough, and no other call's."""

        try:
            room = self._rooms.pop()
        except IndexError:
            return large_room(needed)
        return room if len(room) >= needed else large_room(needed)


def _known(sizes: object) -> tuple[tuple[str, int], ...] | None:
    """Sizes that are numbers of Python, with their names; None for what has to be looked at."""
    if sizes is None:
        return ()
    if type(sizes) is not dict:
        return None
    given = cast("dict[str, Any]", sizes)
    return tuple(given.items()) if all(type(size) is int for size in given.values()) else None
