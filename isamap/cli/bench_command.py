"""`isamap bench …`: compare emitted code with installed libraries on all rows of a suite.

A command is a `Suite` of the table below, and accepts the options for its kind of cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isamap.cli.answers import Answer
from isamap.cli.model_runs import ModelRun, bench_model
from isamap.cli.option_parser import SIZES, CommandOptions, argument, one_word
from isamap.driver.inputs import machine_of
from isamap.driver.options import (
    FLAG,
    WORD,
    Option,
    OptionKind,
    count,
    given_flags,
    list_options,
    one_of,
    option,
    read_choice,
    read_number,
    seconds_in,
)
from isamap.driver.request import Choices
from isamap.source import UsageProblem, dataclass, replace, replace_file
from isamap.source.progress import Progress

if TYPE_CHECKING:
    from isamap.bench import Campaign
    from isamap.bench.kept_rows import Row

_BESIDE = "and compare with the installed libraries; every row is verified first."
PARTS = ("training", "inference_server", "inference_device", "all")
CACHES = ("warm", "rotate")
LAYOUTS = ("nchw", "nhwc")
Given = Mapping[str, Any]
"""The values of options by the names of their fields."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A command: its rows, the heading of their table, and its options in addition to the common ones.

    `types` and `libraries` are those of the kind, which is loaded when the command runs. `beta` is the factor
    of C if it is not an option: 1 if all contenders add to C.
    """

    summary: str
    title: str
    kind: str
    types: tuple[str, ...]
    libraries: tuple[str, ...]
    options: tuple[str, ...]
    cases: Callable[[Given], Sequence[Any]]
    beta: str = "0"


def _parts(given: Given) -> tuple[str, ...]:
    """Return the requested parts of DeepBench."""
    return PARTS[:-1] if given["suite"] == "all" else (given["suite"],)


def _gemm(given: Given) -> Sequence[Any]:
    from isamap.bench.product_cases import gemm_cases

    return gemm_cases(_parts(given))


def _transformer(given: Given) -> Sequence[Any]:
    from isamap.bench.product_cases import transformer_cases

    return transformer_cases()


def _cells(cell: str) -> Callable[[Given], Sequence[Any]]:
    def cases(given: Given) -> Sequence[Any]:
        from isamap.bench.cells import cell_cases

        words = given["steps"]
        most = None if words == "all" else int(read_number(words, "--steps", 1, 1500))
        return cell_cases(cell, most, _parts(given))

    return cases


def _sparse(given: Given) -> Sequence[Any]:
    from isamap.bench.sparse_products import sparse_cases

    return sparse_cases()


def _products(
    title: str, summary: str, more: tuple[str, ...], cases: Callable[[Given], Sequence[Any]]
) -> Suite:
    types, libraries = ("f32", "bf16", "int8"), ("torch", "mkl", "openblas")
    return Suite(summary, title, "product", types, libraries, (*more, "beta", "cache", "packed"), cases)


def _layers(cell: str, about: str) -> Suite:
    summary = f"Time DeepBench's {about} and compare with the installed libraries; each step is verified."
    libraries, options = ("torch", "onnxruntime"), ("suite", "steps", "packed")
    return Suite(
        summary, f"DeepBench {cell}", "recurrent layer", ("f32", "bf16"), libraries, options, _cells(cell)
    )


def _images(title: str, suite: str, more: tuple[str, ...] = ()) -> Suite:
    summary = f"Time the convolutions of {title.removesuffix(' conv')} {_BESIDE}"
    types, libraries = ("f32", "bf16", "int8"), ("torch", "onnxruntime")
    options = (*more, "layout", "packed")

    def cases(given: Given) -> Sequence[Any]:
        from isamap.bench.convolution_cases import conv_cases

        return conv_cases(suite, given["layout"] or LAYOUTS[0], _parts(given) if "suite" in given else None)

    return Suite(summary, title, "convolution", types, libraries, options, cases)


GEMM = _products("DeepBench GEMM", f"Time DeepBench's products {_BESIDE}", ("suite",), _gemm)
GRU = _layers("gru", "GRU layers")
LSTM = _layers("lstm", "LSTM layers")
RNN = _layers("rnn", "vanilla recurrent layers")
CONV = _images("DeepBench conv", "deepbench-conv", ("suite",))
SPARSE = Suite(
    f"Time DeepBench's products with a sparse matrix {_BESIDE}",
    "DeepBench sparse", "sparse product", ("f32",), ("scipy", "mkl"), (), _sparse, beta="1",
)  # fmt: skip
RESNET50 = _images("ResNet-50", "resnet50-conv")
MOBILENET = _images("MobileNet", "mobilenet-conv")
TRANSFORMER = _products(
    "Transformer products", f"Time the products of BERT and LLaMA {_BESIDE}", (), _transformer
)
SUITES = (GEMM, GRU, LSTM, RNN, CONV, SPARSE, RESNET50, MOBILENET, TRANSFORMER)
COMMON = (
    *("hw", "dtype", "rows", "threads", "against", "hold", "seconds", "limit_s", "profile"),
    *("minutes", "output", "resume"),
)


def _options(suite: Suite) -> dict[str, Option]:
    """Return all options by field name, including those of `suite`."""

    def one(flags: str, metavar: str, about: str, kind: OptionKind = WORD, default: Any = None) -> Option:
        return Option((flags,), metavar, about, kind, default)

    channels = "nchw: channels before pixels; nhwc: behind them, as simulated unless given."
    rotate = "warm: the same buffers again; rotate: a ring of them, twice as large as the caches."
    packed = "Weights are packed before, outside the clock, by all contenders that can."
    turns = "Seconds to time each row; each contender is timed at least 7 times."
    held = "Hold the baselines to an instruction set: avx2, avx512, avx512_vnni."
    limited = "Begin no row later than that; rows of all sizes come first."
    baselines = f"Baselines, of {','.join(suite.libraries)}; all by default."
    shared = list_options(Choices)
    return {
        "hw": one("--hw", "MACHINE", "The machine to compile for; this one by default.", default="host"),
        "suite": one("--suite", "SUITE", f"One of {', '.join(PARTS)}.", one_of(*PARTS), "all"),
        "dtype": one("--dtype", "TYPE", f"One of {', '.join(suite.types)}: f32, simulated int8."),
        "rows": one("--rows", "ROWS", "By position: 0,3,9 or 10..20 or 0..40/5."),
        "steps": one("--steps", "N", "At most so many time steps of each row, or `all`.", default="8"),
        "layout": one("--layout", "LAYOUT", channels, one_of(*LAYOUTS)),
        "beta": one("--beta", "0|1", "1: C is read and added to; 0: only written.", one_of("0", "1"), "1"),
        "threads": one("--threads", "N", "Threads of each contender.", count(1, 1024), 1),
        "cache": one("--cache", "MODE", rotate, one_of(*CACHES), "warm"),
        "packed": one("--packed", "", packed, FLAG, default=False),
        "against": one("--against", "NAMES", baselines),
        "hold": one("--hold", "ISA", held),
        "seconds": one("--seconds", "S", turns, seconds_in(0, 3600), 4.0),
        "limit_s": shared["limit_s"],
        "profile": shared["profile_name"],
        "minutes": one("--minutes", "M", limited, seconds_in(0, 10000)),
        "output": one("-o", "FOLDER", "Keep rows, tables and charts there."),
        "resume": one("--resume", "", "Resume from the rows in -o.", FLAG, default=False),
    }


def _command(suite: Suite) -> Callable[[CommandOptions], Answer]:
    """Return the command function of a suite, which takes a record of its options."""
    known = {
        n: replace(o, commands=frozenset())
        for n, o in _options(suite).items()
        if n in COMMON or n in suite.options
    }
    taken = [(name, Any, one.field()) for name, one in known.items()]
    record = make_dataclass(
        "BenchOptions", taken, bases=(CommandOptions,), frozen=True, slots=True, kw_only=True
    )

    def command(asked: CommandOptions) -> Answer:
        given = {name: getattr(asked, name) for name in known}
        machine = machine_of(given["hw"])
        if _is_simulated(suite.kind, machine):
            of_times = ("--threads", "--against", "--hold", "--seconds", "--profile", "--cache", "--packed")
            if found := next((one for one in of_times if one in given_flags(asked)), None):
                said = f"`{found}` says how times are measured, and {machine} is simulated"
                raise UsageProblem.of("usage", said, help=f"leave out {found}")
            return _simulated_answer(suite, machine, given)
        return _answer(suite, _campaign(suite, given))

    command.__annotations__["asked"] = record
    command.__doc__ = suite.summary
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchModelOptions(CommandOptions):
    """The options of `bench model`."""

    model: str = argument("MODEL", "The path of an .onnx file.")
    hw: str = one_word("--hw", "MACHINE", "The machine to compile for; this one by default.", "host")
    sizes: tuple[str, ...] = SIZES.field()
    choices: Choices = field(default_factory=Choices)
    of_model: ModelRun = field(default_factory=ModelRun)
    seconds: float = option(
        "--seconds", "S", "Seconds to time the contenders; each is timed at least 7 times.",
        seconds_in(0, 3600), default=8.0,
    )  # fmt: skip


def model_command(asked: BenchModelOptions) -> Answer:
    """Time a model and compare with onnxruntime and OpenVINO; `bench model.onnx` for short."""
    return bench_model(asked.model, asked.hw, asked.sizes, asked.choices, asked.of_model, asked.seconds)


gemm_command = _command(GEMM)
gru_command = _command(GRU)
lstm_command = _command(LSTM)
rnn_command = _command(RNN)
conv_command = _command(CONV)
sparse_command = _command(SPARSE)
resnet50_command = _command(RESNET50)
mobilenet_command = _command(MOBILENET)
transformer_command = _command(TRANSFORMER)


def _campaign(suite: Suite, given: Given) -> Campaign[Any]:
    """Return the campaign that a command line requests. Raises: UsageProblem."""
    from isamap.bench import Campaign, pick_rows
    from isamap.bench.kinds import KINDS
    from isamap.bench.libraries import HOLDS
    from isamap.driver.inputs import find_profile

    kind, named = KINDS[suite.kind], given["against"]
    baselines = named.split(",") if named else kind.baselines
    machine = machine_of(given["hw"])
    return Campaign(
        kind=kind,
        cases=pick_rows(suite.cases(given), given["rows"]),
        forms=kind.forms[read_choice(given["dtype"] or "f32", "--dtype", tuple(kind.forms))],
        machine=machine,
        against=tuple(read_choice(word, "--against", kind.baselines) for word in baselines),
        threads=given["threads"],
        beta=int(given.get("beta", suite.beta)),
        cache=given.get("cache", "warm"),
        seconds=given["seconds"],
        limit_s=given["limit_s"],
        hold=read_choice(given["hold"], "--hold", tuple(HOLDS)) if given["hold"] else None,
        folder=Path(given["output"]) if given["output"] else None,
        resume=given["resume"],
        profile=find_profile(given["profile"], machine),
        packed=given.get("packed", False),
        minutes=given["minutes"],
    )


def _answer(suite: Suite, campaign: Campaign[Any]) -> Answer:
    from isamap.bench import run_campaign
    from isamap.bench.predictions import agreements
    from isamap.bench.summary import dispatch_text, rows_table, summarise, summary_text

    with Progress() as progress:
        rows, where = run_campaign(campaign, progress)
    summaries = summarise(rows)
    title = (
        f"{suite.title} on {campaign.machine}, beta {campaign.beta}, {campaign.cache}, "
        f"{campaign.threads} thread{'s' if campaign.threads > 1 else ''}"
        f"{', weights packed before' if campaign.packed else ''}"
    )
    place = f"{where['cpu']}, cores {where['cores']}" + (
        ", a virtual machine" if where["virtual_machine"] else ""
    )
    texts = [title, place, "", rows_table(rows, campaign.kind.heading), ""]
    text = "\n".join([*texts, summary_text(summaries), dispatch_text(rows)]).rstrip() + "\n"
    if campaign.folder is not None:
        _keep(campaign.folder, title, text, rows)
    payload: dict[str, object] = {
        "environment": where,
        "suite": suite.title,
        "rows": [row.as_json() for row in rows],
        "summary": [summary.as_json() for summary in summaries],
        "predictions": {"machine": campaign.machine, "agreements": [a.as_json() for a in agreements(rows)]},
    }
    wrong = any(row.left_out == "isamap's result is wrong" for row in rows)
    return Answer(payload, text, exit=1 if wrong else 0)


def _keep(folder: Path, title: str, table: str, rows: Sequence[Row]) -> None:
    """Write the table, the rows as CSV, and both charts to a folder."""
    from isamap.bench.charts import prediction_chart, ratio_chart
    from isamap.bench.summary import rows_csv

    texts = {
        "table.txt": table,
        "rows.csv": rows_csv(rows),
        "ratios.svg": ratio_chart(rows, title),
        "predictions.svg": prediction_chart(rows, f"Cost model: {title}"),
    }
    for name, text in texts.items():
        replace_file(folder / name, text.encode(), durable=True)


def _is_simulated(kind: str, machine: str) -> bool:
    """Return whether cases of a kind are simulated, because a machine's programs run here only as models."""
    from isamap.bench.layer_kinds import LAYER_KINDS
    from isamap.machine import load_machine

    return kind in LAYER_KINDS and load_machine(machine).target.run == "model"


def _simulated_answer(suite: Suite, machine: str, given: Given) -> Answer:
    """Return the table of simulated times on a machine whose programs cannot run here.

    Raises: UsageProblem, MissingTool.
    """
    from isamap.bench import pick_rows
    from isamap.bench.cases import SIMULATED_FORMS
    from isamap.bench.layer_kinds import LAYER_KINDS
    from isamap.bench.simulated_suite import (
        SimulatedCampaign,
        run_simulated,
        simulated_csv,
        simulated_table,
        simulated_text,
        summarise_simulated,
    )

    dtype = read_choice(given["dtype"] or "int8", "--dtype", tuple(SIMULATED_FORMS))
    folder = Path(given["output"]) if given["output"] else None
    campaign = SimulatedCampaign(
        LAYER_KINDS[suite.kind],
        pick_rows(suite.cases({**given, "layout": given.get("layout") or LAYOUTS[1]}), given["rows"]),
        SIMULATED_FORMS[dtype],
        machine,
        given["limit_s"],
        folder,
        given["resume"],
        given["minutes"],
    )
    with Progress() as progress:
        rows, where = run_simulated(campaign, progress)
    summary = summarise_simulated(rows)
    head = f"{suite.title}, {dtype}, on {machine} by the simulator"
    text = f"{head}\n\n{simulated_table(rows, campaign.kind.heading)}\n\n{simulated_text(summary)}\n"
    if folder is not None:
        for name, content in {"table.txt": text, "rows.csv": simulated_csv(rows)}.items():
            replace_file(folder / name, content.encode(), durable=True)
    payload: dict[str, object] = {
        "environment": where,
        "suite": suite.title,
        "rows": [row.as_json() for row in rows],
        "summary": summary.as_json(),
    }
    return Answer(payload, text, exit=1 if any(row.checked and not row.is_right for row in rows) else 0)
