"""Descriptions of libraries: how they are read, what is refused, which kernels their calls compute."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from fake_library import KERNEL, TOTAL, FakeLibrary

from isamap.ir import DTYPES, Const, Kernel, Range, Scalar, bind
from isamap.kernels import kernel_path
from isamap.libraries.description import (
    Library,
    LibraryLocation,
    Prototype,
    read_library,
    read_prototype,
    shipped_libraries,
    shipped_library,
)
from isamap.libraries.installed import find_installed
from isamap.libraries.recognise import RecognisedCall, find_call
from isamap.source import Source, SpecProblem, UsageProblem
from isamap.syntax import parse_kernel

NOTHING: frozenset[str] = frozenset()


def kernel(text: str, **sizes: int | Range) -> Kernel:
    """Return the kernel with its sizes bound, from 1 to 4096 where none is given."""
    parsed = parse_kernel(Source("k", text))
    found = bind(parsed, {p.name: Range(1, 4096) for p in parsed.params if p.dtype is None} | sizes)
    assert isinstance(found, Kernel)
    return found


def shipped(name: str, **sizes: int) -> Kernel:
    return kernel(kernel_path(name).read_text(encoding="utf-8"), **sizes)


def passed(found: RecognisedCall | None) -> list[str]:
    assert found is not None
    return [a.text or str(a.index if a.index is not None else a.value) for a in found.arguments]


def mkl() -> Library:
    return shipped_library("mkl")


def test_every_shipped_description_is_read_and_has_calls() -> None:
    found = shipped_libraries()
    assert [one.name for one in found] == ["mkl", "openblas", "scipy-openblas"]
    assert all(one.calls and one.places and one.threads for one in found)
    assert {call.prototype.name for call in shipped_library("scipy-openblas").calls} >= {
        "scipy_cblas_sgemm64_"
    }


@pytest.mark.parametrize(
    ("name", "function", "transposed"),
    [
        ("gemm_f32", "cblas_sgemm", ["111", "111"]),
        ("gemm_nt_f32", "cblas_sgemm", ["111", "112"]),
        ("gemm_tn_f32", "cblas_sgemm", ["112", "111"]),
        ("gemm_tn_f64", "cblas_dgemm", ["112", "111"]),
        ("gemm_nt_bf16_f32", "cblas_gemm_bf16bf16f32", ["111", "112"]),
    ],
)
def test_shipped_products_are_calls_of_blas(name: str, function: str, transposed: list[str]) -> None:
    found = find_call(shipped(name, M=8, N=16, K=32), mkl(), NOTHING)
    assert found is not None
    assert found.call.prototype.name == function
    assert passed(found)[1:6] == [*transposed, "8", "16", "32"]


RENAMED = """\
kernel renamed(U, V, W) {
  in P: f32[U, W];
  in Q: f32[W, V];
  inout R: f32[U, V];
  for y in V, z in W, x in U { R[x, y] += P[x, z] * Q[z, y]; }
}
"""


@pytest.mark.parametrize("swapped", [False, True])
def test_names_the_order_of_loops_and_of_factors_do_not_matter(swapped: bool) -> None:
    text = RENAMED.replace("P[x, z] * Q[z, y]", "Q[z, y] * P[x, z]") if swapped else RENAMED
    found = find_call(kernel(text), mkl(), NOTHING)
    assert " ".join(passed(found)) == "101 111 111 U V W 1 P P.s0 Q Q.s0 1 R R.s0"
    assert found is not None
    assert f"{found.checks[0].left} {found.checks[0].comparison} {found.checks[0].right}" == "P.s0 >= W"
    bounds = [str(c.left) for c in found.checks if c.comparison == "<="]
    assert bounds == ["P.s0", "Q.s0", "R.s0"]  # as many as 32 bits hold


def test_a_product_that_is_only_written_and_one_with_a_factor_are_calls_too() -> None:
    written = kernel(
        "kernel w(M, N, K) { in A: f32[M, K]; in B: f32[N, K]; out C: f32[M, N];"
        " for m in M, n in N { C[m, n] = 0; for k in K { C[m, n] += A[m, k] * B[n, k]; } } }"
    )
    assert passed(find_call(written, mkl(), NOTHING))[-3:] == ["0", "C", "C.s0"]
    scaled = kernel(
        "kernel s(M, N, K, scalar f: f32) { in A: f32[M, K]; in B: f32[K, N]; inout C: f32[M, N];"
        " for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n] * f; } }"
    )
    found = find_call(scaled, mkl(), NOTHING)
    assert found is not None
    assert found.arguments[6].value == Scalar("f", DTYPES["f32"])
    doubled = kernel(
        "kernel d(M, N, K) { in A: f32[M, K]; in B: f32[K, N]; inout C: f32[M, N];"
        " for m in M, n in N, k in K { C[m, n] += 2 * (A[m, k] * B[k, n]); } }"
    )
    found = find_call(doubled, mkl(), NOTHING)
    assert found is not None
    assert found.arguments[6].value == Const(2.0, DTYPES["f32"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("P[x, z] * Q[z, y]", "P[x, z] * Q[z, y] * P[x, z]"),
        ("P[x, z] * Q[z, y]", "P[x, z] + Q[z, y]"),
        ("P[x, z] * Q[z, y]", "P[x, z] * P[x, z]"),
        ("+=", "max="),
        ("in P: f32", "in P: f64"),
        ("in P: f32[U, W]", "in P: f32[U, W + 1]"),
        ("P[x, z]", "P[x, W - 1 - z]"),
        ("in Q: f32[W, V];", "in Q: f32[W, V]; in b: f32[V];"),
        ("x in U {", "x in U if z < 4 {"),
        ("kernel", "strict kernel"),
    ],
)  # fmt: skip
def test_what_computes_something_else_is_no_call(old: str, new: str) -> None:
    text = RENAMED.replace(old, new)
    if new == "in P: f64":
        text = text.replace("P[x, z]", "f32(P[x, z])")
    assert find_call(kernel(text), mkl(), NOTHING) is None


def test_sizes_that_an_argument_cannot_hold_are_no_call() -> None:
    text = (
        "kernel m(M, N) { in A: f32[M, N]; in x: f32[N]; inout y: f32[M];"
        " for m in M, n in N { y[m] += A[m, n] * x[n]; } }"
    )
    assert find_call(kernel(text, M=4, N=2**31 - 1), mkl(), NOTHING) is not None
    assert find_call(kernel(text, M=4, N=2**31), mkl(), NOTHING) is None
    assert find_call(kernel(text, M=4, N=2**31), shipped_library("scipy-openblas"), NOTHING) is not None


def test_open_sizes_that_a_call_does_not_take_all_are_no_call() -> None:
    text = (
        "kernel u(M, N, K) { in A: u8[M, K]; in B: i8[K, N]; out C: i32[M, N]; for m in M, n in N "
        "{ C[m, n] = 0; for k in K { C[m, n] += i32(A[m, k]) * i32(B[k, n]); } } }"
    )
    vnni = frozenset(("avx512_vnni",))
    assert find_call(kernel(text), mkl(), vnni) is not None
    assert find_call(kernel(text, K=65793), mkl(), vnni) is not None
    assert find_call(kernel(text, K=65794), mkl(), vnni) is None
    assert find_call(kernel(text, K=Range(1, 70000)), mkl(), vnni) is None


def test_a_call_that_needs_a_feature_is_one_where_it_is_there(tmp_path: Path) -> None:
    calls = TOTAL.replace("    forms:", "    features: [avx512_vnni]\n    forms:")
    library = read_library(FakeLibrary.describe(tmp_path, calls).description, "fake.yaml")
    assert find_call(kernel(KERNEL), library, NOTHING) is None
    assert passed(find_call(kernel(KERNEL), library, frozenset(("avx512_vnni",)))) == ["P", "Q", "b", "a"]


def test_prototypes_are_those_of_c_without_results() -> None:
    found = read_prototype("void f(blasint n, const float *x, uint8_t *z)", {"blasint": "int64_t"})
    assert isinstance(found, Prototype)
    assert found.text == "void f(int64_t, const float *, uint8_t *);"
    assert [p.most for p in found.parameters] == [2**63 - 1, None, None]
    assert read_prototype("int f(int n)", {}) == "a prototype is `void NAME(TYPE name, …)`"
    assert read_prototype("void f(blasint n)", {}) == "`blasint n` is not a parameter of a known type"
    assert read_prototype("void f(int n, void x)", {}) == "`void x` is not a parameter of a known type"


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("[N, K, x, y]", "[N, K, x]", "library-call", "fake_total takes 4 arguments, and 3 are given"),
        ("[N, K, x, y]", "[N, L, x, y]", "library-call", "`L` cannot be passed as `int32_t`"),
        ("[N, K, x, y]", "[N, x, x, y]", "library-call", "`x` cannot be passed as `int32_t`"),
        ("[N, K, x, y]", "[N, K, K, y]", "library-call", "`K` cannot be passed as `const float *`"),
        ("[N, K, x, y]", "[N, K, x, x]", "library-call", "`x` cannot be passed as `float *`"),
        ("[N, K, x, y]", '[N, "stride(x, 1)", x, y]', "library-call", "`stride(x, 1)` cannot be passed"),
        ("(N, K) {", "(N, K) where N != K {", "library-call", "requirements on a library's arguments"),
        ("int32_t n", "Blasint n", "library-call", "`Blasint n` is not a parameter of a known type"),
        ("[N, K, x, y]", "[N, 1.5, x, y]", "library-call", "`1.5` cannot be passed as `int32_t`"),
        ("calls:", 'symbols: "a $NAME"\ncalls:', "library-call", "`symbols` makes `a fake_total` of it"),
        ("calls:", "environment: {A=B: C}\ncalls:", "library-variable", "`A=B` is not a variable that"),
        ("fake_total", "fake_$T", "unknown-variable", "there is no variable called `T`"),
        ("y[n] +=", "z[n] +=", "unknown-name", "z"),
        ("forms:", "form:", "unknown-key", "a call has no key `form`"),
        ("calls:", "interfaces: [cblass]\ncalls:", "unknown-interface", "no interface called `cblass`"),
    ],
)  # fmt: skip
def test_a_wrong_description_is_refused_where_it_is_wrong(
    old: str, new: str, code: str, said: str, tmp_path: Path
) -> None:
    path = FakeLibrary.describe(tmp_path, TOTAL.replace(old, new, 1)).description
    with pytest.raises(SpecProblem) as found:
        read_library(path, "fake.yaml")
    first = found.value.diagnostics[0]
    assert first.code == code
    assert said in first.message
    assert first.span is not None


def test_the_description_of_the_page_is_one(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "portfolio.md"
    block = re.search(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    (tmp_path / "sums.yaml").write_text(block[1], encoding="utf-8")
    library = read_library(tmp_path / "sums.yaml", "sums.yaml")
    text = "kernel t(P, Q) { in X: f64[P, Q]; inout s: f64[P]; for p in P, q in Q { s[p] += X[p, q]; } }"
    found = find_call(kernel(text), library, NOTHING)
    assert found is not None
    assert (found.call.prototype.name, passed(found)) == ("fast_rows_f64", ["P", "Q", "X", "X.s0", "s"])


def test_a_description_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"nothing\.yaml cannot be read"):
        read_library(tmp_path / "nothing.yaml", "nothing.yaml")


def test_libraries_are_found_beside_their_description_in_the_loaders_folders_and_in_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = read_library(FakeLibrary.describe(tmp_path).description, "fake.yaml")
    assert find_installed(library) is None
    (tmp_path / "libfake.so").write_bytes(b"")
    found = find_installed(library)
    assert found is not None
    assert (found.path, found.origin, found.link) == (tmp_path / "libfake.so", "libfake.so", "-l:libfake.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (tmp_path / "libopenblas.so.0").write_bytes(b"")
    system = find_installed(shipped_library("openblas"))
    assert system is not None
    assert system.path.name.startswith("libopenblas.so")
    of_numpy = find_installed(shipped_library("scipy-openblas"))
    assert of_numpy is None or " " in of_numpy.origin


def test_a_pattern_looks_into_no_folder_below_the_loaders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = read_library(FakeLibrary.describe(tmp_path).description, "fake.yaml")
    anywhere = replace(library, places=(LibraryLocation("lib?***.zzz", ""),))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "libfake.zzz").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert find_installed(anywhere) is None
    assert find_installed(replace(library, places=(LibraryLocation("**", ""),))) is not None, (
        "of the loader's folders"
    )
    (tmp_path / "libfake.zzz").write_bytes(b"")
    found = find_installed(anywhere)
    assert found is not None
    assert found.path == tmp_path / "libfake.zzz"
