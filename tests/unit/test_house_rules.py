"""Rules that no linter knows: modules of one concept, telling names, reasons beside silenced checks."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("isamap", "scheduler", "hw_specs", "kernels", "tests")

MODULE_LINES = 800
FUNCTION_LINES = 90
EMPTY_NAMES = re.compile(r"(^|_)(utils?|helpers?|manager|misc|common|new|2)(_|$)")

# A silenced check, and whatever stands behind it on the line.
SILENCED = re.compile(
    r"#\s*(?:noqa\b(?::\s*[\w, ]+?)?|pyright: ignore(?:\[[\w, ]+\])?|pragma: no cover)(?P<rest>[^\w].*|$)"
)

MODULES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))  # rglob does not follow the links
    if "__pycache__" not in path.parts
]
NAMES = [str(path.relative_to(ROOT)) for path in MODULES]


def test_a_module_is_one_concept() -> None:
    """Beyond this length there is a second concept inside. Below it, what belongs together stays together."""
    lengths = {
        n: len(p.read_text(encoding="utf-8").splitlines()) for n, p in zip(NAMES, MODULES, strict=True)
    }
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_a_function_does_one_step() -> None:
    long: dict[str, int] = {}
    for name, path in zip(NAMES, MODULES, strict=True):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                long |= {f"{name}: {node.name}": lines} if lines > FUNCTION_LINES else {}
    assert long == {}


def test_the_product_keeps_to_its_budget() -> None:
    most = tomllib.loads((ROOT / "tests" / "house.toml").read_text(encoding="utf-8"))["product"]
    product = [path for path in MODULES if path.relative_to(ROOT).parts[0] in ("isamap", "scheduler")]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in product)
    assert (lines <= most["lines"], len(product) <= most["modules"]) == (True, True), (lines, len(product))


def test_folders_at_the_root_are_the_projects_own() -> None:
    """A command that runs there writes its output beside them, and `git add` takes it along."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("without git and its index nothing says which files belong to the project")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {line.split("/")[0] for line in listed.splitlines() if "/" in line}
    assert found == {*FOLDERS, ".ci", "benchmarks", "docs", "editors", "plugins"}


def test_module_names_say_what_is_inside() -> None:
    assert [name for name, path in zip(NAMES, MODULES, strict=True) if EMPTY_NAMES.search(path.stem)] == []


def test_only_the_digits_0_to_9_are_numbers() -> None:
    """Python counts the digits and letters of all scripts among `\\d`, `\\w` and what `isdigit` accepts."""
    of_all_scripts = re.compile(r"\\[dw]\b|\.is(?:digit|decimal|numeric|alnum)\(")
    product = [path for path in MODULES if "tests" not in path.parts]
    lines = [(path.stem, line) for path in product for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if of_all_scripts.search(line[1]) and "isascii" not in line[1]] == []


def test_numbers_of_the_cost_model_cite_a_source_and_others_say_what_they_limit() -> None:
    """A number that was tuned, without a source, cannot be judged on another processor: `model:` has such numbers."""
    says = re.compile(
        r"limit of the search|source: \S|derived|rounding|of a message|value of the decision", re.IGNORECASE
    )
    unsaid: list[str] = []
    for name, path in zip(NAMES, MODULES, strict=True):
        if not name.startswith(("scheduler/deciding", "scheduler/effects", "scheduler/nests")):
            continue
        lines, said = path.read_text(encoding="utf-8").splitlines(), ""
        for line in lines:
            if re.match(r"[A-Z][A-Z0-9_]* = [-0-9.(]", line) and not says.search(said + line):
                unsaid.append(f"{name}: {line}")
            is_said = line.startswith("#") or (said and re.match(r"[A-Z]", line))
            said = f"{said} {line.removeprefix('#').strip()}" if is_said else ""
    assert unsaid == []


def test_silenced_checks_state_their_reasons() -> None:
    found = {
        name: silenced_without_reason(p.read_text(encoding="utf-8"))
        for name, p in zip(NAMES, MODULES, strict=True)
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("line", "has_reason"),
    [
        ("x = f()  # " + "noqa: BLE001", False),
        ("x = f()  # " + "noqa: BLE001 - a plug-in may raise anything", True),
        ("x = f()  # " + "pyright: ignore[reportUnknownMemberType]", False),
        ("x = f()  # " + "pyright: ignore[reportUnknownMemberType]  # islpy has no stubs for it", True),
        ("# islpy has no stubs for it\nx = f()  # " + "pyright: ignore[reportUnknownMemberType]", True),
        ("x = f()  # nothing is silenced", True),
    ],
)
def test_reasons_are_recognised(line: str, has_reason: bool) -> None:
    assert (silenced_without_reason(line) == []) == has_reason


def silenced_without_reason(text: str) -> list[str]:
    """Return the lines that silence a check with no word of why, behind it or in a comment on the line above."""
    lines = text.splitlines()
    found: list[str] = []
    for above, line in zip(["", *lines], lines, strict=False):
        match = SILENCED.search(line)
        if match and not re.search(r"\w{2,}", match["rest"]) and not above.lstrip().startswith("#"):
            found.append(line.strip())
    return found
