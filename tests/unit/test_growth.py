"""Reading takes work in proportion to the text: of one that is twice as long at most 2.6 times as many calls.

A quadratic part that outweighs all else would make it 4 times as many.

Calls of functions are counted, no time: they are the same at each run, on whatever computer.
"""

from __future__ import annotations

import contextlib
import gc
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import pytest

from isamap.cli import main
from isamap.hw_specs import machine_path

MOST = 2.6
_HEAD = "in A: f32[M]; inout C: f32[M];"


def kernel(body: str, head: str = _HEAD, params: str = "M") -> str:
    return f"kernel k({params}) {{ {head} {body} }}"


def repeated(text: str, count: int) -> str:
    """Return the text so many times, with the number in the place of each `#`."""
    return "".join(text.replace("#", str(number)) for number in range(count))


def described(more: str, at: str = "") -> str:
    """Return a machine with more text behind a line, or at its end."""
    text = machine_path("model-f32").read_text(encoding="utf-8")
    return text.replace(at, at + more, 1) if at else text.rstrip("\n") + "\n" + more


KERNELS: dict[str, Callable[[int], str]] = {
    "statements": lambda n: kernel(f"for m in M {{ {repeated('C[m] += A[m]; ', n)} }}"),
    "statements of several buffers": lambda n: kernel(
        f"for m in M {{ {repeated('C#[m] += A[m]; ', n)} }}",
        "in A: f32[M]; " + repeated("inout C#: f32[M]; ", n),
    ),
    "statements that use each other": lambda n: kernel(
        f"for m in M {{ T0[m] = A[m]; {''.join(f'T{i + 1}[m] = T{i}[m]; ' for i in range(n))} }}",
        _HEAD + repeated("temp T#: f32[M]; ", n + 1),
    ),
    "statements that clash": lambda n: kernel(f"for m in M {{ {repeated('C[0] = A[m]; ', n)} }}"),
    "loops": lambda n: kernel(repeated("for m in M { C[m] += A[m]; } ", n)),
    "lets": lambda n: kernel(f"{repeated('let v# = M + #; ', n)} {_HEAD} for m in M {{ C[m] += A[m]; }}", ""),
    "operands": lambda n: kernel("for m in M { C[m] += A[m]; }", _HEAD + repeated("in B#: f32[M]; ", n)),
    "unknown names": lambda n: kernel(f"for m in M {{ {repeated('C[m] += B#[m]; ', n)} }}"),
    "wrong types": lambda n: kernel(
        f"for m in M {{ {repeated('C[m] += B[m]; ', n)} }}", f"in B: bf16[M]; {_HEAD}"
    ),
    "axes": lambda n: kernel(f"for m in M, {', '.join(f'x{i} in 2' for i in range(n))} {{ C[m] += A[m]; }}"),
    "conditions": lambda n: (
        f"kernel k(M) where {', '.join(f'M >= {i}' for i in range(n))} "
        f"{{ {_HEAD} for m in M {{ C[m] += A[m]; }} }}"
    ),
}

_INSTRUCTION = """  - semantics: |
      instruction more_#(scalar v: f32) {
        out z: f32 @ reg;
        z = v;
      }
    emit: semantics
    cost: {unit: scalar, interval_cycles: 1, latency_cycles: 1}
    source: abstract
"""

MACHINES: dict[str, Callable[[int], str]] = {
    "instructions": lambda n: described(repeated(_INSTRUCTION, n)),
    "instructions whose text is wrong": lambda n: described(
        repeated(_INSTRUCTION.replace("z = v", "z v"), n)
    ),
    "instructions whose unit is unknown": lambda n: described(
        repeated(_INSTRUCTION.replace(": scalar", ": sc#"), n)
    ),
    "unknown keys": lambda n: described(repeated("key#: 1\n", n)),
    "sources": lambda n: described(repeated("  s#: text\n", n), "sources:\n"),
    "memories": lambda n: described(repeated("  memory m#: addressable();\n", n), "language: |\n"),
    "links": lambda n: described(
        repeated("  - {from: mem, to: reg, bandwidth_bytes_per_ns: 64, shared: false, source: s#}\n", n),
        "links:\n",
    ),
}

_NEST = "{ map mac_f32 (a = A[m, k], b = B[k, n]); for m by 1 { for n by 1 { hold; for k by 1 { issue; }}}}\n"
_HEADER = "isamap schedule 1\nkernel gemm_f32\nmachine generic-c\nsizes K = 8, M = 8, N = 8\n"

SCHEDULES: dict[str, Callable[[int], str]] = {
    "nests": lambda n: _HEADER + repeated(f"nest # {_NEST}", n),
    "stages": lambda n: _HEADER + f"nest 0 {_NEST.replace('hold;', repeated('stage a; ', n) + 'hold;')}",
    "prefetches": lambda n: (
        _HEADER + f"nest 0 {_NEST.replace('hold;', repeated('prefetch a ahead 1 into l1; ', n) + 'hold;')}"
    ),
    "pieces of a rest": lambda n: _HEADER + f"nest 0 {_NEST.replace('m by 1', 'm by 1 rest ' + '1 ' * n)}",
    "versions": lambda n: repeated(f"{_HEADER}nest 0 {_NEST}", n),
    "comments": lambda n: _HEADER + "# nothing\n" * n + f"nest 0 {_NEST}",
}

BUFFERS: dict[str, Callable[[int], str]] = {
    "rows": lambda n: "id,lower,upper,size\n" + repeated("b#,#,1000000,4\n", n),
    "wrong rows": lambda n: "id,lower,upper,size\n" + repeated("b#,x,1,4\n", n),
    "columns": lambda n: "id,lower,upper,size," + repeated("c#,", n) + "\n",
}


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("what", KERNELS)
def test_a_kernel_with_twice_as_many(what: str, tmp_path: Path) -> None:
    words = ["compile", "x.ir", "--hw", "generic-c", "--stop-after", "parse"]
    assert growth(words, "x.ir", KERNELS[what], tmp_path) < MOST


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("what", MACHINES)
def test_a_machine_with_twice_as_many(what: str, tmp_path: Path) -> None:
    assert (
        growth(["hw", "check", "--no-calls", "model-f32.yaml"], "model-f32.yaml", MACHINES[what], tmp_path)
        < MOST
    )


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("what", SCHEDULES)
def test_a_schedule_with_twice_as_many(what: str, tmp_path: Path) -> None:
    words = ["compile", "gemm_f32", "--hw", "generic-c", "-D", "M=8", "N=8", "K=8", "--profile", "none"]
    words += ["--stop-after", "schedule", "--schedule", "x.schedule"]
    assert growth(words, "x.schedule", SCHEDULES[what], tmp_path) < MOST


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("what", BUFFERS)
def test_buffers_with_twice_as_many(what: str, tmp_path: Path) -> None:
    assert growth(["memplan", "b.csv", "--capacity", "1"], "b.csv", BUFFERS[what], tmp_path) < MOST


def growth(words: Sequence[str], name: str, text: Callable[[int], str], folder: Path) -> float:
    """Return how many times as many calls it takes to read twice as much, beside what any such text takes."""
    calls(words, name, text(2), folder)  # what is imported and kept once
    least, few, many = (calls(words, name, text(n), folder) for n in (2, 22, 42))
    return (many - least) / max(1, few - least)


def calls(words: Sequence[str], name: str, text: str, folder: Path) -> int:
    """Return how many functions are called while a command reads a text."""
    (folder / name).write_text(text, encoding="utf-8")
    count = 0

    def count_call(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    printed = io.StringIO()
    gc.collect()  # what others left behind is not collected meanwhile
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        sys.setprofile(count_call)
        try:
            code = main(words)
        finally:
            sys.setprofile(None)
    assert code != 70, printed.getvalue()
    return count
