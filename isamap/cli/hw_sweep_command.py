"""`isamap hw sweep`: predict times while parameters of a description change, on all cores, resumable.

memories.spad.bytes  gemm_u8s8 M=512 N=512 K=512  status   gap
64KiB                                     360 µs  OPTIMAL  0.0 %
128KiB                                    239 µs  OPTIMAL  0.0 %

Each point is predicted on its own first. Then it is offered the schedules of its neighbours, the points with
the next smaller or larger value of one parameter, until no neighbour's schedule costs less there. So a larger
memory, on which a smaller one's schedules are valid, is never slower.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from itertools import islice, product
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from isamap.bench.kept_rows import append_row, open_rows
from isamap.cli.answers import Answer, check_new, write_text
from isamap.cli.kernel_sizes import HEURISTIC, JOBS, SCHEDULER, read_cases, refuse_standard_input
from isamap.cli.model_files import HOST, read_model
from isamap.cli.option_parser import MACHINE_ARGUMENT, CommandOptions, flag, one_word
from isamap.driver.inputs import machine_of
from isamap.driver.options import WORDS, option, read_choice, seconds_in
from isamap.driver.predicted import (
    Predicted,
    PredictedKernel,
    PredictionRequest,
    add_predictions,
    predict_all,
)
from isamap.driver.request import OBJECTIVES, TIME, WITHIN
from isamap.driver.side_by_side import workers_of
from isamap.hw_specs import FOLDER
from isamap.machine import load_machine
from isamap.machine.chain import File, digest_files, read_chain
from isamap.machine.parameter_changes import edit_parameters
from isamap.report.sweeps import Sweep, SweepLine, front_svg, fronts, sweep_csv, sweep_svg, sweep_text
from isamap.source import MissingWords, UsageProblem, dataclass, replace
from isamap.source.cache import digest
from isamap.source.numbers import BYTES_PER_UNIT
from isamap.source.progress import Progress

# --- ranges ---------------------------------------------------------------------------------------------

# Values of `--set PATH=VALUES`: lists, doublings and steps, sizes with their units.
#
# spad.bytes=64KiB..1MiB   ->  64KiB 128KiB 256KiB 512KiB 1MiB
# rows=8..32+8             ->  8 16 24 32
# count=1,2,4              ->  1 2 4


MOST_VALUES = 1000
_NUMBER = rf"(?P<{{0}}>[0-9]{{{{1,12}}}}(?:[.][0-9]{{{{1,9}}}})?)(?P<{{0}}_unit>{'|'.join(BYTES_PER_UNIT)})?"
_ONE = re.compile(_NUMBER.format("value"))
_RANGE = re.compile(rf"{_NUMBER.format('low')}\.\.{_NUMBER.format('high')}(?:\+{_NUMBER.format('step')})?")


@dataclass(frozen=True, slots=True)
class SweptParameter:
    """A parameter of a description and its values in the order of the sweep, as text and as numbers."""

    path: str
    words: tuple[str, ...]
    numbers: tuple[float, ...]


def read_setting(text: str) -> SweptParameter:
    """Return the parameter and the values in a `--set`. Raises: UsageProblem."""
    path, sign, values = text.partition("=")
    if not sign or not path.strip() or not values:
        raise _problem(f"--set takes PATH=VALUES, not `{text[:60]}`")
    words = [word for part in values.split(",") for word in _words(part.strip())]
    if len(words) > MOST_VALUES:
        raise _problem(f"`{text[:60]}` are {len(words)} values; the most are {MOST_VALUES}")
    return SweptParameter(path.strip(), tuple(words), tuple(map(_number, words)))


def _words(part: str) -> list[str]:
    if _ONE.fullmatch(part):
        return [part]
    found = _RANGE.fullmatch(part)
    if found is None:
        raise _problem(f"`{part[:40]}` is not a value")
    low, high = (
        _number(found["low"] + (found["low_unit"] or "")),
        _number(found["high"] + (found["high_unit"] or "")),
    )
    step = _number(found["step"] + (found["step_unit"] or "")) if found["step"] else None
    if low <= 0 or high < low or step == 0:
        raise _problem(f"`{part[:40]}` is not a range from less to more, above 0")
    numbers: list[float] = []
    value = low
    while value <= high and len(numbers) <= MOST_VALUES:
        numbers.append(value)
        value = round(low + len(numbers) * step, 9) if step is not None else 2 * value
    is_size = bool(found["low_unit"] or found["high_unit"])
    return [number_text(number, is_size) for number in numbers]


def number_text(number: float, is_size: bool) -> str:
    """Return a number as text, with sizes in the largest unit that divides them."""
    units = [(unit, size) for unit, size in BYTES_PER_UNIT.items() if is_size and number % size == 0]
    unit, size = max(units, key=lambda pair: pair[1], default=("", 1))
    return f"{number / size:.15g}{unit}"


def _number(word: str) -> float:
    found = _ONE.fullmatch(word)
    assert found is not None, "it was read before"
    return float(found["value"]) * BYTES_PER_UNIT.get(found["value_unit"] or "", 1)


def _problem(said: str) -> UsageProblem:
    advice = "write `memories.spad.bytes=64KiB..1MiB`, `clock_ghz=1..3+0.5` or `units.fma.count=1,2`"
    return UsageProblem.of("option-value", said, help=advice)


# --- hw sweep command -----------------------------------------------------------------------------------


MOST_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A prediction with its kernel and machine. `key` is its name in the file of an earlier run."""

    key: str
    values: Mapping[str, str]
    case: str
    predicted: Predicted

    def as_json(self) -> dict[str, Any]:
        return {"key": self.key, "set": dict(self.values), "kernel": self.case, **self.predicted.as_json()}

    @staticmethod
    def of(kept: Mapping[str, Any]) -> SweepRow:
        """Return the row that a line of JSON describes."""
        names, busy = tuple(kept["instructions"]), kept["utilisation"]
        known = names, busy, kept["refused"] or "", kept["status"], kept["gap"], kept["schedule"]
        stated = kept.get("energy_pj"), kept.get("area_mm2")
        return SweepRow(kept["key"], kept["set"], kept["kernel"], Predicted(kept["ns"], *known, *stated))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions(CommandOptions):
    """The options of `hw sweep`."""

    name: str = MACHINE_ARGUMENT.field()
    settings: tuple[str, ...] = option(
        "--set", "PATH=VALUES",
        "A parameter and its values: memories.spad.bytes=64KiB..1MiB doubles, clock_ghz=1..3+0.5 steps, "
        "units.fma.count=1,2 lists; repeatable.",
        WORDS, default=(),
    )  # fmt: skip
    kernels: tuple[str, ...] = option(
        "--kernel", "'KERNEL SIZES'", "A kernel at sizes, as in 'gemm_f32 M=64 N=64 K=64'; repeatable.",
        WORDS, default=(),
    )  # fmt: skip
    models: tuple[str, ...] = option(
        "--model", "'MODEL SIZES'", "A whole model at sizes, as in 'mlp.onnx batch=4'; repeatable.",
        WORDS, default=(),
    )  # fmt: skip
    host: str | None = HOST.field()
    output: str | None = one_word("-o", "FOLDER", "Keep rows here as they come.")
    resume: bool = flag("--resume", "Go on with the rows that -o has.")
    svg: str | None = one_word("--svg", "FILE", "Draw times over the first --set.")
    objectives: tuple[str, ...] = option(
        "--objective", "NAME", "Choose schedules for time, energy or edp; repeatable, each is a row of its own.",
        WORDS, default=(),
    )  # fmt: skip
    within: str = option(
        "--within", "NAME=FACTOR", "Take at most so many times the least time, or energy, of each point.",
        WITHIN, default="",
    )  # fmt: skip
    front: str | None = one_word("--front", "FILE", "Draw the front of time and energy, or area.")
    csv: str | None = one_word("--csv", "FILE", "Write all points as a table, with those on a front.")
    overwrite: bool = flag("--overwrite", "Replace the plots and the table that are there.")
    heuristic: str = replace(HEURISTIC, default="cpsat").field()
    limit_s: float = option(
        "--limit",
        "SECONDS",
        "Longest time for the solver at each point.",
        seconds_in(0.1, 3600),
        default=10.0,
    )
    jobs: int = JOBS.field()
    scheduler: str | None = SCHEDULER.field()


def sweep_command(asked: SweepOptions) -> Answer:
    """Predict kernels' times while figures of a machine change."""
    settings, output, svg = asked.settings, asked.output, asked.svg
    if not settings or not (asked.kernels or asked.models):
        missing = "--set" if not settings else "--kernel or --model"
        help_ = "`--set memories.spad.bytes=64KiB..1MiB --kernel 'gemm_u8s8 M=512 N=512 K=512'`"
        raise UsageProblem.of("missing-argument", f"a sweep needs {missing}", help=help_)
    for file in (svg, asked.front, asked.csv):
        if file is not None and not asked.overwrite:
            check_new(Path(file))
    objectives = [read_choice(word, "--objective", OBJECTIVES) for word in asked.objectives or (TIME,)]
    axes = [read_setting(text) for text in settings]
    points = _points(axes)
    folder = Path(output) if output is not None else None
    known = open_rows(folder, asked.resume, SweepRow.of)
    where = workers_of(asked.jobs, asked.scheduler)
    with TemporaryDirectory() as scratch, Progress() as progress:
        chain = _chain(machine_of(asked.name))
        subjects = _subjects(asked, objectives, progress)
        _check_count(len(points) * sum(len(subject.cases) for subject, _ in subjects))
        variants = [_write(Path(scratch) / str(n), chain, point) for n, point in enumerate(points)]
        work = PredictionStore(where, folder, known, progress)
        rows = _predict_points(asked, subjects, variants, axes, work)
    sweep = Sweep(
        tuple(axis.path for axis in axes),
        tuple(tuple(point.values()) for point in points),
        axes[0].numbers,
        tuple(
            SweepLine(
                subject.name if objectives == [TIME] else f"{subject.name}, {objective}",
                tuple(rows[n :: len(subjects)]),
                subject.name,
                objective,
            )
            for n, (subject, objective) in enumerate(subjects)
        ),
    )
    files = _write_files(asked, sweep)
    payload: dict[str, object] = {
        "machine": asked.name,
        "heuristic": asked.heuristic,
        "svg": svg,
        "rows": _json(points, subjects, rows),
    }
    kept = {(at, number) for front in fronts(sweep).values() for number, at in front}
    if kept:
        places = [(at, number) for at in range(len(points)) for number in range(len(subjects))]
        payload["front"] = [n for n, place in enumerate(places) if place in kept]
    wrote = [f"wrote {file}" for file in files]
    return Answer(payload, "\n".join([sweep_text(sweep), *([""] if wrote else []), *wrote]))


def _write_files(asked: SweepOptions, sweep: Sweep) -> list[str]:
    """Write the requested plots and the table, and return their paths."""
    texts: list[tuple[str, str]] = []
    if asked.svg is not None:
        texts.append((asked.svg, sweep_svg(Path(asked.name).stem, sweep)))
    if asked.front is not None:
        texts.append((asked.front, front_svg(Path(asked.name).stem, sweep)))
    if asked.csv is not None:
        table = io.StringIO()
        csv.writer(table, lineterminator="\n").writerows(sweep_csv(sweep))
        texts.append((asked.csv, table.getvalue()))
    for path, text in texts:
        write_text(Path(path), text, overwrite=asked.overwrite)
    return [path for path, _ in texts]


def _subjects(
    asked: SweepOptions, objectives: Sequence[str], progress: Progress
) -> list[tuple[PredictedKernel, str]]:
    """Return the kernels and models with each objective. Raises: UsageProblem."""
    found = [
        PredictedKernel(case.name, (case,)) for case in (read_cases(asked.kernels) if asked.kernels else ())
    ]
    for word in asked.models:
        from isamap.graph.host_fallback import host_of
        from isamap.graph.layers import subject_of
        from isamap.graph.model_library import ModelOptions

        name, *sizes = word.split()[:32] or [""]
        how = ModelOptions(
            machine_of(asked.name),
            jobs=asked.jobs,
            host=host_of(asked.host, asked.name),
            scheduler=asked.scheduler or "",
        )
        try:
            model, _ = read_model(name, how, sizes, progress)
        except MissingWords as error:
            whole = " ".join([name, *(word for word in error.words if word != "-D")])
            raise UsageProblem(
                *(replace(d, help=f"write --model '{whole}'") for d in error.diagnostics)
            ) from None
        found.append(subject_of(model, " ".join([Path(name).stem, *sizes]), how, progress))
    return [(subject, objective) for subject in found for objective in dict.fromkeys(objectives)]


def _points(axes: Sequence[SweptParameter]) -> list[dict[str, str]]:
    """Return every combination of values. Raises: UsageProblem if two settings name one parameter."""
    _check_count(prod(len(axis.words) for axis in axes))
    if len({axis.path for axis in axes}) < len(axes):
        raise UsageProblem.of("usage", "two `--set` name one parameter", help="leave one out")
    combined = product(*(axis.words for axis in axes))
    return [dict(zip((axis.path for axis in axes), words, strict=True)) for words in combined]


def _check_count(count: int) -> None:
    """Raise UsageProblem for too many predictions."""
    if count > MOST_ROWS:
        said = f"this sweep has {count} predictions; the most are {MOST_ROWS}"
        raise UsageProblem.of("option-value", said, help="take fewer values, or fewer kernels")


def _chain(word: str) -> tuple[File, ...]:
    """Return the files of a machine, which must be valid, and of those that it extends."""
    refuse_standard_input([word])
    load_machine(word)
    return read_chain(word)


@dataclass(frozen=True, slots=True)
class SweptDescription:
    """A description at a point: its path, its digest, and the values that differ."""

    path: str
    digest: str
    values: Mapping[str, str]


def _predict_points(
    asked: SweepOptions,
    subjects: Sequence[tuple[PredictedKernel, str]],
    variants: Sequence[SweptDescription],
    axes: Sequence[SweptParameter],
    work: PredictionStore,
) -> list[Predicted]:
    """Return the prediction of each subject at each point. All subjects of a point come together."""
    cases = [(case, objective) for subject, objective in subjects for case in subject.cases]
    requests = [
        PredictionRequest(
            case, one.path, asked.heuristic, asked.limit_s, objective=objective, within=asked.within
        )
        for one in variants
        for case, objective in cases
    ]
    at = [one for one in variants for _ in cases]
    found = iter(_compare_neighbours(requests, at, _neighbours(axes, len(cases)), work))
    return [
        add_predictions(subject, list(islice(found, len(subject.cases))), one.path, objective)
        for one in variants
        for subject, objective in subjects
    ]


@dataclass(frozen=True, slots=True)
class PredictionStore:
    """The store of predictions: where they are computed, where they are cached, and the known ones.

    `where` is a number of processes here, or the address of a scheduler.
    """

    where: int | str
    folder: Path | None
    known: Mapping[str, SweepRow]
    progress: Progress

    def predict(
        self, said: str, requests: Sequence[PredictionRequest], rows: Sequence[SweepRow]
    ) -> list[Predicted]:
        """Return each prediction. Stored predictions of earlier runs are not computed again."""
        left = [n for n, row in enumerate(rows) if row.key not in self.known]
        found = {n: self.known[row.key].predicted for n, row in enumerate(rows) if row.key in self.known}

        def seen(number: int, result: Predicted) -> None:
            n = left[number]
            found[n] = result
            append_row(self.folder, replace(rows[n], predicted=result))
            self.progress(said, len(found), len(rows))

        predict_all([requests[n] for n in left], self.where, seen)
        return [found[n] for n in range(len(rows))]


def _compare_neighbours(
    requests: Sequence[PredictionRequest],
    at: Sequence[SweptDescription],
    near: Sequence[Sequence[int]],
    work: PredictionStore,
) -> list[Predicted]:
    """Return the prediction of each case at each point, improved until no neighbour's schedule is cheaper."""
    rows = [_row(asked, variant) for asked, variant in zip(requests, at, strict=True)]
    found = work.predict("predict", requests, rows)
    if any(one.within for one in requests):  # a neighbour's schedule may exceed the bound here
        return found
    offered: list[set[str]] = [set() for _ in requests]
    while True:
        asked: dict[int, PredictionRequest] = {}
        for n, own in enumerate(found):
            texts = {found[m].schedule: _nests(found[m].schedule) for m in near[n] if found[m].schedule}
            new = [t for t, nests in texts.items() if nests not in {*offered[n], _nests(own.schedule)}]
            if own.schedule and new:
                asked[n] = replace(requests[n], known=(own.schedule, *new))
                offered[n].update(texts.values())
        if not asked:
            return found
        kept = [_row(one, at[n]) for n, one in asked.items()]
        compared = work.predict("compare with neighbours", list(asked.values()), kept)
        found = list(({**dict(enumerate(found)), **dict(zip(asked, compared, strict=True))}).values())


def _nests(text: str) -> str:
    """Return a schedule's nests without the costs in its text."""
    return text[text.find("\nnest ") :]


def _neighbours(axes: Sequence[SweptParameter], cases: int) -> list[list[int]]:
    """Return, for each row, the rows with the next smaller and larger value of one parameter."""
    orders = [sorted(range(len(a.words)), key=a.numbers.__getitem__) for a in axes]
    # Points by their ranks: which value of each figure they have, counted from the smallest.
    ranked = list(product(*([order.index(n) for n in range(len(order))] for order in orders)))
    rows = {ranks: number for number, ranks in enumerate(ranked)}
    found: list[list[int]] = []
    for ranks in ranked:
        adjacent = [(*ranks[:d], ranks[d] + s, *ranks[d + 1 :]) for d in range(len(axes)) for s in (-1, 1)]
        found += [[rows[b] * cases + n for b in adjacent if b in rows] for n in range(cases)]
    return found


def _write(folder: Path, chain: tuple[File, ...], point: Mapping[str, str]) -> SweptDescription:
    """Write the description at a point, and those that it extends if changed or the user's own. Return it."""
    files = edit_parameters(chain, point)
    folder.mkdir()
    for one, before in zip(files, chain, strict=True):
        assert one.path is not None, "standard input was refused"
        if one.path.parent != FOLDER or one.source is not before.source:
            (folder / one.path.name).write_text(one.source.text, encoding="utf-8")
    assert files[0].path is not None
    return SweptDescription(str(folder / files[0].path.name), digest_files(files), point)


def _row(asked: PredictionRequest, variant: SweptDescription) -> SweepRow:
    parts = [variant.digest[:16], asked.case.name, asked.heuristic, f"{asked.limit_s:g}"]
    parts += [asked.objective, asked.within] if asked.objective != TIME or asked.within else []
    parts += [digest(*asked.known)[:16]] if asked.known else []
    return SweepRow(" ".join(parts), variant.values, asked.case.name, Predicted(None))


def _json(
    points: Sequence[Mapping[str, str]],
    subjects: Sequence[tuple[PredictedKernel, str]],
    rows: Sequence[Predicted],
) -> list[dict[str, object]]:
    named = [(point, *subject) for point in points for subject in subjects]
    return [
        {"set": dict(point)}
        | _describe_subject(subject)
        | ({"objective": objective} if objective != TIME else {})
        | row.as_json()
        for (point, subject, objective), row in zip(named, rows, strict=True)
    ]


def _describe_subject(subject: PredictedKernel) -> dict[str, object]:
    """Return a kernel's name with sizes, or a model's name, as JSON."""
    if subject.is_model:
        return {"model": subject.name}
    (case,) = subject.cases
    return {"kernel": case.kernel.name.removesuffix(".ir"), "sizes": dict(case.sizes)}
