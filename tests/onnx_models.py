"""Small models of ONNX for tests, and what ONNX's own evaluator says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from isamap.graph.graph import Array
from isamap.graph.importing import Imported, lower_model
from isamap.graph.model_program import KernelCall, ModelProgram, TensorView
from isamap.graph.sizes import Given, value_of
from isamap.ir import interpret
from isamap.onnx.onnx_models import parse_model
from isamap.source import Source
from isamap.syntax import parse_kernel

Described = Sequence[tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]]
"""Nodes: operator, inputs, outputs, attributes. An operator of another domain has it before its name."""
RUNTIMES = "com.microsoft"
"""The domain of operators that runtimes share."""


def make(
    nodes: Described,
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    opset: int = 21,
) -> Any:
    """Return the model of such nodes, whose results have no sizes of their own yet."""
    onnx: Any = import_module("onnx")
    helper = onnx.helper
    made = [
        helper.make_node(name, i, o, f"n{k}", domain=domain, **a)
        for k, (op, i, o, a) in enumerate(nodes)
        for domain, _, name in [op.rpartition(".")]
    ]
    graph = helper.make_graph(
        made,
        "made",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    domains = {RUNTIMES} if any(node.domain for node in made) else set[str]()
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run_by_onnxruntime(model: Any, inputs: Mapping[str, Array]) -> list[Array]:
    """Return what onnxruntime computes by one thread, node by node: fused, it quantises inputs of its own."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(found) for found in session.run(None, dict(inputs))]


def evaluated(model: Any, inputs: Mapping[str, Array]) -> list[Array]:
    """Return what ONNX's evaluator computes."""
    reference: Any = import_module("onnx.reference")
    return [np.asarray(found) for found in reference.ReferenceEvaluator(model).run(None, dict(inputs))]


def imported(
    model: Any,
    constants: Mapping[str, Array] | None = None,
    sizes: Mapping[str, Given] | None = None,
    *,
    signed: bool = False,
) -> Imported:
    """Return a model that was made, imported."""
    read = parse_model(model.SerializeToString(), Path("made.onnx"))
    return lower_model(read, "made", sizes or {}, constants or {}, signed=signed)


def opened(model: Any, **axes: Sequence[str | None]) -> Any:
    """Return the model with names in the place of sizes of its inputs."""
    for port in model.graph.input:
        for dim, name in zip(port.type.tensor_type.shape.dim, axes.get(port.name, ()), strict=False):
            if name is not None:
                dim.dim_param = name
    return model


def interpreted(
    nodes: Described, inputs: Mapping[str, Array], outputs: Sequence[str], **constants: Any
) -> list[Array]:
    """Return the results of a model's kernels as the interpreter computes them."""
    arrays = {name: np.asarray(value, np.float32) for name, value in constants.items()}
    return computed(imported(make(nodes, inputs, outputs, arrays, 24)).whole(), inputs, {})


def computed(program: ModelProgram, inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> list[Array]:
    """Return the results of a program as the interpreter computes them, for open sizes by their symbols."""
    found = {port.passed.tensor: inputs[port.name] for port in program.inputs} | dict(program.constants)
    for step in program.steps:
        assert isinstance(step, KernelCall), "the interpreter moves no elements to places that data says"
        kernel = parse_kernel(Source("k.ir", program.kernels[step.kernel]))
        given = {name: found[p.tensor].reshape(_shape(p, sizes) or (1,)) for name, p in step.reads.items()}
        made = interpret(kernel, given, {name: sizes[size.symbol] for name, size in step.sizes.items()})
        found |= {p.tensor: np.asarray(made[name]) for name, p in step.writes.items()}
    return [found[port.passed.tensor].reshape(_shape(port.passed, sizes)) for port in program.outputs]


def _shape(passed: TensorView, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(value_of(size, sizes) for size in passed.shape)
