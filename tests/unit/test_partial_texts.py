"""A text that is being written is seldom right: the language server answers, wherever it breaks off."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from isamap.kernels import kernel_path
from isamap.lsp.analysis import analyse
from isamap.lsp.server import complete, layout_edits
from isamap.machine.templates import begin
from isamap.source import Source

TEXTS = {
    "conv.ir": kernel_path("conv2d_nchw").read_text(encoding="utf-8"),
    "mine.yaml": begin("mine", "matrix", {}),
}
SIGNS = "{}[]():;@$#|-\n \t\"'0aA,=&*"


def broken(text: str, random: Random) -> tuple[str, int]:
    """Return a text that breaks off, or lacks something, or has a sign too many; and where."""
    at = random.randrange(len(text))
    end = random.choice((len(text), at + random.randrange(20), at))
    return text[:at] + (random.choice(SIGNS) if end == at else "") + text[end:], at


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(12, 48))]
)
def test_a_broken_text_is_answered(name: str, seed: int) -> None:
    text, at = broken(TEXTS[name], Random(f"{name} {seed}"))
    found = analyse(Source(name, text), Path(name))
    for finding in found.findings:
        assert finding.render()
    for word in complete(found, at):
        assert word.label
    for edit in layout_edits(found):
        assert edit.span.text.split() != [] or edit.replacement
