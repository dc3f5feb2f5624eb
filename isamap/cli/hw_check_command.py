"""`isamap hw check`: check a description; with `--run`, compare instructions with their stated meanings.

Instructions run here, emulated, or as plain-C models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from isamap.cli.answers import Answer, Finding
from isamap.cli.early_words import read_emulator
from isamap.cli.option_parser import EMULATOR, MACHINE_ARGUMENT, CommandOptions, flag
from isamap.driver.inputs import machine_of
from isamap.run.child import Emulator
from isamap.source import Diagnostic, MissingTool, UsageProblem, asdict, dataclass, replace
from isamap.source.progress import Progress


def check_on_hardware(
    name: str, payload: Mapping[str, object], text: str, emulator: Emulator | None = None
) -> Answer:
    """Return the answer of a check that executed every instruction."""
    from isamap.driver.runnable import is_model
    from isamap.machine import load_machine, missing_features
    from isamap.run.child import emulator_for
    from isamap.run.conformance import check_machine

    machine = load_machine(name)
    emulator = emulator_for(machine, emulator)
    missing = missing_features(machine) if emulator is None else ()
    model = is_model(machine, missing, emulator)
    with Progress() as progress:
        progress("trying instructions")
        checks = check_machine(machine, model=model, emulator=emulator)
    bad = [check for check in checks if check.verdict in ("wrong", "crashed")]
    counts = Counter(check.verdict for check in checks)
    ran_on = "model" if model else "native" if emulator is None else "emulator"
    results = [
        {"instruction": c.instruction, "verdict": c.verdict, "message": c.message, "trials": c.trials}
        for c in checks
    ]
    lines = [text]
    if missing:
        lines.append(f"this processor lacks {', '.join(missing)}: their plain-C models were tried")
    said = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
    lines.append(f"{sum(c.trials for c in checks)} trials on {ran_on}: {said}")
    lines += [f"skipped {c.instruction}: {c.message}" for c in checks if c.verdict == "skipped"][:20]
    findings = tuple(Finding.of(c.diagnostic(machine)) for c in bad)
    under = str(emulator) if emulator is not None else None
    found = {**payload, "ran_on": ran_on, "emulator": under, "checks": results}
    return Answer(found, "\n".join(lines), findings, 1 if bad else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions(CommandOptions):
    """The options of `hw check`."""

    name: str = MACHINE_ARGUMENT.field()
    run: bool = flag("--run", "Also run each instruction and compare it with its meaning.")
    emulator: str | None = EMULATOR.field()
    calls: bool = flag(
        "--calls/--no-calls", "Have a C compiler read the calls of instructions.", default=True
    )


def check_command(asked: CheckOptions) -> Answer:
    """Check a machine's description."""
    from isamap.machine import check_machine

    if asked.emulator is not None and not asked.run:
        said, help_ = "`--emulator` runs instructions, and without `--run` none is", "add `--run`"
        raise UsageProblem.of("usage", said, help=help_)
    under = read_emulator(asked.emulator)
    word = machine_of(asked.name)
    summary = check_machine(word)
    odd = tuple(Finding(told, text) for told, text in summary.warnings)
    read_by, unread = _read_calls(word, summary.digest) if asked.calls else (None, ())
    findings = (*odd, *_far_from_measured(word, summary.digest), *unread)
    payload: dict[str, object] = {**asdict(summary), "calls_read_by": read_by}
    del payload["warnings"]  # they are findings
    counts = f"{summary.memories} memories, {summary.units} units, {summary.instructions} instructions"
    text = f"{summary.name}: fine; {counts}"
    if not asked.run:
        return Answer(payload, text, findings)

    answer = check_on_hardware(word, payload, text, under)
    return replace(answer, findings=(*findings, *answer.findings))


def _read_calls(name: str, digest: str) -> tuple[str | None, tuple[Finding, ...]]:
    """Return the compiler that accepted the calls of a description, or None with a note.

    Raises: CompilerRefused, which names the instructions to blame.
    """
    from isamap.run.conformance import check_calls

    try:
        return check_calls(name, digest), ()
    except MissingTool as missing:
        first = missing.diagnostics[0]
        said = f"no C compiler has read the calls of this description: {first.message}"
        note = Diagnostic("calls-unread", said, severity="note", notes=first.notes, help=first.help)
        return None, (Finding.of(note),)


def _far_from_measured(name: str, digest: str) -> tuple[Finding, ...]:
    """Return a warning if a parameter differs much from the value measured here."""
    from isamap.tune.store import newest_profile

    profile = newest_profile(digest)
    if profile is None:
        return ()
    from isamap.machine import load_machine
    from isamap.tune.overlay import warnings

    return tuple(Finding.of(w) for w in warnings(load_machine(name), profile))
