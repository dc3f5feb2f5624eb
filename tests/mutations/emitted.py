"""Wrong versions of the C that isamap emits, each of which `isamap verify` has to notice.

    export PYTHONPATH=tests
    python -m mutations.emitted -o scores.jsonl                     all shipped kernels, two machines
    python -m mutations.emitted -o scores.jsonl --kernel softmax_f32 --hw generic-c --most 10

    softmax_f32 on x86-avx2: 40 of 40 caught, 9 equivalent

A mutant differs in one place: a maximum becomes a minimum, a constant changes by one, a store is dropped.
It is run and compared as `isamap verify` does, until one comparison fails. Mutants of one kernel are compiled
together, without optimisation, and run in copies of this process, with data and results computed once.

One that verifies is a survivor, unless it is proved equivalent: it has the same terms (terms.py); the
changed place is never executed at these sizes; the changed expression, which depends on loops and sizes
alone, has the same values; its library is the same, byte by byte; or the functions of one number around the
change are right for all numbers. `equivalent.json` names others.
The argument checks and the division of the workspace, which every call passes first, are not changed.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import json
import os
import random
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from itertools import combinations_with_replacement, islice, product
from math import prod
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
from mutations.sites import Site, Token, choose_sites, find_sites, tokens_of
from mutations.terms import FUNCTION, HASH_SEED, RUNS, Unknown, tests_of_all_numbers, with_hashes

from isamap.driver import verifying
from isamap.driver.matrix import FEW, open_sizes, sizes_for
from isamap.driver.oracle import count_iterations
from isamap.driver.request import Request, Size
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.driver.verifying import Case
from isamap.emit.c import EmittedC
from isamap.ir import Kernel, bind
from isamap.ir.domains import with_domains
from isamap.kernels import kernel_path, list_kernels
from isamap.machine import Machine
from isamap.run import child, worker
from isamap.run.fills import make_scalars, shape_of
from isamap.run.runner import run_program
from isamap.run.toolchain import Compiled, Compiler, CompilerRefused, build, compile_library
from isamap.source import IsamapError, Source, UsageProblem
from isamap.source.cache import digest
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
    """The mutants of one kernel on one machine: how many were caught, by kind, and those that were not.

    `place` is how many of its sites were used up, `most` how many mutants were wanted.
    """

    key: str
    kernel: str
    machine: str
    sizes: Mapping[str, Size]
    caught: Mapping[str, int]
    survivors: tuple[Survivor, ...]
    failed: str = ""
    place: int = 0
    most: int = 0

    @property
    def left(self) -> tuple[Survivor, ...]:
        """The survivors that are not proved equivalent."""
        return tuple(s for s in self.survivors if not s.proof)

    @property
    def tried(self) -> int:
        """How many mutants are not proved equivalent."""
        return sum(self.caught.values()) + len(self.left)


def choose_sizes(source: Source) -> Mapping[str, Size]:
    """Return odd sizes, few iterations, as many extents of two vectors and a tail as these allow.

    Arrays of indices are so short, where that can be, that all their values can be tried.
    """
    parsed, names, draw = parse_kernel(source), open_sizes(source), random.Random(SEED)
    is_sparse = any(True for _ in with_domains(parsed))
    best: tuple[tuple[bool, int, int], dict[str, Size]] | None = None
    for _ in range(3000 if is_sparse else 300):
        sizes: dict[str, Size] = {n: draw.choice(FEW_EXTENTS if n in FEW else EXTENTS) for n in names}
        try:
            bound = bind(parsed, {n: int(str(v)) for n, v in sizes.items()})
        except UsageProblem:
            continue
        if (count := count_iterations(bound)) <= MOST_ITERATIONS:
            large = sum(int(str(v)) > 8 and int(str(v)) % 8 != 0 for v in sizes.values())
            rank = is_sparse and _can_try_all_indices(bound), large, count
            if best is None or rank > best[0]:
                best = rank, sizes
    return best[1] if best is not None else sizes_for(source)[0]


def _can_try_all_indices(kernel: Kernel) -> bool:
    """Return whether arrays of indices have few values together, and none of them is of one value alone."""
    several = [
        int(domain.high.evaluate({})) > int(domain.low.evaluate({}))
        and prod(shape_of(o)) > 1 + domain.ascending
        for o, domain in with_domains(kernel)
    ]
    return all(several) and len(all_indices(kernel)) <= MOST_INDICES


def shipped(name: str) -> Source:
    """Return a shipped kernel's text."""
    return Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8"))


@contextmanager
def apart_cache() -> Generator[None]:
    """Have mutants compiled into a cache of their own, run at once, and what they share computed once."""
    with (
        tempfile.TemporaryDirectory(prefix="isamap-mutants-") as folder,
        patch.dict(os.environ, {"ISAMAP_CACHE_DIR": folder}),
        patch.object(child, "_perform", perform_in_copy),
        remembering(),
    ):
        yield


@contextmanager
def remembering() -> Generator[None]:
    """Have kernels, data and expected results made once, while the same one is verified again and again."""

    def once(function: Callable[..., Any]) -> Callable[..., Any]:
        known: dict[str, Any] = {}

        def found(*args: Any, **named: Any) -> Any:
            key = digest(*(_as_key(a) for a in (*args, *named.values())))
            if key not in known:
                known[key] = function(*args, **named), args
            return known[key][0]

        return found

    names = ("parse_kernel", "bind", "fills_of", "make_arrays", "make_scalars", "iterations_apart", "expect")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(patch.object(verifying, name, once(getattr(verifying, name))))
        yield


def _as_key(argument: object) -> bytes:
    if isinstance(argument, Kernel):  # it is kept with what was made of it, so that no other has its number
        return str(id(argument)).encode()
    if isinstance(argument, Mapping):
        values = cast("Mapping[str, Any]", argument)
        return b"".join(f"{n} {type(v)} ".encode() + np.asarray(v).tobytes() for n, v in values.items())
    return repr(argument).encode()


answer_of, ended = worker._answer, child._Ended  # pyright: ignore[reportPrivateUsage]  the child's own work
SECONDS = 5
"""Of the processor, that a mutant may take for two runs."""


def perform_in_copy(job: dict[str, Any], seconds: float, emulator: object) -> object:
    """Do the work of a child process in a copy of this one, which is there ten times as soon."""
    assert emulator is None
    source, to = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which a copy has none of
        copy = os.fork()
    if copy == 0:
        try:
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
            limited = {**job, "process": os.getpid(), "cpu_seconds": SECONDS, "memory_bytes": None}
            os.write(to, json.dumps(answer_of(limited)).encode())
        finally:
            os._exit(0)
    os.close(to)
    with os.fdopen(source, "rb") as answers:
        answer = answers.read()
    code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    return ended(code, json.loads(answer) if answer else None, "")


def is_caught(prepared: PreparedKernel, compiled: Compiled) -> bool:
    """Return whether `isamap verify` tells that a program is wrong, with the first fill that shows it."""
    for _, there in replace(prepared, compiled=compiled).everywhere():
        for sizes in verifying.concrete_sizes(there):
            kernel, cases = verifying.bind(verifying.parse_kernel(there.request.kernel), sizes), list[Case]()
            for fill in verifying.fills_of(kernel):
                cases.append(verifying.verify_case(there, sizes, fill))
                if not cases[-1].ok:
                    return True
            if not all(case.ok for case in verifying.with_unverified(cases)):
                return True
    return False


def quick(machine: Machine) -> Machine:
    """Return the machine whose programs are compiled without optimisation.

    What a variable holds that nothing was assigned to is not a number that is right by chance.
    """
    plain = (f for f in machine.target.flags if not f.startswith("-O"))
    flags = (*plain, "-O0", "-ftrivial-auto-var-init=pattern")
    return replace(machine, target=replace(machine.target, flags=flags))


def compile_mutant(prepared: PreparedKernel, text: str, machine: Machine) -> Compiled | None:
    """Return the library of a mutated text; None where it does not compile."""
    emitted = replace(prepared.program.emitted, source=text)
    try:
        return compile_library(emitted, machine, prepared.request.model)
    except CompilerRefused:
        return None


def compile_mutants(
    prepared: PreparedKernel, texts: Sequence[str], machine: Machine
) -> list[Compiled | None]:
    """Return the programs of mutated texts, all in one library; None for those that do not compile."""
    if not texts:
        return []
    emitted = prepared.program.emitted
    names = [f"{emitted.name}__{number}" for number in range(len(texts))]
    together = replace(
        emitted,
        source=_merged(emitted, texts),
        header="\n".join(_under_another_name(emitted, emitted.header, n) for n in range(len(texts))),
    )
    try:
        compiled = compile_library(together, machine, prepared.request.model)
        return [replace(compiled, interface=replace(compiled.interface, name=name)) for name in names]
    except CompilerRefused as refusal:
        said = " ".join(note for d in refusal.diagnostics for note in (d.message, *d.notes))
        refused = {int(number) for number in re.findall(r"\bmutant_(\d+)", said)} or set(range(len(texts)))
        left = iter(compile_mutants(prepared, [t for n, t in enumerate(texts) if n not in refused], machine))
        return [None if n in refused else next(left) for n in range(len(texts))]


def _merged(emitted: EmittedC, texts: Sequence[str]) -> str:
    """Return the text of several programs, with functions of instructions that are the same there once.

    What stands in front of a text's own loops is there under other names where it was changed.
    """
    start = start_of_body(emitted.source)
    first, parts = emitted.source[:start], list[str]()
    for number, text in enumerate(texts):
        body = text[start:]
        if not text.startswith(first):
            start_of_this = start_of_body(text)
            head, body = text[:start_of_this], text[start_of_this:]
            functions = "|".join({m["name"] for m in FUNCTION.finditer(head)})
            head, body = (re.sub(rf"\b(?:{functions})\b", rf"\g<0>__{number}", p) for p in (head, body))
            parts.append(f'#line 1 "mutant_{number}"\n')
            parts.append(re.sub(r"^#include.*$", "", head, flags=re.MULTILINE))
        parts.append(f'#line 1 "mutant_{number}"\n' + _under_another_name(emitted, body, number))
    return re.sub(r"__attribute__\(\(always_inline\)\) inline", "", first + "".join(parts))


def _under_another_name(emitted: EmittedC, text: str, number: int) -> str:
    """Return a part of a program whose function, and all names that begin with the function's, are others."""
    text = re.sub(rf"\b{emitted.name}(?=\b|_)", f"{emitted.name}__{number}", text)
    return re.sub(r"ISAMAP_\w+_H\b", rf"\g<0>__{number}", text)


def proofs_of_equivalence(prepared: PreparedKernel, sites: Sequence[Site]) -> list[str]:
    """Return why mutants that verify compute the same; nothing for those of which that is not proved."""
    text, machine = prepared.program.emitted.source, quick(prepared.machine)
    proofs = ["same terms" if same else "" for same in have_same_terms(prepared, sites)]
    probes: list[tuple[int, str, str]] = []
    for number, site in enumerate(sites):
        if not proofs[number]:
            start, compared = _start_of_statement(text, site.start), _compared(text, site)
            trapped = f"{text[:start]} __builtin_trap(); {text[start:]}"
            probes += [(number, "not executed at these sizes", trapped)]
            probes += [(number, "same value at these sizes", compared)] if compared else []
    programs = compile_mutants(prepared, [probe for _, _, probe in probes], machine)
    for (number, proof, _), compiled in zip(probes, programs, strict=True):
        if compiled is not None and not proofs[number] and not is_caught(prepared, compiled):
            proofs[number] = proof
    return [proof or _proof_alone(prepared, site) for proof, site in zip(proofs, sites, strict=True)]


def _proof_alone(prepared: PreparedKernel, site: Site) -> str:
    """Return a proof that takes longer, or a reason that is written in `equivalent.json`."""
    text = prepared.program.emitted.source
    same = compile_mutant(prepared, site.applied(text), prepared.machine)
    if same is not None and same.library.read_bytes() == prepared.compiled.library.read_bytes():
        return "same machine code"
    if (start := start_of_body(text)) > site.start and is_same_for_all_numbers(prepared, site, start):
        return "all numbers"
    kernel, lines = prepared.program.emitted.name, site_lines(text, site)
    return named_reasons().get((kernel, *lines)) or named_reasons().get(("*", *lines), "")


def is_same_for_all_numbers(prepared: PreparedKernel, site: Site, start: int) -> bool:
    """Return whether functions of one number around a change are right for each number."""
    text = prepared.program.emitted.source
    tests, names = tests_of_all_numbers(text, start, site.applied(text), site.start)
    return bool(names) and not _differs(
        prepared.compiled.compiler, prepared.machine.target.flags, tests, names
    )


@cache
def _differs(compiler: Compiler, flags: tuple[str, ...], tests: str, names: tuple[str, ...]) -> bool:
    """Return whether a function and its mutant differ for any number; several kernels have the same ones."""
    library = worker.load_library(str(build(compiler, flags, {"all.c": tests}, "all.c")))
    for name in names:
        count = library[f"{name}__differs"]
        count.restype = ctypes.c_uint64
        if count() != 0:
            return True
    return False


def _hashed(prepared: PreparedKernel, site: Site | None) -> str:
    """Return the program, or a mutant of it, with operations that are hashes; nothing where that is no proof.

    It is none of a change in an operation, nor where the arrays of indices are too many to try all.
    """
    kernel, text = parse_kernel(prepared.request.kernel), prepared.program.emitted.source
    start = start_of_body(text)
    many = any(len(all_indices(bind(kernel, s))) > MOST_INDICES for s in verifying.concrete_sizes(prepared))
    if many or (site is not None and site.start < start):
        return ""
    try:
        indices = [o.name for o, _ in with_domains(kernel)]
        return with_hashes(text if site is None else site.applied(text), start, indices)
    except Unknown:
        return ""


MOST_INDICES = 1000


@lru_cache(maxsize=4)
def all_indices(kernel: Kernel) -> list[dict[str, Any]]:
    """Return all values that the arrays of indices may have together; not all where there are too many."""
    found: list[dict[str, Any]] = [{}]
    for o, domain in with_domains(kernel):
        low, high = int(domain.low.evaluate({})), int(domain.high.evaluate({}))
        values, length = range(low, high + 1), prod(shape_of(o))
        ways: Iterator[tuple[int, ...]] = (
            combinations_with_replacement(values, length)
            if domain.ascending
            else product(values, repeat=length)
        )
        some = islice(ways, MOST_INDICES + 1)
        arrays = [np.array(way, o.dtype.numpy()).reshape(shape_of(o)) for way in some]
        found = [{**one, o.name: array} for one, array in islice(product(found, arrays), MOST_INDICES + 1)]
    return found


def have_same_terms(prepared: PreparedKernel, sites: Sequence[Site]) -> list[bool]:
    """Return of each mutant whether it gives the bits of the right program, where operations are hashes."""
    texts = [_hashed(prepared, site) for site in sites]
    right = _hashed(prepared, None) if any(texts) else ""
    programs = compile_mutants(prepared, [text for text in (right, *texts) if text], quick(prepared.machine))
    if not programs or programs[0] is None:
        return [False] * len(sites)
    known, made = dict[int, bytes](), iter(programs[1:])

    def is_same(wrong: Compiled | None) -> bool:
        kernel = parse_kernel(prepared.request.kernel)
        runs = [
            (sizes, seed, indices)
            for sizes in verifying.concrete_sizes(prepared)
            for every in (all_indices(bind(kernel, sizes)),)
            for seed, indices in enumerate(every * RUNS if len(every) == 1 else every)
        ]
        try:
            for number, (sizes, seed, indices) in enumerate(runs):
                given = bind(kernel, sizes), sizes, seed, indices
                if number not in known:
                    known[number] = _hashed_results(prepared, programs[0], *given)
                if wrong is None or _hashed_results(prepared, wrong, *given) != known[number]:
                    return False
        except child.RunProblem:
            return False
        return True

    return [bool(text) and is_same(next(made)) for text in texts]


def _hashed_results(
    prepared: PreparedKernel,
    compiled: Compiled | None,
    kernel: Kernel,
    sizes: Mapping[str, int],
    seed: int,
    indices: Mapping[str, Any],
) -> bytes:
    """Return what a program whose operations are hashes makes of random bits."""
    assert compiled is not None
    draw, arrays = np.random.default_rng(seed), dict[str, Any]()
    for o in kernel.operands:
        if o.role != "temp":
            raw = draw.integers(
                0, 256, size=(*shape_of(o), np.dtype(o.dtype.numpy()).itemsize), dtype=np.uint8
            )
            arrays[o.name] = raw.view(o.dtype.numpy()).reshape(shape_of(o))
    arrays |= indices
    if seed % 2:
        arrays = verifying.rows_apart(arrays, kernel, prepared)
    hashing = replace(compiled, environment=(*compiled.environment, (HASH_SEED, str(seed))))
    symbols, scalars = verifying.symbols_of(prepared, sizes), make_scalars(kernel, "integers", seed)
    floats = {p.name for p in kernel.params if p.dtype is not None and p.dtype.is_float}
    scalars = {n: draw.random() if n in floats else v for n, v in scalars.items()}
    result = run_program(hashing, arrays, symbols, scalars=scalars, guard=True)
    outside = repr((result.status, result.written_between)).encode()
    return b"".join([outside, *(a.tobytes() for a in result.arrays.values())])


@cache
def named_reasons() -> dict[tuple[str, str, str], str]:
    """Return why survivors that nothing above proves are equivalent, by kernel and lines."""
    rows = json.loads(NAMED.read_text(encoding="utf-8"))
    return {(row["kernel"], row["before"], row["after"]): f"named: {row['reason']}" for row in rows}


def start_of_body(text: str) -> int:
    """Return where the program's own functions begin, of loops and copies, behind those of instructions."""
    name = re.search(r"\b(\w+)_workspace_bytes\(", text)
    assert name is not None
    first = re.search(rf"^(?!#).*\b{name[1]}_\w+\(", text, re.MULTILINE)
    assert first is not None
    return first.start()


_OF_DATA = re.compile(r"v\d+$")


def _compared(text: str, site: Site) -> str:
    """Return the text with a trap where the changed expression has another value than the right one.

    The expression is the widest one around the change that depends on sizes and loops alone, so that its
    values are the same for all data; nothing where there is none.
    """
    if site.start < start_of_body(text):
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


def score(
    kernel: Source,
    hw: str,
    most: int,
    watch: Callable[[str], None] = lambda _: None,
    before: Score | None = None,
) -> Score:
    """Return how many mutants of a kernel's program on a machine are caught; `before` had fewer of them."""
    sizes = choose_sizes(kernel) if before is None else before.sizes
    name = kernel.name.removesuffix(".ir")
    key = digest(kernel.text, hw, str(most), json.dumps(sizes), str(SEED))[:16]
    try:
        prepared = prepare(Request(kernel, hw, sizes, heuristic="greedy"))
    except IsamapError as error:
        return Score(key, name, hw, sizes, {}, (), error.diagnostics[0].code)
    text, caught, survivors = prepared.program.emitted.source, Counter[str](), list[Survivor]()
    place = 0
    if before is not None:
        caught, survivors, place = Counter(before.caught), list(before.survivors), before.place
    sites = choose_sites(find_sites(text), f"{SEED} {name} {hw}")
    with apart_cache():
        assert not is_caught(prepared, prepared.compiled), f"{name} on {hw} is wrong as it is"
        while place < len(sites):
            if (left := most - caught.total() - sum(not s.proof for s in survivors)) <= 0:
                break
            some = sites[place : place + min(BATCH, left)]
            place += len(some)
            libraries, passed = (
                compile_mutants(prepared, [s.applied(text) for s in some], quick(prepared.machine)),
                list[Site](),
            )
            for site, compiled in zip(some, libraries, strict=True):
                if compiled is not None and is_caught(prepared, compiled):
                    caught[site.kind] += 1
                elif compiled is not None:
                    passed.append(site)
            for site, proof in zip(passed, proofs_of_equivalence(prepared, passed), strict=True):
                survivors.append(made := survivor(text, site, proof))
                if not proof:
                    watch(f"{name} {hw} {json.dumps(sizes)} line {made.line} {made.kind}\n"
                              f"    - {made.before}\n    + {made.after}")  # fmt: skip
            assert not is_caught(prepared, prepared.compiled), f"{name} on {hw} is now wrong as it is"
    return Score(key, name, hw, sizes, dict(caught), tuple(survivors), place=place, most=most)


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
                    survivors.append(survivor(text, site, *proofs_of_equivalence(prepared, [site])))
    proved = [s for s in old.survivors if s.proof]
    return replace(old, caught=dict(caught), survivors=(*proved, *survivors))


# --- the command -----------------------------------------------------------------------------------------


def read_scores(path: Path) -> list[Score]:
    """Return the scores that a file holds, a line each; the last one of a kernel on a machine counts."""
    if not path.exists():
        return []
    read: list[dict[str, Any]] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = {(row["kernel"], row["machine"]): row for row in read}.values()
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
        sums.append(f"- {machine}: {caught} of {tried} caught, {share:.2f} %; equivalent: {words}")
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
    part, parts = map(int, given.part.split("/"))

    def tell(said: str) -> None:
        if given.survivors is not None:
            with given.survivors.open("a", encoding="utf-8") as file:
                file.write(said + "\n")

    for name in (given.kernel or list_kernels())[part::parts]:
        for hw in given.hw or MACHINES:
            before = {(s.kernel, s.machine): s for s in read_scores(given.output)}.get((name, hw))
            if before is not None and (before.failed or before.most >= given.most):
                continue
            made = score(shipped(name), hw, given.most, tell, before)
            append(given.output, made)


if __name__ == "__main__":
    sys.exit(main())
