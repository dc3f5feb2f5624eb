"""No input of any reader takes all memory, or ends in a traceback: changed at random, it is read or refused.

The fast tier tries a thousand over all readers, more of those that read fast; the others follow with texts of
all sizes. `ISAMAP_MUTATED=1000` raises how many these are for each reader.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from bounded import Bounded
from fuzz import readers as fuzzed
from properties import mutated_inputs as inputs

MORE = int(os.environ.get("ISAMAP_MUTATED", "200"))
LARGEST = 1500
"""Bytes of the texts that the fast tier changes."""
FEW = 40
"""Inputs of each reader of `fuzz.readers` in the fast tier."""


@pytest.fixture(scope="module")
def isamap() -> Iterator[Bounded]:
    with Bounded() as running:
        yield running


SCHEDULES = {
    ("compile", "gemm_f32", "--hw", "generic-c", "-D", "M=16", "N=16", "K=16"): """isamap schedule 1
kernel gemm_f32
machine generic-c
sizes K = 16, M = 16, N = 16

nest 0 {
  map mac_f32 (a = A[m, k], b = B[k, n]);
  stage b;
  for m by 3 {
    for n by 3 {
      hold;
      for k by 1 {
        unroll n by 1 {
          unroll m by 1 {
            issue;
          }
        }
      }
    }
  }
}
""",
    ("compile", "gemm_f32", "--hw", "generic-c", "-D", "M=1..64@32", "N=32", "K=16"): """isamap schedule 1
kernel gemm_f32
machine generic-c
sizes K = 16, M = 1..64@32, N = 32

nest 0 {
  map mac_f32 (a = A[m, k], b = B[k, n]);
  for m by 2 rest 1 {
    for n by 4 {
      hold;
      for k by 1 {
        unroll m by 1 {
          unroll n by 1 {
            issue;
          }
        }
      }
    }
  }
}
""",
}

READERS: dict[str, Callable[[Random], inputs.Case]] = {
    "kernel": inputs.kernel_case,
    "machine": inputs.machine_case,
    "schedule": lambda random: inputs.schedule_case(random, SCHEDULES),
    "profile": lambda random: inputs.profile_case(random, inputs.profile_text()),
    "buffers": inputs.buffers_case,
    "sizes": inputs.rows_case,
}
BY_FUNCTION = [name for name in fuzzed.READERS if name not in READERS]
"""Readers of `fuzz.readers` that are called alone, as their commands do much else."""
# Readers that the fast tier gives short texts, and how many inputs each gets there.
SHORT: dict[str, Callable[[Random], inputs.Case]] = {
    **READERS,
    "kernel": lambda random: inputs.kernel_case(random, LARGEST),
    "machine": lambda random: inputs.machine_case(random, LARGEST),
}
FAST = {"kernel": 120, "machine": 60, "schedule": 60, "profile": 60, "buffers": 300, "sizes": 40}


@pytest.mark.parametrize("reader", READERS)
def test_a_changed_input_is_read_or_refused(reader: str, isamap: Bounded) -> None:
    try_all(SHORT[reader], range(FAST[reader]), isamap)


@pytest.mark.exhaustive
@pytest.mark.parametrize("reader", READERS)
def test_a_changed_input_of_any_size_is_read_or_refused(reader: str, isamap: Bounded) -> None:
    try_all(READERS[reader], range(1000, 1000 + MORE), isamap)


@pytest.mark.parametrize("reader", BY_FUNCTION)
def test_a_reader_takes_or_refuses_a_changed_input(reader: str, isamap: Bounded) -> None:
    read_all(reader, range(FEW), isamap)


@pytest.mark.exhaustive
@pytest.mark.parametrize("reader", BY_FUNCTION)
def test_a_reader_takes_or_refuses_many_changed_inputs(reader: str, isamap: Bounded) -> None:
    read_all(reader, range(1000, 1000 + 5 * MORE), isamap)


def read_all(reader: str, numbers: Sequence[int], isamap: Bounded) -> None:
    """Have a reader read inputs of which some are changed, once or twice."""
    if reader == "onnx":
        pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")
    codes: Counter[int] = Counter()
    given = fuzzed.seeds(reader, LARGEST)
    assert given
    for number in numbers:
        random = Random(number)
        data = random.choice(given)
        for _ in range(random.randrange(3)):
            data = fuzzed.READERS[reader].changed(data, random)
        said = isamap.read(reader, data)
        codes[said.code] += 1
        assert said.code in (0, 1, 2, 3), f"number {number}: exit {said.code}\n{data!r}\n{said.text}"
    assert codes[0] > 0
    assert reader == "opened" or len(codes) > 1, "a few changes make an input wrong"


def try_all(draw: Callable[[Random], inputs.Case], numbers: Sequence[int], isamap: Bounded) -> None:
    codes: Counter[int] = Counter()
    for number in numbers:
        case = draw(Random(number))
        said = isamap.run(case.words, case.files)
        codes[said.code] += 1
        assert said.code != 70, f"number {number}: {' '.join(case.words)}\n{case.files}\n{said.text}"
        assert said.code in (0, 2, 3, 4), f"number {number}: exit {said.code}\n{said.text}"
    assert codes[2] > 0
    assert codes[0] > 0, "a few changes leave an input right"


@pytest.mark.parametrize("reader", READERS)
def test_a_text_in_another_coding_says_so(reader: str, isamap: Bounded) -> None:
    case = READERS[reader](Random(1))
    (name,) = case.files
    said = isamap.run(case.words, {name: "isamap".encode("utf-16")})
    assert said.code == 2
    assert re.search(r"UTF-8", said.text)


_SCHEDULE = ("schedule", "gemm_f32", "--hw", "generic-c", "-D", "M=4", "N=4", "K=4", "--heuristic", "greedy")


@pytest.mark.parametrize(
    "words",
    [
        ("fmt", "{}.ir"),
        ("hw", "check", "{}.yaml"),
        ("compile", *_SCHEDULE[1:8], "--profile", "none", "--schedule", "{}.schedule"),
        (*_SCHEDULE, "--profile", "{}.json"),
        (*_SCHEDULE[:4], "--profile", "none", "--rows", "{}.csv"),
        ("memplan", "{}.csv", "--capacity", "64"),
    ],
    ids=READERS,
)
def test_a_pipe_and_a_device_are_refused_and_not_waited_for(
    words: tuple[str, ...], isamap: Bounded, tmp_path: Path
) -> None:
    suffix = Path(next(word for word in words if "{" in word)).suffix
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"zeros{suffix}").symlink_to("/dev/zero")
    for name in ("pipe", "zeros"):
        said = isamap.run([word.format(tmp_path / name) for word in words])
        assert (said.code, "it is not a regular file" in said.text) == (2, True), said.text


@pytest.mark.parametrize("name", ["x" * 5000 + ".yaml", "a\\0b.yaml"])
def test_what_is_no_name_of_a_file_is_not_extended(name: str, isamap: Bounded) -> None:
    text = f'isamap: 1\nname: m\nsummary: s\nextends: "{name}"\n'
    said = isamap.run(["hw", "check", "--no-calls", "m.yaml"], {"m.yaml": text.encode()})
    assert said.code == 2
    assert "extends-unknown" in said.text


def test_what_takes_more_memory_than_there_is_ends_as_such(isamap: Bounded) -> None:
    text = b"kernel k(M) { inout C: f32[M]; for m in M { " + b"C[m] = 0; " * 9000 + b"} }"
    with Bounded(memory_bytes=1 << 20) as small:
        said = small.run(["fmt", "x.ir"], {"x.ir": text})
    assert (said.code, "error[out-of-memory]" in said.text) == (5, True)
    assert isamap.run(["fmt", "x.ir"], {"x.ir": text}).code == 0
