"""Print a lowered program as C that computes encoded instructions and passes them to an accelerator.

Each instruction becomes a function of its field values, built from its `encoding`. Loops stay loops:

    static inline void mvin(uint64_t x, uint64_t x_stride, uint64_t z, uint64_t R, uint64_t C) {
      ROCC(123, 3, 0, UINT64_C(0x3f80000000100101), x_stride);
      ROCC(123, 3, 2, x, (z / 16) | (C << 32) | (R << 48));
    }

Data in `hw_specs/families` describes how words are passed, here by an instruction of RISC-V and its
registers. Scratchpads have separate address spaces, so buffers there are numbers. Main memory belongs to the
caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from isamap.emit.c_issue import Here, Issuer
from isamap.emit.c_text import PRODUCT, CText, call, cast, index_text, infix
from isamap.emit.cmodel import InstructionModel
from isamap.ir import Const, Index, Instruction
from isamap.lower import program as lir
from isamap.lower.walk import has_parallel, issues_in
from isamap.machine import Machine, MachineInstruction
from isamap.machine.allowed import IssueForm, issues
from isamap.machine.encodings import BitField, Quantity, QuantityKind, Word, free_axes
from isamap.source import UsageProblem, dataclass, field, replace


def issue_form(machine: Machine) -> IssueForm:
    """Return how a machine issues encoded words. Raises: UsageProblem if its description does not say."""
    if machine.program is None or not machine.program.issue:
        raise UsageProblem.of(
            "no-encoding",
            f"{machine.name} does not describe how a processor issues its encoded instructions",
            help=f"give `program` an `issue`: {', '.join(issues())}; or take `--emit program`",
        )
    return issues()[machine.program.issue]


def for_commands(program: lir.LoweredProgram, machine: Machine) -> lir.LoweredProgram:
    """Return the program in the form that its C has: workspace in main memory, strides within the fields' limits.

    Raises: UsageProblem if several threads would give commands.
    """
    if has_parallel(program.body):
        said = "one processor gives the commands, and the schedule has parts for several threads"
        raise UsageProblem.of("stream-unsupported", said, help="leave out --threads")
    buffers = tuple(b for b in program.buffers if not b.memory)
    return replace(program, buffers=buffers, checks=(*program.checks, *_stride_checks(program, machine)))


def _stride_checks(program: lir.LoweredProgram, machine: Machine) -> Iterator[lir.Condition]:
    """Yield conditions on the caller's strides under which the fields can hold them."""
    sizes = {t.name: t.dtype.size_bytes for t in program.tensors}
    found = dict[lir.Condition, None]()
    for issue in (node for node in issues_in(program.body) if isinstance(node, lir.Issue)):
        entry, operands = machine.instructions[issue.instruction], dict(issue.operands)
        for held, limit in _strides_held(entry):
            ref = operands[held.name]
            if isinstance(ref, lir.MemoryRef) and ref.buffer in sizes:
                stride = _free_stride(ref, entry, held) * sizes[ref.buffer]
                if stride.value is None:
                    found |= {(Index.of(0), "<=", stride): None, (stride, "<", Index.of(limit)): None}
    yield from found


def _strides_held(entry: MachineInstruction) -> Iterator[tuple[Quantity, int]]:
    """Yield the strides in an instruction's fields, each with the first value that is too large. Units: bytes."""
    words = entry.encoding.words if entry.encoding is not None else ()
    for one in (f for word in words for f in word):
        if isinstance(one.holds, Quantity) and one.holds.kind == "stride":
            yield one.holds, one.limit * one.holds.unit


def _free_stride(ref: lir.MemoryRef, entry: MachineInstruction, held: Quantity) -> Index:
    """Return the stride that an issue determines. Units: elements."""
    return ref.strides[free_axes(entry.instruction.operand(held.name))[held.number]]


@dataclass
class CommandIssuer(Issuer):
    """A printer of issues as calls of functions that emit words. `scratch` are buffers in scratchpads."""

    scratch: Mapping[str, lir.Buffer] = field(default_factory=dict[str, lir.Buffer])

    @property
    def has_versions(self) -> bool:
        """Return whether there are versions for dense strides: no, because computing strides is cheap here."""
        return False

    def begin(self) -> None:
        """Emit the words that start every program."""
        assert self.machine.program is not None, "it describes how encoded instructions are issued"
        self.opening = tuple(_give_words(self.machine.program.begin, issue_form(self.machine)))

    def statements(self, issue: lir.Issue, here: Here) -> list[str]:
        """Return the call of one issue."""
        entry = self.machine.instructions[issue.instruction]
        if entry.encoding is None:
            said = f"`{entry.name}` has no `encoding`, so that no program can have it"
            raise UsageProblem.of("no-encoding", said, entry.span)
        held = _in_order(entry.encoding.quantities, entry.instruction)
        if entry.name not in self.models:
            name = self.names.take(entry.name)
            text = "\n".join(self._function(name, entry, held))
            self.models[entry.name] = InstructionModel(name, (), (), text, frozenset())
        operands, params = dict(issue.operands), dict(issue.params)
        args = (
            self._bits(params[q.name], entry, here)
            if q.kind == "param"
            else self._where(q, operands[q.name], entry, here)
            for q in held
        )
        return [f"{call(self.models[entry.name].name, *args)};"]

    # --- what is passed

    def _bits(self, value: lir.Argument, entry: MachineInstruction, here: Here) -> CText:
        match value:
            case int() | Index():
                return self._param(value, here)
            case Const(number, dtype, _):
                stored = np.asarray(number).astype(dtype.numpy()).tobytes()
                return _hex(int.from_bytes(stored, "little"))
            case _:
                said = f"`{entry.name}` is given a number that only a call of the kernel knows"
                raise UsageProblem.of("stream-unsupported", said, help="write the number into the kernel")

    def _where(
        self, held: Quantity, ref: lir.RegisterRef | lir.MemoryRef, entry: MachineInstruction, here: Here
    ) -> CText:
        if isinstance(ref, lir.RegisterRef):
            return CText(str(here.values[ref.value].register or 0))
        buffer = self.scratch.get(ref.buffer)
        size = buffer.dtype.size_bytes if buffer is not None else here.elements[ref.buffer].size_bytes
        if held.kind == "stride":
            return index_text(_free_stride(ref, entry, held) * size, here.names.of, self.used)
        if buffer is not None:
            assert buffer.offset is not None, "buffers of scratchpads have places"
            return index_text(ref.offset * size + buffer.offset, here.names.of, self.used)
        offset = index_text(ref.offset, here.names.of, self.used)
        base = CText(here.names.of(ref.buffer))
        return cast("uintptr_t", base if ref.offset.value == 0 else infix(base, "+", offset))

    # --- functions

    def _function(self, name: str, entry: MachineInstruction, held: tuple[Quantity, ...]) -> Iterator[str]:
        assert entry.encoding is not None, "it has words"
        names = self.names.inside()
        own = {q: names.take(str(q).replace(".", "_") if q.kind == "stride" else q.name) for q in held}
        given = ", ".join(f"uint64_t {own[q]}" for q in held)
        yield f"static inline void {name}({given or 'void'}) {{"
        # The operand extents that may be 0, in which case the issue does nothing.
        low = {p.name: p.low.value for p in entry.instruction.params if p.low is not None}
        extents = (extent for operand in entry.instruction.operands for extent in operand.shape)
        if nothing := tuple(dict.fromkeys(e for e in extents if any(low.get(s) == 0 for s in e.symbols))):
            tests = (f"{index_text(e, names.of, self.used).inside(PRODUCT)} == 0" for e in nothing)
            yield f"  if ({' || '.join(tests)}) return;"
        words = [_word(word, own) for word in entry.encoding.words]
        yield from (f"  {line}" for line in _give_words(words, issue_form(self.machine)))
        yield "}"


def _in_order(held: tuple[Quantity, ...], instruction: Instruction) -> tuple[Quantity, ...]:
    """Return the quantities in fields, in the order of the instruction's declaration."""
    kinds: tuple[QuantityKind, ...] = ("address", "stride", "index", "param")
    names = [*(o.name for o in instruction.operands), *(p.name for p in instruction.params)]
    return tuple(sorted(held, key=lambda q: (names.index(q.name), kinds.index(q.kind), q.number)))


def _word(word: Word, own: Mapping[Quantity, str]) -> int | CText:
    """Return a word as a constant, or as a C expression of its field values."""
    fixed, parts = _constant(f for f in word if isinstance(f.holds, int)), list[CText]()
    for one in word:
        if isinstance(one.holds, Quantity):
            part = CText(own[one.holds])
            part = infix(part, "/", CText(str(one.holds.unit))) if one.holds.unit > 1 else part
            parts.append(infix(part, "<<", CText(str(one.low))) if one.low else part)
    if not parts:
        return fixed
    found, *rest = [*parts, _hex(fixed)] if fixed else parts
    for part in rest:
        found = infix(found, "|", part)
    return found


def _give_words(words: Sequence[int | CText], form: IssueForm) -> Iterator[str]:
    """Yield the statements that issue words, several at a time."""
    for at in range(0, len(words), form.words):
        group = words[at : at + form.words]
        args: list[CText] = []
        for part in form.given:
            word = group[part.word]
            if isinstance(word, int):
                args.append(_hex(word) if part.bits is None else CText(str(part.get(word))))
            else:
                assert part.bits is None, "the description was checked"
                args.append(word)
        yield f"{call(form.call, *args)};"


def _constant(word: Iterable[BitField]) -> int:
    return sum(f.put(f.holds) for f in word if isinstance(f.holds, int))


def _hex(number: int) -> CText:
    return CText(
        f"UINT64_C({number:#x})" if number >= 1 << 31 else f"{number:#x}" if number > 9 else str(number)
    )
