"""`isamap cache`: list cached results, check their integrity, and clear them."""

from __future__ import annotations

from isamap.cli.answers import Answer, Finding
from isamap.cli.option_parser import CommandOptions, argument
from isamap.report.columns import align
from isamap.source import Diagnostic, UsageProblem, dataclass
from isamap.source.cache import CacheKind, cache_root, clear, kinds, list_damaged
from isamap.tune.implementation_choices import ChoiceDatabase
from isamap.tune.winners import Winners

# What is cleared only by its name: it took measuring, and lies in the data folder.
TUNING = "tuning"


def list_command(_asked: CommandOptions) -> Answer:
    """List the content of the cache, and the number of tuned schedules."""
    found = kinds()
    lines = [("kind", "entries", "size", "last used")]
    lines += [
        (kind.name, str(kind.entries), _size(kind.size_bytes), f"{kind.idle_days:.1f} days ago")
        for kind in found
    ]
    total = f"{sum(kind.entries for kind in found)} entries, {_size(sum(kind.size_bytes for kind in found))}"
    text = f"{cache_root()}\n\n{align(lines)}\n\n{total}"
    database = Winners.open()
    winners, choices = len(database.all()), ChoiceDatabase.open().count()
    payload = {**_payload(found), "tuning": _describe_tuning(database, winners, choices)}
    if winners:
        text += f"\n{database.path}: {_count(winners)}, {_size(database.size_bytes())}"
    if choices:
        text += f"\n{ChoiceDatabase.open().path}: {_choose_kind(choices)}"
    return Answer(payload, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearOptions(CommandOptions):
    """The options of `cache clear`."""

    kind: str | None = argument("KIND", "What to clear; everything but `tuning` by default.", default=None)


def clear_command(asked: ClearOptions) -> Answer:
    """Delete the content of the cache, or one kind of it, such as `tuning` for measured results."""
    database, kind = Winners.open(), asked.kind
    if kind == TUNING:
        count, choices = database.clear(), ChoiceDatabase.open().clear()
        text = f"cleared {_count(count)}" + (f" and {_choose_kind(choices)}" if choices else "")
        return Answer({**_payload(()), "tuning": _describe_tuning(database, count, choices)}, text)
    if kind is not None and kind not in [known.name for known in kinds()]:
        raise UsageProblem.of(
            "cache-kind",
            f"the cache has no kind called `{kind[:80]}`",
            help="`isamap cache list` lists the kinds; without a name, all are cleared",
        )
    gone = clear(kind)
    freed = _size(sum(k.size_bytes for k in gone))
    text = f"cleared {sum(k.entries for k in gone)} entries, {freed}"
    if kind is None and (left := len(database.all())):
        text += f"; not cleared: {_count(left)} (`isamap cache clear {TUNING}`)"
    return Answer(_payload(gone), text)


def verify_command(_asked: CommandOptions) -> Answer:
    """Compare the content of the cache with its digests."""
    wrong = list_damaged()
    findings = tuple(
        Finding.of(
            Diagnostic(
                "cache-damaged",
                f"{path} has changed since it was stored",
                severity="warning",
                notes=("its sha256 differs from its name; it is never used",),
                help=f"`isamap cache clear {path.parents[1].name}` deletes it",
            )
        )
        for path in wrong
    )
    said = f"{len(wrong)} damaged" if wrong else "nothing is damaged"
    return Answer(
        {**_payload(kinds()), "damaged": [str(p) for p in wrong]}, said, findings, 1 if wrong else 0
    )


def _describe_tuning(database: Winners, winners: int, choices: int) -> dict[str, object]:
    return {
        "path": str(database.path),
        "winners": winners,
        "choices": choices,
        "size_bytes": database.size_bytes(),
    }


def _choose_kind(choices: int) -> str:
    return f"{choices} choice{'' if choices == 1 else 's'} between kernels and library calls"


def _count(winners: int) -> str:
    return f"{winners} tuned schedule{'' if winners == 1 else 's'}"


def _payload(found: tuple[CacheKind, ...]) -> dict[str, object]:
    return {
        "folder": str(cache_root()),
        "kinds": [{"kind": k.name, "entries": k.entries, "size_bytes": k.size_bytes} for k in found],
    }


def _size(size_bytes: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes} B"
