"""The body of a program: loops, conditions, declarations and issues as C statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from isamap.codegen.c_apart import copy_text, stands_apart
from isamap.codegen.c_index import index_text
from isamap.codegen.c_interface import Interface, body_parameters, clean
from isamap.codegen.c_issue import Here, Issuer
from isamap.codegen.c_parallel import Region, region_texts
from isamap.codegen.c_text import SHIFT, Text, cast, infix
from isamap.codegen.read_once import read_as_it_lies, shared
from isamap.ir import BOOL, DType, Index, product
from isamap.lower.program import (
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
    Value,
)
from isamap.machine import EmitCall

BARRIER = '__asm__ volatile("" ::: "memory");'


class BodyWriter:
    """Writes the body, line by line."""

    def __init__(self, program: LoweredProgram, interface: Interface, issuer: Issuer) -> None:
        self.program, self.interface, self.issuer = program, interface, issuer
        self.names = issuer.names.inside()
        self.parameters = body_parameters(program, interface, self.names)
        self.counters: tuple[str, ...] = ()
        self.beside_loop = False
        self.turning: str = ""
        self.shared: frozenset[str] = frozenset()
        self.regions: list[list[str]] = []
        self.copies: list[list[str]] = []
        self.elements: dict[str, DType] = {t.name: t.dtype for t in program.tensors}
        self.elements |= {b.name: b.dtype for b in program.buffers}
        self.values: Mapping[str, Value] = {}
        self.lines: list[str] = []

    def function(self, name: str) -> list[str]:
        """The lines of the function."""
        pool = (f"{self.interface.name}_pool *pool",) if self.interface.takes_pool else ()
        given = [declaration for declaration, _ in self.parameters]
        parameters = ",\n    ".join((*given, *pool)) or "void"
        self.lines = [f"static void {name}(\n    {parameters}) {{"]
        self.block(self.program.body, 1)
        return [*self.lines, "}"]

    def block(self, body: tuple[Node, ...], depth: int) -> None:
        """Statements in a scope of their own."""
        names, values, outer = self.names, self.values, self.shared
        self.names, self.shared = names.inside(), shared(body, self.issuer.machine)
        for node in body:
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
            case _:
                assert_never(node)

    def loop(self, node: For, depth: int) -> None:
        trips = index_text(node.trips, self.names.of, self.issuer.used).inside(SHIFT)
        kept = self.names, self.counters, self.beside_loop, self.turning
        self.names = self.names.inside()
        self.beside_loop, self.turning = _has_loop(node.body), node.variable
        counter = self.names.take(node.variable)
        self.counters = (*self.counters, counter)
        note = f" /* {clean(node.note)} */" if node.note else ""
        self.add(depth, f"for (int64_t {counter} = 0; {counter} < {trips}; {counter}++) {{{note}")
        self.block(node.body, depth + 1)
        self.add(depth, "}")
        self.names, self.counters, self.beside_loop, self.turning = kept

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
        self.add(depth, f"{called} /* {clean(node.note)} */")

    def parallel(self, node: Parallel, depth: int) -> None:
        """A region: its part becomes a function, and all parts are performed here."""
        name, number = self.interface.name, len(self.regions)
        region = Region(
            *(self.issuer.names.take(f"{name}_{stem}{number}") for stem in ("shared", "part", "task"))
        )
        given = [*self.parameters, *((f"int64_t {counter}", counter) for counter in self.counters)]
        kept = self.lines, self.values, self.names, self.counters
        self.regions.append([])
        self.names = self.names.inside()
        self.lines, self.values = [], {}
        self.part_counters(node)
        self.block(node.body, 1)
        self.regions[number] = region_texts(region, given, self.lines)
        self.lines, self.values, self.names, self.counters = kept
        parts = index_text(product([trips for _, trips in node.counters]), self.names.of, self.issuer.used)
        values = ", ".join(identifier for _, identifier in given) or "0"
        note = f" /* {clean(node.note)} */" if node.note else ""
        self.add(depth, f"{{{note}")
        self.add(depth + 1, f"{region.struct} given = {{{values}}};")
        self.add(depth + 1, f"{name}_run(pool, {parts.text}, {region.task}, &given);")
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
        read = read_as_it_lies(issue, self.issuer.machine)
        if read in self.shared and self.counters and not self.issuer.model:
            self.keep(self.values[read], depth)

    def keep(self, value: Value, depth: int) -> None:
        """What was just read from memory into a vector stays in its register."""
        # Registers that are named by number are no variables; predicates live in registers of another class.
        if self.issuer.value_type(value) is not None and value.dtype != BOOL:
            self.issuer.used.add("READ_ONCE")
            self.add(depth, f"READ_ONCE({self.names.of(value.name)});")

    def fenced(self, lines: list[str], instruction: str, depth: int) -> None:
        """Statements between barriers, where the description asks for them and none stands there yet."""
        fence = self.issuer.machine.instructions[instruction].barrier and not self.issuer.model
        if fence and self.lines[-1].strip() != BARRIER:
            self.add(depth, BARRIER)
        for line in lines:
            self.add(depth, line)
        if fence:
            self.add(depth, BARRIER)

    def configure(self, node: Configure, depth: int) -> None:
        machine = self.issuer.machine
        shown = ", ".join(f"{f if i is None else f'{f}[{i}]'} = {v}" for f, i, v in node.fields)
        what = f"{node.state}: {'released' if node.release else shown}"
        emit = machine.instructions[node.instruction].emit
        if self.issuer.model or not isinstance(emit, EmitCall):
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

    def add(self, depth: int, line: str) -> None:
        self.lines.append("  " * depth + line)


def _has_loop(body: tuple[Node, ...]) -> bool:
    return any(
        isinstance(node, For) or (isinstance(node, (If, Block)) and _has_loop(node.body)) for node in body
    )
