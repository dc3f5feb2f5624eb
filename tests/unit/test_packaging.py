"""What is listed for the build is what stands in the tree, and what a module needs is declared."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import isamap.version

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: list[str] = PROJECT["tool"]["setuptools"]["packages"]
FOLDERS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
DATA: list[str] = PROJECT["tool"]["setuptools"]["package-data"]["*"]

# Top-level folders that are installed inside isamap.
OUTSIDE = ("hw_specs", "kernels", "scheduler")

# Distributions that are imported under another name than their own.
IMPORTED_AS = {"pyyaml": "yaml"}


def test_the_package_list_equals_the_tree() -> None:
    inside = {_dotted(f.parent) for f in _walk(ROOT / "isamap") if f.name == "__init__.py"}
    outside = {
        "isamap." + _dotted(f.parent)
        for name in OUTSIDE
        for f in _walk(ROOT / name)
        if f.name == "__init__.py"
    }
    assert sorted(PACKAGES) == sorted(inside | outside)


def test_the_package_list_is_sorted_and_free_of_repetition() -> None:
    assert sorted(set(PACKAGES)) == PACKAGES


def test_the_page_of_the_architecture_names_each_package_and_a_file_to_start_reading_at() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text[text.index("| package |") : text.index("## Stages")].splitlines()[2:]
    rows = [[re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:-1]] for line in table if line]
    named = [name for row in rows for name in row[0]]
    assert sorted(named) == sorted(p.split(".")[1] for p in PACKAGES if p.count(".") == 1)
    missing = [
        f"{row[0][0]}: {file}"
        for row in rows
        for file in row[3]
        if not any((ROOT / base / file).exists() for name in row[0] for base in _bases(name))
    ]
    assert not missing


def _bases(package: str) -> tuple[str, ...]:
    """Return the folders in which a file of a package may be."""
    return ("isamap", f"isamap/{package}", package)


def test_each_package_outside_isamap_is_mapped_to_its_folder() -> None:
    outside = [
        package for package in PACKAGES if package.split(".")[1:2] and package.split(".")[1] in OUTSIDE
    ]
    assert {package: package.removeprefix("isamap.").replace(".", "/") for package in outside} == FOLDERS


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_link_for_static_tools_is_committed_as_a_link(name: str) -> None:
    listed = _git("ls-files", "--stage", f"isamap/{name}")
    assert listed.startswith("120000 ")
    assert _git("cat-file", "blob", listed.split()[1]) == f"../{name}"


@pytest.mark.parametrize("folder", ["isamap", *OUTSIDE])
def test_every_file_beside_the_modules_is_package_data(folder: str) -> None:
    files = [f for f in _walk(ROOT / folder) if f.suffix != ".py"]
    assert [str(f.relative_to(ROOT)) for f in files if not any(fnmatch(f.name, p) for p in DATA)] == []
    packages = {ROOT / FOLDERS.get(package, package.replace(".", "/")) for package in PACKAGES}
    assert [str(f.relative_to(ROOT)) for f in files if f.parent not in packages] == []


def test_everything_that_a_module_imports_is_a_declared_dependency() -> None:
    declared = {_import_name(r) for r in PROJECT["project"]["dependencies"]}
    optional = {_import_name(r) for r in _extras("cc", "bench", "lsp")}
    imported = {
        name: str(f.relative_to(ROOT))
        for folder in ("isamap", *OUTSIDE)
        for f in _walk(ROOT / folder)
        if f.suffix == ".py"
        for name in _imports(f)
    }
    foreign = {n: f for n, f in imported.items() if n != "isamap" and n not in sys.stdlib_module_names}
    assert {name: f for name, f in foreign.items() if name not in declared | optional} == {}


def test_the_installed_version_is_the_one_that_the_code_says() -> None:
    assert metadata.version("isamap") == isamap.version.__version__


def test_the_compiler_and_the_baseline_are_pinned() -> None:
    assert {"ziglang==0.17.0", "torch==2.13.0"} <= set(_extras("cc", "bench"))


def test_the_ci_script_finds_the_second_command_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [line for line in readme if re.fullmatch(r"python3 -m venv \.venv && .* check\.py", line)]
    assert len(commands) == 1
    assert r"^python3 -m venv \.venv && .* check\.py$" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def _walk(folder: Path) -> list[Path]:
    """Return the files below, links not followed, what Python leaves behind left out."""
    found: list[Path] = []
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or entry.name == "__pycache__":
            continue
        found += _walk(entry) if entry.is_dir() else [entry]
    return found


def _dotted(folder: Path) -> str:
    return ".".join(folder.relative_to(ROOT).parts)


def _imports(module: Path) -> set[str]:
    """Return the first names of all that a module imports absolutely."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


def _extras(*names: str) -> list[str]:
    return [r for name in names for r in PROJECT["project"]["optional-dependencies"][name]]


def _import_name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found, requirement
    return IMPORTED_AS.get(found[0], found[0])


def _git(*arguments: str) -> str:
    """Return what git says; skips where the sources are no clone, as in an unpacked archive."""
    try:
        return subprocess.run(
            # A checkout may belong to another user, as in a container: reading it is harmless.
            ["git", "-c", f"safe.directory={ROOT}", *arguments],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs git and a clone: {error}")
