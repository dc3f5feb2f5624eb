"""Print C functions that time one instruction each: a dependence chain of it, or independent copies.

    void time_7(unsigned char *const *data, const int64_t *numbers, int64_t trips) {
      __m512 c; ...
      for (int64_t trip = 0; trip < trips; ++trip) {
        HIDE_V(a); HIDE_V(b); HIDE_V(c);      hides these values from the compiler
        c = _mm512_fmadd_ps(a, b, c);
        ...
      }
    }

A chain runs through an operand that is read and written, or through a result and an operand of the same kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from isamap.emit.c_build import with_attributes
from isamap.emit.c_functions import HELPER_NAMES, helper_texts
from isamap.emit.c_issue import Here, Issuer
from isamap.emit.c_names import CNames, compute_type, storage_type
from isamap.emit.conformance_source import BARRIER, EncodedForm, FormWriter, find_move, join_source
from isamap.ir import Index, Operand
from isamap.ir import product as index_product
from isamap.lower.program import Issue, MemoryRef, RegisterRef, Value
from isamap.machine import Machine
from isamap.machine.timings import LINE_BYTES
from isamap.source.records import dataclass

Kind = Literal["chain", "apart"]

CHAIN_ISSUES = 8
MOST_COPIES = 16  # hides four cycles of latency on four units
PLACES = 8  # in memory, one after the other
MOST_COUNTED = 512  # so that the places of a table of f32 take 16 KB, half of a first cache
RESULTS = 2
"""Results that live at a time where compilers choose registers: they take one again soon after it was read.

Some instructions wait for the register that they overwrite (seen: expanding loads on Zen 5 take 0.26 ns with
eight registers, 0.58 with two, as where rows are packed, and 1.19 with one).
"""
_INTEGER = re.compile(r"(u?int(8|16|32|64)_t|_Bool|bool|(un)?signed char|char|int|unsigned)")

_HIDING = """\
/* The compiler no longer knows what a variable holds, and assumes that it is read. */
#define HIDE_V(x) __asm__ volatile("" : IN_VECTOR(x))
#define HIDE_R(x) __asm__ volatile("" : "+r"(x))
"""
_SAMPLER = """\
typedef void timed(unsigned char *const *data, const int64_t *numbers, int64_t trips);

void sample(timed *f, unsigned char *const *data, const int64_t *numbers, int64_t trips, int64_t count,
            int64_t *ns) {
  for (int64_t n = 0; n < count; ++n) {
    struct timespec a, b;
    clock_gettime(SAMPLED_BY, &a);
    f(data, numbers, trips);
    clock_gettime(SAMPLED_BY, &b);
    ns[n] = (int64_t)(b.tv_sec - a.tv_sec) * 1000000000 + (b.tv_nsec - a.tv_nsec);
  }
}
"""
WALL, OWN = "CLOCK_MONOTONIC", "CLOCK_THREAD_CPUTIME_ID"
"""The clock of samples: a wall clock is read in 15 ns; a thread's own takes 0.2 us, and stops while others run.

Samples longer than a time slice of the system (3 ms on Linux) need the thread's own clock.
"""
FIRST = ("#define _POSIX_C_SOURCE 200809L",)
_HEADERS = {"stdint.h", "string.h", "math.h", "time.h"}


@dataclass(frozen=True, slots=True)
class Timing:
    """A timing function in the file: `time_NUMBER`, which performs `issues` issues per iteration."""

    number: int
    form: EncodedForm
    kind: Kind
    issues: int

    @property
    def function(self) -> str:
        return f"time_{self.number}"


def find_chain(form: EncodedForm, machine: Machine) -> tuple[Operand, Operand] | None:
    """Return the operand that an instruction writes, and the one through which the next issue depends on it."""
    inside = [o for o in form.passed if machine.memories[o.memory or ""].kind == "registers"]
    for o in inside:
        if o.role == "inout":
            return o, o
    for written in inside:
        for read in inside:
            same = (written.memory, written.dtype) == (read.memory, read.dtype)
            if written.role == "out" and read.role == "in" and same and _shape(read) == _shape(written):
                return written, read
    return None


def _shape(o: Operand) -> tuple[str, ...]:
    return tuple(str(extent) for extent in o.shape)


def copies_of(form: EncodedForm, machine: Machine) -> int:
    """Return how many issues of an instruction run independently of each other."""
    written = [o for o in form.passed if o.role != "in"]
    numbered = any(machine.memories[o.memory or ""].named == "immediate" for o in written)
    limit = PLACES if numbered else RESULTS
    if any(o.role == "inout" for o in written):
        limit = MOST_COPIES
    for o in written:
        memory = machine.memories[o.memory or ""]
        if memory.kind == "registers" and memory.count:
            same_memory = [x for x in form.passed if x.memory == o.memory and x.role == "in"]
            scratch = 0 if memory.named == "immediate" else 2
            limit = min(limit, max(1, memory.count - len(same_memory) - scratch))
    return limit


def timing_source(machine: Machine, timings: tuple[Timing, ...]) -> str:
    """Return the file with a function for each timing, and `sample`, which calls one and reads the clock."""
    names = CNames(taken=HELPER_NAMES)
    for word in ("sample", "timed", "trip", "trips", *(t.function for t in timings)):
        names.take(word)
    issuer = Issuer(machine, False, names)
    functions = [_Function(machine, timing, issuer).lines() for timing in timings]
    return source_of(machine, issuer, functions, sampler())


def source_of(machine: Machine, issuer: Issuer, functions: list[list[str]], sampled_by: str) -> str:
    """Return the whole file around functions and the text of `sample`, which calls one and reads a clock."""
    headers = sorted(_HEADERS | set(machine.target.headers))
    parts = [list(FIRST), [f"#include <{h}>" for h in headers]]
    used = (issuer.used | {"IN_VECTOR"}) - {"string.h", "math.h"}
    parts += [t.splitlines() for t in helper_texts(used, machine.target.parts)]
    parts += [_HIDING.splitlines(), sampled_by.splitlines()]
    return with_attributes(join_source(parts, issuer, functions), machine.target.attributes)


def sampler(clock: str = WALL) -> str:
    """Return C of the function type `timed`, and of `sample`, which calls one and reads a clock."""
    return _SAMPLER.replace("SAMPLED_BY", clock)


def hide_value(name: str, c_type: str) -> str:
    """Return the statement that hides a variable's value from the compiler."""
    return f"HIDE_{'R' if _INTEGER.fullmatch(c_type) else 'V'}({name});"


class _Function(FormWriter):
    """A writer of the function of one timing."""

    def __init__(self, machine: Machine, timing: Timing, issuer: Issuer) -> None:
        super().__init__(machine, timing.form, issuer)
        self.timing = timing
        self.through = find_chain(self.form, machine) if timing.kind == "chain" else None
        self.c_types: dict[str, str] = {}

    def lines(self) -> list[str]:
        self.out = [f"void {self.timing.function}(unsigned char *const *data, const int64_t *numbers, "]
        self.out[0] += "int64_t trips) {"
        self.add("(void)data; (void)numbers;")
        for n, name in enumerate(self.form.counts):
            self.add(f"int64_t {self.names.take(name)} = numbers[{n}];")
        for slot, operand in enumerate(self.form.passed):
            for copy in range(self.copies(operand)):
                self.declare(slot, operand, copy)
        for slot, p in enumerate(self.form.typed_scalars, len(self.form.passed)):
            assert p.dtype is not None
            name, c_type = self.names.take(p.name), compute_type(p.dtype)
            self.c_types[p.name] = c_type
            self.add(f"{c_type} {name}; memcpy(&{name}, data[{slot}], sizeof {name});")
        here = Here(self.names, self.values, {self.place(o): o.dtype for o in self.form.passed})
        configured = self.configure()
        self.fill(here)
        self.add("for (int64_t trip = 0; trip < trips; ++trip) {")
        for n in range(self.timing.issues):
            self.step(n, here)
        self.add(self.hide(v for o in self.form.passed if o.role == "out" for v in self.names_of(o)))
        self.add("}")
        self.add(self.hide(self.c_types))
        if configured:
            self.release()
        return [*self.out, "}"]

    # --- operands

    def copies(self, o: Operand) -> int:
        """Return how many variables represent an operand. Each place in memory has one pointer."""
        apart = self.timing.kind == "apart" and self.is_register(o)
        return copies_of(self.form, self.machine) if apart and o.role != "in" else 1

    def names_of(self, o: Operand) -> tuple[str, ...]:
        """Return the C variables that represent an operand."""
        values = (self.value(o, copy) for copy in range(self.copies(o)))
        return tuple(v for v in values if v in self.c_types)

    def hide(self, values: Iterable[str]) -> str:
        return " ".join(hide_value(self.names.of(v), self.c_types[v]) for v in values)

    def value(self, o: Operand, copy: int) -> str:
        return f"{o.name}.{copy}"

    def place(self, o: Operand) -> str:
        return f"{o.name}.mem"

    def declare(self, slot: int, o: Operand, copy: int) -> None:
        c_type = storage_type(o.dtype)
        if not self.is_register(o):
            self.pointer(slot, o, c_type)
            return
        same = [v for v in self.values.values() if v.memory == o.memory]
        shape = tuple(extent.evaluate(dict(highest(self.form))) for extent in o.shape)
        value = Value(self.value(o, copy), o.memory or "", o.dtype, shape, register=len(same))
        self.values[value.name] = value
        held = self.issuer.value_type(value)
        if held is None:
            if copy == 0:
                self.pointer(slot, o, c_type)
            return
        name = self.names.take(value.name)
        self.c_types[value.name] = held
        self.add(f"{held} {name}; memcpy(&{name}, data[{slot}], sizeof {name});")

    def pointer(self, slot: int, o: Operand, c_type: str) -> None:
        name = self.names.take(self.place(o))
        self.add(f"{c_type} *{name} = ({c_type} *)(void *)data[{slot}];")
        if not self.is_register(o):
            self.c_types[self.place(o)] = "int64_t"  # a pointer lives where integers do

    def number(self, extent: Index) -> int:
        value = extent.substitute(self.encoded).value
        assert value is not None, f"{extent} is not a number before the run"
        return value

    # --- the loop's body

    def step(self, n: int, here: Here) -> None:
        """Write one issue, and before it statements that keep compilers from merging it with another issue."""
        refs = {o.name: self.reference(o, n) for o in self.form.passed}
        if self.through is not None and self.through[0] is not self.through[1]:
            refs[self.through[1].name] = refs[self.through[0].name]
        pairs = [(refs[o.name], o) for o in self.form.passed]
        used = {r.value for r, o in pairs if isinstance(r, RegisterRef) and o.role != "out"}
        used |= {r.buffer for r, _ in pairs if isinstance(r, MemoryRef)}
        used |= {p.name for p in self.form.typed_scalars}
        self.add(self.hide(v for v in self.c_types if v in used))
        results = [(o, refs[o.name]) for o in self.form.passed if o.role != "in"]
        if self.timing.kind == "apart":  # what is overwritten was read
            earlier = [r for o, r in results if o.role == "out" and n >= self.copies(o)]
            self.add(self.hide(self.held(earlier)))
        self.issue(Issue(self.form.entry.name, tuple(refs.items()), self.params()), here)
        # At once: a value that is needed later is made later, behind the fence, and then gcc no longer joins
        # the load of one number with its broadcast (0.27 ns instead of 0.15 on Zen 3).
        self.add(self.hide(self.held(r for _, r in results)))

    def held(self, refs: Iterable[RegisterRef | MemoryRef]) -> Iterable[str]:
        """Return the C variables among these operands."""
        return [r.value for r in refs if isinstance(r, RegisterRef) and r.value in self.c_types]

    def reference(self, o: Operand, n: int) -> RegisterRef | MemoryRef:
        if self.is_register(o):
            return RegisterRef(self.value(o, n % self.copies(o)))
        strides = [
            stride.substitute(self.encoded) if stride is not None else dense
            for stride, dense in zip(o.strides or self.dense(o), self.dense(o), strict=True)
        ]
        return MemoryRef(self.place(o), Index.of(n % PLACES * place_elements(o, self.form)), tuple(strides))

    def dense(self, o: Operand) -> tuple[Index, ...]:
        shape = [extent.substitute(dict(highest(self.form))) for extent in o.shape]
        return tuple(index_product(shape[axis + 1 :]) for axis in range(len(shape)))

    # --- registers that have numbers

    def configure(self) -> bool:
        """Load the state that the instruction requires. Return whether it requires any."""
        settings: list[tuple[str, str, int | None, int]] = []
        for r in self.form.entry.instruction.requires:
            operand, copies = r.field.index, 1
            if isinstance(operand, str):
                copies = self.copies(self.form.entry.instruction.operand(operand))
            for copy in range(copies):
                index = operand
                if isinstance(operand, str):
                    index = self.values[f"{operand}.{copy}"].register
                assert not isinstance(index, str)
                settings.append((r.field.state, r.field.field, index, self.number(r.value)))
        return self.load_settings(settings)

    def fill(self, here: Here) -> None:
        """Load the registers that have numbers instead of C variables."""
        for o in self.form.passed:
            if not self.is_register(o) or self.machine.memories[o.memory or ""].named != "immediate":
                continue
            found = find_move(self.machine, o, self.encoded, load=True)
            for copy in range(self.copies(o) if found is not None else 0):
                assert found is not None
                self.move(self.value(o, copy), self.place(o), found, here)

    # --- text

    def fenced(self, lines: list[str]) -> None:
        """Write a barrier, then the lines."""
        for line in (BARRIER, *lines):
            self.add(line)


def highest(form: EncodedForm) -> tuple[tuple[str, int], ...]:
    """Return all integer parameters of a form: the encoded ones, and the others at their largest values.

    Those others are at most `MOST_COUNTED`: a table in memory can have 2147483647 elements.
    """
    counted = [p for p in form.entry.instruction.params if p.name in form.counts]
    return (*form.encoded, *((p.name, _most(p.high)) for p in counted))


def _most(high: Index | None) -> int:
    return min(high.value, MOST_COUNTED) if high is not None and high.value is not None else LINE_BYTES


def place_elements(o: Operand, form: EncodedForm) -> int:
    """Return the distance between the places of a memory operand, in whole lines. Units: elements."""
    sizes = dict(highest(form))
    count = 1
    for extent in o.shape:
        count *= extent.evaluate(sizes)
    size = max(1, o.dtype.size_bytes)
    return -(-max(count, 1) * size // LINE_BYTES) * LINE_BYTES // size
