"""The version of isamap, read by the build, `--version` and manifests."""

import os
import sys
from contextlib import suppress
from functools import cache

__version__ = "0.1.0"


def describe_version() -> str:
    """Return the version with the commit of a checkout, and the version of the solver."""
    commit, found = _commit(), solver_version()
    solver = "no solver: OR-Tools is not installed" if found == "none" else f"CP-SAT of OR-Tools {found}"
    return f"isamap {__version__} ({f'commit {commit}, ' if commit else ''}{solver})"


@cache
def solver_version() -> str:
    """Return the installed version of OR-Tools, without importing it, or `none`.

    It is in the name of a folder, the first on the import path. `importlib.metadata` knows other layouts as well,
    and takes 40 ms to import.
    """
    for folder in sys.path:
        with suppress(OSError):
            for name in os.listdir(folder or "."):
                if name.startswith("ortools-") and name.endswith(".dist-info"):
                    return name.removeprefix("ortools-").removesuffix(".dist-info")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ortools")
    except PackageNotFoundError:
        return "none"


def _commit() -> str:
    """Return the commit that is checked out, read from git's files, or "" without a checkout."""
    from pathlib import Path

    git = Path(__file__).resolve().parents[1] / ".git"
    try:
        if git.is_file():  # a worktree
            git = Path(git.read_text(encoding="utf-8").removeprefix("gitdir: ").strip())
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if head.startswith("ref: "):
            name, linked = head.removeprefix("ref: "), git / "commondir"
            common = git / linked.read_text(encoding="utf-8").strip() if linked.exists() else git
            if (common / name).exists():
                head = (common / name).read_text(encoding="utf-8")
            else:
                packed = (common / "packed-refs").read_text(encoding="utf-8").splitlines()
                head = next((line for line in packed if line.endswith(f" {name}")), "")
    except (OSError, ValueError):
        return ""
    return head[:8].strip()
