"""Whole programs as C: the interface, configuration, masks, and what compilers say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from programs import gemm

from isamap.emit.c import emit_c
from isamap.ir import BF16, DTYPES, F32, Index
from isamap.lower.program import (
    Buffer,
    Configure,
    Declare,
    Fill,
    For,
    Hint,
    Issue,
    LoweredProgram,
    MemoryRef,
    RegisterRef,
    Tensor,
    Value,
)
from isamap.machine import EmitArg, EmitCall, EmitNothing, Machine, load_machine
from isamap.run.toolchain import build, find_compiler
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel

GENERIC = load_machine("generic-c")
STRICT = ("-O2", "-std=c11", "-Wall", "-Wextra", "-Werror")


def whole(emitted_name: str, source: str, header: str) -> dict[str, str]:
    return {f"{emitted_name}.c": source, f"{emitted_name}.h": header}


def test_the_same_program_gives_the_same_text() -> None:
    assert emit_c(gemm(), GENERIC) == emit_c(gemm(), GENERIC)


def test_the_header_says_how_the_program_is_called() -> None:
    header = emit_c(gemm(), GENERIC).header
    assert "int gemm(const gemm_args *args, void *workspace, gemm_pool *pool);" in header
    assert "size_t gemm_workspace_bytes(const gemm_args *args);" in header
    members = header[header.index("typedef struct {") : header.index("} gemm_args;")]
    assert [line.split("/*")[0].strip() for line in members.splitlines()[1:]] == [
        "const float *A;", "int64_t A_stride0;", "const float *B;", "int64_t B_stride0;",
        "float *C;", "int64_t C_stride0;", "int64_t M;", "int64_t N;",
    ]  # fmt: skip


def test_scalar_instructions_become_scalar_c() -> None:
    source = emit_c(gemm(), GENERIC).source
    assert "        vc = mac_f32(vc, va, vb);\n" in source
    assert "static inline float mac_f32(float c, float a, float b) {\n  c += a * b;\n  return c;\n}" in source


@pytest.mark.parametrize("model", [False, True])
def test_compilers_have_nothing_to_say(model: bool) -> None:
    packed = Buffer("packed", BF16, Index.of("N") * 5, "a copy */ of B")
    fill = Fill("packed", Index.of(5), Index.of("N") * 4)
    emitted = emit_c(gemm(buffers=(packed,), before=(fill,)), GENERIC, model=model)
    compiler = find_compiler(STRICT)
    build(compiler, STRICT, whole("gemm", emitted.source, emitted.header), "gemm.c")


def test_the_header_is_taken_by_itself() -> None:
    header = emit_c(gemm(), GENERIC).header
    text = '#include "gemm.h"\nint use(void) { return gemm_OK + (int)sizeof(gemm_args); }\n'
    build(find_compiler(STRICT), STRICT, {"use.c": text, "gemm.h": header}, "use.c")


# --- configuration, masks, numbered registers -------------------------------------------------------------

COPY = parse_kernel(
    Source("copy.ir", "kernel copy(L: 1..16) { in A: f32[L]; out C: f32[L]; for i in L { C[i] = A[i]; } }")
)
L = Index.of("L")


def program(machine: str, *body: Declare | Issue | Configure | For | Hint) -> LoweredProgram:
    tensors = (
        Tensor("A", "in", F32, (L,), (Index.of(1),)),
        Tensor("C", "out", F32, (L,), (Index.of(1),)),
    )
    return LoweredProgram("copy", COPY, machine, (), (("L", 1, 16),), tensors, (), tuple(body))


def masked() -> LoweredProgram:
    start = Index.of(0)
    return program(
        "x86-avx512",
        Declare((Value("v", "zmm", F32, (16,)),)),
        Issue("maskload_zmm_f32", (("a", MemoryRef("A", start)), ("z", RegisterRef("v"))), (("L", L),)),
        Issue("maskstore_zmm_f32", (("a", RegisterRef("v")), ("z", MemoryRef("C", start))), (("L", 3),)),
    )


def test_masks_are_numbers_where_they_are_known_and_shifts_where_not() -> None:
    source = emit_c(masked(), load_machine("x86-avx512")).source
    assert "  __m512 v;\n  v = _mm512_maskz_loadu_ps((__mmask16)((1u << L) - 1), A);\n" in source
    assert "  _mm512_mask_storeu_ps(C, (__mmask16)0x7u, v);\n" in source


def test_a_model_needs_no_header_of_the_machine() -> None:
    source = emit_c(masked(), load_machine("x86-avx512"), model=True).source
    assert "  float v[16];\n  maskload_zmm_f32(A, v, L);\n  maskstore_zmm_f32(v, C, 3);\n" in source
    assert "immintrin" not in source


# --- calls that are arguments of calls


def dot2() -> Machine:
    """x86-avx2 with casts in the emission of a sum of products."""
    machine = load_machine("x86-avx2")
    entry = machine.instructions["dot2_ymm_i16"]
    factors = (EmitArg("operand", "a", cast="__m256i"), EmitArg("operand", "b"))
    products = EmitCall(None, "__m256i", "_mm256_madd_epi16", factors)
    emit = EmitCall("c", "__m256i", "_mm256_add_epi32", (EmitArg("operand", "c"), products))
    return replace(machine, instructions={**machine.instructions, entry.name: replace(entry, emit=emit)})


@pytest.mark.parametrize(
    ("machine", "issue"),
    [
        (load_machine("x86-avx2"), "c = (__v8si)_mm256_add_epi32((__m256i)c, _mm256_madd_epi16(a, b));"),
        (
            dot2(),
            "c = (__v8si)(__m256i)_mm256_add_epi32((__m256i)c, (__m256i)_mm256_madd_epi16((__m256i)a, b));",
        ),
    ],
    ids=["as shipped", "with casts"],
)
def test_a_call_is_an_argument_of_a_call(machine: Machine, issue: str) -> None:
    sums = Value("c", "ymm", DTYPES["i32"], (8,))
    factors = (Value(name, "ymm", DTYPES["i16"], (16,)) for name in "ab")
    operands = tuple((name, RegisterRef(name)) for name in "cab")
    made = program("x86-avx2", Declare((sums, *factors)), Issue("dot2_ymm_i16", operands))
    assert f"  __v8si c;\n  __m256i a, b;\n  {issue}\n" in emit_c(made, machine).source


def test_a_hint_may_compute_what_it_passes() -> None:
    machine = load_machine("x86-avx2")
    entry = machine.hints["prefetch_l2"]
    assert isinstance(entry.emit, EmitCall)
    address, level = entry.emit.args
    emit = replace(entry.emit, args=(EmitCall(None, "char const *", "_mm_near", (address,)), level))
    changed = replace(machine, hints={**machine.hints, entry.name: replace(entry, emit=emit)})
    made = program("x86-avx2", Hint(entry.name, "a", MemoryRef("A", Index.of(4))))
    near = "_mm_near((char const *)(const uint8_t *)(A + 4))"
    assert f"  _mm_prefetch((char const *){near}, 2);\n" in emit_c(made, changed).source


def tiles() -> LoweredProgram:
    fields = (("palette", None, 1), ("rows", 2, 1), ("row_bytes", 2, 64))
    whole_row = (("R", 1), ("N", 16))
    strides = (Index.of(16), Index.of(1))
    return program(
        "x86-amx",
        Configure("ldtilecfg", "tilecfg", fields),
        Declare((Value("t", "tmm", F32, (1, 16), register=2),)),
        Issue(
            "tileload_f32",
            (("z", RegisterRef("t")), ("a", MemoryRef("A", Index.of(0), strides))),
            whole_row,
            "row */ 0",
        ),
        Issue(
            "tilestore_f32",
            (("a", RegisterRef("t")), ("z", MemoryRef("C", Index.of(0), strides))),
            whole_row,
        ),
        Configure("tilerelease", "tilecfg", (), release=True),
    )


def test_state_is_loaded_from_a_constant_image_and_released() -> None:
    source = emit_c(tiles(), load_machine("x86-amx")).source
    assert (
        "static const _Alignas(64) uint8_t tilecfg[64] = {\n"
        "  1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,\n"
        "  0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,\n"
        "  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,\n"
        "  0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,\n"
        "};" in source
    )
    assert source.index("_tile_loadconfig(tilecfg);") < source.index("_tile_release();")


def test_barriers_stand_around_what_compilers_move_wrongly_and_only_once() -> None:
    source = emit_c(tiles(), load_machine("x86-amx")).source
    barrier = '  __asm__ volatile("" ::: "memory");\n'
    load, store = "  _tile_loadd(2, A, 64); /* row * / 0 */\n", "  _tile_stored(2, C, 64);\n"
    assert barrier + load + barrier + store + barrier in source
    assert barrier + barrier not in source


def test_tile_programs_compile_where_tiles_are_missing() -> None:
    machine = load_machine("x86-amx")
    emitted = emit_c(tiles(), machine)
    compiler = find_compiler(machine.target.flags)
    build(compiler, machine.target.flags, whole("copy", emitted.source, emitted.header), "copy.c")


def test_an_instruction_without_emission_is_refused_by_name() -> None:
    entry = GENERIC.instructions["mac_f32"]
    silent = replace(
        GENERIC, instructions={**GENERIC.instructions, "mac_f32": replace(entry, emit=EmitNothing())}
    )
    with pytest.raises(UsageProblem, match="`mac_f32` of generic-c has no emission"):
        emit_c(gemm(), silent)
    assert "mac_f32" in emit_c(gemm(), silent, model=True).source
