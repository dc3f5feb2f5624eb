"""Compare what commands emit with the digests recorded here: changes of structure must change no output.

    python tests/goldens/outputs.py                      compare 60 commands with few.txt
    python tests/goldens/outputs.py --all                compare 600 with all.txt, CP-SAT among them
    python tests/goldens/outputs.py --record             write the file anew: read its difference
    python tests/goldens/outputs.py --times PYTHON       time 20 here and by another build, in alternation

few.schedules holds the schedules of the 60, which tell a changed decision from a changed printer. A line of
few.txt or all.txt is a digest and a command:

    3f1c29d0a7b85e64 compile gemm_f32 --hw x86-avx2 -D K=37 M=17 N=50 --heuristic greedy

The digest covers C without comments and blank lines, headers, schedules, and encoded programs. A refused
command has its exit code and the code of its first diagnostic instead. Commands run without the cache. CP-SAT
stops by its own measure of effort, which no load changes. PYTHON is the interpreter of an environment with
another build; the exit code is 1 where a command takes more than 5 % longer here. Compared are the least
processor times of five runs, in processes of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from difflib import unified_diff
from functools import cache
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]

from isamap.driver.matrix import sizes_for  # noqa: E402 - the tree of this file comes first
from isamap.driver.request import Size  # noqa: E402 - as above
from isamap.kernels import kernel_path  # noqa: E402 - as above
from isamap.source import Source  # noqa: E402 - as above

GREEDY = "--heuristic greedy"
FORMS = ("", "", "--threads 2", "open", "packed")
"""How a kernel is compiled. `open` leaves one size open, `packed` packs the last matrix."""

SIZES = {
    "M": 37,
    "N": 50,
    "K": 48,
    "C": 19,
    "H": 14,
    "W": 13,
    "R": 3,
    "S": 3,
    "T": 3,
    "L": 4,
    "D": 16,
    "NNZ": 40,
}
"""Of axes, so that tiles, unrolled loops and tails are all there; `sizes_for` gives the others."""

FEW_KERNELS = (
    "gemm_f32", "gemm_bf16_f32", "gemm_u8s8", "gemm_s8s8_requant", "conv2d_nhwc", "conv2d_nchw",
    "depthwise_separable", "softmax_f32", "attention", "gru", "lstm_s8", "layer_norm_f32", "csr_f32",
    "gemm_w4_f32", "linear_gelu_f32",
)  # fmt: skip
LATER_KERNELS = ("gemm_q4_0", "gemm_q4_k", "gemm_q8_0")
"""Kernels that are younger than all.txt. They join its commands when it is recorded anew."""

FEW_MACHINES = ("x86-avx2", "generic-c", "x86-avx512-vnni", "aarch64-sve2", "riscv-rvv", "x86-amx")
ALL_MACHINES = (
    *FEW_MACHINES, "x86-avx512", "edge-npu", "aarch64-neon", "power10-mma", "loongarch-lasx", "gemmini",
    "vta", "vector-dsp", "x86-avx512-bf16", "systolic-16", "matmul-16x16x16", "aarch64-sme",
    "wasm-simd128", "s390x-vector",
)  # fmt: skip
PROGRAMS = (
    "compile gemm_s8s8 --hw gemmini -D K=48 M=32 N=40 --emit program",
    "compile gemm_s8s8 --hw edge-npu -D K=64 M=64 N=96 --emit program",
    "compile gemm_s8s8 --hw edge-npu -D K=100 M=70 N=90 --emit assembly",
    "compile gemm_s8_blocks.ir --hw vta -D M=16 N=2 K=3 --emit program",
    "compile gemm_s8s8 --hw vector-dsp -D K=64 M=64 N=64 --emit assembly",
    "compile gemm_s8s8 --hw gemmini -D K=32 M=32 N=32 --emit commands",
)
MODEL_MACHINES = ("x86-avx2", "x86-avx512-vnni", "generic-c", "aarch64-neon")
TIMED = 20
ROUNDS = 5
SLOWER = 1.05

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
OUTPUTS = (".c", ".h", ".schedule")


def list_kernels() -> list[str]:
    """Return the names of the shipped kernels that the files know."""
    names = {path.stem for path in (HERE.parent.parent / "kernels").glob("*.ir")}
    return sorted(names.difference(LATER_KERNELS))


def few_commands() -> list[str]:
    """Return the 60 commands: 44 of kernels, 10 of models, 6 of programs."""
    turns, count = range(3), len(FEW_MACHINES)
    cells = [(k, FEW_MACHINES[(i + turn) % count]) for turn in turns for i, k in enumerate(FEW_KERNELS)]
    kernels = [f"{compile_kernel(k, m, i)} {GREEDY}" for i, (k, m) in enumerate(cells[:44])]
    return [*kernels, *(f"{command} {GREEDY}" for command in (*model_commands(1), *PROGRAMS))]


def all_commands() -> list[str]:
    """Return the 600 commands: those of `few_commands`, and more machines, every fourth by CP-SAT."""
    first = few_commands()
    machines = [ALL_MACHINES[(7 * i) % len(ALL_MACHINES)] for i in range(len(ALL_MACHINES))]
    cells = [
        (kernel, machines[(i + 3 * turn) % len(machines)])
        for turn in range(7)
        for i, kernel in enumerate(list_kernels())
    ]
    commands = [
        f"{compile_kernel(kernel, machine, i)} {'--limit 20' if i % 4 == 0 else GREEDY}"
        for i, (kernel, machine) in enumerate(cells)
    ]
    models = [f"{command} --limit 20" for command in model_commands(3)]
    return list(dict.fromkeys([*first, *models, *commands]))[:600]


def model_commands(machines: int) -> Iterator[str]:
    """Yield the commands that compile the models, each on so many machines."""
    from golden_models import MODELS

    for i, name in enumerate(MODELS):
        for turn in range(machines):
            yield f"compile {name}.onnx --hw {MODEL_MACHINES[(i + turn) % len(MODEL_MACHINES)]}"


def compile_kernel(kernel: str, machine: str, index: int) -> str:
    """Return the command of a kernel in the form that its index draws."""
    source, valid = read_kernel(kernel)
    sizes = {name: str(SIZES.get(name, value)) for name, value in valid.items()}
    form = FORMS[index % len(FORMS)]
    if form == "open" and sizes:
        sizes[next(iter(sizes))] = "1..200@40"
    if form == "packed":
        inputs = re.findall(r"^\s*in ([A-Z]\w*): \w+\[\w+,", source.text, re.MULTILINE)
        form = f"--packed {inputs[-1]}" if inputs else ""
    given = "".join(f" {name}={value}" for name, value in sizes.items())
    words = [
        "compile",
        kernel,
        "--hw",
        machine,
        f"-D{given}" if given else "",
        "" if form == "open" else form,
    ]
    return " ".join(filter(None, words))


@cache
def read_kernel(kernel: str) -> tuple[Source, Mapping[str, Size]]:
    """Return a shipped kernel and sizes that it accepts."""
    source = Source(kernel, kernel_path(kernel).read_text(encoding="utf-8"))
    return source, sizes_for(source)[0]


def emit(command: str) -> tuple[str, str]:
    """Return the digest of what a command emits in a new folder, and its schedules; or its refusal, and nothing."""
    os.environ["ISAMAP_PROFILE"] = "none"  # what was measured on this computer changes prices
    from isamap.cli import main

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_inputs(Path())
        words = [*shlex.split(command), "--no-cache", "-o", "out", "--json"]
        with (
            contextlib.redirect_stdout(io.StringIO()) as said,
            contextlib.redirect_stderr(io.StringIO()) as errors,
        ):
            code = main(words)
        if code:
            return f"exit-{code}:{first_code(said.getvalue() + errors.getvalue())}", ""
        return digest_of_files(Path("out")), text_of_files(Path("out"), (".schedule",)).decode()


def write_inputs(folder: Path) -> None:
    """Write to a folder the files that commands name."""
    from golden_models import write_models

    write_models(folder)
    name = "gemm_s8_blocks.ir"
    (folder / name).write_bytes((HERE.parent.parent / "docs" / "examples" / name).read_bytes())


def first_code(said: str) -> str:
    """Return the code of the first diagnostic in what a command said."""
    found = re.search(r'"code": "([\w-]+)"|error\[([\w-]+)\]', said)
    return next(filter(None, found.groups()), "none") if found else "none"


def digest_of_files(place: Path) -> str:
    """Return sixteen digits of the emitted files, without what changes no output."""
    text = text_of_files(place, OUTPUTS)
    assert text, "a command that succeeds emits something"
    return hashlib.sha256(text).hexdigest()[:16]


def text_of_files(place: Path, suffixes: Sequence[str]) -> bytes:
    """Return the emitted files with such suffixes, each behind a line `=== NAME`; a single file has any suffix.

    Comments of C and blank lines are left out, and the lines of a schedule by which it knows its kernel and machine:
    a comment in a description changes them.
    """
    found: list[bytes] = []
    if place.is_file():
        return b"=== out\n" + place.read_bytes() if suffixes == OUTPUTS else b""
    for path in sorted(place.rglob("*")):
        if not path.is_file() or path.suffix not in suffixes:
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".schedule":
            left_out = ("#", "question ", "digest ")
            lines = [line for line in text.splitlines() if not line.lstrip().startswith(left_out)]
        else:
            lines = [line.rstrip() for line in COMMENT.sub("", text).splitlines() if line.strip()]
        found.append("\n".join([f"=== {path.relative_to(place)}", *lines, ""]).encode())
    return b"".join(found)


def record(commands: Sequence[str], jobs: int) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each command with its digest and schedules, in the given order."""
    with ProcessPoolExecutor(jobs) as pool:
        yield from zip(commands, pool.map(emit, commands), strict=True)


def compare(path: Path, commands: Sequence[str], jobs: int) -> int:
    """Print the commands whose outputs differ from those of a file, and return the exit code."""
    recorded, schedules = read(path), read_schedules(path.with_suffix(".schedules"))
    missing = [command for command in commands if command not in recorded]
    differing = 0
    for command, (found, chosen) in record([c for c in commands if c in recorded], jobs):
        if found != recorded[command]:
            differing += 1
            print(f"{recorded[command]} -> {found} isamap {command}", flush=True)
            for line in unified_diff(
                schedules.get(command, chosen).splitlines(), chosen.splitlines(), lineterm="", n=1
            ):
                print(f"    {line}", flush=True)
    for command in missing:
        print(f"not recorded: isamap {command}")
    print(f"{len(commands) - differing - len(missing)} of {len(commands)} as recorded")
    return 1 if differing or missing else 0


def read_schedules(path: Path) -> dict[str, str]:
    """Return the recorded schedules by command; none where there is no such file."""
    if not path.is_file():
        return {}
    parts = path.read_text(encoding="utf-8").split("$ isamap ")[1:]
    return {command: text for command, _, text in (part.partition("\n") for part in parts)}


def read(path: Path) -> dict[str, str]:
    """Return the digests of a file by command."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {command: found for found, _, command in (line.partition(" ") for line in lines)}


def write(path: Path, lines: Iterable[tuple[str, tuple[str, str]]]) -> int:
    """Write digests and commands to a file, with few.txt also few.schedules, and return the exit code."""
    found = list(lines)
    path.write_text("".join(f"{number} {command}\n" for command, (number, _) in found), encoding="utf-8")
    if path.name == "few.txt":
        text = "".join(f"$ isamap {command}\n{chosen}" for command, (_, chosen) in found)
        path.with_suffix(".schedules").write_text(text, encoding="utf-8")
    print(f"wrote {path.name}: git diff shows what differs")
    return 0


def time_builds(other: str, commands: Sequence[str]) -> int:
    """Print processor times of commands here and by another build, in alternation, and return the exit code.

    Of the commands, `TIMED` are compared, spread over all. A command that either build refuses is named and
    replaced by another, for a refusal takes no time that says anything.
    """
    compared: list[bool] = []
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder))
        for command in spread_evenly(commands, TIMED):
            if len(compared) == TIMED:
                break
            times = time_in_alternation((sys.executable, other), command, folder)
            if isinstance(times, str):
                print(f"{times}: isamap {command}", flush=True)
                continue
            here, there = times
            compared.append(is_slower(here, there))
            print(
                f"{min(here):6.2f} s, before {min(there):6.2f} s, ratio {min(here) / min(there):5.2f} "
                f"(medians {median(here) / median(there):5.2f})  isamap {command}",
                flush=True,
            )
    print(f"{sum(compared)} of {len(compared)} more than {100 * (SLOWER - 1):.0f} % slower")
    return 1 if any(compared) or not compared else 0


def spread_evenly(commands: Sequence[str], count: int) -> list[str]:
    """Return all commands, so ordered that the first ones lie as evenly among them as so many can."""
    step = max(1, len(commands) // count)
    return [command for first in range(step) for command in commands[first::step]]


def time_in_alternation(
    pythons: tuple[str, str], command: str, folder: str
) -> tuple[list[float], list[float]] | str:
    """Return the processor times of a command by two interpreters, or which one refuses it and why.

    Units: seconds.
    """
    times: tuple[list[float], list[float]] = [], []
    for _ in range(ROUNDS):
        for python, found in zip(pythons, times, strict=True):
            seconds = run_once(python, command, folder)
            if isinstance(seconds, str):
                return f"refused by {python} ({seconds})"
            found.append(seconds)
    return times


def is_slower(here: Sequence[float], there: Sequence[float]) -> bool:
    """Return whether the least of some times is more than 5 % above the least of others."""
    return min(here) > SLOWER * min(there)


def run_once(python: str, command: str, folder: str) -> float | str:
    """Run a command in a process of its own, and return its processor time, or the error. Units: seconds."""
    out = Path(folder, "out")  # a folder of one command is not a file of another
    shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
    words = [python, "-m", "isamap", *shlex.split(command), "--no-cache", "-o", "out"]
    before = os.times()
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    after = os.times()
    if ended.returncode:
        return next(iter((ended.stderr or ended.stdout).splitlines()), f"exit code {ended.returncode}")
    return after.children_user - before.children_user + after.children_system - before.children_system


def main() -> int:
    """Run what the command line asks for, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="the 600 commands of all.txt")
    parser.add_argument("--record", action="store_true", help="write the file anew")
    parser.add_argument(
        "--times", metavar="PYTHON", help="the interpreter of an environment with another build"
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    given = parser.parse_args()
    path, commands = (HERE / "all.txt", all_commands()) if given.all else (HERE / "few.txt", few_commands())
    if given.times:
        accepted = [
            command for command, found in read(HERE / "few.txt").items() if not found.startswith("exit")
        ]
        return time_builds(given.times, accepted)
    started = time.monotonic()
    code = write(path, record(commands, given.jobs)) if given.record else compare(path, commands, given.jobs)
    print(f"{time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
