"""File access for all readers, and files that are written completely or not at all.

    open_regular(path)             a file that a person named
    open_in_folder(folder, name)      a file that another file names: it lies in that file's folder
    read_limited(path, limit)      its bytes, one more than the limit at most
    read_part(file, start, size)   bytes of an open file, which has to have them
    map_file(file)                 all of an open file, brought into memory if it is looked at
    spill(content)                 the same bytes in a file without a name
    release(content)               the memory of mapped bytes given back, until they are looked at again
    read_json(text)                unambiguous JSON: no repeated key, no number beyond floats

A pipe or a device is never opened, because it may block or never end. A file is first written next to its
place, and then renamed.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import re
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from math import isfinite
from pathlib import Path
from typing import Any

from isamap.source.diagnostic import IsamapError, MissingTool, UsageProblem

_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
_WALKS = {os.open, os.stat} <= os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""True if files can be opened folder by folder, so that a link made meanwhile is not followed."""


class LeavesFolder(OSError):
    """An error: a file refers to another file outside of its folder."""


def open_regular(path: Path) -> BufferedReader:
    """Return a regular file, opened for reading. Raises: OSError, also for a folder, a pipe or a device."""
    return _open_file(path, _FLAGS)


def open_in_folder(folder: Path, name: str) -> BufferedReader:
    """Return a regular file that a file in `folder` refers to, opened for reading.

    It may lie in folders inside. A link may lead to another place of the folder. A file with several names
    (hard links) is refused, as one of them may be anywhere.

    Raises: LeavesFolder, and OSError as `open_regular` does.
    """
    try:
        root = os.path.realpath(folder)
        path = Path(os.path.realpath(os.path.join(root, name)))
    except (ValueError, RecursionError):  # a link to a link to a link …
        raise _no_name() from None
    if os.path.isabs(name) or not path.is_relative_to(root):
        raise LeavesFolder(errno.EXDEV, "it leaves the folder of the file that names it")
    if not _WALKS:
        return _open_file(path, _FLAGS, is_alone=True)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    handle = os.open(root, flags)
    try:
        for part in path.relative_to(root).parts[:-1]:
            outer, handle = handle, os.open(part, flags, dir_fd=handle)
            os.close(outer)
        last = path.name if path != Path(root) else "."
        return _open_file(last, _FLAGS | os.O_NOFOLLOW, handle, is_alone=True)
    finally:
        os.close(handle)


def _open_file(
    path: Path | str, flags: int, folder: int | None = None, *, is_alone: bool = False
) -> BufferedReader:
    try:
        _check(os.stat(path, dir_fd=folder), is_alone)  # before, as opening alone moves some devices
        handle = os.open(path, flags, dir_fd=folder)
    except ValueError:
        raise _no_name() from None
    try:
        _check(os.fstat(handle), is_alone)
        return os.fdopen(handle, "rb")
    except OSError:
        os.close(handle)
        raise


def _check(status: os.stat_result, is_alone: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if is_alone and status.st_nlink > 1:
        raise LeavesFolder(errno.EMLINK, "it has several names (hard links): copy it into the folder")


def _no_name() -> OSError:
    return OSError(errno.EINVAL, "no file can have this name")


def read_limited(path: Path, limit: int) -> bytes:
    """Return the first `limit` + 1 bytes of a regular file. The additional byte shows that it is too long.

    Raises: OSError as `open_regular` does.
    """
    with open_regular(path) as file:
        return file.read(limit + 1)


def read_part(file: BufferedReader, start: int, size: int) -> bytes:
    """Return `size` bytes of a file from `start` on. Raises: OSError if the file is shorter."""
    there = os.fstat(file.fileno()).st_size
    if start < 0 or size < 0 or start + size > there:
        raise OSError(errno.EINVAL, f"it has {there} bytes, and {size} from {start} on are asked for")
    file.seek(start)
    content = file.read(size)
    if len(content) != size:
        raise OSError(errno.EIO, "it became shorter while it was read")
    return content


def map_file(file: BufferedReader) -> memoryview:
    """Return all bytes of a file, mapped. Bytes that are not accessed take no memory. Raises: OSError."""
    if not os.fstat(file.fileno()).st_size:
        return memoryview(b"")
    try:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError:
        raise OSError(errno.EIO, "it became shorter while it was read") from None


def spill(content: memoryview) -> memoryview:
    """Return the same bytes in an unnamed temporary file, mapped. Raises: OSError."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def release(content: Any) -> None:
    """Release the memory of a mapped file under an array or a view. Other memory is unchanged."""
    owner = content
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    # Only files are mapped for reading alone. Memory without a file would lose its contents.
    if owner is not None and memoryview(owner).readonly and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


def read_json(text: str | bytes, *, finite: bool = True) -> Any:
    """Return the value of a JSON text. Bytes are UTF-8.

    Raises: ValueError for invalid JSON, repeated keys, and lists that are nested too deeply; with `finite`
    also for NaN, infinities, and numbers beyond all floats.
    """
    try:
        return json.loads(
            text if isinstance(text, str) else text.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant if finite else None,
            parse_float=_float_of if finite else None,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"it has the key {twice[:40]!r} twice")
    return found


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not a number of JSON")


def _float_of(word: str) -> float:
    number = float(word)
    if not isfinite(number):
        raise ValueError(f"the number {word[:40]} is beyond all floats")
    return number


_DEVICE = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|clock\$|(com|lpt)[0-9¹²³]) *(\..*)?", re.IGNORECASE | re.DOTALL
)


def is_device(name: str) -> bool:
    """Return whether Windows treats a file name as a device, for any extension and case."""
    return _DEVICE.fullmatch(name) is not None


def replace_file(
    path: Path,
    content: bytes,
    mode: int = 0o644,
    place: Callable[[str, Path], None] | None = None,
    *,
    durable: bool = False,
) -> None:
    """Create or replace a file atomically, with permissions `mode`. `place` renames the finished file.

    A `durable` one is on the disk at return. Raises: OSError; no partial file remains.
    """
    import tempfile  # here, for `isamap --version` writes nothing

    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(made, mode)
        (place or os.replace)(made, path)
    finally:
        with suppress(OSError):
            os.unlink(made)


def cannot_write(path: Path, error: OSError | str, advice: str | None = None) -> IsamapError:
    """Return the error that a file cannot be written. A full disk counts as a fault of the environment."""
    why = error if isinstance(error, str) else error.strerror
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = "make room there, or name a place on another disk"
        return MissingTool.of("output-unwritable", f"{path} cannot be written: {why}", help=advice)
    return UsageProblem.of("output-unwritable", f"{path} cannot be written: {why}", help=advice)
