"""Library calls as data: the computed kernel, the C prototype, and the library's locations.

    prototype: void cblas_saxpy(int n, float alpha, const float *x, int incx, float *y, int incy)
    forms:
      - kernel: kernel axpy(N, scalar alpha: f32) { … y[n] += alpha * x[n]; … }
        arguments: [N, alpha, x, 1, y, 1]

is an instruction as large as a kernel. Files that name an `interface` hold calls alone, which libraries that
speak it have in common.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from isamap.ir import Kernel
from isamap.library_calls import FOLDER, SUFFIX, shipped_descriptions
from isamap.machine.families import ROWS, Row, check_variables, describe_row, read_rows
from isamap.machine.fields import read_items, read_mapping, read_names, read_text
from isamap.machine.keys import COUNT, TEXT, Keys, ListOf, NamedBy
from isamap.machine.tree import MAX_FILE_BYTES, Findings, Node, decode, read_tree
from isamap.source import Source, UsageProblem, dataclass, open_in_folder, read_limited
from isamap.syntax import parse_kernel, substitute_text

# --- prototypes in C ------------------------------------------------------------------------------------

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE = re.compile(r"\s*void\s+([A-Za-z_][A-Za-z0-9_]*)\s*\((.*)\)\s*", re.DOTALL)
_PARAMETER = re.compile(r"(const )?([A-Za-z_][A-Za-z0-9_]*)( ?\*)? ?([A-Za-z_][A-Za-z0-9_]*)?")
WIDTHS = {
    "int": 32, "int8_t": 8, "uint8_t": 8, "int16_t": 16, "uint16_t": 16, "int32_t": 32, "uint32_t": 32,
    "int64_t": 64, "uint64_t": 64, "size_t": 64,
}  # fmt: skip
"""Bits of the types of numbers without a fraction; those with a sign hold one less."""
_OTHERS = ("float", "double", "void")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter's type: `base`, or a pointer to it. Nothing is written through a const pointer."""

    base: str
    is_pointer: bool
    is_const: bool

    @property
    def c_type(self) -> str:
        return f"{'const ' if self.is_const else ''}{self.base}{' *' if self.is_pointer else ''}"

    @property
    def most(self) -> int | None:
        """The largest number that fits, or None if the parameter is no integer."""
        if self.is_pointer or self.base not in WIDTHS:
            return None
        signed = not self.base.startswith(("u", "size"))
        return 2 ** (WIDTHS[self.base] - signed) - 1


@dataclass(frozen=True, slots=True)
class Prototype:
    """A C function without a result. `text` declares it."""

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def text(self) -> str:
        return f"void {self.name}({', '.join(p.c_type for p in self.parameters)});"


def read_prototype(text: str, types: Mapping[str, str]) -> Prototype | str:
    """Return the prototype, or an error text. `types` resolves the library's own type names."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        return "a prototype is `void NAME(TYPE name, …)`"
    found: list[Parameter] = []
    for part in whole[2].split(","):
        written = " ".join(part.split())
        match = _PARAMETER.fullmatch(written)
        base = types.get(match[2], match[2]) if match else ""
        if match is None or base not in (*WIDTHS, *_OTHERS) or (base == "void" and not match[3]):
            return f"`{written}` is not a parameter of a known type"
        found.append(Parameter(base, bool(match[3]), bool(match[1])))
    return Prototype(whole[1], tuple(found))


_VARIABLES = """
OMP_DYNAMIC OMP_MAX_ACTIVE_LEVELS OMP_PLACES OMP_PROC_BIND OMP_SCHEDULE OMP_THREAD_LIMIT OMP_WAIT_POLICY
GOMP_CPU_AFFINITY GOMP_SPINCOUNT KMP_AFFINITY KMP_BLOCKTIME MKL_CBWR MKL_DYNAMIC MKL_ENABLE_INSTRUCTIONS
MKL_INTERFACE_LAYER MKL_THREADING_LAYER OPENBLAS_CORETYPE BLIS_ARCH_TYPE BLIS_IC_NT BLIS_IR_NT BLIS_JC_NT
BLIS_JR_NT BLIS_PC_NT DNNL_MAX_CPU_ISA ONEDNN_MAX_CPU_ISA DNNL_DEFAULT_FPMATH_MODE
ONEDNN_DEFAULT_FPMATH_MODE VECLIB_MAXIMUM_THREADS
"""
VARIABLES = frozenset(_VARIABLES.split())
"""The variables that a description may set. They control computing, not loading or writing."""
_COUNT = re.compile(r"[A-Z][A-Z0-9_]{0,40}_THREADS")
_CALLED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NUMBER = re.compile(r"&?-?[0-9]{1,15}(\.[0-9]{1,15})?")
_STRIDE = re.compile(r"stride\( ?([A-Za-z_][A-Za-z0-9_]*), ?([0-9]{1,3}) ?\)")


@dataclass(frozen=True, slots=True)
class LibraryArgument:
    """An argument of a library call.

    It is a number or its address, a size or a stride, a pointer to a tensor, or the value of a scalar.
    """

    kind: Literal["number", "address", "index", "pointer", "value"]
    text: str


@dataclass(frozen=True, slots=True)
class CallForm:
    """A kernel that a call performs, with an argument for each parameter."""

    kernel: Kernel
    arguments: tuple[LibraryArgument, ...]


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A function of a library. It is only used on processors with all `features`."""

    prototype: Prototype
    forms: tuple[CallForm, ...]
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LibraryLocation:
    """A possible location of a library: a `file` pattern in a Python package or in the operating system."""

    file: str
    package: str = ""


@dataclass(frozen=True, slots=True)
class Library:
    """A library with its calls.

    `threads` are the environment variables that set its number of threads, `environment` further ones. `link`
    is the linker argument, in which `$FILE` is the file's name. `folder` is the description's folder, to
    which paths are relative.
    """

    name: str
    summary: str
    places: tuple[LibraryLocation, ...]
    calls: tuple[LibraryCall, ...]
    link: str
    threads: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    folder: Path = FOLDER
    texts: tuple[str, ...] = ()
    """The texts that all of this is read from."""

    def variables(self, threads: int) -> dict[str, str]:
        """Return the environment variables with which it uses this number of threads."""
        return {**dict(self.environment), **dict.fromkeys(self.threads, str(threads))}


def shipped_libraries() -> tuple[Library, ...]:
    """Return all libraries that isamap describes."""
    return _load_shipped()


@lru_cache(maxsize=1)
def _load_shipped() -> tuple[Library, ...]:
    found = ((path, _source(path, path.name)) for path in shipped_descriptions())
    return tuple(
        _read_library(source, path.parent) for path, source in found if read_tree(source).get("library")
    )


def shipped_library(name: str) -> Library:
    """Return the shipped library of this name."""
    path = FOLDER / f"{name}{SUFFIX}"
    return _read_library(_source(path, path.name), FOLDER)


def read_library(path: Path, name: str) -> Library:
    """Return the library that a file describes. Raises: UsageProblem, SpecProblem."""
    return _read_library(_source(path, name), path.parent)


def _source(path: Path, name: str) -> Source:
    try:
        return decode(name, read_limited(path, MAX_FILE_BYTES))
    except (OSError, ValueError) as error:  # a ValueError where the name holds a zero character
        said = getattr(error, "strerror", None) or str(error)
        raise UsageProblem.of("file-unreadable", f"{name} cannot be read: {said}") from None


@lru_cache(maxsize=32)
def _read_library(source: Source, folder: Path) -> Library:
    """Return the library of a description's text. Raises: SpecProblem with all errors."""
    findings = Findings()
    keys = read_mapping(read_tree(source), "a library", LIBRARY, findings)
    texts = {key: _text(keys, key, findings) for key in ("library", "summary", "link", "symbols")}
    types = _pairs(keys, "types", findings)
    symbols = texts["symbols"] or "$NAME"
    sources = [source]
    calls: list[LibraryCall] = []
    for node in read_items(keys.get("interfaces"), "`interfaces`", findings):
        spoken = _interface(node, folder, findings)
        if spoken is not None:
            sources.append(spoken)
            own = read_mapping(read_tree(spoken), "an interface", INTERFACE, findings)
            calls += _calls(own, types, symbols, findings)
    calls += _calls(keys, types, symbols, findings)
    places = tuple(
        LibraryLocation(_text(one, "file", findings), _text(one, "package", findings))
        for node in read_items(keys.get("files"), "`files`", findings)
        for one in (read_mapping(node, "a file", FILE, findings),)
    )
    threads, environment = _texts(keys, "threads", findings), _pairs(keys, "environment", findings)
    for name in (*threads, *environment):
        if name not in VARIABLES and not _COUNT.fullmatch(name):
            said = f"`{name}` is not a variable that a description may set"
            known = f"variables: NAME_THREADS, {', '.join(sorted(VARIABLES))}"
            findings.report("library-variable", said, read_tree(source).span, known)
    if not all(value.isascii() and value.isprintable() for value in environment.values()):
        findings.report(
            "library-variable", "a value of `environment` is not plain text", read_tree(source).span
        )
    if texts["library"] and not _CALLED.fullmatch(texts["library"]):
        said = f"`{texts['library'][:40]}` is not a name: letters, digits, `_`, `-` and `.`"
        findings.report("not-a-name", said, read_tree(source).span)
    found = Library(
        texts["library"],
        texts["summary"],
        places,
        tuple(calls),
        texts["link"],
        threads,
        tuple(environment.items()),
        folder,
        tuple(s.text for s in sources),
    )
    findings.raise_any()
    return found


def _interface(node: Node, folder: Path, findings: Findings) -> Source | None:
    """Return the text of an interface, which is a shipped one or a file next to the description."""
    name = read_text(node, "an interface", findings)
    if name is None:
        return None
    if folder != FOLDER and os.path.lexists(folder / f"{name.text}{SUFFIX}"):
        try:
            with open_in_folder(folder.resolve(), f"{name.text}{SUFFIX}") as file:
                return decode(f"{name.text}{SUFFIX}", file.read(MAX_FILE_BYTES + 1))
        except OSError as error:
            said = f"`{name.text[:40]}{SUFFIX}` next to this file cannot be read: {error.strerror}"
            findings.report("unknown-interface", said, name.span)
            return None
    if (path := FOLDER / f"{name.text}{SUFFIX}") in shipped_descriptions():
        return _source(path, path.name)
    known = [
        path.stem for path in shipped_descriptions() if read_tree(_source(path, path.name)).get("interface")
    ]
    findings.unknown("unknown-interface", "interface", name.text, name.span, known)
    return None


def _calls(
    keys: Mapping[str, Node], types: Mapping[str, str], symbols: str, findings: Findings
) -> list[LibraryCall]:
    found: list[LibraryCall] = []
    for node in read_items(keys.get("calls"), "`calls`", findings):
        call = read_mapping(node, "a call", CALL, findings)
        layouts = read_rows(call.get("layouts"), findings)
        for row in read_rows(call.get("for"), findings):
            made = _call(call, row, layouts, types, symbols, findings)
            found += [made] if made is not None else []
    return found


def _call(
    call: Mapping[str, Node],
    row: Row,
    layouts: tuple[Row, ...],
    types: Mapping[str, str],
    symbols: str,
    findings: Findings,
) -> LibraryCall | None:
    """Return one member of a family of calls, or None with a finding."""
    text = read_text(call.get("prototype"), "`prototype`", findings)
    if text is None or not check_variables((row,), (text,), findings):
        return None
    prototype = read_prototype(substitute_text(text.text, row), types)
    if isinstance(prototype, str):
        known = (*types, "int32_t", "int64_t", "float", "double")
        findings.report("library-call", prototype, text.span, f"types: {', '.join(known)}, and others of C")
        return None
    named = Prototype(substitute_text(symbols, {"NAME": prototype.name}), prototype.parameters)
    if not IDENTIFIER.fullmatch(named.name):
        findings.report(
            "library-call", f"`symbols` makes `{named.name}` of it, which is not a name", text.span
        )
        return None
    forms = [
        form
        for layout in layouts
        for node in read_items(call.get("forms"), "`forms`", findings)
        if (form := _form(node, row | layout, prototype, findings)) is not None
    ]
    return LibraryCall(named, tuple(forms), _texts(call, "features", findings))


def _form(node: Node, row: Row, prototype: Prototype, findings: Findings) -> CallForm | None:
    keys = read_mapping(node, "a form", FORM, findings)
    text = read_text(keys.get("kernel"), "`kernel`", findings)
    words = [
        read_text(i, "an argument", findings)
        for i in read_items(keys.get("arguments"), "`arguments`", findings)
    ]
    given = [word for word in words if word is not None]
    if text is None or not check_variables((row,), (text, *given), findings):
        return None
    if len(given) != len(prototype.parameters):
        said = f"{prototype.name} takes {len(prototype.parameters)} arguments, and {len(given)} are given"
        findings.report("library-call", said, text.span, *describe_row(row))
        return None
    with findings.collect(*describe_row(row)):
        kernel = parse_kernel(Source(text.span.source.name, substitute_text(text.text, row)))
        if any(c.comparison == "!=" for c in kernel.where):
            said = "requirements on a library's arguments are written with `<`, `<=`, `==`, `>=` or `>`"
            findings.report("library-call", said, text.span)
            return None
        arguments: list[LibraryArgument] = []
        for word, parameter in zip(given, prototype.parameters, strict=True):
            argument = _argument(substitute_text(word.text, row), kernel)
            if argument is None or not _fits(argument, parameter, kernel):
                said = f"`{word.text}` cannot be passed as `{parameter.c_type}`"
                known = "a number, a size, `stride(A, 0)`, or a scalar, and for a pointer a tensor or `&0`"
                findings.report("library-call", said, word.span, f"possible arguments are {known}")
                return None
            arguments.append(argument)
        return CallForm(kernel, tuple(arguments))
    return None


def _fits(argument: LibraryArgument, parameter: Parameter, kernel: Kernel) -> bool:
    """Return whether a parameter accepts the argument. Only pointers accept tensors, only const ones inputs."""
    if argument.kind == "number" and "." in argument.text and parameter.most is not None:
        return False
    if argument.kind == "pointer" and kernel.operand(argument.text).role == "in" and not parameter.is_const:
        return False
    return parameter.is_pointer == (argument.kind in ("pointer", "address"))


def _argument(word: str, kernel: Kernel) -> LibraryArgument | None:
    """Return the argument that a word names in a kernel, or None."""
    if _NUMBER.fullmatch(word):
        return LibraryArgument("address", word[1:]) if word[0] == "&" else LibraryArgument("number", word)
    if (stride := _STRIDE.fullmatch(word)) is not None:
        axes = {o.name: len(o.shape) for o in kernel.operands}
        axis = int(stride[2])
        return (
            LibraryArgument("index", f"stride({stride[1]},{axis})") if axis < axes.get(stride[1], 0) else None
        )
    if any(o.name == word for o in kernel.operands):
        return LibraryArgument("pointer", word)
    kinds = {p.name: "index" if p.dtype is None else "value" for p in kernel.params}
    match kinds.get(word):
        case "index":
            return LibraryArgument("index", word)
        case "value":
            return LibraryArgument("value", word)
        case _:
            return None


def _text(keys: Mapping[str, Node], key: str, findings: Findings) -> str:
    text = read_text(keys.get(key), f"`{key}`", findings)
    return text.text if text is not None else ""


def _texts(keys: Mapping[str, Node], key: str, findings: Findings) -> tuple[str, ...]:
    nodes = read_items(keys.get(key), f"`{key}`", findings)
    return tuple(t.text for n in nodes if (t := read_text(n, f"an item of `{key}`", findings)) is not None)


def _pairs(keys: Mapping[str, Node], key: str, findings: Findings) -> dict[str, str]:
    entries = read_names(keys.get(key), f"`{key}`", findings)
    return {name.text: t.text for name, n in entries if (t := read_text(n, name.text, findings)) is not None}


# The keys of descriptions of libraries and of the interfaces that they speak.


FORM = Keys({"kernel": TEXT, "arguments": ListOf(TEXT, 1)}, ("kernel", "arguments"))
CALL = Keys(
    {"for": ROWS, "layouts": ROWS, "prototype": TEXT, "features": ListOf(TEXT), "forms": ListOf(FORM, 1)},
    ("prototype", "forms"),
)
FILE = Keys({"package": TEXT, "file": TEXT}, ("file",))
INTERFACE = Keys(
    {"isamap": COUNT, "interface": TEXT, "summary": TEXT, "source": TEXT, "calls": ListOf(CALL, 1)},
    ("isamap", "interface", "summary", "calls"),
)
LIBRARY = Keys(
    {
        "isamap": COUNT,
        "library": TEXT,
        "summary": TEXT,
        "source": TEXT,
        "interfaces": ListOf(TEXT),
        "types": NamedBy(TEXT),
        "symbols": TEXT,
        "files": ListOf(FILE, 1),
        "link": TEXT,
        "threads": ListOf(TEXT),
        "environment": NamedBy(TEXT),
        "calls": ListOf(CALL),
    },
    ("isamap", "library", "summary", "files", "link"),
)
