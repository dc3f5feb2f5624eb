"""The request of a compilation, and the digest of all inputs that its result depends on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.driver.inputs import find_profile, given_text, read_file
from isamap.driver.options import (
    FLAG,
    NAMES,
    WORD,
    OptionKind,
    as_number,
    count,
    given_items,
    given_word,
    list_options,
    one_of,
    option,
    plugin,
    seconds_in,
    wrong_value,
)
from isamap.machine import machine_digest
from isamap.source import Source, UsageProblem, is_digits, show_value, truth_value, whole_number
from isamap.source.cache import program_state
from isamap.source.records import dataclass, field, fields
from isamap.version import solver_version

if TYPE_CHECKING:
    from isamap.ir import Kernel, Range
    from isamap.tune.profile import Profile

BEST_FORM = "best"
DEFAULT_COST_MODEL = "analytic"
TIME = "time"
OBJECTIVES = (TIME, "energy", "edp")
BOUNDED = {TIME: DEFAULT_COST_MODEL, "energy": "energy"}
"""The quantities that `--within` bounds, each with the cost model that prices it."""
MOST_FACTOR = 1000.0
MOST_FORMS = 999
MAX_THREADS = 256
# More schedules than this take longer to rank than they are worth.
MOST_SCHEDULES = 1000
# Each takes a compiler's time and half a second of measuring.
MOST_TUNED = 100
# Units: seconds of wall clock.
MIN_LIMIT_S, MAX_LIMIT_S = 0.1, 3600
Size = int | str
"""A number, the range `1..8192@512`, or one with several profile values: `1..8192@1,35,512`."""
FACTOR = re.compile(r"[0-9]{1,4}([.][0-9]{1,6})?")
NUMBER = re.compile(r"[+-]?[0-9]{1,24}")
_RANGE = re.compile(r"[0-9]{1,24}\.\.[0-9]{1,24}(@[0-9]{1,24}(,[0-9]{1,24}){0,15})?")


def is_range(text: str) -> bool:
    """Return whether a text is a range of sizes such as `1..64@32`."""
    return _RANGE.fullmatch(text) is not None


def given_sizes(sizes: object) -> dict[str, Size]:
    """Return sizes as numbers, or as texts for ranges. Raises: UsageProblem."""
    example = 'write {"M": 1024}, or {"M": "1..8192@512"} for a size that a call gives'
    found: dict[str, Size] = {}
    for name, value in given_items("sizes", {} if sizes is None else sizes, "size-syntax", example):
        number = whole_number(value)
        if number is not None:
            found[name] = number
        elif isinstance(value, str) and is_range(value):
            found[name] = str(value)
        else:
            said = f'`{name}` is a whole number, or a range such as "1..8192@512", not {show_value(value)}'
            raise UsageProblem.of("size-syntax", said, help=as_number(name, value))
    return found


def given_fixes(name: str, fix: object) -> dict[str, int | None]:
    """Return fixed decisions as numbers. None keeps the schedule's value. Raises: UsageProblem."""
    example = 'write {"block.k": 256}'
    found: dict[str, int | None] = {}
    for decision, value in given_items(name, {} if fix is None else fix, "fix-syntax", example):
        found[decision] = whole_number(value)
        if found[decision] is None and value is not None:
            said = f"`{name}` takes a whole number for `{decision}`, not {show_value(value)}"
            raise UsageProblem.of("fix-syntax", said, help=as_number(decision, value) or example)
    return found


def given_form(name: str, value: object) -> str | None:
    """Return a variant of a kernel: `best` for True, its number, or None for the kernel as written.

    Raises: UsageProblem.
    """
    truth, number = truth_value(value), whole_number(value)
    if truth is not None:
        return BEST_FORM if truth else None
    if number is None or not 1 <= number <= MOST_FORMS:
        raise wrong_value(name, f"True, False, or a whole number from 1 to {MOST_FORMS}", value)
    return str(number)


def read_within(word: str, flag: str) -> str:
    """Return a normalised bound such as `time=1.1`, or "" for none. Raises: UsageProblem."""
    name, _, factor = word.partition("=")
    if word and (
        name not in BOUNDED or not FACTOR.fullmatch(factor) or not 1 <= float(factor) <= MOST_FACTOR
    ):
        said = (
            f"{flag} takes {' or '.join(BOUNDED)} and a factor from 1 to {MOST_FACTOR:g}, not `{word[:40]}`"
        )
        raise UsageProblem.of("option-value", said, help="write `time=1.1`")
    return f"{name}={float(factor):g}" if word else ""


def read_bound(within: str) -> tuple[str, float]:
    """Return the cost model of a bound, and its factor."""
    name, _, factor = within.partition("=")
    return BOUNDED[name], float(factor)


def read_form(word: str, _flag: str) -> str:
    """Return the variant that `--transform` names: `best`, or a number. Raises: UsageProblem."""
    if word == BEST_FORM or (is_digits(word) and len(word) < 9 and 1 <= int(word) <= MOST_FORMS):
        return word
    raise UsageProblem.of(
        "option-value",
        f"--transform takes the number of a rewrite, not `{word[:40]}`",
        help="`isamap match --transform --all` lists them",
    )


def read_fixes(words: Iterable[str], _flag: str) -> dict[str, int | None]:
    """Return the fixed decisions from NAME=NUMBER words. NAME alone keeps the value of a given schedule.

    Raises: UsageProblem.
    """
    fixed: dict[str, int | None] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name and not equals:
            fixed.setdefault(name, None)
            continue
        if not name or not NUMBER.fullmatch(value):
            raise UsageProblem.of(
                "fix-syntax",
                f"`{word[:80]}` is not DECISION=NUMBER",
                help="write `--fix nest0.block.k=256`; with --schedule, `--fix block` keeps its blocks",
            )
        number, before = int(value), fixed.get(name)
        if before not in (None, number):
            said = f"`{name}` is fixed twice: to {before}, and to {number}"
            raise UsageProblem.of("fix-twice", said, help="leave one of them out")
        fixed[name] = number
    return fixed


def given_schedule(name: str, schedule: object) -> Source | None:
    """Return the text of a schedule, from a file or as given. Raises: UsageProblem."""
    if schedule is None:
        return None
    found = given_text(name, schedule, "a path or a text") or Source(name, "")
    return found if isinstance(found, Source) else read_file(Path(found), str(found))


_SCHEDULE = OptionKind(
    lambda word, _: read_file(Path(word), word),
    given_schedule,
    said=lambda source: sha256(source.text) if source else None,
)
_FIXES = OptionKind(read_fixes, given_fixes, many=True, said=lambda fixed: dict(sorted(fixed.items())))
_PROFILE = OptionKind(
    lambda word, _: word, lambda n, value: given_word(n, value, 'a path, "default" or "none"')
)
WITHIN = OptionKind(read_within, lambda name, value: read_within(given_word(name, value, "`time=1.1`"), name))
_EMITTING = "compile run verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Scheduling and emission options, shared by `compile`, `run`, `verify` and `schedule`.

    `schedule` is a text to replay. `fixed` are decisions that a person has made (None: as the text has
    them; with both, the others are solved). `transform` names a rewrite of the kernel by number, or asks for
    the best. `evaluate` names the evaluator that chooses among the `best` cheapest schedules, "" for the cost
    model alone. `tune` is the number of schedules to measure, 0 for none. `packed` are inputs that the caller
    passes packed, by a program that is emitted with the kernel's. `cache` allows cached results.
    Units: `limit_s` and `tune_limit_s` in seconds of wall clock.
    """

    schedule: Source | None = option(
        "--schedule",
        "FILE",
        "Replay this schedule.",
        _SCHEDULE,
        default=None,
        key="schedule_sha256",
        echo="always",
        commands=f"{_EMITTING} accesses",
    )
    heuristic: str = option(
        "--heuristic",
        "NAME",
        "How to schedule: cpsat, annealing, or greedy, which is quick.",
        plugin("heuristic"),
        default="cpsat",
        echo="always",
        commands="compile run accesses bench.model",
    )
    cost_model: str = option(
        "--cost-model",
        "NAME",
        "The cost model that ranks schedules.",
        plugin("cost model"),
        default=DEFAULT_COST_MODEL,
        echo="always",
        commands=f"{_EMITTING} schedule schedule.diff accesses",
    )
    objective: str = option(
        "--objective",
        "NAME",
        "What schedules are chosen for: time, energy, or edp, their product.",
        one_of(*OBJECTIVES),
        default=TIME,
        python="objective",
        echo="given",
        commands=f"{_EMITTING} schedule accesses",
    )
    within: str = option(
        "--within",
        "NAME=FACTOR",
        "Take at most so many times the least time, or energy: time=1.1, energy=1.05.",
        WITHIN,
        default="",
        python="within",
        echo="given",
        commands=f"{_EMITTING} schedule accesses",
    )
    limit_s: float = option(
        "--limit",
        "SECONDS",
        "Longest time for the solver.",
        seconds_in(MIN_LIMIT_S, MAX_LIMIT_S),
        default=10.0,
        echo="always",
        commands=f"{_EMITTING} schedule accesses graph.show bench.model",
    )
    fixed: Mapping[str, int | None] = option(
        "--fix",
        "DECISION=NUMBER",
        "Fix a decision: --fix block.k=256; with --schedule, --fix unroll keeps its value.",
        _FIXES,
        default={},
        python="fix",
        echo="always",
        commands=f"{_EMITTING} schedule accesses",
    )
    threads: int = option(
        "--threads",
        "N",
        "How many threads perform the kernel.",
        count(1, MAX_THREADS),
        default=1,
        echo="always",
        commands=f"{_EMITTING} schedule bench.model",
    )
    packed: tuple[str, ...] = option(
        "--packed",
        "OPERAND",
        "An input that a separate emitted program packs once, in advance; may be repeated.",
        NAMES,
        default=(),
        echo="always",
        commands=f"{_EMITTING} schedule",
    )
    cold: bool = option(
        "--cold",
        "",
        "Each call's operands are in no cache yet.",
        FLAG,
        default=False,
        echo="given",
        commands="compile schedule schedule.diff",
    )
    model: bool = option(
        "--model",
        "",
        "Emit plain-C models of the instructions instead of the instructions.",
        FLAG,
        default=False,
        echo="always",
        commands=_EMITTING,
    )
    transform: str | None = option(
        "--transform",
        "[N]",
        "Rewrite the kernel, or a model's convolutions, if that is faster; N: variant N of `match --transform`.",
        OptionKind(read_form, given_form),
        default=None,
        echo="always",
        commands=f"{_EMITTING} bench.model",
    )
    profile_name: str = option(
        "--profile",
        "PROFILE",
        "Measured parameters: a file of `isamap hw calibrate`, none, or default, the newest measured here, "
        "else those shipped for this processor.",
        _PROFILE,
        default="default",
        python="profile",
        commands=f"{_EMITTING} schedule schedule.diff",
    )
    evaluate: str = option(
        "--evaluate",
        "NAME",
        "Let simulated, measured or a plug-in choose among the schedules that --best asks for.",
        plugin("evaluator"),
        default="",
        echo="given",
        commands="compile run",
    )
    best: int = option(
        "--best",
        "COUNT",
        "How many of the cheapest schedules by the cost model.",
        count(1, MOST_SCHEDULES),
        default=1,
        echo="given",
        commands="compile run schedule",
    )
    tune: int = option(
        "--tune",
        "[N]",
        "Measure the model's N best schedules, 8 by default; take and keep the fastest.",
        count(2, MOST_TUNED, none=True),
        default=0,
        echo="given",
        commands="compile run",
    )
    tune_limit_s: float = option(
        "--tune-limit",
        "SECONDS",
        "Longest time for measuring with --tune.",
        seconds_in(0.1, 86400),
        default=120.0,
        echo="given",
        commands="compile run",
    )
    scheduler: str = option(
        "--scheduler",
        "ADDRESS",
        "Tune, or compile the kernels of a model, on the cluster of this scheduler of Dask, as tcp://head:8786.",
        WORD,
        default="",
        commands="compile",
    )
    search: str = option(
        "--search",
        "NAME",
        "What proposes the N schedules of --tune: annealing, genetic, policy, or an installed one.",
        plugin("searcher"),
        default="",
        echo="given",
        commands="compile run",
    )
    tuned: bool = option(
        "--tuned",
        "",
        "Use the schedule that --tune has stored.",
        FLAG,
        default=False,
        echo="given",
        commands="compile run",
    )
    cache: bool = option(
        "--no-cache",
        "",
        "Compile anew: read no cached result, and cache none. By default equal requests are answered from the "
        "cache. Checks of machine descriptions are cached in either case.",
        FLAG,
        default=True,
        commands="compile run schedule graph.show bench.model",
    )

    @property
    def measures(self) -> bool:
        """Return whether the result depends on measurements in addition to the request."""
        return bool(self.evaluate or self.tune or self.tuned)

    def options(self) -> dict[str, object]:
        """Return the options on which the result depends, as JSON."""
        return {
            one.key or name: one.kind.said(getattr(self, name))
            for name, one in list_options(Choices).items()
            if one.echo == "always" or (one.echo == "given" and getattr(self, name) != one.default)
        }


@dataclass(frozen=True, slots=True)
class Request(Choices):
    """A compilation request: a kernel's text, a machine by name or path, sizes as written, and options.

    `profile` holds the measured parameters that `profile_name` names; they replace the machine's stated ones.
    """

    kernel: Source
    machine: str
    sizes: Mapping[str, Size]
    profile: Profile | None = field(default=None, kw_only=True)

    def options(self) -> dict[str, object]:
        """Return the options of the request as JSON, without kernel, machine and sizes."""
        return Choices.options(self) | {"profile": self.profile.digest if self.profile else None}


def take_choices(given: Mapping[str, object]) -> Choices:
    """Return the options that keyword arguments of a Python call give. Raises: UsageProblem, TypeError."""
    known = {one.python or name: (name, one) for name, one in list_options(Choices).items()}
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(f"there is no option `{unknown[0]}`; there are {', '.join(sorted(known))}")
    return Choices(**{known[name][0]: known[name][1].take(name, value) for name, value in given.items()})


def make_request(
    kernel: Source, machine: str, sizes: Mapping[str, Size], choices: Choices, dash: str = "--"
) -> Request:
    """Return the request for a kernel on a machine, with its profile. Raises: UsageProblem.

    `dash` is the prefix of option names in messages.
    """
    check_choosers(choices, dash)
    chosen = {f.name: getattr(choices, f.name) for f in fields(Choices)}
    chosen["cost_model"] = _model_of(choices, dash)
    return Request(kernel, machine, sizes, profile=find_profile(choices.profile_name, machine), **chosen)


def _model_of(choices: Choices, dash: str) -> str:
    """Return the cost model of an objective. Raises: UsageProblem if another one is also chosen."""
    if choices.objective == TIME and not choices.within:
        return choices.cost_model
    if choices.cost_model != DEFAULT_COST_MODEL:
        said = f"`{dash}cost-model {choices.cost_model}` and `{dash}objective` both define the cost"
        raise UsageProblem.of("usage", said, help="leave out one of them")
    return DEFAULT_COST_MODEL if choices.objective == TIME else choices.objective


def check_choosers(choices: Choices, dash: str) -> None:
    """Refuse combinations in which two options choose a schedule or one has no effect. Raises: UsageProblem."""
    choosers = {"schedule": choices.schedule is not None, "evaluate": bool(choices.evaluate),
                "tune": choices.tune > 0, "tuned": choices.tuned}  # fmt: skip
    found = [f"{dash}{name}" for name, is_given in choosers.items() if is_given]
    if choices.search and not choices.tune:
        named = f"{dash}search {choices.search}" if dash else f'search="{choices.search}"'
        said = f"`{named}` proposes schedules for `{dash}tune`, which is not given"
        raise UsageProblem.of(
            "usage", said, help=f"add `{dash}tune{' ' if dash else '='}24`, or leave it out"
        )
    if choices.scheduler and not choices.tune:
        said = f"`{dash}scheduler` distributes the rounds of `{dash}tune`, which is not given"
        raise UsageProblem.of("usage", said, help=f"add `{dash}tune`, or leave it out")
    if choices.cold:
        refuse_cold([option for option in found if choices.schedule is None or option != found[0]], dash)
    if len(found) > 1 and (choices.tune or choices.tuned):
        said = f"`{found[0]}` and `{found[1]}` both select the schedule"
        raise UsageProblem.of("usage", said, help="leave out one of them")
    if choices.schedule is None and None in choices.fixed.values():
        kept = next(name for name, number in choices.fixed.items() if number is None)
        said = f"`{dash}fix` keeps `{kept}` as the schedule has it, and there is no `{dash}schedule`"
        help_ = f"give it a number, or give a `{dash}schedule`"
        raise UsageProblem.of("fix-syntax", said, help=help_)


def refuse_cold(measuring: list[str], dash: str = "--") -> None:
    """Refuse `--cold` together with an option that measures warm calls. Raises: UsageProblem."""
    if measuring:
        goes_by = f"what `{measuring[0]}` measures finds them in caches"
        said = f"`{dash}cold` states that operands are in no cache, and {goes_by}"
        help_ = "leave out one of them; `isamap bench deepbench --cache rotate` measures with cold operands"
        raise UsageProblem.of("usage", said, help=help_)


def request_key(request: Request) -> str:
    """Return the sha256 of everything that the result depends on. Raises: as `machine_digest`."""
    name = request.kernel.name
    sizes = dict(sorted(request.sizes.items()))
    parts = [program_state(), solver_version(), machine_digest(request.machine), request.machine, name]
    parts += [request.kernel.text, json.dumps(sizes), json.dumps(request.options())]
    return sha256(json.dumps(parts))


def sha256(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# --- sizes of a command line ----------------------------------------------------------------------------


def read_size(value: Size) -> int | Range:
    """Return the size for a number or the text of a range. Raises: UsageProblem for several profile values."""
    if isinstance(value, int):
        return value
    low, high, profiles = read_profiles(value)
    if len(profiles) > 1:
        raise UsageProblem.of(
            "several-profiles",
            f"`{value}` has {len(profiles)} profile values, and this command searches one schedule",
            help=f"write `{low}..{high}@{profiles[-1]}`; `compile`, `run` and `verify` take several",
        )
    from isamap.ir import Range  # and with it numpy, which a command that reads no sizes does without

    return Range(low, high, profiles[0] if profiles else None)


def read_profiles(value: str) -> tuple[int, int, tuple[int, ...]]:
    """Return the lowest and the highest value of a range, and its profile values in textual order."""
    low, _, rest = value.partition("..")
    high, _, profiles = rest.partition("@")
    return int(low), int(high), tuple(int(word) for word in profiles.split(",") if word)


def has_versions(sizes: Mapping[str, Size]) -> bool:
    """Return whether some size has several profile values, each of which gets a schedule."""
    return any(isinstance(value, str) and "," in value for value in sizes.values())


def whole_sizes(sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Return the ranges, each with only the largest of its profile values."""
    whole: dict[str, Size] = {}
    for name, value in sizes.items():
        whole[name] = value
        if isinstance(value, str) and "," in value:
            low, high, profiles = read_profiles(value)
            whole[name] = f"{low}..{high}@{max(profiles)}"
    return whole


def complete_sizes(kernel: Kernel, sizes: Mapping[str, Size]) -> dict[str, int | Range]:
    """Return the given sizes, with defaults for the others."""
    defaults = {p.name: p.default for p in kernel.params if p.default is not None and p.dtype is None}
    return {**defaults, **{name: read_size(value) for name, value in sizes.items()}}
