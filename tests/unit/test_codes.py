"""Every code that is raised is explained, and every example of an explanation is refused with its code."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from isamap.kernels import list_kernels
from isamap.machine import list_machines
from isamap.source import IsamapError, Source, read_codes
from isamap.source.codes import read_tables
from isamap.syntax import parse_module

ROOT = Path(__file__).resolve().parents[2]
LANGUAGE = [p for folder in ("ir", "syntax") for p in sorted((ROOT / "isamap" / folder).glob("*.py"))]
RAISED = re.compile(r'(?:problem|unknown|Diagnostic|_refuse|\.of)\(\s*f?"([a-z]+(?:-[a-z]+)+)"')
EXAMPLES = {code: e.example for code, e in read_codes().items() if e.example}


@pytest.mark.parametrize("path", LANGUAGE, ids=[p.stem for p in LANGUAGE])
def test_every_raised_code_is_explained(path: Path) -> None:
    raised = set(RAISED.findall(path.read_text(encoding="utf-8")))
    assert sorted(raised - read_codes().keys()) == []


def test_codes_are_words_in_order() -> None:
    assert list(read_codes()) == sorted(read_codes())
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in read_codes())


def test_each_entry_of_a_table_has_a_title_and_a_text_and_no_unknown_key() -> None:
    files = sorted((ROOT / "isamap" / "source").glob("*_codes.toml"))
    wrong = [
        f"{path.name}: {code}"
        for path in files
        for code, entry in tomllib.loads(path.read_text(encoding="utf-8")).items()
        if not {"title", "text"} <= entry.keys() <= {"title", "text", "example"}
        or not all(isinstance(value, str) and value.strip() == value != "" for value in entry.values())
        or entry["title"].endswith(".")
        or not entry["text"].endswith((".", "}"))
    ]
    assert wrong == []
    assert [f"{name}_codes.toml" for name in sorted(read_tables())] == [path.name for path in files]


def test_no_code_stands_in_two_tables() -> None:
    counts = Counter(code for table in read_tables().values() for code in table)
    assert [code for code, count in counts.items() if count > 1] == []


def test_no_error_lists_what_is_shipped() -> None:
    """Else each new machine or kernel changes the texts of errors, and readers skip the long ones."""
    shipped = {*list_machines(), *list_kernels()}
    lists = [
        f"{path.name}: {line.strip()}"
        for path in sorted((ROOT / "tests" / "errors").glob("*/*.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith(("  note: ", "  help: ")) and len(shipped & set(re.findall(r"[\w-]+", line))) > 3
    ]
    assert lists == []


def test_a_command_that_explains_nothing_reads_no_table() -> None:
    program = "import sys, isamap.cli, isamap.source; sys.exit('tomllib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(("code", "example"), EXAMPLES.items(), ids=EXAMPLES.keys())
def test_an_example_is_refused_with_its_code(code: str, example: str) -> None:
    with pytest.raises(IsamapError) as found:
        parse_module(Source("example", example))
    assert [d.code for d in found.value.diagnostics] == [code]
