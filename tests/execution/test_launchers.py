"""The printed hosts of devices, in C and in Python, with a driver built here that runs kernels as a model.

No GPU is needed, and none runs anything: the driver has the names of CUDA's functions, notes each call, and hands the
arguments to the model of the same program's lanes. Results are compared with the interpreter.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from importlib import util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.printers import emit_artifact
from isamap.driver.request import Request
from isamap.driver.verifying import ComparedResult, case_of
from isamap.ir import bind
from isamap.run.fills import make_arrays, make_scalars
from isamap.source import Source
from isamap.syntax import parse_kernel
from tests.device_kernels import product, shipped

SM80, GROUPS = "nvidia-sm80", "nvidia-sm90-wgmma"
STEPS = """kernel steps(T, N, K, scalar eps: f32) {
  in W: f32[K, K];
  inout h: f32[N, K];
  temp s: f32[N, K];
  seq t in T {
    for n in N, j in K { s[n, j] = eps; }
    for n in N, j in K, k in K { s[n, j] += h[n, k] * W[k, j]; }
    for n in N, j in K { h[n, j] = max(s[n, j], 0); }
  }
}"""
STAGED = """isamap schedule 1
kernel product
machine nvidia-sm90-wgmma
sizes K = 72, M = 131, N = 104
status MANUAL
nest 0 {
  map wgmma_64_bf16 { i: m, j: n, k: k } (a = A[m, k], b = B[n, k]);
  choose group.m = 2;
  par m by 128 { par n by 64 { for k by 64 {
    stage a ahead 2 in shared at 0; stage b ahead 2 in shared at 49152;
    hold;
    issue;
  } } }
}
"""
CASES: Mapping[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "product": ("gemm_bf16_f32", {"M": 19, "N": 35, "K": 21}, {"nest0.parallel.m": 2}),
    "norm": ("rms_norm_f32", {"M": 5, "N": 37}, {}),
    "ordered steps": ("steps", {"T": 3, "N": 64, "K": 24}, {}),
    "copies ahead": ("staged", {"M": 131, "N": 104, "K": 72}, {}),
}
DRIVER = """
#include <stdio.h>
static FILE *notes;
static struct {
  const char *name;
  void (*kernel)(const isamap_value *);
  int count;
  unsigned permitted;
} known[] = { %s };
int cuModuleLoadData(void **module, const void *image) {
  notes = fopen("%s", "a");
  *module = notes;
  return fprintf(notes, "load %%.4s\\n", (const char *)image) < 0;
}
static _Thread_local void *current;
int cuInit(unsigned flags) { return flags; }
int cuDeviceGet(int *device, int number) { return *device = number; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)known; return device; }
int cuCtxSetCurrent(void *context) { return (current = context) == NULL; }
int cuCtxPushCurrent_v2(void *context) { return (current = context) == NULL; }
int cuCtxPopCurrent_v2(void **context) { return (*context = current) == NULL; }
int cuCtxSynchronize(void) { return current == NULL; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device; }
int cuModuleUnload(void *module) { return fclose(module); }
int cuModuleGetFunction(void **kernel, void *module, const char *name) {
  for (size_t at = 0; at < sizeof known / sizeof *known; at++) {
    if (strcmp(known[at].name, name) == 0) {
      *kernel = (void *)&known[at];
      return 0;
    }
  }
  return 500;
}
int cuFuncSetAttribute(void *kernel, int attribute, int value) {
  ((typeof(*known) *)kernel)->permitted = value;
  return attribute != 8 || value > 227 << 10;
}
int cuLaunchKernel(void *kernel, unsigned x, unsigned y, unsigned z, unsigned lanes, unsigned v, unsigned w,
                   unsigned shared, void *stream, void **given, void **extra) {
  const typeof(*known) *found = kernel;
  fprintf(notes, "%%s %%u %%u %%u %%u %%u %%u %%u %%d\\n", found->name, x, y, z, lanes, v, w, shared,
          (int)(intptr_t)stream);
  fflush(notes);
  if (shared > found->permitted) return 1;
  isamap_device d;
  isamap_value values[64];
  isamap_open(&d, NULL);
  for (int at = 0; at < found->count; at++) values[at] = (isamap_value){given[at], 8};
  isamap_launch(&d, found->kernel, x, lanes, values, found->count);
  return extra != NULL ? 1 : isamap_close(&d);
}
"""
needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc: no driver is built")


class Tensor:
    """The part of a tensor of torch that the call reads, for an array."""

    device = SimpleNamespace(type="cuda", index=0)

    def __init__(self, array: np.ndarray[Any, Any], name: str) -> None:
        self.array, self.shape, self.dtype = array, array.shape, f"torch.{name}"

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    def element_size(self) -> int:
        return int(self.array.itemsize)

    def new_empty(self, count: int) -> Tensor:
        return Tensor(np.empty(count, self.array.dtype), "")


class Printed:
    """A program's files in a folder, the driver that runs it as a model, and its arguments."""

    def __init__(self, case: str, folder: Path) -> None:
        self.folder, (name, self.sizes, fixed) = folder, CASES[case]
        own = {
            "steps": Source("steps.ir", STEPS),
            "staged": product("bf16", "f32", transposed=True, is_aligned=True),
        }
        self.source = own[name] if name in own else shipped(name)
        given = Source("given", STAGED) if name == "staged" else None
        machine = GROUPS if given else SM80
        made = compile_kernel(
            Request(self.source, machine, self.sizes, schedule=given, heuristic="greedy", fixed=fixed)
        )
        assert made.program is not None
        assert made.machine is not None
        for file, text in emit_artifact(made.program, made.machine, "kernels").files().items():
            (folder / file).write_text(str(text), encoding="utf-8")
        self.name = next(folder.glob("*.json")).stem
        self.plan = json.loads((folder / f"{self.name}.json").read_text(encoding="utf-8"))
        (folder / f"{self.name}.cubin").write_bytes(b"fake image")
        model = emit_artifact(made.program, made.machine, "code", model=True).files()
        for file, text in model.items():
            if file != f"{self.name}.h":
                (folder / file).write_text(str(text), encoding="utf-8")
        (folder / "model").mkdir()
        (folder / "model" / f"{self.name}.h").write_text(str(model[f"{self.name}.h"]), encoding="utf-8")
        (folder / f"{self.name}.c").rename(folder / "model" / f"{self.name}.c")
        counts = {launch["kernel"]: len(launch["arguments"]) for launch in flat(self.plan["launches"])}
        known = ", ".join(f'{{"{k}", {k}_lane, {count}, 0}}' for k, count in counts.items())
        text = f'#include "{self.name}.c"\n' + DRIVER % (known, folder / "notes")
        (folder / "model" / "driver.c").write_text(text, encoding="utf-8")
        build(folder, "-o", "libfake.so", "model/driver.c")
        self.bound = bind(parse_kernel(self.source), self.sizes)
        self.arrays: dict[str, Any] = {
            n: np.ascontiguousarray(a) for n, a in make_arrays(self.bound, "random").items()
        }
        self.scalars = make_scalars(self.bound, "random")

    def copies(self) -> dict[str, Any]:
        return {array["name"]: self.arrays[array["name"]].copy() for array in self.plan["arrays"]}

    def judge(self, results: Mapping[str, Any]) -> None:
        judged = ComparedResult(
            self.bound, self.arrays, dict(results), dict(self.sizes), "random", "model", []
        )
        case = case_of(judged, self.scalars, guard=False)
        assert case.ok, case.problems

    def notes(self) -> list[str]:
        return (self.folder / "notes").read_text(encoding="utf-8").splitlines()


def build(folder: Path, *words: str) -> None:
    command = ["gcc", "-O1", "-std=gnu11", "-fno-strict-aliasing", "-shared", "-fPIC", *words, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def flat(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [s for step in steps for s in (flat(step["launches"]) if "counter" in step else [step])]


def module_of(folder: Path) -> Any:
    spec = util.spec_from_file_location("isamap_device", folder / "isamap_device.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_printed_hosts_launch_what_the_schedule_says(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def external(stream: int, device: Any) -> int:
        return stream

    of_device = SimpleNamespace(device=nullcontext, stream=nullcontext, ExternalStream=external)

    def module_of_device(_device: Any) -> Any:
        return of_device

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(get_device_module=module_of_device))
    printed = Printed(case, tmp_path)
    host = module_of(tmp_path)
    program = host.DeviceProgram(tmp_path, printed.name, ctypes.CDLL(str(tmp_path / "libfake.so")))
    given = printed.copies()
    kinds = {a["name"]: host._TORCH_NAMES[a["dtype"]] for a in printed.plan["arrays"]}
    tensors = [Tensor(array, kinds[name]) for name, array in given.items()]
    scalars = {name: float(value) for name, value in printed.scalars.items()}
    program(*tensors, stream=7, **scalars)
    printed.judge(given)
    by_python = printed.notes()
    assert by_python[0] == "load fake"
    wanted = [
        f"{s['kernel']} {s['blocks']} 1 1 {s['lanes']} 1 1 {s['reserved_bytes']} 7"
        for s, _ in host.launches_of(printed.plan["launches"])
    ]
    assert by_python[1:] == wanted
    bytes_ = 3 * 2 * (128 + 64) * 64  # of three copies: more than kernels may declare
    assert max(s["reserved_bytes"] for s in flat(printed.plan["launches"])) == bytes_ * (
        case == "copies ahead"
    )

    build(
        tmp_path,
        "-o",
        "libhost.so",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"{printed.name}_launch.c",
        "-L.",
        "-lfake",
        "-Wl,-rpath,.",
    )
    (tmp_path / "notes").unlink()
    again = printed.copies()
    call_in_c(printed, again)
    printed.judge(again)
    assert printed.notes() == by_python


@needs_compiler
def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    printed = Printed("product", tmp_path)
    program = module_of(tmp_path).DeviceProgram(
        tmp_path, printed.name, ctypes.CDLL(str(tmp_path / "libfake.so"))
    )
    given = [Tensor(array, "bfloat16") for array in printed.copies().values()]
    with pytest.raises(ValueError, match=r"`C` is \('bfloat16', \[19, 35\]\): it has to be \('float32'"):
        program(*given, stream=0)
    with pytest.raises(ValueError, match="takes 3 tensors, not 2"):
        program(*given[:2], stream=0)


def call_in_c(printed: Printed, given: Mapping[str, Any]) -> None:
    """Call the launcher in C in a process of its own, as the folder is where it finds the driver."""
    for name, array in given.items():
        np.save(printed.folder / f"{name}.npy", array.view(f"u{array.dtype.itemsize}"))
    header = (printed.folder / f"{printed.name}.h").read_text(encoding="utf-8")
    workspace = int(header.split("WORKSPACE_BYTES ")[1].split()[0])
    script = f"""
import ctypes, numpy as np
host = ctypes.CDLL("./libhost.so")
names = {list(given)!r}
arrays = [np.load(f"{{name}}.npy") for name in names]
device, workspace = (ctypes.c_void_p * 64)(), ctypes.create_string_buffer({workspace} + 16)
scalars = [ctypes.c_float(value) for value in {[float(v) for v in printed.scalars.values()]!r}]
given = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
assert host.{printed.name}_open(device) == 0
assert host.{printed.name}_launch(device, ctypes.c_void_p(7), workspace, *given, *scalars) == 0
assert host.{printed.name}_close(device) == 0
for name, array in zip(names, arrays): np.save(f"{{name}}.npy", array)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=printed.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for name, array in given.items():
        array[...] = np.load(printed.folder / f"{name}.npy").view(array.dtype).reshape(array.shape)
