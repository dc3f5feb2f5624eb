"""Schedules that are well formed and say what is not so: replayed, each is refused, or performed as it says.

Numbers up to 2**63, loops over other axes, stages and pipelines that nothing asked for, lines moved:
none of them takes all memory, or ends in a traceback. A thousand are tried, some 60 of them in the fast tier.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from bounded import Bounded

BATCHES = 16
IN_A_BATCH = 63

_AVX2 = "map fma_ymm_f32 { i: n } (a = A[m, k], b = B[k, n]);"
_GEMM = "for m by 6 { for n by 16 { hold; for k by 1 { unroll m by 1 { unroll n by 8 { issue; } } } } }"
_CUBE = ("M=64", "N=64", "K=64")
_SIZES = "sizes K = 64, M = 64, N = 64"
# The words behind `compile`, the line of the sizes, and the nest.
BASES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("gemm_f32", "--hw", "x86-avx512", "-D", *_CUBE),
        _SIZES,
        (
            "map fma_zmm_f32 { i: n } (a = A[m, k], b = B[k, n]); for m by 6 { for n by 64 { hold; "
            "for k by 1 { unroll m by 1 { unroll n by 16 { issue; } } } } }"
        ),
    ),
    (
        ("gemm_f32", "--hw", "x86-avx2", "-D", "M=1..64@32", "N=32", "K=1..64@16"),
        "sizes K = 1..64@16, M = 1..64@32, N = 32",
        (
            f"{_AVX2} for m by 3 rest 2 1 {{ for n by 32 {{ hold; for k by 1 {{ "
            "unroll n by 8 { unroll m by 1 { issue; } } } } }"
        ),
    ),
    (
        ("gemm_bf16_f32", "--hw", "x86-amx", "-D", *_CUBE),
        _SIZES,
        (
            "map tdpbf16ps { m: m, n: n, k: k, p: k } (a = A[m, k], b = B[k, n]); "
            "choose N = 16, Q = 16, R = 16; "
            "stage b; for m by 32 { for n by 32 { hold; "
            "for k by 32 { unroll m by 16 { unroll n by 16 { issue; } } } } }"
        ),
    ),
    (
        ("gemm_f32", "--hw", "x86-avx2", "-D", *_CUBE, "--threads", "2"),
        _SIZES,
        f"{_AVX2} par m by 32 {{ {_GEMM} }}",
    ),
    (
        ("gemm_bias_relu_f32", "--hw", "generic-c", "-D", "M=16", "N=16", "K=16"),
        "sizes K = 16, M = 16, N = 16",
        (
            "map mac_f32 (a = A[m, k], b = B[k, n]); for m by 2 { for n by 6 { hold; fuse 0, 2; "
            "for k by 1 { unroll n by 1 { unroll m by 1 { issue; } } } } }"
        ),
    ),
    (
        ("gemm_f32", "--hw", "x86-avx2", "-D", *_CUBE),
        _SIZES,
        f"{_AVX2} for k by 32 {{ stage b; prefetch b ahead 1 into l1; {_GEMM} }}",
    ),
    (
        ("gemm_s8s8", "--hw", "systolic-16", "-D", *_CUBE),
        _SIZES,
        (
            "map matmul { m: m, n: n, k: k } (a = A[m, k], b = B[k, n]); stage a in spad at 0; "
            "stage b in spad at 4096; for m by 64 { for n by 16 { stage c in acc at 0; hold; "
            "for k by 64 { unroll k by 16 { unroll m by 16 { issue; } } } } }"
        ),
    ),
    (
        ("gemm_f32", "--hw", "x86-avx2", "-D", *_CUBE, "--packed", "B"),
        _SIZES,
        f"{_AVX2} stage b packed; {_GEMM}",
    ),
)
EXTRA = (
    "pipeline every 1 at 0 {};", "pipeline every {} at 0 1;", "pipeline every 3 at" + " 0" * 20 + ";",
    "stage a;", "stage b;", "stage c;", "stage a ahead {};", "stage b ahead 1;",
    "prefetch b ahead {} into l1;",
    "prefetch a ahead {} into l2;", "stage a in spad at {};", "stage c in acc at {};", "fuse {};", "hold;",
    "spread write c into m;", "choose N = {};", "for m by {} rest 1 {{",
)  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_LOOP = re.compile(r"(\w+) (\w+) by (\d+)( rest [\d ]+)?$")


@pytest.fixture(scope="module")
def isamap() -> Iterator[Bounded]:
    with Bounded() as running:
        yield running


@pytest.mark.parametrize("number", range(len(BASES)))
def test_the_schedules_that_the_lies_start_from_are_right(number: int, isamap: Bounded) -> None:
    words, sizes, nest = BASES[number]
    said = replayed(words, header(words, sizes) + whole(lines_of(nest)), isamap)
    assert said[0] == 0, said[1]


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_schedule_that_lies_is_refused_or_performed(batch: int, isamap: Bounded) -> None:
    codes: Counter[int] = Counter()
    for number in range(batch * IN_A_BATCH, (batch + 1) * IN_A_BATCH):
        words, sizes, nest = BASES[number % len(BASES)]
        text = header(words, sizes) + whole(lies(lines_of(nest), Random(number)))
        code, said = replayed(words, text, isamap)
        assert code in (0, 2, 3, 4, 5), f"number {number}: exit {code}\n{' '.join(words)}\n{text}\n{said}"
        codes[code] += 1
    assert codes[0] < IN_A_BATCH / 2, "most do not"


def replayed(words: tuple[str, ...], text: str, isamap: Bounded) -> tuple[int, str]:
    """Return the exit code, and what was said, of a compilation up to the emitted C."""
    more = ("--profile", "none", "--schedule", "x.schedule", "--stop-after", "emit")
    said = isamap.run(["compile", *words, *more], {"x.schedule": text.encode()})
    return said.code, said.text


def header(words: tuple[str, ...], sizes: str) -> str:
    return f"isamap schedule 1\nkernel {words[0]}\nmachine {words[2]}\n{sizes}\n"


def lines_of(nest: str) -> list[str]:
    """Return the nest's clauses and the heads of its loops; the ends of loops follow from these."""
    marked = re.sub(r"(map [^;]*;)", lambda m: m[1].replace("{", "<").replace("}", ">"), nest)
    parts = [part.strip() for part in re.findall(r"[^;{}]+[;{]", marked)]
    return [part.replace("<", "{").replace(">", "}") for part in parts]


def whole(lines: list[str]) -> str:
    """Return the nest of these clauses. The number of the statement is 1 where others are fused in, else 0."""
    ends = sum(line.endswith("{") and not line.startswith("map") for line in lines)
    statement = int(any(line.startswith("fuse") for line in lines))
    return f"\nnest {statement} {{\n" + "\n".join(lines) + "\n" + "}" * ends + "\n}\n"


def lies(lines: list[str], random: Random) -> list[str]:
    """Return one to three changes."""
    for _ in range(random.choice((1, 1, 2, 3))):
        lines = random.choice((_number, _number, _number, _order, _extra, _loop, _twice))(lines, random)
    return lines


def _value(random: Random, old: int) -> int:
    """Close to the old number, or far from every one that is meant."""
    return random.choice(
        (0, 1, 2, 3, old + 1, max(0, old - 1), 2 * old, 16 * old, 4096 * old, 2**20, 2**31 - 16, 2**31, 2**32,
         2**53, 10**17, 2**63 - 1, 2**63, random.randrange(100), random.randrange(10**6))
    )  # fmt: skip


def _number(lines: list[str], random: Random) -> list[str]:
    places = [(at, found) for at, line in enumerate(lines) for found in _NUMBER.finditer(line)]
    at, found = random.choice(places)
    old = lines[at]
    new = f"{old[: found.start()]}{_value(random, int(found[0]))}{old[found.end() :]}"
    return [*lines[:at], new, *lines[at + 1 :]]


def _order(lines: list[str], random: Random) -> list[str]:
    """Return two lines in each other's place."""
    lines = list(lines)
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def _extra(lines: list[str], random: Random) -> list[str]:
    at = random.randrange(1, len(lines))
    return [*lines[:at], random.choice(EXTRA).format(_value(random, 8)), *lines[at:]]


def _loop(lines: list[str], random: Random) -> list[str]:
    """Return a loop of another kind, over another axis, in other steps."""
    at = random.choice([i for i, line in enumerate(lines) if line.endswith("{") and " by " in line])
    found = _LOOP.match(lines[at].rstrip(" {"))
    assert found is not None
    head = (
        f"{random.choice(('for', 'unroll', 'par'))} {random.choice('mnk')} by {_value(random, int(found[3]))}"
    )
    if random.random() < 0.3:
        head += " rest " + " ".join(str(_value(random, 8)) for _ in range(random.randrange(1, 4)))
    return [*lines[:at], head + " {", *lines[at + 1 :]]


def _twice(lines: list[str], random: Random) -> list[str]:
    at = random.randrange(len(lines))
    return [*lines[:at], lines[at], *lines[at:]]
