"""Run a program: values by node, addresses by node where kernels read or write, and an arena between them.

Tensors are made for what torch or the caller sees. What only kernels see lies in an arena at offsets that are
planned; kernels are called by addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from isamap.driver.runnable import CompiledKernel
from isamap.ir import DTYPES
from isamap.plan.placement import Buffer
from isamap.scheduler.memory.allocation import pack
from isamap.torch.fx_nodes import lying, seen_through
from isamap.torch.kernel_text import Passed, Text
from isamap.torch.packing import packing

LINE_BYTES = 64
Values = dict[Any, Any]
Addresses = dict[Any, int]
Step = Callable[[Values, Addresses], None]


@dataclass(frozen=True, eq=False, slots=True)
class Performed:
    """A kernel, a call of it by addresses of what it reads and writes, and the nodes that it performs."""

    text: Text
    call: Callable[[Sequence[int]], None]
    members: tuple[Any, ...]
    packings: tuple[tuple[int, Any, Callable[[Any, Any], int]], ...] = ()
    """Of reads that are passed packed: which of them, the tensor's node, and the address."""

    @staticmethod
    def of(
        text: Text, kernel: CompiledKernel, members: Sequence[Any], packed: Sequence[str] = ()
    ) -> Performed:
        """Return a kernel for tensors that lie as its text says. Raises: UsageProblem where it takes none such."""
        like: dict[str, Any] = {}
        packings: list[tuple[int, Any, Callable[[Any, Any], int]]] = []
        for n, p in enumerate((*text.reads, *text.writes)):
            if p.name not in packed:
                like[p.name] = _like(p)
                continue
            like |= kernel.pack(**{p.name: _like(p)})
            size = p.node.meta["val"].element_size()
            made = packing(kernel, p, _distance_bytes(p) // size)
            packings.append((n, seen_through(p.node), made))
        return Performed(text, kernel.moving(**like), tuple(members), tuple(packings))

    @property
    def needed(self) -> list[Any]:
        """The nodes whose tensors it reads, but for views, which are looked through."""
        return [seen_through(p.node) for p in self.text.reads]

    @property
    def written(self) -> list[Any]:
        return [p.node for p in self.text.writes]


def make_run(graph: Any, units: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
    """Return the function of a graph's inputs that performs units in their order."""
    torch: Any = import_module("torch")
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    (output,) = (n for n in graph.nodes if n.op == "output")
    last = _last_uses(units, output)
    offsets, arena_bytes = _arena(units, last)
    by_kernels = {node for unit in units if isinstance(unit, Performed) for node in unit.needed}
    looked_at = [looking(n) for n in inputs if n in by_kernels]
    steps = [
        kernel_step(unit, offsets)
        if isinstance(unit, Performed)
        else eager_step(unit, is_read=unit in by_kernels)
        for unit in units
    ]
    gone = [[node for node, at in last.items() if at == n and node not in offsets] for n in range(len(units))]
    ready, spare = list(zip(steps, gone, strict=True)), list[Any]()

    def run(given: Sequence[Any]) -> Any:
        values: Values = dict(zip(inputs, given, strict=True))
        arena = _taken(spare, arena_bytes)
        start = arena.data_ptr() if arena is not None else 0
        addresses: Addresses = {node: start + offset for node, offset in offsets.items()}
        with torch.no_grad():
            for look in looked_at:
                look(values, addresses)
            for step, unneeded in ready:
                step(values, addresses)
                for node in unneeded:
                    del values[node]
        if arena is not None:
            spare.append(arena)
        return torch.fx.node.map_arg(output.args[0], values.__getitem__)

    return run


def _taken(spare: list[Any], size_bytes: int) -> Any:
    """Return an arena that no other call has."""
    if not size_bytes:
        return None
    try:
        return spare.pop()
    except IndexError:
        torch: Any = import_module("torch")
        return torch.empty(size_bytes, dtype=torch.uint8)


def _needed(unit: Any) -> list[Any]:
    return unit.needed if isinstance(unit, Performed) else unit.all_input_nodes


def _last_uses(units: Sequence[Any], output: Any) -> dict[Any, int]:
    """After which unit each value goes, but for those that are given back."""
    last: dict[Any, int] = {}
    for n, unit in enumerate(units):
        made = unit.written if isinstance(unit, Performed) else [unit]
        last |= dict.fromkeys((*_needed(unit), *made), n)
    return {node: n for node, n in last.items() if node not in output.all_input_nodes}


def _arena(units: Sequence[Any], last: dict[Any, int]) -> tuple[dict[Any, int], int]:
    """Return where values that only kernels read and write lie, and how many bytes these are."""
    torch_sees = {n for unit in units if not isinstance(unit, Performed) for n in unit.all_input_nodes}
    buffers: dict[str, tuple[Any, Buffer]] = {}
    for n, unit in enumerate(units):
        for node in unit.written if isinstance(unit, Performed) else ():
            if node in torch_sees or node not in last:
                continue
            size = node.meta["val"].untyped_storage().nbytes()
            buffers[node.name] = node, Buffer(node.name, n, last[node] + 1, size, LINE_BYTES)
    offsets = pack([buffer for _, buffer in buffers.values()])
    end = max((offsets[name] + b.size_bytes for name, (_, b) in buffers.items()), default=0)
    return {buffers[name][0]: offset for name, offset in offsets.items()}, end


def as_foretold(node: Any) -> Callable[[Any], Any]:
    """Return a function that copies a tensor unless it already has the predicted layout."""
    torch: Any = import_module("torch")
    found = lying(node)

    def seen(tensor: Any) -> Any:
        if tensor.is_neg():
            tensor = tensor.resolve_neg()
        if tensor.stride() != found.strides:
            tensor = torch.empty_strided(found.sizes, found.strides, dtype=tensor.dtype).copy_(tensor)
        return tensor

    return seen


def looking(node: Any) -> Step:
    """Return the address of a tensor that kernels read, as was foretold."""
    seen = as_foretold(node)

    def look(values: Values, addresses: Addresses) -> None:
        tensor = values[node,] = seen(values[node])  # torch goes on with its own
        addresses[node] = tensor.data_ptr()

    return look


def eager_step(node: Any, *, is_read: bool) -> Step:
    """Return a node performed by torch, whose result kernels may read."""
    map_arg: Any = import_module("torch").fx.node.map_arg
    if node.op == "get_attr":
        constant = attrgetter(node.target)(node.graph.owning_module)
        return lambda values, _: values.update({node: constant})
    look = looking(node) if is_read else None

    def step(values: Values, addresses: Addresses) -> None:
        args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        values[node] = node.target(*args, **kwargs)
        if look is not None:
            look(values, addresses)

    return step


def kernel_step(unit: Performed, offsets: Mapping[Any, int]) -> Step:
    """Return a kernel performed, with new tensors for results that have no place in the arena."""
    reads = [(seen_through(p.node), _distance_bytes(p)) for p in unit.text.reads]
    places = [*reads, *((p.node, 0) for p in unit.text.writes)]
    made = [(p.node, making(p.node)) for p in unit.text.writes if p.node not in offsets]

    def step(values: Values, addresses: Addresses) -> None:
        for node, make in made:
            tensor = values[node] = make()
            addresses[node] = tensor.data_ptr()
        where = [addresses[node] + distance for node, distance in places]
        for n, node, packed in unit.packings:
            where[n] = packed(values[node], values[node,])
        unit.call(where)

    return step


def _distance_bytes(passed: Passed) -> int:
    """From the first element of the memory that a view looks at to that of the view."""
    seen, base = passed.node.meta["val"], seen_through(passed.node).meta["val"]
    return (seen.storage_offset() - base.storage_offset()) * seen.element_size()


def _like(passed: Passed) -> NDArray[Any]:
    """Return an array as the tensor is passed, of no particular content; torch's are not real while it compiles."""
    reach = sum((size - 1) * stride for size, stride in zip(passed.sizes, passed.strides, strict=True))
    room = np.empty(reach + 1, DTYPES[lying(passed.node).dtype].numpy())
    return as_strided(room, passed.sizes, [stride * room.itemsize for stride in passed.strides])


def making(node: Any) -> Callable[[], Any]:
    """Return a function that makes an uninitialised tensor with the size of a node's."""
    torch: Any = import_module("torch")
    found, dtype = lying(node), node.meta["val"].dtype
    if node.meta["val"].is_contiguous():
        return lambda: torch.empty(found.sizes, dtype=dtype)
    return lambda: torch.empty_strided(found.sizes, found.strides, dtype=dtype)
