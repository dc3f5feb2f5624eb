"""Models of ONNX that lie, or ask for more work or memory than their text: each is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import make

from isamap.graph.importing import lower_model
from isamap.onnx.onnx_models import parse_model
from isamap.source import UsageProblem

ONNX: Any = import_module("onnx")
FLOAT = ONNX.TensorProto.FLOAT
X = np.zeros((2, 3), np.float32)
MOST_SECONDS = 20
"""Of a processor that much else may use; the slowest takes some five."""


def model() -> Any:
    return make([("Add", ["x", "w"], ["y"], {})], {"x": X}, ["y"], {"w": np.ones(3, np.float32)})


def info(name: str, sizes: list[int] | None = None, kind: int = FLOAT) -> Any:
    return ONNX.helper.make_tensor_value_info(name, kind, sizes)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    return ONNX.helper.make_graph(nodes, "inside", inputs, outputs)


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return ONNX.helper.make_node(op, inputs, outputs, **attributes)


def of_nodes(*nodes: Any, **weights: Any) -> Any:
    made = model()
    del made.graph.node[:], made.graph.initializer[:]
    made.graph.node.extend(nodes)
    arrays = {name: np.asarray(array) for name, array in weights.items()}
    made.graph.initializer.extend(ONNX.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return made


def changed(change: Callable[[Any], object]) -> Any:
    made = model()
    change(made)
    return made


def twice(those: Any) -> None:
    those.append(those[0])


def apart(**entries: str) -> Any:
    made = model()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = ONNX.TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return made


def sparse(values: list[float], places: list[Any], sizes: list[int]) -> Any:
    made = model()
    del made.graph.initializer[:]
    made.graph.sparse_initializer.append(
        ONNX.helper.make_sparse_tensor(
            ONNX.numpy_helper.from_array(np.asarray(values, np.float32), "w"),
            ONNX.numpy_helper.from_array(np.asarray(places, np.int64)),
            sizes,
        )
    )
    return made


def loop_body(*inside: Any) -> Any:
    ports = [info("i", [], ONNX.TensorProto.INT64), info("go", [], ONNX.TensorProto.BOOL), info("v")]
    yes = node("Constant", [], ["on"], value=ONNX.numpy_helper.from_array(np.asarray(True)))
    nodes = [yes, *(inside or [node("Identity", ["v"], ["r"])])]
    return graph(nodes, ports, [info("on", [], ONNX.TensorProto.BOOL), info("r")])


def nested_loops(depth: int) -> Any:
    body = loop_body()
    for _ in range(depth):
        body = loop_body(node("Loop", ["n", "t", "v"], ["r"], body=body))
    return of_nodes(node("Loop", ["n", "t", "x"], ["y"], body=body), n=np.int64(900), t=np.bool_(True))


def branches(*kinds: int) -> Any:
    made = [graph([node("Cast", ["x"], [f"r{k}"], to=k)], [], [info(f"r{k}", None, k)]) for k in kinds]
    return of_nodes(node("If", ["t"], ["y"], then_branch=made[0], else_branch=made[1]), t=np.bool_(True))


DOUBLING = [node("Concat", [f"e{n}", f"e{n}"], [f"e{n + 1}"], axis=0) for n in range(40)]

LARGE: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "Pad": ([node("Pad", ["x", "p"], ["y"], mode="edge")], {"p": np.asarray([1, 0, 0, 0])}),
    "Trilu": ([node("Trilu", ["x"], ["y"])], {}),
    "Dropout": ([node("Dropout", ["x"], ["z", "m"]), node("Not", ["m"], ["y"])], {}),
    "EyeLike": ([node("EyeLike", ["x"], ["y"])], {}),
    "Hardmax": ([node("Hardmax", ["x"], ["y"], axis=0)], {}),
    "ReverseSequence": ([node("ReverseSequence", ["x", "l"], ["y"])], {"l": np.asarray([1, 1, 1])}),
    "AveragePool": (
        [
            node("Unsqueeze", ["x", "a"], ["u"]),
            node("AveragePool", ["u"], ["y"], kernel_shape=[3], pads=[1, 1], count_include_pad=0),
        ],
        {"a": np.asarray([0])},
    ),
    "MaxUnpool": (
        [
            node("Unsqueeze", ["x", "a"], ["u"]),
            node("MaxUnpool", ["u", "i"], ["y"], kernel_shape=[1]),
        ],
        {"a": np.asarray([0]), "i": np.zeros((1, 1, 1), np.int64)},
    ),
}


def large(*nodes: Any, **weights: Any) -> Any:
    """Return a model whose input is said to be of 2^30 rows, from which operators make tables."""
    made = of_nodes(*nodes, **weights)
    rows = 1 << 30
    sizes = [3, rows] if any(n.op_type in ("AveragePool", "MaxUnpool") for n in nodes) else [rows, 3]
    made.graph.input[0].CopyFrom(info("x", sizes))
    return made


HUGE = {
    "two views": (node("Flatten", ["x"], ["a"], axis=0), node("Flatten", ["x"], ["b"], axis=-1)),
    "itself": (node("Identity", ["x"], ["a"]),),
    "a result that another node reads": (
        node("Reshape", ["x", "w"], ["a"]),
        node("ReduceMax", ["x"], ["b"], keepdims=0),
    ),
}
"""Nodes without a step whose result has to be written as a tensor of its own: no node is refused."""


def of_huge(made: Any, *nodes: Any) -> None:
    """Make a model of such nodes whose input has more elements than a step may write."""
    del made.graph.node[:], made.graph.input[:], made.graph.output[:], made.graph.initializer[:]
    made.graph.node.extend(nodes)
    made.graph.input.append(info("x", [1 << 31, 3, 4]))
    made.graph.initializer.append(ONNX.numpy_helper.from_array(np.asarray([-1, 4]), "w"))
    made.graph.output.extend(ONNX.helper.make_empty_tensor_value_info(n.output[0]) for n in nodes)


LIES: dict[str, tuple[Any, str]] = {
    "an input twice": (changed(lambda m: twice(m.graph.input)), "two inputs are called `x`"),
    "a result twice": (changed(lambda m: twice(m.graph.output)), "two results are called `y`"),
    "weights twice": (
        changed(lambda m: twice(m.graph.initializer)),
        "two tensors of weights are called `w`",
    ),
    "a value twice": (of_nodes(node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])), "two nodes write `y`"),
    "an input written": (of_nodes(node("Relu", ["x"], ["x"])), "a node writes `x`"),
    "an attribute twice": (
        changed(lambda m: [m.graph.node[0].attribute.add(name="a", type=2) for _ in "ab"]),
        "a node of Add has two attributes `a`",
    ),
    "an attribute without a type": (
        changed(lambda m: m.graph.node[0].attribute.add(name="a", i=1)),
        "the attribute `a` has no type",
    ),
    "an attribute of two types": (
        changed(lambda m: m.graph.node[0].attribute.add(name="a", type=2, f=1.0)),
        "the attribute `a` holds more than its type",
    ),
    "an attribute that there is not": (
        of_nodes(node("Relu", ["x"], ["y"], alpha=1.0)),
        "ONNX has no attribute `alpha` of it",
    ),
    "an attribute of another type": (
        of_nodes(node("LeakyRelu", ["x"], ["y"], alpha=1)),
        "its attribute `alpha` is not of the type FLOAT",
    ),
    "too many inputs": (of_nodes(node("Relu", ["x", "x"], ["y"])), "2 inputs, where ONNX has 1 to 1"),
    "types that differ": (
        of_nodes(node("Add", ["x", "w"], ["y"]), w=np.ones(3, np.int64)),
        "which have to be one type",
    ),
    "a convolution of nothing": (of_nodes(node("Conv", ["x"], ["y"])), "1 inputs, where ONNX has 2 to 3"),
    "a result of another type": (
        changed(lambda m: m.graph.output[0].type.CopyFrom(info("y", None, ONNX.TensorProto.INT64).type)),
        "`y`: it is said to be i64, and is f32",
    ),
    "a result of other sizes": (
        changed(lambda m: m.graph.output[0].CopyFrom(info("y", [9, 9]))),
        r"`y`: it is said to have the sizes \[9, 9\], and has \[2, 3\]",
    ),
    "a value of another type": (
        of_nodes(node("Relu", ["x"], ["r"]), node("Neg", ["r"], ["y"])),
        "`r`: it is said to be i32, and is f32",
    ),
    "a circle": (of_nodes(node("Add", ["x", "r"], ["y"]), node("Neg", ["y"], ["r"])), "by no node before"),
    "no such domain": (of_nodes(node("Relu", ["x"], ["y"], domain="me")), "operators of `me`"),
    "an opset of nothing": (
        changed(lambda m: setattr(m.opset_import[0], "version", -1)),
        "it is written in opset -1",
    ),
    "two opsets": (
        changed(lambda m: m.opset_import.add(domain="ai.onnx", version=9)),
        "two versions of the operators",
    ),
    "numbers left over": (
        changed(lambda m: setattr(m.graph.initializer[0], "raw_data", bytes(16))),
        "the numbers of `w` do not fill its sizes",
    ),
    "numbers at two places": (
        changed(lambda m: m.graph.initializer[0].float_data.append(1)),
        "`w` holds its numbers at several places",
    ),
    "numbers beyond their type": (
        changed(
            lambda m: m.graph.initializer[0].CopyFrom(
                ONNX.TensorProto(name="w", dims=[3], data_type=ONNX.TensorProto.INT8, int32_data=[1, 2, 300])
            )
        ),
        "one of them is beyond -128 … 127",
    ),
    "numbers of another type": (
        changed(
            lambda m: m.graph.initializer[0].CopyFrom(
                ONNX.TensorProto(name="w", dims=[3], data_type=FLOAT, int32_data=[1, 2, 3])
            )
        ),
        "`w` holds its numbers as int32_data",
    ),
    "no such type": (changed(lambda m: setattr(m.graph.initializer[0], "data_type", 99)), "`w` is of a type"),
    "sixty axes": (changed(lambda m: m.graph.initializer[0].dims.extend([1] * 60)), "`w` has 61 axes"),
    "an offset that is not a number": (apart(location="w.bin", offset="-64"), "have no offset that is a number"),
    "a name with a zero": (apart(location="a\0b"), "no file can have this name"),
    "a length of half a terabyte": (apart(location="w.bin", length=str(1 << 39)), "do not fill its sizes"),
    "sparse sizes below 0": (sparse([1], [0], [-4, 4]), "the sizes of `w` are none"),
    "sparse sizes of 2^60": (sparse([1], [0], [1 << 30, 1 << 30]), "the sizes of `w` are none"),
    "sparse sizes of 2^32": (sparse([1], [0], [1 << 32]), "have more than 16777216 elements"),
    "a sparse place below 0": (sparse([1], [-1], [3]), "elements of `w` lie outside"),
    "a sparse place twice": (sparse([1, 2], [1, 1], [3]), "not in their order"),
    "sparse places too few": (sparse([1, 2], [1], [3]), "not one for each"),
    "branches that differ": (branches(FLOAT, ONNX.TensorProto.INT32), "its branches give"),
    "a loop without an end": (
        of_nodes(node("Loop", ["", "t", "x"], ["y"], body=loop_body()), t=np.bool_(True)),
        "it runs more than 1000 times",
    ),
    "loops in loops": (nested_loops(6), "graphs inside run more than"),
    "a constant that doubles": (
        of_nodes(*DOUBLING, node("Add", ["x", "e40"], ["y"]), e0=np.zeros((64, 3), np.float32)),
        "is too large|sizes that do not go together",
    ),
    "an identity of 2^40": (
        of_nodes(
            node("ConstantOfShape", ["n"], ["c"]),
            node("EyeLike", ["c"], ["y"]),
            n=np.asarray([1 << 20] * 2),
        ),
        "is too large|no matrix",
    ),
    "an image of 10^13": (
        of_nodes(node("Resize", ["x", "", "s"], ["y"], mode="linear"), s=np.asarray([1e6, 1e7], np.float32)),
        "an axis resized to",
    ),
    "an image shrunk to nothing": (
        of_nodes(
            node("Resize", ["x", "", "s"], ["y"], mode="linear", antialias=1),
            s=np.asarray([1e-30, 1], np.float32),
        ),
        "an axis resized to 0 elements",
    ),
    **{
        f"a table of a large axis by {name}": (large(*nodes, **weights), "the tables of a model have")
        for name, (nodes, weights) in LARGE.items()
    },
    **{
        f"an input too large for {name}": (
            changed(lambda m, given=given: of_huge(m, *given)),
            "no step can write the result `a` of the model: a result of 25769803776 elements is too large",
        )
        for name, given in HUGE.items()
    },
    "units that there are not": (
        of_nodes(
            node("Unsqueeze", ["x", "a"], ["u"]),
            node("LSTM", ["u", "w", "r"], ["y"], hidden_size=1 << 40),
            a=np.asarray([0]), w=np.zeros((1, 16, 3), np.float32), r=np.zeros((1, 16, 4), np.float32),
        ),
        "its attribute `hidden_size` is 1099511627776, for weights of 4 units",
    ),
}  # fmt: skip
LIES["a value of another type"][0].graph.value_info.append(info("r", None, ONNX.TensorProto.INT32))


@pytest.mark.parametrize("lie", LIES)
def test_a_model_that_lies_is_refused_at_once(lie: str, tmp_path: Path) -> None:
    made, said = LIES[lie]
    begun = process_time()
    with pytest.raises(UsageProblem, match=said):
        lower_model(parse_model(made.SerializeToString(), tmp_path / "made.onnx"), "made", {}, {}).whole()
    assert process_time() - begun < MOST_SECONDS
