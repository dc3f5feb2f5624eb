"""Arrays and sizes of a call: what does not fit is refused by name, with what was expected and given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import isamap

SIZES = {"M": 6, "N": 5, "K": 7}
Array = NDArray[Any]


def arrays(**changed: object) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    shapes = {"A": (6, 7), "B": (7, 5), "C": (6, 5)}
    made = {name: rng.integers(-9, 9, shape).astype(np.float32) for name, shape in shapes.items()}
    return {**made, **changed}


@pytest.fixture(scope="module")
def gemm() -> isamap.CompiledKernel:
    return isamap.compile("gemm_f32", "generic-c", SIZES)


@pytest.fixture(scope="module")
def opened() -> isamap.CompiledKernel:
    return isamap.compile("gemm_f32", "generic-c", SIZES | {"M": "1..64@8"})


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(isamap.IsamapError) as raised:
        call()
    assert [found.code for found in raised.value.diagnostics] == ["argument-mismatch"]
    return str(raised.value).removeprefix("error[argument-mismatch]: ")


def masked(array: Array) -> Array:
    return cast("Array", np.ma.masked_array(array, mask=array > 0))


def misplaced(array: Array) -> Array:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    found: Array = raw[1:].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


# --- what is not an array of that type and shape --------------------------------------------------------------


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("name", ["A", "C"])
def test_none_is_no_array(name: str, isolate: bool) -> None:
    """It was taken for what an output holds that the caller leaves out, of inputs too."""
    kernel = isamap.compile("gemm_f32", "generic-c", SIZES, isolate=isolate)
    shape = {"A": (6, 7), "C": (6, 5)}[name]
    assert refusal(lambda: kernel(**arrays(**{name: None}))) == (
        f"`{name}` is an array f32{list(shape)}, and None is given\n"
        f"  help: pass an array of numpy, of type float32 and shape {shape}"
    )


@pytest.mark.parametrize(
    ("given", "shown"), [([[1.0]], "a list"), (np.float32(1), "np.float32(1.0)"), ("A", "'A'"), (7, "7")]
)
def test_what_is_no_array_is_shown(gemm: isamap.CompiledKernel, given: object, shown: str) -> None:
    said = refusal(lambda: gemm(**arrays(A=given)))
    assert said.startswith(f"`A` is an array f32[6, 7], and {shown} is given\n")


@pytest.mark.parametrize(
    ("dtype", "shown"), [("f8", "float64"), (">f4", ">f4"), ("i4", "int32"), ("O", "object")]
)
def test_other_types_are_refused_with_how_to_convert(
    gemm: isamap.CompiledKernel, dtype: str, shown: str
) -> None:
    given = arrays()["A"].astype(dtype)
    assert refusal(lambda: gemm(**arrays(A=given))) == (
        f"`A` is f32[6, 7], the array given is {shown}[6, 7]\n  help: convert it: `A.astype('float32')`"
    )
    gemm(**arrays(A=given.astype("float32")))


@pytest.mark.parametrize("shape", [(42,), (7, 6), (6, 7, 1), (1, 7), ()])
def test_other_shapes_are_refused(gemm: isamap.CompiledKernel, shape: tuple[int, ...]) -> None:
    said = refusal(lambda: gemm(**arrays(A=np.ones(shape, np.float32))))
    assert said == f"`A` is f32[6, 7], the array given is float32{list(shape)}"


def test_a_mask_is_not_lost(gemm: isamap.CompiledKernel) -> None:
    given = masked(arrays()["A"])
    assert refusal(lambda: gemm(**arrays(A=given))) == (
        "`A` is an array f32[6, 7], and one with a mask is given, which would be lost\n"
        "  help: pass `A.filled(…)`, or `A.data` to ignore the mask"
    )


# --- arrays that lie otherwise ----------------------------------------------------------------------------

LYING: dict[str, tuple[Callable[[Array], Array], str]] = {
    "columns first": (np.asfortranarray, "the last axis of `{}` is not dense"),
    "every second element": (lambda a: np.repeat(a, 2, 1)[:, ::2], "the last axis of `{}` is not dense"),
    "rows backwards": (
        lambda a: a[::-1].copy()[::-1],
        "`{}` runs backwards, or its rows begin between elements",
    ),
    "one row for all": (lambda a: np.broadcast_to(a[0], a.shape), "elements of `{}` overlap"),
    "between elements": (misplaced, "elements of `{}` do not begin at multiples of 4 bytes"),
}


@pytest.mark.parametrize("how", LYING)
def test_inputs_that_lie_otherwise_are_copied_by_whoever_calls(gemm: isamap.CompiledKernel, how: str) -> None:
    lay, why = LYING[how]
    given = lay(arrays()["A"])
    said = refusal(lambda: gemm(**arrays(A=given)))
    assert said == f"{why.format('A')}\n  help: pass a copy, `A.copy()`"
    expected = arrays()["C"] + given @ arrays()["B"]
    assert np.array_equal(gemm(**arrays(A=given.copy()))["C"], expected)


@pytest.mark.parametrize("how", LYING)
def test_in_a_process_of_its_own_arrays_lie_as_they_like(how: str) -> None:
    kernel = isamap.compile("gemm_f32", "generic-c", SIZES, isolate=True)
    given = LYING[how][0](arrays()["A"])
    assert np.array_equal(kernel(**arrays(A=given))["C"], arrays()["C"] + given @ arrays()["B"])


def test_outputs_that_lie_otherwise_are_refused_untouched(gemm: isamap.CompiledKernel) -> None:
    columns, frozen = np.zeros((6, 5), np.float32, order="F"), np.zeros((6, 5), np.float32)
    frozen.flags.writeable = False
    for given, why in ((columns, "the last axis of `C` is not dense"), (frozen, "is read-only")):
        said = refusal(lambda given=given: gemm(**arrays(C=given)))
        assert why in said
        assert said.endswith("  help: pass a copy, `C.copy()`, which is what is written then")
        assert not given.any()


def test_axes_of_one_element_may_have_any_stride() -> None:
    kernel = isamap.compile("gemm_f32", "generic-c", {"M": 6, "N": 1, "K": 1})
    a, b = np.arange(6, dtype=np.float32), np.full((1, 1), 2, np.float32)
    c = np.zeros((1, 6), np.float32)
    kernel(A=a.reshape(1, 6).T, B=b[::-1, ::-1], C=c.T)
    assert c.tolist() == [[0, 2, 4, 6, 8, 10]]


# --- names and sizes --------------------------------------------------------------------------------------


def test_a_name_that_is_not_taken_gets_the_nearest_one(gemm: isamap.CompiledKernel) -> None:
    given = arrays()
    given["c"] = given.pop("C")
    assert refusal(lambda: gemm(**given)) == (
        "`gemm_f32`: the array `C` is not given\n  note: arrays taken: A, B, C\n  help: did you mean `C`?"
    )


def test_a_size_among_the_arrays_is_refused_as_one(
    gemm: isamap.CompiledKernel, opened: isamap.CompiledKernel
) -> None:
    assert refusal(lambda: gemm(**arrays(M=6))) == (
        "`gemm_f32`: `M` is 6 since the compilation, and the arrays have it\n"
        "  help: leave it out, and pass `A` and the other arrays"
    )
    assert refusal(lambda: opened(**arrays(M=6))) == (
        '`gemm_f32`: `M` is a size, not an array\n  help: sizes come first: `f({"M": 4}, …)`'
    )


def test_a_packed_tensor_that_is_missing_is_made_by_packing() -> None:
    kernel = isamap.compile("gemm_f32", "generic-c", SIZES, packed=["B"])
    said = refusal(lambda: kernel(**arrays()))
    assert said.endswith("  help: `f.pack(B=…)` makes it, as in `f(…, **f.pack(B=…))`")
    assert "`B` is an array f32[7, 5], and None is given" in refusal(lambda: kernel.pack(B=None))


@pytest.mark.parametrize("number", [6, np.int64(6), np.uint8(6), np.array(6)])
def test_sizes_of_a_call_may_be_numbers_of_numpy(opened: isamap.CompiledKernel, number: int) -> None:
    expected = arrays()["C"] + arrays()["A"] @ arrays()["B"]
    assert np.array_equal(opened({"M": number}, **arrays())["C"], expected)


@pytest.mark.parametrize("value", ["6", 6.0, True, np.bool_(True), None, [6]])
def test_other_sizes_of_a_call_are_refused(opened: isamap.CompiledKernel, value: object) -> None:
    said = refusal(lambda: opened(cast("Any", {"M": value}), **arrays()))
    assert said.startswith("`M` is a whole number, not ")


@pytest.mark.parametrize("value", [0, -1, 65, 2**70])
def test_sizes_outside_of_their_range_are_refused(opened: isamap.CompiledKernel, value: int) -> None:
    assert refusal(lambda: opened({"M": value}, **arrays())) == (
        f"`M` = {value} is outside of 1..64, the range that `gemm_f32` was made for\n"
        "  help: compile it for a wider range"
    )


@pytest.mark.parametrize("sizes", [6, ["M"], np.ones((6, 7), np.float32)])
def test_sizes_of_a_call_are_given_by_name(opened: isamap.CompiledKernel, sizes: object) -> None:
    said = refusal(lambda: opened(cast("Any", sizes), **arrays()))
    assert said.startswith("`gemm_f32` takes its sizes by name, and ")
    assert "arrays are given by name" in said


def test_packing_takes_the_sizes_that_it_needs() -> None:
    kernel = isamap.compile("gemm_f32", "generic-c", {"M": "1..64@8", "N": "1..64@8", "K": 7}, packed=["B"])
    given = arrays()
    for sizes in ({"N": 5}, {"N": np.int64(5)}, {"N": 5, "M": 6}):
        assert list(kernel.pack(sizes, B=given["B"])) == ["B_packed"]
    wrong: list[tuple[Any, str]] = [
        (None, "the size `N` is not given"),
        ({"N": "5"}, "`N` is a whole number, not '5'"),
        ({"N": 2**62}, f"`N` = {2**62} is outside of 1..64"),
        ({"N": 5, "Q": 1}, "it takes no size `Q`"),
        (5, "takes its sizes by name, and 5 is given"),
    ]
    for sizes, said in wrong:
        assert said in refusal(lambda sizes=sizes: kernel.pack(sizes, B=given["B"]))


def test_room_that_there_is_not_for_an_output_is_named() -> None:
    text = "kernel spread(N) { in A: f32[N]; out B: f32[N, N]; for n in N, m in N { B[n, m] = A[n]; } }"
    kernel = isamap.compile(text, "generic-c", {"N": "1..2147483648@8"}, isolate=True)
    assert kernel({"N": 8}, A=np.ones(8, np.float32))["B"].shape == (8, 8)  # an output may be left out
    line: Array = np.zeros(1 << 26, np.float32)  # memory that is never touched
    assert refusal(lambda: kernel({"N": 1 << 26}, A=line)) == (
        f"there is no memory for `B`: f32[67108864, 67108864] has {1 << 54} bytes"
    )


# Values of four bits in a byte each, which a load widens.
NIBBLES = """
isamap: 1
name: nibbles
summary: a processor that sums numbers of four bits
extends: generic-c
sources: {guess: a guess}
instructions:
  - semantics: |
      instruction widen() {
        in a: TYPE @ mem;
        inout z: i32 @ reg;
        z += i32(a);
      }
    emit: semantics
    cost: {unit: load_port, interval_cycles: 1, latency_cycles: 5}
    source: guess
"""


@pytest.mark.parametrize(("dtype", "fine", "wrong"), [("i4", (-8, 7), (-9, 8)), ("u4", (0, 15), (16, 255))])
def test_values_of_fewer_bits_than_numpy_has_are_refused(
    dtype: str, fine: tuple[int, int], wrong: tuple[int, int], tmp_path: Path
) -> None:
    text = f"kernel f(N) {{ in a: {dtype}[N]; inout c: i32[N]; for i in N {{ c[i] += i32(a[i]); }} }}"
    (tmp_path / "f.ir").write_text(text)
    (tmp_path / "nibbles.yaml").write_text(NIBBLES.replace("TYPE", dtype))
    found = isamap.compile(tmp_path / "f.ir", tmp_path / "nibbles.yaml", {"N": 3})
    kind = np.int8 if dtype == "i4" else np.uint8
    c = np.zeros(3, np.int32)
    found(a=np.array([*fine, 1], kind), c=c)
    assert c.tolist() == [*fine, 1]
    for value in wrong:
        with pytest.raises(isamap.IsamapError, match=f"its values are {fine[0]} to {fine[1]}, not {value}"):
            found(a=np.array([1, value, 1], kind), c=c)
    assert c.tolist() == [*fine, 1], "nothing is computed"
