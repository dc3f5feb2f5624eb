"""The version of isamap, read by the build, `--version` and manifests."""

__version__ = "0.1.0"


def describe_version() -> str:
    """Return the version with the commit of a checkout, and the version of the solver."""
    from importlib.metadata import PackageNotFoundError, version

    commit = _commit()
    try:
        solver = f"CP-SAT of OR-Tools {version('ortools')}"
    except PackageNotFoundError:
        solver = "no solver: OR-Tools is not installed"
    return f"isamap {__version__} ({f'commit {commit}, ' if commit else ''}{solver})"


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
