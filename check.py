"""Runs the checks of the project: format, lint, types, layers, and the tests with coverage.

    python check.py                       the static checks and the fast tests
    python check.py --all                 all tests, the exhaustive ones, too
    python check.py --tenth SEED          the fast tests, a tenth of the others; no coverage
    python check.py tests/unit -k parser  the same static checks, then these tests only

The tools are those of the interpreter that runs this file, so the virtual environment need not be
activated. All steps run even when one fails; the tests come last. Exit code 1 when any step failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent

# import-linter has no `python -m` form: this is what its console script does.
LINT_IMPORTS = "from importlinter.cli import lint_imports_command as main; main(['--no-logo'])"

STATIC_CHECKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("format", ("-m", "ruff", "format", "--check", ".")),
    ("lint", ("-m", "ruff", "check", ".")),
    ("types", ("-m", "pyright", "--pythonpath", sys.executable)),
    ("layers", ("-c", LINT_IMPORTS)),
)

# Two workers: the tests compile and run native code, and small machines have two cores. `-n 8` overrides it.
TESTS = ("-m", "pytest", "-n", "2")
# Brute force in Python takes several times as long with it.
COVERAGE = ("--cov", "--cov-report=term")


# How many examples each property tries (tests/conftest.py); `--all` tries ten times as many.
FAST_EXAMPLES = "10"


def main(arguments: Sequence[str]) -> int:
    """Exit code of the whole: 0 when every step passed, else 1."""
    tier, pytest_arguments = _tier(arguments)
    passed = {name: _run(name, arguments) for name, arguments in STATIC_CHECKS}
    print("\n== so far: " + ", ".join(f"{name} {'ok' if ok else 'FAILED'}" for name, ok in passed.items()))
    if "all" not in tier:
        os.environ.setdefault("ISAMAP_EXAMPLES", FAST_EXAMPLES)
    tests_passed = _run("tests", (*TESTS, *tier, *pytest_arguments))
    failed = [name for name, ok in passed.items() if not ok]
    if failed:
        # Only then: after a clean run the last line is pytest's own.
        print(f"check.py: failed before the tests: {', '.join(failed)}", file=sys.stderr)
    return 0 if tests_passed and not failed else 1


def _tier(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What says to pytest which tests to take, and what remains of the command line."""
    match arguments:
        case ["--all", *rest]:
            return ("--tier", "all", *COVERAGE), rest
        case ["--tenth", seed, *rest]:
            return ("--tier", "tenth", "--seed", seed), rest
        case _:
            return ("--tier", "fast", *COVERAGE), arguments


def _run(name: str, arguments: Sequence[str]) -> bool:
    """Whether one step succeeded; its output goes straight to the terminal."""
    print(f"\n== {name}", flush=True)
    started = time.monotonic()
    ok = subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False).returncode == 0
    if name != "tests":
        print(f"== {name}: {'ok' if ok else 'FAILED'} in {time.monotonic() - started:.1f} s", flush=True)
    return ok


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
