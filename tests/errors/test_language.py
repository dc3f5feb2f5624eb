"""Every wrong text in `language/` with the findings that it gives, word for word.

A file holds the text, a line `=== findings`, and what isamap says. `pytest --snapshot-update` writes the
second part anew; review it like code.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import elide_shipped

from isamap.ir import DTYPES, OPS, Instruction, Kernel, Range, bind
from isamap.source import IsamapError, Source
from isamap.source.codes import read_tables
from isamap.syntax import parse_module
from isamap.syntax.hints import read_other_languages

FOLDER = Path(__file__).parent / "language"
FILES = sorted(FOLDER.glob("*.txt"))
SEPARATOR = "=== findings\n"
SIZES = "=== sizes "


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_a_wrong_text_is_refused_in_these_words(path: Path, pytestconfig: pytest.Config) -> None:
    text, _, expected = path.read_text(encoding="utf-8").partition(SEPARATOR)
    found = findings(text)
    if pytestconfig.getoption("update_snapshots"):
        path.write_text(f"{text}{SEPARATOR}{found}", encoding="utf-8")
        expected = found
    assert found == expected


def test_there_are_enough_wrong_texts() -> None:
    assert len(FILES) >= 60


def test_every_code_of_the_language_is_pinned() -> None:
    pinned = "".join(p.read_text(encoding="utf-8").partition(SEPARATOR)[2] for p in FILES)
    exempt = {"text-too-large", "kernel-missing", "kernel-ambiguous"}  # tested in test_syntax_limits
    raised = [
        code
        for code, explanation in read_tables()["language"].items()
        if explanation.example or "size" in code
    ]
    assert [code for code in raised if f"[{code}]" not in pinned and code not in exempt] == []


def findings(text: str) -> str:
    """Return what isamap says about a text; with `=== sizes M=0 N=1..8@4` below it, its kernel is bound as well."""
    body, _, sizes = text.partition(SIZES)
    try:
        module = parse_module(Source("wrong.ir", body))
        routine = next(d for d in module.declarations if isinstance(d, Kernel | Instruction))
        bind(routine, dict(_size(word) for word in sizes.split()))
    except IsamapError as error:
        return f"{type(error).__name__}, exit {error.exit_code}\n{elide_shipped(error.render())}\n"
    return "nothing\n"


def _size(word: str) -> tuple[str, int | Range]:
    name, _, value = word.partition("=")
    low, dots, rest = value.partition("..")
    if not dots:
        return name, int(value)
    high, _, profile = rest.partition("@")
    return name, Range(int(low), int(high), int(profile) if profile else None)


def test_an_unknown_function_lists_all_that_there_are() -> None:
    with pytest.raises(IsamapError) as raised:
        parse_module(Source("wrong.ir", "kernel k(M) { inout C: f32[M]; for i in M { C[i] = sqt(C[i]); } }"))
    (note,) = raised.value.diagnostics[0].notes
    functions = {op.name for op in OPS.values() if op.spelling is None}
    assert {*functions, *DTYPES} <= {*note.removeprefix("known: ").split(", ")}


HEAD = "kernel k(M, N) { in A: f32[M, N]; out C: f32[M]; "
OTHERS = {
    "kernel k(size M, size N) { out C: f32[M]; }": "sizes have no type",
    "kernel k(M, int N) { out C: f32[M]; }": "sizes have no type",
    "kernel k(M: size) { out C: f32[M]; }": "write the name alone",
    "kernel k(A: f32[M, N], C: f32[M]) { }": "tensors are declared in the body",
    "kernel k(int M, float *A) { }": "sizes have no type",
    "kernel k(float *A, int M) { }": "tensors are declared in the body",
    "kernel k<M, N> { }": "sizes stand in parentheses",
    "kernel k(M) -> (C: f32[M]) { }": "results are declared in the body",
    "kernel k(M): { }": "results are declared in the body",
    "void k(int M, float *A) { }": "a text has kernels",
    "def k(A, B):\n    return A @ B": "a text has kernels",
    "func.func @k(%A: memref<64xf32>) { return }": "a text has kernels",
    "kernel k(M, N) { in float A[M][N]; }": "the type follows the name",
    "memory dram: addressable;": "a kind of memory has parentheses",
    "kernel k(M, N) { in A: f32[M][N]; }": "subscripts are separated by commas",
    "kernel k(M, N) { in A: f32[M], B: f32[N]; }": "a declaration has one name",
    "kernel k(M, N) { in A: tensor<f32>[M]; }": "a tensor's type has its sizes in brackets",
    "kernel k(M, N) { input A: f32[M, N]; }": "tensors are declared by `in`",
    f"{HEAD}for m in range(M) {{ C[m] = 0; }} }}": "write `for m in M`",
    f"{HEAD}for (m = 0; m < M; m++) {{ C[m] = 0; }} }}": "a loop has a name and a number of iterations",
    f"{HEAD}for m in M: C[m] = 0; }}": "write the body of a loop in braces",
    f"{HEAD}for m in M {{ C[m] = A[m][0]; }} }}": "subscripts are separated by commas",
    f"{HEAD}parallel for m in M {{ C[m] = 0; }} }}": "write `for`: isamap chooses the schedule",
    f"{HEAD}while true {{ }} }}": "write `for m in M { … }`",
    f"{HEAD}var x: f32 = 0; }}": "a value in between is a `temp` tensor",
    f"{HEAD}const float x = 0; }}": "a value in between is a `temp` tensor",
    f"{HEAD}for m in M {{ float x = A[m, 0]; C[m] = x; }} }}": "a value in between is a `temp` tensor",
    f"{HEAD}for m in M {{ C[m] = (float)A[m, 0]; }} }}": "a conversion is a call",
    f"{HEAD}for m in M {{ C[m] = sum(A[m, n] for n in N); }} }}": "a sum is a loop",
    f"{HEAD}for m in M {{ C[m] = 0; }} return C; }}": "a kernel returns nothing",
}


def test_constructs_of_other_languages_are_answered_by_those_of_this_one() -> None:
    found = {text: findings(text) for text in OTHERS}
    assert {text: said for text, said in found.items() if f"help: {OTHERS[text]}" not in said} == {}
    known = [construct["advice"] for construct in read_other_languages().constructs]
    used = {advice for advice in known if any(advice in said for said in found.values())}
    assert [advice for advice in known if advice not in used] == []


def test_a_long_comment_before_a_wrong_word_does_not_hold_the_answer_up() -> None:
    """Some patterns of other languages take the square of the time: the text around the word is bounded."""
    text = f"kernel k(M) {{ in A: f32[M]; out B: f32[M];\n# {'in x ' * 190_000}\nfor for i in M {{ B[i] = A[i]; }} }}"
    with pytest.raises(IsamapError) as caught:
        parse_module(Source("wrong.ir", text))
    assert caught.value.diagnostics[0].code == "syntax-error"
