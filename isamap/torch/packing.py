"""Pack weights once: select the operands to pack, and pack again after changes.

A weight is identified by its address and by torch's count of its changes, `_version`. Every in-place
operation increments the count, except operations on `weight.data` and on numpy arrays that share its memory.
These are detected by content: each call compares a sample of all weights, and one block in rotation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from operator import itemgetter
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.torch.fx_nodes import follow_views, is_dequantised, is_result
from isamap.torch.segments import Options, Ran, TorchProgram, make_program


def weights_of(graph: Any) -> frozenset[Any]:
    """Return the graph inputs that are parameters and buffers, hence the same tensors in each call."""
    context: Any = import_module("torch._guards").TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    there = metadata.static_input_indices if metadata is not None else ()
    return frozenset(inputs[n] for n in there if n < len(inputs))


def version_of(tensor: Any) -> int:
    """Return torch's version counter of a tensor, or 0 without one."""
    return 0 if tensor.is_inference() else int(tensor._version)


SAMPLES = 256
"""Words of 8 bytes of all weights together that each call compares, at least one of each weight."""
BLOCK_WORDS = 2048
"""The words of the block that a call compares; each call compares the next one."""
_FACTORS = np.arange(1, 2 * BLOCK_WORDS, 2, dtype=np.int64) * 0x5851F42D4C957F2D
"""Odd ones, so that no change of a single word leaves a block's sum of products as it was."""


class Contents:
    """The contents of weights when they were packed. The tensors are kept alive, so addresses stay valid."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.held = [tensor.detach() for tensor in tensors]
        words = [w for tensor in self.held if (w := _words(tensor)).size]
        self.blocks = [w[at : at + BLOCK_WORDS] for w in words for at in range(0, w.size, BLOCK_WORDS)]
        self.sums = [_sum(block) for block in self.blocks]
        each = max(1, SAMPLES // max(1, len(words)))
        starts = [w.ctypes.data // 8 for w in words]
        first = min(starts, default=0)
        end = max((start + w.size for start, w in zip(starts, words, strict=True)), default=first)
        self.memory = _memory(first, end)
        places = [
            start - first + np.unique(np.linspace(0, w.size - 1, each).astype(np.int64))
            for start, w in zip(starts, words, strict=True)
        ]
        self.places = np.concatenate(places) if places else np.empty(0, np.int64)
        self.sample = self.memory[self.places].tobytes()
        self.turn = 0

    def differ(self) -> bool:
        """Return whether weights have changed, with a warning if earlier calls may have used old ones."""
        if self.memory[self.places].tobytes() != self.sample:
            return True
        if not self.blocks:
            return False
        turn = self.turn = (self.turn + 1) % len(self.blocks)
        if _sum(self.blocks[turn]) == self.sums[turn]:
            return False
        warnings.warn(
            "a weight was changed through `.data` or shared memory, which torch does not count: up to "
            f"{len(self.blocks)} calls may have used what it held before. Change the weight itself, in "
            "`with torch.no_grad():`",
            stacklevel=2,
        )
        return True


def _words(tensor: Any) -> NDArray[np.int64]:
    """Return the memory from a tensor's first to its last element as whole words."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    start, end = tensor.data_ptr(), tensor.data_ptr() + reach * tensor.element_size()
    return _memory(-(-start // 8), end // 8 if tensor.numel() and start else 0)


def _memory(first: int, end: int) -> NDArray[np.int64]:
    """Return words of memory as an array that does not own it. Units: words of 8 bytes."""
    if end <= first:
        return np.empty(0, np.int64)
    place = {"data": (8 * first, True), "shape": (end - first,), "typestr": "<i8", "version": 3}
    return np.asarray(type("Memory", (), {"__array_interface__": place})())


def _sum(block: NDArray[np.int64]) -> int:
    return int(np.dot(block, _FACTORS[: block.size]))


MOST_MADE = 8
"""The limit on preparing weights anew. Those that change more often are read as they are in each call."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A program, and the contents of the weights from which it was prepared."""

    program: TorchProgram
    key: tuple[int, ...]
    contents: Contents


class PackedGraph:
    """An inference graph whose weights are prepared at its first call.

    Values that depend only on weights are computed, batch norms are folded, filters and matrices are packed.
    This is repeated if torch's count of their changes differs: with the same code and other weights.
    """

    def __init__(self, graph: Any, options: Options) -> None:
        self.graph, self.options = graph, options
        weights = weights_of(graph)
        inputs = [n for n in graph.nodes if n.op == "placeholder"]
        (output,) = (n for n in graph.nodes if n.op == "output")
        given_back = {follow_views(node) for node in output.all_input_nodes}
        self.weights = [n for n in inputs if n in weights and n.users and n not in given_back]
        self.prepared = tuple(_of_weights_alone(graph, frozenset(self.weights), given_back))
        self._weights_among = _pick([inputs.index(node) for node in self.weights])
        tensor: Any = import_module("torch").Tensor
        self._address, self._version = tensor.data_ptr, tensor._version.__get__
        self._seen: list[tuple[Sequence[Any], Sequence[Any]]] | None = None
        self._lock = Lock()
        self._made: _Made | None = None
        self._count = self._changes = 0
        self._plain: TorchProgram | None = None

    @property
    def program(self) -> TorchProgram:
        """The graph as a program."""
        return TorchProgram(self.run, self._list_places, lambda: _CHANGING if self._plain is not None else "")

    def _list_places(self) -> tuple[Ran, ...]:
        """Return where each node ran, or () before the first call."""
        made = self._plain or (self._made.program if self._made is not None else None)
        return made.told() if made is not None else ()

    def run(self, given: Sequence[Any]) -> Any:
        """Return the results for these inputs, with minimal overhead per call."""
        results = self._program_for(given).run(given)
        if self._seen is not None:
            self._seen.append((given, results))
        return results

    def _program_for(self, given: Sequence[Any]) -> TorchProgram:
        """Return the program for the weights of a call.

        It lets go of the weights before the program runs: afterwards each of them would be read from memory again.
        """
        key, made = self._key(self._weights_among(given)), self._made
        if made is not None and made.key == key and made.contents.differ():
            self._changes += 1
            key = (*key[:-1], self._changes)
        if self._plain is not None:
            return self._plain
        return made.program if made is not None and made.key == key else self._pack_program(given, key)

    @contextmanager
    def watched(self, seen: list[tuple[Sequence[Any], Sequence[Any]]]) -> Generator[None]:
        """Record the arguments and results of calls."""
        self._seen = seen
        try:
            yield
        finally:
            self._seen = None

    def _key(self, tensors: Sequence[Any]) -> tuple[int, ...]:
        """Return a key of weights: their addresses and version counters."""
        try:
            versions: tuple[int, ...] = tuple(map(self._version, tensors))
        except RuntimeError:  # of tensors for inference, whose changes torch does not count
            versions = tuple(map(version_of, tensors))
        return (*map(self._address, tensors), *versions, self._changes)

    def _pack_program(self, given: Sequence[Any], key: tuple[int, ...]) -> TorchProgram:
        """Return a program with these weights packed. After many changes they are inputs of the program instead."""
        with self._lock:
            if self._plain is not None:
                return self._plain
            if self._made is not None and self._made.key == key:
                return self._made.program
            self._count += 1
            if self._count > MOST_MADE:
                self._plain = make_program(self.graph, self.options)
                self._made = None
                return self._plain
            tensors = self._weights_among(given)
            program = make_program(self.graph, self.options, self._known_weights(tensors))
            self._made = _Made(program, key, Contents(tensors))
            return program

    def _known_weights(self, tensors: Sequence[Any]) -> dict[Any, Any]:
        """Return the weights by node, with the values that depend only on them."""
        torch: Any = import_module("torch")
        known = dict(zip(self.weights, tensors, strict=True))
        with torch.no_grad():
            for node in self.prepared:
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
                known[node] = node.target(*args, **kwargs)
        return known


_CHANGING = "weights read in each call, as they go on changing"


def _pick(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that selects the arguments at these positions."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda given: [given[place] for place in places]


def _of_weights_alone(graph: Any, weights: frozenset[Any], given_back: set[Any]) -> Iterator[Any]:
    """Yield, in graph order, the nodes whose values depend on weights alone and are no results."""
    random = import_module("torch").Tag.nondeterministic_seeded
    known = set(weights)
    for node in graph.nodes:
        if node.op != "call_function" or not known.issuperset(node.all_input_nodes) or is_dequantised(node):
            continue
        schema = getattr(node.target, "_schema", None)
        if not is_result(node) and (schema is None or schema.is_mutable or random in node.target.tags):
            continue
        if follow_views(node) not in given_back:
            known.add(node)
            yield node
