"""`isamap run`, `verify` and `bench` of whole models: layer times, comparisons, and contenders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding
from isamap.cli.import_command import CONSTANTS, read_pairs
from isamap.cli.model_files import (
    FUSION_RULE,
    GRAPH,
    HOST,
    WIDE,
    how_of,
    is_model,
    layer_json,
    read_model,
    refuse_of_kernel,
    where_text,
)
from isamap.cli.option_parser import KERNEL_HELP, CommandOptions, refuse
from isamap.driver.options import WORDS, count, flags_of, option
from isamap.driver.request import Choices
from isamap.report.columns import align, shorten
from isamap.report.mappings import time_text
from isamap.source import Diagnostic, UsageProblem, dataclass, replace
from isamap.source.progress import Progress

if TYPE_CHECKING:
    from isamap.graph.graph import Array
    from isamap.graph.importing import Imported
    from isamap.graph.layers import ComparedLayer, Layer
    from isamap.graph.model_library import CompiledModel, ModelOptions
    from isamap.graph.model_program import ModelProgram, Port
    from isamap.graph.network_stream import StreamedModel
    from isamap.graph.partition import Method
    from isamap.machine import Machine
    from isamap.stream.program_file import ProgramFile

KERNEL_OR_MODEL = f"{KERNEL_HELP}; a model's .onnx file, or a graph.json."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRun:
    """The options of `run`, `verify` and `bench` that apply to a whole model."""

    constant: tuple[str, ...] = CONSTANTS.field()
    fusion: Method = FUSION_RULE.field()
    host: str | None = HOST.field()
    inputs: tuple[str, ...] = option(
        "--input",
        "NAME=FILE",
        "Of a model, the .npy file or the numbers of an input; others are random.",
        WORDS,
        default=(),
    )
    seed: int = option(
        "--seed", "N", "Of a model, the seed of its random inputs.", count(0, 999_999_999), default=0
    )


def is_whole_model(word: str, asked: CommandOptions, *taken: str) -> bool:
    """Return whether a word is a model. Raises: UsageProblem for options that do not apply."""
    if is_model(word):
        refuse_of_kernel(asked, (*taken, *flags_of(ModelRun)), "leave it out")
        return True
    refuse(
        asked, flags_of(ModelRun), "is about a model, and this is a kernel", "give the path of an .onnx file"
    )
    return False


@dataclass(frozen=True, slots=True)
class _Ready:
    """A callable model, compiled or as a stream, with its inputs and layers, and the model that was imported."""

    found: Imported
    model: CompiledModel | StreamedModel
    layers: Sequence[Layer]
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array]


def _prepare(
    word: str,
    sizes: Sequence[str],
    how: ModelOptions,
    asked: ModelRun,
    progress: Progress,
    folder: str | None = None,
) -> _Ready:
    """Return a model whose steps can be observed: a compiled library, or a stream in a folder of `compile`.

    Raises: UsageProblem; VerificationFailed for a stream.
    """
    from isamap.graph.graph_file import constants_of
    from isamap.graph.layers import draw_inputs, layers_of, layers_of_stream
    from isamap.graph.model_library import CompiledModel, compile_program_of, measured_machine
    from isamap.graph.network_stream import StreamedModel, compile_host

    given, machine = constants_of(read_pairs(asked.inputs, "--input"), "--input"), measured_machine(how)
    found, _ = read_model(word, how, sizes, progress, constant=asked.constant, fusion=asked.fusion)
    _check_inputs(given, found.whole().inputs)
    if folder is None:
        library = compile_program_of(found.whole(), how, progress, runs=True, apart=True, watched=True)
        model = CompiledModel(library, how.threads, watch=progress)
        layers = layers_of(found.trace, library, machine)
    else:
        program, stream = _read_network(folder, found, machine)
        host = compile_host(program, stream, how, progress, runs=True)
        model = StreamedModel(program, stream, machine, host, progress)
        layers = layers_of_stream(found.trace, program, stream, machine.name, how.host)
    inputs = {**draw_inputs(model, asked.seed), **given}
    return _Ready(found, model, layers, inputs, constants_of(read_pairs(asked.constant, "--constant")))


def _check_inputs(given: Mapping[str, Array], ports: Sequence[Port]) -> None:
    """Check that each given array is an input of the model with the right size. Raises: UsageProblem."""
    shapes = {port.name: port.passed.shape for port in ports}
    for name, array in given.items():
        if array.shape != shapes.get(name):
            said = f"the model has no input `{name}`"
            if name in shapes:
                said = (
                    f"the input `{name}` has the sizes {list(shapes[name])}, and its file {list(array.shape)}"
                )
            listed = ", ".join(f"{one} {list(shape)}" for one, shape in shapes.items())
            raise UsageProblem.of("onnx-input", said, notes=(f"its inputs: {listed}",))


def _facts(word: str, model: CompiledModel | StreamedModel, how: ModelOptions) -> dict[str, object]:
    """Return the facts about a model that every answer contains. Units: bytes."""
    from isamap.graph.model_library import CompiledModel

    if not isinstance(model, CompiledModel):
        stream = model.stream
        return {
            "model": word,
            "machine": stream.machine,
            "ran_on": "stream",
            "kernels": len(model.program.kernels),
            "instructions": stream.instructions,
            "words": len(stream.words),
            "memories": dict(stream.memories),
            "peak_memory_bytes": peak_memory_bytes(),
        }
    library = model.library
    return {
        "model": word,
        "machine": library.machine.name,
        "ran_on": "model" if library.model else "native",
        "kernels": library.kernels,
        "threads": how.threads,
        "weights_bytes": len(library.emitted.weights),
        "workspace_bytes": library.emitted.workspace_bytes,
        "peak_memory_bytes": peak_memory_bytes(),
    }


def peak_memory_bytes() -> int | None:
    """Return the peak resident memory of this process, or None if the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory_text(size: int | None) -> str:
    """Return a line about the peak of memory, or "" if it is unknown."""
    return f"peak memory: {size / 2**20:.0f} MiB" if size is not None else ""


def _read_network(folder: str, found: Imported, machine: Machine) -> tuple[ModelProgram, ProgramFile]:
    """Return the program and the stream of a network in a folder. Raises: UsageProblem for another model's folder."""
    from isamap.driver.encoded_programs import load_program, mismatch
    from isamap.graph.graph_file import read_folder

    program, whole = read_folder(Path(folder) / GRAPH), found.whole()
    if (program.inputs, program.outputs) != (whole.inputs, whole.outputs):
        said = f"{folder} is of a model with other inputs or results than {found.name}"
        raise mismatch(said, "name the model that it was compiled from")
    return program, load_program(str(Path(folder) / f"{program.name}.program"), machine)


def run_network(
    word: str, hw: str, sizes: Sequence[str], choices: Choices, asked: ModelRun, folder: str
) -> Answer:
    """Return the time of each layer of a stream, by its machine's costs, without the host's steps."""
    from isamap.graph.layers import layers_of_stream
    from isamap.graph.model_library import measured_machine
    from isamap.stream.timing import part_times

    how = how_of([hw], choices, asked.host)
    with Progress() as progress:
        machine, (found, _) = (
            measured_machine(how),
            read_model(word, how, sizes, progress, constant=asked.constant, fusion=asked.fusion),
        )
        program, stream = _read_network(folder, found, machine)
        progress("time")
        timed = part_times(stream, machine)
    layers = layers_of_stream(found.trace, program, stream, machine.name, how.host)
    if timed is None:
        said = (
            f"{machine.name} does not describe `queued` of each unit, so the order of instructions is unknown"
        )
        raise UsageProblem.of(
            "stream-unsupported", said, help="give each unit the length of its queue as `queued`"
        )
    whole, ends = timed
    rows, listed, before = [("layer", "operators", "time", "share")], list[dict[str, object]](), 0.0
    for part, end in zip(stream.parts, ends, strict=True):
        layer, own = layers[part.step], end - before
        texts = shorten(layer.name, WIDE), shorten(" ".join(layer.operators), WIDE // 2)
        rows.append((*texts, time_text(own), f"{100 * own / max(1e-9, whole.total_ns):.1f} %"))
        listed.append({**layer_json(layer), "time_ns": round(own, 1)})
        before = end
    busy = ", ".join(f"{unit} {ns / max(1e-9, whole.total_ns):.0%}" for unit, ns in whole.busy_ns.items())
    on_host = len(layers) - len(ends)
    lines = [
        f"{program.name} on {machine.name}: {len(ends)} layers in one stream; {on_host} on {how.host} are not timed",
        "",
        align(rows, right=(2, 3)),
        "",
        f"time  {time_text(whole.total_ns)} by the encoded program and costs; busy: {busy}",
    ]
    payload = {
        "model": word, "machine": machine.name, "ran_on": "stream", "layers": listed, "not_timed": on_host,
        "stream": {"total_ns": whole.total_ns, "busy_ns": dict(whole.busy_ns)},
    }  # fmt: skip
    return Answer(payload, "\n".join(lines))


# --- run --------------------------------------------------------------------------------------------------

SECONDS = 1.0
MANY_LAYERS, MOST_KINDS = 12, 12
"""The layers beyond which a table of the operators follows, and the most rows of it."""
DISTURBED = 1.5
"""The ratio of the median time to the least beyond which other programs are said to run."""
LEAST_CALLS, MOST_CALLS = 5, 2000


def run_model(word: str, hw: str, sizes: Sequence[str], choices: Choices, asked: ModelRun) -> Answer:
    """Return the time of each layer of a model, predicted and measured."""
    from time import perf_counter_ns

    from isamap.graph.model_library import CompiledModel

    how = how_of([hw], choices, asked.host)
    with Progress() as progress:
        ready = _prepare(word, sizes, how, asked, progress)
        progress("run")
        model = ready.model
        assert isinstance(model, CompiledModel), "no folder of a stream is named"
        call, start = model.bound(ready.inputs), perf_counter_ns()
        model.check(call())
        once = perf_counter_ns() - start
        calls = max(LEAST_CALLS, min(MOST_CALLS, int(SECONDS * 5e8 / once)))
        whole: list[int] = []
        for _ in range(calls):
            start = perf_counter_ns()
            call()
            whole.append(perf_counter_ns() - start)
        watched = [model.watch(ready.inputs) for _ in range(calls)]
    times = [median(of) for of in zip(*watched, strict=True)]
    total, predicted = sum(times), sum(layer.predicted_ns for layer in ready.layers)
    facts, middle = _facts(word, model, how), median(whole)
    simulated = facts["ran_on"] == "model"  # what is measured says nothing about the machine
    measured = "C model here" if simulated else "measured"
    shares = [layer.predicted_ns for layer in ready.layers] if simulated else times
    rows = [("layer", "operators", "predicted", measured, "share of predicted" if simulated else "share")]
    listed: list[dict[str, object]] = []
    for layer, own, part in zip(ready.layers, zip(*watched, strict=True), shares, strict=True):
        share = part / sum(shares) if any(shares) else 0.0
        operators = " ".join(layer.operators)
        texts = time_text(layer.predicted_ns), time_text(median(own)), f"{100 * share:.1f} %"
        rows.append((shorten(layer.name, WIDE), shorten(operators, WIDE // 2), *texts))
        listed.append(
            {
                **layer_json(layer), "predicted_ns": round(layer.predicted_ns, 1),
                "measured_ns": {"min": min(own), "median": median(own)}, "share": round(share, 4),
            }
        )  # fmt: skip
    disturbed = "; other programs use the processors" if middle > DISTURBED * min(whole) else ""
    lines = [
        f"{ready.found.name} on {facts['machine']}: {len(ready.layers)} layers, {facts['kernels']} kernels",
        "",
        align(rows, right=(2, 3, 4)),
        "",
        *_by_operators(ready.layers, times, shares, rows[0][2:]),
        f"layers   {time_text(predicted)} by the cost model, {time_text(total)} "
        + ("by the C model of the machine on this computer" if simulated else "measured"),
        f"a call   {time_text(middle)} median, {time_text(min(whole))} best of {calls} calls{disturbed}",
        memory_text(peak_memory_bytes()),
        *where_text(ready.layers),
    ]
    payload = {
        **facts, "layers": listed, "predicted_ns": round(predicted, 1), "measured_ns": total,
        "seconds": {"min": min(whole) * 1e-9, "median": middle * 1e-9}, "repetitions": calls,
    }  # fmt: skip
    return Answer(payload, "\n".join(lines).rstrip())


def _by_operators(
    layers: Sequence[Layer], times: Sequence[float], shares: Sequence[float], heads: Sequence[str]
) -> list[str]:
    """Return a table of the layers by operator, the largest share first, or [] if it would not be shorter."""
    alike: dict[str, list[tuple[float, float, float]]] = {}
    for layer, time, share in zip(layers, times, shares, strict=True):
        alike.setdefault(" ".join(layer.operators), []).append((layer.predicted_ns, time, share))
    if len(layers) <= MANY_LAYERS or len(alike) == len(layers):
        return []
    rows = [("operators", "layers", *heads)]
    for name, own in sorted(alike.items(), key=lambda kind: -sum(share for _, _, share in kind[1]))[
        :MOST_KINDS
    ]:
        predicted, measured, part = (sum(of) for of in zip(*own, strict=True))
        share = f"{100 * part / max(1.0, sum(shares)):.1f} %"
        rows.append((shorten(name, WIDE), str(len(own)), time_text(predicted), time_text(measured), share))
    return [align(rows, right=(1, 2, 3, 4)), ""]


# --- verify -----------------------------------------------------------------------------------------------


def verify_model(
    word: str, hw: str, sizes: Sequence[str], choices: Choices, asked: ModelRun, folder: str | None = None
) -> Answer:
    """Return each layer of a model, compared with the interpreter and with ONNX's evaluator.

    With a folder of `compile --emit program`, its stream is performed.
    """
    from isamap.graph.layers import NOTHING, compare_layers
    from isamap.onnx.onnx_models import OnnxReference

    how, findings, evaluate = how_of([hw], choices, asked.host), list[Finding](), None
    with Progress() as progress:
        ready = _prepare(word, sizes, how, asked, progress, folder)
        progress("verify")
        if Path(word).name != GRAPH:
            try:
                evaluate = OnnxReference(Path(word), ready.constants).evaluate
            except UsageProblem as problem:
                findings += [Finding.of(d) for d in problem.diagnostics]
        compared: list[ComparedLayer] = []
        program, trace = ready.model.program, ready.found.trace
        for one in compare_layers(program, trace, ready.layers, ready.model, ready.inputs, evaluate):
            compared.append(one)
            progress(f"verify {shorten(one.layer.name, WIDE)}", len(compared), len(ready.layers))
    wrong = [one for one in compared if one.problems]
    findings += [Finding.of(d) for d in _report_layers(wrong)]
    rows = [("", "layer", "largest error", "allowed", "checked")]
    for one in compared:
        allowed = "exact" if one.bound == 0 else f"{one.bound:.2g}"
        words = "FAILED" if one.problems else "ok" if one.is_judged else "-"
        rows.append((words, shorten(one.layer.name, WIDE), f"{one.max_error:.2g}", allowed, one.checked))
    counted = sum(one.with_onnx for one in compared)
    moves = sum(one.checked == NOTHING for one in compared)
    unseen = sum(not one.is_judged for one in compared)
    last = f"{len(wrong)} of {len(compared)} layers differ" if wrong else f"all {len(compared)} layers fine"
    if unseen:
        right = f"{len(compared) - unseen - len(wrong)} of {len(compared)} layers fine"
        last = last if wrong else right
        last += f"; {moves} not compared, as no reference computes their moves" if moves else ""
        last += (
            f"; {unseen - moves} not compared, as no bound of their errors is finite"
            if unseen > moves
            else ""
        )
    text = f"{align(rows, right=(2, 3))}\n\n{last}; {counted} results compared with ONNX's evaluator"
    text = "\n".join([text, *where_text(ready.layers)])
    layers = [
        {
            **layer_json(one.layer), "max_error": one.max_error,
            "verified": not one.problems if one.is_judged or one.problems else None,
            "bound": one.bound, "checked": one.checked, "with_onnx": one.with_onnx,
            "diagnostics": [d.as_json() for d in one.problems],
        }
        for one in compared
    ]  # fmt: skip
    first = wrong[0].layer.name if wrong else None
    payload = {**_facts(word, ready.model, how), "layers": layers, "first_wrong": first, "with_onnx": counted}
    return Answer(payload, text, tuple(findings), int(bool(wrong)))


def _report_layers(wrong: Sequence[ComparedLayer]) -> list[Diagnostic]:
    """Return the findings of the layers that differ. The first one is marked."""
    return [
        replace(d, message=f"{'the first layer that differs' if one is wrong[0] else 'layer'}, "
                f"`{one.layer.name}`: {d.message}", help=None)
        for one in wrong for d in one.problems
    ]  # fmt: skip


# --- bench ------------------------------------------------------------------------------------------------


def bench_model(
    word: str, hw: str, sizes: Sequence[str], choices: Choices, asked: ModelRun, budget_s: float
) -> Answer:
    """Return the times of a model by isamap and by the installed runtimes, in alternation."""
    from isamap.bench.models import TimedRuntime, time_model
    from isamap.graph.model_library import CompiledModel

    if not word.endswith(".onnx"):
        said = f"runtimes read .onnx files, and `{word[:80]}` is not one"
        raise UsageProblem.of("usage", said, help="see `isamap bench --help` for the suites")
    how = how_of([hw], choices, asked.host)
    with Progress() as progress:
        ready = _prepare(word, sizes, how, asked, progress)
        progress("bench")
        model = ready.model
        assert isinstance(model, CompiledModel), "no folder of a stream is named"
        own, runtimes = time_model(Path(word), model, ready.inputs, ready.constants, how.threads, budget_s)
    rows = [("", "least", "median", "over isamap", "95 %", "apart")]
    rows.append(("isamap", time_text(min(own) * 1e9), time_text(median(own) * 1e9), "", "", ""))
    findings: list[Finding] = []
    listed: dict[str, object] = {}
    for one in runtimes:
        if not isinstance(one, TimedRuntime):
            help_ = None if one.is_installed else "pip install 'isamap[bench]'"
            said = f"{one.name} is not timed: {one.why}"
            findings.append(Finding.of(Diagnostic("contender-lost", said, severity="warning", help=help_)))
            continue
        ratio = one.ratio
        times = time_text(min(one.seconds) * 1e9), time_text(median(one.seconds) * 1e9)
        interval = f"{ratio.low:.2f} to {ratio.high:.2f}"
        rows.append((f"{one.name} {one.version}", *times, f"{ratio.value:.2f}", interval, f"{one.apart:.1e}"))
        listed[one.name] = {
            "version": one.version, "seconds": _seconds(one.seconds), "apart": one.apart,
            "ratio": {"value": ratio.value, "low": ratio.low, "high": ratio.high},
            "least_ratio": min(one.seconds) / min(own),
        }  # fmt: skip
    facts = _facts(word, model, how)
    count_ = "one thread" if how.threads == 1 else f"{how.threads} threads"
    head = f"{ready.found.name} on {facts['machine']}, {count_}, {len(own)} rounds in alternation"
    text = f"{head}\n\n{align(rows, right=(1, 2, 3))}\n\n{memory_text(peak_memory_bytes())}"
    return Answer({**facts, "seconds": _seconds(own), "runtimes": listed}, text.rstrip(), tuple(findings))


def _seconds(times: Sequence[float]) -> dict[str, float]:
    return {"min": min(times), "median": median(times)}
