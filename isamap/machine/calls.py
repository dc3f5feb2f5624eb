"""What the names of an `emit` call mean, and whether the call says all that the instruction means.

A name is an operand, a parameter or a state; each has a fixed set of attributes. The function has to be one
that an allow-listed header declares, and nothing of the instruction may be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from isamap.ir import Instruction, Operand, Param
from isamap.machine import allowed
from isamap.machine.emission import Argument, CallTemplate, Word
from isamap.machine.families import Row
from isamap.machine.findings import Findings, nearest
from isamap.machine.model import EmitArg, EmitCall, Memory, State
from isamap.source import Diagnostic, Span, SpecProblem
from isamap.syntax import substitute_text

ATTRIBUTES = ("addr", "value", "stride", "index", "mask")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an emission may refer to besides its own instruction."""

    memories: Mapping[str, Memory]
    states: Mapping[str, State]
    headers: tuple[str, ...]


def resolve_call(
    template: CallTemplate, row: Row, instruction: Instruction | None, around: Surroundings
) -> EmitCall:
    """The call of one instruction, checked. Raises: SpecProblem with all that is wrong.

    Of an instruction that was refused, whose operands nobody knows, the function and the casts are checked.
    """
    found = Findings()
    function, cast, result = "", None, None
    args: list[EmitArg] = []
    with found.collect():
        function = _function(template.function, row, around)
    with found.collect():
        cast = _cast(template.result_cast, row)
    if template.result is not None and instruction is not None:
        with found.collect():
            result = _result(template.result, row, instruction, around)
    for arg in template.args:
        with found.collect():
            argument_cast = _cast(arg.cast, row)
            if instruction is not None:
                args.append(_argument(arg, argument_cast, row, instruction, around))
    call = EmitCall(result, cast, function, tuple(args))
    if instruction is not None and not found.diagnostics:  # what is misspelt would be missed as well
        for problem in _forgotten_by(call, instruction, around, template.span):
            found.diagnostics += problem.diagnostics
    found.raise_any()
    return call


def check_c_types(instruction: Instruction, memories: Mapping[str, Memory], span: Span) -> None:
    """Refuse operands in the compiler's registers that have no C type, one of each type.

    Raises: SpecProblem.
    """
    found: dict[tuple[str, str], Diagnostic] = {}
    for operand in instruction.operands:
        memory = memories.get(operand.memory or "")
        if memory is None or memory.named != "compiler" or memory.c_type(operand.dtype.name) is not None:
            continue
        problem = _problem(
            "c-type-missing",
            f"memory `{memory.name}` has no C type for {operand.dtype}, the type of `{operand.name}`",
            span,
            advice=f"add `memories: {{{memory.name}: {{c_types: {{{operand.dtype}: …}}}}}}`",
        )
        found.setdefault((memory.name, operand.dtype.name), problem.diagnostics[0])
    if found:
        raise SpecProblem(*found.values())


# --- names ------------------------------------------------------------------------------------------------


def _problem(code: str, message: str, span: Span, *notes: str, advice: str | None = None) -> SpecProblem:
    return SpecProblem(Diagnostic(code, message, span, notes=notes, help=advice))


def _function(word: Word, row: Row, around: Surroundings) -> str:
    name = substitute_text(word.text, row)
    if allowed.declares(around.headers, name):
        return name
    others = [h for h in allowed.HEADERS if h not in around.headers and allowed.declares((h,), name)]
    shown = (
        "; ".join(f"{h}: {allowed.SHOWN_FUNCTIONS[h]}" for h in around.headers)
        or "the target names no headers"
    )
    raise _problem(
        "emit-function", f"no header of the target declares a function `{name}`", word.span,
        f"allowed are {shown}",
        advice=f"add `{others[0]}` to `target.headers`" if others else None,
    )  # fmt: skip


def _cast(word: Word | None, row: Row) -> str | None:
    if word is None:
        return None
    name = substitute_text(word.text, row)
    if not allowed.is_cast(name):
        raise _problem(
            "emit-cast", f"`{name}` is not a type to cast to", word.span,
            f"allowed are {allowed.SHOWN_TYPES}, and pointers to them, to void and to char",
        )  # fmt: skip
    return name


def _result(word: Word, row: Row, instruction: Instruction, around: Surroundings) -> str:
    name = substitute_text(word.text, row)
    operand = next((o for o in instruction.operands if o.name == name), None)
    if operand is None:
        outputs = [o.name for o in instruction.operands if o.role in ("out", "inout")]
        raise _unknown(name, word.span, "operand", outputs)
    memory = around.memories[operand.memory or ""]
    if operand.role == "in":
        raise _problem(
            "emit-result", f"`{name}` is an input of `{instruction.name}`, not a result", word.span
        )
    if memory.named != "compiler":
        raise _problem(
            "emit-result", f"`{name}` lives in `{memory.name}`, whose contents are not C values", word.span,
            advice="pass its `.index`" if memory.kind == "registers" else "pass its `.addr`",
        )  # fmt: skip
    return name


def _argument(
    arg: Argument, cast: str | None, row: Row, instruction: Instruction, around: Surroundings
) -> EmitArg:
    name = substitute_text(arg.name.text, row)
    attribute = arg.attribute.text if arg.attribute is not None else None
    span = arg.attribute.span if arg.attribute is not None else arg.name.span
    if name.lstrip("-")[:1].isdigit():
        _check_attribute(attribute, name, (None,), "a number", span)
        return EmitArg("literal", name, None, cast)
    for operand in instruction.operands:
        if operand.name == name:
            memory = around.memories[operand.memory or ""]
            what = f"an operand in `{memory.name}`"
            _check_attribute(attribute, name, operand_attributes(operand, memory), what, span)
            return EmitArg("operand", name, attribute, cast)
    for param in instruction.params:
        if param.name == name:
            what = "a parameter" if param.dtype is None else f"a parameter of type {param.dtype}"
            _check_attribute(attribute, name, (None, "mask") if param.dtype is None else (None,), what, span)
            return EmitArg("param", name, attribute, cast)
    if name in around.states:
        if around.states[name].bytes == 0:
            raise _problem(
                "emit-name", f"the state `{name}` has no image in memory", span,
                advice=f"add `states: {{{name}: {{bytes: …, fields: …}}}}`",
            )  # fmt: skip
        _check_attribute(attribute, name, ("addr",), "a state", span)
        return EmitArg("state", name, attribute, cast)
    known = [*(o.name for o in instruction.operands), *(p.name for p in instruction.params), *around.states]
    raise _unknown(name, arg.name.span, "operand, parameter or state", known)


def operand_attributes(operand: Operand, memory: Memory) -> tuple[str | None, ...]:
    """What may stand behind an operand's name; None for nothing."""
    if memory.kind == "registers":
        return (None,) if memory.named == "compiler" else ("index",)
    extra = ("value",) if not operand.shape else ()
    return ("addr", *extra, "stride") if len(operand.shape) > 1 else ("addr", *extra)


def _check_attribute(
    attribute: str | None, name: str, known: tuple[str | None, ...], what: str, span: Span
) -> None:
    if attribute in known:
        return
    shown = " and ".join(f"`{name}.{k}`" if k else f"`{name}` alone" for k in known)
    said = f"`{name}` alone" if attribute is None else f"`{name}.{attribute}`"
    near = nearest(attribute, [k for k in known if k]) if attribute else None
    raise _problem(
        "emit-attribute", f"{said} has no meaning: `{name}` is {what}", span,
        f"allowed is {shown}" if len(known) == 1 else f"allowed are {shown}",
        advice=f"did you mean `{name}.{near}`?" if near else None,
    )  # fmt: skip


def _unknown(name: str, span: Span, what: str, known: Iterable[str]) -> SpecProblem:
    shown = list(known)
    near = nearest(name, shown)
    return _problem(
        "emit-name", f"the instruction has no {what} called `{name}`", span,
        f"known: {', '.join(shown)}" if shown else "it has none",
        advice=f"did you mean `{near}`?" if near else None,
    )  # fmt: skip


# --- completeness -----------------------------------------------------------------------------------------


def _forgotten_by(
    call: EmitCall, instruction: Instruction, around: Surroundings, span: Span
) -> Iterator[SpecProblem]:
    """What of an instruction does not appear in its call."""
    for operand in instruction.operands:
        if operand.role == "temp":
            continue
        memory = around.memories[operand.memory or ""]
        if memory.kind == "cache":
            continue  # a cache holds no buffers: nothing in it has an address to pass
        named = memory.named
        is_value = named == "compiler"
        attributes = {a.attribute for a in call.args if a.kind == "operand" and a.name == operand.name}
        if is_value and operand.role != "in" and call.result != operand.name:
            yield _forgotten(f"the result `{operand.name}`", span, f"write `{operand.name} = …`")
        if not attributes and not (is_value and operand.role == "out"):
            what = "the old value of" if is_value and operand.role == "inout" else "the operand"
            yield _forgotten(f"{what} `{operand.name}`", span, f"pass `{_passed(operand, named)}`")
        if "stride" not in attributes and _any_row_stride(operand) and attributes != {"value"}:
            yield _forgotten(
                f"the stride of `{operand.name}`, whose rows may lie apart",
                span,
                f"pass `{operand.name}.stride`",
            )
    given = {a.name for a in call.args if a.kind == "param"}
    for param in instruction.params:
        if param.name not in given and not _is_implied(param, instruction):
            yield _forgotten(f"the parameter `{param.name}`", span, f"pass `{param.name}`")
    for state in instruction.sets_state:
        if around.states[state].bytes and not any(a.kind == "state" and a.name == state for a in call.args):
            yield _forgotten(f"the image of the state `{state}`", span, f"pass `{state}.addr`")


def _passed(operand: Operand, named: str | None) -> str:
    match named:
        case "compiler":
            return operand.name
        case None:
            return f"{operand.name}.addr"
        case _:
            return f"{operand.name}.index"


def _any_row_stride(operand: Operand) -> bool:
    return len(operand.shape) > 1 and operand.strides is not None and operand.strides[0] is None


def _is_implied(param: Param, instruction: Instruction) -> bool:
    """Whether the hardware knows a parameter without being told by the call."""
    required = {symbol for r in instruction.requires for symbol in r.value.symbols}
    return param.kind == "machine" or param.name in required


def _forgotten(what: str, span: Span, advice: str) -> SpecProblem:
    return _problem("emit-forgets", f"the emission forgets {what}", span, advice=advice)
