"""Compile encoded programs to files, execute them, and compare their results with the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from isamap.driver.length_versions import compile_request
from isamap.driver.pipeline import Compilation
from isamap.driver.printers import emit_artifact
from isamap.driver.request import Request, complete_sizes
from isamap.driver.verifying import Case, ComparedResult, case_of, with_unverified
from isamap.ir import Kernel, Range, bind
from isamap.machine import Machine
from isamap.run.fills import fills_of, make_arrays, make_scalars
from isamap.source import Source, UsageProblem, VerificationFailed, read_limited
from isamap.stream.execute import execute_program
from isamap.stream.program_file import ProgramFile, read_program
from isamap.syntax import parse_kernel

MOST_FILE_BYTES = 64 << 20


def compile_words(
    request: Request, watch: Callable[[str], None] = lambda _: None
) -> tuple[ProgramFile, Compilation]:
    """Return a kernel's encoded program, with the compilation behind it. Raises: IsamapError of every kind."""
    sizes = complete_sizes(parse_kernel(request.kernel), request.sizes)
    if open_ones := [name for name, size in sizes.items() if isinstance(size, Range)]:
        said = f"a program is made for numbers, and {open_ones[0]} is a range"
        raise UsageProblem.of("stream-unsupported", said, help="give each size as one number")
    made = compile_request(request, "lower", watch)
    assert made.program, "the stages have run"
    assert made.machine, "the stages have run"
    watch("encode")
    program = emit_artifact(made.program, made.machine, "program")
    assert isinstance(program, ProgramFile), "the printer encodes instructions"
    return program, made


def load_program(path: str, machine: Machine) -> ProgramFile:
    """Return the program in a file, which must be for this machine. Raises: UsageProblem, VerificationFailed."""
    try:
        data = read_limited(Path(path), MOST_FILE_BYTES)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise UsageProblem.of("file-unreadable", f"{path} cannot be read: {said}") from None
    if len(data) > MOST_FILE_BYTES:
        said = f"{path} is larger than {MOST_FILE_BYTES >> 20} MB"
        raise UsageProblem.of("file-too-large", said)
    program = read_program(data, path)
    if program.machine_sha256 != machine.digest:
        same = program.machine == machine.name
        said = f"another description of {machine.name}" if same else program.machine
        raise mismatch(f"{path} was made for {said}", "compile it again, or name the machine that it is for")
    if machine.program is None or machine.program.word_bits != program.word_bits:
        raise mismatch(f"{path} has words of {program.word_bits} bits", "compile it again")
    return program


def program_kernel(program: ProgramFile, source: Source) -> Kernel:
    """Return a kernel with the sizes of a program that performs it. Raises: UsageProblem on a mismatch."""
    parsed = parse_kernel(source)
    names = {param.name for param in parsed.params}
    kernel = bind(parsed, {name: size for name, size in program.sizes.items() if name in names})
    expected = [
        (o.name, o.role, o.dtype.name, tuple(int(n.evaluate({})) for n in o.given or o.shape))
        for o in kernel.operands
        if o.role != "temp"
    ]
    found = [(a.name, a.role, a.dtype.name, a.shape) for a in program.arrays if a.role != "buffer"]
    if sorted(expected) != sorted(found):
        said = f"the program is of `{program.kernel}`, whose arrays are not those of `{kernel.name}`"
        raise mismatch(said, "name the kernel that it was compiled from")
    return kernel


def verify_program(program: ProgramFile, machine: Machine, kernel: Kernel, fill: str) -> Case:
    """Return the comparison of a program's results on one fill with the oracle."""
    arrays, scalars = make_arrays(kernel, fill), make_scalars(kernel, fill)
    try:
        found = execute_program(program, machine, arrays)
    except VerificationFailed as problem:
        return Case(dict(program.sizes), fill, 0.0, 0.0, "stream", "nothing", True, problem.diagnostics)
    judged = ComparedResult(kernel, arrays, found, dict(program.sizes), fill, "stream", [])
    return case_of(judged, scalars, guard=True)


def program_cases(
    program: ProgramFile, machine: Machine, kernel: Kernel, fills: tuple[str, ...]
) -> Iterator[Case]:
    """Yield the comparisons of one program."""
    made = [verify_program(program, machine, kernel, fill) for fill in fills or fills_of(kernel)]
    return with_unverified(made)


def mismatch(said: str, advice: str) -> UsageProblem:
    """Return the error that a file belongs to another kernel or machine."""
    return UsageProblem.of("program-mismatch", said, help=advice)
