"""Measures the kernels of docs/cookbook.md; `--write` puts their speeds into the page.

    python benchmarks/cookbook.py --write

Each command of the page runs with `--heuristic greedy`; the page has the best repetition.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cookbook.md"
FILE = re.compile(r"^`(?P<name>\w+\.ir)`:\n\n```\n(?P<text>(?:(?!```).*\n)*)```", re.MULTILINE)
RECIPE = re.compile(r"^isamap (?P<words>run .*)\n```\n\n\*Speed:\* .*$", re.MULTILINE)


def main(words: Sequence[str]) -> None:
    """Print the speed of each recipe; with `--write`, put it into the page."""
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for file in FILE.finditer(text):
            Path(folder, file["name"]).write_text(file["text"], encoding="utf-8")
        found = RECIPE.sub(lambda recipe: measured(recipe, folder), text)
    if words == ["--write"]:
        PAGE.write_text(found, encoding="utf-8")


def measured(recipe: re.Match[str], folder: str) -> str:
    """Return a recipe's command with its speed."""
    command = [
        sys.executable,
        "-m",
        "isamap",
        *shlex.split(recipe["words"]),
        "--heuristic",
        "greedy",
        "--json",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    if not answer["ok"] or not answer["verified"]:
        raise RuntimeError(f"{recipe['words']}: {answer['diagnostics']}")
    seconds = answer["seconds"]["min"]
    rate = answer["operations"] / seconds / 1e9
    said = f"{_short(seconds * 1e6)} µs, {_short(rate)} billion operations per second"
    print(recipe["words"], said, sep="\n  ", flush=True)
    return f"isamap {recipe['words']}\n```\n\n*Speed:* {said}"


def _short(value: float) -> str:
    """Return a number with three digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main(sys.argv[1:])
