"""Wrong versions of the C that isamap emits, each of which `isamap verify` has to notice.

    python tests/mutations/emitted.py -o scores.jsonl                     all shipped kernels, two machines
    python tests/mutations/emitted.py -o scores.jsonl --kernel softmax_f32 --hw generic-c --most 10

    softmax_f32 on x86-avx2: 40 of 40 caught

A mutant differs in one place: a maximum becomes a minimum, a constant changes by one, a store is dropped.
It is compiled, run and compared as `isamap verify` does. One that verifies is a survivor, unless it is proved
equivalent: its library is the same, byte by byte; the changed place is never executed at these sizes; or the
changed expression, which depends on loops and sizes alone, has the same values. A change of loops, conditions
or addresses that changes no bit of a result on random inputs is counted apart. `equivalent.json` names
others.
The argument checks and the division of the workspace, which every call passes first, are not changed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np

from isamap.codegen.c import EmittedC
from isamap.codegen.cache import digest
from isamap.codegen.fills import make_arrays, make_scalars
from isamap.codegen.runner import run_program
from isamap.codegen.toolchain import Compiled, CompilerRefused, compile_library, compile_together
from isamap.driver import verifying
from isamap.driver.matrix import FEW, open_sizes, sizes_for
from isamap.driver.oracle import count_iterations
from isamap.driver.request import Request, Size
from isamap.driver.runnable import Prepared, prepare
from isamap.ir import bind
from isamap.kernels import kernel_path, list_kernels
from isamap.machine import Machine
from isamap.source import IsamapError, Source, UsageProblem
from isamap.syntax import parse_kernel

NAMED = Path(__file__).with_name("equivalent.json")
MACHINES = ("x86-avx2", "generic-c")
MOST = 40
"""Mutants of one kernel on one machine."""
BATCH = 40
"""Mutants that are compiled together."""
SEED = 7
MOST_ITERATIONS = 60_000
"""Of a kernel at the sizes at which it is mutated."""
EXTENTS, FEW_EXTENTS = (2, 3, 5, 9, 11, 13, 17, 19, 16, 8), (2, 3)

# --- the text --------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:[^"\\]|\\.)*")|
    |(?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
    |(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)|(?P<name>[A-Za-z_]\w*)
    |(?P<operator><<=|>>=|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word of C, and where it stands in the text."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Site:
    """One change of a text: what stands from `start` to `end` becomes `new`."""

    kind: str
    start: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        """Return the mutated text."""
        return text[: self.start] + self.new + text[self.end :]


def tokens_of(text: str) -> list[Token]:
    """Return the words of a text of C, without comments, strings and preprocessor directives."""
    found = [Token(m.lastgroup or "", m[0], m.start(), m.end()) for m in _TOKEN.finditer(text)]
    return [t for t in found if t.kind in ("number", "name", "operator")]


def _closing(tokens: Sequence[Token], at: int) -> int:
    """Return the position of the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].text in "([{") - (tokens[place].text in ")]}")
        if depth == 0:
            return place
    raise AssertionError("a bracket is not closed")


_CHECKS = re.compile(r"\w+_(workspace_bytes|ascending_\w+|within_\w+)$")
_HINTS = re.compile(r"LAST_USE|READ_ONCE|ONE_SUM|prefetch|__attribute__|_Static_assert|made_here")
"""What changes no value: hints to the compiler and to caches."""


def places_of(tokens: Sequence[Token]) -> list[int]:
    """Return the positions of the words that may be changed: those of bodies of functions that compute."""
    found: list[int] = []
    place = depth = 0
    while place < len(tokens):
        token = tokens[place]
        is_call = place + 1 < len(tokens) and tokens[place + 1].text == "("
        if depth == 0 and token.kind == "name" and is_call and _CHECKS.match(token.text):
            break  # from here on arguments are checked
        if token.kind == "name" and is_call and _HINTS.search(token.text):
            place = _closing(tokens, place + 1) + 1
            continue
        depth += (token.text == "{") - (token.text == "}")
        if depth and token.text != "}":
            found.append(place)
        place += 1
    return found


# --- changes ---------------------------------------------------------------------------------------------

_EXTREMES = {"max": "min", "min": "max", "fmaxf": "fminf", "fminf": "fmaxf", "fmax": "fmin", "fmin": "fmax"}
_SIGNS = {"add": "sub", "sub": "add", "adds": "subs", "subs": "adds"}
_FUSED = {"fmadd": "fnmadd", "fnmadd": "fmadd", "fmsub": "fmadd", "fma": "fms"}
_WRAPPING = {"adds": "add", "subs": "sub"}
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "!=", "!=": "=="}
_ORDERED = re.compile(r"_(sub|subs|div|andnot|unpacklo|unpackhi|packs|packus|maddubs|dpbusd|shuffle|sll|srl)")
_LITERAL = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$")
_FLOAT = re.compile(r"((?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)([fF]?)$")


_TYPE = re.compile(r"(_t|float|double|x\d+|__m\d+[a-z]?)$")


def _renamed(name: str, changes: Mapping[str, str]) -> str | None:
    """Return an intrinsic's or a function's name with one of its parts changed."""
    parts = name.split("_")
    for place, part in enumerate(parts):
        if part in changes:
            return "_".join([*parts[:place], changes[part], *parts[place + 1 :]])
    return None


def find_sites(text: str) -> list[Site]:
    """Return all changes of a text that are tried, in the order of the text."""
    tokens = tokens_of(text)
    places = places_of(tokens)
    return [site for place in places for site in _changes(text, tokens, place)]


def _changes(text: str, tokens: Sequence[Token], place: int) -> Iterator[Site]:
    token, before, after = tokens[place], tokens[place - 1], tokens[place + 1]
    match token.kind:
        case "name" if after.text == "(":
            yield from _of_call(text, tokens, place)
        case "number":
            yield from _of_number(tokens, place)
        case "operator" if before.kind in ("number", "name") or before.text in (")", "]"):
            yield from _of_operator(text, tokens, place)
        case _:
            pass
    if before.text in (";", "{", "}") and token.kind == "name":
        yield from _dropped(tokens, place)


def _of_call(text: str, tokens: Sequence[Token], place: int) -> Iterator[Site]:
    token = tokens[place]
    for kind, changes in (
        ("extreme", _EXTREMES),
        ("sign", _SIGNS),
        ("fused", _FUSED),
        ("saturation", _WRAPPING),
    ):
        if (new := _renamed(token.text, changes)) is not None and (
            new in text or new.startswith(("_mm", "fm"))
        ):
            yield Site(kind, token.start, token.end, new)
    end = _closing(tokens, place + 1)
    arguments = _arguments(tokens, place + 1, end)
    if token.text == "if":
        for new in ("(1)", "(0)"):
            yield Site("condition", tokens[place + 1].start, tokens[end].end, new)
    if len(arguments) >= 2 and _ORDERED.search("_" + token.text):
        yield _swapped(text, *arguments[:2])
    if re.search(r"mask(load|store)", token.text):
        (start, stop) = arguments[1]
        yield Site(
            "mask", start, stop, "_mm256_set1_epi32(-1)" if "256" in token.text else "_mm_set1_epi32(-1)"
        )


def _arguments(tokens: Sequence[Token], opening: int, closing: int) -> list[tuple[int, int]]:
    """Return where the arguments of a call begin and end in the text."""
    found: list[tuple[int, int]] = []
    depth, start = 0, opening + 1
    for place in range(opening + 1, closing + 1):
        depth += (tokens[place].text in "([{") - (tokens[place].text in ")]}")
        if (depth == 0 and tokens[place].text == ",") or place == closing:
            if place > start:
                found.append((tokens[start].start, tokens[place - 1].end))
            start = place + 1
    return found


def _swapped(text: str, first: tuple[int, int], second: tuple[int, int]) -> Site:
    (a, b), (c, d) = first, second
    return Site("operands", a, d, text[c:d] + text[b:c] + text[a:b])


def _of_number(tokens: Sequence[Token], place: int) -> Iterator[Site]:
    token = tokens[place]
    is_bound = tokens[place - 1].text in ("<", "<=", ">", ">=")
    if (found := _LITERAL.match(token.text)) is not None:
        value = int(found[1], 0)
        for new in (value + 1, value - 1):
            if new >= 0:
                yield Site("bound" if is_bound else "constant", token.start, token.end, f"{new}{found[2]}")
    elif (found := _FLOAT.match(token.text)) is not None:
        yield Site("constant", token.start, token.end, f"({token.text} + 1.0{found[2]})")


def _of_operator(text: str, tokens: Sequence[Token], place: int) -> Iterator[Site]:
    token, before, after = tokens[place], tokens[place - 1], tokens[place + 1]
    simple = after.kind in ("number", "name") and before.kind in ("number", "name")
    match token.text:
        case "+" | "-":
            yield Site("sign", token.start, token.end, "-" if token.text == "+" else "+")
        case "+=" | "-=":
            yield Site("sign", token.start, token.end, "-=" if token.text == "+=" else "+=")
        case "<" | ">" | "<=" | ">=" | "==" | "!=":
            yield Site("comparison", token.start, token.end, _TURNED[token.text])
        case "&&":
            yield Site("condition", token.start, token.end, "||")
        case "||":
            yield Site("condition", token.start, token.end, "&&")
        case "*" if simple and not _TYPE.search(before.text):
            yield Site("operator", token.start, token.end, "+")
        case _:
            pass
    ends = (";", ")", ",", "}")
    alone = tokens[place - 2].text in ("=", "(", ",", "return") and tokens[place + 2].text in ends
    if token.text in ("-", "/", "%", "<<", ">>") and simple and alone:
        yield _swapped(text, (before.start, before.end), (after.start, after.end))


def _dropped(tokens: Sequence[Token], place: int) -> Iterator[Site]:
    """Yield the statement at `place` left out, where it assigns, stores or copies."""
    depth = 0
    for end in range(place, len(tokens)):
        depth += (tokens[end].text in "([{") - (tokens[end].text in ")]}")
        if tokens[end].text == ";" and depth == 0:
            break
    else:
        return
    is_call = tokens[place + 1].text == "(" and tokens[place].text not in ("if", "for", "while", "return")
    is_assignment = tokens[place + 1].text in ("=", "[", "+=")
    if is_call or is_assignment:
        yield Site("statement", tokens[place].start, tokens[end].end, ";")


def choose_sites(sites: Sequence[Site], seed: str) -> list[Site]:
    """Return the sites in the order in which they are tried: of each kind one in turn, drawn by the seed."""
    draw = random.Random(seed)
    by_kind: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        by_kind[site.kind].append(site)
    for kind in sorted(by_kind):
        draw.shuffle(by_kind[kind])
    rows = [(n, kind, site) for kind, own in by_kind.items() for n, site in enumerate(own)]
    return [site for _, _, site in sorted(rows, key=lambda row: row[:2])]


# --- judging ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that verifies: its line before and after the change, and why it is equivalent, if so."""

    line: int
    kind: str
    before: str
    after: str
    proof: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """The mutants of one kernel on one machine: how many were caught, by kind, and those that were not."""

    key: str
    kernel: str
    machine: str
    sizes: Mapping[str, Size]
    caught: Mapping[str, int]
    survivors: tuple[Survivor, ...]
    failed: str = ""

    @property
    def left(self) -> tuple[Survivor, ...]:
        """The survivors that are not proved equivalent."""
        return tuple(s for s in self.survivors if not s.proof)

    @property
    def tried(self) -> int:
        """How many mutants are not proved equivalent."""
        return sum(self.caught.values()) + len(self.left)


def choose_sizes(source: Source) -> Mapping[str, Size]:
    """Return odd sizes, few iterations, as many extents of two vectors and a tail as these allow."""
    parsed, names, draw = parse_kernel(source), open_sizes(source), random.Random(SEED)
    best: tuple[tuple[int, int], dict[str, Size]] | None = None
    for _ in range(300):
        sizes: dict[str, Size] = {n: draw.choice(FEW_EXTENTS if n in FEW else EXTENTS) for n in names}
        try:
            count = count_iterations(bind(parsed, {n: int(str(v)) for n, v in sizes.items()}))
        except UsageProblem:
            continue
        if count <= MOST_ITERATIONS:
            rank = sum(int(str(v)) > 8 and int(str(v)) % 8 != 0 for v in sizes.values()), count
            if best is None or rank > best[0]:
                best = rank, sizes
    return best[1] if best is not None else sizes_for(source)[0]


def shipped(name: str) -> Source:
    """Return a shipped kernel's text."""
    return Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8"))


@contextmanager
def apart_cache() -> Generator[None]:
    """Have mutants compiled into a cache of their own, and what all of them share computed once."""
    with (
        tempfile.TemporaryDirectory(prefix="isamap-mutants-") as folder,
        patch.dict(os.environ, {"ISAMAP_CACHE_DIR": folder}),
        remembering(),
    ):
        yield


@contextmanager
def remembering() -> Generator[None]:
    """Have data and expected results computed once, while the same kernel is verified again and again."""

    def once(function: Callable[..., Any]) -> Callable[..., Any]:
        known: dict[str, Any] = {}

        def found(*args: Any, **named: Any) -> Any:
            key = digest(*(_as_key(a) for a in (*args, *named.values())))
            if key not in known:
                known[key] = function(*args, **named)
            return known[key]

        return found

    with patch.multiple(verifying, make_arrays=once(verifying.make_arrays), expect=once(verifying.expect)):
        yield


def _as_key(argument: object) -> bytes:
    if isinstance(argument, Mapping):
        values = cast("Mapping[str, Any]", argument)
        return b"".join(f"{n} {type(v)} ".encode() + np.asarray(v).tobytes() for n, v in values.items())
    return repr(argument).encode()


def is_caught(prepared: Prepared, compiled: Compiled) -> bool:
    """Return whether `isamap verify` tells that a program is wrong."""
    cases = verifying.all_cases(replace(prepared, compiled=compiled), (), guard=True)
    return not all(case.ok for case in cases)


def quick(machine: Machine) -> Machine:
    """Return the machine whose programs are compiled without optimisation."""
    flags = (*(f for f in machine.target.flags if not f.startswith("-O")), "-O0")
    return replace(machine, target=replace(machine.target, flags=flags))


def compile_mutant(prepared: Prepared, text: str, machine: Machine) -> Compiled | None:
    """Return the library of a mutated text; None where it does not compile."""
    emitted = replace(prepared.program.emitted, source=text)
    try:
        return compile_library(emitted, machine, prepared.request.model)
    except CompilerRefused:
        return None


def compile_mutants(prepared: Prepared, texts: Sequence[str], machine: Machine) -> list[Compiled | None]:
    """Return the programs of mutated texts, all in one library; None for those that do not compile."""
    emitted = prepared.program.emitted
    programs = [_under_another_name(emitted, text, number) for number, text in enumerate(texts)]
    try:
        return list(compile_together(programs, machine, prepared.request.model))
    except CompilerRefused:
        if len(texts) == 1:
            return [None]
        half = len(texts) // 2
        return [c for part in (texts[:half], texts[half:]) for c in compile_mutants(prepared, part, machine)]


def _under_another_name(emitted: EmittedC, text: str, number: int) -> EmittedC:
    """Return a program whose function, and all names that begin with the function's, are others."""
    name = f"{emitted.name}__{number}"
    source, header = (re.sub(rf"\b{emitted.name}(?=\b|_)", name, part) for part in (text, emitted.header))
    return replace(
        emitted, name=name, source=source, header=header, interface=replace(emitted.interface, name=name)
    )


def proof_of_equivalence(prepared: Prepared, site: Site) -> str:
    """Return why a mutant that verifies computes the same; nothing where that is not proved."""
    text = prepared.program.emitted.source
    same = compile_mutant(prepared, site.applied(text), prepared.machine)
    if same is not None and same.library.read_bytes() == prepared.compiled.library.read_bytes():
        return "same machine code"
    start, compared = _start_of_statement(text, site.start), _compared(text, site)
    for proof, probe in (
        ("not executed at these sizes", f"{text[:start]} __builtin_trap(); {text[start:]}"),
        ("same value at these sizes", compared),
    ):
        probed = compile_mutant(prepared, probe, quick(prepared.machine)) if probe else None
        if probed is not None and not is_caught(prepared, probed):
            return proof
    only_moves = bool(compared) or text.startswith("memset", site.start)
    if only_moves and has_same_bits(prepared, site):
        return f"same bits on {DRAWS} random inputs"
    kernel, lines = prepared.program.emitted.name, site_lines(text, site)
    return named_reasons().get((kernel, *lines)) or named_reasons().get(("*", *lines), "")


DRAWS = 24


def has_same_bits(prepared: Prepared, site: Site) -> bool:
    """Return whether a mutant of loops, conditions or addresses gives the same bits as the right program.

    Where control and addresses depend on no data, this is an identity test at random points: each element is
    drawn by itself, so that a result that another element reaches has other bits for almost all inputs.
    """
    text = prepared.program.emitted.source
    pair = compile_mutants(prepared, [text, site.applied(text)], quick(prepared.machine))
    kernel = parse_kernel(prepared.request.kernel)
    for sizes in verifying.concrete_sizes(prepared):
        bound, symbols = bind(kernel, sizes), verifying.symbols_of(prepared, sizes)
        for seed in range(DRAWS):
            arrays, scalars = make_arrays(bound, "random", seed), make_scalars(bound, "random", seed)
            if seed % 2:
                arrays = verifying.rows_apart(arrays, bound, prepared)
            found: list[bytes] = []
            for compiled in pair:
                assert compiled is not None
                result = run_program(compiled, arrays, symbols, scalars=scalars, guard=True)
                found.append(b"".join(a.tobytes() for a in result.arrays.values()))
            if found[0] != found[1]:
                return False
    return True


@cache
def named_reasons() -> dict[tuple[str, str, str], str]:
    """Return why survivors that nothing above proves are equivalent, by kernel and lines."""
    rows = json.loads(NAMED.read_text(encoding="utf-8"))
    return {(row["kernel"], row["before"], row["after"]): f"named: {row['reason']}" for row in rows}


def _start_of_body(text: str) -> int:
    """Return where the program's own functions begin, of loops and copies, behind those of instructions."""
    name = re.search(r"\b(\w+)_workspace_bytes\(", text)
    assert name is not None
    return next(re.finditer(rf"\b{name[1]}_\w+\(", text)).start()


_OF_DATA = re.compile(r"v\d+$")


def _compared(text: str, site: Site) -> str:
    """Return the text with a trap where the changed expression has another value than the right one.

    The expression is the widest one around the change that depends on sizes and loops alone, so that its
    values are the same for all data; nothing where there is none.
    """
    if site.start < _start_of_body(text):
        return ""
    if site.kind == "condition" and text[site.start] == "(":
        site = Site(site.kind, site.start + 1, site.end - 1, site.new[1:-1])
    tokens = tokens_of(text)
    best: tuple[int, int] | None = None
    first = next(n for n, t in enumerate(tokens) if t.end > site.start)
    last = max(n for n, t in enumerate(tokens) if t.start < site.end)
    while True:
        while first > 0 and not _ends(tokens, first - 1, -1):
            first = _other_end(tokens, first - 1, -1)
        while last + 1 < len(tokens) and not _ends(tokens, last + 1, 1):
            last = _other_end(tokens, last + 1, 1)
        inside = tokens[first : last + 1]
        if not all(_is_of_loops(tokens, n) for n in range(first, last + 1)) or not inside:
            break
        best = inside[0].start, inside[-1].end
        if tokens[first - 1].text == "," or tokens[last + 1].text == ",":
            while tokens[first - 1].text not in ("(", ";", "{", "}"):
                first = _other_end(tokens, first - 1, -1)
            while tokens[last + 1].text not in (")", ";", "{", "}"):
                last = _other_end(tokens, last + 1, 1)
        if tokens[first - 1].text != "(" or tokens[last + 1].text != ")":
            break
        first, last = first - 1, last + 1
        if tokens[first - 1].kind == "name":
            first -= 1
    if best is None:
        return ""
    start, end = best
    right = text[start:end]
    wrong = site.applied(text)[start : end + len(site.new) - (site.end - site.start)]
    both = f"({{ __auto_type right_ = ({right}); if (right_ != ({wrong})) __builtin_trap(); right_; }})"
    return text[:start] + both + text[end:]


def _ends(tokens: Sequence[Token], at: int, way: int) -> bool:
    """Return whether an expression ends before a word."""
    return tokens[at].text in (
        (",", ";", "{", "}", "=", "+=", "return") + (("(", "[") if way < 0 else (")", "]"))
    )


def _other_end(tokens: Sequence[Token], at: int, way: int) -> int:
    """Return the position of a word, or of the bracket that belongs to it, going one way."""
    depth = 0
    while True:
        depth += (tokens[at].text in "([{") - (tokens[at].text in ")]}")
        if depth == 0:
            return at
        at += way


def _is_of_loops(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a word may stand in an expression of sizes, loops and addresses."""
    token, after = tokens[at], tokens[at + 1]
    if token.kind == "name":
        is_call = after.text == "(" and token.text != "floor_div"
        return not (is_call or _OF_DATA.match(token.text))
    dereferences = token.text == "*" and (tokens[at - 1].text in "(,=" or tokens[at - 1].kind == "operator")
    return not (token.text in ("[", "]", "++", "--", "->") or (dereferences and tokens[at - 1].text != ")"))


def _start_of_statement(text: str, at: int) -> int:
    """Return where the innermost statement begins that holds a place of the text."""
    start, depth = 0, 0
    for token in tokens_of(text):
        if token.start >= at:
            break
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if token.text in (";", "{", "}") and depth == 0:
            start = token.end
    return start


def score(kernel: Source, hw: str, most: int, watch: Callable[[str], None] = lambda _: None) -> Score:
    """Return how many mutants of a kernel's program on a machine are caught."""
    sizes = choose_sizes(kernel)
    name = kernel.name.removesuffix(".ir")
    key = digest(kernel.text, hw, str(most), json.dumps(sizes), str(SEED))[:16]
    try:
        prepared = prepare(Request(kernel, hw, sizes, heuristic="greedy"))
    except IsamapError as error:
        return Score(key, name, hw, sizes, {}, (), error.diagnostics[0].code)
    text, caught, survivors = prepared.program.emitted.source, Counter[str](), list[Survivor]()
    sites = choose_sites(find_sites(text), f"{SEED} {name} {hw}")
    with apart_cache():
        assert not is_caught(prepared, prepared.compiled), f"{name} on {hw} is wrong as it is"
        place = 0
        while place < len(sites):
            if (left := most - caught.total() - sum(not s.proof for s in survivors)) <= 0:
                break
            some = sites[place : place + min(BATCH, left)]
            place += len(some)
            libraries = compile_mutants(prepared, [s.applied(text) for s in some], quick(prepared.machine))
            for site, compiled in zip(some, libraries, strict=True):
                if compiled is None:
                    continue
                if is_caught(prepared, compiled):
                    caught[site.kind] += 1
                    continue
                made = survivor(text, site, proof_of_equivalence(prepared, site))
                survivors.append(made)
                if not made.proof:
                    watch(f"{name} {hw} {json.dumps(sizes)} line {made.line} {made.kind}\n"
                              f"    - {made.before}\n    + {made.after}")  # fmt: skip
            assert not is_caught(prepared, prepared.compiled), f"{name} on {hw} is now wrong as it is"
    return Score(key, name, hw, sizes, dict(caught), tuple(survivors))


def site_lines(text: str, site: Site) -> tuple[str, str]:
    """Return the line of a site before and after the change."""
    start, end = text.rfind("\n", 0, site.start) + 1, text.find("\n", site.end)
    after = site.applied(text)[start : end + len(site.new) - (site.end - site.start)]
    return text[start:end].strip(), after.strip()


def survivor(text: str, site: Site, proof: str) -> Survivor:
    """Return a survivor with its line before and after the change."""
    return Survivor(text.count("\n", 0, site.start) + 1, site.kind, *site_lines(text, site), proof)


def judge_again(old: Score) -> Score:
    """Return a score whose survivors are judged once more, by the fills and proofs of today."""
    kernel, caught, survivors = shipped(old.kernel), Counter(old.caught), list[Survivor]()
    if not old.left:
        return old
    prepared = prepare(Request(kernel, old.machine, old.sizes, heuristic="greedy"))
    text, left = prepared.program.emitted.source, Counter((s.kind, s.before, s.after) for s in old.left)
    with apart_cache():
        for site in find_sites(text):
            key = site.kind, *site_lines(text, site)
            if left[key] > 0:
                left[key] -= 1
                compiled = compile_mutant(prepared, site.applied(text), quick(prepared.machine))
                if compiled is not None and is_caught(prepared, compiled):
                    caught[site.kind] += 1
                elif compiled is not None:
                    survivors.append(survivor(text, site, proof_of_equivalence(prepared, site)))
    proved = [s for s in old.survivors if s.proof]
    return replace(old, caught=dict(caught), survivors=(*proved, *survivors))


# --- the command -----------------------------------------------------------------------------------------


def read_scores(path: Path) -> list[Score]:
    """Return the scores that a file holds, a line each."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    survivors = [tuple(Survivor(**s) for s in row.pop("survivors")) for row in rows]
    return [Score(**row, survivors=own) for row, own in zip(rows, survivors, strict=True)]


def append(path: Path, made: Score) -> None:
    """Write a score behind others, and say what it is."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(made)) + "\n")
    proved, caught = len(made.survivors) - len(made.left), sum(made.caught.values())
    words = made.failed or f"{caught} of {made.tried} caught, {proved} equivalent"
    print(f"{made.kernel} on {made.machine}: {words}", flush=True)


def table(scores: Sequence[Score]) -> str:
    """Return the scores as a table of Markdown, a line for each kernel, and their sums in front."""
    machines = tuple(dict.fromkeys(s.machine for s in scores))
    by_cell = {(s.kernel, s.machine): s for s in scores}
    sums: list[str] = []
    for machine in machines:
        own = [s for s in scores if s.machine == machine]
        caught, tried = sum(sum(s.caught.values()) for s in own), sum(s.tried for s in own)
        proofs = Counter(x.proof.partition(":")[0] for s in own for x in s.survivors if x.proof)
        words = ", ".join(f"{count} {proof}" for proof, count in sorted(proofs.items()))
        share = 100 * caught / max(tried, 1)
        sums.append(f"- {machine}: {caught} of {tried} caught, {share:.1f} %; equivalent: {words}")
    lines = [*sums, "", f"| kernel | {' | '.join(machines)} |", f"|---|{'---|' * len(machines)}"]
    for kernel in dict.fromkeys(s.kernel for s in scores):
        cells = [
            f"{sum(s.caught.values())} of {s.tried}" if s is not None and not s.failed else "–"
            for s in (by_cell.get((kernel, machine)) for machine in machines)
        ]
        lines.append(f"| {kernel} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Score what is named, append each score to a file, and go on where the file ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--kernel", action="append", help="one of the shipped kernels; all by default")
    parser.add_argument("--hw", action="append", help="a machine; x86-avx2 and generic-c by default")
    parser.add_argument("--most", type=int, default=MOST, help="mutants of a kernel")
    parser.add_argument("--part", default="0/1", help="1/3: the second third of the kernels")
    parser.add_argument("--survivors", type=Path, help="append survivors to this file as they come")
    parser.add_argument("--again", type=Path, help="judge the survivors of this file again, into -o")
    parser.add_argument("--table", action="store_true", help="print what -o holds as a table")
    given = parser.parse_args()
    if given.again is not None:
        for old in read_scores(given.again):
            append(given.output, judge_again(old))
        return
    if given.table:
        print(table(read_scores(given.output)))
        return
    known = {(s.kernel, s.machine) for s in read_scores(given.output)}
    part, parts = map(int, given.part.split("/"))

    def tell(said: str) -> None:
        if given.survivors is not None:
            with given.survivors.open("a", encoding="utf-8") as file:
                file.write(said + "\n")

    for name in (given.kernel or list_kernels())[part::parts]:
        for hw in given.hw or MACHINES:
            if (name, hw) in known:
                continue
            made = score(shipped(name), hw, given.most, tell)
            append(given.output, made)


if __name__ == "__main__":
    sys.exit(main())
