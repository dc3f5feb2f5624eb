"""Calls that are like one before take a short way: what it lets through is right, all else is looked at."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import isamap

SIZES = {"M": 6, "N": 5, "K": 7}
SCALED = """
kernel scaled(N, scalar alpha: f32, scalar n: i32) {
  in X: f32[N]; out Y: f32[N];
  for i in N { Y[i] = alpha * X[i] + f32(n); }
}
"""


def arrays(seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes = {"A": (6, 7), "B": (7, 5), "C": (6, 5)}
    return {name: rng.integers(-9, 9, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def gemm() -> isamap.CompiledKernel:
    made = isamap.compile("gemm_f32", "generic-c", SIZES)
    made(**arrays())
    return made


def is_short(
    kernel: isamap.CompiledKernel, values: dict[str, Any], sizes: dict[str, int] | None = None
) -> bool:
    """Return whether the call is taken for one like before; it is made then."""
    process = kernel._process  # pyright: ignore[reportPrivateUsage] - from outside both ways look alike
    assert process is not None
    return process.again(values, sizes) == 0


def test_other_arrays_of_the_same_kind_take_the_short_way(gemm: isamap.CompiledKernel) -> None:
    for seed in range(2, 5):
        given = arrays(seed)
        before = given["C"].copy()
        assert is_short(gemm, given)
        np.testing.assert_array_equal(given["C"], before + given["A"] @ given["B"])
        assert gemm(**given)["C"] is given["C"]


def test_whatever_differs_is_looked_at(gemm: isamap.CompiledKernel) -> None:
    given = arrays()
    read_only = given["C"].copy()
    read_only.flags.writeable = False
    raw = np.zeros(6 * 7 * 4 + 1, np.uint8)[1:]
    others: list[dict[str, Any]] = [
        {"A": given["A"].astype(np.float64)},
        {"A": given["A"].astype(">f4")},
        {"A": given["A"].T},
        {"A": np.asfortranarray(given["A"])},
        {"A": given["A"][:, :6]},
        {"A": given["A"].ravel()},
        {"A": np.zeros((6, 8), np.float32)[:, :7]},
        {"A": raw.view(np.float32).reshape(6, 7)},
        {"A": np.ma.masked_array(given["A"])},
        {"A": given["A"].tolist()},
        {"A": None},
        {"C": read_only},
        {"C": given["A"].ravel()[:30].reshape(6, 5)},  # shares memory
        {"D": given["A"]},
    ]
    for other in others:
        before = given["C"].copy()
        assert not is_short(gemm, given | other), other
        np.testing.assert_array_equal(given["C"], before)
    less = {"A": given["A"], "B": given["B"]}
    assert not is_short(gemm, less)
    assert not is_short(gemm, given, {"M": 6})


def test_rows_apart_are_known_by_their_strides(gemm: isamap.CompiledKernel) -> None:
    given = arrays(5)
    wide = np.zeros((6, 9), np.float32)
    wide[:, :7] = given["A"]
    given["A"] = wide[:, :7]
    before = given["C"].copy()
    assert not is_short(gemm, given)
    gemm(**given)
    np.testing.assert_array_equal(given["C"], before + given["A"] @ given["B"])
    again = given | {"A": wide.copy()[:, :7], "C": before.copy()}
    assert is_short(gemm, again)
    np.testing.assert_array_equal(again["C"], given["C"])


def test_each_size_that_is_open_has_a_short_way_of_its_own() -> None:
    opened = isamap.compile("gemm_f32", "generic-c", SIZES | {"M": "1..64@8"})
    for m in (6, 3, 6, 3):
        given = arrays()
        given |= {"A": given["A"][:m].copy(), "C": given["C"][:m].copy()}
        before = given["C"].copy()
        opened({"M": m}, **given)
        np.testing.assert_array_equal(given["C"], before + given["A"] @ given["B"])
        assert is_short(opened, given, {"M": m})
        assert not is_short(opened, given, {"M": 9 - m} if m == 3 else {"M": 5})
    with pytest.raises(isamap.IsamapError, match="outside of"):
        opened({"M": 65}, **given)


def test_scalars_are_passed_as_they_are_given() -> None:
    scaled = isamap.compile(SCALED, "generic-c", {"N": 33})
    x = np.arange(33, dtype=np.float32)
    for alpha, n in ((0.1, 3), (-2.0, -(1 << 31)), (3.4e38, 0)):
        y = np.empty(33, np.float32)
        scaled(X=x * 0 + 1, Y=y, alpha=alpha, n=n)
        assert is_short(scaled, {"X": x * 0 + 1, "Y": y, "alpha": alpha, "n": n})
        np.testing.assert_array_equal(y, np.float32(alpha) + np.float32(n))
    for wrong in ({"alpha": 1}, {"alpha": 1e39}, {"n": 1 << 31}, {"n": 2.0}, {"n": True}, {"n": 1 << 70}):
        assert not is_short(scaled, {"X": x, "Y": y, "alpha": 0.5, "n": 1} | wrong)
    with pytest.raises(isamap.IsamapError, match="`n` is i32"):
        scaled(X=x, Y=y, alpha=0.5, n=1 << 31)


def test_a_scalar_of_another_width_than_it_is_stored_in_is_rounded_each_time() -> None:
    kernel = isamap.compile(
        "kernel one(N, scalar s: tf32) { out Y: f32[N]; for n in N { Y[n] = f32(s); } }",
        "generic-c",
        {"N": 3},
    )
    for _ in range(3):
        y = np.empty(3, np.float32)
        kernel(Y=y, s=0.1)
        assert y.tolist() == [0.0999755859375] * 3


def test_several_threads_call_at_once() -> None:
    kernel = isamap.compile("softmax_f32", "generic-c", {"M": 40, "N": 50})
    expected: dict[int, Any] = {}
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        x = np.random.default_rng(number).standard_normal((40, 50)).astype(np.float32)
        y = np.empty_like(x)
        for _ in range(50):
            y[...] = 0
            kernel(x=x, y=y)
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        expected[number], results[number] = e / e.sum(1, keepdims=True), y

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 1, 2, 3]
    for number, y in results.items():
        np.testing.assert_allclose(y, expected[number], rtol=1e-5)


def test_bound_arrays_are_checked_once(gemm: isamap.CompiledKernel) -> None:
    given = arrays(7)
    call = gemm.bind(**given)
    before, product = given["C"].copy(), given["A"] @ given["B"]
    assert call()["C"] is given["C"]
    assert call()["C"] is given["C"]
    np.testing.assert_array_equal(given["C"], before + 2 * product)
    with pytest.raises(isamap.IsamapError, match="`A` is f32"):
        gemm.bind(**(given | {"A": given["A"].T}))
    apart = isamap.compile("gemm_f32", "generic-c", SIZES, isolate=True)
    with pytest.raises(isamap.IsamapError, match="runs in a process of its own"):
        apart.bind(**given)


# --- other libraries' arrays ------------------------------------------------------------------------------


class Foreign:
    """An array that numpy knows through DLPack alone."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_what_speaks_dlpack_is_used_where_it_lies(gemm: isamap.CompiledKernel) -> None:
    given = arrays(8)
    expected = given["C"] + given["A"] @ given["B"]
    gemm(**(given | {"A": Foreign(given["A"])}))
    np.testing.assert_array_equal(given["C"], expected)


def test_an_array_on_another_device_is_refused(gemm: isamap.CompiledKernel) -> None:
    class Far(Foreign):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("it lies on device 2")

    with pytest.raises(isamap.IsamapError, match="`A` cannot be used in place: it lies on device 2"):
        gemm(**(arrays() | {"A": Far(None)}))


def test_tensors_of_torch_are_used_where_they_lie(gemm: isamap.CompiledKernel) -> None:
    torch = pytest.importorskip("torch")
    given = {name: torch.from_numpy(array) for name, array in arrays(9).items()}
    expected = given["C"] + given["A"] @ given["B"]
    assert gemm(**given)["C"] is given["C"]
    assert torch.equal(given["C"], expected)
    assert is_short(gemm, given)
    weight = given["B"].clone().requires_grad_()
    assert not is_short(gemm, given | {"B": weight})
    with pytest.raises(isamap.IsamapError, match="requires"):
        gemm(**(given | {"B": weight}))
    with torch.no_grad():
        assert is_short(gemm, given | {"B": weight})
    turned = given["A"].T.contiguous().T
    assert not is_short(gemm, given | {"A": turned})
    assert not is_short(gemm, given | {"A": given["A"].double()})


def test_bf16_of_torch_is_bf16() -> None:
    torch = pytest.importorskip("torch")
    kernel = isamap.compile("gemm_bf16", "generic-c", SIZES)
    given = {n: torch.from_numpy(a).to(torch.bfloat16) for n, a in arrays().items()}
    kernel(**given)
    once = given["C"].clone()
    given["C"].zero_()
    assert is_short(kernel, given)
    given["C"] += once
    assert torch.equal(given["C"], (once + (given["A"].float() @ given["B"].float())).to(torch.bfloat16))
    assert not is_short(kernel, given | {"A": given["A"].to(torch.float16)})
