"""Operations on single elements and sums of them, at the edges of types.

As people have reported them of compilers: what is computed, and what it is given.
"""

from __future__ import annotations

from math import inf, nan

from torch_given import Case, ramp, randn, torch

ELEMENTS: dict[str, Case] = {
    "floordiv neg": (
        lambda x: (x // -3, x % -3, torch.fmod(x, 3), torch.div(x, -3, rounding_mode="trunc")),
        lambda: ramp(9, dtype=torch.int32),
    ),
    "floordiv float": (
        lambda x: (x // 0.3, x % 0.3, torch.fmod(x, -0.3), torch.div(x, 0.7, rounding_mode="floor")),
        lambda: torch.tensor([1.0, -1.0, 0.9, inf, -inf, nan, 0.0, -0.0, 0.6]),
    ),
    "float // 0": (lambda x: (x // 0.0, x % 0.0, x / 0.0), lambda: torch.tensor([1.0, -1.0, 0.0, nan])),
    "truediv int": (lambda x: x / 2, lambda: ramp(5, dtype=torch.int32)),
    "uint8 wrap": (lambda x: (x + 200, x * 3, x - 1, -x), lambda: torch.arange(256, dtype=torch.uint8)),
    "int64": (
        lambda x: (x * x + x, x // 7, x >> 3, x << 2),
        lambda: torch.tensor([2**40, -(2**40), 2**62, 3]),
    ),
    "shift neg": (lambda x: (x >> 1, x << 1, x & 6, x | 1, x ^ 5, ~x), lambda: ramp(9, dtype=torch.int32)),
    "shift big": (
        lambda t: (t[0] << t[1], t[0] >> t[1]),
        lambda: (torch.tensor([1, -1, 5], dtype=torch.int32), torch.tensor([31, 31, 2], dtype=torch.int32)),
    ),
    "int pow": (lambda x: (x**2, x**3, torch.pow(2, x.abs())), lambda: ramp(9, dtype=torch.int32)),
    "abs intmin": (lambda x: (x.abs(), -x), lambda: torch.tensor([-(2**31), 5], dtype=torch.int32)),
    "round half": (
        lambda x: (torch.round(x), torch.floor(x), torch.ceil(x), torch.trunc(x), torch.frac(x)),
        lambda: torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 10000000000.0, nan, inf]),
    ),
    "round decimals": (lambda x: torch.round(x, decimals=2), lambda: randn(9)),
    "sign": (
        lambda x: (torch.sign(x), torch.sgn(x), torch.signbit(x), torch.copysign(x, -x)),
        lambda: torch.tensor([0.0, -0.0, nan, -3.0, inf]),
    ),
    "minmax nan": (
        lambda t: (torch.maximum(*t), torch.minimum(*t), torch.fmax(*t), torch.fmin(*t)),
        lambda: (torch.tensor([nan, 1.0, 2.0]), torch.tensor([1.0, nan, 3.0])),
    ),
    "clamp nan": (
        lambda x: (x.clamp(min=0), x.clamp(max=1), x.clamp(2, 1)),
        lambda: torch.tensor([nan, inf, -inf, 0.5]),
    ),
    "clamp int": (lambda x: (x.clamp(-2, 3), x.clamp(min=-1.5)), lambda: ramp(9, dtype=torch.int32)),
    "isnan": (
        lambda x: (x.isnan(), x.isinf(), x.isfinite(), x == x, x != x),
        lambda: torch.tensor([nan, inf, 1.0]),
    ),
    "argmax": (
        lambda x: (x.argmax(), x.argmax(1), x.argmin(0)),
        lambda: torch.tensor([[1.0, 3.0, 3.0], [nan, 2.0, 5.0]]),
    ),
    "max dim": (lambda x: x.max(1), lambda: torch.tensor([[1.0, 3.0, 3.0], [nan, 2.0, 5.0]])),
    "prod": (lambda x: (x.prod(), x.prod(1)), lambda: randn(3, 4)),
    "any all": (lambda x: (x.any(), x.all(1), (x > 0).sum(), x.any(0)), lambda: ramp(3, 4) > 2),
    "var": (lambda x: (x.var(), x.var(1, unbiased=False), x.std(0, keepdim=True)), lambda: randn(3, 4)),
    "var one": (lambda x: x.var(1), lambda: randn(3, 1)),
    "mean empty": (lambda x: (x.mean(0), x.sum(), x.prod(0)), lambda: randn(0, 3)),
    "index tensor": (lambda t: t[0][t[1]], lambda: (randn(5, 3), torch.tensor([0, -1, 4, 2]))),
    "atan2": (
        lambda t: torch.atan2(*t),
        lambda: (torch.tensor([0.0, -0.0, 1.0, -1.0, inf]), torch.tensor([-1.0, -1.0, 0.0, 0.0, -inf])),
    ),
    "log neg": (
        lambda x: (x.log(), x.sqrt(), x.rsqrt(), x.log2(), x.log10(), 1 / x),
        lambda: torch.tensor([-1.0, 0.0, -0.0, inf, nan, 1e-40]),
    ),
    "exp large": (
        lambda x: (x.exp(), x.sigmoid(), x.tanh(), x.exp2()),
        lambda: torch.tensor([-200.0, -90.0, 90.0, 200.0, nan, inf, -inf]),
    ),
    "denormals": (lambda x: (x * 0.5, x + x), lambda: torch.tensor([1e-40, -1e-42, 1.2e-38])),
    "pow edge": (
        lambda t: t[0] ** t[1],
        lambda: (
            torch.tensor([0.0, -1.0, -2.0, inf, nan, 1.0]),
            torch.tensor([0.0, inf, 3.0, 0.0, 0.0, nan]),
        ),
    ),
    "where scalars": (lambda x: torch.where(x > 0, 1.0, 0), lambda: randn(4)),
    "bool arith": (
        lambda x: (x + x, x * x, x & ~x, x.sum(), x.float().mean(), x.long()),
        lambda: ramp(5) > 0,
    ),
    "dtype f64 scalar": (
        lambda x: (x * torch.tensor(2.5, dtype=torch.float64), x + 1e300, x * 3),
        lambda: randn(3),
    ),
    "nan_to_num": (torch.nan_to_num, lambda: torch.tensor([nan, inf, -inf, 1.0])),
    "lerp": (
        lambda t: (
            torch.lerp(*t, 0.3),
            torch.addcmul(t[0], t[1], t[1], value=2),
            torch.addcdiv(t[0], t[1], t[1]),
        ),
        lambda: (randn(3), randn(3)),
    ),
    "rms": (lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-06), lambda: randn(2, 5)),
    "to int sat": (
        lambda x: (x.to(torch.uint8), x.to(torch.int16)),
        lambda: torch.tensor([0.0, 3.7, 200.0, 100.2]),
    ),
    "big int to f32": (
        lambda x: x.float(),
        lambda: torch.tensor([2**24 + 1, 2**31 - 1, -(2**31)], dtype=torch.int32),
    ),
    "mixed in out": (
        lambda t: {"a": t["x"] + 1, "b": [t["y"] * 2, (t["x"],)]},
        lambda: {"x": randn(2), "y": randn(3)},
    ),
    "u8 add to i16": (lambda x: (x + x).to(torch.int16), lambda: torch.tensor(128, dtype=torch.uint8)),
    "lshift": (
        lambda t: torch.bitwise_left_shift(*t),
        lambda: (torch.tensor([1000, -5, 7]), torch.tensor([3, 2, 5])),
    ),
    "ldexp": (lambda t: torch.ldexp(*t), lambda: (torch.ones(3, 4, dtype=torch.bool), randn(3, 4).half())),
    "to uint8 neg": (lambda x: (x * 3).trunc().to(torch.int32).to(torch.uint8), lambda: randn(20)),
    "byte": (lambda x: x.byte(), lambda: torch.tensor([1.5, 0.2, 200.7, 255.0])),
    "bf16 chain": (lambda x: ((x * 1.1 + 0.3) * x - x / 3).exp().sum(), lambda: randn(64).bfloat16()),
    "hardswish back": (
        lambda t: torch.ops.aten.hardswish_backward(*t) + 1,
        lambda: (randn(10, 20).bfloat16(), randn(10, 20).bfloat16() * 3),
    ),
    "log1p argmax": (lambda x: torch.argmax(torch.log1p(x)), lambda: torch.tensor([-2.0, 100.0])),
    "clamp inf": (lambda x: torch.clamp(torch.clamp(x, -0.5, inf), -inf, 0.5), lambda: randn(9)),
    "argmax min": (
        lambda t: torch.min(t[1], t[0].argmax(3)).min(3).values,
        lambda: (torch.rand(3, 4, 2, 1).int(), torch.rand(2, 2, 1, 4, 1).int()),
    ),
    "max dim transposed": (lambda t: (t[0] + t[1]).max(dim=1), lambda: (randn(8, 8).t(), randn(8, 8))),
    "nested where nan": (
        lambda x: torch.where(x > 0, torch.log(x), torch.where(x < -1, x.sqrt(), x)),
        lambda: torch.tensor([-4.0, -0.5, 0.0, 2.0, nan]),
    ),
    "div modes int8": (
        lambda x: (
            torch.div(x, 3, rounding_mode="floor"),
            torch.div(x, -3, rounding_mode="trunc"),
            x % 5,
            torch.remainder(x, -5),
        ),
        lambda: torch.arange(-128, 128, dtype=torch.int8),
    ),
    "int min // -1": (
        lambda x: x // torch.tensor(-1, dtype=torch.int32),
        lambda: torch.tensor([-(2**31) + 1, 5], dtype=torch.int32),
    ),
    "u8 - promotion": (
        lambda t: (t[0] - t[1], t[0] * t[1], t[0] > t[1]),
        lambda: (torch.tensor([0, 1, 255], dtype=torch.uint8), torch.tensor([1, -1, 100], dtype=torch.int8)),
    ),
    "bool - float": (
        lambda t: (t[0] * t[1], t[0] + 1, t[0] / 2, t[0] | (t[1] > 0)),
        lambda: (randn(4) > 0, randn(4)),
    ),
    "i64 + f32 scalar tensor": (
        lambda t: (t[0] + t[1], t[0] * 2.5, t[1] + 2**40),
        lambda: (torch.arange(4), torch.tensor(1.5)),
    ),
    "bf16 + f32 0d": (
        lambda t: (t[0] + t[1], t[0] * t[2]),
        lambda: (randn(4).bfloat16(), torch.tensor(1.01), torch.tensor([1.01])),
    ),
    "float compare int large": (
        lambda t: (t[0] == t[1], t[0] < t[1]),
        lambda: (torch.tensor([2**24 + 1, 2**24]), torch.tensor([float(2**24), float(2**24)])),
    ),
    "mean bf16": (
        lambda x: (x.mean(0), x.sum(), x.mean(dtype=torch.float32)),
        lambda: randn(300, 4).bfloat16(),
    ),
    "sum i8": (
        lambda x: (x.sum(), x.sum(0, dtype=torch.int8), x.float().mean()),
        lambda: torch.full((300, 2), 100, dtype=torch.int8),
    ),
    "std large mean": (lambda x: (x.std(1), x.var(1)), lambda: randn(3, 100) + 10000.0),
    "rsub etc": (
        lambda x: (1 - x, torch.rsub(x, 2, alpha=3), 2 / x, 2**x, torch.reciprocal(x), -x, +x, abs(x)),
        lambda: randn(5),
    ),
    "hypot etc": (
        lambda t: (
            torch.hypot(*t),
            torch.logaddexp(*t),
            torch.logaddexp2(*t),
            torch.nextafter(*t),
            torch.heaviside(*t),
            torch.xlogy(t[0].abs(), t[1].abs()),
            torch.fmod(*t),
        ),
        lambda: (randn(5), randn(5)),
    ),
    "logical": (
        lambda t: (torch.logical_and(*t), torch.logical_xor(*t), torch.logical_not(t[0])),
        lambda: (torch.tensor([0.0, 1.0, nan]), torch.tensor([1.0, 0.0, 0.0])),
    ),
    "isclose": (
        lambda t: (torch.isclose(*t), torch.eq(*t), torch.ne(*t)),
        lambda: (torch.tensor([1.0, nan, inf]), torch.tensor([1.0000001, nan, inf])),
    ),
    "zero-size reduce": (lambda x: (x.sum(1), x.mean(1), x.any(1), x.all()), lambda: randn(2, 0)),
    "f64 exact": (
        lambda x: (x.sin(), x.exp(), x.erf(), x.tanh(), x.log1p(), x.rsqrt(), x.cos()),
        lambda: randn(20).double().abs() * 10,
    ),
    "sin large": (
        lambda x: (x.sin(), x.cos()),
        lambda: torch.tensor([100000.0, 100000000.0, -3000000000.0, 1e20, 2.0**30]),
    ),
    "i32 trunc to float div": (
        lambda t: (t[0] / t[1], torch.true_divide(t[0], 3), t[0].float() / t[1]),
        lambda: (ramp(6, dtype=torch.int32), torch.arange(1, 7, dtype=torch.int32)),
    ),
    "mod float zero": (
        lambda t: (torch.remainder(*t), torch.fmod(*t), t[0] // t[1]),
        lambda: (torch.tensor([5.0, -5.0, 0.0, inf, 3.0]), torch.tensor([0.0, 3.0, 0.0, 2.0, -inf])),
    ),
    "pow ints neg": (
        lambda x: (x.float() ** (-1), x.float() ** 0.5, x**0, x.float() ** 2.0, x.float() ** (-2)),
        lambda: torch.tensor([0, 1, -2, 3]),
    ),
    "ge nan chain": (lambda x: (x > 0) & (x < 1) | ~(x == x), lambda: torch.tensor([nan, 0.5, 2.0])),
}
