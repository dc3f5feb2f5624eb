"""The output folder: what it holds, its manifest, and when it may be replaced.

gemm_f32-x86-avx512/
  gemm_f32.c  gemm_f32.h  gemm_f32.schedule  report.txt  manifest.json
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isamap.driver.replacing import replace_folder
from isamap.driver.request import sha256
from isamap.source import Diagnostic, UsageProblem
from isamap.version import __version__

MANIFEST = "manifest.json"
FORMAT = 1


def manifest_text(facts: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """The manifest of files that were made from facts."""
    digests = {name: sha256(text) for name, text in sorted(files.items())}
    whole = {"isamap": FORMAT, "version": __version__, **facts, "files": digests}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def write_folder(folder: Path, files: Mapping[str, str], *, force: bool = False) -> tuple[Path, ...]:
    """The paths of the files of a new folder, which replaces the one that isamap wrote there before.

    `force` replaces files that were changed since, too. Raises: UsageProblem where something else is in the
    way, or nothing can be written.
    """

    def fill(made: Path) -> None:
        made.chmod(0o777 & ~_umask())
        for name, text in files.items():
            (made / name).write_text(text, encoding="utf-8", newline="\n")

    check_replaceable(folder, force=force)
    try:
        replace_folder(folder.resolve(), fill, lambda there: _check(there, folder, force=force))
    except OSError as error:
        raise _unwritable(folder, error) from None
    return tuple(folder / name for name in files)


def check_replaceable(folder: Path, *, force: bool = False) -> None:
    """Nothing, where a folder may be replaced: it is not there, empty, or holds what its manifest lists.

    With `force` also what was changed since it was listed. Raises: UsageProblem.
    """
    _check(folder, folder, force=force)


def _check(there: Path, folder: Path, *, force: bool) -> None:
    """The same of a folder that lies elsewhere for now."""
    if not there.exists() and not there.is_symlink():
        return
    if not there.is_dir():
        raise _in_the_way(folder, "it is not a folder")
    try:
        found = {path.name for path in there.iterdir()}
        if not found:
            return
        listed: Any = json.loads((there / MANIFEST).read_text(encoding="utf-8"))
        if listed["isamap"] != FORMAT:
            raise ValueError
        digests: dict[str, str] = dict(listed["files"])
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            raise _in_the_way(folder, f"it cannot be read: {error.strerror}") from None
        raise _in_the_way(folder, f"it holds no {MANIFEST} of isamap") from None
    except (ValueError, KeyError, TypeError):
        raise _in_the_way(folder, f"its {MANIFEST} is not isamap's") from None
    if foreign := sorted(found - {MANIFEST, *digests}):
        raise _in_the_way(folder, f"it holds `{foreign[0]}`, which isamap did not write")
    changed = [
        name for name in sorted(found & digests.keys()) if not _is_as_written(there / name, digests[name])
    ]
    if changed and not force:
        raise _edited(folder, changed)


def _is_as_written(path: Path, digest: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except OSError:  # a folder of that name, or one's own rights taken away
        return False


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _in_the_way(folder: Path, why: str) -> UsageProblem:
    return UsageProblem(
        Diagnostic(
            "output-in-the-way",
            f"{folder} is not replaced: {why}",
            notes=("an output folder is replaced whole",),
            help="name another folder with -o, or remove this one",
        )
    )


def _edited(folder: Path, changed: Sequence[str]) -> UsageProblem:
    others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return UsageProblem(
        Diagnostic(
            "output-edited",
            f"{folder} is not replaced: `{changed[0]}`{others} was changed since isamap wrote it",
            notes=("an output folder is replaced whole",),
            help="keep a copy elsewhere, or name another folder with -o; `--force` replaces what was changed",
        )
    )


def _unwritable(folder: Path, error: OSError) -> UsageProblem:
    return UsageProblem(Diagnostic("output-unwritable", f"{folder} cannot be written: {error.strerror}"))
