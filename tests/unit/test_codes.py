"""Every code that is raised is explained, and every example of an explanation is refused with its code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isamap.source import CODES, IsamapError, Source
from isamap.syntax import parse_module

ROOT = Path(__file__).resolve().parents[2]
LANGUAGE = [p for folder in ("ir", "syntax") for p in sorted((ROOT / "isamap" / folder).glob("*.py"))]
RAISED = re.compile(r'(?:problem|unknown|Diagnostic|_refuse)\(\s*f?"([a-z]+(?:-[a-z]+)+)"')
EXAMPLES = {code: e.example for code, e in CODES.items() if e.example}


@pytest.mark.parametrize("path", LANGUAGE, ids=[p.stem for p in LANGUAGE])
def test_every_raised_code_is_explained(path: Path) -> None:
    raised = set(RAISED.findall(path.read_text(encoding="utf-8")))
    assert sorted(raised - CODES.keys()) == []


def test_codes_are_words_in_order() -> None:
    assert list(CODES) == sorted(CODES)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in CODES)


@pytest.mark.parametrize(("code", "example"), EXAMPLES.items(), ids=EXAMPLES.keys())
def test_an_example_is_refused_with_its_code(code: str, example: str) -> None:
    with pytest.raises(IsamapError) as found:
        parse_module(Source("example", example))
    assert [d.code for d in found.value.diagnostics] == [code]
