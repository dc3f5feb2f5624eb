"""The part of `isamap hw check --run` that runs instructions: here, emulated, or as plain-C models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from isamap.cli.answer import Answer, Finding
from isamap.cli.progress import Progress
from isamap.codegen.child import Emulator


def check_silicon(
    name: str, payload: Mapping[str, object], text: str, emulator: Emulator | None = None
) -> Answer:
    """The answer of a check that tried every instruction."""
    from isamap.codegen.silicon import check_machine
    from isamap.driver.prepare import is_model
    from isamap.machine import load_machine, missing_features

    machine = load_machine(name)
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
