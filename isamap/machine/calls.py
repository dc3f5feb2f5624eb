"""Resolve the names of an `emit` call, and check that the call mentions all parts of the instruction.

A name is an operand, a parameter or a state. Each has a fixed set of attributes. An allow-listed header
must declare the function. Each operand, parameter and state of the instruction must appear in the call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

from isamap.ir import Instruction, Operand, Param
from isamap.machine import allowed
from isamap.machine.emission import Arithmetic, CallTemplate, EmissionArgument, Nested, Word, Written
from isamap.machine.emit_nodes import EmitArg, EmitArithmetic, EmitCall, EmitSteps, EmitValue
from isamap.machine.families import Row
from isamap.machine.model import ConfigurationState, Memory
from isamap.machine.tree import Findings, nearest
from isamap.source import Diagnostic, Span, SpecProblem, dataclass, field, is_digits, replace
from isamap.syntax import substitute_text

ATTRIBUTES = ("addr", "value", "stride", "index", "mask", "bits")


@dataclass(frozen=True, slots=True)
class EmissionNames:
    """The names outside its own instruction that an emission may use.

    `values` are the values that earlier steps have computed.
    """

    memories: Mapping[str, Memory]
    states: Mapping[str, ConfigurationState]
    headers: tuple[str, ...]
    values: Collection[str] = ()
    constants: Mapping[str, Param] = field(default_factory=dict[str, Param])
    features: tuple[str, ...] = ()


def resolve_call(
    template: CallTemplate, row: Row, instruction: Instruction | None, around: EmissionNames
) -> EmitCall:
    """Return the checked call of one instruction. Raises: SpecProblem with all errors.

    For an instruction that was refused, whose operands are unknown, the function and the casts are checked.
    """
    found = Findings()
    result = None
    if template.result is not None and instruction is not None:
        with found.collect():
            result = named_result(template.result, row, instruction, around)
    call = replace(resolve_nested(template.call, row, instruction, around, found), result=result)
    if instruction is not None and not found.diagnostics:  # what is misspelt would be missed as well
        for problem in find_unmentioned(call, instruction, around, template.span):
            found.diagnostics += problem.diagnostics
        for problem in _computed_by(template.call, call, instruction):
            found.diagnostics += problem.diagnostics
    found.raise_any()
    return call


def resolve_nested(
    written: Nested, row: Row, instruction: Instruction | None, around: EmissionNames, found: Findings
) -> EmitCall:
    """Return one call with the calls among its arguments. Errors are added to the findings."""
    function, cast = "", None
    with found.collect():
        function = _function(written.function, row, around)
    with found.collect():
        cast = _cast(written.cast, row)
    values = (_value(arg, row, instruction, around, found) for arg in written.args)
    args = tuple(value for value in values if value is not None)
    return EmitCall(None, cast, function, args, written.function.span)


def _value(
    written: Written, row: Row, instruction: Instruction | None, around: EmissionNames, found: Findings
) -> EmitValue | None:
    """Return an argument, or None if an error was found, or if the instruction is unknown."""
    match written:
        case Nested():
            return resolve_nested(written, row, instruction, around, found)
        case Arithmetic(operator):
            left = _value(written.left, row, instruction, around, found)
            right = _value(written.right, row, instruction, around, found)
            if left is None or right is None:
                return None
            with found.collect():
                _check_number(left, written.left.start, instruction)
                _check_number(right, written.right.start, instruction)
            return EmitArithmetic(_OPERATORS[operator.text], left, right)
        case EmissionArgument():
            with found.collect():
                cast = _cast(written.cast, row)
                if instruction is not None:
                    return _argument(written, cast, row, instruction, around)
            return None


_OPERATORS: Mapping[str, Literal["+", "*", "<<"]] = {"+": "+", "*": "*", "<<": "<<"}


def _check_number(value: EmitValue, word: Word, instruction: Instruction | None) -> None:
    """Refuse arithmetic on a value that is not an integer. Raises: SpecProblem."""
    typed = (
        {p.name for p in instruction.params if p.dtype is not None} if instruction is not None else set[str]()
    )
    match value:
        case EmitArithmetic():
            return
        case EmitArg("literal" | "constant"):
            return
        case EmitArg("param", name) if name not in typed:
            return
        case EmitArg("operand", _, "index" | "stride"):
            return
        case EmitArg() | EmitCall():
            raise _problem(
                "emit-arithmetic", f"arithmetic on `{value}` is not possible", word.span,
                "allowed are whole numbers, constants of the machine, integer parameters,",
                "and `.index` and `.stride` of operands",
            )  # fmt: skip


def check_c_types(instruction: Instruction, memories: Mapping[str, Memory], span: Span) -> None:
    """Refuse operands in compiler-allocated registers that have no C type. Raises: SpecProblem."""
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
    return SpecProblem.of(code, message, span, notes=notes, help=advice)


def _function(word: Word, row: Row, around: EmissionNames) -> str:
    name = substitute_text(word.text, row)
    if allowed.declares(around.headers, name):
        return name
    named = {*around.headers, *around.features}
    own = [f for f in allowed.families() if f.features and named & {*f.headers, *f.features}]
    offered = [f for f in allowed.families() if not own or f in own or not f.features]
    others = [h for f in offered for h in sorted(f.headers) if allowed.declares((h,), name)]
    shown = (
        "; ".join(f"{h}: {allowed.headers()[h].shown}" for h in around.headers)
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
            f"allowed are {allowed.shown_types()}, and pointers to them, to void and to char",
        )  # fmt: skip
    return name


def named_result(word: Word, row: Row, instruction: Instruction, around: EmissionNames) -> str:
    """Return the operand that a call or a step writes under its own name. Raises: SpecProblem."""
    name = substitute_text(word.text, row)
    operand = next((o for o in _passed_operands(instruction) if o.name == name), None)
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
    arg: EmissionArgument, cast: str | None, row: Row, instruction: Instruction, around: EmissionNames
) -> EmitArg:
    name = substitute_text(arg.name.text, row)
    attribute = arg.attribute.text if arg.attribute is not None else None
    span = arg.attribute.span if arg.attribute is not None else arg.name.span
    if is_digits(name.lstrip("-")[:1]):
        _check_attribute(attribute, name, (None,), "a number", span)
        return EmitArg("literal", name, None, cast)
    if name in around.constants:
        _check_attribute(attribute, name, (None,), "a constant of the machine", span)
        return EmitArg("constant", name, None, cast)
    if name in around.values:
        _check_attribute(attribute, name, (None,), "a value", span)
        return EmitArg("value", name, None, cast)
    for operand in _passed_operands(instruction):
        if operand.name == name:
            memory = around.memories[operand.memory or ""]
            if memory.kind == "cache":
                raise _problem(
                    "emit-name", f"`{name}` lies in the cache `{memory.name}`, which holds no buffers", span,
                    advice="pass the operand that the hint reads",
                )  # fmt: skip
            what = f"an operand in `{memory.name}`"
            _check_attribute(attribute, name, operand_attributes(operand, memory), what, span)
            place = tuple(int(term[0].text) for (term,) in arg.place)
            return EmitArg("operand", name, attribute, cast, place)
    for param in instruction.params:
        if param.name == name:
            what = "a parameter" if param.dtype is None else f"a parameter of type {param.dtype}"
            kind = "mask" if param.dtype is None else "bits" if param.dtype.is_float else None
            _check_attribute(attribute, name, (None, kind) if kind else (None,), what, span)
            return EmitArg("param", name, attribute, cast)
    if name in around.states:
        if around.states[name].bytes == 0:
            raise _problem(
                "emit-name", f"the state `{name}` has no image in memory", span,
                advice=f"add `states: {{{name}: {{bytes: …, fields: …}}}}`",
            )  # fmt: skip
        _check_attribute(attribute, name, ("addr",), "a state", span)
        if name not in _list_configured(instruction):
            raise _problem("emit-name", f"`{instruction.name}` neither loads nor releases `{name}`", span)
        return EmitArg("state", name, attribute, cast)
    operands = [o.name for o in _passed_operands(instruction)]
    known = [*operands, *(p.name for p in instruction.params), *_list_configured(instruction), *around.values]
    raise _unknown(name, arg.name.span, "operand, parameter or state", known)


def _passed_operands(instruction: Instruction) -> tuple[Operand, ...]:
    """Return the operands that a call may name. Temporaries of the instruction have no register."""
    return tuple(o for o in instruction.operands if o.role != "temp")


def _list_configured(instruction: Instruction) -> tuple[str, ...]:
    """Return the states that an instruction loads as a whole, or releases."""
    return tuple(dict.fromkeys((*instruction.sets_state, *instruction.releases_state)))


def operand_attributes(operand: Operand, memory: Memory) -> tuple[str | None, ...]:
    """Return the suffixes that may follow an operand's name. None stands for no suffix."""
    if memory.kind == "registers":
        return (None, "ref") if memory.named == "compiler" else ("index",)
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


def find_unmentioned(
    call: EmitCall | EmitSteps, instruction: Instruction, around: EmissionNames, span: Span
) -> Iterator[SpecProblem]:
    """Yield findings on parts of an instruction that its calls do not mention."""
    results = {call.result} if isinstance(call, EmitCall) else call.results
    arguments = call.names
    for operand in _passed_operands(instruction):
        memory = around.memories[operand.memory or ""]
        if memory.kind == "cache":
            continue  # a cache holds no buffers: nothing in it has an address to pass
        named = memory.named
        is_value = named == "compiler"
        mine = [a for a in arguments if a.kind == "operand" and a.name == operand.name]
        attributes = {a.attribute for a in mine} | {"stride" for a in mine if any(a.place[:1])}
        if is_value and operand.role != "in" and operand.name not in results and "ref" not in attributes:
            yield _refuse_unmentioned(f"the result `{operand.name}`", span, f"write `{operand.name} = …`")
        if not attributes and not (is_value and operand.role == "out"):
            what = "the old value of" if is_value and operand.role == "inout" else "the operand"
            yield _refuse_unmentioned(
                f"{what} `{operand.name}`", span, f"pass `{_pass_operand(operand, named)}`"
            )
        if "stride" not in attributes and _any_row_stride(operand) and attributes != {"value"}:
            yield _refuse_unmentioned(
                f"the stride of `{operand.name}`, whose rows may lie apart",
                span,
                f"pass `{operand.name}.stride`",
            )
    given = {a.name for a in arguments if a.kind == "param"}
    for param in instruction.params:
        if param.name not in given and not _is_implied(param, instruction):
            yield _refuse_unmentioned(f"the parameter `{param.name}`", span, f"pass `{param.name}`")
    for state in instruction.sets_state:
        if around.states[state].bytes and not any(a.kind == "state" and a.name == state for a in arguments):
            yield _refuse_unmentioned(f"the image of the state `{state}`", span, f"pass `{state}.addr`")


def _computed_by(written: Nested, call: EmitCall, instruction: Instruction) -> Iterator[SpecProblem]:
    """Yield errors for computed arguments in a call that loads or releases a state.

    States are loaded around loops, not as one issue among others: there are no values yet.
    """
    states = _list_configured(instruction)
    if not states:
        return
    what = f"`{instruction.name}` {'loads' if instruction.sets_state else 'releases'} `{states[0]}`"
    is_passed = not instruction.sets_state or any(
        isinstance(a, EmitArg) and a.kind == "state" for a in call.args
    )
    for given, arg in zip(written.args, call.args, strict=True):
        if not isinstance(arg, EmitArg) or arg.kind not in ("state", "literal"):
            yield _problem(
                "emit-configuration", f"{what}: nothing is computed for it",
                given.start.span,
                "allowed are images of states that it loads or releases, and whole numbers",
                advice="leave the argument out" if is_passed else f"pass `{states[0]}.addr`",
            )  # fmt: skip


def _pass_operand(operand: Operand, named: str | None) -> str:
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
    """Return whether a call may omit a parameter, because the hardware knows it or does not need it.

    The length of a table only bounds the values with which it is read.
    """
    required = {symbol for r in instruction.requires for symbol in r.value.symbols}
    bounded = {symbol for o in instruction.operands if o.domain for symbol in o.domain.high.symbols}
    return param.kind == "machine" or param.name in required | bounded


def _refuse_unmentioned(what: str, span: Span, advice: str) -> SpecProblem:
    return _problem("emit-forgets", f"the emission forgets {what}", span, advice=advice)
