"""Texts beyond the limits are refused quickly, and no text is answered by a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isamap.ir import dependences
from isamap.source import Diagnostic, IsamapError, Source, Span, SyntaxProblem, TypeProblem
from isamap.syntax import parse_kernel, parse_module
from isamap.syntax.parser import format_source

KERNEL = "kernel {name}(M) {{ inout C: f32[M]; for i in M {{ C[i] = 0; }} }}\n"


def test_a_text_above_one_megabyte_is_refused() -> None:
    assert code_of("#" + "x" * 1_000_000) == "text-too-large"
    assert code_of("#" + "é" * 600_000) == "text-too-large"


@pytest.mark.parametrize("bracket", ["(", "-", "~", "1+", "1*(", "max(1,"])
def test_deep_nesting_is_refused(bracket: str) -> None:
    opened = bracket.count("(")
    text = "kernel k(M) { inout C: f32[M]; C[0] = " + bracket * 5000 + "1" + ")" * (5000 * opened) + "; }"
    assert code_of(text) == "nested-too-deeply"


def test_deeply_nested_loops_are_refused() -> None:
    body = "".join(f"for i{n} in 2 {{" for n in range(250)) + "C = 0;" + "}" * 250
    assert code_of(f"kernel k(M) {{ inout C: f32; {body} }}") == "nested-too-deeply"


def test_nesting_within_the_limit_is_fine() -> None:
    depth = 150
    text = "kernel k() { inout C: f32; C = " + "(" * depth + "1" + ")" * depth + " + " + "-" * 90 + "C; }"
    assert parse_kernel(Source("deep.ir", text)).name == "k"


@pytest.mark.parametrize("number", ["9" * 30, "1e400", "0x" + "f" * 40])
def test_enormous_numbers_are_refused_or_held(number: str) -> None:
    assert code_of(f"kernel k(M) {{ inout C: f32[M]; C[{number}] = 0; }}") in (
        "number-too-large",
        "not-an-index",
    )
    assert code_of(f"kernel k() {{ out C: f32; C = {number}{number}; }}") in (
        "literal-out-of-range",
        "syntax-error",
    )


@pytest.mark.parametrize("count", [1001, 4301, 100_000])
@pytest.mark.parametrize("place", ["f32[M + {}]", "f32[{}]", "f32"])
def test_a_number_of_thousands_of_digits_is_refused_at_its_place(place: str, count: int) -> None:
    shape, value = (place.format("9" * count), "1") if "{" in place else ("f32[M]", "9" * count)
    assert (
        code_of(f"kernel k(M) {{ inout C: {shape}; for m in M {{ C[m] += {value}; }} }}")
        == "number-too-large"
    )


def test_numbers_that_grow_while_they_are_multiplied_are_refused() -> None:
    product = "*".join(["9223372036854775807"] * 100)
    assert code_of(f"kernel k(M) {{ inout C: f32[M + {product}]; C[0] = 1; }}") == "number-too-large"


def test_no_control_character_is_rendered() -> None:
    unsafe = [
        *map(chr, range(9)),
        "\x0b",
        "\r",
        "\x1b",
        "\x7f",
        "\x9b",
        "\u202e",
        "\u2066",
        "\u2028",
        "\udc80",
    ]
    for character in unsafe:
        source = Source(f"a{character}b.ir", f"x {character} y # {character}")
        span = Span(source, 4, 5)
        found = Diagnostic("x", character, span, notes=(character,), help=character).render()
        assert not set(found) & set(unsafe)
        assert found.splitlines()[2].index("^") == found.splitlines()[1].index("y")
        json.dumps(found).encode()


def test_the_kernel_is_the_only_one_or_the_named_one() -> None:
    two = Source("two.ir", KERNEL.format(name="a") + KERNEL.format(name="b"))
    assert parse_kernel(two, "b").name == "b"
    with pytest.raises(TypeProblem) as ambiguous:
        parse_kernel(two)
    assert ambiguous.value.diagnostics[0].code == "kernel-ambiguous"
    with pytest.raises(TypeProblem) as missing:
        parse_kernel(two, "c")
    assert missing.value.diagnostics[0].code == "kernel-missing"
    with pytest.raises(TypeProblem):
        parse_kernel(Source("empty.ir", ""))


_TEXT = """
kernel instruction memory in out inout temp for seq if else let where ( ) [ ] { } ; : , = += == < + - * / %
A B M i f32 i8 1 0 2.5 @ mem placed at strides any accumulate outside zero requires sets view of inf
"""
_WORDS = st.sampled_from(_TEXT.split())


@given(st.lists(_WORDS, max_size=60).map(" ".join) | st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_diagnostic(text: str) -> None:
    for read in (parse_module, format_source):
        findings = diagnostics_of(read, text)
        assert all(d.code and d.message and d.render() for d in findings)


@given(st.data())
def test_a_kernel_with_a_piece_cut_out_is_read_or_refused(data: st.DataObject) -> None:
    text = (
        "kernel conv(H, R, s: 1..4 = 1, pad: 0..8 = 0) where R <= H + 2*pad {\n"
        "  let P = (H + 2*pad - R) / s + 1;\n  in X: f32[H]; in F: f32[R]; inout Y: f32[P];\n"
        "  for p in P, r in R { Y[p] += (X[p*s + r - pad] else 0) * F[r]; }\n}\n"
    )
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    assert all(d.render() for d in diagnostics_of(parse_module, text[:start] + text[end:]))


def test_accesses_are_compared_in_a_bounded_number_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependences, "MAX_PAIRS", 50)
    several = "".join(f"C[16*m + {n}] = 0.0; " for n in range(12))
    text = f"kernel k(M) {{ inout C: f32[16*M]; for m in M {{ {several} }} }}"
    assert code_of(text) == "too-many-accesses"
    monkeypatch.undo()
    assert diagnostics_of(parse_module, text) == ()


def test_the_ground_floor_imports_no_parser() -> None:
    script = "import sys, isamap.source, isamap; print('lark' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def diagnostics_of(read: Callable[[Source], object], text: str) -> tuple[Diagnostic, ...]:
    """Return the findings about a text; nothing else than an IsamapError may come out."""
    try:
        read(Source("any.ir", text))
    except IsamapError as error:
        return error.diagnostics
    return ()


def code_of(text: str) -> str:
    with pytest.raises((SyntaxProblem, TypeProblem)) as found:
        parse_module(Source("limit.ir", text))
    return found.value.diagnostics[0].code
