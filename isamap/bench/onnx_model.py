"""Write a recurrent layer or a convolution as an ONNX model file.

A message of protocol buffers is a sequence of fields: a number and a kind, then an integer or bytes with
their length. Source: onnx.proto of ONNX 1.16, operators GRU, LSTM, RNN, Conv and
ConvInteger of operator set 14.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from isamap.bench.ring import Array

IR_VERSION, OPERATOR_SET = 8, 14
ELEMENTS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6}
GATES = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2), "RNN": (0,)}
"""Our gates in the order of ONNX: update, reset, candidate; input, output, forget, candidate."""


def recurrent_model(kind: str, arrays: Mapping[str, Array]) -> bytes:
    """Return the model of a layer with input X and output Y. Its weights and initial state are constants."""
    order, units = list(GATES[kind]), arrays["U"].shape[-1]

    def transposed(name: str) -> Array:
        gates = arrays[name].reshape(-1, *arrays[name].shape[-2:])
        return np.concatenate([gates[g].T for g in order])[None]

    def biases(values: Array) -> Array:
        return values.reshape(-1, units)[order].reshape(-1)

    held: dict[str, Array] = {
        "W": transposed("W"),
        "R": transposed("U"),
        "B": np.concatenate([biases(arrays["b"]), biases(arrays.get("d", 0 * arrays["b"]))])[None],
        "h": arrays["h0"][None],
        **({"c": arrays["c0"][None]} if "c0" in arrays else {}),
    }
    inputs = ["X", "W", "R", "B", "", "h", *(["c"] if "c" in held else [])]
    attributes = [_number("hidden_size", units)]
    attributes += [_number("linear_before_reset", 1)] if kind == "GRU" else []
    attributes += [_text("activations", ["Relu"])] if kind == "RNN" else []
    node = _fields((1, inputs), (2, ["Y"]), (4, [kind]), (5, attributes))
    steps, batch, features = arrays["X"].shape
    given = {"X": ((steps, batch, features), "float32")}
    return _model(node, held, given, ((steps, 1, batch, units), "float32"))


def convolution_model(
    x: Array,
    f: Array,
    shape: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
    groups: int,
    *,
    held: bool,
) -> bytes:
    """Return the model of a convolution with input X and output Y. With `held`, its filters are constants."""
    attributes = [_numbers("pads", pads), _numbers("strides", strides), _number("group", groups)]
    kind, made = ("Conv", "float32") if x.dtype == np.float32 else ("ConvInteger", "int32")
    node = _fields((1, ["X", "F"]), (2, ["Y"]), (4, [kind]), (5, attributes))
    given = {"X": (x.shape, str(x.dtype))} | ({} if held else {"F": (f.shape, str(f.dtype))})
    return _model(node, {"F": f} if held else {}, given, (shape, made))


Given = tuple[Sequence[int], str]
"""Shape and type of an array that a call brings, or gives."""


def _model(node: bytes, held: Mapping[str, Array], given: Mapping[str, Given], made: Given) -> bytes:
    """Return a model with one node."""
    graph = _fields(
        (1, [node]),
        (2, ["layer"]),
        (5, [_tensor(name, values) for name, values in held.items()]),
        (11, [_value(name, *found) for name, found in given.items()]),
        (12, [_value("Y", *made)]),
    )
    return _fields((1, [IR_VERSION]), (7, [graph]), (8, [_fields((1, [""]), (2, [OPERATOR_SET]))]))


def _fields(*fields: tuple[int, Sequence[int | str | bytes]]) -> bytes:
    """Return protobuf fields by number, each with its values: integers, texts, or messages."""
    made = bytearray()
    for number, values in fields:
        for value in values:
            if isinstance(value, int):
                made += _varint(number << 3) + _varint(value)
            else:
                content = value.encode() if isinstance(value, str) else value
                made += _varint(number << 3 | 2) + _varint(len(content)) + content
    return bytes(made)


def _varint(value: int) -> bytes:
    """Return an integer as a varint: seven bits per byte, lowest first."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _number(name: str, value: int) -> bytes:
    return _fields((1, [name]), (3, [value]), (20, [2]))


def _numbers(name: str, values: Sequence[int]) -> bytes:
    return _fields((1, [name]), (8, values), (20, [7]))


def _text(name: str, values: Sequence[str]) -> bytes:
    return _fields((1, [name]), (9, values), (20, [8]))


def _tensor(name: str, values: Array) -> bytes:
    content = np.ascontiguousarray(values).tobytes()
    return _fields((1, list(values.shape)), (2, [ELEMENTS[str(values.dtype)]]), (8, [name]), (9, [content]))


def _value(name: str, shape: Sequence[int], dtype: str) -> bytes:
    extents = _fields((1, [_fields((1, [n])) for n in shape]))
    tensor = _fields((1, [ELEMENTS[dtype]]), (2, [extents]))
    return _fields((1, [name]), (2, [_fields((1, [tensor]))]))
