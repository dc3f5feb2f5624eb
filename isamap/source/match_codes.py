"""The codes of matching: why an instruction does not perform a statement, and what then happens."""

from __future__ import annotations

from isamap.source.explanation import Explanation

MATCH_CODES: dict[str, Explanation] = {
    "axis-has-no-place": Explanation(
        "no axes of the kernel fit an instruction's together",
        "An axis of a kernel may run on an instruction's axis that indexes every input that it indexes, and "
        "the output exactly when it does.",
    ),
    "elements-shared": Explanation(
        "elements of an issue and of the kernel's arrays do not belong together",
        "Two elements of an instruction's output stand for two elements of the kernel's, and iterations that "
        "touch one element of an operand stand for iterations that touch one of its array. `c[i, j]` cannot "
        "be `Y[i + j]`, and a window `a[p + r]` cannot be `X[2*p + r]`.",
    ),
    "expression-differs": Explanation(
        "an instruction computes something else",
        "The expressions of kernel and instruction agree up to the order of operands of + and *.",
    ),
    "fill-range": Explanation(
        "padding whose size is not known",
        "A read with `else` is served from a padded copy; how far it reaches outside must be computable.",
    ),
    "no-mapping": Explanation(
        "no instruction performs a statement",
        "Every statement of a kernel needs an instruction whose operation, types and axes agree with it. "
        "`isamap match --explain` says of each instruction what it lacks.",
    ),
    "no-move": Explanation(
        "no instruction copies what has to be copied",
        "Staging and padding need moves between memory and registers for the type of the data.",
    ),
    "operation-differs": Explanation(
        "an instruction assigns or reduces differently",
        "A statement with `+=` needs an instruction with `+=`, and so on for each operation.",
    ),
    "precondition-fails": Explanation(
        "what an instruction requires cannot be met",
        "The `where` of an instruction holds for the values of its parameters that the mapping needs.",
    ),
    "result-type-differs": Explanation(
        "an instruction sums or writes in another type",
        "The type in which a statement sums (`accumulate`, else that of its target) is the instruction's.",
    ),
    "several-statements": Explanation(
        "an instruction that is not one plain statement",
        "Instructions with several outputs, several statements, guards or ordered loops are described and "
        "interpreted, but not matched yet.",
    ),
    "types-differ": Explanation(
        "an instruction takes other types",
        "Types agree exactly, widening casts included.",
    ),
    "unknown-mapping": Explanation(
        "a schedule names a mapping that does not exist", "`isamap match` lists the mappings of a kernel."
    ),
}
