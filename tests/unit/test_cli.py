from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isamap.cli import main
from isamap.cli.answers import render_in_colour
from isamap.cli.early_words import find_command, read_size_sets, repeat_options
from isamap.cli.option_parser import OnMachine, options_of, read_words
from isamap.driver.stages import PASS_NAMES, STAGES
from isamap.hw_specs import shipped_machines
from isamap.report.columns import align
from isamap.source import UsageProblem, did_you_mean
from isamap.source.cache import Cache, kept_here
from isamap.version import __version__

SMALL = ("-D", "M=5", "N=6", "K=7")


def test_the_words_behind_d_belong_to_it() -> None:
    assert repeat_options(["run", "k", "-D", "M=1", "N=2", "--json"]) == [
        "run", "k", "-D", "M=1", "-D", "N=2", "--json",
    ]  # fmt: skip
    assert repeat_options(["k", "-DM=1", "N=2", "-o", "a=b"]) == ["k", "-DM=1", "-D", "N=2", "-o", "a=b"]
    assert repeat_options(["k", "--fix", "a=1"]) == ["k", "--fix", "a=1"]
    settings = ["hw", "sweep", "x", "--set", "memories.spad.bytes=1,2", "clock_ghz=1", "-o", "f"]
    assert repeat_options(settings) == [*settings[:5], "--set", *settings[5:]]
    assert repeat_options(["x", "--set=a.b=1", "c=2"]) == ["x", "--set=a.b=1", "--set", "c=2"]
    assert repeat_options(["x", "--setting=1", "c=2"]) == ["x", "--setting=1", "c=2"]
    assert repeat_options(["-D", "M=1", "a.b=2"]) == ["-D", "M=1", "a.b=2"]


def test_a_command_of_a_group_has_two_words() -> None:
    assert find_command(["hw", "check", "x"]) == "hw.check"
    assert find_command(["hw", "--help"]) == "hw"
    assert find_command(["match", "k"]) == "match"
    assert find_command(["--help"]) == ""


def test_a_size_given_again_begins_another_set() -> None:
    assert read_size_sets(["M=1", "N=2", "M=3", "N=4"]) == [{"M": 1, "N": 2}, {"M": 3, "N": 4}]


def test_names_that_are_equally_near_are_all_offered() -> None:
    assert (
        did_you_mean("gem_f32", ["gemm_f32", "gemv_f32", "gru"]) == "did you mean `gemm_f32` or `gemv_f32`?"
    )
    assert did_you_mean("zzz", ["gru"]) is None


def test_columns_are_of_equal_width() -> None:
    assert align([("a", "bcd", "e"), ("fg", "h", "")]) == "a   bcd  e\nfg  h"


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "k.ir:1:2: error[bad-cast]: no\n  help: yes"
    assert render_in_colour(text, sys.stdout) == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[31merror[bad-cast]\x1b[0m" in render_in_colour(text, sys.stdout)
    monkeypatch.setenv("NO_COLOR", "1")
    assert render_in_colour(text, sys.stdout) == text


@pytest.mark.parametrize(
    ("words", "schema", "keys"),
    [
        (["match", "gemm_f32", "--hw", "generic-c"], "match", {"mappings", "count", "statements"}),
        (["explain", "bad-cast"], "explain", {"code", "title", "text"}),
        (["doctor"], "doctor", {"checks"}),
        (["hw", "list"], "hw.list", {"machines"}),
        (["hw", "show", "generic-c"], "hw.show", {"memories", "links", "units", "instructions"}),
        (["hw", "check", "generic-c"], "hw.check", {"name", "instructions", "digest"}),
        (["hw", "detect"], "hw.detect", {"machine", "features"}),
    ],
)  # fmt: skip
def test_every_answer_is_one_json_object(
    words: list[str], schema: str, keys: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = ask([*words, "--json"], capsys)
    assert (code, answer["schema"], answer["ok"], answer["exit"]) == (0, f"isamap.{schema}/1", True, 0)
    assert answer["diagnostics"] == []
    assert keys <= answer.keys()


def test_compile_writes_a_folder_and_says_so(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    words = ["compile", "gemm_f32", "--hw", "generic-c", *SMALL, "-o", str(tmp_path / "out"), "--json"]
    code, answer = ask(words, capsys)
    assert code == 0
    assert {Path(f).name for f in answer["files"]} == {
        "gemm_f32.c", "gemm_f32.h", "gemm_f32.schedule", "report.txt", "manifest.json",
        "roofline.svg", "views.json", "views.txt",
    }  # fmt: skip
    assert all(Path(f).is_file() for f in answer["files"])
    assert {"cost", "lower_bound", "gap", "model", "status"} <= answer["schedule"].keys()
    assert set(answer["stage_seconds"]) == set(STAGES)
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    code, again = ask(words, capsys)
    assert again["stage_seconds"] == {}, "the second answer comes from memory"
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("stage", [*STAGES, *PASS_NAMES])
def test_every_stage_and_every_pass_prints_as_text(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", "gemm_f32", "--hw", "generic-c", *SMALL, "--stop-after", stage]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert "gemm_f32" in first or first.startswith(
        ("isamap schedule 1", "statement 0: ", "nest 0: C[m, n] += ")
    )
    assert list(tmp_path.iterdir()) == []


def test_a_schedule_is_printed_edited_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    base = ["gemm_f32", "--hw", "generic-c", "-D", "M=8", "N=8", "K=8"]
    assert main(["compile", *base, "--stop-after", "schedule"]) == 0
    text = capsys.readouterr().out
    edited = text.replace("for k by 1 {", "for k by 2 {\n unroll k by 1 {").replace("issue;\n", "issue; }\n")
    Path("my.schedule").write_text(edited, encoding="utf-8")
    code, answer = ask(["verify", *base, "--schedule", "my.schedule", "--json"], capsys)
    assert (code, answer["ok"]) == (0, True)


def test_verify_compares_every_set_with_every_fill(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", "gemm_f32", "--hw", "generic-c", *SMALL, "-D", "M=1", "N=1", "K=1", "--json"]
    code, answer = ask(words, capsys)
    assert (code, answer["ok"], answer["ran_on"]) == (0, True, "native")
    assert [(c["sizes"]["M"], c["fill"]) for c in answer["cases"]] == [
        (m, fill) for m in (5, 1) for fill in ("integers", "random", "edges")
    ]
    assert all(c["guarded"] and c["verified"] and c["max_error"] <= c["bound"] for c in answer["cases"])


def test_open_sizes_are_verified_at_their_ends(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", "gemm_f32", "--hw", "generic-c", "-D", "M=1..9@4", "N=3", "K=3", "--fill", "integers"]
    code, answer = ask([*words, "--json"], capsys)
    assert (code, [c["sizes"]["M"] for c in answer["cases"]]) == (0, [1, 4, 9])


def test_run_says_how_long_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = ask(["run", "gemm_f32", "--hw", "generic-c", *SMALL, "--json"], capsys)
    assert (code, answer["verified"], answer["operations"]) == (0, True, 2 * 5 * 6 * 7)
    assert 0 < answer["seconds"]["min"] <= answer["seconds"]["median"]
    assert answer["gflops"] > 0


def test_run_sets_the_measured_time_beside_that_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "gemm_f32", "--hw", "generic-c", *SMALL, "--profile", "none"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("model ")]
    assert re.fullmatch(
        r"model     \S+ \S?s: the best run took [0-9.]+ times as long; its parameters are stated, and "
        "`isamap hw calibrate generic-c` measures them",
        line,
    )


def test_fmt_rewrites_files_and_then_leaves_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.ir"
    path.write_text("kernel k(M){inout C:f32[M]; # kept\nfor i in M{C[i]+=1;}}", encoding="utf-8")
    assert main(["fmt", "--check", str(path)]) == 1
    assert main(["fmt", str(path)]) == 0
    assert "# kept" in path.read_text(encoding="utf-8")
    assert main(["fmt", "--check", str(path)]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["k.ir"]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("data", "code"), [(b"\xff\xfe\x00", "file-not-text"), (b"#" * (1 << 20) + b"\n", "file-too-large")]
)
def test_files_that_are_no_short_texts_are_refused(
    data: bytes, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.ir").write_bytes(data)
    exit_code, answer = ask(["compile", str(tmp_path / "k.ir"), "--hw", "generic-c", "--json"], capsys)
    assert (exit_code, [d["code"] for d in answer["diagnostics"]]) == (2, [code])


def test_an_error_of_our_own_is_one_line_and_a_bundle(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("isamap.cli.commands.invoke", fail)
    code, answer = ask(["run", "gemm_f32", "--hw", "generic-c", *SMALL, "--json"], capsys)
    found = answer["diagnostics"][0]
    assert (code, found["code"]) == (70, "internal-error")
    bundle = json.loads(Path(found["notes"][0].partition(": ")[2]).read_text(encoding="utf-8"))
    assert "ZeroDivisionError: by nothing" in bundle["traceback"]
    assert bundle["words"][:2] == ["run", "gemm_f32"]


def test_an_interrupt_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("isamap.cli.commands.invoke", interrupt)
    monkeypatch.setattr("isamap.cli.command_line.kept_here", {})
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_an_interrupted_command_says_what_was_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        Cache.open("schedules").keep("0" * 64, b"a schedule")
        raise KeyboardInterrupt

    kept_here.clear()
    monkeypatch.setattr("isamap.cli.commands.invoke", interrupt)
    assert main(["bench", "deepbench", "gemm"]) == 130
    assert capsys.readouterr().err == (
        "interrupted; kept in the cache, where the same command finds them: 1 of schedules; "
        "`--resume` goes on behind the rows that -o has\n"
    )


def test_without_a_compiler_the_environment_lacks_something(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ISAMAP_CC", "clang")
    monkeypatch.setenv("PATH", "/nonexistent")
    code, answer = ask(["run", "gemm_f32", "--hw", "generic-c", *SMALL, "--json"], capsys)
    assert (code, answer["diagnostics"][0]["code"]) == (5, "no-compiler")


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["k", "--hw", "m"], {"kernel": "k", "hw": "m"}),
        (["--hw=m", "-DM=1", "k", "-D", "N=2"], {"kernel": "k", "hw": "m", "sizes": ["M=1", "N=2"]}),
        (["--hw", "a", "--hw", "m", "-", "--json"], {"kernel": "-", "hw": "m", "as_json": True}),
        (["--hw", "m", "--", "--odd"], {"kernel": "--odd", "hw": "m"}),
        (["--hw=", "k"], {"kernel": "k", "hw": ""}),
        (["--hw", "--json", "k"], {"kernel": "k", "hw": "--json"}),
        (["--json", "--help"], None),
    ],
)
def test_words_become_the_options_that_a_record_declares(words: list[str], given: object) -> None:
    assert read_words("isamap run", options_of(OnMachine, "run"), words) == given


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["k", "--json=yes", "--hw", "m"], "--json takes no value"),
        (["k", "--hw"], "--hw needs a value"),
        (["--hw", "m"], "`isamap run` needs a kernel"),
        (["k"], "`isamap run` needs the option --hw"),
        (["k", "l", "--hw", "m"], "`isamap run` does not take the word `l`"),
        (["k", "--hv", "m", "--help"], "`isamap run` has no option `--hv`"),
        (["k", "-x"], "`isamap run` has no option `-x`"),
    ],
)
def test_words_that_no_option_takes_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        read_words("isamap run", options_of(OnMachine, "run"), words)
    assert refused.value.diagnostics[0].message == said


def test_the_version_needs_no_imports() -> None:
    program = "import sys; from isamap.cli import main; main(['--version']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, modules = done.stdout.splitlines()
    assert re.fullmatch(
        rf"isamap {re.escape(__version__)} \((commit \w+, )?CP-SAT of OR-Tools [\d.]+\)", first
    )
    assert not {"numpy", "isamap.source"} & {*modules.split()}


def test_the_list_of_machines_reads_no_instructions() -> None:
    program = "import sys; from isamap.cli import main; main(['hw', 'list']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *listed, modules = done.stdout.splitlines()
    assert len(listed) == len(shipped_machines())
    assert not {"numpy", "lark", "isamap.machine.load"} & {*modules.split()}


def test_a_compilation_from_memory_needs_no_solver(tmp_path: Path) -> None:
    words = ["compile", "gemm_f32", "--hw", "generic-c", *SMALL, "-o", str(tmp_path / "out")]
    program = f"import sys; from isamap.cli import main; main({words}); print(*sys.modules)"
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert not {"ortools", "sympy", "numpy", "lark"} & {*runs[1].stdout.splitlines()[-1].split()}


def ask(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Return the exit code of a command line, and its JSON."""
    capsys.readouterr()
    code = main(words)
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(answer)[:4] == ["schema", "ok", "exit", "diagnostics"]
    assert (answer["ok"], answer["exit"]) == (code == 0, code)
    return code, answer


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Let Ctrl-C interrupt this process and its children: in the background, a shell has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("error", [ImportError("umath failed to import"), SystemError("no exception set")])
def test_an_interrupt_that_an_import_turns_into_another_exception_is_one(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_command: str, _words: list[str]) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr("isamap.cli.commands.invoke", interrupted)
    assert main(["match", "gemm_f32"]) == 130
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("delay_s", [0.15, 0.3, 0.45, 0.6, 0.9])
def test_an_interrupt_while_modules_are_imported_shows_no_traceback(delay_s: float) -> None:
    """Send it when Python itself has started: what `site` does is not isamap's."""
    words = [sys.executable, "-X", "importtime", "-m", "isamap", "match", "gemm_f32", "--hw", "x86-avx2"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "| isamap" in line:
                break
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode in (0, 130)
    assert "Traceback" not in said
