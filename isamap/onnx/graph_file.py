"""The graph file: a program's steps as JSON, beside the texts of its kernels and the bytes of its constants.

    {"isamap": "model/1", "name": "mlp", "inputs": [{"name": "x", "tensor": "i0", …}],
     "steps": [{"kernel": "gemm_1f…", "reads": {"a0": {"tensor": "i0", …}, …}, "writes": {"y0": {…}}}, …], …}

A folder of these can be edited, kernel by kernel, and compiled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from isamap.ir import DTYPES
from isamap.onnx.graph import Array
from isamap.onnx.moves import is_sound
from isamap.onnx.program import Call, Move, Passed, Port, Program, Step, reads_of, writes_of
from isamap.onnx.types import size_bytes
from isamap.source import Diagnostic, UsageProblem

FORMAT = "model/1"
FILE = "graph.json"
LINE_BYTES = 64
MOST_BYTES = 1 << 26


def weights_of(program: Program) -> tuple[bytes, dict[str, int]]:
    """All constants behind each other, and where each begins. Units: bytes."""
    places: dict[str, int] = {}
    parts: list[bytes] = []
    size = 0
    for name, array in program.constants.items():
        places[name] = size
        content = array.tobytes()
        content += bytes(-len(content) % LINE_BYTES)
        parts.append(content)
        size += len(content)
    return b"".join(parts), places


def folder_files(program: Program) -> dict[str, str | bytes]:
    """The files of an imported model by name."""
    weights, places = weights_of(program)
    whole: dict[str, Any] = {
        "isamap": FORMAT,
        "name": program.name,
        "inputs": [{"name": port.name, **_passed_json(port.passed)} for port in program.inputs],
        "outputs": [{"name": port.name, **_passed_json(port.passed)} for port in program.outputs],
        "weights": f"{program.name}.weights",
        "constants": [
            {"tensor": name, "offset": place, "bytes": program.constants[name].nbytes}
            for name, place in places.items()
        ],
        "kernels": {name: f"{name}.ir" for name in program.kernels},
        "steps": [_step_json(step) for step in program.steps],
    }
    texts: dict[str, str | bytes] = {f"{name}.ir": text for name, text in program.kernels.items()}
    return {FILE: json.dumps(whole, indent=1) + "\n", f"{program.name}.weights": weights, **texts}


def _passed_json(passed: Passed) -> dict[str, object]:
    return {"tensor": passed.tensor, "type": passed.dtype, "shape": list(passed.shape)}


def _step_json(step: Step) -> dict[str, object]:
    if isinstance(step, Call):
        reads, writes = ({n: _passed_json(p) for n, p in of.items()} for of in (step.reads, step.writes))
        return {"kernel": step.kernel, "reads": reads, "writes": writes}
    reads, writes = ([_passed_json(p) for p in of] for of in (step.reads, step.writes))
    return {"move": step.function, "reads": reads, "writes": writes, "numbers": list(step.numbers)}


# --- read again -------------------------------------------------------------------------------------------


def read_folder(path: Path) -> Program:
    """The program of a graph file and of the files beside it. Raises: UsageProblem."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _wrong(path, "it is too large")
        whole: Any = json.loads(path.read_text(encoding="utf-8"))
        if whole["isamap"] != FORMAT:
            raise _wrong(path, f"its format is not {FORMAT}")
        program = _program(whole, path.parent)
    except OSError as error:
        raise _wrong(path, f"`{error.filename}` cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _wrong(path, f"{type(error).__name__}: {str(error)[:80]}") from None
    if (fault := _fault(program)) is not None:
        raise _wrong(path, fault)
    return program


def _program(whole: Any, folder: Path) -> Program:
    weights = (folder / _inside(whole["weights"])).read_bytes()
    constants: dict[str, Array] = {}
    for one in whole["constants"]:
        start, size = int(one["offset"]), int(one["bytes"])
        if start < 0 or start % LINE_BYTES or start + size > len(weights):
            raise ValueError(f"the constant {one['tensor']} lies outside of the weights")
        constants[str(one["tensor"])] = np.frombuffer(weights, np.uint8, size, start)
    kernels = {
        str(name): (folder / _inside(file)).read_text(encoding="utf-8")
        for name, file in whole["kernels"].items()
    }
    ports = [
        tuple(Port(str(one["name"]), _passed(one)) for one in whole[what]) for what in ("inputs", "outputs")
    ]
    steps = tuple(_step(one) for one in whole["steps"])
    name = str(whole["name"])
    if not name.isascii() or not name.isidentifier():
        raise ValueError(f"the name {name[:40]!r} is none in C")
    return Program(name, ports[0], ports[1], constants, kernels, steps)


def _inside(name: object) -> str:
    """The name of a file of the folder itself."""
    if not isinstance(name, str) or Path(name).name != name:
        raise ValueError("a file of another folder")
    return name


def _passed(one: Any) -> Passed:
    dtype, shape = str(one["type"]), tuple(int(size) for size in one["shape"])
    if dtype not in DTYPES or min(shape, default=0) < 0 or math.prod(shape) > 1 << 33:
        raise ValueError(f"a tensor {dtype}{list(shape)}")
    return Passed(str(one["tensor"]), dtype, shape)


def _step(one: Any) -> Step:
    if "kernel" in one:
        reads, writes = ({str(n): _passed(p) for n, p in one[of].items()} for of in ("reads", "writes"))
        return Call(str(one["kernel"]), reads, writes)
    reads, writes = (tuple(_passed(p) for p in one[of]) for of in ("reads", "writes"))
    return Move(str(one["move"]), reads, writes, tuple(int(number) for number in one["numbers"]))


def _fault(program: Program) -> str | None:
    """What of a program cannot be: a tensor read before it is there, written twice, or of two sizes."""
    sizes: dict[str, int] = {name: array.nbytes for name, array in program.constants.items()}
    for port in program.inputs:
        sizes[port.passed.tensor] = _bytes(port.passed)
    for number, step in enumerate(program.steps):
        if isinstance(step, Call) and step.kernel not in program.kernels:
            return f"step {number} calls `{step.kernel}`, which is no kernel of it"
        if isinstance(step, Move) and not is_sound(step):
            return f"step {number} moves what its tensors do not hold"
        for passed in reads_of(step):
            if sizes.get(passed.tensor) != _bytes(passed):
                return f"step {number} reads `{passed.tensor}`, which is not there in this size"
        for passed in writes_of(step):
            if passed.tensor in sizes:
                return f"step {number} writes `{passed.tensor}`, which is there already"
            sizes[passed.tensor] = _bytes(passed)
    for port in program.outputs:
        if _bytes(port.passed) and sizes.get(port.passed.tensor) != _bytes(port.passed):
            return f"the result `{port.name}` is never written in this size"
    return None


def _bytes(passed: Passed) -> int:
    return size_bytes(passed.dtype, passed.shape)


def _wrong(path: Path, why: str) -> UsageProblem:
    help_ = "`isamap import model.onnx -o FOLDER` writes one anew"
    return UsageProblem(
        Diagnostic("graph-damaged", f"{path} is no graph file that can be read: {why}", help=help_)
    )


def constants_of(words: Mapping[str, str]) -> dict[str, Array]:
    """Constants by name, of words: a .npy file, or numbers with commas between. Raises: UsageProblem."""
    found: dict[str, Array] = {}
    for name, word in words.items():
        if word.endswith(".npy"):
            try:
                found[name] = np.load(word, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                said = f"`{word}` is no array of numpy that can be read: {str(error)[:80]}"
                raise UsageProblem(Diagnostic("option-value", said)) from None
            continue
        try:
            numbers = [float(part) for part in word.strip("[]").split(",") if part.strip()]
        except ValueError:
            said = f"--constant takes numbers with commas between, or a .npy file, not `{word[:40]}`"
            raise UsageProblem(
                Diagnostic("option-value", said, help="write --constant shape=[2,3,4]")
            ) from None
        array = np.asarray(numbers)
        whole = array.astype(np.int64) if np.all(array == np.round(array)) else array.astype(np.float32)
        found[name] = whole if "[" in word or "," in word else whole.reshape(())
    return found
