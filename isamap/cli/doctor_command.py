"""`isamap doctor`: check this computer's tools, and say how to install missing ones."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator

from isamap.cli.answers import Answer
from isamap.cli.option_parser import CommandOptions
from isamap.report.columns import align
from isamap.source import IsamapError
from isamap.version import __version__

Row = tuple[bool, str, str]
"""One check: whether it passed, its name, and its result."""


def doctor_command(_asked: CommandOptions) -> Answer:
    """Show which tools this computer has and lacks."""
    rows = list(_examine())
    lacks = [row for row in rows if not row[0]]
    payload = {"checks": [{"ok": ok, "what": what, "found": found} for ok, what, found in rows]}
    text = align([("ok" if ok else "LACKS", what, found) for ok, what, found in rows])
    return Answer(payload, text, exit=5 if lacks else 0)


def _examine() -> Iterator[Row]:
    yield True, "isamap", __version__
    yield sys.version_info >= (3, 11), "python", platform.python_version()
    runs = sys.platform == "linux"
    yield (
        runs,
        "system",
        f"{platform.system()} {platform.machine()}" + ("" if runs else ": emits, but cannot run"),
    )
    yield _try_row("cache", _cache)
    yield _try_row("solver", _solver)
    yield _try_row("C compiler", _compiler)
    yield _try_row("this machine", _machine)
    yield True, "emulators", _emulators()


def _try_row(what: str, look: Callable[[], str]) -> Row:
    try:
        return True, what, look()
    except IsamapError as error:
        first = error.diagnostics[0]
        return False, what, first.message + (f"; {first.help}" if first.help else "")


def _cache() -> str:
    from isamap.source.cache import cache_root

    return str(cache_root())


def _solver() -> str:
    from isamap.version import solver_version

    return f"OR-Tools {solver_version()}"


def _compiler() -> str:
    from isamap.run.toolchain import find_compiler

    return find_compiler(("-O3",)).version


def _emulators() -> str:
    """Return text with the installed emulators that descriptions may name."""
    from isamap.machine.allowed import emulators

    here = [name for name in emulators() if shutil.which(name) is not None]
    packages = " and ".join(sorted({runs.package for runs in emulators().values()}))
    return ", ".join(here) or f"none; {packages} of Debian have them, for machines of other architectures"


def _machine() -> str:
    from isamap.machine import detect_machine

    return detect_machine()
