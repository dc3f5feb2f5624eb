"""ONNX's own tests of its operators: which are right, which are refused, and why.

    python benchmarks/onnx_nodes.py                        all of them, by two processes
    python benchmarks/onnx_nodes.py Conv 'Reduce*'         those of some operators
    python benchmarks/onnx_nodes.py --write                and docs/onnx-operators.md from what came out
    python benchmarks/onnx_nodes.py --laid permuted        with inputs and results in another order of axes

`--laid part` gives inputs that are parts of larger tensors, and `--laid computed` inputs and results that elementwise
operations compute and read.

Tests that write an operator out as others (`expanded`) are left out. A test that gives sizes as an input, as
the shape of a Reshape, is compiled with that input as a constant; the table counts these by themselves.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import cache, partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from isamap.graph.importing import Imported, lower_model
from isamap.graph.types import convert_stored
from isamap.onnx import compile_model
from isamap.onnx.onnx_models import parse_model
from isamap.source import IsamapError

STORED = {"int4": "int8", "uint4": "uint8"}
"""Types whose elements arrays of isamap have in a byte each; those that the language lacks are compared as bytes."""
LAYOUTS = ("permuted", "part", "computed")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "onnx-operators.md"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a test: "right", "refused", "wrong" or "failed"; inputs that were made constants.

    `is_folded` where nothing is left to be given: ONNX's own reference has computed the results when the
    model was imported, and the test says nothing of code.
    """

    name: str
    operators: tuple[str, ...]
    outcome: str
    why: str = ""
    constants: tuple[str, ...] = ()
    is_folded: bool = False


@cache
def cases() -> dict[str, Any]:
    """Return all tests by name."""
    loader: Any = import_module("onnx.backend.test.loader")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = loader.load_model_tests(kind="node")
    return {case.name: case for case in found if "expanded" not in case.name}


@dataclass(frozen=True, slots=True)
class Change:
    """An operator between a tensor of a test and the model's input or result.

    `outside` makes the model's array of the test's. `constants` are further inputs of the operator.
    """

    operator: str
    attributes: Mapping[str, Any]
    constants: Mapping[str, Sequence[int]]
    outside: Callable[[Any], Any]


def change_of(layout: str, value: Any, version: int, *, is_input: bool) -> Change | None:
    """Return the change that a layout of `LAYOUTS` makes to a tensor, or None for none."""
    if layout == "permuted" and value.ndim > 1:
        order = [*range(1, value.ndim), 0]
        back = [order.index(n) for n in range(value.ndim)]
        return Change(
            "Transpose", {"perm": order if is_input else back}, {}, partial(np.transpose, axes=back)
        )
    if layout == "computed" and value.dtype in (np.float32, np.float64) and value.ndim:
        return Change("Neg", {}, {}, np.negative)
    if layout == "part" and is_input and value.size and value.ndim and version >= 10:
        cut = {"starts": [1] * value.ndim, "ends": [n + 1 for n in value.shape], "axes": range(value.ndim)}
        return Change("Slice", {}, cut, partial(np.pad, pad_width=1, mode="wrap"))
    return None


def lay_out(case: Any, layout: str, constants: Sequence[str] = ()) -> Any:
    """Return a test with tensors in a layout of `LAYOUTS`, without those that are made constants.

    Models with control flow are left as they are.
    """
    onnx: Any = import_module("onnx")
    made = copy.copy(case)
    made.model = onnx.ModelProto.FromString(case.model.SerializeToString())
    made.data_sets = [(list(inputs), list(expected)) for inputs, expected in case.data_sets]
    graph, nodes = made.model.graph, list(made.model.graph.node)
    version = next((o.version for o in made.model.opset_import if not o.domain), 0)
    if any(a.HasField("g") or a.graphs for node in nodes for a in node.attribute):
        return case
    for column, ports in enumerate((graph.input, graph.output)):
        for place, port in enumerate(ports):
            given = [data[column][place] for data in made.data_sets if place < len(data[column])]
            if not port.type.HasField("tensor_type") or {type(value) for value in given} != {np.ndarray}:
                continue
            if column == 0 and port.name in constants:
                continue
            change = change_of(layout, given[0], version, is_input=column == 0)
            if change is None or len({value.shape for value in given}) > 1:
                continue
            inside = f"{port.name}_inside"
            for node in nodes:
                for names in (node.input, node.output):
                    names[:] = [inside if name == port.name else name for name in names]
            more = [f"{port.name}_{word}" for word in change.constants]
            for name, numbers in zip(more, change.constants.values(), strict=True):
                graph.initializer.append(onnx.numpy_helper.from_array(np.array(numbers, np.int64), name))
            ends = (port.name, inside) if column == 0 else (inside, port.name)
            node = onnx.helper.make_node(change.operator, [ends[0], *more], [ends[1]], **change.attributes)
            nodes = [node, *nodes] if column == 0 else [*nodes, node]
            for data in made.data_sets:
                data[column][place] = change.outside(data[column][place])
            sizes = made.data_sets[0][column][place].shape
            kind = port.type.tensor_type.elem_type
            port.CopyFrom(onnx.helper.make_tensor_value_info(port.name, kind, sizes))
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return made


def operators_of(case: Any) -> tuple[str, ...]:
    """Return the operators of a test's model."""
    return tuple(sorted({node.op_type for node in case.model.graph.node}))


def imported(case: Any) -> tuple[Imported, tuple[str, ...]]:
    """Return a test's model, with the inputs as constants without which it is refused."""
    model = parse_model(case.model.SerializeToString(), Path(case.name))
    names = [port.name for port in case.model.graph.input]
    given = {
        n: array_of(v)
        for n, v in zip(names, case.data_sets[0][0], strict=False)
        if not isinstance(v, list | tuple) and v is not None
    }
    constants: dict[str, Any] = {}
    while True:
        found = lower_model(model, case.name, {}, constants)
        reference = {t.constant for t in found.taken if t.where == "refused" and t.constant in given}
        if found.program is not None or not reference - constants.keys():
            return found, tuple(constants)
        constants |= {name: given[name] for name in reference}


def run_case(name: str, machine: str = "generic-c", layout: str = "") -> Result:
    """Return what comes of a test, with its tensors in a layout of `LAYOUTS` where one is named."""
    case = cases()[name]
    operators = operators_of(case)
    try:
        found, constants = imported(case)
        if layout and found.program is not None:
            case = lay_out(case, layout, constants)
            found, constants = imported(case)
        compiled = compile_model(found, machine, jobs=1)
    except IsamapError as error:
        return Result(name, operators, "refused", error.diagnostics[0].message)
    except Exception as error:  # noqa: BLE001 - whatever it is, the table shows it
        return Result(name, operators, "failed", f"{type(error).__name__}: {error}"[:300])
    names = [port.name for port in case.model.graph.input]
    for inputs, expected in case.data_sets:
        given = {n: array_of(v) for n, v in zip(names, inputs, strict=False) if n in compiled.inputs}
        try:
            results = list(compiled(given).values())
        except IsamapError as error:
            return Result(name, operators, "failed", error.diagnostics[0].message, constants)
        for result, reference in zip(results, expected, strict=True):
            is_transform = operators[0] in ("DFT", "STFT")
            said = difference(result, array_of(reference), case.rtol, case.atol, is_transform=is_transform)
            if said:
                return Result(name, operators, "wrong", said, constants)
    return Result(name, operators, "right", "", constants, not compiled.inputs)


def array_of(value: Any) -> Any:
    """Return what a test gives as an array: some are tensors of protobuf."""
    return (
        import_module("onnx.numpy_helper").to_array(value)
        if hasattr(value, "data_type")
        else np.asarray(value)
    )


def difference(result: Any, reference: Any, rtol: float, atol: float, *, is_transform: bool = False) -> str:
    """Return how a result differs from what it should be; "" where it does not, by more than the test allows."""
    reference = convert_stored(reference)
    if result.shape != reference.shape:
        return f"sizes {list(result.shape)} for {list(reference.shape)}"
    if result.dtype.name != STORED.get(reference.dtype.name, reference.dtype.name):
        return f"{result.dtype} for {reference.dtype}"
    one, other = (a.astype(np.float64) if a.dtype.kind not in "biu" else a for a in (result, reference))
    if one.dtype.kind in "biu":
        same = one.astype(object) == other.astype(object) if one.dtype != other.dtype else one == other
        return "" if np.all(same) else f"{np.sum(~np.asarray(same, bool))} of {one.size} elements differ"
    if result.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # two units in the last place, as ONNX's own runner allows
    if is_transform and other.size:  # elements that are 0 but for what rounding leaves of large ones
        atol = max(atol, 2 * float(np.finfo(result.dtype).eps) * float(np.abs(other).max()))
    if np.allclose(one, other, rtol, atol, equal_nan=True):
        return ""
    return f"differs by {np.nanmax(np.abs(one - other)):.3g}"


def run_all(names: Sequence[str], machine: str, jobs: int, layout: str = "") -> Iterable[Result]:
    """Return the results of tests, by so many processes."""
    if jobs == 1:
        yield from (run_case(name, machine, layout) for name in names)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = {pool.submit(run_case, name, machine, layout): name for name in names}
        for done in as_completed(waiting):
            try:
                yield done.result()
            except Exception as error:  # noqa: BLE001 - a process that ended
                yield Result(waiting[done], operators_of(cases()[waiting[done]]), "failed", str(error))


def table(results: Sequence[Result]) -> str:
    """Return the page: each operator with how many of its tests are right."""
    of: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        of[", ".join(result.operators)].append(result)
    right = [r for r in results if r.outcome == "right"]
    others = {o: sum(r.outcome == o for r in results) for o in ("refused", "wrong", "failed")}
    fixed, folded = sum(bool(r.constants) for r in right), sum(r.is_folded for r in right)
    lines = [
        "# Operators of ONNX",
        "",
        "`python benchmarks/onnx_nodes.py --write` wrote this page. The command compiled ONNX's own tests of its",
        "operators for `generic-c`, and ran them. Tests of expanded functions are left out.",
        "",
        f"Of {len(results)} tests, {len(right)} are right, {others['refused']} are refused when the model is",
        f"imported, {others['wrong']} are wrong, and {others['failed']} failed. In {fixed} of the right tests,",
        f"inputs that decide sizes are constants. In {folded} tests, no other input is left. ONNX's own reference",
        "computes such tests when the model is imported, so they test no code of isamap.",
        "",
        "A result is right if it is within the tolerance of the test: 0.1 % and 1e-7. Results in bf16 have a",
        "tolerance of two units in the last place, as in ONNX's own runner. Results of DFT and STFT have a tolerance",
        "of two units in the last place of the largest element.",
        "",
        "| operator | right | of | refused for |",
        "|---|---|---|---|",
    ]
    for name, found in sorted(of.items()):
        good = sum(r.outcome == "right" for r in found)
        reasons = dict.fromkeys(
            r.why.partition("not taken: ")[2] or r.why for r in found if r.outcome != "right"
        )
        short = "; ".join(reason.replace("|", "/")[:100] for reason in list(reasons)[:2])
        lines.append(f"| {name} | {good} | {len(found)} | {short} |")
    return "\n".join(lines) + "\n"


def main(words: Sequence[str]) -> int:
    """Run tests and say what came of them; exit code 1 where one is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("operators", nargs="*", help="patterns of operators; all by default")
    parser.add_argument("--hw", default="generic-c")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--names", default="*", help="a pattern of tests")
    parser.add_argument("--laid", choices=LAYOUTS, default="", help="a layout of inputs and results")
    parser.add_argument("--write", action="store_true", help="write docs/onnx-operators.md")
    parser.add_argument("--to", default=str(Path(tempfile.gettempdir()) / "onnx_nodes.json"))
    asked = parser.parse_args(words)
    chosen = [
        name
        for name, case in cases().items()
        if fnmatch(name, asked.names)
        and (not asked.operators or any(fnmatch(op, p) for op in operators_of(case) for p in asked.operators))
    ]
    chosen.sort(key=lambda name: crc32(name.encode()))  # long ones are spread over the run
    results: list[Result] = []
    for result in run_all(chosen, asked.hw, asked.jobs, asked.laid):
        results.append(result)
        if len(results) % 50 == 0:
            print(f"{len(results)} of {len(chosen)}", flush=True)
        if result.outcome in ("wrong", "failed"):
            print(f"{result.outcome} {result.name}: {result.why}", flush=True)
    Path(asked.to).write_text(json.dumps([asdict(r) for r in results], indent=1), encoding="utf-8")
    counts = {o: sum(r.outcome == o for r in results) for o in ("right", "refused", "wrong", "failed")}
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if asked.write:
        PAGE.write_text(table(sorted(results, key=lambda r: r.name)), encoding="utf-8")
    return 1 if counts["wrong"] or counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
