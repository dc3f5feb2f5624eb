"""Set fields of states before the instructions that require them.

An instruction may require that a field has a value (`requires loader.stride == stride(x, 0)`), and another
one, without operands, sets it (`sets loader.stride = S`):

    mvin(x = A[…], …)    ->    config_load(S = A.s0)  mvin(x = A[…], …)

It is set only if it may have another value: before loops that do not change it, and not again while it keeps
its value. The cost model does not include the time of such instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isamap.ir import Index, Instruction
from isamap.ir.nodes import StateRef
from isamap.lower import program as lir
from isamap.lower.walk import walk
from isamap.machine import Machine
from isamap.source import Infeasible, dataclass, replace

Field = tuple[str, str, int | None]
Known = Mapping[Field, Index]


def with_settings(nodes: tuple[lir.Node, ...], machine: Machine) -> tuple[lir.Node, ...]:
    """Return the nodes with the instructions that set the required fields. Raises: Infeasible if none sets one."""
    setters = [m.instruction for m in machine.instructions.values() if m.instruction.settings]
    free = tuple(i for i in setters if not i.operands)
    declared = (node for node in walk(nodes) if isinstance(node, lir.Declare))
    registers = {value.name: value.register for node in declared for value in node.values}
    return _Pass(machine, free, registers).block(nodes, {})[0] if free else nodes


@dataclass(frozen=True, slots=True)
class _Pass:
    """A walk over nodes in order, with the known fields at the start of each node."""

    machine: Machine
    setters: Sequence[Instruction]
    registers: Mapping[str, int | None]

    def block(self, nodes: tuple[lir.Node, ...], known: Known) -> tuple[tuple[lir.Node, ...], Known]:
        found: list[lir.Node] = []
        for node in nodes:
            made, known = self.node(node, known)
            found += made
        return tuple(found), known

    def node(self, node: lir.Node, known: Known) -> tuple[tuple[lir.Node, ...], Known]:
        match node:
            case lir.Issue():
                before, known = self.setting(self.required(node), known)
                return (*before, node), known
            case lir.Block(_, body):
                inner, known = self.block(body, known)
                return (replace(node, body=inner),), known
            case lir.For(variable, _, body):
                before, known = self.setting(self.required_throughout(body, variable), known)
                inner, known = self.loop(body, known, variable)
                return (*before, replace(node, body=inner)), known
            case lir.If(_, body) | lir.WorkSlice(body=body):
                inner, end = self.block(body, known)
                return (replace(node, body=inner),), _agreed_settings(known, end)
            case lir.Parallel(
                _, body
            ):  # a state belongs to a thread, and which thread does what is not known
                inner, _ = self.block(body, {})
                return (replace(node, body=inner),), {}
            case _:
                return (node,), known

    def loop(
        self, body: tuple[lir.Node, ...], known: Known, variable: str
    ) -> tuple[tuple[lir.Node, ...], Known]:
        """Return the body of a loop. Fields that are known before it and unchanged in it are known at its start."""
        while True:
            inner, end = self.block(body, known)
            kept = {f: v for f, v in _agreed_settings(known, end).items() if variable not in v.symbols}
            if kept == known:
                return inner, kept
            known = kept

    def setting(self, required: Mapping[Field, Index], known: Known) -> tuple[tuple[lir.Node, ...], Known]:
        """Return the instructions that set fields to these values, and all values that are known after them."""
        before: list[lir.Node] = []
        for name, value in required.items():
            if known.get(name) == value:
                continue
            for setter in self.setters:
                params = _params(setter, name, required, known)
                if params is not None:
                    before.append(lir.Issue(setter.name, (), tuple(params.items())))
                    known = {**known, **_values(setter, params)}
                    break
        unset = next((name for name, value in required.items() if known.get(name) != value), None)
        if unset is not None:
            state, what, index = unset
            place = f"{state}.{what}" if index is None else f"{state}.{what}[{index}]"
            said = (
                f"`{place}` has to be {required[unset]}, and no instruction of {self.machine.name} sets it so"
            )
            raise Infeasible.of("state-not-set", said)
        return tuple(before), known

    def required_throughout(self, body: tuple[lir.Node, ...], variable: str) -> dict[Field, Index]:
        """Return the field values that all issues in a loop require in each iteration."""
        found: dict[Field, set[Index]] = {}
        inside = {variable}
        for node in walk(body):
            match node:
                case lir.Issue():
                    for name, value in self.required(node).items():
                        found.setdefault(name, set()).add(value)
                case lir.For(counter):
                    inside.add(counter)
                case lir.Parallel(counters):
                    inside |= {counter for counter, _ in counters}
                case _:
                    pass
        return {
            n: v for n, values in found.items() if len(values) == 1 for v in values if not v.symbols & inside
        }

    def required(self, issue: lir.Issue) -> dict[Field, Index]:
        """Return the values that an issue requires of fields that are set individually."""
        item = self.machine.instructions[issue.instruction].instruction
        settable = {(s.field.state, s.field.field) for setter in self.setters for s in setter.settings}
        bound: dict[str, Index | int] = {n: v for n, v in issue.params if isinstance(v, int | Index)}
        operands = dict(issue.operands)
        for name, ref in operands.items():
            if isinstance(ref, lir.MemoryRef):
                bound |= {f"stride({name},{axis})": stride for axis, stride in enumerate(ref.strides)}
        found: dict[Field, Index] = {}
        for require in item.requires:
            ref = require.field
            if (ref.state, ref.field) in settable:
                register = operands.get(ref.index) if isinstance(ref.index, str) else None
                index = self.registers[register.value] if isinstance(register, lir.RegisterRef) else ref.index
                assert not isinstance(index, str), "a field is indexed by a register that has a number"
                found[(ref.state, ref.field, index)] = require.value.substitute(bound)
        return found


def _agreed_settings(one: Known, other: Known) -> dict[Field, Index]:
    return {name: value for name, value in one.items() if other.get(name) == value}


def _key(ref: StateRef) -> Field:
    assert not isinstance(ref.index, str), "what sets a field has no operands that could index it"
    return ref.state, ref.field, ref.index


def _params(
    setter: Instruction, name: Field, required: Mapping[Field, Index], known: Known
) -> dict[str, Index] | None:
    """Return the parameters with which an instruction sets a field as required, or None if it cannot.

    Return None if it does not. Fields without a requirement keep their known values.
    """
    params: dict[str, Index] = {}
    for setting in setter.settings:
        own = _key(setting.field)
        value = required.get(own, known.get(own))
        param = next((p for p in setter.params if setting.value == Index.of(p.name)), None)
        if param is not None and value is None:
            params.setdefault(param.name, param.low or Index.of(0))
        elif param is not None and value is not None:
            number = value.value
            low, high = (end.value if end is not None else None for end in (param.low, param.high))
            if number is not None and not (
                (low is None or low <= number) and (high is None or number <= high)
            ):
                return None
            params[param.name] = value
        elif own == name and setting.value != value:
            return None
    sets = any(_key(setting.field) == name for setting in setter.settings)
    return params if sets and len(params) == len(setter.params) else None


def _values(setter: Instruction, params: Mapping[str, Index]) -> dict[Field, Index]:
    """Return the values of fields after an instruction."""
    return {_key(s.field): s.value.substitute(params) for s in setter.settings}
