"""The allow-lists: everything that a description may name outside its own text, in one place.

A description is not trusted. It can ask for what stands here only: no path, no other flag or function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

TOOLCHAINS = ("clang", "gcc", "nvcc", "zig")
RUNS = ("native", "emulator", "model")

FLAGS: dict[str, str] = {
    "-O0 … -O3": r"-O[0-3]",
    "-std=…": r"-std=(c|gnu)(99|11|17|23)",
    "--target=…": r"--target=[a-z0-9_]+(-[a-z0-9_.]+){1,3}",
    "-march=…, -mtune=…, -mcpu=…": r"-m(arch|tune|cpu)=[a-zA-Z0-9_.+-]+",
    "-mprefer-vector-width=…": r"-mprefer-vector-width=(128|256|512)",
    "-m and an instruction set, as -mavx2": (
        r"-m(no-)?(sse[0-9.]*|ssse3|avx[a-z0-9.-]*|fma|f16c|bmi2?|lzcnt|popcnt|amx-[a-z0-9-]+|evex512|gfni|adx)"
    ),
}
"""What a compiler flag may look like. `-m` alone would let in flags that load code or write files (-mllvm,
-module-dependency-dir); -Ofast changes the floating-point control of the whole process."""

FEATURES = (
    "sse", "sse2", "pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "avx2", "fma", "f16c", "bmi1",
    "bmi2", "abm", "adx", "gfni", "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx512ifma",
    "avx512vbmi", "avx512_vbmi2", "avx512_vnni", "avx512_bitalg", "avx512_vpopcntdq", "avx512_bf16",
    "avx512_fp16", "avx512_vp2intersect", "avx_vnni", "avx_vnni_int8", "avx_ne_convert", "avx_ifma",
    "amx_tile", "amx_bf16", "amx_int8", "amx_fp16", "amx_complex", "fp", "asimd", "asimdhp", "asimddp",
    "asimdfhm", "i8mm", "bf16", "sve", "sve2", "svei8mm", "svebf16", "sme", "sme2", "smef16f32", "smei8i32",
)  # fmt: skip
"""Features that detection knows, by the names of Linux's /proc/cpuinfo."""

PERMISSIONS: dict[str, int] = {"amx_tile_data": 18}
"""What the operating system grants on request: the number of the state component for arch_prctl."""

_INTEL = (
    r"(_mm(256|512)?|_tile|_cvtmask(8|16|32|64)|_cvtu32|_cvtu64|_load_mask(8|16|32|64)|_store_mask(8|16|32|64)"
    r"|_k[a-z]+_mask(8|16|32|64))(_[a-z0-9]+)+"
    r"|_cvtu(32|64)_mask(8|16|32|64)|_cvtmask(8|16|32|64)_u(32|64)|_k[a-z]+_mask(8|16|32|64)"
    r"|__builtin_shufflevector"  # permutations by constants: gcc from 12 on, and clang
)
_MATH = (
    "(fma|fmin|fmax|fabs|sqrt|cbrt|exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|sinh|cosh|tanh|erf|erfc"
    "|floor|ceil|trunc|round|rint|nearbyint|roundeven|copysign|fmod|ldexp)f?"
)

HEADERS: dict[str, str] = {
    "arm_neon.h": r"v[a-z][a-z0-9_]*",
    "arm_sme.h": r"sv[a-z][a-z0-9_]*|__arm_[a-z_]+",
    "arm_sve.h": r"sv[a-z][a-z0-9_]*",
    "immintrin.h": _INTEL,
    "math.h": _MATH,
    "stdint.h": r"(?!)",
}
"""Headers, and the functions that may be called from each."""

DENIED_FUNCTIONS = re.compile(r"_mm_(malloc|free|clflush|clflushopt|monitor|mwait|setcsr|getcsr)|svsetffr")
"""They match a header's pattern but do more than compute."""

SHOWN_FUNCTIONS: dict[str, str] = {
    "arm_neon.h": "v…",
    "arm_sme.h": "sv…, __arm_…",
    "arm_sve.h": "sv…",
    "immintrin.h": "_mm…, _tile_…, _k…_mask…, __builtin_shufflevector",
    "math.h": "C's functions of floats",
    "stdint.h": "none",
}

_TYPES = re.compile(
    r"float|double|_Float16|__bf16|bool|_Bool|char|signed char|unsigned char|int|unsigned"
    r"|u?int(8|16|32|64)_t|size_t|ptrdiff_t"
    r"|__m(128|256|512)(d|i|h|bh)?|__v(4|8|16|32|64)(qi|hi|si|di|sf|df)|__mmask(8|16|32|64)|__tile1024i"
    r"|(float|int|uint|bfloat|poly)(8|16|32|64)x(1|2|4|8|16)(x[234])?_t"
    r"|sv(float|int|uint|bfloat)(8|16|32|64)(x[234])?_t|svbool_t"
)
_VECTOR_TYPES = re.compile(
    r"__m(128|256|512)(d|i|h|bh)?|(float|int|uint|bfloat|poly)(8|16|32|64)x(1|2|4|8|16)_t"
    r"|sv(float|int|uint|bfloat)(8|16|32|64)_t"
)
SHOWN_TYPES = (
    "C's scalar types, __m128 … __m512i, __mmask8 … __mmask64, NEON's float32x4_t …, SVE's svfloat32_t …"
)


def is_flag(flag: str) -> bool:
    """Whether a compiler flag is allowed."""
    return any(re.fullmatch(pattern, flag) for pattern in FLAGS.values())


def is_c_type(name: str) -> bool:
    """Whether a C type may hold a register operand."""
    return _TYPES.fullmatch(name) is not None


def is_vector_type(name: str) -> bool:
    """Whether a C type is a vector that one vector register holds: no mask, no pair of them."""
    return _VECTOR_TYPES.fullmatch(name) is not None


def is_cast(name: str) -> bool:
    """Whether a C type may be cast to: an allowed type, or a pointer to one, to void or to char."""
    pointer = re.fullmatch(r"(?:const )?(.+?)(?: const)? ?\*", name)
    return is_c_type(name) if pointer is None else pointer[1] == "void" or is_c_type(pointer[1])


def declares(headers: Iterable[str], function: str) -> bool:
    """Whether one of the headers declares the function, and it may be called."""
    if DENIED_FUNCTIONS.fullmatch(function):
        return False
    return any(re.fullmatch(HEADERS[header], function) for header in headers if header in HEADERS)


def c_type_keys() -> tuple[str, ...]:
    """The keys of `c_types`: element types, and `default`."""
    from isamap.ir import DTYPES  # brings numpy, which detection does without

    return (*DTYPES, "default")
