"""Read an ONNX file as a model, and import it, compile it, or run ONNX's reference evaluator on it.

import_model("mlp.onnx").whole()          the program: kernels and moves
compile_model("mlp.onnx", "host")         the library, to be called with arrays
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from isamap.driver.options import given_count, given_flag
from isamap.driver.request import MAX_THREADS
from isamap.graph import model_library as library
from isamap.graph.elementwise_fusion import Fuse, fuse_steps
from isamap.graph.graph import Array, Model
from isamap.graph.host_fallback import host_of, reads_signed_bytes_only
from isamap.graph.importing import Imported, Trace, lower_model
from isamap.graph.layers import ReferenceValue
from isamap.graph.making import Value
from isamap.graph.partition import METHODS, Method
from isamap.graph.quantising import HALF
from isamap.graph.sizes import Given
from isamap.onnx.onnx_definitions import DEFINITIONS, evaluator_of
from isamap.onnx.onnx_files import MOST_BYTES, OnnxReader, damaged_model, onnx_package, without_weights
from isamap.source import UsageProblem, map_file, open_regular

ROUNDED = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinear")
"""Operators, or how their names begin, whose integers may be one step away: merged ones round once."""
FLOATS = ("float", "bfloat")


def read_model(path: Path) -> Model:
    """Return the model of a file. Raises: UsageProblem if it is none."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise damaged_model(path, f"it has {size} bytes, more than a file of protobuf may have")
            content = map_file(file)
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}"
        raise UsageProblem.of("file-unreadable", said) from None
    return parse_model(content, path)


def parse_model(content: bytes | memoryview, path: Path) -> Model:
    """Return the model of a file's bytes. `path` locates its other files. Raises: UsageProblem."""
    onnx = onnx_package()
    errors: Any = import_module("google.protobuf.message")
    proto = onnx.ModelProto()
    try:
        rest, apart = without_weights(memoryview(content))
        proto.ParseFromString(rest)
    except errors.DecodeError:
        raise damaged_model(path, "its bytes are not a protobuf of ONNX") from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise damaged_model(path, "it has no graph, or does not say which operators it is written in")
    reader = OnnxReader(path, onnx, apart)
    try:
        opsets = reader.opsets(proto.opset_import)
        called = [(f.domain, f.name) for f in proto.functions]
        reader.check_once((f"{domain}.{name}" for domain, name in called), "two functions are called")
        functions = dict(zip(called, map(reader.function, proto.functions), strict=True))
        return Model(reader.graph(proto.graph, 0), opsets, functions, DEFINITIONS, is_foreign=True)
    except (TypeError, UnicodeError):  # names that are no text come as bytes
        raise damaged_model(path, "one of its names is not a text") from None


def import_model(
    path: str | Path,
    *,
    sizes: Mapping[str, Given] | None = None,
    constants: Mapping[str, Array] | None = None,
    fuse: Fuse = fuse_steps,
    signed: bool = False,
) -> Imported:
    """Return the program of a file for given sizes and constants.

    `sizes` gives open ones a number or a range, `constants` inputs a value for all calls.
    `fuse` decides which operations are one kernel. With `signed`, bytes inside are signed ones where that computes
    the same.
    Raises: UsageProblem for a file that cannot be read, and for sizes or constants that do not fit.
    """
    file = Path(path)
    return lower_model(read_model(file), file.stem, sizes or {}, constants or {}, fuse, signed=signed)


def compile_model(
    model: str | Path | Imported,
    machine: str = "host",
    *,
    sizes: Mapping[str, Given] | None = None,
    constants: Mapping[str, Array] | None = None,
    heuristic: str = "greedy",
    limit_s: float = 10.0,
    jobs: int = 0,
    threads: int = 1,
    fusion: Method = "greedy",
    devices: int = 1,
    host: str | None = None,
    transform: bool = False,
) -> library.CompiledModel:
    """Return a model, from a file or imported, compiled for a machine.

    `sizes` gives open sizes a number, or a range such as (1, 64) or "1..64@1,16". `constants` gives inputs a value
    for all calls. `jobs` is the number of processes that compile kernels, 0 for the number of cores. Each kernel
    runs on `threads` threads. `devices` is the number of cores to which whole kernels are assigned instead.
    `fusion` is "none", "greedy" or "cpsat": how operations of a file become kernels (docs/graphs.md). `host` is
    the machine for operators that `machine` lacks. With "none", such a model is refused. With None, the
    machine's description names the host.
    With `transform`, convolutions may be computed at points, with larger errors, if that is faster.
    Raises: UsageProblem for a model that is refused, and IsamapError of every kind.
    """
    if fusion not in METHODS:
        said = f"`fusion` is {', '.join(METHODS)}, not `{fusion}`"
        raise UsageProblem.of("argument-mismatch", said)
    how = library.ModelOptions(
        machine, heuristic, limit_s, jobs=1,
        threads=given_count("threads", threads, 1, MAX_THREADS),
        devices=given_count("devices", devices, 1, library.MAX_DEVICES),
        host=host_of(host, machine), transform=given_flag("transform", transform),
    )  # fmt: skip
    library.refuse_both(how)
    fuse = library.fuse_of(fusion, how)
    found = (
        model
        if isinstance(model, Imported)
        else import_model(
            model, sizes=sizes, constants=constants, fuse=fuse, signed=reads_signed_bytes_only(how.machine)
        )
    )
    return library.compile_whole(found.whole(), how, jobs, apart=True, warnings=library.warnings_of(fuse))


class OnnxReference:
    """ONNX's reference evaluator of a file's model. It computes in f64, node by node."""

    def __init__(self, path: Path, constants: Mapping[str, Array]) -> None:
        """Read the file. Raises: UsageProblem if the evaluator lacks an operator of it."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._evaluator = evaluator_of(onnx_package().load(str(path)))
        except Exception as error:  # noqa: BLE001 - it raises errors of several kinds
            said = f"ONNX's evaluator does not take this model: {str(error).splitlines()[0][:120]}"
            raise UsageProblem.of("onnx-node", said) from None
        self._constants = constants

    def evaluate(
        self, inputs: Mapping[str, Array], trace: Trace, tensors: Mapping[str, Array]
    ) -> dict[str, ReferenceValue]:
        """Return the expected value of each tensor, computed by ONNX's reference from the node's own inputs.

        A value that is in a tensor is replaced by the tensor's elements where later nodes read it.
        """
        known: dict[str, Any] = {"": None}
        known |= {n: _wide(a) for n, a in {**self._evaluator.rt_inits_, **self._constants, **inputs}.items()}
        found: dict[str, ReferenceValue] = {}
        for node in self._evaluator.rt_nodes_:
            for name, made in zip(node.output, self._results(node, known), strict=False):
                known[name] = made
                value = trace.values.get(name)
                is_signed = (
                    value is not None and value.dtype == "i8" and getattr(made, "dtype", None) == np.uint8
                )
                if value is None or value.known is not None or value.tensor not in tensors:
                    continue
                border = trace.borders.get(value.tensor)
                if getattr(made, "shape", None) != value.shape:
                    continue
                if border is not None and len(border) != value.rank:
                    continue  # another value of the same tensor has the axes that the border is of
                lying = made.transpose(value.order) if value.order else made
                lying = _shift(lying, np.int8, -HALF) if is_signed else lying
                is_rounded = node.onnx_node.op_type.startswith(ROUNDED)
                found.setdefault(value.tensor, ReferenceValue(name, np.ascontiguousarray(lying), is_rounded))
                own = _own(tensors[value.tensor], value, border)
                own = _shift(own, np.uint8, HALF) if is_signed else own
                known[name] = _wide(own) if made.dtype == np.float64 else own.astype(made.dtype)
        return found

    def _results(self, node: Any, known: Mapping[str, Any]) -> Sequence[Any]:
        """Return the results of a node, or () if an input is unknown or the node must not be computed in f64."""
        if any(name not in known for name in node.input):
            return ()
        is_loop = node.onnx_node.op_type == "Loop"  # its missing condition is false to the evaluator
        given, more = (
            [True if is_loop and n == 1 and not name else known[name] for n, name in enumerate(node.input)],
            {"context": dict(known)} if node.need_context() else {},
        )
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for takes_wide in (True, False):
                try:
                    taken = given if takes_wide else map(_narrow, given)
                    return [_wide(array) for array in node.run(*taken, **more)]
                except Exception:  # noqa: BLE001 - it raises whatever numpy does
                    continue
        return ()


def _shift(array: Any, dtype: type[np.generic], by: int) -> Any:
    """Return bytes plus a number, as a conversion between signed and unsigned bytes."""
    return (array.astype(np.int16) + by).astype(dtype)


def _wide(array: Any) -> Any:
    """Return floats as f64, and other values unchanged."""
    is_float = str(getattr(array, "dtype", "")).startswith(FLOATS)
    return np.asarray(array, np.float64) if is_float else array


def _narrow(array: Any) -> Any:
    """Return f64 as f32, and other values unchanged."""
    return array.astype(np.float32) if getattr(array, "dtype", None) == np.float64 else array


def _own(array: Array, value: Value, border: Sequence[tuple[int, int]] | None) -> Array:
    """Return the elements of a tensor by the axes of a value stored in it."""
    lying = value.lying
    if border is not None and array.size != value.count:
        wide = array.reshape([n + low + high for n, (low, high) in zip(lying, border, strict=True)])
        array = wide[tuple(slice(low, low + n) for n, (low, _) in zip(lying, border, strict=True))]
    array = array.reshape(lying)
    return array.transpose(np.argsort(value.order)) if value.order else array
