"""The table of commands. Typer imports only the requested one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from isamap.cli.answers import Answer
from isamap.cli.options import options_of, parameters, read_record
from isamap.cli.words import GROUPS
from isamap.source import Diagnostic, UsageProblem, did_you_mean

_HOMES: dict[str, str] = {
    "compile": "compile_command",
    "import": "import_command",
    "graph.show": "graph_command",
    "match": "match_command",
    "schedule": "schedule_command",
    "schedule.diff": "schedule_command",
    "accesses": "accesses_command",
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
    "tune.gather": "learning_command",
    "tune.train": "learning_command",
    "cache.list": "cache_command",
    "cache.clear": "cache_command",
    "cache.verify": "cache_command",
    "bench.deepbench.gemm": "bench_command",
    "bench.deepbench.gru": "bench_command",
    "bench.deepbench.lstm": "bench_command",
    "bench.deepbench.rnn": "bench_command",
    "bench.deepbench.conv": "bench_command",
    "bench.deepbench.sparse": "bench_command",
    "bench.layers.resnet50": "bench_command",
    "bench.layers.mobilenet": "bench_command",
    "bench.layers.transformer": "bench_command",
    "hw.new": "hw_begin_command",
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
    if command in ("", *GROUPS) or command not in _HOMES:
        return _help_or_refusal(command, words)
    import typer

    app = _empty_app()
    target = app
    *group, name = command.split(".")
    for word in group:
        inner = _empty_app()
        target.add_typer(inner, name=word)
        target = inner
    target.command(name)(_parsed(command))
    usage_error: type[Exception] = typer.BadParameter.__mro__[
        2
    ]  # what all complaints about words derive from
    try:
        result: Any = typer.main.get_command(app).main(
            args=list(words), prog_name="isamap", standalone_mode=False
        )
    except usage_error as error:
        raise _usage(command, error) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, Answer) else Answer(exit=int(result or 0))


def _empty_app() -> Any:
    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

    def group() -> None:
        """Keep typer from taking a single command for the whole."""

    app.callback()(group)
    return app


def _function(command: str) -> Callable[..., Answer]:
    module = import_module(f"isamap.cli.{_HOMES[command]}")
    function: Callable[..., Answer] = getattr(module, f"{command.rsplit('.', maxsplit=1)[-1]}_command")
    return function


def record_of(function: Callable[..., Answer]) -> type[Any] | None:
    """Return the class of the record that a command takes; None for one that takes nothing."""
    taken = list(inspect.signature(function, eval_str=True).parameters.values())
    return taken[0].annotation if taken else None


def _parsed(command: str) -> Callable[..., Answer]:
    """Return a command with a parameter for each option, as typer reads it."""
    function = _function(command)
    record = record_of(function)
    if record is None:
        return function

    def perform(**given: Any) -> Answer:
        return function(read_record(record, command, given))

    taken = parameters(record, command)
    perform.__dict__["__signature__"] = inspect.Signature(taken)
    perform.__annotations__ = {one.name: one.annotation for one in taken}
    perform.__doc__ = function.__doc__
    return perform


# --- what is not a command --------------------------------------------------------------------------------


def _help_or_refusal(command: str, words: Sequence[str]) -> Answer:
    group = max((g for g in GROUPS if command == g or command.startswith(f"{g}.")), key=len, default="")
    rest = list(words[group.count(".") + 1 :] if group else words)
    if not rest or rest[0] in ("--help", "-h"):
        return Answer(text=_overview(group))
    given = rest[0]
    known = [c.removeprefix(f"{group}.") for c in _HOMES if not group or c.startswith(f"{group}.")]
    names = list(dict.fromkeys(c.split(".")[0] for c in known))
    what = "option" if given.startswith("-") else "command"
    raise UsageProblem(
        Diagnostic(
            f"unknown-{what}",
            f"`{' '.join(['isamap', *group.split('.')]).rstrip()}` has no {what} `{given[:80]}`",
            notes=(f"commands: {', '.join(names)}",),
            help=did_you_mean(given, names) if what == "command" else "options stand behind the command",
        )
    )


def _overview(group: str) -> str:
    """Return the commands with what they do, in one line each."""
    lines = [f"usage: {' '.join(['isamap', *group.split('.'), 'COMMAND']).replace('  ', ' ')} …", ""]
    for command in _HOMES:
        if command.startswith(f"{group}.") or not group:
            summary = (inspect.getdoc(_function(command)) or "").splitlines()[0]
            lines.append(f"  {command.replace('.', ' '):<12} {summary}")
    options = "`isamap COMMAND --help` lists a command's options; `--json` gives any answer as JSON."
    return "\n".join([*lines, "", options, "`isamap --version` says which version this is."])


def _usage(command: str, error: Any) -> UsageProblem:
    """Return the error that typer reports, in our words; those of typer differ between its versions."""
    name = f"isamap {command.replace('.', ' ')}"
    see = f"see `{name} --help`"
    kind = type(error).__name__
    if kind == "NoSuchOption":
        known = _options(command)
        return _refusal(
            "unknown-option",
            f"`{name}` has no option `{error.option_name}`",
            did_you_mean(error.option_name, known) or see,
        )
    if kind == "MissingParameter" and error.param is not None:
        option = error.param.param_type_name == "option"
        what = f"the option {error.param.opts[0]}" if option else f"a {str(error.param.name).rstrip('s')}"
        return _refusal("missing-argument", f"`{name}` needs {what}", see)
    if kind == "BadOptionUsage":
        return _refusal("option-value", f"{error.option_name} needs a value", see)
    message: str = error.format_message()
    if (extra := re.search(r"extra arguments?(?:\(s\))? \((.*)\)", message)) is not None:
        return _refusal("usage", f"`{name}` does not take the word `{extra[1].split()[0]}`", see)
    return _refusal("usage", f"`{name}`: {message[:1].lower()}{message[1:].rstrip('.')}", see)


def _options(command: str) -> list[str]:
    """Return all flags of a command as they are written."""
    record = record_of(_function(command))
    options = options_of(record, command).values() if record is not None else ()
    return [word for one in options for flag in one.flags for word in flag.split("/")]


def _refusal(code: str, message: str, advice: str) -> UsageProblem:
    return UsageProblem(Diagnostic(code, message, help=advice))
