"""Recurrent layers in one direction: a kernel with a loop over the steps (docs/recurrent.md).

isamap.gru(x, h, None, w, u, b, d, False)  ->

    seq t in 50 {
      for g in 3, n in 16, j in 256 { t2[g, n, j] = b[g, j]; t3[g, n, j] = d[g, j]; }
      for g in 3, n in 16, j in 256, k in 64 { t2[g, n, j] += x[t, n, k] * w[g, j, k]; }
      … }

Sums, gates and states are f32 where tensors are bf16; the state is rounded where products read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isamap.torch.terms import TYPES
from isamap.torch.writing import Several, Writer, shape_of, wide_of


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
        step = self.axis("t", self.steps)
        self.t = f"{self.steps - 1} - t" if is_backwards and step == "t" else step
        self.h = self.values()
        self.seen = self.values(self.stored) if self.stored != self.dtype else self.h
        self.y = to.temporary(self.dtype, (self.steps, self.batch, self.units))
        self.body: list[str] = []

    def axis(self, name: str, size: int) -> str:
        return name if size != 1 else "0"

    def values(self, dtype: str = "") -> str:
        """The name of a buffer of a number for each unit."""
        return self.to.temporary(dtype or self.dtype, (self.batch, self.units))

    def sums(self) -> str:
        """The name of a buffer of a number for each unit of each gate."""
        return self.to.temporary(self.dtype, (self.gates, self.batch, self.units))

    def of(self, name: str) -> str:
        return f"{name}[{self.n}, {self.j}]"

    def gate(self, sums: str, number: int | str) -> str:
        return f"{sums}[{number}, {self.n}, {self.j}]"

    def each(self, more: Mapping[str, int], *statements: str) -> str:
        """Statements for each unit, and along further axes."""
        axes = {"g": self.gates} if "g" in more else {}
        axes |= {"n": self.batch, "j": self.units} | {k: v for k, v in more.items() if k != "g"}
        head = ", ".join(f"{name} in {size}" for name, size in axes.items() if size != 1)
        body = " ".join(statements)
        return f"for {head} {{ {body} }}" if head else body

    def begun(self, *sums: tuple[str, Sequence[Any]]) -> None:
        """Sums begin at their biases."""
        lines: list[str] = []
        for name, biases in sums:
            terms = [self.to.read(bias, (self.g, self.j)) for bias in biases if bias is not None]
            lines.append(f"{self.gate(name, self.g)} = {' + '.join(terms) or '0'};")
        self.body.append(self.each({"g": self.gates}, *lines))

    def added(self, sums: str, of: str, weights: Any, depth: int) -> None:
        """Adds the products of weights with the input, or with the state, at `k`."""
        weight = self.to.read(weights, (self.g, self.j, self.axis("k", depth)))
        statement = f"{self.gate(sums, self.g)} += {of} * {weight};"
        self.body.append(self.each({"g": self.gates, "k": depth}, statement))

    def with_input(self, sums: str) -> None:
        element = self.to.read(self.x, (self.t, self.n, self.axis("k", self.features)))
        self.added(sums, element, self.w, self.features)

    def with_state(self, sums: str) -> None:
        element = f"{self.seen}[{self.n}, {self.axis('k', self.units)}]"
        element = f"{self.dtype}({element})" if self.seen != self.h else element
        self.added(sums, element, self.u, self.units)

    def rounded(self) -> list[str]:
        """The state as products read it."""
        if self.seen == self.h:
            return []
        return [f"{self.of(self.seen)} = {self.stored}({self.of(self.h)});"]

    def done(self, statements: Sequence[str], *states: tuple[str, Any]) -> None:
        """The whole: states begun, the loop over the steps, and where results are."""
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
    x, u = layer.sums(), layer.sums()
    r, z, v = (layer.of(layer.values()) for _ in range(3))
    layer.begun((x, [layer.b]), (u, [layer.d]))
    layer.with_input(x)
    layer.with_state(u)
    h = layer.of(layer.h)
    statements = (
        f"{r} = sigmoid({layer.gate(x, 0)} + {layer.gate(u, 0)});",
        f"{z} = sigmoid({layer.gate(x, 1)} + {layer.gate(u, 1)});",
        f"{v} = tanh({layer.gate(x, 2)} + {r} * {layer.gate(u, 2)});",
        f"{h} = (1 - {z}) * {v} + {z} * {h};",
    )
    layer.done(statements, (layer.h, layer.h0))


def _lstm(node: Any, to: Writer) -> None:
    layer = _Layer(node, to)
    cell, u = layer.values(), layer.sums()
    gates = [layer.of(layer.values()) for _ in range(4)]
    layer.begun((u, [layer.b, layer.d]))
    layer.with_input(u)
    layer.with_state(u)
    c, h = layer.of(cell), layer.of(layer.h)
    functions = "sigmoid", "sigmoid", "tanh", "sigmoid"
    statements = [f"{gates[n]} = {f}({layer.gate(u, n)});" for n, f in enumerate(functions)]
    i, f, g, o = gates
    statements += [f"{c} = {f} * {c} + {i} * {g};", f"{h} = {o} * tanh({c});"]
    layer.done(statements, (layer.h, layer.h0), (cell, layer.c0))


def _rnn(template: str) -> Several:
    def made(node: Any, to: Writer) -> None:
        layer = _Layer(node, to)
        u = layer.sums()
        layer.begun((u, [layer.b, layer.d]))
        layer.with_input(u)
        layer.with_state(u)
        value = template.format(layer.gate(u, 0))
        layer.done([f"{layer.of(layer.h)} = {value};"], (layer.h, layer.h0))

    return made


RECURRENT: Mapping[str, Several] = {
    "gru.default": _gru,
    "lstm.default": _lstm,
    "rnn_tanh.default": _rnn("tanh({0})"),
    "rnn_relu.default": _rnn("max({0}, 0)"),
}
