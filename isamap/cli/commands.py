"""The table of commands. Only the requested command's module is imported."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from isamap.cli.answers import Answer
from isamap.cli.early_words import GROUPS
from isamap.cli.option_parser import help_page, options_of, read_record, read_words
from isamap.source import UsageProblem, did_you_mean

COMMANDS: dict[str, str] = {
    "new.kernel": "begin_command",
    "new.machine": "begin_command",
    "new.project": "begin_command",
    "compile": "compile_command",
    "import": "import_command",
    "graph.show": "graph_command",
    "match": "match_command",
    "schedule": "schedule_command",
    "schedule.diff": "schedule_command",
    "accesses": "schedule_command",
    "run": "run_command",
    "verify": "verify_command",
    "grad": "grad_command",
    "fmt": "texts_command",
    "explain": "texts_command",
    "memplan": "memplan_command",
    "doctor": "doctor_command",
    "lsp": "lsp_command",
    "tune.list": "tune_command",
    "tune.log": "tune_command",
    "cache.list": "cache_command",
    "cache.clear": "cache_command",
    "cache.verify": "cache_command",
    "bench.model": "bench_command",
    "bench.deepbench.gemm": "bench_command",
    "bench.deepbench.gru": "bench_command",
    "bench.deepbench.lstm": "bench_command",
    "bench.deepbench.rnn": "bench_command",
    "bench.deepbench.conv": "bench_command",
    "bench.deepbench.sparse": "bench_command",
    "bench.layers.resnet50": "bench_command",
    "bench.layers.mobilenet": "bench_command",
    "bench.layers.transformer": "bench_command",
    "hw.new": "begin_command",
    "hw.list": "hw_command",
    "hw.show": "hw_show_command",
    "hw.check": "hw_check_command",
    "hw.diff": "hw_diff_command",
    "hw.sweep": "hw_sweep_command",
    "hw.schema": "hw_schema_command",
    "hw.detect": "hw_command",
    "hw.calibrate": "calibrate_command",
}
"""Each command's module in this package; its function there is called `NAME_command`."""


def invoke(command: str, words: Sequence[str]) -> Answer:
    """Return the answer of a command line. Raises: IsamapError of every kind."""
    if command in ("", *GROUPS) or command not in COMMANDS:
        return _help_or_refusal(command, words)
    function = function_of(command)
    record = record_of(function)
    known = options_of(record, command) if record is not None else {}
    name = f"isamap {command.replace('.', ' ')}"
    given = read_words(name, known, words[command.count(".") + 1 :])
    if given is None:
        return Answer(text=help_page(name, inspect.getdoc(function) or "", known))
    return function(read_record(record, command, given)) if record is not None else function()


def function_of(command: str) -> Callable[..., Answer]:
    """Return the function of a command, from the module that the table names."""
    module = import_module(f"isamap.cli.{COMMANDS[command]}")
    function: Callable[..., Answer] = getattr(module, f"{command.rsplit('.', maxsplit=1)[-1]}_command")
    return function


def record_of(function: Callable[..., Answer]) -> type[Any] | None:
    """Return the class of the record that a command takes, or None for one that takes nothing."""
    taken = list(inspect.signature(function, eval_str=True).parameters.values())
    return taken[0].annotation if taken else None


# --- what is not a command --------------------------------------------------------------------------------


def _help_or_refusal(command: str, words: Sequence[str]) -> Answer:
    group = max((g for g in GROUPS if command == g or command.startswith(f"{g}.")), key=len, default="")
    if not words:
        from isamap.cli.begin_command import suggest_next

        return Answer(text=suggest_next(Path()))
    rest = list(words[group.count(".") + 1 :] if group else words)
    if not rest or rest[0] in ("--help", "-h"):
        return Answer(text=_overview(group))
    given = rest[0]
    known = [c.removeprefix(f"{group}.") for c in COMMANDS if not group or c.startswith(f"{group}.")]
    names = list(dict.fromkeys(c.split(".")[0] for c in known))
    what = "option" if given.startswith("-") else "command"
    raise UsageProblem.of(
        f"unknown-{what}",
        f"`{' '.join(['isamap', *group.split('.')]).rstrip()}` has no {what} `{given[:80]}`",
        notes=(f"commands: {', '.join(names)}",),
        help=did_you_mean(given, names) if what == "command" else "options follow the command",
    )


def _overview(group: str) -> str:
    """Return the commands of a group with their descriptions, one per line."""
    lines = [f"usage: {' '.join(['isamap', *group.split('.'), 'COMMAND']).replace('  ', ' ')} …", ""]
    for command in COMMANDS:
        if command.startswith(f"{group}.") or not group:
            summary = (inspect.getdoc(function_of(command)) or "").splitlines()[0]
            lines.append(f"  {command.replace('.', ' '):<12} {summary}")
    options = "`isamap COMMAND --help` lists a command's options; `--json` gives any answer as JSON."
    return "\n".join(
        [
            *lines,
            "",
            options,
            "`isamap --version` prints the version. `--install-completion` completes commands in your shell.",
        ]
    )
