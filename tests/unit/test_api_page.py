"""The page of the Python interface is written from signatures and docstrings.

`pytest tests/unit/test_api_page.py --snapshot-update` writes docs/api.md anew.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
HEAD = """\
# Python interface

This page is written from the signatures and docstrings. [From Python](python.md) has examples and the rules for
arrays. Names that are not on this page may change in every version.
"""
NAMES = {
    "isamap": (
        "compile", "CompiledKernel", "verify", "find_mappings", "gradient", "gradient_pair", "list_machines",
        "load_machine", "IsamapError",
    ),
    "isamap.onnx": ("compile_model", "import_model", "CompiledModel"),
    "isamap.torch": ("backend", "explain"),
}  # fmt: skip


MEMBERS = {"CompiledModel": ("inputs", "outputs", "__call__")}
"""The members of a class that are part of the interface, where some are not."""


def prose(of: object) -> str:
    text = inspect.getdoc(of)
    assert text is not None, of
    text = re.sub(r"\s*\b(Raises|Shapes|Units):", r"\n\n*\1:*", text)
    return re.sub(r"\bdocs/([\w-]+)\.md", r"[\1](\1.md)", text)


def spelled(one: inspect.Parameter) -> str:
    star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    default = getattr(one.default, "__name__", repr(one.default))
    return f"{star}{one.name}: {one.annotation}{'' if one.default is one.empty else f' = {default}'}"


def signature(name: str, of: object) -> str:
    assert callable(of)
    found = inspect.signature(of)
    shown = [one for one in found.parameters.values() if one.name != "self"]
    parameters, kinds = [spelled(one) for one in shown], [one.kind for one in shown]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    end = "" if found.return_annotation is found.empty else f" -> {found.return_annotation}"
    whole = f"{name}({', '.join(parameters)}){end}"
    return (
        whole
        if len(whole) <= 100
        else f"{name}(\n{''.join(f'    {one},{chr(10)}' for one in parameters)}){end}"
    )


def members(of: type) -> Iterator[tuple[str, object]]:
    for name, member in vars(of).items():
        is_shown = name in MEMBERS.get(of.__name__, (name,)) and (name == "__call__" or name[0] != "_")
        if is_shown and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


def sections() -> Iterator[str]:
    yield HEAD
    for module, names in NAMES.items():
        home = import_module(module)
        yield f"\n## {module}\n"
        for name in names:
            one = getattr(home, name)
            yield f"\n### {module}.{name}\n\n"
            if not inspect.isclass(one):
                yield f"```python\n{signature(name, one)}\n```\n\n"
            yield f"{prose(one)}\n"
            for member, of in members(one) if inspect.isclass(one) else ():
                shown = member if isinstance(of, property) else signature(member, of)
                yield f"\n```python\n{shown}\n```\n\n{prose(of)}\n"


def test_the_page_has_what_signatures_and_docstrings_say(pytestconfig: pytest.Config) -> None:
    pytest.importorskip("torch", reason="the page has the interface for torch: pip install 'isamap[torch]'")
    pytest.importorskip("onnx", reason="the page has the interface for ONNX: pip install 'isamap[onnx]'")
    text = "".join(sections())
    if pytestconfig.getoption("update_snapshots"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text


def test_the_page_has_every_name_that_the_package_exports() -> None:
    import isamap

    assert {*NAMES["isamap"], "__version__"} == {*isamap.__all__}
