"""Which of two performs a group of nodes, our kernel or torch by its own calls: what was measured faster.

Both take turns on the same random tensors of the group's shapes. Torch performs a group only where it won
so many rounds that this is no chance; what was found is kept for equal groups, also in other processes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from operator import attrgetter
from typing import Any

from isamap.codegen.cache import digest
from isamap.machine.processor import this_cpu
from isamap.source import OnlyWarned
from isamap.torch.graph import is_view
from isamap.torch.kernels import Wanted, key_of
from isamap.torch.running import Addresses, Performed, Values, eager_step, kernel_step, looking
from isamap.tune.choices import OURS, Choice, Choices
from isamap.tune.turns import take_turns

TORCH = "torch"

KNOWN: dict[str, Choice] = {}
"""What this process has found or recalled, which holds where nothing can be kept, too."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The nodes of a group with the views between them, in order, and those of which they need tensors."""

    nodes: tuple[Any, ...]
    given: tuple[Any, ...]

    @staticmethod
    def of(members: Sequence[Any]) -> Alone:
        """Those of a group's members."""
        inside, nodes, given = set(members), set[Any](), set[Any]()
        waiting = list(members)
        while waiting:
            node = waiting.pop()
            if node in nodes:
                continue
            if node in inside or is_view(node):
                nodes.add(node)
                waiting += node.all_input_nodes
            else:
                given.add(node)
        order = list(members[0].graph.nodes)
        return Alone(tuple(n for n in order if n in nodes), tuple(n for n in order if n in given))

    @property
    def text(self) -> str:
        """What torch computes, and of what, without the names of a graph."""
        map_arg: Any = import_module("torch").fx.node.map_arg
        names = {node: f"v{n}" for n, node in enumerate((*self.given, *self.nodes))}
        lines = [f"{names[node]}: {_described(node.meta.get('val'))}" for node in self.given]
        for node in self.nodes:
            args, kwargs = map_arg((node.args, dict(node.kwargs)), names.__getitem__)
            lines.append(f"{names[node]} = {node.target}{args}{kwargs}")
        return "\n".join(lines)


def _described(value: Any) -> str:
    torch: Any = import_module("torch")
    if not isinstance(value, torch.Tensor):
        return str(value)
    return f"{value.dtype} {tuple(value.shape)} {value.stride()}"


def recalled(members: Sequence[Any], wanted: Wanted) -> Choice | None:
    """The choice that was kept of an equal group. Raises: IsamapError of every kind."""
    return _kept(_key(Alone.of(members), wanted))


def faster(members: Sequence[Any], wanted: Wanted, make: Callable[[], Performed]) -> Choice:
    """The choice that was kept of an equal group, or else what measuring finds, which is kept.

    Raises: IsamapError of every kind.
    """
    alone = Alone.of(members)
    key = _key(alone, wanted)
    if (kept := _kept(key)) is not None:
        return kept
    unit = make()  # its packed operands are not those of the program
    one_thread = wanted[1].threads == import_module("torch").get_num_threads() == 1
    with _as_in_calls():
        ours, theirs = _sides(alone, unit)
        clock = time.thread_time_ns if one_thread else time.perf_counter_ns
        rounds = take_turns({OURS: ours, TORCH: theirs}, clock)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    choice = KNOWN[key] = Choice.of(rounds, key=key, kernel=unit.text.name, library=TORCH, time=now)
    with OnlyWarned():
        Choices.open().keep(choice)
    return choice


@contextmanager
def _as_in_calls() -> Generator[None]:
    """While torch compiles, its tensors hold nothing, and each operation takes some 5 µs more, in Python."""
    names = "torch", "torch.utils._python_dispatch", "torch._dispatch.python"
    torch, modes, dispatcher = (import_module(name) for name in names)
    with modes._disable_current_modes(), dispatcher.no_python_dispatcher(), torch.no_grad():
        yield


def _key(alone: Alone, wanted: Wanted) -> str:
    """The sha256 of all that may change which one is faster."""
    torch: Any = import_module("torch")
    threads = json.dumps([wanted[1].threads, torch.get_num_threads()])
    return digest(key_of(wanted), alone.text, threads, str(torch.__version__), this_cpu().key)


def _kept(key: str) -> Choice | None:
    with OnlyWarned():
        if key not in KNOWN and (found := Choices.open().find(key)) is not None:
            KNOWN[key] = found
    return KNOWN.get(key)


def _sides(alone: Alone, unit: Performed) -> tuple[Callable[[], None], Callable[[], None]]:
    """A call of ours and one of torch's, on the same tensors, each with results in new memory."""
    torch: Any = import_module("torch")
    generator = torch.Generator().manual_seed(0)
    values: Values = {node: _filled(node, generator) for node in alone.given}
    addresses: Addresses = {}
    for node in unit.needed:
        looking(node)(values, addresses)
    kernel = kernel_step(unit, {})
    steps = [eager_step(node, is_read=False) for node in alone.nodes]

    def theirs() -> None:
        for step in steps:
            step(values, addresses)

    return lambda: kernel(values, addresses), theirs


def _filled(node: Any, generator: Any) -> Any:
    """A value like that of a node: random numbers as the node's tensor lies."""
    torch: Any = import_module("torch")
    if node.op == "get_attr":
        return attrgetter(node.target)(node.graph.owning_module)
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return value
    reach = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    room = torch.empty(reach + 1, dtype=value.dtype)
    if value.dtype.is_floating_point:
        room.normal_(generator=generator)
    else:
        room.random_(0, 2, generator=generator)
    return room.as_strided(tuple(value.shape), value.stride())
