"""Measure what isamap prints for an NVIDIA GPU, compared with torch, Triton and torch.compile.

    python benchmarks/gpu.py --emit -o FOLDER       where isamap is: print the kernels and the predictions
    python FOLDER/gpu.py -o FOLDER --table          where nvcc is: registers, shared bytes, spills, instructions
    python benchmarks/gpu.py --emit --products 0 --table -o FOLDER          both, for kernels of all kinds
    python FOLDER/gpu.py -o FOLDER --minutes 10     where a GPU is: verify and measure, then write table.md

The second and the last need Python, torch and nvcc, and no isamap. The steps: instructions tried alone, then
copies of memory, then products of DeepBench in f16, bf16 and int8, layers with an epilogue, and attention. Where
isamap is installed as well, networks by `torch.compile` follow, compared with its own backend. Each result is
compared with torch's in f32. Each contender is measured in a CUDA graph, in turns. A case that was measured is a
line of rows.jsonl, and is not measured again; a run that ends early continues when it is called again.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any

Call = Callable[[], Any]
TYPES = {"f16": ("f16", "f32"), "bf16": ("bf16", "f32"), "int8": ("i8", "i32")}
LAYERS = ({"M": 16, "N": 4096, "K": 1024}, {"M": 512, "N": 4096, "K": 1024})
ATTENTION = ({"L": 16, "M": 512, "N": 512, "D": 64},)
CUBES = ({"M": 1024, "N": 1024, "K": 1024}, {"M": 4096, "N": 4096, "K": 4096})
NETWORKS = ("network-mlp-float32", "network-mlp-bfloat16", "network-attention-float32")
REPEATS, ROUNDS = 20, 5
MOST_REGISTERS = 255  # of a lane: a limit above it is an error of ptxas


# --- where isamap is ---------------------------------------------------------------------------------------


def emit(folder: Path, machine: str, count: int, **how: Any) -> None:
    """Print the kernels of all cases, their plans, and what isamap predicts of them."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from isamap.emit import device_call
    from isamap.machine import load_machine
    from tests.instruction_trials import write_trials

    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, folder / "gpu.py")
    shutil.copy(device_call.__file__, folder / "isamap_device.py")
    trials = write_trials(load_machine(machine), folder)
    (folder / "trials_kinds.json").write_text(
        json.dumps({t.name: {"kinds": dict(t.kinds), "tolerance": t.tolerance} for t in trials}),
        encoding="utf-8",
    )
    path = folder / "cases.json"
    cases = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, kind, source, sizes in list_cases(count):
        if name not in cases:
            cases[name] = {
                "kind": kind,
                "sizes": sizes,
                **_print(source, machine, sizes, folder / name, how),
            }
            path.write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")
            print(
                name,
                cases[name].get("refused", f"predicted {cases[name].get('predicted_ns')} ns"),
                flush=True,
            )


def list_cases(count: int) -> list[tuple[str, str, Any, dict[str, int]]]:
    """Return name, kind, kernel and sizes of each case, with `count` products of DeepBench of each type.

    With none, the cases are kernels of all kinds at odd sizes, to be compiled only.
    """
    from isamap.source import Source
    from isamap.suites import BatchedProduct, read_suite
    from tests.device_kernels import ATTENTION as ATTENTION_KERNEL
    from tests.device_kernels import KERNELS, product, shipped

    if count == 0:
        texts = {
            name: (k if isinstance(k, Source) else shipped(k), sizes) for name, (k, sizes) in KERNELS.items()
        }
        texts |= {kind: (product(*types), {"M": 67, "N": 70, "K": 53}) for kind, types in TYPES.items()}
        in_rows = {"M": 67, "N": 68, "K": 52}  # of 16 bytes
        texts["tf32"] = product("tf32", "f32", is_aligned=True), in_rows
        large = {"M": 512, "N": 512, "K": 512}
        texts |= {
            f"{kind} in rows": (product(*types, is_aligned=True), large)
            for kind, types in TYPES.items()
            if kind != "int8"
        }
        return [
            (name.replace(" ", "-"), "compiled", text, dict(sizes)) for name, (text, sizes) in texts.items()
        ]

    shapes = [
        s
        for s in read_suite("deepbench-gemm")
        if isinstance(s, BatchedProduct) and not s.x_transposed and s.m <= 8192
    ]
    shapes.sort(key=lambda s: (s.m, s.n, s.k))
    step = max(1, len(shapes) // count)
    found: list[tuple[str, str, Any, dict[str, int]]] = []
    for kind, (element, total) in TYPES.items():
        plain = product(element, total)
        found += [(f"{kind}-{sizes['M']}", f"product {kind} 0", plain, dict(sizes)) for sizes in CUBES]
        rows = product(element, total, transposed=True, is_aligned=True)
        found += [(f"{kind}-{sizes['M']}-rows", f"product {kind} 1", rows, dict(sizes)) for sizes in CUBES]
        for s in shapes[::step][:count]:
            turned = bool(s.w_transposed)
            name = f"{kind}-{s.m}x{s.n}x{s.k}{'t' * turned}"
            kernel = product(element, total, transposed=turned)
            found.append((name, f"product {kind} {int(turned)}", kernel, {"M": s.m, "N": s.n, "K": s.k}))
    for sizes in LAYERS:
        found.append((f"silu-{sizes['M']}", "silu", shipped("linear_silu_bf16"), dict(sizes)))
        found.append((f"residual-{sizes['M']}", "residual", shipped("linear_residual_bf16"), dict(sizes)))
    found += [(f"attention-{s['M']}", "attention", ATTENTION_KERNEL, dict(s)) for s in ATTENTION]
    return found


def _print(
    source: Any, machine: str, sizes: Mapping[str, int], folder: Path, how: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a program's kernels, and return what is predicted of it; why there is none, if isamap refuses it."""
    from isamap.driver.pipeline import compile_kernel
    from isamap.driver.printers import emit_artifact
    from isamap.driver.request import Request
    from isamap.plan.check.judge import live_registers, predict_registers
    from isamap.plan.problem import chosen_options
    from isamap.source import IsamapError

    try:
        made = compile_kernel(Request(source, machine, dict(sizes), **how))
    except (IsamapError, AssertionError) as refused:  # a fault of isamap is a row, too
        return {"refused": f"{type(refused).__name__}: {str(refused).splitlines()[0]}"}
    assert made.program is not None
    assert made.machine is not None
    assert made.schedule is not None
    assert made.problem is not None
    folder.mkdir(exist_ok=True)
    for name, text in emit_artifact(made.program, made.machine, "kernels").files().items():
        (folder / name).write_text(str(text), encoding="utf-8")
    chosen = chosen_options(made.schedule, made.problem)
    tiles = max(sum(live_registers(nest, option).values()) for nest, option in chosen)
    predicted = max(predict_registers(nest, option, made.problem) for nest, option in chosen)
    return {
        "plan": made.program.kernel.name,
        "predicted_ns": made.schedule.cost_ns,
        "registers": tiles,
        "predicted_registers": predicted,
    }


# --- where nvcc is -----------------------------------------------------------------------------------------


def compile_case(folder: Path, plan: str, most: int = 0) -> str:
    """Return what ptxas says of the kernels of a case, which are compiled unless they were before.

    Each lane has at most so many registers, if the number is not 0.
    """
    made = f"{plan}_{most}" if most else plan
    said = folder / f"{made}.ptxas"
    if not said.exists():
        command = json.loads((folder / f"{plan}.json").read_text(encoding="utf-8"))["compile"].split()
        if most:
            text = (folder / f"{plan}.cu").read_text(encoding="utf-8")
            limited, found = re.subn(r"__launch_bounds__\(LANES, 1\)", f"__maxnreg__({most})", text)
            if not found:
                raise RuntimeError(
                    f"{plan}.cu bounds no launches, so that no limit of registers replaces a bound"
                )
            (folder / f"{made}.cu").write_text(limited, encoding="utf-8")
        words = [*command, "-Xptxas", "-v", "-o", f"{made}.cubin", f"{made}.cu"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])
        said.write_text(done.stderr + done.stdout, encoding="utf-8")
    return said.read_text(encoding="utf-8")


def tabulate(folder: Path) -> list[str]:
    """Return a table of what nvcc made of each case: registers, shared bytes, spills, and matrix instructions.

    ptxas takes registers that it does not need, if there are some. What it spills with fewer tells whether it needs
    them. The limit is the prediction and a tenth more, rounded up to 8, because hardware gives registers by eights,
    and at most what a lane may have.
    """
    heads = ("case", "registers: fragments", "predicted", "reported", "shared: program", "reported")
    rows = [f"| {' | '.join((*heads, 'spilled bytes', 'limit: spilled bytes', 'instructions'))} |"]
    rows.append("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    errors: list[float] = []
    for name, case in read_cases(folder).items():
        if "refused" in case:
            rows.append(f"| {name} | {case['refused']} | | | | | | | |")
            continue
        said = compile_case(folder / name, case["plan"])
        registers = max(map(int, re.findall(r"Used (\d+) registers", said)))
        plan = json.loads((folder / name / f"{case['plan']}.json").read_text(encoding="utf-8"))
        shared = max([0, *map(int, re.findall(r"(\d+) bytes smem", said))])
        reserved = max(launch["reserved_bytes"] for launch in _launches(plan["launches"]))  # unknown to ptxas
        spilled = _spilled_bytes(said)
        source = (folder / name / f"{case['plan']}.cu").read_text(encoding="utf-8")
        declared = max([0, *_declared_bytes(source)])
        made = _instructions(folder / name / f"{case['plan']}.cubin")
        own = f"{declared} + {reserved} at launch" if reserved else declared
        own_registers = f"{case['registers']} | {case['predicted_registers']} | {registers}"
        errors.append(abs(case["predicted_registers"] / registers - 1))
        most = min(MOST_REGISTERS, -(-case["predicted_registers"] * 11 // 80) * 8)
        limited = compile_case(folder / name, case["plan"], most)
        spills = f"{most}: {_spilled_bytes(limited)}"
        rows.append(f"| {name} | {own_registers} | {own} | {shared} | {spilled} | {spills} | {made} |")
    if errors:
        rows += [
            "",
            f"Registers: error of the prediction {mean(errors):.0%} in the mean, {median(errors):.0%} median.",
        ]
    return rows


def _spilled_bytes(said: str) -> int:
    return sum(map(int, re.findall(r"(\d+) bytes spill", said)))


def _launches(steps: list[Any]) -> list[Any]:
    return [one for step in steps for one in (_launches(step["launches"]) if "counter" in step else [step])]


def _declared_bytes(source: str) -> list[int]:
    """Return the bytes of the arrays that the blocks of each kernel declare."""
    sizes = {"uint16_t": 2, "int8_t": 1, "uint8_t": 1, "float": 4, "int32_t": 4}
    found: list[int] = []
    for kernel in source.split("\n__kernel ")[1:]:
        arrays = re.findall(r"^  OWN_OF_BLOCK\((\w+), \w+, (\d+)\);", kernel, re.MULTILINE)
        found.append(sum(-(-sizes[kind] * int(count) // 16) * 16 for kind, count in arrays))
    return found


def _instructions(image: Path) -> str:
    """Return how often matrix instructions and their loads stand in the machine code."""
    lister = shutil.which("cuobjdump")
    if lister is None:
        return "not read: no cuobjdump"
    text = subprocess.run([lister, "-sass", str(image)], capture_output=True, text=True, check=True).stdout
    words = re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ +)?(?!NOP)([A-Z][A-Z0-9]*)", text)
    named = [word for word in ("HGMMA", "IGMMA", "HMMA", "IMMA", "LDSM", "LDGSTS", "FFMA") if word in words]
    return ", ".join([f"{len(words)} in all", *(f"{word} {words.count(word)}" for word in named)])


def read_cases(folder: Path) -> dict[str, Any]:
    """Return the cases that were printed into a folder."""
    return json.loads((folder / "cases.json").read_text(encoding="utf-8"))


# --- where a GPU is ----------------------------------------------------------------------------------------


class Gpu:
    """The GPU by torch: tensors, results to compare with, contenders, and times."""

    def __init__(self, folder: Path) -> None:
        import torch

        self.torch, self.folder = torch, folder
        torch.manual_seed(1)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.name = torch.cuda.get_device_name()

    def program(self, folder: Path, plan: str) -> Any:
        """Return what launches a case's kernels."""
        sys.path.insert(0, str(folder))
        from isamap_device import DeviceProgram

        return DeviceProgram(folder, plan)

    def try_instructions(self) -> list[str]:
        """Return what is wrong with instructions tried alone."""
        import numpy as np

        compile_case(self.folder, "trials")
        program, plan = (
            self.program(self.folder, "trials"),
            json.loads((self.folder / "trials.json").read_text()),
        )
        stored, told = (
            np.load(self.folder / "trials.npz"),
            json.loads((self.folder / "trials_kinds.json").read_text()),
        )
        names = [a["name"] for a in plan["arrays"]]
        tensors = [
            self.torch.from_numpy(stored[f"before {n}"].view(f"i{stored[f'before {n}'].itemsize}"))
            for n in names
        ]
        tensors = [t.cuda() for t in tensors]
        program(*tensors)
        self.torch.cuda.synchronize()
        wrong: list[str] = []
        for name, tensor in zip(names, tensors, strict=True):
            trial, _, operand = name.rpartition(".")
            wanted, kind = stored[f"after {name}"], told[trial]["kinds"][operand]
            found = tensor.cpu().numpy().view(wanted.dtype)
            one, other = (_as_numbers(a, kind) for a in (found, wanted))
            if (abs(one - other) > told[trial]["tolerance"] * (1 + abs(other))).any():
                wrong.append(name)
        return wrong

    def tensors(self, case: Mapping[str, Any]) -> list[Any]:
        """Return random tensors for the arrays of a case."""
        plan = json.loads((self.folder / case["name"] / f"{case['plan']}.json").read_text(encoding="utf-8"))
        kinds = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "i8": "int8", "i32": "int32"}
        found: list[Any] = []
        for array in plan["arrays"]:
            kind = getattr(self.torch, kinds[array["dtype"]])
            if kind.is_floating_point:
                made = self.torch.rand(array["shape"], device="cuda").sub(0.5).to(kind)
            else:
                made = self.torch.randint(-100, 100, array["shape"], device="cuda", dtype=kind)
            found.append(self.torch.zeros_like(made) if array["role"] != "in" else made)
        return found

    def error(self, case: Mapping[str, Any], tensors: Sequence[Any]) -> float:
        """Return the largest difference to the result in f32 or f64, as a share of what rounding may make of it."""
        torch, kind = self.torch, case["kind"].split()
        a, b, *others = (t.double() for t in tensors)
        wide = {"silu", "residual"} & {*kind}
        if kind[0] == "product":
            other = b.mT if kind[2] == "1" else b
            wanted, size = a @ other, a.abs() @ other.abs()
        elif wide:
            wanted = a @ b.mT + others[0]
            size = a.abs() @ b.abs().mT + others[0].abs()
            wanted = torch.nn.functional.silu(wanted) if kind[0] == "silu" else wanted + others[1]
        else:
            scores = torch.softmax(a @ b.mT / a.shape[-1] ** 0.5, -1)
            wanted, size = scores @ others[0], scores @ others[0].abs()
        share = 2.0**-7 if wide or kind[0] == "attention" else 2.0**-18
        return float(((tensors[-1].double() - wanted).abs() / (share * size + 1e-30)).max())

    def networks(self) -> tuple[str, ...]:
        """Return the networks that can be compiled here: all, or none without isamap."""
        return NETWORKS if find_spec("isamap") else ()

    def network(self, name: str) -> tuple[dict[str, Call], float, int]:
        """Return a network's calls, the error of isamap's as a share of the allowed one, and its nodes by torch."""
        import isamap.torch

        torch, (_, kind, dtype) = self.torch, name.split("-")
        nn = torch.nn
        if kind == "mlp":
            model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.LayerNorm(1024))
            x = torch.randn(128, 1024)
        else:
            model = nn.TransformerEncoderLayer(512, 8, 2048, 0.0, batch_first=True, activation="gelu")
            x = torch.randn(4, 128, 512)
        model, x = (part.cuda().to(getattr(torch, dtype)) for part in (model.eval(), x))
        by_torch = [node for node in isamap.torch.explain(model, x).nodes if node.where == "eager"]
        runs = {"isamap": torch.compile(model, backend="isamap"), "inductor": torch.compile(model)}
        calls = {own: partial(self._infer, run, x) for own, run in (*runs.items(), ("torch", model))}
        wanted = self._infer(copy.deepcopy(model).double(), x.double())
        error = (calls["isamap"]().double() - wanted).abs().max() / wanted.abs().max()
        # bf16 has 8 bits, and these networks round at most four times in a row. f32: sums of up to 4096 terms.
        allowed = 2.0 ** (-6 if x.dtype == torch.bfloat16 else -12)
        return calls, float(error) / allowed, len(by_torch)

    def _infer(self, model: Any, x: Any) -> Any:
        with self.torch.no_grad():
            return model(x)

    def contenders(self, case: Mapping[str, Any], tensors: Sequence[Any]) -> dict[str, Call]:
        """Return calls that compute the same."""
        torch, kind = self.torch, case["kind"].split()
        a, b, *others = tensors
        F = torch.nn.functional
        if kind[0] == "product":
            other = b.mT if kind[2] == "1" else b
            if kind[1] == "int8":
                return {"torch": lambda: torch._int_mm(a, other)} if a.shape[0] > 16 else {}
            return {"torch": lambda: torch.mm(a, other)}
        if kind[0] == "attention":
            q, k, v = (t[None] for t in (a, b, others[0]))
            return {"torch": lambda: F.scaled_dot_product_attention(q, k, v)}
        bias = others[0].to(a.dtype)
        layer = (
            (lambda: F.silu(F.linear(a, b, bias)))
            if kind[0] == "silu"
            else (lambda: F.linear(a, b, bias) + others[1])
        )
        fused = torch.compile(layer, mode="max-autotune-no-cudagraphs")
        return {"torch": layer, "torch.compile": fused}

    def seconds(self, calls: Mapping[str, Call]) -> dict[str, tuple[float, float]]:
        """Return the least and the median time of each call, which take turns, each in a CUDA graph."""
        torch, graphs = self.torch, dict[str, Any]()
        for name, call in calls.items():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    call()
            torch.cuda.current_stream().wait_stream(side)
            graphs[name] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[name]):
                for _ in range(REPEATS):
                    call()
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, graph in graphs.items():
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                graph.replay()
                end.record()
                torch.cuda.synchronize()
                times[name].append(begin.elapsed_time(end) / 1e3 / REPEATS)
        return {name: (min(found), median(found)) for name, found in times.items()}

    def bytes_per_ns(self) -> float:
        """Return how fast the GPU copies memory, reads and writes counted."""
        torch = self.torch
        a = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
        b = torch.empty_like(a)
        return 2 * a.numel() / 1e9 / self.seconds({"copy": lambda: b.copy_(a)})["copy"][0]


def _as_numbers(array: Any, kind: str) -> Any:
    """Return elements as f64, from their bits."""
    import numpy as np

    if kind == "bf16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.view({"f16": np.float16, "f32": np.float32}.get(kind, array.dtype)).astype(np.float64)


def measure_all(
    folder: Path, gpu: Any, minutes: float, clock: Callable[[], float] = time.monotonic
) -> list[dict[str, Any]]:
    """Measure the cases that no line of rows.jsonl has, until the minutes are over, and return all rows."""
    path, end = folder / "rows.jsonl", clock() + 60 * minutes
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    rows: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    done = {row["case"] for row in rows}
    networks = [(name, {"kind": "network"}) for name in gpu.networks()]
    steps = [("instructions", {}), ("memory", {}), *read_cases(folder).items(), *networks]
    for name, case in steps:
        if name in done or clock() > end:
            continue
        row: dict[str, Any] = {"case": name, "gpu": gpu.name}
        try:
            row |= _measure(name, case, folder, gpu)
        except (RuntimeError, ValueError, OSError, ArithmeticError) as failed:  # one case's fault is its row
            row["failed"] = f"{type(failed).__name__}: {failed}"[:500]
        rows.append(row)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    return rows


def _measure(name: str, case: Mapping[str, Any], folder: Path, gpu: Any) -> dict[str, Any]:
    if name == "instructions":
        return {"wrong": gpu.try_instructions()}
    if name == "memory":
        return {"bytes_per_ns": gpu.bytes_per_ns()}
    if case["kind"] == "network":
        calls, error, by_torch = gpu.network(name)
        if not error <= 1:
            return {"failed": f"the result differs by {error:.3g} times what rounding allows"}
        return {"error": error, "nodes_by_torch": by_torch, "seconds": gpu.seconds(calls)}
    if "refused" in case:
        return {"failed": case["refused"]}
    case = {"name": name, **case}
    compile_case(folder / name, case["plan"])
    program, tensors = gpu.program(folder / name, case["plan"]), gpu.tensors(case)
    program(*tensors)
    error = gpu.error(case, tensors)
    if not error <= 1:
        return {"failed": f"the result differs by {error:.3g} times what rounding allows"}
    calls = {"isamap": lambda: program(*tensors), **gpu.contenders(case, tensors)}
    return {"error": error, "predicted_s": case["predicted_ns"] / 1e9, "seconds": gpu.seconds(calls)}


def summarise(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return all rows as a table, and the geometric mean of the ratios to each contender."""
    lines = [
        "| case | µs, least | median | predicted | compared with | ratio |",
        "|---|---:|---:|---:|---|---:|",
    ]
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if "seconds" not in row:
            said = row.get("failed") or ", ".join(
                f"{k} {row[k]}" for k in ("wrong", "bytes_per_ns") if k in row
            )
            lines.append(f"| {row['case']} | {said} | | | | |")
            continue
        (least, middle), predicted = row["seconds"]["isamap"], row.get("predicted_s")
        for other, (time_of, _) in [n for n in row["seconds"].items() if n[0] != "isamap"] or [
            ("-", (0.0, 0.0))
        ]:
            ratio = time_of / least
            if time_of:
                ratios.setdefault(f"{row['case'].split('-')[0]} {other}", []).append(ratio)
            own = (least, middle, predicted)
            times = " | ".join("-" if seconds is None else f"{seconds * 1e6:.1f}" for seconds in own)
            lines.append(f"| {row['case']} | {times} | {other} | {ratio:.2f} |")
    lines += [
        "",
        *(f"- {name}: {geometric_mean(found):.2f} in the geometric mean" for name, found in ratios.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line and perform one of the steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="for kernels and results"
    )
    parser.add_argument("--emit", action="store_true", help="print kernels into the folder (needs isamap)")
    parser.add_argument(
        "--table", action="store_true", help="compile them, and show registers, spills, instructions"
    )
    parser.add_argument("--minutes", type=float, default=10, help="when to stop measuring")
    parser.add_argument("--hw", default="nvidia-sm80", metavar="NAME", help="the description to emit for")
    parser.add_argument(
        "--products", type=int, default=8, metavar="N", help="how many of DeepBench, of each type"
    )
    parser.add_argument("--seconds", type=float, default=10, metavar="S", help="for the schedule of a kernel")
    parser.add_argument("--heuristic", default="cpsat", metavar="NAME", help="that chooses schedules")
    given = parser.parse_args()
    if given.emit:
        emit(given.output, given.hw, given.products, limit_s=given.seconds, heuristic=given.heuristic)
    if given.table:
        text = "\n".join(tabulate(given.output)) + "\n"
        (given.output / "compiled.md").write_text(text, encoding="utf-8")
        print(text)
    elif not given.emit:
        text = summarise(measure_all(given.output, Gpu(given.output), given.minutes))
        (given.output / "table.md").write_text(text, encoding="utf-8")
        print(text)


if __name__ == "__main__":
    main()
