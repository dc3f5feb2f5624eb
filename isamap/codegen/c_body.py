"""The body of a program: loops, conditions, declarations and issues as C statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from isamap.codegen.c_interface import Interface, body_parameters, body_symbols, clean
from isamap.codegen.c_issue import Here, Issuer, call_of
from isamap.codegen.c_kept import added_to, last_uses, read_as_it_lies, shared
from isamap.codegen.c_parts import (
    Function,
    Region,
    copy_text,
    dense_strides,
    region_texts,
    stands_apart,
    used_in_loops,
)
from isamap.codegen.c_shares import Progress, begin, moved_on, pieces_of, positions, share
from isamap.codegen.c_text import SHIFT, Text, cast, index_text, infix
from isamap.ir import DType, Index, product
from isamap.lower.program import (
    Begin,
    Block,
    Condition,
    Configure,
    Declare,
    Fill,
    For,
    Hint,
    If,
    Issue,
    LoweredProgram,
    Node,
    Parallel,
    Share,
    Value,
)
from isamap.lower.walk import has_loop
from isamap.machine.allowed import is_vector_type

BARRIER = '__asm__ volatile("" ::: "memory");'


class BodyWriter:
    """Writes the body, line by line."""

    def __init__(self, program: LoweredProgram, interface: Interface, issuer: Issuer) -> None:
        self.program, self.interface, self.issuer = program, interface, issuer
        self.names = issuer.names.inside()
        self.parameters = body_parameters(program, interface, self.names)
        symbols = {symbol: self.names.of(symbol) for symbol in body_symbols(program)}
        self.dense = dense_strides(program, symbols) if issuer.has_versions else {}
        self.passed_on: set[str] = set()
        self.counters: tuple[str, ...] = ()
        self.beside_loop: bool = False
        self.turning: str = ""
        self.shared: frozenset[str] = frozenset()
        self.ending: tuple[str, ...] = ()
        self.regions: list[list[str]] = []
        self.copies: list[list[str]] = []
        self.works: dict[str, Progress] = {}
        self.elements: dict[str, DType] = {t.name: t.dtype for t in program.tensors}
        self.elements |= {b.name: b.dtype for b in program.buffers}
        self.values: Mapping[str, Value] = {}
        self.lines: list[str] = []

    def function(self) -> tuple[Function, list[str]]:
        """The function of the whole body, and its lines."""
        name = self.interface.name
        pool = ((f"{name}_pool *pool", "pool"),) if self.interface.takes_pool else ()
        self.lines = [f"  {line}" for line in self.issuer.opening]
        self.block(self.program.body, 1)
        self.lines += [f"  {line}" for line in self.issuer.closing]
        made = self.in_versions(f"{name}_body", (*self.parameters, *pool), name)
        return made, made.text(self.lines)

    def in_versions(self, name: str, parameters: tuple[tuple[str, str], ...], stem: str) -> Function:
        """A function of the lines that were written: in versions where its loops use strides."""
        used = used_in_loops(self.lines, self.passed_on)
        dense = tuple((stride, value) for stride, value in self.dense.items() if stride in used)
        if not dense:
            return Function(name, parameters)
        versions = (self.take_function(f"{stem}_{suffix}") for suffix in ("dense", "strided"))
        return Function(name, parameters, dense, *versions)

    def take_function(self, wanted: str) -> str:
        """An identifier of the file that no parameter hides where it is called."""
        hidden = {name for _, name in self.parameters}
        while (name := self.issuer.names.take(wanted)) in hidden:
            pass
        return name

    def block(self, body: tuple[Node, ...], depth: int) -> None:
        """Statements in a scope of their own."""
        names, values, outer = self.names, self.values, self.shared
        self.names, self.shared = names.inside(), shared(body, self.issuer.machine)
        last = last_uses(body, self.issuer.machine)
        for place, node in enumerate(body):
            self.ending = tuple(value for value, use in last.items() if use == place)
            self.node(node, depth)
        self.names, self.values, self.shared = names, values, outer

    def node(self, node: Node, depth: int) -> None:
        match node:
            case Issue():
                self.issue(node, depth)
            case Configure():
                self.configure(node, depth)
            case Fill():
                self.fill(node, depth)
            case Hint():
                self.hint(node, depth)
            case Declare(values):
                self.declare(values, depth)
            case For():
                self.loop(node, depth)
            case Parallel():
                self.parallel(node, depth)
            case If(conditions, body):
                tests = [self.condition(c) for c in conditions]
                test = " && ".join(tests)
                self.add(depth, f"if ({test}) {{")
                self.block(body, depth + 1)
                self.add(depth, "}")
            case Block() if self.counters and not self.issuer.model and stands_apart(node):
                self.copy(node, depth)
            case Block(note, body):
                self.add(depth, f"{{ /* {clean(note)} */" if note else "{")
                self.block(body, depth + 1)
                self.add(depth, "}")
            case Begin():
                self.works[node.work], lines = begin(node, self.names, self.issuer.used)
                for line in lines:
                    self.add(depth, line)
            case Share():
                self.share(node, depth)
            case _:
                assert_never(node)

    def loop(self, node: For, depth: int) -> None:
        trips = index_text(node.trips, self.names.of, self.issuer.used).inside(SHIFT)
        kept = self.names, self.counters, self.beside_loop, self.turning
        self.names = self.names.inside()
        self.beside_loop, self.turning = has_loop(node.body), node.variable
        counter = self.names.take(node.variable)
        self.counters = (*self.counters, counter)
        note = f" /* {clean(node.note)} */" if node.note else ""
        self.add(depth, f"for (int64_t {counter} = 0; {counter} < {trips}; {counter}++) {{{note}")
        self.block(node.body, depth + 1)
        self.add(depth, "}")
        self.names, self.counters, self.beside_loop, self.turning = kept

    def share(self, node: Share, depth: int) -> None:
        """A loop over the next pieces of some work, each of the part that its turn is in."""
        work, parts = self.works[node.work], pieces_of(node)
        kept = self.names, self.beside_loop, self.turning
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
            self.beside_loop, self.turning = has_loop(body), counters[-1][0] if counters else ""
            for line in positions(work, [variable for variable, _ in counters], self.names):
                self.add(inner, line)
            trips = [self.index(count) for _, count in counters]
            self.block(body, inner)
            self.add(inner, moved_on(work, trips, is_last=is_last))
        if len(parts) > 1:
            self.add(depth + 1, "}")
        self.add(depth, "}")
        self.names, self.beside_loop, self.turning = kept

    def copy(self, node: Block, depth: int) -> None:
        """A copy inside a loop: a function of its own, which is called here."""
        name = self.names.take(f"{self.interface.name}_copy{len(self.copies)}")
        given = [*self.parameters, *((f"int64_t {counter}", counter) for counter in self.counters)]
        kept = self.lines, self.values, self.beside_loop
        self.lines, self.values, self.beside_loop = [], {}, False
        self.block(node.body, 1)
        function, called = copy_text(name, given, self.lines)
        self.copies.append(function)
        self.lines, self.values, self.beside_loop = kept
        self.pass_on(depth, f"{called} /* {clean(node.note)} */")

    def parallel(self, node: Parallel, depth: int) -> None:
        """A region: its part becomes a function, and all parts are performed here."""
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
        self.regions[number] = region_texts(Region(struct, task, made), self.lines)
        self.lines, self.values, self.names, self.counters = kept
        parts = index_text(product([trips for _, trips in node.counters]), self.names.of, self.issuer.used)
        values = ", ".join(identifier for _, identifier in given) or "0"
        note = f" /* {clean(node.note)} */" if node.note else ""
        self.add(depth, f"{{{note}")
        self.pass_on(depth + 1, f"{struct} given = {{{values}}};")
        self.add(depth + 1, f"{name}_run(pool, {parts.text}, {task}, &given);")
        self.add(depth, "}")

    def part_counters(self, node: Parallel) -> None:
        """The counters of a part out of its number; the last one counts fastest."""
        left = "part"
        for place, (variable, trips) in reversed(list(enumerate(node.counters))):
            count = index_text(trips, self.names.of, self.issuer.used)
            counter = self.names.take(variable)
            last = place == 0
            value = left if last else infix(Text(left), "%", count).text
            self.counters = (*self.counters, counter)
            self.add(1, f"int64_t {counter} = {value};")
            if not last and place > 0:
                rest = self.names.take("rest")
                self.add(1, f"int64_t {rest} = {infix(Text(left), '/', count).text};")
                left = rest

    def issue(self, issue: Issue, depth: int) -> None:
        here = Here(self.names, self.values, self.elements, self.beside_loop, self.turning)
        lines = self.issuer.statements(issue, here)
        note = f" /* {clean(issue.note)} */" if issue.note else ""
        self.fenced([*lines[:-1], lines[-1] + note], issue.instruction, depth)
        if self.counters and not self.issuer.model:
            self.keep(issue, depth)

    def keep(self, issue: Issue, depth: int) -> None:
        """Says of an issue's vectors what keeps them in their registers."""
        read, added = read_as_it_lies(issue, self.issuer.machine), added_to(issue, self.issuer.machine)
        if read in self.shared and self.is_vector(read):
            self.tell("READ_ONCE", [read], depth)
        if added is not None and self.is_vector(added):
            ending = [value for value in self.ending if self.is_vector(value)]
            for value in ending:
                self.tell("LAST_USE", [value, added], depth)
            if not ending and self.values[added].dtype.is_integer:
                self.tell("ONE_SUM", [added], depth)

    def is_vector(self, name: str) -> bool:
        """Whether a value is a variable in a vector's register."""
        # Registers that are named by number are no variables; masks live in registers of another class.
        c_type = self.issuer.value_type(self.values[name])
        return c_type is not None and is_vector_type(c_type)

    def tell(self, helper: str, values: list[str], depth: int) -> None:
        self.issuer.used.add(helper)
        self.add(depth, f"{helper}({', '.join(self.names.of(value) for value in values)});")

    def fenced(self, lines: list[str], instruction: str, depth: int) -> None:
        """Statements between barriers, where the description asks for them and none stands there yet."""
        fence = self.issuer.machine.instructions[instruction].barrier and not self.issuer.model
        if fence and (not self.lines or self.lines[-1].strip() != BARRIER):
            self.add(depth, BARRIER)
        for line in lines:
            self.add(depth, line)
        if fence:
            self.add(depth, BARRIER)

    def configure(self, node: Configure, depth: int) -> None:
        machine = self.issuer.machine
        shown = ", ".join(f"{f if i is None else f'{f}[{i}]'} = {v}" for f, i, v in node.fields)
        what = f"{node.state}: {'released' if node.release else shown}"
        if call_of(machine.instructions[node.instruction], model=self.issuer.model) is None:
            self.add(depth, f"/* {what} */")
            return
        self.fenced([f"{self.issuer.configuration(node)} /* {what} */"], node.instruction, depth)

    def hint(self, node: Hint, depth: int) -> None:
        here = Here(self.names, self.values, self.elements)
        self.add(depth, self.issuer.hint(node, here))

    def fill(self, node: Fill, depth: int) -> None:
        self.issuer.used.add("string.h")
        start = self.names.of(node.buffer)
        if node.offset.value != 0:
            start = infix(Text(start), "+", index_text(node.offset, self.names.of, self.issuer.used)).text
        count = index_text(node.elements, self.names.of, self.issuer.used)
        size = self.elements[node.buffer].size_bytes
        total = cast("size_t", count) if size == 1 else infix(cast("size_t", count), "*", Text(str(size)))
        self.add(depth, f"memset({start}, 0, {total});")

    def declare(self, values: tuple[Value, ...], depth: int) -> None:
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

    def condition(self, condition: Condition) -> str:
        left, comparison, right = condition
        a, b = (index_text(i, self.names.of, self.issuer.used) for i in (left, right))
        return infix(a, comparison, b).text

    def index(self, index: Index) -> str:
        return index_text(index, self.names.of, self.issuer.used).text

    def pass_on(self, depth: int, line: str) -> None:
        """A line that gives what it names to another function."""
        self.passed_on.add(line)
        self.add(depth, line)

    def add(self, depth: int, line: str) -> None:
        self.lines.append("  " * depth + line)
