"""Names that are no text, disks that are full, folders that may only be read cost a warning or a message.

Disks are mounted where only the command sees them (`unshare`), so that nothing is left of them.
"""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from bounded import Bounded
from onnx_models import make

import isamap
from isamap.hw_specs import machine_path
from isamap.kernels import kernel_path
from isamap.source.progress import CLEAR

ROOT = str(Path(isamap.__file__).parents[1])
NAME = "k\udcff\udcfe\x1b[31m"
"""Bytes that are no UTF-8, and an escape that colours a terminal."""
SIZES = "-D M=4 N=4 K=4"
GREEDY = f"{SIZES} --heuristic greedy"
SCHEDULE = """isamap schedule 1
kernel gemm_f32
machine generic-c
sizes K = 4, M = 4, N = 4

nest 0 {
  map mac_f32 (a = A[m, k], b = B[k, n]);
  for m by 1 {
    for n by 1 {
      hold;
      for k by 1 {
        issue;
      }
    }
  }
}
"""
FILES = {
    f"{NAME}.ir": kernel_path("gemm_f32").read_bytes(),
    f"{NAME}.yaml": machine_path("generic-c").read_bytes(),
    f"{NAME}.schedule": SCHEDULE.encode(),
    f"{NAME}.csv": b"id,lower,upper,size\na,0,1,4\n",
}


@pytest.fixture(scope="module")
def running() -> Iterator[Bounded]:
    with Bounded() as bounded:
        yield bounded


# --- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("fmt ?.ir", 0),
        (f"compile ?.ir --hw generic-c {GREEDY} -o ?", 0),
        (f"compile ?.ir --hw generic-c {SIZES} --schedule ?.schedule -o ?-2/inside", 0),
        (f"compile ?.ir --hw generic-c {GREEDY} --json -o ?", 0),
        (f"verify ?.ir --hw generic-c {SIZES} --schedule ?.schedule", 0),
        ("memplan ?.csv --capacity 64 -o ?.out", 0),
        (f"schedule ?.ir --hw generic-c {GREEDY} --roofline ?.svg", 0),
        ("hw check ?.yaml", 2),  # it is called otherwise
        (f"compile gemm_f32 --hw ./?.yaml {SIZES}", 2),
        (f"compile ?.none --hw ?.none {SIZES}", 2),
        (f"compile gemm_f32 --hw generic-c {SIZES} --schedule ?.none --json", 2),
        (f"compile gemm_f32 --hw generic-c {SIZES} -o ?.ir/inside", 2),
        ("? --?", 2),
    ],
)
def test_names_that_are_no_text_are_names(line: str, code: int, running: Bounded) -> None:
    said = running.run([word.replace("?", NAME) for word in line.split()], FILES)
    assert (said.code, "Traceback" in said.text) == (code, False), said.text


def test_a_machine_in_a_folder_whose_name_is_no_text_is_a_machine(tmp_path: Path, running: Bounded) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    shutil.copy(machine_path("generic-c"), folder)
    line = f"compile gemm_f32 --hw ?/generic-c.yaml {GREEDY} -o ?/out"
    said = running.run([word.replace("?", str(folder)) for word in line.split()])
    assert said.code == 0, said.text
    assert (folder / "out" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("line", "code"), [(f"compile gemm_f32 --hw generic-c {GREEDY} -o ?", 0), ("hw check ?.yaml", 2)]
)
def test_a_terminal_gets_no_control_characters_of_a_name(line: str, code: int, tmp_path: Path) -> None:
    reader, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "isamap", *(word.replace("?", NAME) for word in line.split())],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ROOT, "NO_COLOR": "1"},
        stdout=terminal,
        stderr=terminal,
    ) as running:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # that there is no writer any more
            while more := os.read(reader, 1 << 16):
                shown += more
        os.close(reader)
    assert running.returncode == code, shown
    assert b"\\udcff\\udcfe\\x1b[31m" in shown
    shown = shown.replace(CLEAR.encode(), b"")
    assert not [byte for byte in shown if byte < 32 and byte not in b"\r\n\t"], shown


# --- disks ------------------------------------------------------------------------------------------------

FULL, LITTLE, READ_ONLY, SEALED, NO_CODE = "full", "little", "read-only", "sealed", "no-code"
LIMITED = "limited"
_MOUNTED = {
    FULL: "mount -t tmpfs -o size=16k none {0} && mkdir -m 700 {0}/cache {0}/data; cat /dev/zero >{0}/x 2>&-",
    LITTLE: "mount -t tmpfs -o size=24k none {0}",
    READ_ONLY: "mount -t tmpfs none {0} && mkdir -m 700 {0}/cache {0}/data && mount -o remount,ro {0}",
    NO_CODE: "mount -t tmpfs -o noexec none {0} && mkdir -m 700 {0}/cache",
    LIMITED: "ulimit -f 0",
    SEALED: "mount --rbind {0} {0} && mount -o remount,bind,ro {0}",  # with all that it holds
}
LACKS = {
    FULL: "No space left on device",
    READ_ONLY: "Read-only file system",
    LIMITED: "File too large",
}
_UNSHARED = ("unshare", "--map-root-user", "--mount", "bash", "-c")


@cache
def may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    words = [*_UNSHARED, "mount -t tmpfs none /mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def on_disk(state: str, line: str, folder: Path, mounted: str = "disk", **variables: str) -> tuple[int, str]:
    """Return the exit code and the findings of `isamap` with a disk in such a state in a folder, or in several."""
    if not may_mount():
        pytest.skip("file systems may not be mounted here")
    (folder / "disk").mkdir()
    places = [_MOUNTED[state].format(place) for place in mounted.split()]
    command = f'"{sys.executable}" -m isamap {line} >/dev/null; code=$?; find disk -type f; exit $code'
    script = "\n".join([*places, f"cd {folder}", command])
    environment = {**os.environ, "PYTHONPATH": ROOT, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(
        [*_UNSHARED, script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    (folder / "left").write_text(done.stdout)
    return done.returncode, done.stderr


def test_a_cache_that_lets_no_code_run_is_the_computers_lack(tmp_path: Path) -> None:
    line = f"verify gemm_f32 --hw generic-c {SIZES}"
    code, said = on_disk(NO_CODE, line, tmp_path, ISAMAP_CACHE_DIR="disk/cache")
    assert code == 5, said
    assert "disk/cache/libraries/objects lets no code run (noexec)" in said
    assert "ISAMAP_CACHE_DIR or XDG_CACHE_HOME" in said


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("state", [FULL, READ_ONLY])
@pytest.mark.parametrize(
    ("line", "codes"),
    [
        (f"compile gemm_f32 --hw generic-c {GREEDY} -o out", {"cache-unusable"}),
        (f"verify gemm_f32 --hw generic-c {SIZES}", {"cache-unusable"}),
        (
            f"run gemm_f32 --hw generic-c {SIZES} --tune 2",
            {"cache-unusable", "tuning-unusable", "log-unusable"},
        ),
        ("hw check --run model-f32", {"cache-unusable"}),
    ],
)
def test_what_keeps_results_costs_a_warning(state: str, line: str, codes: set[str], tmp_path: Path) -> None:
    disk = {"ISAMAP_CACHE_DIR": "disk/cache", "ISAMAP_DATA_DIR": "disk/data"}
    code, said = on_disk(state, line, tmp_path, **disk)
    assert code == 0, said
    for each in codes:
        assert said.count(f"warning[{each}]") == 1


_SWEPT = "hw sweep own.yaml --set clock_ghz=1,2 --kernel 'gemm_f32 M=4 N=4 K=4' --heuristic greedy"
_WORDS = "compile gemm_s8s8 --hw gemmini -D M=16 N=16 K=16 --heuristic greedy"
WRITING = (
    f"compile gemm_f32 --hw generic-c {GREEDY} -o disk/out",
    f"compile gemm_f32 --hw generic-c {GREEDY} -o out --report disk/page.html",
    f"compile gemm_f32 --hw generic-c {GREEDY} -o out --report disk/page",
    f"compile gemm_f32 --hw generic-c {GREEDY} -o out --trace disk/trace.json",
    f"compile gemm_f32 --hw generic-c {GREEDY} -o out --dump-passes disk/passes",
    f"{_WORDS} --emit program -o disk/x.program",
    f"{_WORDS} --emit assembly -o disk/x.txt",
    f"schedule gemm_f32 --hw generic-c {GREEDY} -o disk/x.schedule",
    f"schedule gemm_f32 --hw generic-c {GREEDY} --roofline disk/x.svg",
    "memplan b.csv --capacity 64 -o disk/out.csv",
    "import model.onnx -o disk/graph",
    "compile model.onnx --hw generic-c --heuristic greedy -o disk/out",
    "grad gemm_f32 --of C --by A -o disk/grad.ir",
    "hw new disk/new.yaml --kind vector",
    "hw schema -o disk/schema.json",
    "hw show generic-c --svg disk/machine.svg",
    f"{_SWEPT} --svg disk/x.svg",
    f"{_SWEPT} -o disk/rows",
)


@pytest.mark.exhaustive(fast=4)
@pytest.mark.parametrize("state", [FULL, READ_ONLY, LIMITED])
@pytest.mark.parametrize("line", WRITING)
def test_what_was_asked_for_and_cannot_be_written_is_an_error(state: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_bytes(FILES[f"{NAME}.csv"])
    own = "isamap: 1\nname: own\nextends: generic-c\nsummary: s\nclock_ghz: 1\n"
    (tmp_path / "own.yaml").write_text(own)
    if "model.onnx" in line:
        pytest.importorskip("onnx")
        model = make([("Exp", ["x"], ["y"], {})], {"x": np.ones(8, np.float32)}, ["y"])
        (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    code, said = on_disk(state, line, tmp_path)
    expected = 2 if state == READ_ONLY else 5
    is_told = said.count("error[output-unwritable]") == 1 and LACKS[state] in said
    # Under such a limit some commands find no place for a temporary file either.
    assert is_told or (state == LIMITED and said.count("error[system-refused]") == 1), said
    assert code == expected, said
    left = set((tmp_path / "left").read_text().split()) - {"disk/x"}
    assert left <= {"disk/rows/rows.jsonl"}, "only rows are kept in part: --resume goes on with them"


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("state", [FULL, SEALED])
def test_without_a_folder_for_temporary_files_nothing_runs(state: str, tmp_path: Path) -> None:
    everywhere = "/tmp /var/tmp"
    if state == FULL and any(Path("/tmp") in Path(needed).parents for needed in (sys.prefix, ROOT)):
        pytest.skip("the interpreter or the project lies in /tmp, which a full disk would hide")
    line = f"verify gemm_f32 --hw generic-c {SIZES}"
    code, said = on_disk(state, line, tmp_path, everywhere, ISAMAP_CACHE_DIR="/proc/none", TMPDIR="/proc")
    assert (code, "error[system-refused]: no folder takes temporary files" in said) == (5, True), said


def test_a_compiler_without_room_is_not_blamed_on_the_code(tmp_path: Path) -> None:
    variables = {"TMPDIR": str(tmp_path / "disk"), "ISAMAP_CACHE_DIR": str(tmp_path / "cache")}
    code, said = on_disk(LITTLE, f"verify gemm_f32 --hw generic-c {SIZES}", tmp_path, **variables)
    assert (code, LACKS[FULL] in said and "error[system-refused]: " in said) == (
        5,
        True,
    ), said
