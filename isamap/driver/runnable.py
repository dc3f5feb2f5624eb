"""Prepare a compilation to run natively, under an emulator, or as a plain-C model, and as a Python callable.

A plain-C model runs if the processor lacks a feature of the machine and no emulator is named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, SupportsIndex, cast

from numpy.typing import NDArray

from isamap.driver.compiling import CompiledProgram, compile_program
from isamap.driver.request import Request
from isamap.emit.c_interface import Interface
from isamap.machine import Machine, at_one_length, join_word, load_machine, missing_features, split_word
from isamap.run import runner
from isamap.run.arguments import checked_sizes
from isamap.run.child import Emulator, emulator_for
from isamap.run.in_process import InProcess
from isamap.run.toolchain import Compiled, compile_library
from isamap.source import MissingTool, UsageProblem, dataclass, field, replace

RanOn = Literal["native", "emulator", "model", "stream"]


@dataclass(frozen=True, slots=True)
class PreparedKernel:
    """A program with its library, and the libraries that pack its inputs.

    `missing` are the processor features whose absence made it a model. `lengths` are the vector lengths that
    the program supports, each with the emulator that its description names.
    """

    request: Request
    program: CompiledProgram
    machine: Machine
    compiled: Compiled
    missing: tuple[str, ...]
    packers: tuple[runner.Packer, ...] = ()
    emulator: Emulator | None = None
    lengths: tuple[tuple[str, Emulator], ...] = ()

    def everywhere(self) -> Iterator[tuple[str, PreparedKernel]]:
        """Yield the program at each vector length that it supports, with a name."""
        for at, emulator in self.lengths or (("", self.emulator),):
            yield at, replace(self, emulator=emulator)

    @property
    def ran_on(self) -> RanOn:
        if self.compiled.model:
            return "model"
        return "native" if self.emulator is None else "emulator"


def prepare(
    request: Request, watch: Callable[[str], None] = lambda _: None, emulator: Emulator | None = None
) -> PreparedKernel:
    """Return the compiled program, built for this processor or for the emulated one.

    Raises: IsamapError of every kind, MissingTool where there is no compiler.
    """
    if sys.platform != "linux":
        raise MissingTool.of("platform-lacks-runner", f"programs are run on Linux; this is {sys.platform}")
    machine = at_one_length(load_machine(request.machine))
    lengths = () if request.model or emulator is not None else _lengths(request.machine, machine)
    emulator = None if request.model else emulator_for(machine, emulator)
    missing = missing_features(machine) if emulator is None else ()
    if is_model(machine, missing, emulator):
        request = replace(request, model=True)
    program = compile_program(request, watch)
    watch("build")
    emitted = program.emitted
    target = None if emulator is None else emulator.target
    compiled = compile_library(emitted, machine, request.model, target=target)
    packers = runner.compile_packers(emitted, machine, request.model, target)
    return PreparedKernel(request, program, machine, compiled, missing, packers, emulator, lengths)


def _lengths(word: str, machine: Machine) -> tuple[tuple[str, Emulator], ...]:
    """Return the vector lengths that a program serves, each with an emulator that has it."""
    if machine.served is None:
        return ()
    (name, given), (constant, values) = split_word(word), machine.served
    there = {v: emulator_for(load_machine(join_word(name, {**given, constant: (v,)}))) for v in values}
    return tuple((f"{constant}={v}", emulator) for v, emulator in there.items() if emulator is not None)


def is_model(machine: Machine, missing: tuple[str, ...], emulator: Emulator | None) -> bool:
    """Return whether only the plain-C model can run, given the missing features of the processor."""
    if machine.target.run == "emulator":
        return emulator is None
    return bool(missing) or machine.target.run != "native"


Array = NDArray[Any]
Sizes = Mapping[str, SupportsIndex]


@dataclass
class CompiledKernel:
    """A kernel that is called with its arrays, and with the sizes that were left open.

    In this process, arrays are used in place, and outputs are written in place. The machine's description
    is trusted. With `isolate`, the kernel runs in a child process on copies, with limits.
    """

    prepared: PreparedKernel
    isolate: bool = False
    _process: InProcess | None = field(default=None, repr=False)

    def pack(self, sizes: Sizes | None = None, /, **values: Any) -> dict[str, Array]:
        """Return packed inputs by the names of a call's arguments: `f(A=a, C=c, **f.pack(B=b))`.

        They are copies, and serve any number of calls. Raises: UsageProblem for inputs that this kernel does
        not read packed.
        """
        packers = {packer.source: packer for packer in self.prepared.packers}
        found: dict[str, Array] = {}
        for name, array in values.items():
            if name not in packers:
                known = ", ".join(packers) or "none"
                said = f"`{self.prepared.compiled.interface.name}` does not take `{name}` packed"
                raise UsageProblem.of(
                    "argument-mismatch", said, notes=(f"inputs that it takes packed: {known}",)
                )
            packer, threads = packers[name], self.prepared.request.threads
            numbers = checked_sizes(packer.compiled.interface, self._of_packer(packer, sizes))
            if (emulator := self.prepared.emulator) is not None:
                found |= runner.packed_arrays((packer,), {name: array}, numbers, emulator=emulator)
            else:
                found[packer.target.name] = runner.pack_in_process(packer, array, numbers, threads)
        return found

    @property
    def files(self) -> Mapping[str, str]:
        """Code, schedule, report and manifest."""
        return self.prepared.program.outcome.files

    def __call__(self, sizes: Sizes | None = None, /, **values: Any) -> dict[str, Array]:
        """Return the outputs by name. The caller passes arrays and scalars by name. Raises: UsageProblem, RunProblem.

        Arrays are numpy's, torch's, or those of another library with DLPack.
        """
        if self._process is not None:
            status = self._process.again(values, sizes)
            if status == 0:
                return {name: values[name] for name in self._outputs}
            if status is not None:
                numbers, arrays, _ = self._part_arguments(sizes, values)
                runner.refuse_call(self.prepared.compiled.interface, status, arrays, numbers)
        interface = self.prepared.compiled.interface
        numbers, arrays, scalars = self._part_arguments(sizes, values)
        if self.is_isolated:
            result = runner.run_program(
                self.prepared.compiled,
                arrays,
                numbers,
                scalars=scalars,
                threads=self.prepared.request.threads,
                emulator=self.prepared.emulator,
            )
            runner.refuse_call(interface, result.status, arrays, numbers)
            return dict(result.arrays)
        status = self._load_program()(arrays, numbers, scalars)
        runner.refuse_call(interface, status, arrays, numbers)
        return {name: arrays[name] for name in self._outputs}

    def bind(self, sizes: Sizes | None = None, /, **values: Any) -> Callable[[], dict[str, Array]]:
        """Return a call with fixed arrays and scalars, which are checked now: the cheapest call.

        The call keeps the arrays alive.

        Raises: UsageProblem for arrays that do not fit, and for a kernel that runs in a separate process.
        """
        if self.is_isolated:
            said = f"`{self.prepared.compiled.interface.name}` runs in a process of its own, on copies"
            raise UsageProblem.of("argument-mismatch", said, help="call it with its arrays each time")
        numbers, arrays, scalars = self._part_arguments(sizes, values)
        run, interface = self._load_program().bind(arrays, numbers, scalars), self.prepared.compiled.interface
        outputs = {name: arrays[name] for name in self._outputs}

        def call() -> dict[str, Array]:
            if status := run():
                runner.refuse_call(interface, status, arrays, numbers)
            return outputs

        return call

    @property
    def is_isolated(self) -> bool:
        """True if it runs in another process than this one."""
        return self.isolate or self.prepared.emulator is not None

    @cached_property
    def _outputs(self) -> tuple[str, ...]:
        return tuple(t.name for t in self.prepared.compiled.interface.tensors if t.role != "in")

    def _load_program(self) -> InProcess:
        if self._process is None:
            self._process = InProcess(self.prepared.compiled, self.prepared.request.threads)
        return self._process

    def _part_arguments(
        self, sizes: object, values: Mapping[str, Any]
    ) -> tuple[dict[str, int], dict[str, Any], dict[str, Any]]:
        """Return sizes within their ranges, arrays and scalars of a call. Raises: UsageProblem."""
        interface = self.prepared.compiled.interface
        names = {name for name, _ in interface.scalars}
        own = names | {tensor.name for tensor in interface.tensors}
        if found := next((n for n in values if n in self.prepared.request.sizes and n not in own), None):
            raise _misplaced_size(found, self.prepared.request.sizes[found], interface)
        numbers = checked_sizes(interface, {} if sizes is None else sizes)
        scalars = {name: value for name, value in values.items() if name in names}
        return numbers, {n: v for n, v in values.items() if n not in names}, scalars

    def _of_packer(self, packer: runner.Packer, sizes: object) -> object:
        """Return the sizes that a packing program takes."""
        if not isinstance(sizes, Mapping):
            return {} if sizes is None else sizes
        own = {name for name, _, _ in packer.compiled.interface.symbols}
        others = {name for name, _, _ in self.prepared.compiled.interface.symbols} - own
        return {
            name: value for name, value in cast("Mapping[str, object]", sizes).items() if name not in others
        }


def _misplaced_size(name: str, given: object, interface: Interface) -> UsageProblem:
    """Return the error of a call that passes a size as an array."""
    if any(name == symbol for symbol, _, _ in interface.symbols):
        said, help_ = f"`{name}` is a size, not an array", f'sizes come first: `f({{"{name}": 4}}, …)`'
    else:
        first = next(tensor.name for tensor in interface.tensors)
        said = f"`{name}` is {given} since the compilation, and the arrays have it"
        help_ = f"leave it out, and pass `{first}` and the other arrays"
    return UsageProblem.of("argument-mismatch", f"`{interface.name}`: {said}", help=help_)
