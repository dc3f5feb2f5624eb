"""Finding a compiler, and what is said when there is none or it refuses."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.kernels import kernel_path
from isamap.run import child, toolchain
from isamap.run.child import ChildProgram, NotSetUp
from isamap.run.toolchain import CompilerRefused, build, find_compiler
from isamap.source import MissingTool, Source, UsageProblem


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing remembered of other environments, before and after."""
    monkeypatch.delenv("ISAMAP_CC", raising=False)

    def forget() -> None:
        for remembered in (toolchain._locate, toolchain._accepts):  # pyright: ignore[reportPrivateUsage] - their caches outlive a test
            remembered.cache_clear()

    forget()
    yield
    forget()


def without_ziglang(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def find_others(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "ziglang" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_others)


def make_compiler(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_no_compiler_says_what_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    without_ziglang(monkeypatch)
    with pytest.raises(MissingTool) as found:
        find_compiler(("-O3",))
    assert found.value.exit_code == 5
    assert found.value.render() == (
        "error[no-compiler]: there is no C compiler for this machine here\n"
        "  note: gcc: not found\n"
        "  note: clang: not found\n"
        "  note: zig: not found\n"
        "  help: install gcc or clang, or `pip install isamap[cc]`, which brings one"
    )


def test_a_compiler_that_refuses_the_flags_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_compiler(tmp_path, "gcc", 'case "$*" in *-mamx*) exit 1;; *) echo "gcc 4.2";; esac')
    make_compiler(tmp_path, "clang", "echo clang 99")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler(("-O3",)).version == "gcc 4.2"
    assert find_compiler(("-mamx-tile",)).version == "clang 99"


def test_the_users_choice_comes_first_and_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_compiler(tmp_path, "gcc", "echo gcc 1")
    make_compiler(tmp_path, "clang", "echo clang 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ISAMAP_CC", "clang")
    assert find_compiler(()).name == "clang"
    assert find_compiler((), compiler_name="gcc").name == "gcc"
    with pytest.raises(MissingTool, match="there is no C compiler"):
        find_compiler((), allowed=("gcc",))


@pytest.mark.parametrize("name", ["/usr/bin/gcc", "gcc -fplugin=x.so", "tcc", "../gcc"])
def test_only_kinds_of_compilers_may_be_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISAMAP_CC", name)
    with pytest.raises(UsageProblem) as found:
        find_compiler(())
    assert found.value.diagnostics[0].code == "unknown-compiler"


def test_what_a_compiler_refuses_is_shown_without_its_files() -> None:
    with pytest.raises(CompilerRefused) as found:
        build(find_compiler(()), ("-O1",), {"bad.c": "int f(void) { return nothing; }"}, "bad.c")
    diagnostic = found.value.diagnostics[0]
    assert diagnostic.code == "compiler-refused"
    assert "bad.c:1:" in diagnostic.notes[0]


SLOW = (
    'case "$*" in *--version*) echo gcc 9;; *-fsyntax-only*) ;; *) sleep 60 & echo $! > "$SEEN"; wait;; esac'
)


def test_a_compiler_that_takes_too_long_is_stopped_and_the_code_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    make_compiler(tmp_path, "gcc", SLOW.replace("$SEEN", str(seen)))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(toolchain, "SECONDS", 3)
    with pytest.raises(MissingTool) as found:
        build(find_compiler((), compiler_name="gcc"), (), {"f.c": "int f(void);\nint g(void);\n"}, "f.c")
    assert found.value.render() == (
        "error[compiler-timeout]: gcc was stopped after 3 s, over the emitted f.c of 2 lines\n"
        "  note: compiler: gcc 9\n"
        "  help: repeat it when this computer has less to do, or name another compiler in ISAMAP_CC"
    )
    assert has_ended(int(seen.read_text()))


def has_ended(number: int) -> bool:
    """Return whether a process is gone, or soon is: it may wait to be taken off the list."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


def test_a_compiler_that_does_not_say_its_version_is_no_compiler_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_compiler(tmp_path, "gcc", "sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(toolchain, "SECONDS", 0.2)
    with pytest.raises(MissingTool) as found:
        find_compiler((), compiler_name="gcc")
    said = "error[compiler-timeout]: gcc was stopped after 0.2 s, over the question for its version"
    assert said in found.value.render()


LACKING = {
    "f.c:1:1: fatal error: error writing to x.s: No space left on device": "has no room on the disk",
    "/usr/bin/ld: final link failed: File too large": "ulimit -f",
    "collect2: fatal error: ld terminated with signal 25 [File size limit exceeded]": "ulimit -f",
    "cc1: out of memory allocating 65536 bytes after a total of 1 bytes": "ulimit -v",
    "error: OutOfMemory": "ulimit -v",
    "gcc: fatal error: Killed signal terminated program cc1": "ended before its work was done",
    "f.c:1:5: internal compiler error: Segmentation fault": "ended before its work was done",
    "f.c:1:10: fatal error: math.h: Too many open files": "ulimit -n",
    "ld: out of file descriptors and couldn't close any": "ulimit -n",
    "error: unable to start: ProcessFdQuotaExceeded": "ulimit -n",
    "gcc: fatal error: cannot execute 'cc1': execvp: No such file or directory": "lacks a part of itself",
    "Cannot create temporary file in /nowhere/: No such file or directory": "TMPDIR",
    "ld: something else": "failed with no message about f.c",
    "": "without a word",
}


@pytest.mark.parametrize("says", LACKING)
def test_what_the_computer_lacks_is_not_blamed_on_the_code(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "says").write_text(says)
    rest = f"*-fsyntax-only*) ;; *) cat {tmp_path}/says >&2; exit 1;;"
    script = f'case "$*" in *--version*) echo gcc 9;; {rest} esac'
    make_compiler(tmp_path, "gcc", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(MissingTool) as found:
        build(find_compiler((), compiler_name="gcc"), (), {"f.c": f"/* {says} */"}, "f.c")
    assert found.value.exit_code == 5
    assert LACKING[says] in found.value.render()


@pytest.mark.parametrize(
    "says",
    [
        "f.c:1:5: error: expected ';'\n    1 | /* No space left on device */",
        "/usr/lib/x.h:9:1: error: inlining failed\n./f.c:3:2: note: called from here",
        "ld: f.o: undefined reference to `g'",
        "ld: error: duplicate symbol: g",
        "/tmp/x.s:7: Error: no such instruction",
    ],
)
def test_what_is_about_the_code_is_blamed_on_it(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "says").write_text(says)
    rest = f"*-fsyntax-only*) ;; *) cat {tmp_path}/says >&2; exit 1;;"
    make_compiler(tmp_path, "gcc", f'case "$*" in *--version*) echo gcc 9;; {rest} esac')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CompilerRefused):
        build(find_compiler((), compiler_name="gcc"), (), {"f.c": ""}, "f.c")


def test_a_compiler_that_is_ended_by_a_signal_is_not_blamed_on_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_compiler(
        tmp_path, "gcc", 'case "$*" in *--version*) echo gcc 9;; *-fsyntax-only*) ;; *) kill -KILL $$;; esac'
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(MissingTool, match="ended before its work was done"):
        build(find_compiler((), compiler_name="gcc"), (), {"f.c": ""}, "f.c")


@pytest.mark.parametrize("asked", ["--version", "-fsyntax-only"])
def test_a_lack_is_not_remembered_as_a_refusal(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = f'test -e {tmp_path}/well || {{ echo "gcc: Too many open files" >&2; exit 1; }}'
    script = f'case "$*" in *{asked}*) {fails};; esac'
    make_compiler(tmp_path, "gcc", f"{script}; echo gcc 9")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for _ in range(2):
        with pytest.raises(MissingTool, match="may not open as many files"):
            find_compiler(("-O1",), compiler_name="gcc")
    (tmp_path / "well").touch()
    assert find_compiler(("-O1",), compiler_name="gcc").version == "gcc 9"


def test_a_folder_that_lets_no_code_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = ChildProgram("the emitted `f`", tmp_path / "library.so", "gcc 9")
    subject.library.write_bytes(b"no library")
    judge = child._judge  # pyright: ignore[reportPrivateUsage] - a mount would need root

    def noexec(_path: Path) -> SimpleNamespace:
        return SimpleNamespace(f_flag=os.ST_NOEXEC)

    with pytest.raises(NotSetUp):
        judge({"error": "other", "message": "failed to map segment"}, {}, subject)
    monkeypatch.setattr("isamap.run.child.os.statvfs", noexec)
    with pytest.raises(MissingTool, match="lets no code run") as found:
        judge({"error": "other", "message": "failed to map segment"}, {}, subject)
    assert str(tmp_path) in found.value.render()
    assert "ISAMAP_CACHE_DIR or XDG_CACHE_HOME" in found.value.render()


def test_the_same_texts_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"once.c": "int once(void) { return 1; }"}
    first = build(find_compiler(()), ("-O1",), files, "once.c")

    def refuse(*_: object) -> None:
        pytest.fail("compiled again")

    compiler = find_compiler(())
    monkeypatch.setattr(toolchain, "run_compiler", refuse)
    assert build(compiler, ("-O1",), files, "once.c") == first


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc alone takes copies for calls")
def test_copies_of_rows_of_a_few_registers_are_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISAMAP_CC", "gcc")
    text = Source("gemm_f32.ir", kernel_path("gemm_f32").read_text())
    # Panels of three registers, copied beside sums.
    panels = {"stage.b": 1, "block.k": 214, "block.n": 432, "unroll.m": 4, "unroll.n": 3}
    made = prepare(Request(text, "x86-avx2", {"M": 128, "N": 2560, "K": 2560}, fixed=panels))
    emitted = made.program.emitted
    assert "stage b" in emitted.source
    library = made.compiled.library.read_bytes()
    assert b"memcpy" not in library
    assert b"\xf3\x48\xa5" not in library, "rep movsq"


def test_files_are_compiled_apart_and_the_one_that_is_wrong_is_named() -> None:
    files = {f"f{n}.c": f"int f{n}(void) {{ return {n}; }}\n" for n in range(4)}
    assert build(find_compiler(()), (), files, tuple(files)).stat().st_size
    with pytest.raises(CompilerRefused, match=r"f2\.c"):
        build(find_compiler(()), (), {**files, "f2.c": "int f2(void) { return }\n"}, tuple(files))


def test_headers_that_most_files_include_are_parsed_once() -> None:
    plain, vectors = "#include <stddef.h>\n", "#include <immintrin.h>\n"
    texts = {"own.c": '#include "own.h"\n', "a.c": vectors, "b.c": plain + vectors, "c.c": vectors}

    assert toolchain.shared_headers(texts) == ("", ())
    headers, users = toolchain.shared_headers({**texts, "d.c": vectors})
    assert (headers, users) == (vectors, ("a.c", "b.c", "c.c", "d.c"))
    steps = toolchain.library_steps(("-O1",), ("own.c", "d.c"), (), users)
    parsed = toolchain.HEADERS
    assert steps.first == (("-O1", "-x", "c-header", "-o", f"{parsed}.gch", parsed),)
    assert steps.apart[0] == ("-O1", "-c", "-o", "own.c.o", "own.c")
    assert steps.apart[1] == ("-O1", "-include", parsed, "-c", "-o", "d.c.o", "d.c")
    assert not toolchain.library_steps(("-O1",), ("own.c", "d.c")).first


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc keeps what it has parsed")
def test_a_library_of_files_whose_headers_are_parsed_once_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = find_compiler(("-O1",), compiler_name="gcc")
    files = {f"f{n}.c": f"#include <stdint.h>\nint32_t f{n}(void) {{ return {n}; }}\n" for n in range(6)}
    calls: list[list[str]] = []
    run = toolchain.run_compiler

    def noted(words: list[str], folder: str | None, seconds: float | None = None) -> object:
        calls.append(words)
        return run(words, folder, seconds)

    monkeypatch.setattr(toolchain, "run_compiler", noted)
    once = ctypes.CDLL(str(build(found, ("-O1",), files, tuple(files))))
    assert sum("c-header" in words for words in calls) == 1
    assert sum("-include" in words for words in calls) == 6
    assert [once[f"f{n}"]() for n in range(6)] == list(range(6))
