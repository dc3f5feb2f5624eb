"""Completion of command lines in bash, zsh and fish.

    isamap --install-completion bash          write the script, and a line that reads it to ~/.bashrc
    isamap --show-completion zsh              print the script
    isamap --complete hw ch                   ->   check

The scripts hold nothing that changes: they ask `isamap --complete` with the words up to the cursor, the last one
perhaps empty. If it says nothing, the shell completes names of files.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from isamap.cli.answers import Answer
from isamap.cli.commands import COMMANDS, function_of, record_of
from isamap.cli.early_words import GROUPS, find_command
from isamap.cli.option_parser import options_of
from isamap.driver.options import Option
from isamap.source import UsageProblem, cannot_write, did_you_mean, read_limited, replace_file

_SHELLS = ("bash", "zsh", "fish")
SCRIPTS: Mapping[str, str] = {
    shell: Path(__file__).with_name(f"completion.{shell}").read_text(encoding="utf-8") for shell in _SHELLS
}
FLAGS = ("--help", "--install-completion", "--show-completion", "--version")
_MOST_OF_RC = 1 << 20


def complete(words: Sequence[str]) -> list[str]:
    """Return the words that may replace the last one, or [] if file names may."""
    before, begun = list(words[:-1]), words[-1] if words else ""
    command = find_command(before)
    if command in COMMANDS and (begun or command not in GROUPS):
        found = _of_command(command, before[command.count(".") + 1 :], begun)
    elif command in ("", *GROUPS):
        found = []
    else:
        return []
    if all(not word.startswith("-") for word in before):
        start = [*command.split(".")] if command else []
        known = [name.split(".") for name in COMMANDS]
        if len(start) == len(before):
            found += [name[len(start)] for name in known if name[: len(start)] == start != name]
    if not before:
        found += FLAGS
    return [word for word in dict.fromkeys(found) if word.startswith(begun)]


def _of_command(command: str, before: Sequence[str], begun: str) -> list[str]:
    """Return the completions of a command's options: values after an option that takes one, else flags or words."""
    record = record_of(function_of(command))
    known = list(options_of(record, command).values()) if record is not None else []
    last = before[-1] if before else ""
    if one := next((one for one in known if last in one.flags and not one.kind.flag), None):
        return _values(one)
    if begun.startswith("-"):
        return [flag for one in known for flags in one.flags for flag in flags.split("/")] + ["--help"]
    return [word for one in known if not one.flags for word in _values(one)]


def _values(one: Option) -> list[str]:
    """Return the values of an option: machines, kernels, or its allowed words."""
    if one.metavar == "MACHINE":
        from isamap.machine import list_machines

        return [*list_machines(), "host"]
    if "kernel" in one.metavar.lower():
        from isamap.kernels import list_kernels

        return list(list_kernels())
    return list(one.kind.choices)


def completion_command(words: Sequence[str]) -> Answer:
    """Print a shell's completion script, or install it: a file, and for bash and zsh a line that reads it.

    Raises: UsageProblem for another shell, and where a file cannot be written.
    """
    shell = words[1] if len(words) > 1 else Path(os.environ.get("SHELL", "")).name
    if shell not in SCRIPTS or len(words) > 2:
        said = f"{words[0]} takes one of {', '.join(SCRIPTS)}, not `{' '.join(words[1:]) or shell}`"
        help_ = did_you_mean(shell, SCRIPTS) or f"write `isamap {words[0]} bash`"
        raise UsageProblem.of("option-value", said, help=help_)
    if words[0] == "--show-completion":
        return Answer({"shell": shell, "script": SCRIPTS[shell]}, SCRIPTS[shell])
    home = Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    path = config / "fish/completions/isamap.fish" if shell == "fish" else data / f"isamap/completion.{shell}"
    changed = [path]
    _write(path, SCRIPTS[shell])
    if shell != "fish":
        folder = Path(os.environ.get("ZDOTDIR") or home) if shell == "zsh" else home
        changed += _add_line(folder / f".{shell}rc", path)
    lines = [*(f"wrote {file}" for file in changed), f"completion works in the next {shell} that you start"]
    return Answer({"shell": shell, "files": [str(file) for file in changed]}, "\n".join(lines))


def _add_line(startup: Path, script: Path) -> list[Path]:
    """Add a line that reads the script to the shell's start file. Return the file, or [] if it had the line."""
    line = f"[ -r {shlex.quote(str(script))} ] && . {shlex.quote(str(script))}"
    try:
        old = (
            read_limited(startup, _MOST_OF_RC).decode("utf-8", "surrogateescape") if startup.exists() else ""
        )
    except OSError as error:
        raise cannot_write(startup, error) from None
    if line in old.splitlines():
        return []
    if len(old) > _MOST_OF_RC:
        raise UsageProblem.of("option-value", f"{startup} is too long", help=f"add `{line}` to it")
    _write(startup, f"{old}{'' if old.endswith(chr(10)) or not old else chr(10)}{line}\n")
    return [startup]


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        replace_file(path.resolve(), text.encode("utf-8", "surrogateescape"), mode)
    except OSError as error:
        raise cannot_write(path, error) from None
