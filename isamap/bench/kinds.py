"""The kinds of cases that can be benchmarked, each with the libraries that it is compared with."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from time import perf_counter_ns
from typing import Any

import numpy as np

from isamap.bench import cells, convolution_cases, libraries, product_cases, sparse_products
from isamap.bench.cells import CellCase
from isamap.bench.convolution_cases import ConvCase
from isamap.bench.kind import CaseKind
from isamap.bench.ring import Array, Mapped
from isamap.bench.sparse_products import SparseCase, compress_rows

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


# The libraries with products of sparse matrices: scipy and MKL, as their users would call them.
#
# MKL gets its hints and optimises the matrix before the clock.


GENERAL, NO_TRANSPOSE, ROW_MAJOR, MANY_CALLS = 20, 10, 101, 1000
"""Of MKL's mkl_spblas.h, and for how many calls it is to optimise."""


class Description(ctypes.Structure):
    """The C type `struct matrix_descr` of MKL."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int))


def prepare_scipy_sparse(mapped: Mapped[SparseCase], threads: int) -> libraries.Ready:
    """Return `C += A @ B` of a `scipy.sparse.csr_array`. Raises: NotOffered."""
    sparse = libraries.import_library("scipy.sparse")
    case, given = mapped.task.case, compress_rows(mapped.task.case)
    a = sparse.csr_array((given["val"], given["col"], given["row"]), shape=(case.m, case.k))
    b, c, ring = mapped.arrays["B"], mapped.arrays["C"], mapped.task.ring

    def time(calls: int, first: int) -> int:
        start = perf_counter_ns()
        for number in range(first, first + calls):
            c[number % ring] += a @ b[number % ring]
        return perf_counter_ns() - start

    return libraries.Ready(time, f"scipy {version('scipy')}: csr_array @", False)


def prepare_mkl_sparse(mapped: Mapped[SparseCase], threads: int) -> libraries.Ready:
    """Return MKL's `mkl_sparse_s_mv` or `mkl_sparse_s_mm`, adding to C. Raises: NotOffered."""
    library, case, given = libraries.mkl_library(), mapped.task.case, compress_rows(mapped.task.case)
    library.MKL_Set_Num_Threads(threads)
    handle, n = ctypes.c_void_p(), case.n
    row, col, val = (given[name].ctypes.data for name in ("row", "col", "val"))
    arrays = [ctypes.c_void_p(p) for p in (row, row + 4, col, val)]
    if library.mkl_sparse_s_create_csr(ctypes.byref(handle), 0, case.m, case.k, *arrays):
        raise libraries.NotOffered
    description, one = Description(GENERAL, 0, 0), ctypes.c_float(1)
    if n == 1:
        library.mkl_sparse_set_mv_hint(handle, NO_TRANSPOSE, description, MANY_CALLS)
    else:
        library.mkl_sparse_set_mm_hint(handle, NO_TRANSPOSE, description, ROW_MAJOR, n, MANY_CALLS)
    library.mkl_sparse_optimize(handle)
    name = "mkl_sparse_s_mv" if n == 1 else "mkl_sparse_s_mm"
    function = library[name]
    places = [
        (ctypes.c_void_p(b), ctypes.c_void_p(c))
        for b, c in zip(mapped.addresses("B"), mapped.addresses("C"), strict=True)
    ]

    kept = (mapped, given)

    def time(calls: int, first: int) -> int:
        assert all(kept)  # what the pointers lead to lives as long as this function
        failed, start = 0, perf_counter_ns()
        for number in range(first, first + calls):
            b, c = places[number % len(places)]
            rest = (b, one, c) if n == 1 else (ROW_MAJOR, b, n, n, one, c, n)
            failed |= int(function(NO_TRANSPOSE, one, handle, description, *rest))
        ns = perf_counter_ns() - start
        return -1 if failed else ns

    return libraries.Ready(time, name, False)


# The libraries that convolutions are compared with, on images and filters where they lie.
#
# torch is given filters in the order that it stores them for the layout. What is packed is packed by oneDNN;
# onnxruntime packs filters that the model holds, and does not pack those that each call brings.


def prepare_torch_conv(mapped: Mapped[ConvCase], threads: int) -> libraries.Ready:
    """Return torch.nn.functional.conv2d in inference mode, or oneDNN with filters that it has packed.

    Raises: NotOffered.
    """
    task, case = mapped.task, mapped.task.case
    if task.form not in ("f32", "bf16"):
        raise libraries.NotOffered
    torch = libraries.import_torch(threads)
    dtype = getattr(torch, libraries.TORCH_TYPES[task.form])
    raw = {
        name: torch.frombuffer(mapped.arrays[name][0].view("uint8").reshape(-1), dtype=dtype)
        for name in "XFY"
    }
    x, y = (_image(case, name, raw[name]) for name in "XY")
    f = _filters(case, raw["F"])
    strides, pads = (case.stride_h, case.stride_w), (case.pad_h, case.pad_w)
    if task.packed:
        f = torch.ops.mkldnn._reorder_convolution_weight(f, pads, strides, (1, 1), case.groups, x.shape)

    def call(at: int = 0) -> Any:
        if task.packed:
            pointwise = torch.ops.mkldnn._convolution_pointwise
            return pointwise(x, f, None, pads, strides, (1, 1), case.groups, "none", [], "")
        return torch.nn.functional.conv2d(x, f, None, strides, pads, (1, 1), case.groups)

    def time(calls: int, first: int) -> int:
        with torch.inference_mode():
            return libraries.timed_calls(call, calls, y.copy_)

    with torch.inference_mode():
        implementation = libraries.torch_implementation(torch, call)
    return libraries.Ready(time, f"torch {version('torch')}: {implementation}", False)


def _image(case: ConvCase, name: str, raw: Any) -> Any:
    """Return a view [n, channels, rows, columns] of X or Y."""
    conv = case.shape
    channels, rows, columns = (conv.c, conv.h, conv.w) if name == "X" else (conv.k, conv.p, conv.q)
    if case.layout == "nchw":
        return raw.reshape(conv.n, channels, rows, columns)
    return raw.reshape(conv.n, rows, columns, channels).permute(0, 3, 1, 2)


def _filters(case: ConvCase, raw: Any) -> Any:
    """Return the filters [k, c, r, s], in memory as torch has them for the layout."""
    conv, g = case.shape, case.groups
    c, k = conv.c // g, conv.k // g
    if case.layout == "nchw":
        return raw.reshape(conv.k, c, conv.r, conv.s)
    if c == k == 1:
        transposed = raw.reshape(conv.r, conv.s, 1, conv.k).permute(3, 2, 0, 1)
    else:
        transposed = (
            raw.reshape(g, conv.r, conv.s, c, k).permute(0, 4, 3, 1, 2).reshape(conv.k, c, conv.r, conv.s)
        )
    torch = libraries.import_library("torch")
    return transposed.contiguous(memory_format=torch.channels_last)


def _open_session(runtime: Any, model: bytes, threads: int) -> Any:
    """Return a session of onnxruntime that runs a model on a number of threads."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def prepare_onnxruntime_conv(mapped: Mapped[ConvCase], threads: int) -> libraries.Ready:
    """Return Conv, or ConvInteger of u8 and s8, with channels before pixels. Raises: NotOffered."""
    task, case = mapped.task, mapped.task.case
    if task.form not in ("f32", "u8s8") or case.layout != "nchw":
        raise libraries.NotOffered
    runtime = libraries.import_library("onnxruntime")
    conv = case.shape
    x: Array = mapped.arrays["X"][0].reshape(conv.n, conv.c, conv.h, conv.w)
    f: Array = mapped.arrays["F"][0].reshape(conv.k, conv.c // conv.groups, conv.r, conv.s)
    y: Array = mapped.arrays["Y"][0].reshape(conv.n, conv.k, conv.p, conv.q)
    pads, strides = (case.pad_h, case.pad_w) * 2, (case.stride_h, case.stride_w)
    model = convolution_model(x, f, y.shape, pads, strides, case.groups, held=task.packed)
    session = _open_session(runtime, model, threads)
    given = {"X": x} if task.packed else {"X": x, "F": f}

    def keep(result: Any) -> None:
        np.copyto(y, result[0])

    def time(calls: int, first: int) -> int:
        return libraries.timed_calls(lambda: session.run(None, given), calls, keep)

    return libraries.Ready(time, f"onnxruntime {version('onnxruntime')}", False)


# The libraries that recurrent layers are compared with: each with the weights in the layout that it stores.
#
# The shipped kernels hold a gate's weights as [features, units], torch and onnxruntime as [units,
# features]. What turns one into the other is outside the clock, and so is the copy of the last result into
# Y. With packed weights they are the same: onnxruntime packs when its session is made, torch as it likes
# at each call.


LAYERS = {"gru": "GRU", "lstm": "LSTM", "rnn": "RNN"}
"""The layer of a cell as libraries call it."""


def prepare_torch_cell(mapped: Mapped[CellCase], threads: int) -> libraries.Ready:
    """Return torch.nn.GRU, LSTM or RNN in inference mode. Raises: NotOffered."""
    torch = libraries.import_torch(threads)
    dtype = getattr(torch, libraries.TORCH_TYPES[mapped.task.form])

    def tensor(array: Array) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array, np.float32)).to(dtype)

    arrays = {name: copies[0].astype(np.float32) for name, copies in mapped.arrays.items() if name != "Y"}
    units, features = arrays["U"].shape[-1], arrays["X"].shape[-1]
    name = LAYERS[mapped.task.case.cell]
    more = {"nonlinearity": "relu"} if name == "RNN" else {}
    layer = getattr(torch.nn, name)(features, units, **more).to(dtype)
    with torch.no_grad():
        for ours, theirs in (("W", layer.weight_ih_l0), ("U", layer.weight_hh_l0)):
            theirs.copy_(
                tensor(arrays[ours].reshape(-1, *arrays[ours].shape[-2:]).swapaxes(1, 2)).reshape(
                    theirs.shape
                )
            )
        layer.bias_ih_l0.copy_(tensor(arrays["b"].reshape(-1)))
        layer.bias_hh_l0.copy_(tensor(arrays.get("d", 0 * arrays["b"]).reshape(-1)))
    given, first = tensor(arrays["X"]), tensor(arrays["h0"])[None]
    state = (first, tensor(arrays["c0"])[None]) if "c0" in arrays else first

    def call(at: int = 0) -> Any:
        return layer(given, state)[0]

    with torch.inference_mode():
        implementation = libraries.torch_implementation(torch, call)

    def keep(result: Any) -> None:
        mapped.arrays["Y"][0][...] = result.float().numpy().astype(mapped.arrays["Y"][0].dtype)

    def time(calls: int, first: int) -> int:
        with torch.inference_mode():
            return libraries.timed_calls(call, calls, keep)

    return libraries.Ready(time, f"torch {version('torch')}: {implementation}", False)


def prepare_onnxruntime_cell(mapped: Mapped[CellCase], threads: int) -> libraries.Ready:
    """Return the f32 layer of onnxruntime. Raises: NotOffered."""
    if mapped.task.form != "f32":
        raise libraries.NotOffered
    runtime = libraries.import_library("onnxruntime")
    arrays = {name: copies[0] for name, copies in mapped.arrays.items()}
    model = recurrent_model(LAYERS[mapped.task.case.cell], arrays)
    session = _open_session(runtime, model, threads)
    given = {"X": arrays["X"]}

    def keep(result: Any) -> None:
        arrays["Y"][...] = result[0][:, 0]

    def time(calls: int, first: int) -> int:
        return libraries.timed_calls(lambda: session.run(None, given), calls, keep)

    return libraries.Ready(time, f"onnxruntime {version('onnxruntime')}", False)


PRODUCTS = CaseKind(
    name="product",
    heading="m x n x k",
    case_type=product_cases.GemmCase,
    forms=product_cases.FORMS_OF_DTYPE,
    weights=("B",),
    written="C",
    source=product_cases.product_source,
    values=product_cases.product_values,
    work=product_cases.product_work,
    is_right=product_cases.is_product,
    libraries={
        "isamap": libraries.prepare_isamap,
        "torch": libraries.prepare_torch,
        "mkl": libraries.prepare_mkl,
        "openblas": libraries.prepare_openblas,
    },
)
CELLS = CaseKind(
    name="recurrent layer",
    heading="units x sequences",
    case_type=cells.CellCase,
    forms=cells.FORMS_OF_DTYPE,
    weights=("U", "W"),
    written="Y",
    source=cells.cell_source,
    values=cells.cell_values,
    work=cells.cell_work,
    is_right=cells.is_right,
    libraries={
        "isamap": libraries.prepare_isamap,
        "torch": prepare_torch_cell,
        "onnxruntime": prepare_onnxruntime_cell,
    },
)
CONVOLUTIONS = CaseKind(
    name="convolution",
    heading="images * filters",
    case_type=convolution_cases.ConvCase,
    forms=convolution_cases.FORMS_OF_DTYPE,
    weights=("F",),
    written="Y",
    source=convolution_cases.conv_source,
    values=convolution_cases.conv_values,
    work=convolution_cases.conv_work,
    is_right=convolution_cases.is_convolution,
    libraries={
        "isamap": libraries.prepare_isamap,
        "torch": prepare_torch_conv,
        "onnxruntime": prepare_onnxruntime_conv,
    },
)
SPARSE_PRODUCTS = CaseKind(
    name="sparse product",
    heading="m x n x k",
    case_type=sparse_products.SparseCase,
    forms=sparse_products.FORMS_OF_DTYPE,
    weights=("val",),
    written="C",
    source=sparse_products.sparse_source,
    values=sparse_products.sparse_values,
    work=sparse_products.sparse_work,
    is_right=sparse_products.is_sparse_product,
    libraries={"isamap": libraries.prepare_isamap, "scipy": prepare_scipy_sparse, "mkl": prepare_mkl_sparse},
)
KINDS: dict[str, CaseKind[Any]] = {
    kind.name: kind for kind in (PRODUCTS, CELLS, CONVOLUTIONS, SPARSE_PRODUCTS)
}
"""Each kind by its name, as tasks and rows call it."""
