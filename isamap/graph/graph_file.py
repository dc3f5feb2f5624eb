"""The graph file: a program's steps as JSON, with the texts of its kernels and the bytes of its constants.

    {"isamap": "model/1", "name": "mlp", "inputs": [{"name": "x", "tensor": "i0", …}],
     "steps": [{"kernel": "gemm_1f…", "reads": {"a0": {"tensor": "i0", …}, …}, "writes": {"y0": {…}}}, …], …}

A folder of these can be edited, kernel by kernel, and compiled.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from isamap import source
from isamap.driver.inputs import MAX_BYTES
from isamap.graph.graph import Array
from isamap.graph.model_program import (
    MOST_AXES,
    Control,
    KernelCall,
    ModelProgram,
    Move,
    Port,
    Step,
    TensorView,
    is_sound,
    reads_of,
    writes_of,
)
from isamap.graph.sizes import needs_numbers
from isamap.graph.types import size_bytes
from isamap.ir import DTYPES
from isamap.machine.timings import LINE_BYTES
from isamap.run.in_process import large_room
from isamap.syntax import parse_kernel

FORMAT = "model/1"
FILE = "graph.json"
MOST_BYTES = 16 << 20
MOST_ELEMENTS = 1 << 33
MOST_NUMBER = 1 << 40


NO_WEIGHTS: Mapping[str, memoryview] = {}


def weights_of(
    program: ModelProgram, bodies: Mapping[str, memoryview] = NO_WEIGHTS
) -> tuple[memoryview, dict[str, int]]:
    """Return all constants in sequence, and the offset of each. Units: bytes."""
    places: dict[str, int] = {}
    size = 0
    for name, length in [(n, a.nbytes) for n, a in program.constants.items()] + [
        (name, len(content)) for name, content in bodies.items()
    ]:
        places[name] = size
        size += -(-length // LINE_BYTES) * LINE_BYTES
    room: Any = large_room(size + LINE_BYTES)
    space: NDArray[np.uint8] = np.frombuffer(room, np.uint8)
    whole = space[-space.ctypes.data % LINE_BYTES :][:size]
    for name, array in (*program.constants.items(), *bodies.items()):
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)  # no copy: weights may be large
        whole[places[name] :][: len(content)] = content
        source.release(array)
    return whole.data, places


def folder_files(program: ModelProgram) -> dict[str, str | bytes | memoryview]:
    """Return the files of an imported model by name. Raises: UsageProblem if a size is open."""
    if sizes := program.sizes + program.counts:
        raise needs_numbers(sizes, "a graph file")
    if control := next((step.name for step in program.steps if isinstance(step, Control)), None):
        said = f"a graph file has kernels and moves, and `{control}` calls graphs inside as data decides"
        raise source.UsageProblem.of("onnx-node", said, help="`isamap compile` takes the .onnx file")
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
    texts: dict[str, str | bytes | memoryview] = {
        f"{name}.ir": text for name, text in program.kernels.items()
    }
    return {FILE: json.dumps(whole, indent=1) + "\n", f"{program.name}.weights": weights, **texts}


def _passed_json(passed: TensorView) -> dict[str, object]:
    return {"tensor": passed.tensor, "type": passed.dtype, "shape": list(passed.shape)}


def _step_json(step: Step) -> dict[str, object]:
    if isinstance(step, KernelCall):
        reads, writes = ({n: _passed_json(p) for n, p in of.items()} for of in (step.reads, step.writes))
        return {"kernel": step.kernel, "reads": reads, "writes": writes}
    assert isinstance(step, Move), "it was refused"
    reads, writes = ([_passed_json(p) for p in of] for of in (step.reads, step.writes))
    return {"move": step.function, "reads": reads, "writes": writes, "numbers": list(step.numbers)}


# --- read again -------------------------------------------------------------------------------------------


def read_folder(path: Path) -> ModelProgram:
    """Return the program of a graph file and the files next to it. Raises: UsageProblem, SyntaxProblem."""
    try:
        data = source.read_limited(path, MOST_BYTES)
        if len(data) > MOST_BYTES:
            raise _error(path, f"it has more than {MOST_BYTES >> 20} MB")
        whole = _table(source.read_json(data))
        if whole["isamap"] != FORMAT:
            raise _error(
                path, f"its format is {source.show_value(whole['isamap'])}, and this version reads {FORMAT}"
            )
        program = _program(whole, path.resolve().parent)
    except OSError as error:
        raise _error(path, f"it cannot be read: {error.strerror}") from None
    except KeyError as error:
        raise _error(path, f"it lacks `{error.args[0]}`") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise _error(path, str(error)[:120]) from None
    if (fault := _fault(program)) is not None:
        raise _error(path, fault)
    return program


def _program(whole: Mapping[str, Any], folder: Path) -> ModelProgram:
    with _open_in_folder(folder, whole["weights"]) as file:
        weights = source.map_file(file)
    constants: dict[str, Array] = {}
    for one in map(_table, _items(whole["constants"])):
        tensor, start, size = _text(one["tensor"]), _number(one["offset"]), _number(one["bytes"])
        if start % LINE_BYTES or start + size > len(weights):
            raise ValueError(f"the constant {tensor[:40]} lies outside of the weights")
        if tensor in constants:
            raise ValueError(f"the constant {tensor[:40]} is there twice")
        constants[tensor] = np.frombuffer(weights, np.uint8, size, start)
    if sum(array.nbytes for array in constants.values()) > len(weights):
        raise ValueError("its constants overlap")
    kernels = {_name(name): _kernel(folder, name, file) for name, file in _table(whole["kernels"]).items()}
    if len({name.lower() for name in kernels}) < len(kernels):
        raise ValueError("two kernels differ in small and capital letters alone, as files may not")
    ports = [
        tuple(Port(_text(one["name"]), _read_passed(one)) for one in map(_table, _items(whole[what])))
        for what in ("inputs", "outputs")
    ]
    steps = tuple(_step(one) for one in map(_table, _items(whole["steps"])))
    return ModelProgram(_name(whole["name"]), ports[0], ports[1], constants, kernels, steps)


def _kernel(folder: Path, name: str, file: Any) -> str:
    """Return the text of a kernel, which must have the name that the graph file uses."""
    with _open_in_folder(folder, file) as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"`{file}` is larger than 1 MB")
    text = data.decode("utf-8")
    if (own := parse_kernel(source.Source(file, text)).name) != name:
        raise ValueError(f"the kernel {name[:40]} is called `{own[:40]}` in `{file[:40]}`")
    return text


def _open_in_folder(folder: Path, name: Any) -> BufferedReader:
    try:
        return source.open_in_folder(folder, _text(name))
    except OSError as error:
        raise ValueError(f"`{name[:40]}` cannot be read: {error.strerror}") from None


def _read_passed(one: Mapping[str, Any]) -> TensorView:
    dtype, sizes = _text(one["type"]), _items(one["shape"])
    if dtype not in DTYPES or len(sizes) > MOST_AXES:
        raise ValueError(f"a tensor {dtype[:40]} of {len(sizes)} axes")
    shape = tuple(map(_number, sizes))
    if math.prod(size or 1 for size in shape) > MOST_ELEMENTS:
        raise ValueError(f"a tensor of more than {MOST_ELEMENTS} elements")
    return TensorView(_text(one["tensor"]), dtype, shape)


def _step(one: Mapping[str, Any]) -> Step:
    if "kernel" in one:
        reads, writes = (
            {n: _read_passed(_table(p)) for n, p in _table(one[of]).items()} for of in ("reads", "writes")
        )
        return KernelCall(_name(one["kernel"]), reads, writes)
    reads, writes = (tuple(_read_passed(_table(p)) for p in _items(one[of])) for of in ("reads", "writes"))
    return Move(_name(one["move"]), reads, writes, tuple(map(_number, _items(one["numbers"]))))


def _name(value: Any) -> str:
    """Return a name that is valid in C, in a Makefile and in a path. Raises: ValueError for others."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,200}", value):
        raise ValueError(f"the name {source.show_value(value)} is none in C")
    if source.is_device(value):
        raise ValueError(f"the name {source.show_value(value)} is that of a device in Windows, not of a file")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{source.show_value(value)} is not a text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_NUMBER:
        raise ValueError(f"{source.show_value(value)} is not a whole number from 0 to {MOST_NUMBER}")
    return value


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{source.show_value(value)} is not a list")
    return cast(list[Any], value)


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{source.show_value(value)} is not an object")
    return cast(dict[str, Any], value)


def _fault(program: ModelProgram) -> str | None:
    """Return text about an error in a program, or None: a tensor that is read too early, or has two definitions."""
    sizes: dict[str, int] = {name: array.nbytes for name, array in program.constants.items()}
    for ports, what in ((program.inputs, "inputs"), (program.outputs, "results")):
        if len({port.name for port in ports}) < len(ports):
            return f"two of its {what} have one name"
        if len({port.passed.tensor for port in ports}) < len(ports):
            return f"two of its {what} are one tensor"
    for port in program.inputs:
        if port.passed.tensor in sizes:
            return f"the input `{port.name}` is a constant"
        sizes[port.passed.tensor] = _bytes(port.passed)
    written: set[str] = set()
    for number, step in enumerate(program.steps):
        if isinstance(step, KernelCall) and step.kernel not in program.kernels:
            return f"step {number} calls `{step.kernel}`, which is not a kernel of it"
        if isinstance(step, Move) and not is_sound(step):
            return f"step {number} accesses elements outside its tensors"
        for passed in reads_of(step):
            if sizes.get(passed.tensor) != _bytes(passed):
                return f"step {number} reads `{passed.tensor}`, which is not there in this size"
        for passed in writes_of(step):
            if passed.tensor in sizes:
                return f"step {number} writes `{passed.tensor}`, which is there already"
            sizes[passed.tensor] = _bytes(passed)
            written.add(passed.tensor)
    for port in program.outputs:
        is_there = port.passed.tensor in written and sizes[port.passed.tensor] == _bytes(port.passed)
        if _bytes(port.passed) and not is_there:
            return f"the result `{port.name}` is never written in this size"
    return None


def _bytes(passed: TensorView) -> int:
    return size_bytes(passed.dtype, passed.shape)


def _error(path: Path, why: str) -> source.UsageProblem:
    help_ = "`isamap import model.onnx -o FOLDER` writes one anew"
    return source.UsageProblem.of(
        "graph-damaged", f"{path} is not a graph file that can be read: {why}", help=help_
    )


def constants_of(words: Mapping[str, str], option: str = "--constant") -> dict[str, Array]:
    """Return constants from words: a .npy file, or comma-separated numbers. Raises: UsageProblem."""
    return {
        name: _read_array(word) if word.endswith(".npy") else _array_of(name, word, option)
        for name, word in words.items()
    }


_HEADER = re.compile(
    r"\{'descr': '([<>|=]?)([?biuf][0-9]*)', 'fortran_order': (True|False), "
    r"'shape': \(((?:[0-9]{1,13}, ?)*(?:[0-9]{1,13})?)\), ?\}\s*"
)
"""The header of a .npy file as numpy writes it, of numbers without fields, texts or objects."""


def _read_array(word: str) -> Array:
    """Return the array of a .npy file, mapped so that it is loaded on access."""
    try:
        with source.open_regular(Path(word)) as file:
            data = source.map_file(file)
        return _array(data)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        said = f"`{word}` is not an array of numpy that can be read: {said}"
        help_ = "`numpy.save` writes one; its array has numbers, and no texts or objects"
        raise source.UsageProblem.of("option-value", said, help=help_) from None


def _array(data: memoryview) -> Array:
    if data[:6].tobytes() != b"\x93NUMPY" or len(data) < 12:
        raise ValueError("it does not begin as one")
    start = 10 if data[6] == 1 else 12
    end = start + int.from_bytes(data[8:start], "little")
    header = _HEADER.fullmatch(data[start : min(end, MAX_BYTES)].tobytes().decode("latin-1"))
    if header is None or data[6] > 3:
        raise ValueError("its header does not state a type and sizes of numbers")
    order, kind, is_fortran, listed = header.groups()
    shape = tuple(int(size) for size in listed.split(",") if size.strip())
    try:
        dtype = np.dtype(order + kind)
    except TypeError:
        raise ValueError(f"there are no numbers `{order}{kind}`") from None
    if len(shape) > MOST_AXES or math.prod(shape) * dtype.itemsize != len(data) - end:
        raise ValueError(f"its header says {list(shape)[:8]}, and {len(data) - end} bytes follow")
    array = np.frombuffer(data[end:], dtype).astype(dtype.newbyteorder("="), copy=False)
    return array.reshape(shape, order="F" if is_fortran == "True" else "C")


_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_REAL = re.compile(r"[+-]?(inf|nan|[0-9.]+(e[+-]?[0-9]+)?)", re.IGNORECASE)


def _array_of(name: str, word: str, option: str) -> Array:
    """Return the array of comma-separated numbers: i64 or u64 if all are integers, else f64."""
    parts = [part.strip() for part in word.strip("[] ").split(",") if part.strip()]
    try:
        if not parts and "[" not in word:
            raise ValueError
        if all(_WHOLE.fullmatch(part) for part in parts):
            numbers = [int(part) for part in parts]
            array: Array = np.array(
                numbers, np.uint64 if max(numbers, default=0) > np.iinfo(np.int64).max else np.int64
            )
        else:
            array = np.array([_real(part) for part in parts], np.float64)
    except (ValueError, OverflowError):
        said = f"{option} takes numbers with commas between, or a .npy file, not `{word[:40]}`"
        raise source.UsageProblem.of("option-value", said, help=f"write {option} {name}=[2,3,4]") from None
    return array if "[" in word or "," in word else array.reshape(())


def _real(part: str) -> float:
    """Return a float, which must be finite unless it is written as infinite. Raises: ValueError."""
    if not _REAL.fullmatch(part) or (math.isinf(number := float(part)) and "inf" not in part.lower()):
        raise ValueError(part)
    if part.isascii() and part.strip("+-").isdigit() and int(number) != int(part):
        raise ValueError(part)
    return number
