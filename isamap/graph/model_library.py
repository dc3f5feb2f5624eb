"""Compile a model to a library: distinct kernels once and in parallel, then joined, built, and called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from isamap.driver.ahead import compile_ahead, label_of
from isamap.driver.cached_compilations import key_of, recall_emitted
from isamap.driver.inputs import find_profile, machine_of, with_profile
from isamap.driver.model_rewrites import form_of
from isamap.driver.request import DEFAULT_COST_MODEL, Request, Size, complete_sizes, has_versions, whole_sizes
from isamap.driver.runnable import is_model
from isamap.driver.side_by_side import all_jobs, done_side_by_side
from isamap.emit.c import EmittedC
from isamap.emit.c_interface import BAD_INDEX
from isamap.formulate.packable import require_packable
from isamap.graph.device_assignment import DeviceAssignment, deal, places_of
from isamap.graph.elementwise_fusion import Fuse, finish_steps, fuse_steps
from isamap.graph.emitting import EmittedModel, emit, room_of
from isamap.graph.filters_at_points import cheapest_forms, forms_at_points, with_forms
from isamap.graph.graph import Array
from isamap.graph.group_prices import Prices, with_free_strides
from isamap.graph.host_fallback import (
    CompiledModelKernel,
    DividedModel,
    divide,
    make_kernel,
    with_known_numbers,
    with_shifts_of,
    writes_borders,
)
from isamap.graph.model_program import Control, KernelCall, ModelProgram, TensorView, called_by, reads_of
from isamap.graph.move_kernels import with_kernels_of
from isamap.graph.partition import Method, Partition
from isamap.graph.planning import LINE_BYTES, find_pitches, plan, room_bytes
from isamap.graph.sizes import index_of, is_open, most_of, needs_numbers, value_of
from isamap.graph.thresholds import AHEAD_KERNELS, PACKED_BYTES, SPILLED_BYTES
from isamap.graph.types import CODED, convert_stored, make_dense, size_bytes, stored_type
from isamap.ir import DTYPES, Index, bind
from isamap.machine import Machine, at_one_length, load_machine, missing_features
from isamap.machine.allowed import permission_numbers
from isamap.plan.plugins import check_name
from isamap.run.blame import Emissions
from isamap.run.child import report_permission
from isamap.run.in_process import large_room
from isamap.run.runner import Packer, compile_packers_together, pack_in_process
from isamap.run.toolchain import COMPILERS, MODEL_FLAGS, Compiler, build, build_pool, find_compiler
from isamap.run.worker import ThreadPool, ask_permission, load_library
from isamap.source import Diagnostic, IsamapError, Source, UsageProblem, release, spill
from isamap.source.cache import digest
from isamap.source.progress import Progress, Watch, unwatched
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, reads, statements, symbols

MAX_DEVICES = 16
MOST_PRICED = 1 << 32
"""A loop of more iterations than these has no known number of them, and the price of one."""
SOURCE = "kernel"
"""The name of a text, as in `isamap.compile`, which has the same results."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options for compiling a model's kernels. Without a heuristic, a search runs for kernels that are worth it.

    `profile` is a word of `--profile`.
    """

    machine: str = "host"
    heuristic: str = "greedy"
    limit_s: float = 10.0
    jobs: int = 0
    scheduler: str = ""
    """The address of a scheduler of Dask whose workers compile kernels; "" for processes here."""
    cache: bool = True
    threads: int = 1
    devices: int = 1
    profile: str = "default"
    cost_model: str = DEFAULT_COST_MODEL
    host: str = ""
    """The machine that performs kernels which the first cannot; "" if they are refused."""
    transform: bool = False
    """Convolutions may be computed at points, with other rounding errors, where the cost model says so."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model in C, and its machine.

    `model` is true if the machine's kernels are plain C. `builder` is the machine whose compilers and flags
    build the library, None for plain C. `divided` lists the kernels on a host.
    """

    emitted: EmittedModel
    machine: Machine
    model: bool
    kernels: int
    is_cut_short: bool
    program: ModelProgram
    """The steps that it performs."""
    dealt: DeviceAssignment | None = None
    costs: Mapping[str, float] = field(default_factory=dict[str, float])
    """The price of each kernel, and of each step that calls bodies, by the cost model. Units: nanoseconds."""
    cost_ns: float = 0.0
    """The sum of the prices of its steps. Units: nanoseconds."""
    builder: Machine | None = None
    divided: DividedModel | None = None


def compile_program_of(
    program: ModelProgram,
    how: ModelOptions,
    watch: Watch = unwatched,
    *,
    runs: bool = False,
    apart: bool = False,
    watched: bool = False,
    lowered: bool = False,
) -> ModelSource:
    """Return the C of a program. With `runs`, a machine that this processor is not becomes a plain-C model.

    With `lowered`, the accelerator's parts of a program that has a host have their lowered programs.
    """
    if (program.sizes or program.counts) and how.devices > 1:
        raise needs_numbers(program.sizes + program.counts, "distributing kernels among devices")
    if program.sizes and watched:
        raise needs_numbers(program.sizes, "running a model layer by layer")
    machine, model = _machine(how, runs=runs)
    program = with_kernels_of(program, machine)
    program = with_shifts_of(with_known_numbers(program), machine) if how.host else program
    program = _at_points(program, how, watch, runs=runs) if how.transform and not how.host else program
    requests = requests_of(program, how, runs=runs)
    names = list(program.kernels)
    jobs = how.scheduler or how.jobs or (all_jobs() if len(requests) >= AHEAD_KERNELS else 1)
    made, performed = dict[str, CompiledModelKernel](), program
    divided, builder = None, _builder(machine, is_model=model)
    if how.host:
        on_host = replace(how, machine=how.host)
        host, host_is_model = _machine(on_host, runs=runs)
        asked = list(zip(requests, requests_of(program, on_host, runs=runs), strict=True))
        divided = divide(program, asked, host, jobs, watch, lowered=lowered)
        program, made = divided.program, dict(divided.made)
        performed = program
        builder = builder or (_builder(host, is_model=host_is_model) if divided.why else None)
    else:
        found = done_side_by_side(make_kernel, requests, jobs, here=True, machines=lambda one: (one.machine,))
        for done, (number, one) in enumerate(found):
            watch(label_of(requests[number].kernel.text), done + 1, len(requests))
            made[names[number]] = one
        watch("pack")
        program = with_packed(program, {n: one.emitted for n, one in made.items()}, machine, model=model)
    kernels = {name: replace(one.emitted, packs=()) for name, one in made.items()}
    _check_calls(program, kernels)
    bodies: dict[str, ModelSource] = {}
    costs = {n: one.cost_ns for n, one in made.items()}
    needed: dict[str, int] = {}
    for step in (step for step in program.steps if isinstance(step, Control)):
        for body in step.bodies:
            bodies[body.name] = compile_program_of(
                body, replace(how, devices=1), watch, runs=runs, apart=True
            )
            builder = builder or bodies[body.name].builder
        own = {body.name: bodies[body.name].emitted for body in step.bodies}
        needed[step.name] = room_of(step, own)
        most = max(bodies[body.name].cost_ns for body in step.bodies)
        trips = most_of(step.trips) if step.function == "loop" else 1
        costs[step.name] = most * (trips if trips < MOST_PRICED else 1)
    shared = _assign_devices(program, costs, how) if how.devices > 1 else None
    program, phases = (shared.program, shared.phases) if shared else (program, ())
    needed |= {name: one.workspace_bytes for name, one in made.items()}
    placed = plan(program, needed, find_pitches(program, machine), places_of(phases) if shared else None)
    emitted = emit(
        program, kernels, placed, machine, builder, apart=apart, phases=phases, watched=watched,
        bodies={name: body.emitted for name, body in bodies.items()},
    )  # fmt: skip
    is_cut_short = any(one.is_cut_short for one in (*made.values(), *bodies.values()))
    count = len(made) + sum(body.kernels for body in bodies.values())
    cost_ns = sum(costs.get(called_by(step), 0.0) for step in program.steps)
    return ModelSource(
        emitted, machine, model, count, is_cut_short, performed, shared, costs, cost_ns, builder, divided
    )


def _assign_devices(program: ModelProgram, costs: Mapping[str, float], how: ModelOptions) -> DeviceAssignment:
    """Return the assignment of the steps to devices, by the machine's parameters as measured here."""
    return deal(program, costs, measured_machine(how), how.devices, how.limit_s)


def measured_machine(how: ModelOptions) -> Machine:
    """Return the machine with the measured parameters of its profile."""
    name = machine_of(how.machine)
    return with_profile(at_one_length(load_machine(name)), find_profile(how.profile, name))


def _machine(how: ModelOptions, *, runs: bool) -> tuple[Machine, bool]:
    """Return the machine, and whether this computer runs it as a plain-C model."""
    machine = at_one_length(load_machine(machine_of(how.machine)))
    return machine, runs and is_model(machine, missing_features(machine), None)


def _builder(machine: Machine, *, is_model: bool) -> Machine | None:
    """Return the machine whose flags build the kernels, or None for plain C."""
    return None if is_model or machine.target.run == "model" else machine


def requests_of(program: ModelProgram, how: ModelOptions, *, runs: bool) -> list[Request]:
    """Return a compilation request for each kernel. Weights are packed if this processor can run the packer."""
    name = machine_of(how.machine)
    machine, model = _machine(how, runs=runs)
    sizes: dict[str, dict[str, Size]] = {}
    for step in program.steps:
        if isinstance(step, KernelCall):
            sizes.setdefault(step.kernel, {param: size.text for param, size in step.sizes.items()})
    several = {kernel for kernel, of in sizes.items() if has_versions(of)}  # each would pack in its own order
    here = model or not is_model(machine, missing_features(machine), None)
    packed = packed_of(program, sizes) if here and not how.host else {}
    profile = find_profile(how.profile, name)
    searched = {step.kernel for step in program.steps if isinstance(step, KernelCall) and step.is_searched}
    return [
        Request(
            Source(SOURCE, text), name, sizes[kernel],
            heuristic=how.heuristic or ("cpsat" if kernel in searched else "greedy"), limit_s=how.limit_s,
            model=model, profile_name=how.profile, profile=profile, cost_model=how.cost_model,
            cache=how.cache, threads=how.threads,
            packed=() if kernel in several else packed.get(kernel, ()),
            transform=None if kernel in several else form_of(text),
        )
        for kernel, text in (with_free_strides(program) if machine.levels else program.kernels).items()
    ]  # fmt: skip


def _at_points(program: ModelProgram, how: ModelOptions, watch: Watch, *, runs: bool) -> ModelProgram:
    """Return the program with convolutions computed at points where this makes their kernels cheaper."""
    forms = forms_at_points(program)
    asked = dict(zip(program.kernels, requests_of(program, how, runs=runs), strict=True))
    requests = {kernel: asked[kernel] for kernel in forms}
    for kernel, form in ((kernel, form) for kernel, of in forms.items() for form in of):
        dtype = form.ahead.operand(form.filters).dtype.name
        is_packed = _is_packed(form.text, form.filters, size_bytes(dtype, form.shape), {})
        packed = (form.filters,) if is_packed and requests[kernel].packed else ()
        requests[form.name] = replace(requests[kernel], kernel=Source(SOURCE, form.text), packed=packed)
    jobs = how.scheduler or how.jobs or (all_jobs() if len(requests) >= AHEAD_KERNELS else 1)
    names, costs = list(requests), dict[str, float]()
    found = done_side_by_side(
        make_kernel, list(requests.values()), jobs, here=True, machines=lambda one: (one.machine,)
    )
    for done, (number, one) in enumerate(found):
        watch(f"price {names[number]}", done + 1, len(names))
        costs[names[number]] = one.cost_ns
    return with_forms(program, cheapest_forms(forms, costs))


def fuse_of(method: Method, how: ModelOptions, workspace_bytes: int = 0, watch: Watch = unwatched) -> Fuse:
    """Return the method that groups operations into kernels: singly, greedily, or by CP-SAT."""
    if method != "cpsat":
        rule = fuse_steps if method == "greedy" else finish_steps
        return (
            partial(rule, borders=False) if how.host and not writes_borders(machine_of(how.machine)) else rule
        )
    return partition_of(method, how, workspace_bytes, watch)


def partition_of(
    method: Method, how: ModelOptions, workspace_bytes: int = 0, watch: Watch = unwatched
) -> Partition:
    """Return the partition of a program by a machine's prices. Units: bytes, 0 for no limit."""
    name = machine_of(how.machine)
    request = Request(
        Source(SOURCE, ""), name, {}, heuristic="greedy", profile=find_profile(how.profile, name),
        cost_model=how.cost_model, cache=how.cache, threads=how.threads,
    )  # fmt: skip
    prices = Prices(
        request, at_one_length(load_machine(name)), how.scheduler or how.jobs or all_jobs(), watch
    )
    return Partition(method, prices, how.limit_s, workspace_bytes)


def _check_calls(program: ModelProgram, kernels: Mapping[str, EmittedC]) -> None:
    """Check that each kernel accepts the arguments of its calls. Raises: UsageProblem."""
    for step in program.steps:
        if not isinstance(step, KernelCall):
            continue
        interface = kernels[step.kernel].interface
        own = {param: Index.of(size.symbol) for param, size in step.sizes.items()}
        taken = {
            t.name: (t.role, t.dtype.name, tuple(s.substitute(own) for s in t.shape))
            for t in interface.tensors
        }
        given = {
            name: (role, p.dtype, tuple(map(index_of, p.shape or (1,))))
            for role, passed in (("in", step.reads), ("out", step.writes))
            for name, p in passed.items()
        }
        wrong = sorted(name for name in taken.keys() | given.keys() if taken.get(name) != given.get(name))
        if wrong or interface.scalars or {name for name, _, _ in interface.symbols} != set(step.sizes):
            what = f"`{wrong[0]}`" if wrong else "a size or a scalar"
            said = f"the kernel `{step.kernel}` takes {what} that the graph states otherwise"
            raise UsageProblem.of("graph-damaged", said, help="edit the kernel, or the graph file")


class CompiledModel:
    """A model that is called with inputs by name, and returns results by name.

    Several threads may call it at once, because each call has its own workspace. `warnings` name reasons why
    it may be slow.
    """

    def __init__(
        self,
        library: ModelSource,
        threads: int = 1,
        warnings: tuple[Diagnostic, ...] = (),
        watch: Watch = unwatched,
    ) -> None:
        self.library = library
        self.warnings = warnings
        self.emitted = library.emitted
        self._pool: ThreadPool | None = None
        if self.emitted.takes_pool and threads > 1:
            self._pool = ThreadPool(str(build_pool(find_compiler(()))), threads)
        path = build_model(self.emitted, library.builder, watch)
        for permission in library.builder.target.permissions if library.builder else ():
            if not ask_permission(permission_numbers()[permission]):
                raise report_permission()
        self._loaded = load_library(str(path))
        self._run: Any = self._loaded[f"{self.emitted.name}_run"]
        self._run.argtypes = (ctypes.c_void_p,) * 3
        self._rooms: list[CallState] = []
        self._weights = AlignedBytes.of(self.emitted.weights) if self.emitted.is_apart else None
        self._dense = DensePorts.of(self.emitted)

    @property
    def program(self) -> ModelProgram:
        """The program of the model."""
        return self.library.program

    @property
    def inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Types and sizes of inputs by name. An open size is written as its name."""
        return {p.name: (p.passed.dtype, p.passed.shape) for p in self.emitted.inputs}

    @property
    def outputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The types and sizes of results by name."""
        return {p.name: (p.passed.dtype, p.passed.shape) for p in self.emitted.outputs}

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Return the results for these inputs. Raises: UsageProblem for other names, types or sizes."""
        if self._dense is not None and (given := self._dense.addresses(inputs)) is not None:
            results = self._dense.make_results()
            self.call_at(given, [array.ctypes.data for array in results.values()])
            return results
        unknown = [name for name in inputs if name not in self.inputs]
        if unknown:
            raise _error(f"there is no input `{unknown[0]}`", f"inputs: {', '.join(self.inputs)}")
        _take_input, _made, places, sized = self._prepare_call(inputs)  # it lives as long as the call
        self.call_at(*places)
        return {port.name: array for port, array in zip(self.emitted.outputs, sized(), strict=True)}

    def bound(self, inputs: Mapping[str, Any]) -> Callable[[], int]:
        """Return a function without arguments that runs the model on these inputs and returns the status.

        Raises: as a call.
        """
        given, made, places, sized = self._prepare_call(inputs)
        room, run = self._room(), self._run
        room.point(*places)
        kept = (given, made, sized, room)  # they live as long as the call
        return lambda kept=kept: int(run(*room.places))

    def watch(
        self,
        inputs: Mapping[str, Any],
        each: Callable[[Callable[[TensorView], Array], int], None] | None = None,
    ) -> list[int]:
        """Return the time of each step in one call of a watched library. Units: nanoseconds.

        `each` is called behind a step with a function that copies a tensor, and with the step's number.
        Raises: as a call.
        """
        _take_input, made, places, _sized = self._prepare_call(inputs)  # it lives as long as the call
        results = {p.passed.tensor: array for p, array in zip(self.emitted.outputs, made, strict=True)}
        room, plan = self._rooms.pop() if self._rooms else self._room(), self.emitted.plan
        room.point(*places)
        start = -(-room.places[2] // LINE_BYTES) * LINE_BYTES

        def copy(seen: TensorView) -> Array:
            counts = {
                size.symbol: ctypes.c_int64.from_address(start + plan.tensors[size.tensor]).value
                for size in self.emitted.counts
            }
            passed = replace(seen, shape=tuple(value_of(size, counts) for size in seen.shape))
            if passed.tensor in results:
                return results[passed.tensor].reshape(-1)[: prod(passed.shape)].reshape(passed.shape).copy()
            size, dtype = room_bytes(passed, plan.pitches), DTYPES[passed.dtype].numpy()
            rows = np.frombuffer(ctypes.string_at(start + plan.tensors[passed.tensor], size), np.uint8)
            if passed.tensor in plan.pitches:
                row = size_bytes(passed.dtype, passed.shape[-1:])
                rows = rows.reshape(-1, plan.pitches[passed.tensor])[:, :row]
            return np.array(rows, order="C").view(dtype).reshape(passed.shape)

        ns = (ctypes.c_int64 * max(1, self.emitted.steps))()
        kind: Any = ctypes.CFUNCTYPE(None, ctypes.c_int)
        call = kind() if each is None else kind(partial(each, copy))
        status = self._loaded[f"{self.emitted.name}_watch"](*map(ctypes.c_void_p, room.places), ns, call)
        self._rooms.append(room)
        self.check(status)
        return list(ns[: self.emitted.steps])

    def _prepare_call(
        self, inputs: Mapping[str, Any]
    ) -> tuple[list[Array], list[Array], tuple[list[int], list[int]], Callable[[], list[Array]]]:
        """Return the arrays that a call reads and writes, its sizes, and a function that returns its results."""
        sizes: dict[str, int] = {}
        given = [self._take_input(port.name, inputs, sizes) for port in self.emitted.inputs]
        returned = self.emitted.returned
        most = sizes | {size.symbol: size.high for size in returned}
        made = [
            np.empty([value_of(size, most) for size in p.passed.shape], DTYPES[p.passed.dtype].numpy())
            for p in self.emitted.outputs
        ]
        numbers = [sizes[size.symbol] for size in self.emitted.sizes]
        counts = (ctypes.c_int64 * len(returned))()
        places = [ctypes.addressof(counts) + 8 * n for n in range(len(returned))]

        def sized() -> list[Array]:
            own = sizes | {size.symbol: number for size, number in zip(returned, counts, strict=True)}
            shapes = [[value_of(size, own) for size in p.passed.shape] for p in self.emitted.outputs]
            return [
                a.reshape(-1)[: prod(s)].reshape(s) if returned else a
                for a, s in zip(made, shapes, strict=True)
            ]

        results = [*places, *(a.ctypes.data for a in made)]
        return given, made, ([*numbers, *(a.ctypes.data for a in given)], results), sized

    def _room(self) -> CallState:
        first: list[int | None] = [self._weights.start] if self._weights is not None else []
        if self.emitted.takes_pool:
            first.append(self._pool.address if self._pool else None)
        return CallState.of(
            first,
            inputs=len(self.emitted.sizes) + len(self.emitted.inputs),
            outputs=len(self.emitted.returned) + len(self.emitted.outputs),
            workspace_bytes=self.emitted.workspace_bytes,
        )

    def call_at(self, given: Sequence[int], made: Sequence[int]) -> None:
        """Call the library with the addresses of its inputs and results, dense arrays in order.

        In front of the inputs are the open sizes. Raises: UsageProblem if an index among the inputs, or a
        size, lies outside.
        """
        try:
            room = self._rooms.pop()
        except IndexError:
            room = self._room()
        room.point(given, made)
        status = self._run(*room.places)
        self._rooms.append(room)
        self.check(status)

    def check(self, status: int) -> None:
        """Check that a status is 0. Raises: UsageProblem otherwise."""
        if status:
            said = f"`{self.emitted.name}_run` returned {status}"
            help_ = {
                **dict.fromkeys((100, BAD_INDEX), "an index among its inputs is out of range"),
                101: "an open size lies outside of its range",
                102: "a result needs at least one row, and data leaves none",
            }.get(status)
            raise UsageProblem.of("program-refused", said, help=help_)

    def _take_input(self, name: str, inputs: Mapping[str, Any], sizes: dict[str, int]) -> Array:
        """Return an input in the form that kernels accept. Open sizes that it determines are added to `sizes`."""
        if name not in inputs:
            raise _error(f"the input `{name}` is missing", f"inputs: {', '.join(self.inputs)}")
        dtype, shape = self.inputs[name]
        array = convert_stored(np.asarray(inputs[name]))
        element = DTYPES[dtype].numpy()
        is_of_type = array.dtype == element or array.dtype.name in (f"int{dtype[1:]}", f"uint{dtype[1:]}")
        if array.ndim != len(shape) or not is_of_type or not self._fits(array.shape, shape, sizes):
            said = f"`{name}` is an array {dtype}{list(shape)}, and {array.dtype}{list(array.shape)} is given"
            raise _error(said)
        return make_dense(array, dtype)

    def _fits(self, own: Sequence[int], shape: Sequence[int], sizes: dict[str, int]) -> bool:
        """Return whether an array has these sizes. Open sizes are those that other inputs have determined."""
        for number, size in zip(own, shape, strict=True):
            if is_open(size):
                open_size = next(s for s in self.emitted.sizes if s.symbol == str(size))
                low, high = open_size.low, open_size.high
                number_is_wrong = not low <= number <= high
                if number_is_wrong:
                    said = (
                        f"`{open_size.name}` is from {low} to {high} in this library, and {number} is given"
                    )
                    raise _error(said)
                sizes.setdefault(open_size.symbol, number)
            if value_of(size, sizes) != number:
                return False
        return True


def compile_whole(
    program: ModelProgram,
    how: ModelOptions,
    jobs: int = 0,
    *,
    apart: bool = False,
    warnings: tuple[Diagnostic, ...] = (),
) -> CompiledModel:
    """Return a compiled program, with kernels compiled in `jobs` processes. With `apart`, it has no weights.

    Programs that differ in weights alone are then one library. Raises: IsamapError of every kind.
    """
    with Progress() as progress:
        _compile_ahead(program, how, jobs or all_jobs(), progress)
        library = compile_program_of(program, how, progress, runs=True, apart=apart)
        warnings += library.dealt.plan.warnings if library.dealt else ()
        return CompiledModel(library, max(how.threads, how.devices), warnings, progress)


def program_key(program: ModelProgram, how: ModelOptions) -> str:
    """Return the sha256 of everything that a program's kernels depend on. Raises: IsamapError of every kind."""
    keys = (key_of(request) or "" for request in requests_of(program, how, runs=True))
    return digest(*keys, *(("transform",) if how.transform else ()))


def explain_refused_kernels(program: ModelProgram, how: ModelOptions) -> dict[str, str]:
    """Return why a machine cannot perform kernels, by the first tensor that each kernel writes."""
    found: dict[str, str] = {}
    for kernel, text in program.kernels.items():
        steps = tuple(
            step for step in program.steps if isinstance(step, KernelCall) and step.kernel == kernel
        )
        try:
            (request,) = requests_of(replace(program, kernels={kernel: text}, steps=steps), how, runs=True)
            make_kernel(request)
        except IsamapError as error:
            firsts = [next(iter(step.writes.values())).tensor for step in steps]
            found |= dict.fromkeys(firsts, error.diagnostics[0].message)
    return found


def refuse_both(how: ModelOptions) -> None:
    """Refuse exclusive options: threads with devices, rewrites with a host. Raises: UsageProblem."""
    if how.threads > 1 and how.devices > 1:
        said = "threads share each kernel, devices have kernels of their own: a core is one or the other"
        help_ = "give one of both; docs/graphs.md compares them"
        raise UsageProblem.of("argument-mismatch", said, help=help_)
    if how.transform and how.host:
        said = f"`--transform` is for a model on one machine, and `{how.host}` performs steps of this one"
        raise UsageProblem.of("usage", said, help="leave out one of --transform and --host")


def warnings_of(fuse: Fuse | None) -> tuple[Diagnostic, ...]:
    """Return the reasons why a partition may not be the best one. There are none for the greedy rule."""
    return fuse.warnings if isinstance(fuse, Partition) else ()


def _compile_ahead(program: ModelProgram, how: ModelOptions, jobs: int, watch: Watch = unwatched) -> None:
    """Compile uncached kernels in processes that do not rerun the caller's program."""
    if jobs == 1 or how.host or len(program.kernels) < AHEAD_KERNELS:
        return  # with a host, parts of kernels are compiled
    with suppress(IsamapError):  # which is said where each of them is asked for
        new = [r for r in requests_of(program, how, runs=True) if recall_emitted(key_of(r)) is None]
        if len(new) >= AHEAD_KERNELS:
            compile_ahead([_describe_request(request) for request in new], jobs, watch)


def _describe_request(request: Request) -> dict[str, Any]:
    """Return a kernel's request for another process, which does not build its library."""
    return {
        "kernel": request.kernel.text, "sizes": request.sizes, "machine": request.machine,
        "heuristic": request.heuristic, "limit_s": request.limit_s, "threads": request.threads,
        "packed": request.packed, "model": request.model, "builds": False, "transform": bool(request.transform),
        "profile": request.profile_name, "cost_model": request.cost_model,
    }  # fmt: skip


def _error(said: str, *notes: str) -> UsageProblem:
    return UsageProblem.of("argument-mismatch", said, notes=notes)


# The emitted files of a model as a shared library, from the cache where it was built before.


def _compiler(machine: Machine | None) -> Compiler:
    """Return the compiler that builds libraries for a machine, or plain C for None. Raises: MissingTool."""
    if machine is None:
        return find_compiler(MODEL_FLAGS, COMPILERS)
    return find_compiler(machine.target.flags, machine.target.toolchains, None, machine.target.features)


def check_tools(how: ModelOptions) -> None:
    """Check that there is a machine, its plug-ins and a compiler. Raises: SpecProblem, UsageProblem, MissingTool."""
    measured_machine(how)
    if how.heuristic:
        check_name("heuristic", how.heuristic)
    check_name("cost model", how.cost_model)
    machine, is_model = _machine(how, runs=True)
    _compiler(_builder(machine, is_model=is_model))


def build_model(emitted: EmittedModel, machine: Machine | None, watch: Watch = unwatched) -> Path:
    """Return the library, built for a machine or as plain C for None. Raises: MissingTool, CompilerRefused."""
    apart = (
        f"{emitted.name}.weights" if emitted.is_apart else ""
    )  # another file of them makes no other library
    files = {name: content for name, content in emitted.files.items() if name != apart}
    emissions = Emissions(machine) if machine else None
    flags = machine.target.flags if machine else MODEL_FLAGS
    return build(_compiler(machine), flags, files, emitted.sources, emissions, watch=watch)


# Where a call of a model works: its pointers and its workspace, kept from one call to the next.
#
# room = Room.of(first, inputs=2, outputs=1, workspace_bytes=4096)
# room.point([x, y], [z]); run(*room.places)


@dataclass(frozen=True, slots=True)
class CallState:
    """The state that one call at a time uses. `places` are the addresses of the function's arguments."""

    inputs: Any
    outputs: Any
    space: Any
    first: int
    places: tuple[int, int, int]

    @staticmethod
    def of(first: Sequence[int | None], *, inputs: int, outputs: int, workspace_bytes: int) -> CallState:
        """Return the call state of a model. `first` are the struct members before the input pointers."""
        given = (ctypes.c_void_p * (len(first) + inputs + 1))(*first)
        made = (ctypes.c_void_p * (outputs + 1))()
        space = large_room(workspace_bytes + LINE_BYTES)
        places = (ctypes.addressof(given), ctypes.addressof(made), ctypes.addressof(space))
        return CallState(given, made, space, len(first), places)

    def point(self, given: Sequence[int], made: Sequence[int]) -> None:
        """Set the addresses of inputs and results in the argument structs."""
        self.inputs[self.first : self.first + len(given)] = given
        self.outputs[: len(made)] = made


@dataclass(frozen=True, slots=True)
class DensePorts:
    """The names, types and known sizes of a model's inputs and results, with which a call takes less time.

    Weights drive Python's code out of the caches, so each step of Python costs a call some microseconds.
    """

    inputs: tuple[tuple[str, Any, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, Any, tuple[int, ...]], ...]

    @staticmethod
    def of(emitted: EmittedModel) -> DensePorts | None:
        """Return the ports, or None if a size is open or a type is stored as another one."""
        ports = tuple(
            tuple((p.name, DTYPES[stored_type(p.passed.dtype)].numpy(), p.passed.shape) for p in side)
            for side in (emitted.inputs, emitted.outputs)
        )
        passed = [p.passed for p in (*emitted.inputs, *emitted.outputs)]
        is_known = not emitted.sizes and not emitted.returned and all(p.dtype not in CODED for p in passed)
        return DensePorts(*ports) if is_known else None

    def addresses(self, inputs: Mapping[str, Any]) -> list[int] | None:
        """Return the addresses of a call's arrays in order, or None if an array needs a closer look."""
        if len(inputs) != len(self.inputs):
            return None
        found: list[int] = []
        for name, dtype, shape in self.inputs:
            array = inputs.get(name)
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                return None
            if not array.flags.c_contiguous:
                return None
            found.append(array.ctypes.data)
        return found

    def make_results(self) -> dict[str, Array]:
        """Return new uninitialised arrays by name."""
        return {name: np.empty(shape, dtype) for name, dtype, shape in self.outputs}


@dataclass(frozen=True, slots=True)
class AlignedBytes:
    """Bytes in memory that start at a cache line."""

    space: Any
    start: int

    @staticmethod
    def of(content: memoryview) -> AlignedBytes:
        """Return bytes at a cache line, copied if necessary."""
        place = np.frombuffer(content, np.uint8).ctypes.data
        if place % LINE_BYTES == 0:
            return AlignedBytes(content, place)
        space = large_room(len(content) + LINE_BYTES)
        start = -(-ctypes.addressof(space) // LINE_BYTES) * LINE_BYTES
        ctypes.memmove(start, bytes(content), len(content))
        return AlignedBytes(space, start)


# Weights that kernels take packed: which they are, and a program in which they have been packed, once.
#
#     conv(a0, a1, y0), a1 a constant      conv(a0, a1_packed, y0), a1_packed what `conv_pack_a1` wrote
#
# A kernel is asked for with its weights packed where they are the same in each call, where one sum reads
# them, and where there are enough of them not to stay in the nearest cache, or their elements are narrower than
# sums: what multiplies several elements at once takes them in another order. What packs runs on this
# processor when the model is compiled; the model holds what it wrote, in place of the weights.


def packed_of(program: ModelProgram, given: Mapping[str, Mapping[str, Size]]) -> dict[str, tuple[str, ...]]:
    """Return for each kernel at most one operand to be packed, by the ranges of its open sizes."""
    constant: dict[str, set[str]] = {}
    sizes: dict[str, dict[str, int]] = {}
    for step in program.steps:
        if isinstance(step, KernelCall):
            known = {n for n, p in step.reads.items() if p.tensor in program.constants and len(p.shape) > 1}
            constant[step.kernel] = constant.get(step.kernel, known) & known
            sizes[step.kernel] = {n: size_bytes(p.dtype, p.shape) for n, p in step.reads.items()}
    found: dict[str, tuple[str, ...]] = {}
    for kernel, names in constant.items():
        name = max(names, key=lambda n: (sizes[kernel][n], n), default=None)
        if name is not None and _is_packed(program.kernels[kernel], name, sizes[kernel][name], given[kernel]):
            found[kernel] = (name,)
    return found


def _is_packed(text: str, name: str, size: int, sizes: Mapping[str, Size]) -> bool:
    """Return whether one sum alone reads an operand, and reads it faster from another order.

    Of a few bytes that is so if they are narrower than the sums, and along an axis of their own: where each
    element has a factor of its own, vectors read both alike.
    """
    parsed = parse_kernel(Source("kernel", text))
    kernel = make_guards_explicit(bind(parsed, complete_sizes(parsed, whole_sizes(sizes))))
    try:
        require_packable(kernel, (name,))
    except UsageProblem:
        return False
    for statement in statements(kernel):
        factors = reads(statement.assign.value)
        own = next((read for read in factors if read.buffer == name), None)
        if own is not None and statement.is_reduction:
            others = {axis.name for axis in statement.reduction_axes}
            others |= {symbol for read in factors if read is not own for symbol in symbols(read)}
            is_narrow = own.dtype.bits < statement.accumulator.bits
            return size >= PACKED_BYTES or (is_narrow and not symbols(own) <= others)
    return False


def with_packed(
    program: ModelProgram, kernels: Mapping[str, EmittedC], machine: Machine, *, model: bool
) -> ModelProgram:
    """Return the program whose kernels read constants that one library packs. Raises: as `compile_library`."""
    packers = compile_packers_together({name: kernels[name] for name in program.kernels}, machine, model)
    made: dict[str, Array] = {}
    steps = tuple(
        _with_packed(step, packers[step.kernel], program, made) if isinstance(step, KernelCall) else step
        for step in program.steps
    )
    read = {passed.tensor for step in steps for passed in reads_of(step)}
    constants = {**program.constants, **made}
    return replace(program, steps=steps, constants={n: a for n, a in constants.items() if n in read})


def _with_packed(
    step: KernelCall, packers: tuple[Packer, ...], program: ModelProgram, made: dict[str, Array]
) -> KernelCall:
    """Return a kernel call with packed arguments. Packed tensors are added to `made`."""
    given = dict(step.reads)
    for packer in packers:
        passed, target = given.pop(packer.source), packer.target
        assert target.header is not None, "what is packed begins with the name of its layout"
        tensor = f"{passed.tensor}_{target.header.layout}"
        if tensor not in made:
            content = program.constants[passed.tensor]
            array: Array = content.reshape(-1).view(DTYPES[passed.dtype].numpy()).reshape(passed.shape)
            packed = pack_in_process(packer, np.require(array, requirements=("C", "A")), {})
            if packed.nbytes >= SPILLED_BYTES:
                with suppress(OSError):  # without room for the file they wait in memory
                    packed = np.frombuffer(spill(packed.view(np.uint8).data), packed.dtype)
            release(content)
            made[tensor] = packed
        given[target.name] = TensorView(tensor, target.dtype.name, made[tensor].shape)
    return replace(step, reads=given)
