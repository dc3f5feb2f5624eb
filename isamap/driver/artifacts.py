"""The output folder: its files, its manifest, and the rule for replacing it.

gemm_f32-x86-avx512/
  gemm_f32.c  gemm_f32.h  gemm_f32.schedule  report.txt  manifest.json

The folder is replaced atomically: a reader finds the complete old one or the complete new one.

Writers of one folder take a lock on its parent, which ends with their process. Temporary folders of a killed
writer are therefore recognised by their names, and removed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from errno import EINVAL, ENOSYS
from pathlib import Path
from typing import Any

from isamap.driver.request import sha256
from isamap.source import UsageProblem, cannot_write, is_device, open_regular, read_json, read_limited
from isamap.version import __version__

PATIENCE_S = 10
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def replace_folder(target: Path, fill: Callable[[Path], None], check: Callable[[Path], None]) -> None:
    """Replace `target` by a folder that `fill` creates, if `check` accepts the old folder.

    `check` runs again on the old folder after it was moved away, so that an edit in the meantime restores it.
    Raises: OSError if nothing can be written, and the errors of `check`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _turn(target.parent) as is_alone:
        if is_alone:
            for left in target.parent.iterdir():
                if left.name.startswith(_prefix(target)):
                    shutil.rmtree(left, ignore_errors=True)
        check(target)
        made = Path(tempfile.mkdtemp(dir=target.parent, prefix=_prefix(target)))
        try:
            fill(made)
            _swap(made, target, check)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _prefix(target: Path) -> str:
    return f".{target.name}.isamap-"


@contextmanager
def _turn(folder: Path) -> Generator[bool]:
    """Wait until no other writer uses a folder. Yield whether the lock was obtained.

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
        yield _take_in_time(lambda: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB))
    finally:
        os.close(handle)


def _take_in_time(take: Callable[[], None]) -> bool:
    """Return whether a lock could be taken before the time limit."""
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
    """Rename the new folder to its target, and the old one, if any, to the new one's temporary name."""
    if not target.exists() or not any(target.iterdir()):
        _move(made, target)
    elif not _exchange(made, target):
        # Replace a folder by two renames. If the second one fails, the old folder is restored.
        old = Path(tempfile.mkdtemp(dir=target.parent, prefix=_prefix(target)))
        os.replace(target, old / "old")
        try:
            made.rename(target)
        except OSError:
            os.replace(old / "old", target)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)
    else:
        try:
            check(made)
        except BaseException:
            _exchange(made, target)
            raise


def _move(made: Path, target: Path) -> None:
    """Move a folder to a place that does not exist, or to an empty folder."""
    if os.name == "nt" and target.exists():
        target.rmdir()
    made.rename(target)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders' names. Return False if the system call is missing."""
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


MANIFEST = "manifest.json"
MOST_MANIFEST_BYTES = 64 << 20
FORMAT = 1


def manifest_text(facts: Mapping[str, Any], files: Mapping[str, str | bytes | memoryview]) -> str:
    """Return the manifest of some files and of the facts that they were generated from."""
    digests = {
        name: sha256(content) if isinstance(content, str) else hashlib.sha256(content).hexdigest()
        for name, content in sorted(files.items())
    }
    whole = {"isamap": FORMAT, "version": __version__, **facts, "files": digests}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def write_folder(
    folder: Path, files: Mapping[str, str | bytes | memoryview], *, force: bool = False
) -> tuple[Path, ...]:
    """Return the paths of the files in a new folder, which replaces an earlier output of isamap.

    `force` replaces files that were changed since, too. Raises: UsageProblem if something else is in the
    way, or nothing can be written.
    """

    def fill(made: Path) -> None:
        mask = os.umask(0o022)
        os.umask(mask)
        made.chmod(0o777 & ~mask)
        for name, content in files.items():
            (made / name).write_bytes(content.encode() if isinstance(content, str) else content)

    assert not any(map(is_device, files)), "names were made safe where they were chosen"
    check_replaceable(folder, force=force)
    try:
        replace_folder(folder.resolve(), fill, lambda there: _check(there, folder, force=force))
    except OSError as error:
        raise cannot_write(folder, error) from None
    return tuple(folder / name for name in files)


def check_replaceable(folder: Path, *, force: bool = False) -> None:
    """Check that a folder may be replaced: it does not exist, is empty, or contains only the files of its manifest.

    With `force`, files that were changed since may be replaced, too. Raises: UsageProblem.
    """
    _check(folder, folder, force=force)


def _check(there: Path, folder: Path, *, force: bool) -> None:
    """Check an output folder that is temporarily at the path `there`."""
    if not there.exists() and not there.is_symlink():
        return
    if not there.is_dir():
        raise _in_the_way(folder, "it is not a folder")
    try:
        found = {path.name for path in there.iterdir()}
        if not found:
            return
        listed: Any = read_json(read_limited(there / MANIFEST, MOST_MANIFEST_BYTES), finite=False)
        if listed["isamap"] != FORMAT:
            raise ValueError
        digests: dict[str, str] = dict(listed["files"])
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            raise _in_the_way(folder, f"it cannot be read: {error.strerror}") from None
        raise _in_the_way(folder, f"it holds no {MANIFEST} of isamap") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _in_the_way(folder, f"its {MANIFEST} is not isamap's") from None
    if foreign := sorted(found - {MANIFEST, *digests}):
        raise _in_the_way(folder, f"it holds `{foreign[0]}`, which isamap did not write")
    changed = [
        name for name in sorted(found & digests.keys()) if not _is_as_written(there / name, digests[name])
    ]
    if changed and not force:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UsageProblem.of(
            "output-edited",
            f"{folder} is not replaced: `{changed[0]}`{others} was changed since isamap wrote it",
            notes=("an output folder is replaced whole",),
            help="keep a copy elsewhere, or name another folder with -o; `--force` replaces the changed files",
        )


def _is_as_written(path: Path, digest: str) -> bool:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError:  # a folder of that name, or one's own rights taken away
        return False


def _in_the_way(folder: Path, why: str) -> UsageProblem:
    return UsageProblem.of(
        "output-in-the-way",
        f"{folder} is not replaced: {why}",
        notes=("an output folder is replaced whole",),
        help="name another folder with -o, or remove this one",
    )
