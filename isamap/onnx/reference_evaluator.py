"""Evaluate the nodes of a model by ONNX's reference evaluator, to compare the layers of a compiled model with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from isamap.graph.graph import Array
from isamap.graph.importing import Trace
from isamap.graph.layers import Evaluated
from isamap.graph.making import Value
from isamap.source import Diagnostic, UsageProblem

ROUNDED = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinear")
"""Operators, or how their names begin, whose integers may be one step away: merged ones round once."""
FLOATS = ("float", "bfloat")


class Reference:
    """ONNX's reference evaluator of a file's model. It computes in f64, node by node."""

    def __init__(self, path: Path, constants: Mapping[str, Array]) -> None:
        """Read the file. Raises: UsageProblem where the evaluator lacks an operator of it."""
        evaluator: Any = import_module("onnx.reference")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._evaluator = evaluator.ReferenceEvaluator(str(path))
        except Exception as error:  # noqa: BLE001 - it raises errors of several kinds
            said = f"ONNX's evaluator does not take this model: {str(error).splitlines()[0][:120]}"
            raise UsageProblem(Diagnostic("onnx-node", said)) from None
        self._constants = constants

    def evaluate(
        self, inputs: Mapping[str, Array], trace: Trace, tensors: Mapping[str, Array]
    ) -> dict[str, Evaluated]:
        """Return the value that each of these tensors holds, from those that its nodes read.

        A value that is in a tensor is replaced by the tensor's elements where later nodes read it.
        """
        known: dict[str, Any] = {"": None}
        known |= {n: _wide(a) for n, a in {**self._evaluator.rt_inits_, **self._constants, **inputs}.items()}
        found: dict[str, Evaluated] = {}
        for node in self._evaluator.rt_nodes_:
            for name, made in zip(node.output, self._results(node, known), strict=False):
                known[name] = made
                value = trace.values.get(name)
                if value is None or value.known is not None or value.tensor not in tensors:
                    continue
                border = trace.borders.get(value.tensor)
                if getattr(made, "shape", None) != value.shape:
                    continue
                if border is not None and len(border) != value.rank:
                    continue  # another value of the same tensor has the axes that the border is of
                lying = made.transpose(value.order) if value.order else made
                is_rounded = node.onnx_node.op_type.startswith(ROUNDED)
                found.setdefault(value.tensor, Evaluated(name, np.ascontiguousarray(lying), is_rounded))
                own = _own(tensors[value.tensor], value, border)
                known[name] = _wide(own) if made.dtype == np.float64 else own.astype(made.dtype)
        return found

    def _results(self, node: Any, known: Mapping[str, Any]) -> Sequence[Any]:
        """Return the results of a node; () where one of its inputs is not known, or it takes no f64."""
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


def _wide(array: Any) -> Any:
    """Return floats as f64, anything else as it is."""
    is_float = str(getattr(array, "dtype", "")).startswith(FLOATS)
    return np.asarray(array, np.float64) if is_float else array


def _narrow(array: Any) -> Any:
    """Return f64 as f32, anything else as it is."""
    return array.astype(np.float32) if getattr(array, "dtype", None) == np.float64 else array


def _own(array: Array, value: Value, border: Sequence[tuple[int, int]] | None) -> Array:
    """Return the elements of a tensor by the axes of a value that lies in it."""
    lying = value.lying
    if border is not None and array.size != value.count:
        wide = array.reshape([n + low + high for n, (low, high) in zip(lying, border, strict=True)])
        array = wide[tuple(slice(low, low + n) for n, (low, _) in zip(lying, border, strict=True))]
    array = array.reshape(lying)
    return array.transpose(np.argsort(value.order)) if value.order else array
