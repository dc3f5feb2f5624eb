"""Every reason for which an instruction does not perform a statement, in `refusals/`, word for word.

A file holds a kernel, a line `=== instruction` with a machine (of which the last instruction is the one that
is asked about), a line `=== refusal`, and what isamap says: the condition that failed, the places on both
sides, what would help, and the kernel after the fix. `pytest --snapshot-update` writes the last part anew;
review it like code.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from refusing import kernel, machine, rejection, said

from isamap.match import REASONS
from isamap.match.refusals import refuse, surroundings
from isamap.match.refusals.rejection import Failure
from isamap.source import read_codes
from isamap.source.codes import read_tables

FOLDER = Path(__file__).parent / "refusals"
FILES = sorted(FOLDER.glob("*.txt"))
INSTRUCTION = "=== instruction\n"
UNWRITTEN = "=== instruction without emission\n"
REFUSAL = "=== refusal\n"
FIXED = "=== fixed"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "refusals.md"


def parts(path: Path) -> tuple[str, str, bool, str]:
    text, _, expected = path.read_text(encoding="utf-8").partition(REFUSAL)
    emitted = UNWRITTEN not in text
    routine, _, instruction = text.partition(INSTRUCTION if emitted else UNWRITTEN)
    return routine, instruction, emitted, expected


def reason_of(path: Path) -> str:
    """Return what a file is about: its name up to `+`."""
    return path.stem.partition("+")[0]


SAID = {
    reason: "".join(parts(p)[3] for p in FILES if reason_of(p) == reason) for reason in map(reason_of, FILES)
}


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_an_instruction_is_refused_in_these_words(path: Path, pytestconfig: pytest.Config) -> None:
    routine, instruction, emitted, expected = parts(path)
    found = said(kernel(routine), machine(instruction, emitted=emitted))
    if pytestconfig.getoption("update_snapshots"):
        before = path.read_text(encoding="utf-8").partition(REFUSAL)[0]
        path.write_text(f"{before}{REFUSAL}{found}", encoding="utf-8")
        expected = found
    assert found == expected


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_a_file_is_named_after_its_reason(path: Path) -> None:
    routine, instruction, emitted, _ = parts(path)
    found = rejection(kernel(routine), machine(instruction, emitted=emitted))
    assert (found.reason if found is not None else "performed") == reason_of(path)


def test_every_reason_is_pinned_and_explained() -> None:
    assert len(REASONS) == len(set(REASONS)) >= 25
    assert [r for r in REASONS if r not in SAID] == ["not-counted"]  # in tests/unit/test_match_refuse.py
    assert [c for c in read_tables()["match"] if c in REASONS] == list(REASONS), "in one order"


def test_conditions_are_tried_in_the_order_of_their_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejections are sorted by the condition that fails. Advice of the last condition comes first."""
    refused: dict[str, int] = {}

    def recording(number: int, condition: Callable[..., Failure | None]) -> Callable[..., Failure | None]:
        def condition_(*given: object) -> Failure | None:
            cause = condition(*given)
            if cause is not None:
                refused[cause.reason] = number
            return cause

        return condition_

    table = (*refuse.CONDITIONS, *refuse.FURTHER, *surroundings.AROUND)
    numbers = {condition: number for number, condition in enumerate(dict.fromkeys(table))}
    for module, name in ((refuse, "CONDITIONS"), (refuse, "FURTHER"), (surroundings, "AROUND")):
        wrapped = tuple(recording(numbers[c], c) for c in getattr(module, name))
        monkeypatch.setattr(module, name, wrapped)
    for path in FILES:
        routine, instruction, emitted, _ = parts(path)
        rejection(kernel(routine), machine(instruction, emitted=emitted))
    assert set(refused) == set(SAID) - {"performed"}, "each reason is given by a condition of the tables"
    assert set(refused.values()) == set(numbers.values()), "each condition refuses something"
    # A product is refused as a whole before its tree is; parameters, where no precondition can ever be met.
    nearer = {"three-factors", "scale-misplaced", "precondition-unmeetable"}
    ranks = [refused[r] for r in REASONS if r in refused and r not in nearer]
    assert ranks == sorted(ranks)


def test_every_reason_has_a_fix_or_says_what_would_help() -> None:
    assert [r for r, text in SAID.items() if FIXED not in text and "edit: " not in text] == ["performed"]


def test_the_page_of_reasons_says_what_helps() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert rows == [f"| `{r}` | {read_codes()[r].title} | {_helps(SAID.get(r, ''))} |" for r in REASONS]


def _helps(text: str) -> str:
    if f"{FIXED}, the same result" in text:
        return "an edit"
    return "an edit; changes the result" if FIXED in text else "explained"
