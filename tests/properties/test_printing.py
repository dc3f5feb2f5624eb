"""Parsing what is printed gives the same routine; laying a text out twice changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from properties.routines import kernels

from isamap.ir import Kernel, Module, layout, print_routine
from isamap.source import Source
from isamap.syntax.declarations import resolve_module
from isamap.syntax.parser import format_source
from isamap.syntax.scope import TextFindings
from isamap.syntax.tree_builder import parse_declarations


@given(kernels())
def test_parsing_a_printed_kernel_gives_it_back(kernel: Kernel) -> None:
    text = print_routine(kernel)
    assert resolved(text) == Module((kernel,)), text


@given(kernels())
def test_formatting_a_printed_kernel_changes_nothing(kernel: Kernel) -> None:
    text = print_routine(kernel)
    assert format_source(Source("printed.ir", text)) == text


@given(st.text(alphabet="ab1 \n#;{}()[]+*-=<>.,:@/|&^~%_", max_size=80) | st.text(max_size=40))
def test_laying_any_text_out_twice_changes_nothing(text: str) -> None:
    once = layout(text)
    assert layout(once) == once


@given(kernels())
def test_formatting_keeps_the_meaning_and_comments_of_any_spacing(kernel: Kernel) -> None:
    text = print_routine(kernel)
    ragged = text.replace(";", " ;# note\n\n\n").replace(",", "\n,  ").replace("{", "{   ")
    formatted = format_source(Source("ragged.ir", ragged))
    assert resolved(formatted) == Module((kernel,))
    assert formatted.count("# note") == ragged.count("# note")
    assert format_source(Source("formatted.ir", formatted)) == formatted


def resolved(text: str) -> Module:
    """Return the module of a text, typed but not verified: generated subscripts leave their operands."""
    findings = TextFindings()
    module = resolve_module(parse_declarations(Source("printed.ir", text)), Module(()), findings)
    findings.raise_any()
    return module
