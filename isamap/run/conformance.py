"""Test instructions on the processor, or as plain-C models, against their semantics.

Every instruction of a machine is compiled as its description says and run on random numbers and edge values,
each operand in memory right before a page that must not be touched. The results are compared with the
reference interpreter, so that an error in a description is reported at its line.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from isamap.emit.c_names import compute_type
from isamap.emit.conformance_source import EncodedForm, check_source, free_axes, why_not
from isamap.ir import Operand
from isamap.machine import EmitCall, EmitSteps, Machine, at_one_length, detect_features, load_machine
from isamap.machine.allowed import emulators, families, permission_numbers
from isamap.run import toolchain
from isamap.run.blame import Emissions
from isamap.run.child import ChildLimits, ChildProgram, Emulator, NotSetUp, RunProblem, run_child, shared_file
from isamap.run.conformance_cases import InstructionTrial, difference, encodings, is_tame, make_cases
from isamap.source import Diagnostic, MissingTool, dataclass, replace
from isamap.source.cache import digest as content_digest
from isamap.source.cache import recall_content, remember_content
from isamap.version import __version__

Verdict = Literal["ok", "wrong", "crashed", "skipped"]

_REGISTER_BYTES = 64
_COUNT_BYTES = 8
_CALLS_SECONDS = 60
"""For a compiler to read calls, which takes a few seconds."""
_MODEL_FLAGS = ("-O1", "-std=c11")


@dataclass(frozen=True, slots=True)
class Check:
    """The verdict on one instruction after its trials."""

    instruction: str
    verdict: Verdict
    message: str = ""
    trials: int = 0

    def diagnostic(self, machine: Machine) -> Diagnostic:
        """Return the finding for users, at the instruction's place in the description."""
        span = machine.instructions[self.instruction].span
        code = "instruction-crashed" if self.verdict == "crashed" else "instruction-differs"
        said = "ends the process that tries it" if self.verdict == "crashed" else "differs from its semantics"
        return Diagnostic(code, f"`{self.instruction}` {said}", span, notes=(self.message,))


@dataclass(frozen=True, slots=True)
class _Trial:
    """A test case, and the place of each operand in the shared file: (offset, size, slack, element).

    Units: bytes. `slack` lies between the operand's end and the page that must not be touched.
    """

    form: EncodedForm
    case: InstructionTrial
    places: tuple[tuple[int, int, int, int], ...]


def check_machine(
    machine: Machine,
    names: Collection[str] | None = None,
    *,
    model: bool = False,
    compiler: str | None = None,
    seed: int = 1,
    emulator: Emulator | None = None,
) -> tuple[Check, ...]:
    """Return a check of every instruction, or of the named ones. `model` tests the plain-C models instead.

    A hardware-determined constant has its default, or the value in the machine's name. An `emulator` runs the
    instructions instead of this processor.

    Raises: MissingTool without a compiler; CompilerRefused if the file as a whole is not accepted.
    """
    # An instruction of many lanes is not a call that this processor could perform by itself.
    model = model or machine.target.run == "model" or bool(machine.levels)
    machine = _as_model(machine) if model else at_one_length(machine)
    selected = [e for n, e in machine.instructions.items() if names is None or n in names]
    skipped = {e.name: reason for e in selected if (reason := why_not(machine, e, model)) is not None}
    forms: list[EncodedForm] = []
    for entry in selected:
        if entry.name not in skipped:
            for encoded in encodings(entry.instruction, np.random.default_rng(_own_seed(seed, entry.name))):
                forms.append(EncodedForm(len(forms), entry, tuple(encoded.items())))
    target = None if emulator is None else emulator.target
    subject = _compile(machine, tuple(forms), model, compiler, target)
    found: dict[str, Check] = {n: Check(n, "skipped", reason) for n, reason in skipped.items()}
    for check in _try_all(machine, tuple(forms), subject, model, seed, emulator):
        known = found.get(check.instruction)
        if known is None or known.verdict == "ok":
            trials = check.trials + (known.trials if known else 0)
            found[check.instruction] = replace(check, trials=trials)
    return tuple(found.get(e.name, Check(e.name, "skipped", "no parameters fit")) for e in selected)


def check_calls(word: str, digest: str) -> str:
    """Let a compiler check the calls of all instructions of a description, and return its version.

    Nothing is assembled, linked or run.
    An answer is kept for the description with this digest. If nothing is called, no compiler is needed.
    Raises: MissingTool without a compiler for the processor, or where it says nothing of a call;
    CompilerRefused, which names the instructions to blame.
    """
    found = [text for c in toolchain.installed_compilers() for text in (*c.command, c.version)]
    key = content_digest("calls", __version__, digest, os.environ.get(toolchain.ENVIRONMENT, ""), *found)
    if (known := recall_content(toolchain.PROGRAMS, key)) is not None:
        return known.decode(errors="replace")
    machine = at_one_length(load_machine(word))
    machine = replace(machine, instructions={**machine.instructions, **machine.hints})
    rng = np.random.default_rng(1)
    forms: list[EncodedForm] = []
    for entry in machine.instructions.values():
        if not isinstance(entry.emit, EmitCall | EmitSteps):
            continue
        reason = why_not(machine, entry, model=False)
        if reason is not None and not entry.instruction.operands:
            continue  # the others load or release what it configures
        for encoded in encodings(entry.instruction, rng)[:1]:
            forms.append(EncodedForm(len(forms), entry, tuple(encoded.items()), is_bare=reason is not None))
    version = _read_by_compiler(machine, tuple(forms)) if forms else ""
    remember_content(toolchain.PROGRAMS, key, version)
    return version


def _read_by_compiler(machine: Machine, forms: tuple[EncodedForm, ...]) -> str:
    """Return the version of the compiler that accepts the calls. Raises: as `check_calls`."""
    target, architecture = machine.target, _architecture(machine)
    selected = toolchain.CROSS if architecture else None
    compiler = toolchain.find_compiler(target.flags, target.toolchains, selected, target.features)
    emissions = Emissions(machine, {f"check_{form.number}": form.entry.name for form in forms})
    text = check_source(machine, forms, model=False)
    try:
        toolchain.check_syntax(
            compiler, (*architecture, *target.flags), "check.c", text, emissions, _CALLS_SECONDS
        )
    except toolchain.CompilerRefused as refused:
        if any(d.span is not None for d in refused.diagnostics):
            raise
        raise MissingTool(*refused.diagnostics) from None
    return compiler.version


def _architecture(machine: Machine) -> tuple[str, ...]:
    """Return compiler flags for the processor's family, or () for this computer's family.

    Raises: MissingTool for another one that no compiler is known to make code for.
    """
    if machine.target.emulator is not None:
        return emulators()[machine.target.emulator].target
    here = detect_features()
    for family in families():
        named = {*machine.target.headers, *machine.target.features} & {*family.headers, *family.features}
        if not named or not family.features or here.intersection(family.features):
            continue
        for runs in family.emulators.values():
            return runs.target
        said = f"no compiler here is known to make code for the processors of {min(named)}"
        raise MissingTool.of("no-compiler", said, help="check the description on such a computer")
    return ()


def _as_model(machine: Machine) -> Machine:
    """Return the machine with plain-C models, which follow the semantics even if the hardware differs."""
    machine = at_one_length(machine)
    instructions = {
        name: replace(e, instruction=replace(e.instruction, numerics=()))
        for name, e in machine.instructions.items()
    }
    return replace(machine, instructions=instructions)


def _compile(
    machine: Machine,
    forms: tuple[EncodedForm, ...],
    model: bool,
    compiler: str | None,
    target: tuple[str, ...] | None,
) -> ChildProgram:
    flags = _MODEL_FLAGS if model else machine.target.flags
    allowed = toolchain.COMPILERS if model else machine.target.toolchains
    features = () if model else machine.target.features
    found = toolchain.find_compiler(flags, allowed, toolchain.CROSS if target else compiler, features)

    def library(forms: tuple[EncodedForm, ...]) -> Path:
        owners = {f"check_{form.number}": form.entry.name for form in forms}
        emissions = None if model else Emissions(machine, owners)
        served = None if target is None else toolchain.ServedProgram(target, tuple(owners), tuple(features))
        files = {"check.c": check_source(machine, forms, model)}
        # The semantics round every product: what a compiler fuses is not the description's fault.
        return toolchain.build(found, (*flags, "-ffp-contract=off"), files, "check.c", emissions, served)

    try:
        return ChildProgram(f"the check of {machine.name}", library(forms), found.version)
    except toolchain.CompilerRefused as refused:
        raise _at_its_place(refused, forms, library) from None


def _at_its_place(
    refused: toolchain.CompilerRefused,
    forms: tuple[EncodedForm, ...],
    library: Callable[[tuple[EncodedForm, ...]], object],
) -> toolchain.CompilerRefused:
    """Return the compiler's error, at the place of an instruction that it rejects even alone.

    It names a place itself, unless it failed while it made code: then halves are tried, and halves of those.
    """
    if any(d.span is not None for d in refused.diagnostics):
        return refused
    while (count := len(forms)) > 1:
        half, rest = forms[: count // 2], forms[count // 2 :]
        try:
            library(half)
            forms = rest
        except toolchain.CompilerRefused:
            forms = half
    (form,) = forms
    try:
        library(forms)
        return refused  # it accepts each alone
    except toolchain.CompilerRefused as alone:
        entry, first = form.entry, alone.diagnostics[0]
        said = f"{first.message}: `{entry.name}` alone is too much"
        help_ = "say it in other functions, or leave it out: the compiler may be wrong"
        return toolchain.CompilerRefused(replace(first, message=said, span=entry.span, help=help_))


def _try_all(
    machine: Machine,
    forms: tuple[EncodedForm, ...],
    subject: ChildProgram,
    model: bool,
    seed: int,
    emulator: Emulator | None,
) -> list[Check]:
    trials, images = _prepare(machine, forms, seed)
    checks: list[Check] = []
    total = trials[-1].places[-1][0] + trials[-1].places[-1][1] + _COUNT_BYTES if trials else _COUNT_BYTES
    with shared_file(total) as file, mmap.mmap(file.fileno(), total) as shared:
        for trial, image in zip(trials, images, strict=True):
            for (offset, size, _, _), data in zip(trial.places, image, strict=True):
                shared[offset : offset + size] = data
        crashed = _run_trials(machine, trials, subject, model, shared, file.fileno(), total, emulator)
        for number, (trial, image) in enumerate(zip(trials, images, strict=True)):
            name = trial.form.entry.name
            if number in crashed:
                checks.append(Check(name, "crashed", crashed[number], 1))
            else:
                message = _compare(machine, trial, image, shared)
                checks.append(Check(name, "ok" if message is None else "wrong", message or "", 1))
    return checks


def _own_seed(seed: int, name: str) -> int:
    """Return a seed for an instruction, independent of other instructions of the description."""
    return seed + crc32(name.encode())


def _prepare(
    machine: Machine, forms: tuple[EncodedForm, ...], seed: int
) -> tuple[list[_Trial], list[list[bytes]]]:
    """Return all trials with the initial contents of their operands."""
    trials: list[_Trial] = []
    images: list[list[bytes]] = []
    offset = _COUNT_BYTES
    for form in forms:
        instruction = form.entry.instruction
        own = _own_seed(seed, f"{form.entry.name} {form.encoded}")
        rng = np.random.default_rng(own)
        in_memory = frozenset(o.name for o in form.passed if not _is_register(machine, o))
        encoded = dict(form.encoded)
        for case in make_cases(instruction, encoded, in_memory, is_tame(instruction), own):
            image = [_image(machine, o, case, rng) for o in form.passed]
            image += [
                _scalar_bytes(p.dtype, value)
                for p, (_, value) in zip(form.typed_scalars, case.scalars, strict=True)
            ]
            places: list[tuple[int, int, int, int]] = []
            for slot, data in enumerate(image):
                operand = form.passed[slot] if slot < len(form.passed) else None
                element = operand.dtype.size_bytes if operand is not None else len(data)
                places.append((offset, len(data), _slack(form, operand, len(data), len(trials)), element))
                offset += len(data)
            trials.append(_Trial(form, case, tuple(places)))
            images.append(image)
    return trials, images


def _run_trials(
    machine: Machine,
    trials: list[_Trial],
    subject: ChildProgram,
    model: bool,
    shared: mmap.mmap,
    file: int,
    total: int,
    emulator: Emulator | None,
) -> dict[int, str]:
    """Run all trials. Return those that ended their process. Their encoding is not tried further."""
    crashed: dict[int, str] = {}
    permissions = [] if model else [permission_numbers()[p] for p in machine.target.permissions]
    pending = list(range(len(trials)))
    while pending:
        job: dict[str, Any] = {
            "library": str(subject.library),
            "calls": [_call(trials[n]) for n in pending],
            "file": file,
            "size": total,
            "permissions": permissions,
            "cpu_seconds": 120,
            "memory_bytes": 2 << 30,
        }
        try:
            run_child(job, ChildLimits(), subject, emulator)
            return crashed
        except RunProblem as problem:
            done = int.from_bytes(shared[0:_COUNT_BYTES], "little")
            if isinstance(problem, NotSetUp) or (
                emulator is not None and _failed_at_start(problem, done, crashed)
            ):
                raise
            failed = pending[min(done, len(pending) - 1)]
            form = trials[failed].form
            message = problem.diagnostics[0].message.removeprefix(subject.name).strip()
            same = [n for n in pending[done:] if trials[n].form == form]
            crashed |= dict.fromkeys(same, f"its trial {message}")
            pending = [n for n in pending[done:] if n not in same]
    return crashed


def _failed_at_start(problem: RunProblem, done: int, crashed: dict[int, str]) -> bool:
    """Return whether an emulator failed before the first trial."""
    return problem.diagnostics[0].code == "program-failed" and done == 0 and not crashed


def _call(trial: _Trial) -> tuple[str, tuple[tuple[int, int, int, int], ...], list[int]]:
    counts = dict(trial.case.counts)
    numbers = [counts[name] for name in trial.form.counts]
    for o in trial.form.passed:
        if o.name in trial.case.strides:
            numbers += [trial.case.strides[o.name][axis] for axis in free_axes(o)]
    return f"check_{trial.form.number}", trial.places, numbers


# --- operands as bytes ------------------------------------------------------------------------------------


def _is_register(machine: Machine, o: Operand) -> bool:
    return machine.memories[o.memory or ""].kind == "registers"


def _image(machine: Machine, o: Operand, case: InstructionTrial, rng: np.random.Generator) -> bytes:
    """Return the bytes of an operand: its elements in place, and arbitrary bytes between and after them."""
    array = case.arrays[o.name]
    if _is_register(machine, o):
        size = max(_REGISTER_BYTES, machine.memories[o.memory or ""].register_bytes or 0, array.nbytes)
        return array.tobytes() + rng.bytes(size - array.nbytes)
    strides = case.strides[o.name]
    room = bytearray(rng.bytes(_span(array.shape, strides) * array.itemsize))
    _elements(room, array, strides)[...] = array
    return bytes(room)


def _slack(form: EncodedForm, operand: Operand | None, size: int, number: int) -> int:
    """Return the bytes from an operand's end to the page after it: of one element in every other trial."""
    if operand is None:
        return 0
    where = form.entry.instruction.where
    if any(f"align({operand.name})" in c.left.symbols | c.right.symbols for c in where):
        return -size % _REGISTER_BYTES
    return number % 2 * operand.dtype.size_bytes


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return the number of elements from the first to the last one, inclusive."""
    return 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def _elements(room: bytearray | bytes, array: NDArray[Any], strides: tuple[int, ...]) -> NDArray[Any]:
    in_bytes = tuple(s * array.itemsize for s in strides)
    return np.ndarray(array.shape, array.dtype, room or bytearray(array.itemsize), 0, in_bytes)


def _scalar_bytes(dtype: Any, value: Any) -> bytes:
    """Return a scalar parameter as bytes of its compute type."""
    c_type = compute_type(dtype)
    stored = {"float": np.float32, "double": np.float64, "int": np.int32}.get(c_type)
    return np.asarray(value).astype(stored if stored is not None else dtype.numpy()).tobytes()


def _compare(machine: Machine, trial: _Trial, image: list[bytes], shared: mmap.mmap) -> str | None:
    """Return the error in a trial's results, or None if they are correct."""
    found: dict[str, NDArray[Any]] = {}
    for o, before, (offset, size, _, _) in zip(trial.form.passed, image, trial.places, strict=False):
        after = shared[offset : offset + size]
        array = trial.case.arrays[o.name]
        if _is_register(machine, o):
            found[o.name] = np.frombuffer(after[: array.nbytes], array.dtype).reshape(array.shape)
        else:
            strides = trial.case.strides[o.name]
            found[o.name] = _elements(after, array, strides).copy()
            if o.role == "in" and after != before:
                return f"it writes to its input `{o.name}`"
            restored = bytearray(after)
            _elements(restored, array, strides)[...] = array
            if bytes(restored) != before:
                return f"it writes between the rows of `{o.name}`"
    outputs = {o.name: found[o.name] for o in trial.form.passed if o.role != "in"}
    return difference(trial.form.entry.instruction, dict(trial.form.encoded), trial.case, outputs)
