"""Programs from the cache: recalled with how they are called, without a stage, and never trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isamap.driver.length_versions
from isamap.driver.api import source_of
from isamap.driver.cached_compilations import KIND, PROGRAMS
from isamap.driver.compiling import compile_program
from isamap.driver.request import Request, request_key
from isamap.driver.runnable import CompiledKernel, prepare
from isamap.source.cache import Cache

REQUEST = Request(source_of("gemm_f32"), "generic-c", {"M": 4, "N": 8, "K": 5}, heuristic="greedy")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Return the requests that went through the stages since."""
    done: list[Request] = []
    original: Any = isamap.driver.length_versions.compile_request

    def noted(request: Request, **named: Any) -> Any:
        done.append(request)
        return original(request, **named)

    monkeypatch.setattr(isamap.driver.length_versions, "compile_request", noted)
    return done


def product(kernel: CompiledKernel) -> None:
    """Run the kernel, whose result has to be right."""
    a, b = np.arange(20.0, dtype=np.float32).reshape(4, 5), np.ones((5, 8), np.float32)
    c = np.zeros((4, 8), np.float32)
    kernel(A=a, B=b, C=c)
    assert (c == a @ b).all()


def test_a_program_is_recalled_without_a_stage(stages: list[Request]) -> None:
    first, again = prepare(REQUEST), prepare(REQUEST)
    assert stages == [REQUEST]
    assert again.program.emitted == first.program.emitted
    assert again.compiled == first.compiled
    product(CompiledKernel(again))


def test_what_the_stages_made_is_made_again_when_it_is_asked_for(stages: list[Request]) -> None:
    first, again = compile_program(REQUEST), compile_program(REQUEST)
    assert len(stages) == 1
    assert again.compilation.program == first.compilation.program
    assert again.compilation is again.compilation
    assert len(stages) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"sizes": {"M": 4, "N": 8, "K": 6}},
        {"machine": "x86-avx2"},
        {"kernel": source_of("gemm_bf16")},
        {"model": True},
        {"threads": 2},
        {"packed": ("B",)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_another_request_is_another_program(stages: list[Request], changed: Mapping[str, Any]) -> None:
    compile_program(REQUEST)
    compile_program(replace(REQUEST, **changed))
    assert len(stages) == 2


def test_a_file_of_isamap_that_changed_makes_all_stages_run(
    stages: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_program(REQUEST)
    monkeypatch.setattr("isamap.driver.request.program_state", lambda: "another")
    compile_program(REQUEST)
    assert stages == [REQUEST, REQUEST]


def test_without_the_cache_nothing_is_recalled_or_kept(stages: list[Request]) -> None:
    alone = replace(REQUEST, cache=False)
    compile_program(alone)
    compile_program(alone)
    assert stages == [alone, alone]
    assert Cache.open(PROGRAMS).find(request_key(alone)) is None


@pytest.mark.parametrize("kind", [PROGRAMS, KIND])
def test_a_damaged_entry_is_none(kind: str, stages: list[Request]) -> None:
    expected = compile_program(REQUEST).emitted
    path = Cache.open(kind).find(request_key(REQUEST))
    assert path is not None
    path.write_bytes(path.read_bytes().replace(b"gemm_f32", b"gemm_f33"))
    made = prepare(REQUEST)
    assert len(stages) == 2
    assert made.program.emitted == expected
    product(CompiledKernel(made))
    compile_program(REQUEST)
    assert len(stages) == 2, "it is kept anew"


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"null", b"\xff", b'{"classes": ["os:system"], "objects": [[0, "ls"]], "root": {"is": 0}}'],
)
def test_an_entry_that_is_no_program_is_none(content: bytes, stages: list[Request]) -> None:
    compile_program(REQUEST)
    Cache.open(PROGRAMS).keep(request_key(REQUEST), content)
    product(CompiledKernel(prepare(REQUEST)))
    assert len(stages) == 2


def test_a_library_that_is_gone_is_built_from_the_program(stages: list[Request]) -> None:
    first = prepare(REQUEST)
    first.compiled.library.unlink()
    again = prepare(REQUEST)
    assert again.compiled.library.exists()
    assert stages == [REQUEST]
    product(CompiledKernel(again))


def test_a_program_that_cannot_be_kept_is_compiled_all_the_same(
    stages: list[Request], empty_cache: Path
) -> None:
    empty_cache.mkdir(mode=0o700)
    (empty_cache / PROGRAMS).write_text("a file in the way")
    with pytest.warns(UserWarning, match="the cache folder .* cannot be used"):
        product(CompiledKernel(prepare(REQUEST)))
    assert stages == [REQUEST]


@pytest.mark.parametrize(
    ("machine", "sizes", "packed", "threads"),
    [
        ("x86-avx512", {"M": "1..64@8", "N": 32, "K": 16}, ("B",), 1),
        ("x86-avx512", {"M": 64, "N": 64, "K": 64}, (), 2),
        ("riscv-rvv@Q=2,4", {"M": 4, "N": 8, "K": 5}, (), 1),
    ],
)
def test_interfaces_of_all_kinds_are_recalled_as_they_were(
    machine: str, sizes: dict[str, int | str], packed: tuple[str, ...], threads: int
) -> None:
    request = replace(REQUEST, machine=machine, sizes=sizes, packed=packed, threads=threads)
    assert compile_program(request).emitted == compile_program(request).emitted
