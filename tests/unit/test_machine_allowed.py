"""What descriptions may name is data of the package, a file a family of processors."""

from __future__ import annotations

import pytest

from isamap.hw_specs import families_text
from isamap.machine import allowed


def test_each_file_is_a_family() -> None:
    assert len(allowed.families()) == len(families_text())
    known = allowed.headers()
    assert len(known) == sum(len(family.headers) for family in allowed.families()), "no header is given twice"


@pytest.mark.parametrize(
    ("header", "function", "is_known"),
    [
        ("immintrin.h", "_mm256_add_ps", True),
        ("immintrin.h", "_mm_setcsr", False),
        ("immintrin.h", "system", False),
        ("arm_neon.h", "vfmaq_f32", True),
        ("arm_sve.h", "svsetffr", False),
        ("riscv_vector.h", "__riscv_vfmacc_vf_f32m1", True),
        ("riscv_vector.h", "vfmaq_f32", False),
        ("altivec.h", "__builtin_mma_xvf32gerpp", True),
        ("altivec.h", "__builtin_trap", False),
        ("lasxintrin.h", "__lasx_xvfmadd_s", True),
        ("hvx_hexagon_protos.h", "Q6_Vw_vadd_VwVw", True),
        ("wasm_simd128.h", "wasm_f32x4_add", True),
        ("vecintrin.h", "vec_madd", True),
        ("vecintrin.h", "__builtin_tbegin", False),
        ("msa.h", "__msa_fmadd_w", True),
        ("msa.h", "__msa_ctcmsa", False),
        ("math.h", "expf", True),
        ("math.h", "exit", False),
        ("stdint.h", "abs", False),
    ],
)
def test_a_header_declares_what_its_family_says(header: str, function: str, *, is_known: bool) -> None:
    assert allowed.declares([header], function) == is_known


@pytest.mark.parametrize(
    ("flag", "is_known"),
    [
        ("-mavx2", True),
        ("-march=armv8.2-a+dotprod", True),
        ("-march=rv64gcv_zvfh", True),
        ("-mcpu=power10", True),
        ("-mlasx", True),
        ("-mhvx-length=128B", True),
        ("-msimd128", True),
        ("-mzvector", True),
        ("-fno-slp-vectorize", True),
        ("-fvectorize-x", False),
        ("--target=riscv64-linux-musl", True),
        ("-mllvm", False),
        ("-Ofast", False),
        ("-fplugin=x.so", False),
        ("-mmodule-dependency-dir", False),
        ("-mabi=../x", False),
    ],
)
def test_a_flag_is_one_of_a_family(flag: str, *, is_known: bool) -> None:
    assert allowed.is_flag(flag) == is_known


@pytest.mark.parametrize(
    "name", ["__m512i", "float32x4_t", "vfloat32m2_t", "__vector float", "HVX_Vector", "v128_t"]
)
def test_vectors_are_types_of_values(name: str) -> None:
    assert allowed.is_c_type(name)
    assert allowed.is_vector_type(name)
    assert allowed.is_cast(f"const {name} *")


@pytest.mark.parametrize("name", ["__mmask16", "vbool4_t", "__vector_quad", "svbool_t", "int", "FILE"])
def test_masks_groups_and_numbers_are_no_vectors(name: str) -> None:
    assert not allowed.is_vector_type(name)


@pytest.mark.parametrize(
    ("c_type", "is_sizeless"),
    [("vfloat32m1_t", True), ("svfloat32_t", True), ("v4f32", False), ("v128_t", False)],
)
def test_what_has_no_size_is_so_in_its_own_family_alone(c_type: str, *, is_sizeless: bool) -> None:
    """RISC-V's types begin with a `v`, as do others that have one."""
    assert allowed.is_c_type(c_type)
    assert allowed.is_sizeless(c_type) == is_sizeless


def test_a_device_has_the_values_of_the_one_that_it_extends() -> None:
    family = allowed.Family.of(
        {"devices": {"one": {"ending": "cu", "prelude": "a"}, "two": {"extends": "one", "prelude": "b"}}}
    )
    assert family.devices["one"] == allowed.Device(ending="cu", prelude="a")
    assert family.devices["two"] == allowed.Device(ending="cu", prelude="b")
