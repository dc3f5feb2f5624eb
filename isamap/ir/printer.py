"""The IR as text of the language, in canonical layout: parsing what is printed gives the same IR.

`print_expr` of `Call("mul", (Read("A", (m, k)), Read("B", (k, n))))` is `A[m, k] * B[k, n]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import copysign, isinf
from typing import assert_never

from isamap.ir import nodes as ir
from isamap.ir.index import Index
from isamap.ir.ops import OPS, REDUCTIONS
from isamap.ir.text_layout import layout, one_line

_ATOM = 100
_FILLED = 1  # `X[i] else 0` could stand inside any operation, but reads badly there
_SPELLED_REDUCTIONS = {name: spelling for spelling, name in REDUCTIONS.items()}


def print_routine(routine: ir.Routine) -> str:
    """Return the text of a kernel or an instruction."""
    return layout(_routine(routine))


def print_stmt(statement: ir.Stmt) -> str:
    """Return the text of a statement without a final line end. An assignment is one line."""
    text = _statement(statement)
    return one_line(text) if isinstance(statement, ir.Assign) else layout(text).rstrip("\n")


def print_expr(e: ir.Expr) -> str:
    """Return the text of an expression on one line. The context determines its type."""
    return one_line(_expr(e, typed=True))


# --- declarations -----------------------------------------------------------------------------------------


def _routine(r: ir.Routine) -> str:
    word = "instruction" if isinstance(r, ir.Instruction) else "kernel"
    where = ", ".join(f"{c.left} {c.comparison} {c.right}" for c in r.where)
    head = f"{'strict ' if r.strict else ''}{word} {r.name}({', '.join(map(_param, r.params))})"
    lines = [f"{head}{f' where {where}' if where else ''} {{"]
    lines += [f"let {let.name} = {let.value};" for let in r.lets]
    lines += [print_operand(o) for o in r.operands]
    if isinstance(r, ir.Instruction):
        lines += [f"numerics {', '.join(r.numerics)};"] if r.numerics else []
        lines += [f"requires {_state_field(q.field)} == {q.value};" for q in r.requires]
        lines += [f"sets {_state_field(q.field)} = {q.value};" for q in r.settings]
        for verb, names in (("sets", r.sets_state), ("releases", r.releases_state), ("clobbers", r.clobbers)):
            lines += [f"{verb} {name};" for name in names]
    lines += [_statement(s) for s in r.body]
    return "\n".join([*lines, "}"])


def _param(p: ir.Param) -> str:
    text = p.name if p.kind == "size" else f"{p.kind} {p.name}"
    if p.dtype is not None:
        text += f": {p.dtype}"
    elif p.low is not None and p.high is not None:
        text += f": {p.low}..{p.high}"
    return text if p.default is None else f"{text} = {p.default}"


def print_operand(o: ir.Operand) -> str:
    """Return the declaration of an operand."""
    text = f"{o.role} {o.name}: {o.dtype}"
    if o.shape:
        text += f"[{_list(o.shape)}]"
    if o.memory is not None:
        text += f" @ {o.memory}"
    if o.accumulate is not None:
        text += f" accumulate {o.accumulate}"
    if o.strides is not None:
        text += f" strides({', '.join('any' if s is None else str(s) for s in o.strides)})"
    if o.placement is not None:
        text += _placement(o.placement)
    if o.outside is not None:
        text += f" outside {o.outside}"
    if o.domain is not None:
        text += f" values {o.domain.low}..{o.domain.high}{' ascending' if o.domain.ascending else ''}"
    return text + ";"


def _placement(p: ir.Placement) -> str:
    coordinates = ", ".join(f"{name}: {value}" for name, value in p.coordinates)
    return f" placed [{', '.join(p.indices)}] at {coordinates}"


def _state_field(ref: ir.StateRef) -> str:
    return f"{ref.state}.{ref.field}{'' if ref.index is None else f'[{ref.index}]'}"


def _list(indices: Iterable[Index]) -> str:
    return ", ".join(map(str, indices))


# --- statements -------------------------------------------------------------------------------------------


def _statement(s: ir.Stmt) -> str:
    match s:
        case ir.Assign(target, op, value, guard, _):
            sign = "=" if op is None else f"{_SPELLED_REDUCTIONS[op]}="
            tail = f" if {_expr(guard)}" if guard is not None else ""
            return f"{_expr(target)} {sign} {_expr(value, typed=True)}{tail};"
        case ir.Loop(axes, body, ordered, guard, _):
            head = ", ".join(f"{a.name} in {a.extent}" for a in axes)
            tail = f" if {_expr(guard)}" if guard is not None else ""
            inside = "\n".join(map(_statement, body))
            return f"{'seq' if ordered else 'for'} {head}{tail} {{\n{inside}\n}}"
        case _:
            assert_never(s)


# --- expressions ------------------------------------------------------------------------------------------


def _expr(e: ir.Expr, above: int = 0, typed: bool = False) -> str:
    """Return the expression's text, in parentheses if it binds less tightly than `above`.

    With `typed`, the context gives literals their type; else the first literal states its own.
    """
    text, precedence = _with_precedence(e, typed)
    return f"({text})" if precedence < above else text


def _with_precedence(e: ir.Expr, typed: bool) -> tuple[str, int]:
    match e:
        case ir.Const(value, dtype, _):
            return _const(value, f"{dtype}", typed or isinstance(value, bool))
        case ir.IndexValue(index, _, _):
            return str(index), _index_precedence(index)
        case ir.Scalar(name, _, _):
            return name, _ATOM
        case ir.Read(buffer, index, _, fill, _):
            subscripts = f"[{_list(index)}]" if index else ""
            if fill is None:
                return f"{buffer}{subscripts}", _ATOM
            return f"{buffer}{subscripts} else {_number(fill.value)}", _FILLED
        case ir.Cast(value, dtype, mode, _):
            return f"{'' if mode == 'exact' else f'{mode}_'}{dtype}({_expr(value)})", _ATOM
        case ir.Call(op, args, _, mode, _):
            return _call(op, args, mode, typed)
        case _:
            assert_never(e)


def _call(name: str, args: tuple[ir.Expr, ...], mode: str | None, typed: bool) -> tuple[str, int]:
    op = OPS[name]
    conditions = 1 if name == "select" else 0
    given = [typed and op.result == "same"] * len(args)
    if not all(_is_bare(a) for a in args[conditions:]):
        given = [True] * len(args)
    elif not given[-1]:
        given = [True] * conditions + [False] + [True] * (len(args) - conditions - 1)
    if op.spelling is None:
        shown = [_expr(a, 0, t) for a, t in zip(args, given, strict=True)]
        return f"{name}({', '.join(shown + ([mode] if mode else []))})", _ATOM
    if len(args) == 1:
        return f"{op.spelling}{_expr(args[0], op.precedence, given[0])}", op.precedence
    left, right = args
    text = f"{_expr(left, op.precedence, given[0])} {op.spelling} {_expr(right, op.precedence + 1, given[1])}"
    return text, op.precedence


def _is_bare(e: ir.Expr) -> bool:
    """Return whether an expression prints as literals only, so that its text does not show a type."""
    match e:
        case ir.Const(value, _, _):
            return not isinstance(value, bool)
        case ir.Call(name, args, _, _, _):
            values = args[1:] if name == "select" else args
            return OPS[name].result == "same" and all(_is_bare(a) for a in values)
        case _:
            return False


def _const(value: int | float | bool, dtype: str, typed: bool) -> tuple[str, int]:
    text = _number(value)
    if not typed:
        return f"{dtype}({text})", _ATOM
    return text, OPS["neg"].precedence if text.startswith("-") else _ATOM


def _number(value: int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinf(value):
        return "inf" if value > 0 else "-inf"
    if value.is_integer() and abs(value) < 1e15 and (value != 0.0 or copysign(1, value) > 0):
        return str(int(value))
    return repr(value)


def _index_precedence(index: Index) -> int:
    if len(index.terms) != 1:
        return OPS["add"].precedence
    text = str(index)
    if text.startswith("-"):
        return OPS["add"].precedence
    return OPS["mul"].precedence if any(c in text for c in "*/%") else _ATOM
