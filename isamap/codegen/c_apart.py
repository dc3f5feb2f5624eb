"""Copies between loops of sums as functions of their own: what they need takes no register from the sums.

    static __attribute__((noinline)) void gemm_copy0(const int8_t *restrict B, ..., int64_t n0) { ... }

A copy inside a loop has constants, orders of permutations mostly. Compilers move them in front of that loop,
where they live through the sums of its body as well; gcc then leaves them in registers and reads what sums
need from memory again and again (docs/decisions/0021-copies-apart.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isamap.codegen.c_text import identifiers
from isamap.lower.program import (
    Block,
    Configure,
    Declare,
    Fill,
    For,
    Hint,
    If,
    Issue,
    Node,
    Parallel,
    RegisterRef,
    has_parallel,
)

Parameters = Sequence[tuple[str, str]]


def stands_apart(block: Block) -> bool:
    """Whether a block is a copy with loops of its own that uses no value from outside of it.

    Hints alone need nothing that stays in registers, and a call in the innermost loop empties all of them.
    """
    if not block.is_copy or has_parallel(block.body):
        return False
    nodes = list(_all_nodes(block.body))
    declared = {value.name for node in nodes if isinstance(node, Declare) for value in node.values}
    has_loops, has_issues = (any(isinstance(node, kind) for node in nodes) for kind in (For, Issue))
    return has_loops and has_issues and _values(nodes) <= declared


def copy_text(name: str, parameters: Parameters, body: Sequence[str]) -> tuple[list[str], str]:
    """The function of a copy, and its call, with those of the parameters that it uses.

    A parameter is (declaration, identifier).
    """
    used = identifiers(body)
    taken = [(declaration, word) for declaration, word in parameters if word in used]
    listed = ",\n    ".join(declaration for declaration, _ in taken) or "void"
    function = [f"static __attribute__((noinline)) void {name}(\n    {listed}) {{", *body, "}"]
    return function, f"{name}({', '.join(word for _, word in taken)});"


def _all_nodes(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        match node:
            case For(_, _, body) | Parallel(_, body) | If(_, body) | Block(_, body):
                yield from _all_nodes(body)
            case Issue() | Configure() | Fill() | Hint() | Declare():
                pass


def _values(nodes: Sequence[Node]) -> set[str]:
    issues = [node for node in nodes if isinstance(node, Issue)]
    return {ref.value for issue in issues for _, ref in issue.operands if isinstance(ref, RegisterRef)}
