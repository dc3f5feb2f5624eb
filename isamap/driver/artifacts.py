"""The output folder: written beside its place and renamed into it, so that it is whole or not there.

gemm_f32-x86-avx512/
  gemm_f32.c  gemm_f32.h  gemm_f32.schedule  report.txt  manifest.json
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def write_folder(folder: Path, files: Mapping[str, str]) -> tuple[Path, ...]:
    """The paths of the files of a new folder, which replaces the one that isamap wrote there before.

    Raises: UsageProblem where something else is in the way, or nothing can be written.
    """
    check_replaceable(folder)
    target = folder.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        made.chmod(0o777 & ~_umask())
        for name, text in files.items():
            (made / name).write_text(text, encoding="utf-8", newline="\n")
        _swap(made, target)
    except OSError as error:
        raise _unwritable(folder, error) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return tuple(folder / name for name in files)


def check_replaceable(folder: Path) -> None:
    """Nothing, where a folder may be replaced: it is not there, empty, or holds what its manifest lists."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise _in_the_way(folder, "it is not a folder")
    try:
        found = {path.name for path in folder.iterdir()}
        if not found:
            return
        listed: Any = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if listed["isamap"] != FORMAT:
            raise ValueError
        known = {MANIFEST, *listed["files"]}
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            raise _in_the_way(folder, f"it cannot be read: {error.strerror}") from None
        raise _in_the_way(folder, f"it holds no {MANIFEST} of isamap") from None
    except (ValueError, KeyError, TypeError):
        raise _in_the_way(folder, f"its {MANIFEST} is not isamap's") from None
    if foreign := sorted(found - known):
        raise _in_the_way(folder, f"it holds `{foreign[0]}`, which isamap did not write")


def _swap(made: Path, target: Path) -> None:
    """Puts the new folder in its place; what was there before is put back when that fails."""
    if not target.exists():
        made.rename(target)
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    os.replace(target, old)
    try:
        made.rename(target)
    except OSError:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


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


def _unwritable(folder: Path, error: OSError) -> UsageProblem:
    return UsageProblem(Diagnostic("output-unwritable", f"{folder} cannot be written: {error.strerror}"))
