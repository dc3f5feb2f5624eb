"""The body of a program: loops, conditions, declarations and issues as C statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import assert_never

from isamap.emit import c_parts
from isamap.emit.c_interface import Interface, body_parameters, body_symbols, clean_comment
from isamap.emit.c_issue import Here, Issuer, call_of
from isamap.emit.c_names import CNames
from isamap.emit.c_text import SHIFT, CText, cast, index_text, infix
from isamap.ir import DType, Index, Operand, product
from isamap.lower import program as lir
from isamap.lower.walk import has_loop
from isamap.lower.work_slices import Counted, split_counted_loops
from isamap.machine import Machine
from isamap.machine.allowed import is_vector_type
from isamap.source.records import dataclass

BARRIER = '__asm__ volatile("" ::: "memory");'


class BodyWriter:
    """A writer of the body, line by line."""

    def __init__(self, program: lir.LoweredProgram, interface: Interface, issuer: Issuer) -> None:
        self.program, self.interface, self.issuer = program, interface, issuer
        self.names = issuer.names.inside()
        self.parameters = body_parameters(program, interface, self.names)
        symbols = {symbol: self.names.of(symbol) for symbol in body_symbols(program)}
        self.dense = c_parts.dense_strides(program, symbols) if issuer.has_versions else {}
        self.passed_on: set[str] = set()
        self.counters: tuple[str, ...] = ()
        self.beside_loop: bool = False
        self.outer_counter: str = ""
        self.shared: frozenset[str] = frozenset()
        self.ending: tuple[str, ...] = ()
        self.regions: list[list[str]] = []
        self.copies: list[list[str]] = []
        self.works: dict[str, WorkProgress] = {}
        self.elements: dict[str, DType] = {t.name: t.dtype for t in program.tensors}
        self.elements |= {b.name: b.dtype for b in program.buffers}
        self.values: Mapping[str, lir.Value] = {}
        self.lines: list[str] = []

    def function(self) -> tuple[c_parts.CFunction, list[str]]:
        """Return the function of the whole body, and its lines."""
        name = self.interface.name
        pool = ((f"{name}_pool *pool", "pool"),) if self.interface.takes_pool else ()
        self.lines = [f"  {line}" for line in self.issuer.opening]
        self.block(self.program.body, 1)
        self.lines += [f"  {line}" for line in self.issuer.closing]
        made = self.in_versions(f"{name}_body", (*self.parameters, *pool), name)
        return made, made.text(self.lines)

    def in_versions(self, name: str, parameters: tuple[tuple[str, str], ...], stem: str) -> c_parts.CFunction:
        """Return a function of the written lines, in two versions if its loops use strides."""
        used = c_parts.used_in_loops(self.lines, self.passed_on)
        dense = tuple((stride, value) for stride, value in self.dense.items() if stride in used)
        if not dense:
            return c_parts.CFunction(name, parameters)
        versions = (self.take_function(f"{stem}_{suffix}") for suffix in ("dense", "strided"))
        return c_parts.CFunction(name, parameters, dense, *versions)

    def take_function(self, preferred: str) -> str:
        """Return an identifier for a function that no parameter shadows at its calls."""
        hidden = {name for _, name in self.parameters}
        while (name := self.issuer.names.take(preferred)) in hidden:
            pass
        return name

    def block(self, body: tuple[lir.Node, ...], depth: int) -> None:
        """Write statements in a separate scope."""
        names, values, outer = self.names, self.values, self.shared
        self.names, self.shared = names.inside(), find_shared_values(body, self.issuer.machine)
        last = last_uses(body, self.issuer.machine)
        for place, node in enumerate(body):
            self.ending = tuple(value for value, use in last.items() if use == place)
            self.node(node, depth)
        self.names, self.values, self.shared = names, values, outer

    def node(self, node: lir.Node, depth: int) -> None:
        match node:
            case lir.Issue():
                self.issue(node, depth)
            case lir.Configure():
                self.configure(node, depth)
            case lir.Fill():
                self.fill(node, depth)
            case lir.Hint():
                self.hint(node, depth)
            case lir.Declare(values):
                self.declare(values, depth)
            case lir.For():
                self.loop(node, depth)
            case lir.Parallel():
                self.parallel(node, depth)
            case lir.If(conditions, body):
                tests = [self.condition(c) for c in conditions]
                test = " && ".join(tests)
                self.add(depth, f"if ({test}) {{")
                self.block(body, depth + 1)
                self.add(depth, "}")
            case lir.Block() if self.counters and not self.issuer.model and c_parts.is_separate_copy(node):
                self.copy(node, depth)
            case lir.Block(note, body):
                self.add(depth, f"{{ /* {clean_comment(note)} */" if note else "{")
                self.block(body, depth + 1)
                self.add(depth, "}")
            case lir.ProductGroup():
                raise AssertionError("a processor has no asynchronous products")
            case lir.Barrier(level):
                raise AssertionError(f"a processor has no {level} whose lanes wait for each other")
            case lir.Begin():
                self.works[node.work], lines = begin(node, self.names, self.issuer.used)
                for line in lines:
                    self.add(depth, line)
            case lir.WorkSlice():
                self.share(node, depth)
            case _:
                assert_never(node)

    def loop_word(self, node: lir.For) -> str:
        """Return the word that begins a loop."""
        return "for"

    def loop(self, node: lir.For, depth: int) -> None:
        trips = index_text(node.trips, self.names.of, self.issuer.used).inside(SHIFT)
        kept = self.names, self.counters, self.beside_loop, self.outer_counter
        self.names = self.names.inside()
        self.beside_loop, self.outer_counter = has_loop(node.body), node.variable
        counter = self.names.take(node.variable)
        self.counters = (*self.counters, counter)
        note = f" /* {clean_comment(node.note)} */" if node.note else ""
        word = self.loop_word(node)
        self.add(depth, f"{word} (int64_t {counter} = 0; {counter} < {trips}; {counter}++) {{{note}")
        self.block(node.body, depth + 1)
        self.add(depth, "}")
        self.names, self.counters, self.beside_loop, self.outer_counter = kept

    def share(self, node: lir.WorkSlice, depth: int) -> None:
        """Write a loop over the next pieces of a work slice, selected by their part."""
        work, parts = self.works[node.work], pieces_of(node)
        kept = self.names, self.beside_loop, self.outer_counter
        for line in share(work):
            self.add(depth, line)
        for number, (counters, _) in enumerate(parts[:-1]):
            if counters and counters[0][1].value is None:  # it may have no pieces, as a rest of a block
                none = f"{self.index(counters[0][1])} <= 0"
                self.add(depth + 1, f"if ({work.part} == {number} && {none}) {work.part}++;")
        for number, (counters, body) in enumerate(parts):
            is_last, inner = number == len(parts) - 1, depth + 1
            if len(parts) > 1:
                test = "" if is_last else f" if ({work.part} == {number})"
                self.add(inner, f"{'} else' if number else ''}{test} {{".strip())
                inner += 1
            self.names = kept[0].inside()
            self.beside_loop, self.outer_counter = has_loop(body), counters[-1][0] if counters else ""
            for line in positions(work, [variable for variable, _ in counters], self.names):
                self.add(inner, line)
            trips = [self.index(count) for _, count in counters]
            self.block(body, inner)
            self.add(inner, moved_on(work, trips, is_last=is_last))
        if len(parts) > 1:
            self.add(depth + 1, "}")
        self.add(depth, "}")
        self.names, self.beside_loop, self.outer_counter = kept

    def copy(self, node: lir.Block, depth: int) -> None:
        """Write a copy inside a loop as a separate function, and its call."""
        name = self.names.take(f"{self.interface.name}_copy{len(self.copies)}")
        given = [*self.parameters, *((f"int64_t {counter}", counter) for counter in self.counters)]
        kept = self.lines, self.values, self.beside_loop
        self.lines, self.values, self.beside_loop = [], {}, False
        self.block(node.body, 1)
        function, called = c_parts.copy_text(name, given, self.lines)
        self.copies.append(function)
        self.lines, self.values, self.beside_loop = kept
        self.pass_on(depth, f"{called} /* {clean_comment(node.note)} */")

    def parallel(self, node: lir.Parallel, depth: int) -> None:
        """Write a parallel region: a function for one part, and the call of all parts."""
        name, number = self.interface.name, len(self.regions)
        struct, part, task = (
            self.take_function(f"{name}_{stem}{number}") for stem in ("shared", "part", "task")
        )
        given = [*self.parameters, *((f"int64_t {counter}", counter) for counter in self.counters)]
        kept = self.lines, self.values, self.names, self.counters
        self.regions.append([])
        self.names = self.names.inside()
        self.lines, self.values = [], {}
        self.part_counters(node)
        self.block(node.body, 1)
        made = self.in_versions(part, (*given, ("int64_t part", "part")), part)
        self.regions[number] = c_parts.region_texts(c_parts.ParallelRegion(struct, task, made), self.lines)
        self.lines, self.values, self.names, self.counters = kept
        parts = index_text(product([trips for _, trips in node.counters]), self.names.of, self.issuer.used)
        values = ", ".join(identifier for _, identifier in given) or "0"
        note = f" /* {clean_comment(node.note)} */" if node.note else ""
        self.add(depth, f"{{{note}")
        self.pass_on(depth + 1, f"{struct} given = {{{values}}};")
        self.add(depth + 1, f"{name}_run(pool, {parts.text}, {task}, &given);")
        self.add(depth, "}")

    def part_counters(self, node: lir.Parallel) -> None:
        """Compute the counters of a part from its number. The last counter varies fastest."""
        left = "part"
        for place, (variable, trips) in reversed(list(enumerate(node.counters))):
            count = index_text(trips, self.names.of, self.issuer.used)
            counter = self.names.take(variable)
            last = place == 0
            value = left if last else infix(CText(left), "%", count).text
            self.counters = (*self.counters, counter)
            self.add(1, f"int64_t {counter} = {value};")
            if not last and place > 0:
                rest = self.names.take("rest")
                self.add(1, f"int64_t {rest} = {infix(CText(left), '/', count).text};")
                left = rest

    def issue(self, issue: lir.Issue, depth: int) -> None:
        here = Here(self.names, self.values, self.elements, self.beside_loop, self.outer_counter)
        lines = self.issuer.statements(issue, here)
        note = f" /* {clean_comment(issue.note)} */" if issue.note else ""
        self.fenced([*lines[:-1], lines[-1] + note], issue.instruction, depth)
        if self.counters and not self.issuer.model:
            self.keep(issue, depth)

    def keep(self, issue: lir.Issue, depth: int) -> None:
        """Write a statement that keeps the vectors of an issue in their registers."""
        read, added = read_as_it_lies(issue, self.issuer.machine), sum_name(issue, self.issuer.machine)
        if read in self.shared and self.is_vector(read):
            self.tell("READ_ONCE", [read], depth)
        if added is not None and self.is_vector(added):
            ending = [value for value in self.ending if self.is_vector(value)]
            for value in ending:
                self.tell("LAST_USE", [value, added], depth)
            if not ending and self.values[added].dtype.is_integer:
                self.tell("ONE_SUM", [added], depth)

    def is_vector(self, name: str) -> bool:
        """Return whether a value is a C variable of a vector type."""
        # Registers that are named by number are no variables; masks live in registers of another class.
        c_type = self.issuer.value_type(self.values[name])
        return c_type is not None and is_vector_type(c_type)

    def tell(self, helper: str, values: list[str], depth: int) -> None:
        self.issuer.used.add(helper)
        self.add(depth, f"{helper}({', '.join(self.names.of(value) for value in values)});")

    def fenced(self, lines: list[str], instruction: str, depth: int) -> None:
        """Write statements between compiler barriers, if the description requires them and none is open."""
        fence = self.issuer.machine.instructions[instruction].barrier and not self.issuer.model
        if fence and (not self.lines or self.lines[-1].strip() != BARRIER):
            self.add(depth, BARRIER)
        for line in lines:
            self.add(depth, line)
        if fence:
            self.add(depth, BARRIER)

    def configure(self, node: lir.Configure, depth: int) -> None:
        machine = self.issuer.machine
        shown = ", ".join(f"{f if i is None else f'{f}[{i}]'} = {v}" for f, i, v in node.fields)
        what = f"{node.state}: {'released' if node.release else shown}"
        if call_of(machine.instructions[node.instruction], model=self.issuer.model) is None:
            self.add(depth, f"/* {what} */")
            return
        self.fenced([f"{self.issuer.configuration(node)} /* {what} */"], node.instruction, depth)

    def hint(self, node: lir.Hint, depth: int) -> None:
        here = Here(self.names, self.values, self.elements)
        self.add(depth, self.issuer.hint(node, here))

    def fill(self, node: lir.Fill, depth: int) -> None:
        self.issuer.used.add("string.h")
        start = self.names.of(node.buffer)
        if node.offset.value != 0:
            start = infix(CText(start), "+", index_text(node.offset, self.names.of, self.issuer.used)).text
        count = index_text(node.elements, self.names.of, self.issuer.used)
        size = self.elements[node.buffer].size_bytes
        total = cast("size_t", count) if size == 1 else infix(cast("size_t", count), "*", CText(str(size)))
        self.add(depth, f"memset({start}, 0, {total});")

    def declare(self, values: tuple[lir.Value, ...], depth: int) -> None:
        self.values = {**self.values, **{v.name: v for v in values}}
        by_type: dict[str, list[str]] = {}
        for value in values:
            c_type = self.issuer.value_type(value)
            if c_type is not None:
                name = self.names.take(value.name)
                length = f"[{product(value.shape)}]" if self.issuer.model and value.shape else ""
                by_type.setdefault(c_type, []).append(name + length)
        for c_type, names in by_type.items():
            self.add(depth, f"{c_type} {', '.join(names)};")

    def condition(self, condition: lir.Condition) -> str:
        left, comparison, right = condition
        a, b = (index_text(i, self.names.of, self.issuer.used) for i in (left, right))
        return infix(a, comparison, b).text

    def index(self, index: Index) -> str:
        return index_text(index, self.names.of, self.issuer.used).text

    def pass_on(self, depth: int, line: str) -> None:
        """Add a line that only passes its names on to another function."""
        self.passed_on.add(line)
        self.add(depth, line)

    def add(self, depth: int, line: str) -> None:
        self.lines.append("  " * depth + line)


# Which values compilers have to be told of, so that vectors stay in the registers that a schedule gave them.
#
#     v27 = _mm512_loadu_ps(b);               b is read once, as the schedule has it,
#     READ_ONCE(v27);
#     v0 = _mm512_fmadd_ps(v24, v27, v0);     and not by each of these,
#     v9 = _mm512_fmadd_ps(v25, v27, v9);     whose sums stay where they are
#     LAST_USE(v27, v9);
#
# Gcc takes an operand out of memory in two or three instructions to be cheaper than a register, where
# registers are few: three rows by nine vectors of sums then take 30 loads an iteration, not twelve. It can
# do so with what lies in memory as it is used alone: a number that is broadcast needs no keeping, and is
# copied from register to register where it is kept all the same.
#
# Where sums go in and out in the same straight line, as where a few rows out of memory are followed to their
# ends, two or three instructions may each read: what waits for memory then takes no register, and more of it
# is under way (docs/decisions/0027-emitted-c-and-gcc.md).
#
# An instruction that adds to a register may as well end in that of an operand which is not used again. Gcc
# lets sums wander so, and brings them back over the stack at the end of an iteration. What is used once
# more, by nothing, cannot be overwritten (docs/decisions/0027-emitted-c-and-gcc.md).
#
#     v0 = _mm256_dpbusd_epi32(v0, v24, v27);
#     ONE_SUM(v0);
#
# C has one type for vectors of integers, gcc one for each width of their elements: a sum is made in one,
# kept in the other, and either is used behind the loop. Both are live then, and half of them on the stack.


# Vectors that so many issues read may as well be read by each, where no loop over the sum is inside.
READ_BY_EACH = 3


def find_shared_values(body: tuple[lir.Node, ...], machine: Machine) -> frozenset[str]:
    """Return the values that several issues of a body use, except those that each issue can read itself."""
    uses: Counter[str] = Counter()
    for node in body:
        if isinstance(node, lir.Issue):
            used = (_register(node, o) for o in _operands(node, machine) if o.role != "out")
            uses.update(value for value in used if value is not None)
    again = _read_by_each(body, uses, machine)
    return frozenset(value for value, count in uses.items() if count > 1 and value not in again)


def _read_by_each(body: tuple[lir.Node, ...], uses: Mapping[str, int], machine: Machine) -> frozenset[str]:
    """Return the vectors that two or three issues read and whose sums all start and end in the body."""
    issues = [node for node in body if isinstance(node, lir.Issue)]
    own = {value.name for node in body if isinstance(node, lir.Declare) for value in node.values}
    sums = [sum_name(issue, machine) for issue in issues]
    if any(value is not None and value not in own for value in sums) or not any(sums):
        return frozenset()
    read = (read_as_it_lies(issue, machine) for issue in issues)
    return frozenset(value for value in read if value is not None and 1 < uses[value] <= READ_BY_EACH)


def last_uses(body: tuple[lir.Node, ...], machine: Machine) -> dict[str, int]:
    """Return, for each value that several issues use, the position of the last issue that reads it."""
    several, found = find_shared_values(body, machine), dict[str, int]()
    for place, node in enumerate(body):
        if isinstance(node, lir.Issue):
            read = (_register(node, o) for o in _operands(node, machine) if o.role == "in" and o.shape)
            found |= {value: place for value in read if value in several}
    return found


def sum_name(issue: lir.Issue, machine: Machine) -> str | None:
    """Return the value that an issue reads and writes, or None."""
    sums = (_register(issue, o) for o in _operands(issue, machine) if o.role == "inout" and o.shape)
    return next((value for value in sums if value is not None), None)


def read_as_it_lies(issue: lir.Issue, machine: Machine) -> str | None:
    """Return the value that an issue loads from memory without changing the number of elements, or None."""
    refs, operands = dict(issue.operands), _operands(issue, machine)
    read = [o.shape for o in operands if o.role == "in" and isinstance(refs[o.name], lir.MemoryRef)]
    made = [o for o in operands if o.role == "out" and o.shape and o.shape in read]
    return _register(issue, made[0]) if made else None


def _operands(issue: lir.Issue, machine: Machine) -> tuple[Operand, ...]:
    return machine.instructions[issue.instruction].instruction.operands


def _register(issue: lir.Issue, operand: Operand) -> str | None:
    """Return the value of an operand in a register, or None for one in memory."""
    ref = dict(issue.operands)[operand.name]
    return ref.value if isinstance(ref, lir.RegisterRef) else None


# Work done share by share: counters that go on from one share to the next, instead of divisions.
#
# int64_t work0_left = 1024, work0_due = 0, work0_0 = 0, work0_1 = 0;      where it begins
# for (int64_t k0 = 0; k0 < 48; k0++) {
#   int64_t work0_now = 21;                                                each share: 1024 / 48 pieces,
#   if ((work0_due += 16) >= 48) { work0_due -= 48; work0_now++; }         and what is left over of that
#   if (work0_now > work0_left) work0_now = work0_left;
#   for (work0_left -= work0_now; work0_now > 0; work0_now--) {
#     const int64_t k1 = work0_0, n1 = work0_1;
#     …                                                                    a piece
#     if (++work0_1 == 4) { work0_1 = 0; work0_0++; }
#   }


Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkProgress:
    """The progress of some work as C identifiers: loop `counters`, and `part` if there are several parts.

    Each slice has `each` pieces, and `rest` of `trips` slices have one piece more. Both are numbers if known.
    """

    stem: str
    each: str
    rest: str
    trips: str
    counters: tuple[str, ...]
    part: str

    @property
    def left(self) -> str:
        return f"{self.stem}_left"

    @property
    def due(self) -> str:
        return f"{self.stem}_due"

    @property
    def now(self) -> str:
        return f"{self.stem}_now"


def begin(node: lir.Begin, names: CNames, used: set[str]) -> tuple[WorkProgress, Lines]:
    """Return the counters of work that has not started, and their declarations."""
    stem = names.take(node.work)
    counters = tuple(names.take(f"{stem}_{n}") for n in range(node.depth))
    part = names.take(f"{stem}_part") if node.parts > 1 else ""
    pieces, trips = (index_text(index, names.of, used) for index in (node.pieces, node.trips))
    if node.pieces.value is not None and node.trips.value is not None:
        each, rest = map(str, divmod(node.pieces.value, node.trips.value))
        made = WorkProgress(stem, each, rest, str(node.trips.value), counters, part)
        constants: Lines = ()
    else:
        each, rest, of = (f"{stem}_{word}" for word in ("each", "rest", "trips"))
        made = WorkProgress(stem, each, rest, of, counters, part)
        constants = (
            f"const int64_t {of} = {trips.text};",
            f"const int64_t {each} = {infix(pieces, '/', CText(of)).text};",
            f"const int64_t {rest} = {infix(pieces, '%', CText(of)).text};",
        )
    zeros = [made.due] * (rest != "0") + [part] * bool(part) + list(counters)
    variables = [f"{made.left} = {pieces.text}", *(f"{name} = 0" for name in zeros)]
    return made, (*constants, f"int64_t {', '.join(variables)};")


def share(work: WorkProgress) -> Lines:
    """Write the number of pieces of the next slice, and open the loop over them."""
    due, now, left = work.due, work.now, work.left
    more = f"if (({due} += {work.rest}) >= {work.trips}) {{ {due} -= {work.trips}; {now}++; }}"
    return (
        f"int64_t {now} = {work.each};",
        *((more,) if work.rest != "0" else ()),
        f"if ({now} > {left}) {now} = {left};",
        f"for ({left} -= {now}; {now} > 0; {now}--) {{",
    )


def pieces_of(node: lir.WorkSlice) -> list[Counted]:
    """Return the counters and the piece of each part of some work."""
    return [split_counted_loops((part,), depth) for part, depth in zip(node.body, node.depths, strict=True)]


def positions(work: WorkProgress, variables: Sequence[str], names: CNames) -> Lines:
    """Return the declarations of the loop counters of a part."""
    pairs = zip(variables, work.counters, strict=False)
    given = ", ".join(f"{names.take(variable)} = {counter}" for variable, counter in pairs)
    return (f"const int64_t {given};",) if given else ()


def moved_on(work: WorkProgress, trips: Sequence[str], *, is_last: bool) -> str:
    """Return the code that advances the counters after each piece of work. The last counter varies fastest."""
    carry = "" if is_last else f"{work.part}++;"
    for place, (counter, count) in enumerate(zip(work.counters, trips, strict=False)):
        if place == 0 and is_last:
            carry = f"{counter}++;"
        else:
            carry = f"if (++{counter} == {count}) {{ {counter} = 0; {carry} }}"
    return carry
