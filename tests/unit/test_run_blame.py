"""A compiler's message leads back to the instruction whose emission it is about, and to its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isamap.machine import Machine, load_machine, missing_features
from isamap.run.blame import Emissions, find_refused_emissions
from isamap.run.conformance import check_machine
from isamap.run.toolchain import CompilerRefused, find_compiler
from isamap.source import Diagnostic

TEXT = """\
isamap: 1
name: vectors
summary: a unit of vectors alone
sources: {here: "this test"}
target:
  {toolchains: [gcc, clang, zig], flags: [-O2, -mavx2], headers: [immintrin.h], features: [avx2], run: native}
clock_ghz: 1
language: |
  memory mem: addressable();
  memory ymm: registers(count = 16, bytes = 32, named = compiler);
memories: {mem: {source: here}, ymm: {c_types: {f32: __m256, default: __m256i}, source: here}}
units: {port: {count: 2}}
instructions:
  - for: [{NAME: load_f32, T: f32, N: 8, F: loadu_ps, C: float},
          {NAME: load_i32, T: i32, N: 8, F: loadu_si256, C: __m256i},
          {NAME: load_i8, T: i8, N: 32, F: loadu_si256, C: __m256i}]
    semantics: |
      instruction $NAME() {
        in a: $T[$N] @ mem;
        out z: $T[$N] @ ymm;
        for i in $N { z[i] = a[i]; }
      }
    emit: z = _mm256_$F(($C const *) a.addr)
    cost: {unit: port, interval_cycles: 1, latency_cycles: 5}
    source: here
  - semantics: |
      instruction add_f32() {
        in a: f32[8] @ ymm;
        in b: f32[8] @ ymm;
        out z: f32[8] @ ymm;
        for i in 8 { z[i] = a[i] + b[i]; }
      }
    emit: z = _mm256_ad_ps(a, b)
    cost: {unit: port, interval_cycles: 1, latency_cycles: 4}
    source: here
  - semantics: |
      instruction store_f32() {
        in a: f32[8] @ ymm;
        out z: f32[8] @ mem;
        for i in 8 { z[i] = a[i]; }
      }
    emit: _mm256_storeu_ps(z.addr, a)
    cost: {unit: port, interval_cycles: 1, latency_cycles: 5}
    source: here
"""

C = """\
#include <immintrin.h>
void check_3(unsigned char *const *data, const int64_t *numbers) {
  __m256i z;
  z = _mm256_loadu_si256(p);
}
void check_7(unsigned char *const *data, const int64_t *numbers) {
  v0 = _mm256_ad_ps(v1, v2);
}
"""
FILES = {"k.c": C}
UNDECLARED = "k.c:7:8: error: implicit declaration of function '_mm256_ad_ps'"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    path = tmp_path / "vectors.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return load_machine(str(path))


def only(says: str, emissions: Emissions) -> Diagnostic:
    (found,) = find_refused_emissions("gcc", says, FILES, emissions)
    return found


def test_a_function_that_is_named_leads_to_its_emission(machine: Machine) -> None:
    said = f"{UNDECLARED}; did you mean '_mm256_add_ps'? [-Werror=implicit-function-declaration]"
    found = only(f"k.c: In function 'check_7':\n{said}\n    7 |   v0 = …", Emissions(machine))
    assert found.code == "compiler-refused"
    assert found.message == "gcc does not accept the emission of `add_f32`"
    assert found.span is not None
    assert found.span.text == "_mm256_ad_ps"
    assert str(found.span).endswith(
        f"vectors.yaml:{TEXT[: TEXT.index('_mm256_ad_ps')].count(chr(10)) + 1}:15"
    )
    assert found.notes == (said,)
    assert found.help == "did you mean `_mm256_add_ps`?", "what the compiler proposes"


@pytest.mark.parametrize(
    ("misspelt", "advice"),
    [
        ("_mm256_stoeu_ps", "did you mean `_mm256_storeu_ps`?"),
        (
            "_mm256_unheard_of",
            "look its name up in the headers of the target, and whether its flags allow it: -O2 -mavx2",
        ),
    ],
)
def test_the_nearest_function_of_the_description_is_proposed(
    misspelt: str, advice: str, tmp_path: Path
) -> None:
    path = tmp_path / "vectors.yaml"
    path.write_text(TEXT.replace("_mm256_ad_ps", misspelt), encoding="utf-8")
    said = f"k.c:7:8: error: call to undeclared function '{misspelt}'"
    assert only(said, Emissions(load_machine(str(path)))).help == advice


def test_a_message_that_names_no_function_is_about_its_line(machine: Machine) -> None:
    said = "k.c:4:5: error: incompatible types when assigning to type '__m256i' from type 'int'"
    found = only(said, Emissions(machine))
    assert found.message == "gcc does not accept the emission of `load_i32`"
    assert found.notes == (said, "`_mm256_loadu_si256` is also called by load_i8")
    assert found.help == (
        "compare the call with the declaration of `_mm256_loadu_si256`, and with the `c_types` of ymm"
    )


def test_the_function_that_a_line_stands_in_tells_instructions_of_one_call_apart(machine: Machine) -> None:
    said = "k.c:4:5: error: incompatible types when assigning to type '__m256i' from type 'int'"
    found = only(said, Emissions(machine, {"check_3": "load_i8", "check_7": "load_i32"}))
    assert found.message == "gcc does not accept the emission of `load_i8`"
    assert found.notes == (said,)


def test_a_missing_flag_is_told_of_a_compilers_own_header(machine: Machine) -> None:
    said = (
        "/usr/include/avxintrin.h:63:1: error: inlining failed in call to 'always_inline' "
        "'_mm256_storeu_ps': target specific option mismatch"
    )
    assert only(said, Emissions(machine)).help == (
        "add the instruction set of `_mm256_storeu_ps` to `target.flags`, which are -O2 -mavx2"
    )


@pytest.mark.parametrize(
    "said",
    [
        "k.c:7:24: error: implicit declaration of function '_mm256_mul_ps'; did you mean '_mm256_mult_ps'?",
        "/usr/include/avxintrin.h:63:1: error: inlining failed in call to 'always_inline' '_mm256_mul_ps'",
    ],
)
def test_a_function_whose_call_is_an_argument_is_shown_itself(said: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.yaml"
    path.write_text(TEXT.replace("_mm256_ad_ps(a, b)", "_mm256_add_ps(_mm256_mul_ps(a, b), b)"), "utf-8")
    found = only(said, Emissions(load_machine(str(path))))
    assert found.message == "gcc does not accept the emission of `add_f32`"
    assert found.span is not None
    assert found.span.text == "_mm256_mul_ps"


def test_each_instruction_is_told_once(machine: Machine) -> None:
    says = f"{UNDECLARED}\nk.c:7:6: error: incompatible types\nk.c:4:5: error: incompatible types\nk.c: note"
    found = find_refused_emissions("gcc", says, FILES, Emissions(machine))
    assert [d.notes[0] for d in found] == [UNDECLARED, "k.c:4:5: error: incompatible types"]


@pytest.mark.parametrize(
    "says", ["", "ld: error: no such file", "k.c:1:1: error: stray '@'", "k.c:99:1: error: stray '@'"]
)
def test_no_instruction_is_blamed_for_what_is_about_no_emission(says: str, machine: Machine) -> None:
    assert find_refused_emissions("gcc", says, FILES, Emissions(machine)) == ()


@pytest.mark.hardware
@pytest.mark.parametrize(
    ("right", "wrong"), [("_mm256_storeu_ps", "_mm256_storu_ps"), ("_mm256_ad_ps", "_mm256_ads_ps")]
)
def test_the_compiler_of_this_computer_is_understood(right: str, wrong: str, tmp_path: Path) -> None:
    from isamap.run.conformance import check_machine

    path = tmp_path / "vectors.yaml"
    fine = TEXT.replace("_mm256_ad_ps", "_mm256_add_ps")
    path.write_text(fine.replace(right.replace("_ad_", "_add_"), wrong), encoding="utf-8")
    machine = load_machine(str(path))
    if missing := missing_features(machine):
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    with pytest.raises(CompilerRefused) as found:
        check_machine(machine)
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.span is not None
    assert diagnostic.span.text == wrong
    assert f"'{wrong}'" in diagnostic.notes[0]
    if find_compiler(machine.target.flags).name == "gcc":  # others propose nothing
        assert diagnostic.help == f"did you mean `{right.replace('_ad_', '_add_')}`?"


def test_an_instruction_at_which_a_compiler_fails_without_a_place_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where it ends by a signal while it makes code: halves of all instructions are tried."""
    asked: list[int] = []

    def build(*given: Any) -> Path:
        text = given[2]["check.c"]
        asked.append(text.count("void check_"))
        if "sqrtf(" in text:
            raise CompilerRefused(
                Diagnostic("compiler-refused", "cc does not accept check.c", notes=("139",))
            )
        return Path("library.so")

    monkeypatch.setattr("isamap.run.toolchain.build", build)
    machine = load_machine("generic-c")
    with pytest.raises(CompilerRefused) as found:
        check_machine(machine, ["add_f32", "mul_f32", "sqrt_f32", "sub_f32", "div_f32"])
    (told,) = found.value.diagnostics
    assert told.message == "cc does not accept check.c: `sqrt_f32` alone is too much"
    assert told.span == machine.instructions["sqrt_f32"].span
    assert told.notes == ("139",)
    assert told.help == "say it in other functions, or leave it out: the compiler may be wrong"
    assert asked[0] == 5
    assert asked[-1] == 1
