"""Parallel parts of a program as functions that run through the caller's thread pool.

    static void gemm_part0(const float *restrict A, ..., int64_t part) { ... }    one part
    static void gemm_task0(void *shared, int64_t part) { ... }                    called by a pool
    gemm_run(pool, 2, gemm_task0, &shared0);                                      all parts

Without a pool the caller's thread performs the parts one after the other: the results are the same.

Functions have two versions: one for tensors with dense rows, one for any strides.

    static inline void gemm_body(const float *restrict A, ..., int64_t A_s0, ...) { ... }       always inlined
    static void gemm_dense(const float *restrict A, ...) { gemm_body(A, ..., 2048); }
    static void gemm_strided(const float *restrict A, ..., int64_t A_s0, ...) { gemm_body(A, ..., A_s0); }

The strides are arguments of the call. If they are dense, they are constants for the compiler: addresses of
the rows of a register block then differ by constant offsets and need no registers. Eight rows with variable
strides would need more registers than there are (docs/decisions/0004-strides.md).

Copies between loops of sums are separate functions, so that their values take no registers from the sums:

    static __attribute__((noinline)) void gemm_copy0(const int8_t *restrict B, ..., int64_t n0) { ... }

A copy inside a loop has constants, mostly permutation indices. Compilers hoist them out of that loop, so that
they stay live during the sums in its body. gcc then keeps them in registers and reloads the operands of the
sums from memory (docs/decisions/0021-copies-apart.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from isamap.emit.c_text import identifiers
from isamap.ir import product
from isamap.lower.program import Block, Declare, For, Issue, LoweredProgram, Node, RegisterRef
from isamap.lower.walk import has_parallel, walk
from isamap.source.records import dataclass

_INLINE = "static __attribute__((always_inline)) inline void"
_APART = "static __attribute__((noinline)) void"


@dataclass(frozen=True, slots=True)
class CFunction:
    """A C function without a result, with its parameters as (declaration, identifier).

    `dense` are those that are numbers in its `dense_name` version; without any it has but one version.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    dense: tuple[tuple[str, int], ...] = ()
    dense_name: str = ""
    strided_name: str = ""

    def text(self, body: Sequence[str]) -> list[str]:
        """Return the function and its versions."""
        head = _INLINE if self.dense else "static void"
        lines = [f"{head} {self.name}(\n    {_list_parameters(self.parameters)}) {{", *body, "}"]
        if not self.dense:
            return lines
        numbers = dict(self.dense)
        free = [(declared, name) for declared, name in self.parameters if name not in numbers]
        given = ", ".join(str(numbers.get(name, name)) for _, name in self.parameters)
        every = ", ".join(name for _, name in self.parameters)
        return [
            *lines,
            "",
            f"{_APART} {self.dense_name}(\n    {_list_parameters(free)}) {{",
            f"  {self.name}({given});",
            "}",
            "",
            f"{_APART} {self.strided_name}(\n    {_list_parameters(self.parameters)}) {{",
            f"  {self.name}({every});",
            "}",
        ]

    def call(self, arguments: Sequence[str]) -> list[str]:
        """Return the statements that call it with arguments in the order of its parameters."""
        every = ", ".join(arguments)
        if not self.dense:
            return [f"{self.name}({every});"]
        by_name = dict(zip((name for _, name in self.parameters), arguments, strict=True))
        numbers = dict(self.dense)
        test = " && ".join(f"{by_name[name]} == {value}" for name, value in self.dense)
        free = ", ".join(argument for name, argument in by_name.items() if name not in numbers)
        return [
            f"if ({test}) {{",
            f"  {self.dense_name}({free});",
            "} else {",
            f"  {self.strided_name}({every});",
            "}",
        ]


def dense_strides(program: LoweredProgram, names: Mapping[str, str]) -> dict[str, int]:
    """Return the strides of dense tensors by the identifiers of their parameters. Units: elements.

    `names` are the identifiers by symbols. Strides that depend on run-time sizes are left out.
    """
    found: dict[str, int] = {}
    for tensor in program.tensors:
        for axis, stride in enumerate(tensor.strides[:-1]):
            dense = product(tensor.shape[axis + 1 :]).value
            own = [names[symbol] for symbol in stride.symbols if symbol in names]
            if dense is not None:
                found |= dict.fromkeys(own, dense)
    return found


def used_in_loops(lines: Sequence[str], passed_on: Collection[str]) -> frozenset[str]:
    """Return the identifiers in the lines of a function with loops, except the lines `passed_on`."""
    if not any(line.lstrip().startswith("for (") for line in lines):
        return frozenset()
    return identifiers(line for line in lines if line.strip() not in passed_on)


def _list_parameters(parameters: Sequence[tuple[str, str]]) -> str:
    return ",\n    ".join(declared for declared, _ in parameters) or "void"


_POOL = Path(__file__).with_name("isamap_pool.h").read_text(encoding="utf-8")
POOL_TYPE = _POOL[_POOL.index("#ifndef ISAMAP_POOL\n") : _POOL.index("#endif") + len("#endif")].splitlines()


def run_text(name: str) -> list[str]:
    """Return the function that runs all parts, with or without a pool."""
    return [
        f"static void {name}_run(",
        f"    {name}_pool *pool, int64_t parts, void (*task)(void *, int64_t), void *shared) {{",
        "  if (pool != NULL && parts > 1) {",
        "    pool->parallel_for(pool, parts, task, shared);",
        "    return;",
        "  }",
        "  for (int64_t part = 0; part < parts; part++) task(shared, part);",
        "}",
    ]


@dataclass(frozen=True, slots=True)
class ParallelRegion:
    """A parallel region: the identifiers of its struct and of its pool function, and the function of one part.

    The last parameter of that function is the part's number.
    """

    struct: str
    task: str
    part: CFunction


def region_texts(region: ParallelRegion, body: Sequence[str]) -> list[str]:
    """Return the struct and the functions of a region. `body` is the function of one part."""
    *shared, (_, number) = region.part.parameters
    fields = [f"  {declaration.replace('restrict ', '')};" for declaration, _ in shared]
    called = region.part.call([*(f"given->{name}" for _, name in shared), number])
    return [
        "typedef struct {",
        *(fields or ["  char unused;"]),
        f"}} {region.struct};",
        "",
        *region.part.text(body),
        "",
        f"static void {region.task}(void *shared, int64_t {number}) {{",
        f"  const {region.struct} *given = shared;",
        *([] if shared else ["  (void)given;"]),
        *(f"  {line}" for line in called),
        "}",
    ]


Parameters = Sequence[tuple[str, str]]


def is_separate_copy(block: Block) -> bool:
    """Return whether a block is a copy with loops that uses no outside value.

    Hints alone need nothing that stays in registers, and a call in the innermost loop empties all of them.
    """
    if not block.is_copy or has_parallel(block.body):
        return False
    nodes = list(walk(block.body))
    declared = {value.name for node in nodes if isinstance(node, Declare) for value in node.values}
    has_loops, has_issues = (any(isinstance(node, kind) for node in nodes) for kind in (For, Issue))
    return has_loops and has_issues and _values(nodes) <= declared


def copy_text(name: str, parameters: Parameters, body: Sequence[str]) -> tuple[list[str], str]:
    """Return the function of a copy, and its call, with the parameters that it uses.

    A parameter is (declaration, identifier).
    """
    used = identifiers(body)
    taken = [(declaration, word) for declaration, word in parameters if word in used]
    listed = ",\n    ".join(declaration for declaration, _ in taken) or "void"
    function = [f"static __attribute__((noinline)) void {name}(\n    {listed}) {{", *body, "}"]
    return function, f"{name}({', '.join(word for _, word in taken)});"


def _values(nodes: Sequence[Node]) -> set[str]:
    issues = [node for node in nodes if isinstance(node, Issue)]
    return {ref.value for issue in issues for _, ref in issue.operands if isinstance(ref, RegisterRef)}
