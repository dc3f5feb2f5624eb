"""The C interface of a program: its argument struct, header, checks and workspace.

    int gemm(const gemm_args *args, void *workspace, gemm_pool *pool);

checks the arguments, divides the workspace into buffers and calls `gemm_body`. All pointers of `gemm_body`
are parameters, because compilers honour `restrict` only there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from isamap.emit.c_names import CNames, compute_type, storage_type
from isamap.emit.c_parts import POOL_TYPE, CFunction
from isamap.emit.c_text import index_text, infix
from isamap.ir import DType, Index
from isamap.ir.nodes import Domain
from isamap.lower.lifetimes import ALIGNMENT_BYTES as ALIGNMENT
from isamap.lower.lifetimes import place_of, placed_bytes, shared_names
from isamap.lower.program import Buffer, LoweredProgram, PackedHeader, Tensor
from isamap.lower.walk import has_parallel
from isamap.machine.target_fields import Length
from isamap.source import dataclass, printable

STATUSES: tuple[tuple[str, str], ...] = (
    ("OK", "done"),
    ("NULL_POINTER", "args, a tensor, or a workspace that is needed is missing"),
    ("POOL_NOT_NULL", "this program runs on one thread: pool must be NULL"),
    ("SIZE_OUT_OF_RANGE", "a run-time size is outside of the range that the program was made for"),
    (
        "BAD_STRIDE",
        "a stride is not a multiple of the element size, not the one it was made for, or lets results overlap",
    ),
    ("REQUIREMENT_NOT_MET", "sizes, strides or alignments do not meet the kernel's requirements"),
    ("WRONG_LAYOUT", "a packed tensor was not packed by this program's own packing, or for other sizes"),
    ("WRONG_LENGTH", "this processor's vectors are not as long as the program was made for"),
    ("BAD_INDEX", "an input of indices holds a value that is out of its range, or below the one before it"),
    ("DEVICE_FAILED", "there is no device for the program, or the device did not perform it"),
    ("RACE", "two lanes used one element, one of them wrote it, and no barrier stood between"),
    ("DIVERGED", "some lanes of a block reached a barrier that others did not reach"),
    (
        "MODEL_FULL",
        "a block has more arrays, or a lane more sums of products in flight, than the model can check",
    ),
)
"""The status codes in numeric order, with their meanings."""
OF_LANES = ("DEVICE_FAILED", "RACE", "DIVERGED", "MODEL_FULL")
"""The status codes of programs that blocks of lanes perform."""
BAD_INDEX = [name for name, _ in STATUSES].index("BAD_INDEX")


@dataclass(frozen=True, slots=True)
class Field:
    """A member of the argument struct: a pointer, the byte stride of an axis, a size or a scalar."""

    kind: Literal["pointer", "stride", "size", "scalar"]
    source: str
    c_type: str
    member: str
    axis: int = 0


@dataclass(frozen=True, slots=True)
class Interface:
    """The calling interface of a compiled program.

    `sizes` are the numbers for which the program was compiled, `symbols` (name, low, high) those that the
    caller passes. `takes_pool` says that it has parts for several threads. `lengths` are the hardware
    lengths that it reads before it touches any data. `has_lanes` says that blocks of lanes perform it.
    """

    name: str
    tensors: tuple[Tensor, ...]
    scalars: tuple[tuple[str, DType], ...]
    sizes: tuple[tuple[str, int], ...]
    symbols: tuple[tuple[str, int, int], ...]
    fields: tuple[Field, ...]
    takes_pool: bool = False
    lengths: tuple[Length, ...] = ()
    has_lanes: bool = False


def build_interface(program: LoweredProgram, name: str, lengths: tuple[Length, ...] = ()) -> Interface:
    """Return the interface of a program whose C function is called `name`, made for vectors of these lengths."""
    members = CNames()
    fields: list[Field] = []
    for t in program.tensors:
        const = "const " if t.role == "in" else ""
        fields.append(Field("pointer", t.name, f"{const}{storage_type(t.dtype)} *", members.take(t.name)))
        fields += [
            Field("stride", t.name, "int64_t ", members.take(f"{t.name}_stride{axis}"), axis)
            for axis in range(len(t.shape) - 1)
        ]
    fields += [Field("size", s, "int64_t ", members.take(s)) for s, _, _ in program.symbols]
    scalars = tuple((p.name, p.dtype) for p in program.kernel.params if p.dtype is not None)
    fields += [Field("scalar", s, f"{compute_type(d)} ", members.take(s)) for s, d in scalars]
    made = name, program.tensors, scalars, program.sizes, program.symbols, tuple(fields)
    return Interface(*made, has_parallel(program.body), lengths)


OWN_MEMORY = "Uses no other memory than what it is given."


def header_text(interface: Interface, title: str, memory: str = OWN_MEMORY) -> str:
    """Return the header file that a caller includes. `memory` describes the memory that its function uses."""
    name = interface.name
    guard = f"ISAMAP_{name.upper()}_H"
    shapes = {t.name: _shape_text(t) for t in interface.tensors}
    lines = [f"/* {title} */", f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>"]
    lines += ["#include <stdint.h>", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    lines += ["enum {"]
    unheard = {
        "POOL_NOT_NULL": interface.takes_pool,
        "WRONG_LAYOUT": not any(t.header is not None and t.role == "in" for t in interface.tensors),
        "WRONG_LENGTH": not interface.lengths,
        "BAD_INDEX": not any(t.domain for t in interface.tensors),
        **dict.fromkeys(OF_LANES, not interface.has_lanes),
    }
    lines += [
        f"  {name}_{status} = {number}, /* {meaning} */"
        for number, (status, meaning) in enumerate(STATUSES)
        if not unheard.get(status)
    ]
    lines += [
        "};",
        "",
        "/* Strides are in bytes; the last axis of a tensor is dense. Outputs alias no input. */",
    ]
    lines += ["typedef struct {"]
    for f in interface.fields:
        comment = f" /* {shapes[f.source]} */" if f.kind == "pointer" else ""
        lines.append(f"  {f.c_type}{f.member};{comment}")
    lines += [] if interface.fields else ["  char unused;"]
    lines += [f"}} {name}_args;", ""]
    if interface.takes_pool:
        lines += [*POOL_TYPE, f"typedef isamap_pool {name}_pool;", ""]
    else:
        lines += ["/* Reserved for running on several threads: pass NULL. */"]
        lines += [f"typedef struct {name}_pool {name}_pool;", ""]
    if packed := packed_tensor(interface.tensors):
        lines += [
            f"/* How many bytes {packed.name} takes: best at a multiple of {ALIGNMENT}, any place will do. */"
        ]
        lines += [f"size_t {name}_bytes(const {name}_args *args);", ""]
    lines += ["/* How many bytes of workspace a call with these arguments needs; any alignment will do. */"]
    lines += [f"size_t {name}_workspace_bytes(const {name}_args *args);", ""]
    lines += [f"/* Returns one of the numbers above. {memory} */"]
    if interface.takes_pool:
        lines += [
            "/* With a pool its parts run on the pool's threads, without (NULL) on this one: same result. */"
        ]
    lines += [f"int {name}(const {name}_args *args, void *workspace, {name}_pool *pool);"]
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "#endif", ""]
    return "\n".join(lines)


def _shape_text(t: Tensor) -> str:
    role = {"in": "read", "out": "written", "inout": "read and written"}[t.role]
    if t.header is not None:
        return f"{t.header.source}, packed: {t.shape[0]} times {t.dtype}, {role}"
    return f"{t.dtype}[{', '.join(str(s) for s in t.shape)}], {role}"


# --- the function that checks -----------------------------------------------------------------------------


def body_symbols(program: LoweredProgram) -> tuple[str, ...]:
    """Return the symbols that the body receives as numbers: run-time sizes, and strides."""
    strides = [s for t in program.tensors for stride in t.strides[:-1] for s in sorted(stride.symbols)]
    sizes = [*program.asked, *(name for name, _, _ in program.symbols)]
    return tuple(dict.fromkeys((*sizes, *(s for s in strides if "." in s))))


def entry_text(
    program: LoweredProgram, interface: Interface, names: CNames, used: set[str], body: CFunction
) -> list[str]:
    """Return the public functions, one of which calls the body."""
    writer = _Entry(program, interface, names.inside(), used, body)
    # The functions that check tensors against domains, one for each type and order.
    expected = dict.fromkeys((t.dtype, t.domain.ascending) for t in program.tensors if t.domain is not None)
    checks = [
        line for dtype, ascending in expected for line in _text(interface.name, dtype, ascending=ascending)
    ]
    return [*checks, *writer.packed_bytes(), *writer.workspace_bytes(), "", *writer.function()]


class _Entry:
    """A writer of the functions that callers see."""

    def __init__(
        self, program: LoweredProgram, interface: Interface, names: CNames, used: set[str], body: CFunction
    ) -> None:
        self.program, self.interface, self.names, self.used = program, interface, names, used
        self.body = body
        self.member = {(f.kind, f.source, f.axis): f"args->{f.member}" for f in interface.fields}
        for symbol in body_symbols(program):
            names.take(symbol)
        for buffer in program.buffers:
            names.take(buffer.name)

    def symbol(self, name: str) -> str:
        """Return the C of a symbol: a local variable, or the value that a requirement fixes for a pointer."""
        if name.startswith("align("):
            pointer = self.member["pointer", name[6:-1], 0]
            return f"(int64_t)((uintptr_t){pointer} & -(uintptr_t){pointer})"
        if name.startswith("stride("):
            tensor, axis = name[7:-1].split(",")
            t = next(t for t in self.program.tensors if t.name == tensor)
            return f"({self.index(t.strides[int(axis)])})"
        return self.names.of(name)

    def index(self, index: Index) -> str:
        return index_text(index, self.symbol, self.used).text

    def packed_bytes(self) -> list[str]:
        """Return the function that gives the size of a packed tensor, or [] if the program packs none."""
        name, packed = self.interface.name, packed_tensor(self.program.tensors)
        if packed is None:
            return []
        size = packed.shape[0] * packed.dtype.size_bytes
        lines = [f"size_t {name}_bytes(const {name}_args *args) {{", *self.given_sizes(size.symbols)]
        return [*lines, f"  return (size_t)({self.index(size)});", "}", ""]

    def given_sizes(self, symbols: frozenset[str]) -> list[str]:
        """Return statements that read the run-time sizes on which a number of bytes depends."""
        asked = self.asked() if symbols & set(self.program.asked) else []
        sizes = sorted(symbols - set(self.program.asked))
        if not sizes:
            return [*asked, "  (void)args;"]
        given = [f"  int64_t {self.names.of(s)} = {self.member['size', s, 0]};" for s in sizes]
        return ["  if (args == NULL) return 0;", *asked, *given]

    def workspace_bytes(self) -> list[str]:
        name, buffers = self.interface.name, self.program.buffers
        lines = [f"size_t {name}_workspace_bytes(const {name}_args *args) {{"]
        lines += self.given_sizes(frozenset(s for b in buffers for s in b.elements.symbols))
        parts = [str(fixed)] if (fixed := placed_bytes(self.program)) else []
        parts += [_align_size(b, self.index(_bytes(b))) for b in buffers if b.offset is None]
        total = " + ".join(parts)
        lines += [f"  return {total} + {ALIGNMENT - 1};" if buffers else "  return 0;", "}"]
        return lines

    def function(self) -> list[str]:
        name = self.interface.name
        lines = [f"int {name}(const {name}_args *args, void *workspace, {name}_pool *pool) {{"]
        lines += self.asked()
        lines += [
            line
            for test in tests_of(self.program, *self.asking)
            for line in self.refuse_if(test, "WRONG_LENGTH")
        ]
        lines += self.null_checks()
        lines += self.sizes()
        lines += self.headers()
        lines += self.strides()
        lines += self.requirements()
        lines += self.domains()
        lines += self.buffers()
        lines += [f"  {line}" for line in self.body.call(self.arguments())]
        lines += self.headers(written=True)
        return [*lines, f"  return {name}_OK;", "}"]

    @property
    def asking(self) -> tuple[tuple[Length, ...], Callable[[str], str]]:
        """The queries of vector lengths, and a function that gives the C of their constants."""
        return self.interface.lengths, self.names.of

    def asked(self) -> list[str]:
        """Return the declarations of variables for numbers that only the hardware knows."""
        return asked_lines(self.program, *self.asking)

    def headers(self, *, written: bool = False) -> list[str]:
        """Return code for headers of packed tensors: checks of those read, or stores of those written."""
        lines: list[str] = []
        for t in self.program.tensors:
            if t.header is None or (t.role == "in") == written:
                continue
            self.used.add("string.h")
            pointer = self.member["pointer", t.name, 0]
            lines += (
                write_lines(pointer, t.header, self.names.of)
                if written
                else check_lines(pointer, t.header, self._refuse_layout, self.names.of)
            )
        return lines

    def _refuse_layout(self, test: str) -> list[str]:
        return self.refuse_if(test, "WRONG_LAYOUT")

    def null_checks(self) -> list[str]:
        pointers = [m for (kind, _, _), m in self.member.items() if kind == "pointer"]
        tests = ["args == NULL", *(f"{p} == NULL" for p in pointers)]
        tests += ["workspace == NULL"] if self.program.buffers else []
        lines = self.refuse_if(" || ".join(tests), "NULL_POINTER")
        if not self.interface.takes_pool:
            lines += self.refuse_if("pool != NULL", "POOL_NOT_NULL")
        return lines if self.program.buffers else ["  (void)workspace;", *lines]

    def sizes(self) -> list[str]:
        lines: list[str] = []
        for size, low, high in self.program.symbols:
            local = self.names.of(size)
            lines.append(f"  int64_t {local} = {self.member['size', size, 0]};")
            lines += self.refuse_if(f"{local} < {low} || {local} > {high}", "SIZE_OUT_OF_RANGE")
        return lines

    def strides(self) -> list[str]:
        """Return the statements that convert byte strides to elements, or check a required stride."""
        lines: list[str] = []
        for t in self.program.tensors:
            size = t.dtype.size_bytes
            for axis, stride in enumerate(t.strides[:-1]):
                given = self.member["stride", t.name, axis]
                symbol = next(iter(stride.symbols), "") if len(stride.terms) == 1 else ""
                if "." not in symbol:
                    expected = self.index(stride * size)
                    lines += self.refuse_if(f"{given} != {expected}", "BAD_STRIDE")
                    continue
                lines += self.refuse_if(f"{given} % {size} != 0", "BAD_STRIDE") if size > 1 else []
                value = f"{given} / {size}" if size > 1 else given
                local = self.names.of(symbol)
                lines.append(f"  int64_t {local} = {value};")
                lines += self._rows_apart(t, axis, local) if t.role != "in" else []
        return lines

    def _rows_apart(self, t: Tensor, axis: int, stride: str) -> list[str]:
        """Return the check that rows of a result do not overlap: the dense axis ends before the next row begins."""
        extent, row = t.shape[axis], t.shape[-1]
        if extent.value == 1:
            return []
        length = self.index(row)
        least = f"-{length}" if row.value is not None else f"-({length})"
        overlap = f"{stride} < {length} && {stride} > {least}"
        several = "" if extent.value is not None else f"{self.index(extent)} > 1 && "
        return self.refuse_if(f"{several}{overlap}", "BAD_STRIDE")

    def requirements(self) -> list[str]:
        lines: list[str] = []
        for left, comparison, right in self.program.checks:
            a, b = (index_text(i, self.symbol, self.used) for i in (left, right))
            opposite = {"<": ">=", "<=": ">", "==": "!="}[comparison]
            lines += self.refuse_if(infix(a, opposite, b).text, "REQUIREMENT_NOT_MET")
        return lines

    def domains(self) -> list[str]:
        """Return the checks that refuse indices outside their domains."""
        name, at = self.interface.name, self.member
        bounded = [(t, t.domain) for t in self.program.tensors if t.domain is not None]
        tests = [domain_test(name, t, domain, at["pointer", t.name, 0], self.index) for t, domain in bounded]
        return [line for test in tests for line in self.refuse_if(test, "BAD_INDEX")]

    def buffers(self) -> list[str]:
        if not self.program.buffers:
            return []
        mask = ALIGNMENT - 1
        lines = [f"  char *space = (char *)(((uintptr_t)workspace + {mask}) & ~(uintptr_t){mask});"]
        lines += [
            self._pointer(b, f"space + {place}" if place else "space")
            for b in self.program.buffers
            if (place := place_of(self.program, b)) is not None
        ]
        free = [b for b in self.program.buffers if b.offset is None]
        if free and (fixed := placed_bytes(self.program)):
            lines.append(f"  space += {fixed};")
        for n, b in enumerate(free):
            lines.append(self._pointer(b, "space"))
            if n + 1 < len(free):
                lines.append(f"  space += {_align_size(b, self.index(_bytes(b)))};")
        return lines

    def _pointer(self, b: Buffer, place: str) -> str:
        comment = f" /* {clean_comment(b.why)} */" if b.why else ""
        c_type = storage_type(b.dtype)
        inside = place if place == "space" else f"({place})"
        return f"  {c_type} *{self.names.of(b.name)} = ({c_type} *)(void *){inside};{comment}"

    def arguments(self) -> list[str]:
        pointers = [self._elements(t) for t in self.program.tensors]
        scalars = [self.member["scalar", s, 0] for s, _ in self.interface.scalars]
        buffers = [self.names.of(b.name) for b in self.program.buffers]
        symbols = [self.names.of(s) for s in body_symbols(self.program)]
        pool = ["pool"] if self.interface.takes_pool else []
        return [*pointers, *buffers, *symbols, *scalars, *pool]

    def _elements(self, t: Tensor) -> str:
        """Return the C expression of the address of a tensor's first element."""
        pointer = self.member["pointer", t.name, 0]
        return pointer if t.header is None else f"{pointer} + {t.header.size_bytes // t.dtype.size_bytes}"

    def refuse_if(self, test: str, status: str) -> list[str]:
        return [f"  if ({test}) return {self.interface.name}_{status};"]


def body_parameters(program: LoweredProgram, interface: Interface, names: CNames) -> list[tuple[str, str]]:
    """Return the C parameters of the body, as declarations and names, and reserve the names."""
    found: list[tuple[str, str]] = []

    def add(c_type: str, source: str) -> None:
        name = names.take(source)
        found.append((f"{c_type}{name}", name))

    for t in program.tensors:
        add(f"{'const ' if t.role == 'in' else ''}{storage_type(t.dtype)} *restrict ", t.name)
    shared = shared_names(program)  # what shares bytes may not be said to be apart
    for b in program.buffers:
        add(f"{storage_type(b.dtype)} *{'' if b.name in shared else 'restrict '}", b.name)
    for symbol in body_symbols(program):
        add("int64_t ", symbol)
    for scalar, dtype in interface.scalars:
        add(f"{compute_type(dtype)} ", scalar)
    return found


def clean_comment(note: str) -> str:
    """Return a note as the inside of a comment: one line of printable characters."""
    text = printable(" ".join(note.split()))
    return text.replace("*/", "* /").replace("/*", "/ *").replace("??/", "?? /")


def _bytes(b: Buffer) -> Index:
    return b.elements * b.dtype.size_bytes


def _align_size(b: Buffer, size: str) -> str:
    number = _bytes(b).value
    mask = ALIGNMENT - 1
    if number is not None:
        return str((number + mask) & ~mask)
    return f"(((size_t)({size}) + {mask}) & ~(size_t){mask})"


# Inputs that indices are made of, looked through before anything is computed.
#
#     if (!gemm_within_u16(args->col, 4096, 0, 2559)) return gemm_BAD_INDEX;
#
# One comparison in the type of the elements tells whether one is in its range: compilers make vectors of it,
# where they are allowed to, so that the check takes no longer than reading the array once.


_CHUNK = 4096  # elements between two looks at what was found: small enough to stop early


def domain_test(name: str, t: Tensor, domain: Domain, pointer: str, text: Callable[[Index], str]) -> str:
    """Return C that is true if a tensor has a value outside its domain."""
    bounds = ", ".join(text(i) for i in (t.shape[0], domain.low, domain.high))
    return f"!{_function(name, t.dtype, ascending=domain.ascending)}({pointer}, {bounds})"


def _function(name: str, dtype: DType, *, ascending: bool) -> str:
    return f"{name}_{'ascending' if ascending else 'within'}_{dtype.name}"


def _text(name: str, dtype: DType, *, ascending: bool) -> list[str]:
    element, unsigned = storage_type(dtype), f"uint{8 * dtype.size_bytes}_t"
    falls = " | (i + j > 0 && x[i + j] < x[i + j - 1])" if ascending else ""
    return [
        "#if defined(__GNUC__) && !defined(__clang__)",
        '__attribute__((optimize("tree-loop-vectorize")))',
        "#endif",
        f"static int {_function(name, dtype, ascending=ascending)}(",
        f"    const {element} *x, int64_t count, int64_t low, int64_t high) {{",
        f"  low = low < {_number(dtype.low)} ? {_number(dtype.low)} : low;",
        f"  high = high > {_number(dtype.high)} ? {_number(dtype.high)} : high;",
        "  if (count > 0 && low > high) return 0;",
        f"  const {unsigned} first = ({unsigned})low, width = ({unsigned})(high - low);",
        f"  for (int64_t i = 0; i < count; i += {_CHUNK}) {{",
        f"    const int64_t some = count - i < {_CHUNK} ? count - i : {_CHUNK};",
        f"    {unsigned} bad = 0;",
        "    for (int64_t j = 0; j < some; j++) {",
        f"      bad |= (({unsigned})(({unsigned})x[i + j] - first) > width){falls};",
        "    }",
        "    if (bad) return 0;",
        "  }",
        "  return 1;",
        "}",
        "",
    ]


def _number(value: int) -> str:
    """Return a limit of a type as int64_t text. For u64 it is the largest index."""
    value = min(value, 2**63 - 1)
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"


# The header of packed tensors in C: written behind their elements, checked before they are read.
#
#     if (memcmp(args->B_packed, "1f0c…", 32) != 0) return gemm_WRONG_LAYOUT;
#
# A buffer that something else has packed, or nothing has, is refused; one that is shorter than what was
# packed cannot be recognised, as for any tensor.


def check_lines(
    pointer: str, header: PackedHeader, refuse: Callable[[str], list[str]], size: Callable[[str], str]
) -> list[str]:
    """Return statements that refuse a tensor with another packing. `size` gives the C of a run-time size."""
    lines = refuse(f'memcmp({pointer}, "{header.layout}", {PackedHeader.DIGITS}) != 0')
    for number, name in enumerate(header.sizes):
        place = f"(const char *){pointer} + {PackedHeader.DIGITS + 8 * number}"
        lines += refuse(f"memcmp({place}, &{size(name)}, 8) != 0")
    return lines


def write_lines(pointer: str, header: PackedHeader, size: Callable[[str], str]) -> list[str]:
    """Return statements that write a header. They come last, so that an unfinished packed tensor has none."""
    lines = [f"  memset({pointer}, 0, {header.size_bytes});"]
    lines.append(f'  memcpy({pointer}, "{header.layout}", {PackedHeader.DIGITS});')
    for number, name in enumerate(header.sizes):
        place = f"(char *){pointer} + {PackedHeader.DIGITS + 8 * number}"
        lines.append(f"  memcpy({place}, &{size(name)}, 8);")
    return lines


def packed_tensor(tensors: tuple[Tensor, ...]) -> Tensor | None:
    """Return the tensor that a packing program writes, or None for other programs."""
    return next((t for t in tensors if t.header is not None and t.role != "in"), None)


# How emitted functions ask the hardware for what only it knows, such as how long its vectors are.
#
# int64_t Q = (int64_t)(__riscv_vlenb() / 8);
# if (Q != 2 && Q != 4 && Q != 8) return gemm_WRONG_LENGTH;


Namer = Callable[[str], str]


def asked_lines(program: LoweredProgram, lengths: tuple[Length, ...], name: Namer) -> list[str]:
    """Return variables for the vector length of a program for several lengths, and for each of its tables."""
    served = program.lengths
    if served is None:
        return []
    own = name(served.name)
    lines = [f"  int64_t {own} = (int64_t)({_call_of_length(served.constant, lengths)});"]
    for number, row in served.tables:
        *others, (_, last) = zip(served.values, row, strict=True)
        picked = "".join(f"{own} == {value} ? {entry} : " for value, entry in others)
        lines.append(f"  int64_t {name(number)} = {picked}{last};")
    return lines


def tests_of(program: LoweredProgram, lengths: tuple[Length, ...], name: Namer) -> Iterator[str]:
    """Yield conditions that are true if the processor's vector length is not supported."""
    served = program.lengths
    for length in lengths:
        if served is not None and length.constant == served.constant:
            yield " && ".join(f"{name(served.name)} != {value}" for value in served.values)
        else:
            yield f"{_call_of_length(length.constant, lengths)} != {length.value}"


def _call_of_length(constant: str, lengths: tuple[Length, ...]) -> str:
    length = next(one for one in lengths if one.constant == constant)
    return f"{length.function}()" + (f" / {length.divisor}" if length.divisor != 1 else "")
