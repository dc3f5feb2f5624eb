"""The machine descriptions that isamap ships: their names and paths. Nothing is read."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent

SUFFIX = ".yaml"


def shipped_machines() -> tuple[str, ...]:
    """Return the names of the shipped machines, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}")))


def shipped_drafts() -> tuple[str, ...]:
    """Return the names of the drafts, sorted: `drafts/NAME`. Drafts test the language and emit nothing."""
    return tuple(sorted(f"drafts/{path.stem}" for path in (FOLDER / "drafts").glob(f"*{SUFFIX}")))


def profile_path(family: str) -> Path | None:
    """Return the profile measured on a family of processors (`VENDOR-FAMILY-MODEL`), or None."""
    profiles = {path.stem: path for path in (FOLDER / "profiles").glob("*.json")}
    return profiles.get(family)


def families_text() -> tuple[str, ...]:
    """Return the texts that list the names that descriptions may use for each family of processors."""
    files = sorted((FOLDER / "families").glob(f"*{SUFFIX}"))
    return tuple(path.read_text(encoding="utf-8") for path in files)


def template_text(kind: str) -> str:
    """Return the template of a new description of a kind, with parameters written `@NAME@`."""
    return (FOLDER / "templates" / f"{kind}{SUFFIX}").read_text(encoding="utf-8")


def template_kinds_text() -> str:
    """Return the table of the kinds of templates, with the parameters for which each asks."""
    return (FOLDER / "templates" / "kinds.toml").read_text(encoding="utf-8")


def machine_path(name: str) -> Path:
    """Return the file of a shipped machine or draft. The name is one that the functions above return."""
    return FOLDER / f"{name}{SUFFIX}"
