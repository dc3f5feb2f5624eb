"""Machines are read whole: text beside numbers, families, parents; any input gives a machine or findings."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from isamap.hw_specs import machine_path
from isamap.ir import Instruction, MemoryDecl
from isamap.machine import (
    EmitArg,
    EmitCall,
    EmitSemantics,
    Machine,
    cost_value,
    list_machines,
    load_machine,
    machine_digest,
)
from isamap.source import IsamapError, SpecProblem, UsageProblem

HEAD = "isamap: 1\nname: {name}\nsummary: one of the tests\nextends: {parent}\nsources: {{t: the test}}\n"

VECTORS = """
target: {headers: [immintrin.h], flags: [-mavx2], features: [avx2], permissions: [amx_tile_data]}
language: |
  memory ymm: registers(count = 16, bytes = 32, named = compiler);
  view xmm of ymm: registers(count = 16, bytes = 16, named = compiler);
memories: {ymm: {c_types: {f32: __m256, f64: __m256d}}}
units: {fma: {count: 2}}
instructions:
  - for: [{T: f32, N: 8, P: ps}, {T: f64, N: 4, P: pd}]
    semantics: |
      instruction masked_$P(scalar L: 1..$N) {
        in a: $T[L] @ mem;
        out z: $T[$N] @ ymm outside zero;
        for i in L { z[i] = a[i]; }
      }
    emit: z = (__m256) _mm256_maskload_$P((float const *) a.addr, (__m256i) L.mask)
    cost: {unit: fma, interval_cycles: 0.5 * L + $N, latency_ns: "max(3, L)"}
    source: t
"""


def write(folder: Path, name: str, body: str, parent: str = "generic-c") -> str:
    path = folder / f"{name}.yaml"
    path.write_text(HEAD.format(name=name, parent=parent) + body, encoding="utf-8")
    return str(path)


@pytest.fixture
def vectors(tmp_path: Path) -> Machine:
    return load_machine(write(tmp_path, "vectors", VECTORS))


@pytest.mark.parametrize("name", list_machines())
def test_shipped_machines_are_fine(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == machine.chain[0] == name
    assert machine.digest == machine_digest(name)
    assert all(i.source in machine.sources for i in machine.instructions.values())
    assert all(i.cost.unit in machine.units for i in machine.instructions.values())
    known = machine.memories.keys()
    assert {o.memory for i in machine.instructions.values() for o in i.instruction.operands} <= known


def test_the_scalar_machine_has_what_kernels_need() -> None:
    machine = load_machine("generic-c")
    assert machine.memories["mem"].kind == "addressable"
    assert machine.memories["reg"].named == "compiler"
    assert machine.memories["reg"].c_type("f32") == "float"
    assert machine.memories["l1"].capacity_bytes == 32768
    assert (machine.links[0].source_memory, machine.links[0].target_memory) == ("mem", "l3")
    for name in (
        "mac_f32",
        "mac_bf16_bf16_f32",
        "load_bf16",
        "store_f32",
        "set_f32",
        "sat_i32_i8",
        "select_f32",
    ):
        assert machine.instructions[name].emit == EmitSemantics()


def test_a_family_has_a_member_for_each_row(vectors: Machine) -> None:
    ps, pd = (vectors.instructions[f"masked_{p}"] for p in ("ps", "pd"))
    assert isinstance(ps.instruction, Instruction)
    assert [str(o.dtype) for i in (ps, pd) for o in i.instruction.operands] == ["f32", "f32", "f64", "f64"]
    assert pd.instruction.operand("z").shape[0].value == 4
    assert ps.emit == EmitCall(
        "z",
        "__m256",
        "_mm256_maskload_ps",
        (EmitArg("operand", "a", "addr", "float const *"), EmitArg("param", "L", "mask", "__m256i")),
    )
    assert str(pd.emit) == "z = (__m256) _mm256_maskload_pd((float const *) a.addr, (__m256i) L.mask)"


def test_costs_are_expressions_of_the_parameters(vectors: Machine) -> None:
    cost = vectors.instructions["masked_ps"].cost
    assert cost_value(cost.interval_ns, {"L": 4}) == pytest.approx((0.5 * 4 + 8) / 3.0)  # 3 GHz
    assert cost_value(cost.latency_ns, {"L": 2}) == 3
    assert cost_value(cost.latency_ns, {"L": 7}) == 7


def test_a_child_adds_and_replaces(tmp_path: Path) -> None:
    write(tmp_path, "vectors", VECTORS)
    body = """
target: {flags: [-mavx512f], features: [avx512f], toolchains: [gcc]}
clock_ghz: 2
language: |
  memory zmm: registers(count = 32, bytes = 64, named = compiler);
  view ymm of zmm: registers(count = 32, bytes = 32, named = compiler);
memories: {ymm: {c_types: {i32: __m256i}}}
units: {fma: {count: 1}}
remove: [masked_pd]
instructions:
  - semantics: |
      instruction mac_f32() {
        inout c: f32 @ reg;
        in a: f32 @ reg;
        in b: f32 @ reg;
        c += a * b;
      }
    emit: c = fmaf(a, b, c)
    cost: {unit: fma, interval_cycles: 1, latency_cycles: 4}
    source: t
"""
    machine = load_machine(write(tmp_path, "wide", body, parent="vectors.yaml"))
    assert machine.chain == ("wide", "vectors", "generic-c")
    assert machine.target.flags == ("-O3", "-std=c11", "-mavx2", "-mavx512f")
    assert machine.target.toolchains == ("gcc",)
    assert machine.target.permissions == ("amx_tile_data",)
    assert machine.memories["ymm"].base == "zmm"
    assert machine.memories["ymm"].count == 32
    assert machine.memories["ymm"].c_types == {"f32": "__m256", "f64": "__m256d", "i32": "__m256i"}
    assert "masked_pd" not in machine.instructions
    assert str(machine.instructions["mac_f32"].emit) == "c = fmaf(a, b, c)"
    assert machine.units["fma"].count == 1
    # Inherited costs in cycles follow the clock of the machine that is loaded.
    assert cost_value(machine.instructions["load_f32"].cost.interval_ns, {}) == 0.5
    assert cost_value(
        load_machine("generic-c").instructions["load_f32"].cost.interval_ns, {}
    ) == pytest.approx(1 / 3)


def test_spans_of_instructions_point_into_the_file(vectors: Machine, tmp_path: Path) -> None:
    span = vectors.instructions["masked_pd"].span
    assert span is not None
    assert str(span) == f"{tmp_path}/vectors.yaml:{span.line}:7"
    assert span.text.startswith("instruction masked_$P(scalar L")


def test_the_digest_is_that_of_all_texts(tmp_path: Path) -> None:
    write(tmp_path, "vectors", VECTORS)
    child = write(tmp_path, "wide", "", parent="vectors.yaml")
    before = load_machine(child).digest
    write(tmp_path, "vectors", VECTORS + "# a comment\n")
    assert load_machine(child).digest == machine_digest(child) != before


def test_the_same_texts_are_the_same_machine(tmp_path: Path) -> None:
    copy = tmp_path / "dot-16.yaml"
    shipped = machine_path("dot-16").read_text(encoding="utf-8")
    copy.write_text(shipped, encoding="utf-8")
    once = load_machine(str(copy))
    assert load_machine(str(copy)) is once
    copy.write_text(shipped + "\n# changed\n", encoding="utf-8")
    assert load_machine(str(copy)) is not once


def test_a_view_and_memory_decls_are_ir(vectors: Machine) -> None:
    assert isinstance(vectors.memories["xmm"].decl, MemoryDecl)
    assert (vectors.memories["xmm"].base, vectors.memories["xmm"].capacity_bytes) == ("ymm", 256)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("x86-avx3", "unknown-machine"),
        ("../generic-c", "unknown-machine"),
        ("missing.yaml", "file-unreadable"),
        (".yaml", "unknown-machine"),
        ("", "unknown-machine"),
        ("a\0.yaml", "file-unreadable"),
    ],
)
def test_names_that_do_not_exist_are_refused(name: str, code: str) -> None:
    with pytest.raises(UsageProblem) as found:
        load_machine(name)
    assert found.value.diagnostics[0].code == code


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_text("isamap: 1\nname: outside\nsummary: x\n", encoding="utf-8")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "parent.yaml").symlink_to(tmp_path / "outside.yaml")
    with pytest.raises(SpecProblem) as found:
        load_machine(write(inside, "child", "", parent="parent.yaml"))
    assert found.value.diagnostics[0].code == "extends-leaves"


def test_there_is_a_limit_of_instructions(tmp_path: Path) -> None:
    digits = ", ".join(str(n) for n in range(16))
    family = """
  - for: {A: [%s], B: [%s]}
    semantics: |
      instruction f%d_$A_$B() { in a: f32 @ reg; out z: f32 @ reg; z = a; }
    emit: semantics
    cost: {unit: scalar, interval_ns: 1, latency_ns: 1}
    source: t
"""
    body = "instructions:" + "".join(family % (digits, digits, n) for n in range(16))
    with pytest.raises(SpecProblem) as found:
        load_machine(write(tmp_path, "many", body))
    assert found.value.diagnostics[0].code == "too-many-instructions"


def test_damaged_descriptions_give_findings_and_no_crash(tmp_path: Path) -> None:
    text = HEAD.format(name="vectors", parent="generic-c") + VECTORS
    chance = random.Random(7)
    found = [refusal(tmp_path / "vectors.yaml", damage(text, chance)) for _ in range(300)]
    diagnostics = [d for error in found if error is not None for d in error.diagnostics]
    assert len(diagnostics) > 100
    assert all(d.render() for d in diagnostics)
    assert all(d.span is None or d.span.end <= len(d.span.source.text) for d in diagnostics)


def damage(text: str, chance: random.Random) -> str:
    """Return the text with a few characters replaced."""
    damaged = list(text)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(damaged))
        new = chance.choice(["", " ", ":", "\n", "$", "{", "]", "0", "é", "- "])
        damaged[at : at + chance.randint(0, 6)] = new
    return "".join(damaged)


def refusal(path: Path, text: str) -> IsamapError | None:
    path.write_text(text, encoding="utf-8")
    try:
        load_machine(str(path))
    except IsamapError as error:
        return error
    return None


def test_shipped_files_lie_where_they_should() -> None:
    assert all(machine_path(name).is_file() for name in list_machines())


def test_the_guide_shows_a_machine_that_works(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "writing-a-machine.md").read_text(encoding="utf-8")
    whole, family, sets = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    path = tmp_path / "my-cpu.yaml"
    path.write_text(whole, encoding="utf-8")
    machine = load_machine(str(path))
    assert str(machine.instructions["load_ymm_f32"].emit) == "z = _mm256_loadu_ps(a.addr)"
    zmm = "language: |\n  memory zmm: registers(count = 32, bytes = 64, named = compiler);\n"
    types = "memories: {zmm: {c_types: {f32: __m512, f64: __m512d}}}\n"
    child = f"{zmm}{types}instructions:\n{family}{sets}"
    wide = load_machine(write(tmp_path, "wide", child, parent="my-cpu.yaml"))
    assert str(wide.instructions["add_zmm_f64"].emit) == "z = _mm512_add_pd(a, b)"
    widened = {n.removeprefix("widen_i16_") for n in wide.instructions if n.startswith("widen_i16_")}
    assert widened == {"i32", "i64"}
