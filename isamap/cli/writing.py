"""Texts that a command writes where it was told to: whole or not at all, and over nothing by accident."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from isamap.source import Diagnostic, UsageProblem, replace_file


def write_text(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Makes a file with a text, at once. Raises: UsageProblem where it exists, or cannot be written."""
    if not overwrite:
        check_new(path)
    named, path = path, path.resolve()
    try:
        replace_file(path, text.encode(), _mode(path), None if overwrite else _place_new)
    except FileExistsError:
        raise _exists(named) from None
    except OSError as error:
        raise UsageProblem(
            Diagnostic("output-unwritable", f"{named} cannot be written: {error.strerror}")
        ) from None


def check_new(path: Path) -> None:
    """Nothing, where no file is: asked before long work as well. Raises: UsageProblem."""
    if os.path.lexists(path):
        raise _exists(path)


def _place_new(made: str, path: Path) -> None:
    """Gives the finished file its name; a link refuses where another has taken it in the meantime."""
    try:
        os.link(made, path)
    except (NotImplementedError, PermissionError):  # some file systems have no links
        os.replace(made, path)


def _mode(path: Path) -> int:
    """The rights of the file that is replaced, or those that a new one gets."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _exists(path: Path) -> UsageProblem:
    return UsageProblem(
        Diagnostic("output-exists", f"{path} exists already", help="name another file, or add --overwrite")
    )
