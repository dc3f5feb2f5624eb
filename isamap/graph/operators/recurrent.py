"""Recurrent layers: a kernel for each direction, with a loop over the steps.

LSTM(x, w, r, b)  ->

    for t in 50, a in 4, n in 16, j in 256 { s1[t, a, n, j] = b[0, a, j] + b[0, a + 4, j]; }
    for t in 50, a in 4, n in 16, j in 256, k in 64 { s1[t, a, n, j] += x[t, n, k] * w[0, a, j, k]; }
    seq t in 50 {
      for a in 4, n in 16, j in 256 { s0[a, n, j] = s1[t, a, n, j]; }
      for a in 4, n in 16, j in 256, k in 256 { s0[a, n, j] += h[n, k] * r[0, a, j, k]; }
      … }

Products with the input are computed for all steps at once, and weights of the state read at one place, which
can be packed then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from isamap.graph.applied import Applied
from isamap.graph.making import KernelText, Operand, Value, nest
from isamap.graph.operators.data_movement import concatenate_values, transpose_axes
from isamap.graph.operators.elementwise import ACTIVATIONS, Lowered
from isamap.graph.terms import NotTaken, TextTerm, cast, number, wide_type

_FUNCTIONS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    **{name.lower(): activation for name, activation in ACTIVATIONS.items()},
    **{name: (f"{name}({{0}})", {}) for name in ("tanh", "sigmoid", "softplus")},
    "relu": ("max({0}, 0)", {}),
    "affine": ("({alpha} * {0} + {beta})", {"alpha": 1, "beta": 0}),
    "scaledtanh": ("({alpha} * tanh({beta} * {0}))", {"alpha": 1, "beta": 1}),
}
"""Activations by name, as `ACTIVATIONS`."""
_USUAL: Mapping[str, tuple[str, ...]] = {
    "RNN": ("Tanh",),
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
}
_GATES: Mapping[str, int] = {"RNN": 1, "GRU": 3, "LSTM": 4}
MOST_AHEAD = 1 << 24
"""Elements of products with the input that are computed for all steps at once; more, a step at a time."""


@dataclass(frozen=True, slots=True)
class RecurrentLayer:
    """The properties that all directions of a layer share."""

    kind: str
    directions: tuple[bool, ...]
    """For each direction, whether it runs backwards."""
    steps: int
    batch: int
    features: int
    units: int
    activations: tuple[str, ...]
    clip: float | None
    inside: str

    @property
    def gates(self) -> int:
        """The number of gates."""
        return _GATES[self.kind]


def _activations(o: Applied, kind: str, directions: int, inside: str) -> tuple[str, ...]:
    """Return the texts of all activations, those of the second direction last. Raises: NotTaken."""
    given = o.attribute("activations") or _USUAL[kind] * directions
    alphas, betas = (list(o.attribute(f"activation_{n}") or ()) for n in ("alpha", "beta"))
    found: list[str] = []
    for name in given:
        known = _FUNCTIONS.get(str(name).lower())
        if known is None:
            raise NotTaken(f"the activation {name} has no kernel here")
        template, defaults = known
        for parameter, default in defaults.items():
            values = alphas if parameter == "alpha" else betas
            value = float(values.pop(0) if values else default)
            template = template.replace(f"{{{parameter}}}", cast(number(value), inside).text)
        found.append(template)
    if len(found) != len(_USUAL[kind]) * directions:
        raise NotTaken(f"{len(found)} activations for {directions} directions")
    return tuple(found)


def _layer(o: Applied) -> RecurrentLayer:
    x, w, r = o[0], o[1], o[2]
    kind, is_transposed = o.node.op, bool(o.integer("layout", 0))
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    directions = ways.get(o.word("direction", "forward"))
    if directions is None or x.rank != 3 or w.rank != 3 or len(directions) != w.shape[0]:
        raise NotTaken(f"weights {list(w.shape)} for an input {list(x.shape)}")
    steps, batch = (x.shape[1], x.shape[0]) if is_transposed else x.shape[:2]
    units, inside = r.shape[2], wide_type(x.dtype)
    if w.shape[1] != _GATES[kind] * units:
        raise NotTaken(f"weights {list(w.shape)} for {units} units")
    if o.integer("hidden_size", units) != units:
        raise NotTaken(
            f"its attribute `hidden_size` is {o.integer('hidden_size', 0)}, for weights of {units} units"
        )
    clip = o.real("clip", 0.0) if o.has("clip") else None
    functions = _activations(o, kind, len(directions), inside)
    return RecurrentLayer(kind, directions, steps, batch, x.shape[2], units, functions, clip, inside)


class _Way:
    """The kernel of one direction under construction."""

    def __init__(self, o: Applied, layer: RecurrentLayer, number: int) -> None:
        self.o, self.layer, self.number = o, layer, number
        self.text: KernelText = o.text()
        self.is_transposed = bool(o.integer("layout", 0))
        each = len(_USUAL[layer.kind])
        self.functions = layer.activations[number * each :][:each]
        self.n, self.j = ("n" if layer.batch != 1 else "0"), ("j" if layer.units != 1 else "0")
        self.units = {"n": layer.batch, "j": layer.units}
        step = "t" if layer.steps != 1 else "0"
        self.t = f"{layer.steps - 1} - t" if layer.directions[number] and step == "t" else step
        self.h, self.u = self.state(), self.text.temp(layer.inside, (layer.gates, layer.batch, layer.units))
        self.y = self.text.write(o[0].dtype, (layer.steps, layer.batch, layer.units))
        self.last = self.text.write(o[0].dtype, (layer.batch, layer.units))
        self.seen = self.h
        if layer.inside != o[0].dtype:
            self.seen = self.text.temp(o[0].dtype, (layer.batch, layer.units))
        self.places = o.list("gates") or tuple(range(layer.gates))
        self.body: list[str] = []

    def state(self) -> Operand:
        """Return a temporary with a number for each unit."""
        return self.text.temp(self.layer.inside, (self.layer.batch, self.layer.units))

    def of_unit(self, value: Operand) -> str:
        return value.at([self.n, self.j])

    def gate(self, number: int) -> str:
        """Return the sum of a gate, clipped if required."""
        return self.clipped(self.u.at([self.place(number), self.n, self.j]))

    def place(self, gate: int) -> str:
        """Return the position of a gate in the weights, as the attribute `gates` orders them."""
        return str(self.places[gate])

    def rounded(self, state: Operand) -> list[str]:
        """Return the statement that rounds a state to the type that products read, if it differs."""
        if state is not self.h or self.seen is self.h:
            return []
        value = cast(TextTerm(self.of_unit(self.h), self.h.dtype), self.seen.dtype)
        return [f"{self.of_unit(self.seen)} = {value.text};"]

    def clipped(self, sums: str) -> str:
        """Return a sum within the bounds of the layer."""
        if self.layer.clip is None:
            return sums
        bound = cast(number(self.layer.clip), self.layer.inside).text
        return f"min(max({sums}, -{bound}), {bound})"

    def begin(self, state: Operand, given: Value | None) -> None:
        """Write the initial state: the given one, or 0."""
        value = "0"
        if given is not None:
            index = (
                [self.n, str(self.number), self.j]
                if self.is_transposed
                else [str(self.number), self.n, self.j]
            )
            value = cast(self.text.read(given).term(index), self.layer.inside).text
        self.text.loop(self.units, f"{self.of_unit(state)} = {value};", *self.rounded(state))

    def bias(self, gate: str, *, half: int) -> str:
        """Return the bias of a gate, for the input (0) or for the state (1), or "0" without any."""
        given = self.o.optional(3)
        if given is None:
            return "0"
        sizes = (len(self.layer.directions), 2 * self.layer.gates, self.layer.units)
        place = f"{gate} + {self.layer.gates}" if half else gate
        term = self.text.read(given.shaped(sizes)).term([str(self.number), place, self.j])
        return cast(term, self.layer.inside).text

    def of_input(self, with_state_bias: int) -> Operand:
        """Return biases plus products with the input. Biases of the first gates include the state's.

        Shapes: [steps, gates, batch, units], with one step if it is computed inside the loop because there
        are too many.
        """
        layer, sizes = self.layer, (self.layer.gates, self.layer.batch, self.layer.units)
        is_ahead = layer.steps * prod(sizes) <= MOST_AHEAD
        sums = self.text.temp(layer.inside, (layer.steps if is_ahead else 1, *sizes))
        put = self.text.state if is_ahead else self.body.append
        axes = {"t": layer.steps} if is_ahead else {}
        for first, end, halves in (0, with_state_bias, 2), (with_state_bias, layer.gates, 1):
            if first < end:
                gate = _number_places("a", first, end - first)
                biases = [b for half in range(halves) if (b := self.bias(gate, half=half)) != "0"]
                begun = f"{sums.at(['t', gate, self.n, self.j])} = {' + '.join(biases) or '0'};"
                put(nest({**axes, "a": end - first, **self.units}, begun))
        weight = self.weight(self.o[1], _number_places("a", 0, layer.gates), layer.features)
        added = f"{sums.at(['t', 'a', self.n, self.j])} += {self.input()} * {weight};"
        put(nest({**axes, "a": layer.gates, **self.units, "k": layer.features}, added))
        return sums

    def begin_sums(self, count: int, starts: Callable[[str], str]) -> None:
        """Initialise the sums of the first gates in this step, each by its number."""
        target = self.u.at(["a", self.n, self.j])
        self.body.append(
            nest({"a": count, **self.units}, f"{target} = {starts(_number_places('a', 0, count))};")
        )

    def of_state(self, first: int, count: int, state: Operand) -> None:
        """Add products of weights with a state to the sums of consecutive gates."""
        depth = self.layer.units
        gate = _number_places("a", first, count)
        target = self.u.at([gate, self.n, self.j])
        read = self.seen if state is self.h else state
        factor = cast(read.term([self.n, "k"]), self.layer.inside).text
        statement = f"{target} += {factor} * {self.weight(self.o[2], gate, depth)};"
        self.body.append(nest({"a": count, **self.units, "k": depth}, statement))

    def input(self) -> str:
        """Return an element of the input at this step."""
        index = [self.n, self.t, "k"] if self.is_transposed else [self.t, self.n, "k"]
        return cast(self.text.read(self.o[0]).term(index), self.layer.inside).text

    def weight(self, weights: Value, gate: str, depth: int) -> str:
        """Return the weight of a gate's unit for one of `depth` numbers."""
        sizes = (len(self.layer.directions), self.layer.gates, self.layer.units, depth)
        read = self.text.read(weights.shaped(sizes))
        return cast(read.term([str(self.number), gate, self.j, "k"]), self.layer.inside).text

    def each(self, *statements: str) -> None:
        """Write statements for each unit in this step."""
        self.body.append(nest(self.units, *statements))

    def advance(self, values: Mapping[str, tuple[Operand, str]]) -> None:
        """Write new states, which ended sequences keep. The step's result is called "h"."""
        lengths = self.o.optional(4)
        is_there = ""
        if lengths is not None:
            is_there = f"i64({self.t}) < {cast(self.text.read(lengths).term([self.n]), 'i64').text}"
        statements: list[str] = []
        for state, value in values.values():
            kept = f"select({is_there}, {value}, {self.of_unit(state)})" if is_there else value
            statements += [f"{self.of_unit(state)} = {kept};", *self.rounded(state)]
        h = self.of_unit(self.h)
        result = f"select({is_there}, {h}, 0)" if is_there else h
        at = [self.t if self.layer.steps != 1 else "0", self.n, self.j]
        statements.append(
            f"{self.y.at(at)} = {cast(TextTerm(result, self.layer.inside), self.y.dtype).text};"
        )
        self.each(*statements)

    def done(self, *more: tuple[Operand, Operand]) -> tuple[Value, ...]:
        """Return the results after the loop over the steps, from the states."""
        self.text.state(nest({"t": self.layer.steps}, *self.body, word="seq"))
        for state, result in ((self.h, self.last), *more):
            value = cast(TextTerm(self.of_unit(state), self.layer.inside), result.dtype).text
            self.text.loop(self.units, f"{self.of_unit(result)} = {value};")
        return self.text.all_done()


def _number_places(axis: str, first: int, count: int) -> str:
    """Return consecutive numbers from `first` on, along an axis if there are several."""
    if count == 1:
        return str(first)
    return f"{axis} + {first}" if first else axis


def _rnn(way: _Way) -> tuple[Value, ...]:
    way.begin(way.h, way.o.optional(5))
    x = way.of_input(with_state_bias=1)
    way.begin_sums(1, lambda gate: x.at(["t", gate, way.n, way.j]))
    way.of_state(0, 1, way.h)
    way.advance({"h": (way.h, way.functions[0].replace("{0}", way.gate(0)))})
    return way.done()


def _lstm(way: _Way) -> tuple[Value, ...]:
    o, f = way.o, way.functions
    cell = way.state()
    final = way.text.write(o[0].dtype, (way.layer.batch, way.layer.units))
    way.begin(way.h, o.optional(5))
    way.begin(cell, o.optional(6))
    x = way.of_input(with_state_bias=4)
    way.begin_sums(4, lambda gate: x.at(["t", gate, way.n, way.j]))
    way.of_state(0, 4, way.h)
    next_cell, output = way.state(), way.state()
    c, following = way.of_unit(cell), way.of_unit(next_cell)
    entry, leave = way.state(), way.state()
    way.each(
        f"{way.of_unit(entry)} = {f[0].replace('{0}', way.clipped(_with_peephole(way, 0, 0, c)))};",
        f"{way.of_unit(leave)} = {f[0].replace('{0}', way.clipped(_with_peephole(way, 2, 2, c)))};",
    )
    kept = f"(1 - {way.of_unit(entry)})" if o.integer("input_forget", 0) else way.of_unit(leave)
    candidate = f[1].replace("{0}", way.gate(3))
    way.each(f"{following} = {kept} * {c} + {way.of_unit(entry)} * {candidate};")
    way.each(
        f"{way.of_unit(output)} = {f[0].replace('{0}', way.clipped(_with_peephole(way, 1, 1, following)))};"
    )
    result = f"{way.of_unit(output)} * {f[2].replace('{0}', following)}"
    way.advance({"c": (cell, following), "h": (way.h, result)})
    return way.done((cell, final))


def _with_peephole(way: _Way, gate: int, part: int, cell: str) -> str:
    """Return the sum of a gate with its peephole term, if there are weights for one."""
    sums = way.u.at([way.place(gate), way.n, way.j])
    given = way.o.optional(7)
    if given is None:
        return sums
    sizes = (len(way.layer.directions), 3, way.layer.units)
    weight = cast(
        way.text.read(given.shaped(sizes)).term([str(way.number), str(part), way.j]), way.layer.inside
    ).text
    return f"({sums} + {weight} * {cell})"


def _gru(way: _Way) -> tuple[Value, ...]:
    o, f = way.o, way.functions
    way.begin(way.h, o.optional(5))
    is_first = not o.integer("linear_before_reset", 0)
    x = way.of_input(with_state_bias=3 if is_first else 0)
    r, z = way.state(), way.state()
    h = way.of_unit(way.h)

    def of_input(gate: str) -> str:
        return x.at(["t", gate, way.n, way.j])

    def sums(gate: str) -> str:
        u = way.u.at([gate, way.n, way.j])
        return way.clipped(u if is_first else f"({of_input(gate)} + {u})")

    if is_first:  # the state is reset, and then multiplied
        way.begin_sums(3, of_input)
        way.of_state(0, 2, way.h)
    else:
        way.begin_sums(3, lambda gate: way.bias(gate, half=1))
        way.of_state(0, 3, way.h)
    way.each(
        f"{way.of_unit(z)} = {f[0].replace('{0}', sums(way.place(0)))};",
        f"{way.of_unit(r)} = {f[0].replace('{0}', sums(way.place(1)))};",
    )
    if is_first:
        part = way.text.temp(o[0].dtype, (way.layer.batch, way.layer.units))
        product = TextTerm(f"{way.of_unit(r)} * {h}", way.layer.inside)
        way.each(f"{way.of_unit(part)} = {cast(product, part.dtype).text};")
        way.of_state(2, 1, part)
        inner = sums("2")
    else:
        u = way.u.at(["2", way.n, way.j])
        inner = way.clipped(f"({of_input('2')} + {way.of_unit(r)} * {u})")
    candidate = f[1].replace("{0}", inner)
    way.advance({"h": (way.h, f"(1 - {way.of_unit(z)}) * {candidate} + {way.of_unit(z)} * {h}")})
    return way.done()


def _recurrent(make: Callable[[_Way], tuple[Value, ...]]) -> Lowered:
    def lower(o: Applied) -> tuple[Value, ...]:
        layer = _layer(o)
        ways = [make(_Way(o, layer, number)) for number in range(len(layer.directions))]
        sizes = layer.batch, layer.units
        y = concatenate_values(o, [way[0].shaped((layer.steps, 1, *sizes)) for way in ways], 1)
        states = [
            concatenate_values(o, [way[n].shaped((1, *sizes)) for way in ways], 0)
            for n in range(1, len(ways[0]))
        ]
        if o.integer("layout", 0):
            y = transpose_axes(o, y, (2, 0, 1, 3))
            states = [transpose_axes(o, state, (1, 0, 2)) for state in states]
        return (y, *states)

    return lower


RECURRENT: Mapping[str, Lowered] = {
    "RNN": _recurrent(_rnn),
    "GRU": _recurrent(_gru),
    "LSTM": _recurrent(_lstm),
}
