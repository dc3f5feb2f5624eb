"""A folder that takes another's place at once: a reader finds the old one or the new one, whole.

Writers of one place take turns, by a lock on the folder around it, which ends with the process. So what an
earlier writer left behind when it was killed is known by its name alone, and goes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from errno import EINVAL, ENOSYS
from pathlib import Path

PATIENCE_S = 10
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def replace_folder(target: Path, fill: Callable[[Path], None], check: Callable[[Path], None]) -> None:
    """Puts a folder that `fill` makes in the place of one that `check` does not refuse.

    `check` is asked again of what was taken away, so that an edit in the meantime brings it back. Raises:
    OSError where nothing can be written, and what `check` raises.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _turn(target.parent) as is_alone:
        if is_alone:
            _sweep(target)
        check(target)
        made = Path(tempfile.mkdtemp(dir=target.parent, prefix=_prefix(target)))
        try:
            fill(made)
            _swap(made, target, check)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _sweep(target: Path) -> None:
    """Removes what writers of this place left behind when they were killed."""
    for left in target.parent.iterdir():
        if left.name.startswith(_prefix(target)):
            shutil.rmtree(left, ignore_errors=True)


def _prefix(target: Path) -> str:
    return f".{target.name}.isamap-"


@contextmanager
def _turn(folder: Path) -> Generator[bool]:
    """Waits until no other writer is at work in a folder; says whether that is known.

    It is not where a folder may be written and not read, on file systems without locks, without `flock`, and
    where something holds the lock for PATIENCE_S: then the folder is replaced at once all the same.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield False
        return
    try:
        yield _waited_for(lambda: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB))
    finally:
        os.close(handle)


def _waited_for(take: Callable[[], None]) -> bool:
    """Whether a lock was to be had in time."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            take()
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        except OSError:
            return False
        else:
            return True


def _swap(made: Path, target: Path, check: Callable[[Path], None]) -> None:
    """Puts the new folder in its place, and the old one where the new one was made, if there was one."""
    if not target.exists() or not any(target.iterdir()):
        _move(made, target)
    elif not _exchange(made, target):
        _set_aside(made, target)
    else:
        try:
            check(made)
        except BaseException:
            _exchange(made, target)
            raise


def _move(made: Path, target: Path) -> None:
    """To a place where nothing is, or an empty folder."""
    if os.name == "nt" and target.exists():
        target.rmdir()
    made.rename(target)


def _exchange(one: Path, other: Path) -> bool:
    """Whether both folders have each other's name now; False where the system has no such call."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (EINVAL, ENOSYS):
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))


def _set_aside(made: Path, target: Path) -> None:
    """Two renames, between which there is no folder; the old one is put back when the second fails."""
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=_prefix(target)))
    os.replace(target, old / "old")
    try:
        made.rename(target)
    except OSError:
        os.replace(old / "old", target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
