"""Recurrent layers in one direction: a kernel with a loop over the steps (docs/recurrent.md).

isamap.gru(x, h, None, w, u, b, d, False)  ->

    for t in 50, g in 3, n in 16, j in 256 { t2[t, g, n, j] = b[g, j]; }
    for t in 50, g in 3, n in 16, j in 256, k in 64 { t2[t, g, n, j] += x[t, n, k] * w[g, j, k]; }
    seq t in 50 {
      for g in 3, n in 16, j in 256 { t3[g, n, j] = d[g, j]; }
      for g in 3, n in 16, j in 256, k in 256 { t3[g, n, j] += h[n, k] * u[g, j, k]; }
      … }

Products with the input are computed for all steps at once. Sums, gates and states are f32 where tensors are
bf16; the state is rounded where products read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from isamap.graph.operators.recurrent import MOST_AHEAD
from isamap.torch.kernel_statements import Several, Writer, shape_of, wide_of
from isamap.torch.node_types import TYPES


class _Layer:
    """The statements of a layer in the making."""

    def __init__(self, node: Any, to: Writer) -> None:
        x, self.h0, self.c0, self.w, self.u, self.b, self.d, is_backwards = node.args
        self.to, self.x = to, x
        self.steps, self.batch, self.units = shape_of(node)
        self.gates, _, self.features = tuple(self.w.meta["val"].shape)
        self.dtype, self.stored = wide_of(node), TYPES[str(x.meta["val"].dtype)]
        self.n, self.j, self.i = self.axis("n", self.batch), self.axis("j", self.units), "i"
        self.g = self.axis("g", self.gates)
        self.step = step = self.axis("t", self.steps)
        self.t = f"{self.steps - 1} - t" if is_backwards and step == "t" else step
        self.is_ahead = self.steps * self.gates * self.batch * self.units <= MOST_AHEAD
        self.h = self.values()
        self.seen = self.values(self.stored) if self.stored != self.dtype else self.h
        self.y = to.temporary(self.dtype, (self.steps, self.batch, self.units))
        self.body: list[str] = []

    def axis(self, name: str, size: int) -> str:
        return name if size != 1 else "0"

    def values(self, dtype: str = "") -> str:
        """Return the name of a buffer of a number for each unit."""
        return self.to.temporary(dtype or self.dtype, (self.batch, self.units))

    def sums(self) -> str:
        """Return the name of a buffer of a number for each unit of each gate."""
        return self.to.temporary(self.dtype, (self.gates, self.batch, self.units))

    def of(self, name: str) -> str:
        return f"{name}[{self.n}, {self.j}]"

    def gate(self, sums: str, number: int | str) -> str:
        return f"{sums}[{number}, {self.n}, {self.j}]"

    def gate_now(self, sums: str, number: int | str) -> str:
        """Return the value of a gate's product with the input, at this step."""
        return (
            f"{sums}[{self.step}, {number}, {self.n}, {self.j}]" if self.is_ahead else self.gate(sums, number)
        )

    def each(self, more: Mapping[str, int], *statements: str) -> str:
        """Statements for each unit, and along further axes: steps and gates in front, others behind."""
        axes = {k: v for k, v in more.items() if k in "tg"}
        axes |= {"n": self.batch, "j": self.units} | {k: v for k, v in more.items() if k not in "tg"}
        head = ", ".join(f"{name} in {size}" for name, size in axes.items() if size != 1)
        body = " ".join(statements)
        return f"for {head} {{ {body} }}" if head else body

    def of_input(self, *biases: Any) -> str:
        """Return the name of the products with the input, behind biases: of all steps, where these are not too many.

        Shapes: [steps, gates, batch, units], or of one step.
        """
        sizes = (self.gates, self.batch, self.units)
        name = self.to.temporary(self.dtype, (self.steps, *sizes) if self.is_ahead else sizes)
        put: Callable[[str], None] = (
            (lambda text: self.to.loop({}, text)) if self.is_ahead else self.body.append
        )
        at = self.gate_now(name, self.g)
        axes = {**({"t": self.steps} if self.is_ahead else {}), "g": self.gates}
        put(self.each(axes, f"{at} = {self.total(biases)};"))
        element = self.to.read(self.x, (self.t, self.n, self.axis("k", self.features)))
        weight = self.to.read(self.w, (self.g, self.j, self.axis("k", self.features)))
        put(self.each({**axes, "k": self.features}, f"{at} += {element} * {weight};"))
        return name

    def total(self, biases: Sequence[Any]) -> str:
        """Return the sum of biases that are there."""
        return " + ".join(self.to.read(b, (self.g, self.j)) for b in biases if b is not None) or "0"

    def of_state(self, start: str) -> str:
        """Return the name of the sums of a step, which begin so: of weights with the state."""
        name = self.sums()
        self.body.append(self.each({"g": self.gates}, f"{self.gate(name, self.g)} = {start};"))
        element = f"{self.seen}[{self.n}, {self.axis('k', self.units)}]"
        element = f"{self.dtype}({element})" if self.seen != self.h else element
        weight = self.to.read(self.u, (self.g, self.j, self.axis("k", self.units)))
        statement = f"{self.gate(name, self.g)} += {element} * {weight};"
        self.body.append(self.each({"g": self.gates, "k": self.units}, statement))
        return name

    def of_both(self) -> str:
        """Return the name of the sums of a step, of the input and of the state."""
        return self.of_state(self.gate_now(self.of_input(self.b, self.d), self.g))

    def rounded(self) -> list[str]:
        """Return the state as products read it."""
        if self.seen == self.h:
            return []
        return [f"{self.of(self.seen)} = {self.stored}({self.of(self.h)});"]

    def done(self, statements: Sequence[str], *states: tuple[str, Any]) -> None:
        """Write the whole recurrence: initial states, the loop over the steps, and the places of results."""
        begun = [f"{self.of(s)} = {self.to.read(first, (self.n, self.j))};" for s, first in states]
        self.to.loop({}, self.each({}, *begun, *self.rounded()))
        shown = f"{self.y}[{self.t}, {self.n}, {self.j}] = {self.of(self.h)};"
        self.body.append(self.each({}, *statements, *self.rounded(), shown))
        steps = " ".join(self.body)
        self.to.loop({}, f"seq t in {self.steps} {{ {steps} }}" if self.steps != 1 else steps)
        axes = [self.axis(f"d{n}", s) for n, s in enumerate((self.steps, self.batch, self.units))]
        self.to.further(0, f"{self.y}[{', '.join(axes)}]")
        of_state = [self.axis(f"d{n}", s) for n, s in enumerate((self.batch, self.units))]
        for number, (state, _) in enumerate(states):
            self.to.further(number + 1, f"{state}[{', '.join(of_state)}]")


def _gru(node: Any, to: Writer) -> None:
    layer = _Layer(node, to)
    r, z, v = (layer.of(layer.values()) for _ in range(3))
    x = layer.of_input(layer.b)
    u = layer.of_state(layer.total([layer.d]))
    h = layer.of(layer.h)
    statements = (
        f"{r} = sigmoid({layer.gate_now(x, 0)} + {layer.gate(u, 0)});",
        f"{z} = sigmoid({layer.gate_now(x, 1)} + {layer.gate(u, 1)});",
        f"{v} = tanh({layer.gate_now(x, 2)} + {r} * {layer.gate(u, 2)});",
        f"{h} = (1 - {z}) * {v} + {z} * {h};",
    )
    layer.done(statements, (layer.h, layer.h0))


def _lstm(node: Any, to: Writer) -> None:
    layer = _Layer(node, to)
    cell = layer.values()
    gates = [layer.of(layer.values()) for _ in range(4)]
    u = layer.of_both()
    c, h = layer.of(cell), layer.of(layer.h)
    functions = "sigmoid", "sigmoid", "tanh", "sigmoid"
    statements = [f"{gates[n]} = {f}({layer.gate(u, n)});" for n, f in enumerate(functions)]
    i, f, g, o = gates
    statements += [f"{c} = {f} * {c} + {i} * {g};", f"{h} = {o} * tanh({c});"]
    layer.done(statements, (layer.h, layer.h0), (cell, layer.c0))


def _rnn(template: str) -> Several:
    def made(node: Any, to: Writer) -> None:
        layer = _Layer(node, to)
        u = layer.of_both()
        value = template.format(layer.gate(u, 0))
        layer.done([f"{layer.of(layer.h)} = {value};"], (layer.h, layer.h0))

    return made


RECURRENT: Mapping[str, Several] = {
    "gru.default": _gru,
    "lstm.default": _lstm,
    "rnn_tanh.default": _rnn("tanh({0})"),
    "rnn_relu.default": _rnn("max({0}, 0)"),
}
