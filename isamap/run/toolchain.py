"""Find the installed C compiler, and build emitted C as a library.

The user's choice comes first, then gcc or clang on PATH when it takes the machine's flags, then the compiler
in the `ziglang` package. Compilers get argument lists, never a shell, and only files written for them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from isamap.emit.c import EmittedC
from isamap.emit.c_build import COMMON_FLAGS, COMPILER_FLAGS, pool_files
from isamap.emit.c_interface import Interface
from isamap.machine import Machine
from isamap.machine.allowed import compiler_flags, permission_numbers, support, told_by
from isamap.run.blame import Emissions, find_refused_emissions
from isamap.run.emulated import served_files
from isamap.source import IsamapError, MissingTool, OnlyWarned, UsageProblem, dataclass, replace
from isamap.source.cache import Cache, cache_root, digest, own_root, recall_content, remember_content
from isamap.source.process import run_process
from isamap.source.progress import Watch, unwatched

COMPILERS = ("gcc", "clang", "zig")
ENVIRONMENT = "ISAMAP_CC"
_ROOM_BYTES = 1 << 20
_AGAIN = "repeat it when this computer has less to do, or name another compiler in ISAMAP_CC"
_SHOWN_CODE = re.compile(r"\s*[0-9]*\s*\|")
# Of symbols, of the assembler, and of words that the description of a machine has for the compiler.
_FAULTS = re.compile(
    r"undefined (?:reference|symbol)|multiple definition|duplicate symbol|\.s:[0-9]+: Error:"
    r"|file format not recognized|unknown file type"
    r"|(?:unrecognized|unsupported|unknown|bad value|invalid).*(?:option|argument|target|CPU|feature|value)",
    re.IGNORECASE,
)
LIBRARIES, OBJECTS, PROGRAMS = "libraries", "objects", "toolchain"
"""Kinds of cache entries: built libraries, their parts, and the version texts of compilers."""

# A function that no header declares would otherwise be missed only when the library is loaded.
_DECLARED = "-Werror=implicit-function-declaration"
_BUILD = (*COMMON_FLAGS, _DECLARED, "-shared", "-fPIC", "-nostdlib")
# Headers with all functions of vectors take gcc 0.18 s, or 0.03 where they were parsed before.
_PARSES_ONCE = ("gcc",)
SECONDS = 300  # that a compiler gets
_ONLY_READS = {"zig": ("-S", "-emit-llvm", "-o", "read.ll")}
"""The options with which a compiler only checks C. With `-fsyntax-only` zig links, and builds a C library."""
MODEL_FLAGS = ("-O2", "-std=c11")
_POOL_FLAGS = ("-O2", "-std=c11")
CROSS = "zig"
"""The compiler for other architectures: it brings a C library for each of them."""


@dataclass(frozen=True, slots=True)
class ServedProgram:
    """A program for an architecture that performs calls of some functions: checks, or an emitted program.

    It ends at once on a processor that lacks one of the `features`.
    """

    target: tuple[str, ...]
    functions: tuple[str, ...] | Interface
    features: tuple[str, ...] = ()


class CompilerRefused(IsamapError):
    """An error: a compiler rejected emitted C."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: its kind, its command, and its version text.

    `flags` are its own flags for the processor features that it may use.
    """

    name: str
    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A library on disk, its function's signature, and the permissions that calls need.

    `pool` is the library of the thread pool, for a program with parts for several threads. `environment` has the
    variables that called libraries read when they are loaded.
    """

    library: Path
    interface: Interface
    permissions: tuple[int, ...]
    compiler: Compiler
    model: bool
    pool: Path | None = None
    environment: tuple[tuple[str, str], ...] = ()


def compile_library(
    emitted: EmittedC,
    machine: Machine,
    model: bool = False,
    compiler: str | None = None,
    target: tuple[str, ...] | None = None,
) -> Compiled:
    """Return the library of emitted C, cached if it was built before.

    `compiler` names one of COMPILERS. With a `target` it is a program for that architecture, which performs
    calls (emulated.py). Raises: MissingTool if there is none; CompilerRefused.
    """
    (compiled,) = compile_together((emitted,), machine, model, compiler, target)
    return compiled


def compile_together(
    programs: Sequence[EmittedC],
    machine: Machine,
    model: bool = False,
    compiler: str | None = None,
    target: tuple[str, ...] | None = None,
) -> tuple[Compiled, ...]:
    """Compile the emitted C of several programs with distinct names into one library.

    With a `target`, the library has one program.

    Raises: as `compile_library`.
    """
    assert len(programs) == 1 or (programs and target is None), "a program for others serves one function"
    model = model or any(one.model for one in programs)
    flags = MODEL_FLAGS if model else machine.target.flags
    if any(one.strict for one in programs):
        flags = (*flags, "-ffp-contract=off")
    allowed = COMPILERS if model else machine.target.toolchains
    features = () if model else machine.target.features
    found = find_compiler(flags, allowed, CROSS if target else compiler, features)
    files = {f"{one.name}.c": one.source for one in programs}
    files |= {f"{one.name}.h": one.header for one in programs}
    emissions = None if model else Emissions(machine)
    served = None if target is None else ServedProgram(target, programs[0].interface, tuple(features))
    links = tuple(dict.fromkeys(link for one in programs for link in one.links))
    library = build(found, flags, files, [f"{one.name}.c" for one in programs], emissions, served, links)
    permissions = () if model else tuple(permission_numbers()[p] for p in machine.target.permissions)
    takes_pool = any(one.interface.takes_pool for one in programs)
    pool = build_pool(found) if takes_pool and target is None else None
    return tuple(
        Compiled(
            library, one.interface, permissions, found, model, pool if one.interface.takes_pool else None
        )
        for one in programs
    )


def build_pool(compiler: Compiler) -> Path:
    """Return the library of the pool of threads. Raises: CompilerRefused."""
    return build(compiler, _POOL_FLAGS, pool_files(), "isamap_pool.c")


def build(
    compiler: Compiler,
    flags: Sequence[str],
    files: Mapping[str, str | bytes | memoryview],
    main: str | Sequence[str],
    emissions: Emissions | None = None,
    served: ServedProgram | None = None,
    links: Sequence[str] = (),
    watch: Watch = unwatched,
) -> Path:
    """Return the shared library of `main` (one or several of `files`), or the program that serves its functions.

    `links` are the paths of the libraries that it calls. Objects of several files are kept one by one.

    Raises: CompilerRefused, which names the instructions to blame where `emissions` are in the files;
    MissingTool where the compiler took too long, or lacked something of this computer.
    """
    flags, mains = (*flags, *compiler.flags), (main,) if isinstance(main, str) else tuple(main)
    main = mains[0]
    own = (*flags, *_BUILD, *COMPILER_FLAGS.get(compiler.name, ()))
    if served is None:
        steps = library_steps(own, mains, links)
    else:
        files = {**files, **served_files(served.functions, told_by(served.features), support(served.target))}
        steps = Steps((), (), tuple(_served_steps(flags, served.target, main)))
    written = {name: _as_text(content) for name, content in sorted(files.items())}
    texts = [part for item in written.items() for part in item]
    key = digest("library 3", compiler.name, compiler.version, *compiler.command, *steps.words, main, *texts)
    with OnlyWarned():
        if (known := Cache.open(LIBRARIES).find(key)) is not None:
            return known
    with tempfile.TemporaryDirectory(prefix="isamap-") as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content.encode() if isinstance(content, str) else content)
        keys = {} if served or len(mains) == 1 else _object_keys(compiler, own, files, mains)
        known = _kept_objects(keys, folder)
        new = [name for name in mains if name not in known]
        if keys:
            once = new if compiler.name in _PARSES_ONCE else ()
            headers, users = shared_headers({name: _as_text(files[name]) for name in once})
            Path(folder, HEADERS).write_text(headers, encoding="utf-8")
            steps = library_steps(own, mains, links, users, known)
        _perform(compiler, steps, folder, mains, written, emissions, watch=watch)
        with OnlyWarned():
            for name in new:
                if name in keys:
                    Cache.open(OBJECTS).keep(keys[name], Path(folder, f"{name}.o").read_bytes())
        return _place_library(key, Path(folder, OUTPUT).read_bytes())


def _object_keys(
    compiler: Compiler, flags: Step, files: Mapping[str, str | bytes | memoryview], mains: Sequence[str]
) -> dict[str, str]:
    """Return the cache keys of the files' objects, except for files that embed other files."""
    found: dict[str, str] = {}
    for main in mains:
        needed, new = dict[str, str | bytes | memoryview](), [main]
        while new:
            name = new.pop()
            needed[name] = files[name]
            text = _as_text(files[name])
            new += [other for other in files if other not in needed and f'"{other}' in text.replace("\\", "")]
        if all(isinstance(content, str) for content in needed.values()):
            texts = [part for name in sorted(needed) for part in (name, _as_text(needed[name]))]
            found[main] = digest(
                "object 1", compiler.name, compiler.version, *compiler.command, *flags, *texts
            )
    return found


def _kept_objects(keys: Mapping[str, str], folder: str) -> set[str]:
    """Link the cached objects into a folder, and return their source files."""
    known: set[str] = set()
    with OnlyWarned():
        cache = Cache.open(OBJECTS)
        for name, key in keys.items():
            if (path := cache.find(key)) is not None:
                Path(folder, f"{name}.o").symlink_to(path)
                known.add(name)
    return known


def build_image(command: str, name: str, source: str) -> Path:
    """Return the image of a file of device kernels, built by the command of the family. Raises: as `build`."""
    compiler, words = find_program(command), command.split()[1:]
    key = digest("image 1", compiler.version, *compiler.command, *words, name, source)
    with OnlyWarned():
        if (known := Cache.open(LIBRARIES).find(key)) is not None:
            return known
    with tempfile.TemporaryDirectory(prefix="isamap-") as folder:
        Path(folder, name).write_text(source, encoding="utf-8")
        steps = Steps((), (), ((*words, "-o", OUTPUT, name),))
        _perform(compiler, steps, folder, (name,), {name: source}, None)
        return _place_library(key, Path(folder, OUTPUT).read_bytes())


def find_program(command: str) -> Compiler:
    """Return the compiler of a device's kernels by the command of their family. Raises: MissingTool."""
    if (found := _locate(name := command.split(maxsplit=1)[0])) is None:
        said = f"`{name}`, which compiles kernels, is not on PATH"
        raise MissingTool.of("no-compiler", said, help=f"install {name}, or add its folder to PATH")
    return found


def check_syntax(
    compiler: Compiler, flags: Sequence[str], main: str, text: str, emissions: Emissions, seconds: float
) -> None:
    """Let a compiler check C without building a program. Raises: as `build`."""
    reads = _ONLY_READS.get(compiler.name, ("-fsyntax-only",))
    step = (*flags, *compiler.flags, *COMMON_FLAGS, _DECLARED, *reads, main)
    with tempfile.TemporaryDirectory(prefix="isamap-") as folder:
        Path(folder, main).write_text(text, encoding="utf-8")
        _perform(compiler, Steps((), (), (step,)), folder, (main,), {main: text}, emissions, seconds)


def _perform(
    compiler: Compiler,
    steps: Steps,
    folder: str,
    mains: Sequence[str],
    written: Mapping[str, str],
    emissions: Emissions | None,
    seconds: float | None = None,
    watch: Watch = unwatched,
) -> None:
    """Run a compiler on files in a folder. Raises: CompilerRefused, MissingTool."""
    try:
        result = run_steps(compiler.command, steps, folder, seconds, watch)
    except subprocess.TimeoutExpired as slow:
        main = next((name for name in mains if name in slow.cmd), mains[0])
        of = f"the emitted {main} of {len(written[main].splitlines())} lines"
        raise _too_slow(compiler.name, slow.timeout, of, f"compiler: {compiler.version}") from None
    if result.returncode == 0:
        return
    if (lack := _lack_of(compiler.name, result, folder)) is not None:
        raise lack
    if not _is_about_code(result.stderr, written):
        said = result.stderr or f"it ended with exit code {result.returncode}, without a word"
        raise _describe_lack(f"{compiler.name} failed with no message about {mains[0]}", said, _AGAIN)
    raise _report_refusal(compiler, mains[0], result.stderr, written, emissions)


def _as_text(content: str | bytes | memoryview) -> str:
    """Return a file as text, or a binary one by its digest."""
    return content if isinstance(content, str) else hashlib.sha256(content).hexdigest()


def _served_steps(flags: Sequence[str], target: Sequence[str], main: str) -> Iterator[tuple[str, ...]]:
    """Yield two steps: emitted code with the machine's flags, and other code with those of one C library.

    A C library for each set of flags would take half a minute each. One is built once for an architecture.
    """
    yield (*target, *flags, *COMMON_FLAGS, _DECLARED, "-c", "-o", "emitted.o", main)
    own = ("isamap_served.c", "isamap_table.c")
    yield (*target, "-O2", "-std=c11", "-static", "-o", OUTPUT, "emitted.o", *own, "-lm")


def _lack_of(compiler: str, result: subprocess.CompletedProcess[str], folder: str) -> MissingTool | None:
    """Return the error that a failed compiler lacks something on this computer, or None."""
    # Words of the code that it shows are not its own.
    lines = [line for line in result.stderr.splitlines() if not _SHOWN_CODE.match(line)]
    if result.returncode < 0:
        lines.append(signal.strsignal(-result.returncode) or "terminated by a signal")
    from tomllib import loads  # no other compilation waits for it

    table = loads(Path(__file__).with_name("compiler_lacks.toml").read_text(encoding="utf-8"))["lacks"]
    for row in table:
        if said := next((line for line in lines if re.search(row["message"], line, re.IGNORECASE)), None):
            return _describe_lack(f"{compiler} {row['lack']}", said, row["help"])
    if shutil.disk_usage(folder).free < _ROOM_BYTES:  # a linker may say nothing of it
        said = f"No space left on device: {tempfile.gettempdir()}"
        return _describe_lack(f"{compiler} {table[0]['lack']}", said, table[0]["help"])
    return None


def _is_about_code(says: str, files: Iterable[str]) -> bool:
    """Return whether a compiler's message concerns a file, a symbol or an option."""
    named = "|".join(map(re.escape, files))
    return re.search(rf"(?:^|[\s/])(?:{named}):[0-9]+", says) is not None or _FAULTS.search(says) is not None


def _describe_lack(message: str, said: str, help_: str) -> MissingTool:
    return MissingTool.of("system-refused", message, notes=(said.strip()[:300],), help=help_)


def _place_library(key: str, library: bytes) -> Path:
    """Return the path of a library: cached, or in a folder of this process alone."""
    with OnlyWarned():
        return Cache.open(LIBRARIES).keep(key, library)
    return Cache.open_in(own_root(), LIBRARIES).keep(key, library)


def find_compiler(
    flags: Sequence[str],
    allowed: Sequence[str] = COMPILERS,
    compiler_name: str | None = None,
    features: Sequence[str] = (),
) -> Compiler:
    """Return the compiler to use for these flags and for a processor with these features.

    Raises: MissingTool, UsageProblem for a name that is none.
    """
    chosen = compiler_name or os.environ.get(ENVIRONMENT) or None
    if chosen is not None and chosen not in COMPILERS:
        source = "the call" if compiler_name else ENVIRONMENT
        raise UsageProblem.of(
            "unknown-compiler",
            f"{source} names the compiler `{chosen[:60]}`",
            notes=(f"isamap knows {', '.join(COMPILERS)}; paths and arguments are not accepted",),
        )
    tried: list[str] = []
    for name in (chosen,) if chosen else COMPILERS:
        if name not in allowed:
            tried.append(f"{name}: the machine's description does not allow it")
            continue
        compiler = _locate(name)
        own = compiler_flags(features, name)
        if compiler is None:
            tried.append(f"{name}: not found")
        elif not _accepts(compiler, (*flags, *own)):
            tried.append(f"{name} ({compiler.version}): refuses {' '.join((*flags, *own))}")
        else:
            return replace(compiler, flags=own)
    raise MissingTool.of(
        "no-compiler",
        "there is no C compiler for this machine here",
        notes=tuple(tried),
        help="install gcc or clang, or `pip install isamap[cc]`, which brings one",
    )


def installed_compilers() -> tuple[Compiler, ...]:
    """Return all installed compilers, even if no machine can use them."""
    return tuple(compiler for name in COMPILERS if (compiler := _locate(name)) is not None)


@lru_cache(maxsize=8)
def _locate(name: str) -> Compiler | None:
    """Return the installed compiler of a kind, or None."""
    if name == "zig":
        if importlib.util.find_spec("ziglang") is None:
            return None
        from importlib.metadata import version

        return Compiler(name, (sys.executable, "-m", "ziglang", "cc"), f"ziglang {version('ziglang')}")
    path = shutil.which(name)
    if path is None:
        return None
    says = _recall_answer("version", (path,), lambda: _first_line(_ask_compiler(name, (path, "--version"))))
    return Compiler(name, (path,), says) if says else None


@lru_cache(maxsize=64)
def _accepts(compiler: Compiler, flags: tuple[str, ...]) -> bool:
    """Return whether a compiler accepts the flags."""
    if compiler.name == "zig":
        return True  # one pinned version, which takes every flag that descriptions may name
    words = (*compiler.command, *flags, "-fsyntax-only", "-x", "c", os.devnull)
    return (
        _recall_answer("flags", words, lambda: "0" if _ask_compiler(compiler.name, words) is not None else "")
        == "0"
    )


def _ask_compiler(name: str, words: Sequence[str]) -> str | None:
    """Return the output of a compiler, or None if it fails. Raises: MissingTool if it lacks something."""
    result = run_compiler(list(words), None)
    if result.returncode == 0:
        return result.stdout
    if (lack := _lack_of(name, result, tempfile.gettempdir())) is not None:
        raise lack
    return None


def _recall_answer(what: str, words: tuple[str, ...], ask: Callable[[], str]) -> str:
    """Return a cached output of a program. It is queried again if the program has changed."""
    status = os.stat(words[0])
    key = digest(f"{what} 2", str(status.st_mtime_ns), str(status.st_size), *words)
    if (known := recall_content(PROGRAMS, key)) is not None:
        return known.decode(errors="replace")
    try:
        answer = ask()
    except subprocess.TimeoutExpired as slow:
        raise _too_slow(Path(words[0]).name, slow.timeout, f"the question for its {what}") from None
    if answer:
        remember_content(PROGRAMS, key, answer)
    return answer


def _first_line(text: str | None) -> str:
    return text.splitlines()[0].strip() if text else ""


def _too_slow(name: str, seconds: float, over: str, *notes: str) -> MissingTool:
    return MissingTool.of(
        "compiler-timeout",
        f"{name} was stopped after {seconds:g} s, over {over}",
        notes=notes,
        help="repeat it when this computer has less to do, or name another compiler in ISAMAP_CC",
    )


def _report_refusal(
    compiler: Compiler, main: str, says: str, files: Mapping[str, str], emissions: Emissions | None
) -> CompilerRefused:
    by = f"compiler: {compiler.version}"
    if emissions is not None and (found := find_refused_emissions(compiler.name, says, files, emissions)):
        return CompilerRefused(*(replace(d, notes=(*d.notes, by)) for d in found))
    lines = [line for line in says.splitlines() if "error" in line] or says.splitlines()
    return CompilerRefused.of(
        "compiler-refused",
        f"{compiler.name} does not accept the emitted {main}",
        notes=(*(line[:300] for line in lines[:6]), by),
        help="the `emit` or the `c_types` of the instruction named there may be wrong",
    )


# Calls of a C compiler: what files are given to each, some of them side by side, and for how long.
#
# Headers that several files include are parsed once, where the compiler keeps what it has parsed: those of
# vectors take it longer than most kernels.
#
# Compilers get argument lists, never a shell, and nothing of the user's environment but where to find
# programs.


OUTPUT = "library.so"
HEADERS = "isamap_headers.h"
LEAST_SHARED = 4
"""The least number of files for which a common header is precompiled, which takes as long as two of them."""
Step = tuple[str, ...]
"""Arguments of a call."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Calls of a compiler: the first ones, those that may run in parallel, and the final ones."""

    first: tuple[Step, ...]
    apart: tuple[Step, ...]
    behind: tuple[Step, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments of all calls."""
        return tuple(word for step in (*self.first, *self.apart, *self.behind) for word in step)


def shared_headers(texts: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the include lines that most of these files share, and the files that have all of them.

    A file that lacks one of them is none of these: it would no longer be found that it needs it.
    """
    lines = {name: set(re.findall(r"^#include <.*>$", text, re.MULTILINE)) for name, text in texts.items()}
    counts = Counter(line for own in lines.values() for line in own)
    most = max(counts.values(), default=0)
    shared = sorted(line for line, count in counts.items() if count == most >= LEAST_SHARED)
    users = tuple(name for name, own in lines.items() if shared and own.issuperset(shared))
    return "".join(f"{line}\n" for line in shared), users


def library_steps(
    flags: Step,
    mains: Sequence[str],
    links: Sequence[str] = (),
    parsed: Collection[str] = (),
    known: Collection[str] = (),
) -> Steps:
    """Return the calls that build a library from one file, or from several with an object each.

    `links` are the paths of libraries that the files call, which are also their run-time paths. `parsed` are
    the files that include all headers of a precompiled one. The objects of the `known` files exist already.
    """
    folders = dict.fromkeys(str(Path(link).parent) for link in links)
    called = (*links, *(f"-Wl,-rpath,{folder}" for folder in folders))
    if len(mains) == 1:
        return Steps((), (), ((*flags, "-o", OUTPUT, *mains, *called),))
    objects = [f"{name}.o" for name in mains]
    first = ((*flags, "-x", "c-header", "-o", f"{HEADERS}.gch", HEADERS),) if parsed else ()
    apart = tuple(
        (*flags, *(("-include", HEADERS) if name in parsed else ()), "-c", "-o", made, name)
        for made, name in zip(objects, mains, strict=True)
        if name not in known
    )
    return Steps(first, apart, ((*flags, "-o", OUTPUT, *objects, *called),))


def run_steps(
    command: Step, steps: Steps, folder: str, seconds: float | None = None, watch: Watch = unwatched
) -> subprocess.CompletedProcess[str]:
    """Return the result of the last of these calls, or of the first one that failed.

    Raises: subprocess.TimeoutExpired.
    """

    def called(step: Step) -> subprocess.CompletedProcess[str]:
        return run_compiler([*command, *step], folder, seconds)

    for step in steps.first:
        if (result := called(step)).returncode != 0:
            return result
    # A compiler for each core: a thread waits for it.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        begun = [pool.submit(called, step) for step in steps.apart]
        try:
            for done, (call, step) in enumerate(zip(begun, steps.apart, strict=True), 1):
                if (result := call.result()).returncode != 0:
                    return result
                watch(f"{Path(command[0]).name} {step[-1]}", done, len(begun))
        finally:
            pool.shutdown(cancel_futures=True)
    for step in steps.behind[:-1]:
        if (result := called(step)).returncode != 0:
            return result
    return called(steps.behind[-1])


def run_compiler(
    words: list[str], folder: str | None, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler once. Of the user's environment variables, it only gets the program search path.

    Raises: OSError if no process can be started, subprocess.TimeoutExpired.
    """
    caches = str(_writable_root() / "zig")
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": caches}
    environment |= {"ZIG_GLOBAL_CACHE_DIR": caches, "ZIG_LOCAL_CACHE_DIR": caches}
    for name in ("LD_LIBRARY_PATH", "VIRTUAL_ENV", "SYSTEMROOT"):
        if name in os.environ:
            environment[name] = os.environ[name]
    if folder is not None:
        environment["TMPDIR"] = folder
    return run_process(words, seconds or SECONDS, cwd=folder, env=environment, text=True, errors="replace")


def _writable_root() -> Path:
    """Return a folder that the compilers' caches may use."""
    with OnlyWarned():
        return cache_root()
    return own_root()
