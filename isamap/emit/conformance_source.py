"""Print C functions that perform one instruction each on operands in memory, for tests on hardware.

    void check_7(unsigned char *const *data, const int64_t *numbers) {
      __m512 a, z;
      memcpy(&a, data[0], sizeof a);
      z = _mm512_sqrt_ps(a);
      memcpy(data[1], &z, sizeof z);
    }

Registers that have numbers in the code, and no C variables, are filled and read by the machine's own moves,
with its configuration loaded before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from isamap.emit.c_build import with_attributes
from isamap.emit.c_functions import HELPER_NAMES, helper_texts
from isamap.emit.c_issue import Here, Issuer, image_text
from isamap.emit.c_names import CNames, compute_type, storage_type
from isamap.emit.c_text import index_text
from isamap.ir import Index, Instruction, Operand, Param, Scalar
from isamap.ir import product as index_product
from isamap.ir.walk import is_copy
from isamap.lower.program import Argument, Configure, Issue, MemoryRef, RegisterRef, Value
from isamap.machine import EmitCall, EmitNothing, EmitSteps, Machine, MachineInstruction
from isamap.machine.allowed import is_sizeless
from isamap.source.records import dataclass

BARRIER = '__asm__ volatile("" ::: "memory");'


@dataclass(frozen=True, slots=True)
class EncodedForm:
    """An instruction with values of its encoded parameters: one function of the file, `check_NUMBER`."""

    number: int
    entry: MachineInstruction
    encoded: tuple[tuple[str, int], ...]
    is_bare: bool = False
    """The call alone, which is compiled and not run: no configuration before it, no moves around it."""

    @property
    def passed(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.entry.instruction.operands if o.role != "temp")

    @property
    def typed_scalars(self) -> tuple[Param, ...]:
        """The typed scalar parameters, whose values lie in memory after the operands."""
        return tuple(p for p in self.entry.instruction.params if p.dtype is not None)

    @property
    def counts(self) -> tuple[str, ...]:
        """The parameters that are passed as numbers."""
        encoded = dict(self.encoded)
        return tuple(
            p.name for p in self.entry.instruction.params if p.dtype is None and p.name not in encoded
        )


def free_axes(operand: Operand) -> tuple[int, ...]:
    """Return the axes of a memory operand whose strides only run time knows."""
    strides = operand.strides or ()
    return tuple(axis for axis, stride in enumerate(strides) if stride is None)


def why_not(machine: Machine, entry: MachineInstruction, model: bool) -> str | None:
    """Return why an instruction cannot be tested by itself, or None."""
    instruction = entry.instruction
    if isinstance(entry.emit, EmitNothing) and not model:
        return "it is not emitted"
    if not [o for o in instruction.operands if o.role != "temp"]:
        return "it has no operands; the other instructions use it"
    if not model and (unknown := _unknown(machine, instruction)) is not None:
        return unknown
    for o in instruction.operands:
        memory = machine.memories[o.memory or ""] if o.role != "temp" else None
        if model or memory is None or memory.named != "immediate":
            continue
        needs = ("load", *(("store",) if o.role != "in" else ()))
        for what in needs:
            own = instruction if what == "load" and o.role != "in" else None
            if own is None and find_move(machine, o, {}, what == "load") is None:
                return f"there is no {what} of {o.dtype} for `{memory.name}`"
    return None


def _unknown(machine: Machine, instruction: Instruction) -> str | None:
    """Return a size that must be encoded in the instruction and that only run time knows, or None."""
    given = {p.name for p in instruction.params if p.kind in ("choose", "imm", "machine")}
    for o in instruction.operands:
        memory = machine.memories[o.memory or ""] if o.role != "temp" else None
        symbols = {symbol for extent in o.shape for symbol in extent.symbols}
        if memory is not None and memory.named == "immediate" and (used := sorted(symbols - given)):
            return (
                f"the shape of `{o.name}` in `{memory.name}` depends on {used[0]}, which only the run knows"
            )
    for r in instruction.requires:
        if r.value.symbols - given:
            field = f"{r.field.state}.{r.field.field}"
            return f"it requires `{field}` to be {r.value}, which is not a number before the run"
    return None


def check_source(machine: Machine, forms: tuple[EncodedForm, ...], model: bool) -> str:
    """Return the file with a function for every form."""
    names = CNames(taken=HELPER_NAMES)
    for form in forms:
        names.take(f"check_{form.number}")
    issuer = Issuer(machine, model, names)
    issuer.used.add("string.h")
    functions = [_Function(machine, form, issuer).lines() for form in forms]
    headers = {"stdint.h", "string.h", "math.h"} | (set[str]() if model else set(machine.target.headers))
    parts = [[f"#include <{h}>" for h in sorted(headers)]]
    parts += [
        t.splitlines() for t in helper_texts(issuer.used - {"string.h", "math.h"}, machine.target.parts)
    ]
    source = join_source(parts, issuer, functions)
    return source if model else with_attributes(source, machine.target.attributes)


class FormWriter:
    """A writer of a C function around a form: its names, its variables, and its lines."""

    def __init__(self, machine: Machine, form: EncodedForm, issuer: Issuer) -> None:
        self.machine, self.form, self.issuer = machine, form, issuer
        self.names = issuer.names.inside()
        self.names.take("data")
        self.names.take("numbers")
        self.encoded: Mapping[str, int] = dict(form.encoded)
        self.values: dict[str, Value] = {}
        self.out: list[str] = []

    def is_register(self, o: Operand) -> bool:
        return self.machine.memories[o.memory or ""].kind == "registers"

    def params(self) -> tuple[tuple[str, Argument], ...]:
        """Return the arguments of the instruction's parameters: encoded numbers, or C variables."""
        return tuple(
            (p.name, Scalar(p.name, p.dtype) if p.dtype else self.encoded.get(p.name, Index.of(p.name)))
            for p in self.form.entry.instruction.params
        )

    def load_settings(self, settings: Sequence[tuple[str, str, int | None, int]]) -> bool:
        """Load the states that `(state, field, index, value)` set. Return whether there are any."""
        for call in load_states(self.issuer, fields_by_state(settings)):
            self.fenced([call])
        return bool(settings)

    def release(self) -> None:
        for call in release_states(self.issuer, self.form.entry.instruction):
            self.fenced([call])

    def move(self, value: str, memory: str, found: RegisterMove, here: Here) -> None:
        """Issue the load or store of a value from or to dense rows."""
        shape = self.values[value].shape
        strides = tuple(index_product(shape[axis + 1 :]) for axis in range(len(shape)))
        place = MemoryRef(memory, Index.of(0), strides)
        operands = ((found.register, RegisterRef(value)), (found.memory, place))
        self.issue(Issue(found.name, operands, found.params), here)

    def issue(self, issue: Issue, here: Here) -> None:
        self.fenced(self.issuer.statements(issue, here))

    def fenced(self, lines: list[str]) -> None:
        """Write lines between barriers, without two barriers in a row."""
        for line in (BARRIER, *lines, BARRIER):
            if self.out[-1].strip() != line:
                self.add(line)

    def add(self, line: str) -> None:
        if line:
            self.out.append(f"  {line}")


def join_source(parts: Iterable[Sequence[str]], issuer: Issuer, functions: Iterable[Sequence[str]]) -> str:
    """Return a file: its parts, the images and models that an issuer has collected, and the functions."""
    images = (image_text(name, image) for image, name in issuer.images.items())
    models = (m.text.splitlines() for m in issuer.models.values())
    return "\n\n".join("\n".join(part) for part in (*parts, *images, *models, *functions)) + "\n"


class _Function(FormWriter):
    """A writer of the function of one form."""

    def __init__(self, machine: Machine, form: EncodedForm, issuer: Issuer) -> None:
        super().__init__(machine, form, issuer)
        self.refs: dict[str, RegisterRef | MemoryRef] = {}

    def lines(self) -> list[str]:
        form = self.form
        self.out = [f"void check_{form.number}(unsigned char *const *data, const int64_t *numbers) {{"]
        self.numbers()
        for slot, operand in enumerate(form.passed):
            self.operand(slot, operand)
        for slot, p in enumerate(form.typed_scalars, len(form.passed)):
            assert p.dtype is not None
            name = self.names.take(p.name)
            self.add(f"{compute_type(p.dtype)} {name}; memcpy(&{name}, data[{slot}], sizeof {name});")
        configured = self.configure()
        here = Here(self.names, self.values, {f"{o.name}.mem": o.dtype for o in form.passed})
        self.fill(here)
        self.issue(Issue(form.entry.name, tuple(self.refs.items()), self.params()), here)
        self.empty(here)
        if configured:
            self.release()
        return [*self.out, "}"]

    def numbers(self) -> None:
        """Declare sizes and strides as variables, in the order in which they are passed."""
        expected = list(self.form.counts)
        for o in self.form.passed:
            if not self.is_register(o):
                expected += [f"{o.name}.s{axis}" for axis in free_axes(o)]
        for n, name in enumerate(expected):
            self.add(f"int64_t {self.names.take(name)} = numbers[{n}];")
        self.add("(void)data; (void)numbers;")

    def operand(self, slot: int, o: Operand) -> None:
        """Declare a variable that holds a register operand, or a pointer to one in memory."""
        c_type = storage_type(o.dtype)
        if not self.is_register(o):
            name = self.names.take(f"{o.name}.mem")
            const = "const " if o.role == "in" else ""
            self.add(f"{const}{c_type} *{name} = ({const}{c_type} *)(void *)data[{slot}];")
            strides = [
                Index.of(f"{o.name}.s{axis}") if stride is None else stride.substitute(self.encoded)
                for axis, stride in enumerate(o.strides or ())
            ]
            self.refs[o.name] = MemoryRef(f"{o.name}.mem", Index.of(0), tuple(strides) or self.dense(o))
            return
        extents = tuple(extent.substitute(self.encoded) for extent in o.shape)
        # What only the run knows counts as 0: it is asked for of numbered registers, which have none of it.
        shape = tuple(extent.value or 0 for extent in extents)
        register = sum(v.memory == o.memory for v in self.values.values())
        value = Value(o.name, o.memory or "", o.dtype, shape, register=register)
        self.values[o.name] = value
        self.refs[o.name] = RegisterRef(o.name)
        held = self.issuer.value_type(value)
        if held is None:
            name = self.names.take(f"{o.name}.mem")
            self.add(f"{c_type} *{name} = ({c_type} *)(void *)data[{slot}];")
            return
        name = self.names.take(o.name)
        length = ""
        if self.issuer.model and shape:
            length = f"[{index_text(index_product(extents), self.names.of, self.issuer.used)}]"
        if is_sizeless(held):
            self.add(f"{held} {name} = *({held} *)(void *)data[{slot}];")
        else:
            self.add(f"{held} {name}{length}; memcpy(&{name}, data[{slot}], sizeof {name});")

    def dense(self, o: Operand) -> tuple[Index, ...]:
        return tuple(index_product(o.shape[axis + 1 :]) for axis in range(len(o.shape)))

    # --- registers that have numbers

    def numbered(self) -> list[Operand]:
        named = self.machine.memories
        mine = [o for o in self.form.passed if o.name in self.values]
        moves = not self.issuer.model and not self.form.is_bare
        return [o for o in mine if moves and named[o.memory or ""].named == "immediate"]

    def configure(self) -> bool:
        """Load the state that the instruction requires. Return whether it requires a state."""
        if self.issuer.model or self.form.is_bare:
            return False
        settings: list[tuple[str, str, int | None, int]] = []
        for r in self.form.entry.instruction.requires:
            index = r.field.index
            if isinstance(index, str):
                register = self.values[index].register
                assert register is not None
                index = register
            value = r.value.substitute(self.encoded).value
            assert value is not None, "checked before"
            settings.append((r.field.state, r.field.field, index, value))
        return self.load_settings(settings)

    def fill(self, here: Here) -> None:
        for o in self.numbered():
            found = find_move(self.machine, o, self.encoded, load=True)
            if found is not None and (o.role != "out" or o.outside == "keep"):
                self.move(o.name, f"{o.name}.mem", found, here)

    def empty(self, here: Here) -> None:
        for o in self.form.passed:
            if o.role == "in" or o.name not in self.values:
                continue
            if o in self.numbered():
                found = find_move(self.machine, o, self.encoded, load=False)
                assert found is not None, "checked before"
                self.move(o.name, f"{o.name}.mem", found, here)
            else:
                held, slot = self.issuer.value_type(self.values[o.name]), self.form.passed.index(o)
                if held is None and self.form.is_bare:
                    continue
                name = self.names.of(o.name)
                if held is not None and is_sizeless(held):
                    self.add(f"*({held} *)(void *)data[{slot}] = {name};")
                else:
                    self.add(f"memcpy(data[{slot}], &{name}, sizeof {name});")


# --- the machine's own moves ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegisterMove:
    """An instruction that copies all of a register from or to memory, with its parameters."""

    name: str
    register: str
    memory: str
    params: tuple[tuple[str, int], ...]


def find_move(machine: Machine, o: Operand, encoded: Mapping[str, int], load: bool) -> RegisterMove | None:
    """Return a load or a store that moves a whole operand, or None. Without `encoded`, any shape will do."""
    for entry in machine.instructions.values():
        i = entry.instruction
        if not isinstance(entry.emit, EmitCall | EmitSteps) or len(i.operands) != 2 or not is_copy(i):
            continue
        outer, inner = sorted(i.operands, key=lambda x: x.memory == o.memory)
        if inner.memory != o.memory or inner.dtype != o.dtype or (inner.role == "out") != load:
            continue
        if machine.memories[outer.memory or ""].kind == "registers" or len(inner.shape) != len(o.shape):
            continue
        params = _solve(i, inner, o, encoded)
        if params is not None:
            return RegisterMove(i.name, inner.name, outer.name, tuple(params.items()))
    return None


def _solve(i: Instruction, own: Operand, o: Operand, encoded: Mapping[str, int]) -> dict[str, int] | None:
    """Return the parameters for which a move's operand has the shape of `o`, or None."""
    found: dict[str, int] = {}
    for mine, expected in zip(own.shape, o.shape, strict=True):
        target = expected.substitute(encoded).value
        symbols = sorted(mine.symbols)
        if target is None:
            return {} if not encoded else None
        if mine.value == target:
            continue
        factor = mine.coefficient(symbols[0]) if len(symbols) == 1 else None
        if factor is None or not factor.value or mine.constant or target % factor.value:
            return None
        found[symbols[0]] = target // factor.value
    return found if {p.name for p in i.params} == found.keys() else None


Fields = Mapping[str, tuple[tuple[str, int | None, int], ...]]


def fields_by_state(settings: Iterable[tuple[str, str, int | None, int]]) -> Fields:
    """Return `(state, field, index, value)` grouped by state, in order."""
    found: dict[str, tuple[tuple[str, int | None, int], ...]] = {}
    for state, name, index, value in settings:
        found[state] = (*found.get(state, ()), (name, index, value))
    return found


def load_states(issuer: Issuer, fields: Fields) -> list[str]:
    """Return the statements that load states."""
    found: list[str] = []
    for state, own in fields.items():
        setter = _performer(issuer.machine, state, release=False)
        if setter is not None:
            found.append(issuer.configuration(Configure(setter, state, own)))
    return found


def release_states(issuer: Issuer, instruction: Instruction) -> list[str]:
    """Return the statements that release the states that the instruction requires."""
    found: list[str] = []
    for state in dict.fromkeys(r.field.state for r in instruction.requires):
        name = _performer(issuer.machine, state, release=True)
        if name is not None:
            found.append(issuer.configuration(Configure(name, state, (), True)))
    return found


def _performer(machine: Machine, state: str, release: bool) -> str | None:
    """Return the instruction that loads or releases a state by a call, or None if the machine has none."""
    for entry in machine.instructions.values():
        own = entry.instruction
        if state in (own.releases_state if release else own.sets_state) and isinstance(entry.emit, EmitCall):
            return entry.name
    return None
