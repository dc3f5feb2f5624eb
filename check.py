"""Runs the checks of the project: format, lint, types, layers, and the tests with coverage.

    python check.py                       the static checks and the fast tests
    python check.py --coverage            the same, with the lines that no test runs: twice the time
    python check.py --all                 all tests, the exhaustive ones, too, with coverage
    python check.py --draw SEED           the fast tests and a few others, drawn by SEED
    python check.py tests/unit -k parser  the same static checks, then these tests only

The tools are those of the interpreter that runs this file, so the virtual environment need not be
activated. All steps run even when one fails. The type checker, which uses one core, runs during the tests and
reports after them. Exit code 1 when any step failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent

# import-linter has no `python -m` form: this is what its console script does.
LINT_IMPORTS = "from importlinter.cli import lint_imports_command as main; main(['--no-logo'])"

STATIC_CHECKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("format", ("-m", "ruff", "format", "--check", ".")),
    ("lint", ("-m", "ruff", "check", ".")),
    ("layers", ("-c", LINT_IMPORTS)),
)
TYPES = ("-m", "pyright", "--pythonpath", sys.executable)

# Two workers: the tests compile and run native code, and small machines have two cores. `-n 8` overrides it.
# Each takes half of the files in turn, so that what the tests of a file share is made once. The longest are named.
TESTS = (
    "-m",
    "pytest",
    "-n",
    "2",
    "--dist",
    "worksteal",
    "-p",
    "clocked",
    "--durations=40",
    "--durations-min=1",
)
# The processor time of each test: `python tests/clocked.py .pytest_cache/clocked.*` prints which are too long.
CLOCKED = ROOT / ".pytest_cache" / "clocked"
# Python 3.11 traces each line each time: a unit test takes three times as long.
COVERAGE = ("--cov", "--cov-report=term")


# How many examples each property tries (tests/conftest.py); `--all` tries ten times as many.
FAST_EXAMPLES = "10"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code of the whole: 0 when every step passed, else 1."""
    if arguments and arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    tier, pytest_arguments = _tier(arguments)
    # Tests start Python hundreds of times. Without kept bytecode each of these compiles all modules, a second.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    CLOCKED.parent.mkdir(exist_ok=True)
    for noted in CLOCKED.parent.glob("clocked.*"):
        noted.unlink()
    os.environ["CLOCKED"] = str(CLOCKED)
    passed = {name: _run(name, arguments) for name, arguments in STATIC_CHECKS}
    print("\n== so far: " + ", ".join(f"{name} {'ok' if ok else 'FAILED'}" for name, ok in passed.items()))
    if "all" not in tier:
        os.environ.setdefault("ISAMAP_EXAMPLES", FAST_EXAMPLES)
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen([sys.executable, *TYPES], cwd=ROOT, stdout=said, stderr=subprocess.STDOUT) as types,
    ):
        passed["tests"] = _run("tests", (*TESTS, *tier, *pytest_arguments))
        passed["types"] = types.wait() == 0
        said.seek(0)
        print(f"\n== types\n{said.read().decode(errors='replace')}", end="")
    failed = [name for name, ok in passed.items() if not ok]
    if failed:
        print(f"check.py: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _tier(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the options of pytest that choose the tests, and the rest of the command line."""
    match arguments:
        case ["--all", *rest]:
            return ("--tier", "all", *COVERAGE), rest
        case ["--coverage", *rest]:
            return ("--tier", "fast", *COVERAGE), rest
        case ["--draw", seed, *rest]:
            return ("--tier", "drawn", "--seed", seed), rest
        case _:
            return ("--tier", "fast"), arguments


def _run(name: str, arguments: Sequence[str]) -> bool:
    """Run one step with its output on the terminal; return whether it succeeded."""
    print(f"\n== {name}", flush=True)
    started = time.monotonic()
    ok = subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False).returncode == 0
    print(f"== {name}: {'ok' if ok else 'FAILED'} in {time.monotonic() - started:.1f} s", flush=True)
    return ok


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
