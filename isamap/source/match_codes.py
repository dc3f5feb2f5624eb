"""The codes of matching: why an instruction does not perform a statement, and what then happens.

Those of a refusal stand in the order in which conditions are tried; they name the cause, then the remedy.
"""

from __future__ import annotations

from isamap.source.diagnostic import Explanation

REFUSAL_CODES: dict[str, Explanation] = {
    # --- the instruction, the statement
    "several-outputs": Explanation(
        "an instruction writes more than the kernel computes",
        "An instruction of several outputs performs several statements at once: each of its statements "
        "needs one in the kernel, over the same axes. Write the other results into the kernel, or take an "
        "instruction with one output.",
    ),
    "several-statements": Explanation(
        "an instruction performs statements that the kernel does not have",
        "All statements of an instruction are performed together. Those that the message names are missing "
        "in the kernel, or do not follow each other there; write them, or take an instruction of one "
        "statement.",
    ),
    "instruction-ordered": Explanation(
        "an instruction goes through an axis in order",
        "A `seq` loop inside an instruction carries values from step to step. Kernel axes that are "
        "unordered gain nothing by it, and ordered ones are never performed by an instruction's axis.",
    ),
    "instruction-guarded": Explanation(
        "an instruction writes only under a predicate",
        "Its statement has an `if`; the kernel's has none, or another one. Write the condition behind the "
        "kernel's statement, or take the instruction without a predicate.",
    ),
    "guard-reads-data": Explanation(
        "a statement is performed or not as data say",
        "The condition behind `if` reads an array, so no tile of the loops is whole. Choose between two "
        "values instead, `select(condition, A[n], 0) * B[n]`, which is the same as long as B is finite; or "
        "take an instruction with a predicate.",
    ),
    "statement-guarded": Explanation(
        "a statement is performed for some iterations only",
        "An instruction without a predicate performs all iterations of an issue. Choose between two values "
        "instead, as in `select(k <= m, A[m, k], 0) * B[k, n]`, which is the same as long as B is finite: "
        "what is chosen is made before the instruction.",
    ),
    # --- operations and results
    "operation-differs": Explanation(
        "an instruction reduces by another operation",
        "A statement with `+=` needs an instruction with `+=`, and so on for each operation. Another "
        "operation is another result: the edit is shown, and not made unless it is asked for by the "
        "instruction's name.",
    ),
    "assigns-only": Explanation(
        "an instruction assigns, the statement reduces",
        "An instruction with `=` keeps nothing of what was there. Without axes that are summed over, the "
        "old value may be written out, `C[n] = C[n] + A[n]`; with them an instruction that accumulates is "
        "needed.",
    ),
    "accumulates-only": Explanation(
        "an instruction reduces, the statement assigns",
        "An instruction with `+=` starts from an old value. Give it one: initialise apart, `C[n] = 0;` and "
        "then `C[n] += …`. `C[n] = C[n] + …` is written `C[n] += …`.",
    ),
    "accumulator-type-differs": Explanation(
        "an instruction sums in another type",
        "The type in which a statement sums is that behind `accumulate`, else that of its target. Declare "
        "`accumulate f32` and cast the factors; a narrower sum needs another type of the target.",
    ),
    "result-type-differs": Explanation(
        "an instruction writes another type",
        "An instruction that assigns writes the type of its output. Declare the target of that type, or "
        "round in a statement of its own.",
    ),
    # --- expressions
    "expression-differs": Explanation(
        "an instruction computes something else",
        "The expressions of kernel and instruction agree up to the order of operands that commute; an "
        "operand stands for any expression of its type. The first operation that differs is marked on both "
        "sides.",
    ),
    "parameter-not-scalar": Explanation(
        "an instruction takes a number where the statement has an array",
        "A scalar parameter holds one value for a whole issue: a literal, a size, or a scalar parameter of "
        "the kernel. An element of an array needs an instruction with an operand in that place.",
    ),
    "immediate-differs": Explanation(
        "an instruction has a number encoded where the statement computes one",
        "An `imm` parameter is part of the instruction's code and is chosen by isamap, not by the kernel's "
        "data. Take an instruction that reads the number from a register.",
    ),
    "fused-rounding": Explanation(
        "product and sum are rounded once on one side, twice on the other",
        "`fma(a, b, c)` is rounded once, `a * b + c` twice. Say in the kernel which of them is meant.",
    ),
    "factor-extra": Explanation(
        "a statement multiplies by something that the instruction does not",
        "Multiply in a statement of its own, before or after: `isamap match --transform fission` takes "
        "statements apart where that is legal.",
    ),
    "factor-missing": Explanation(
        "an instruction multiplies, the statement does not",
        "A factor 1 makes a product of the statement's value, and changes nothing: `A[m, k] * 1`.",
    ),
    "operand-twice": Explanation(
        "an instruction uses one operand twice",
        "`a[i] * a[i]` squares; two different arrays need an instruction with two operands. If one is read "
        "at two subscripts, `a[i] + a[i + 1]`, an element that both touch must be one of the kernel's array, "
        "as in `X[n] + X[n + 1]`.",
    ),
    "operands-reversed": Explanation(
        "an operation that does not commute has its operands the other way round",
        "`c - a*b` is not `a*b - c`. Take the other instruction, or negate the result afterwards.",
    ),
    "comparison-mirrored": Explanation(
        "a comparison is written the other way round",
        "`a > b` is `b < a`: written so, the instruction performs it.",
    ),
    "constant-differs": Explanation(
        "an instruction has another constant",
        "A literal in an instruction is part of its meaning. Only the very same literal agrees with it.",
    ),
    "mode-differs": Explanation(
        "rounding or overflow differ",
        "`wrap_i8(x)` keeps the low bits, `sat_i8(x)` saturates, `round(x, even)` and `round(x, away)` "
        "differ at halves. Modes agree exactly.",
    ),
    "operand-type-differs": Explanation(
        "an instruction takes an operand of another type",
        "Types agree exactly. Cast the operand, as in `f32(bf16(A[m, k]))`: it is then converted on its way "
        "to the instruction; or declare the array of that type.",
    ),
    "widening-differs": Explanation(
        "an instruction widens its operands, the statement does not",
        "The instruction computes in a wider type than its operands have. Write the widening casts into the "
        "statement, as in `i16(A[n]) + i16(B[n])`.",
    ),
    "signedness-differs": Explanation(
        "signed and unsigned integers differ",
        "Bytes of the same width stand for other numbers. Take the instruction for these signs, swap the "
        "factors where one takes both, or cast where the values allow it.",
    ),
    # --- axes
    "three-factors": Explanation(
        "a statement multiplies three arrays",
        "An instruction that multiplies two arrays would have the product of the others computed anew for "
        "every element. Summed apart, it is computed once: `isamap match --transform factorisation` writes "
        "the factorisation that the message names.",
    ),
    "scale-misplaced": Explanation(
        "factors of a product are grouped so that an axis of the instruction stays empty",
        "`A * B * alpha` is `(A * B) * alpha`. Group the scalar with one of the arrays, `(A * alpha) * B`: "
        "in integers it is the same, in floats up to rounding.",
    ),
    "reduction-missing": Explanation(
        "an instruction sums along an axis, the statement has no sum",
        "An axis of an instruction that its output does not have is summed over; the statement needs an "
        "axis that its target does not have.",
    ),
    "batch-missing": Explanation(
        "an instruction computes many results of one operand, the statement one",
        "A product of matrices reads both operands along an axis of its own; a matrix times one vector "
        "lacks one of them. Compute a batch of vectors at once (`isamap match --transform batching`), or "
        "take an instruction for vectors. `degenerate` mappings use one lane of that axis.",
    ),
    "axis-has-no-place": Explanation(
        "no axes of the kernel fit an instruction's together",
        "An axis of a kernel may run on an instruction's axis that indexes every input that it indexes, and "
        "the output exactly when it does.",
    ),
    "axis-of-one": Explanation(
        "the only axis that fits has one iteration",
        "An axis of extent 1 fills one lane. It does not count: give the size that the kernel is used with, "
        "or compute several at once.",
    ),
    "ordered-axis": Explanation(
        "the only axis that fits is ordered",
        "`seq` keeps the order of iterations, and an instruction's axis has none. Where the order does not "
        "matter, write `for`.",
    ),
    "axis-in-every-operand": Explanation(
        "the only axis that fits is in the other operands as well",
        "A depthwise convolution's channel is in the image, the filter and the result, so that products of "
        "different channels are never wanted. With a multiplier, several filters per channel, there is an "
        "axis that the image does not have; else the mapping is `degenerate`.",
    ),
    # --- elements
    "elements-shared": Explanation(
        "elements of an issue and of the kernel's arrays do not belong together",
        "Iterations that touch one element of an operand stand for iterations that touch one of its array. "
        "`a[i, i]` cannot be `A[i, j]`.",
    ),
    "output-overlap": Explanation(
        "results of one issue would fall on one element",
        "Two elements of an instruction's output stand for two elements of the kernel's: `c[i, j]` cannot "
        "be `Y[i + j]`. `Y[p*s + r]` is written apart where r stays below s: say `where R <= s`.",
    ),
    "window-stride": Explanation(
        "a sliding window moves by another step",
        "An instruction that reads `a[p + r]` shares elements between neighbouring windows. `X[2*p + r]` "
        "shares others; at step 1 they are the same.",
    ),
    "symbolic-sizes": Explanation(
        "with open sizes it cannot be proved that elements belong together",
        "A mapping holds for all sizes that `where` allows. Give the sizes that matter (`-D s=1`), or state "
        "what holds of them.",
    ),
    # --- sizes and parameters
    "reassociation-forbidden": Explanation(
        "a strict kernel forbids sums in another order",
        "The instruction adds up several terms, in an order or with a rounding of its own. Without `strict` "
        "the kernel allows that.",
    ),
    "subnormals-lost": Explanation(
        "a strict kernel keeps subnormal numbers",
        "The instruction takes subnormal numbers for zero, or makes them zero (`numerics flush_inputs`, "
        "`flush_results`). Without `strict` the kernel allows that.",
    ),
    "padding-not-neutral": Explanation(
        "lanes beyond the end would change the result",
        "An issue of fixed length covers what is left of an axis only if lanes beyond its end can be filled "
        "with something that the reduction does not notice. Require sizes that are multiples of the length.",
    ),
    "parameter-out-of-range": Explanation(
        "a length that the kernel needs is outside of what a parameter allows",
        "The ranges of parameters bound the lengths of an instruction's axes; lanes that are too many must "
        "be padded or masked.",
    ),
    "precondition-fails": Explanation(
        "what an instruction requires is not met by the sizes of the kernel",
        "The `where` of an instruction holds for its parameters only with another length than the kernel "
        "fills. Pad the axis to that length.",
    ),
    "precondition-unmeetable": Explanation(
        "what an instruction requires cannot be met at all",
        "No values in the ranges of its parameters meet the `where` of the instruction: its description "
        "needs correcting.",
    ),
    # --- the way of counting
    "not-counted": Explanation(
        "an instruction performs the statement, but the way of counting leaves that out",
        "`--count fixed` pairs operands in the order in which they are written, and `--count amos` finds "
        "what AMOS's code finds. `--count complete`, the default, has all mappings.",
    ),
    # --- what is around the instruction
    "placement-differs": Explanation(
        "elements lie in registers otherwise than the instruction wants them",
        "Two operands fit together without a move exactly when their placements agree. An instruction that "
        "moves elements into the wanted placement is missing in the machine's description.",
    ),
    "memory-out-of-reach": Explanation(
        "no chain of moves leads to an operand's memory",
        "Operands come from addressable memory by load and move instructions, and results go back the same "
        "way. One is missing in the machine's description for this type.",
    ),
    "operand-not-supplied": Explanation(
        "no chain of moves makes what an operand must hold",
        "There are moves into the operand's memory, but no chain of them makes these elements in this "
        "arrangement, in place or through a buffer. A move is missing in the machine's description; an "
        "accumulator that stays in addressable memory is held by no schedule. In a scratchpad only sums are "
        "performed: what assigns there, or from there, serves their tiles.",
    ),
    "column-load": Explanation(
        "an instruction reads neighbours in memory, the kernel's elements are a row apart",
        "An operand that stands in memory has the strides that the instruction says. Store the array the "
        "other way round, or take an instruction whose operand is loaded into a register first.",
    ),
    "fill-not-supplied": Explanation(
        "nothing fills what lies outside of an array",
        "A read with `else` is served by a move that fills, by a mask, or from a padded copy. This machine "
        "has no instruction that writes the fill.",
    ),
    "state-not-set": Explanation(
        "an instruction requires configuration that nothing sets",
        "A field of a state has a required value only after an instruction that `sets` it. There is none in "
        "the machine's description.",
    ),
    "not-emitted": Explanation(
        "an instruction matches, but cannot be written",
        "Its `emit` is `none`: it is described, matched and interpreted. Write how it is emitted to use it.",
    ),
}
"""The reasons of refusals."""

MATCH_CODES: dict[str, Explanation] = {
    **REFUSAL_CODES,
    "fill-range": Explanation(
        "padding whose size is not known",
        "A read with `else` is served from a padded copy; how far it reaches outside must be computable.",
    ),
    "no-mapping": Explanation(
        "no instruction performs a statement",
        "Every statement of a kernel needs an instruction whose operation, types and axes agree with it, and "
        "moves that bring its operands where it takes them, in its shape, and the result back. `isamap match "
        "--explain` says of each instruction what it lacks.",
    ),
    "no-clearing": Explanation(
        "nothing sets a scratchpad to zero",
        "A tile at the end of an axis holds zeros where there are no elements. Only instructions write to a "
        "scratchpad, so that one has to write zeros: neighbouring ones, as many as a scalar parameter says.",
    ),
    "no-move": Explanation(
        "no instruction copies what has to be copied",
        "Staging and padding need moves between memory and registers for the type of the data.",
    ),
    "performed-in-parts": Explanation(
        "no one instruction performs a statement, and compilation performs it",
        "An instruction performs all iterations of an issue, so that a statement with `if` has no mapping as "
        "it is written: compilation computes `select(condition, value, 0)`, or everything and stores where "
        "the condition holds. A statement of several operations may have no instruction that performs all of "
        "them: compilation computes its value operation by operation. The notes name the statements that "
        "compilation performs and instructions for each; `isamap match --explain` says what each instruction "
        "lacks for the statement as it is written.",
    ),
    "unknown-mapping": Explanation(
        "a schedule names a mapping that does not exist", "`isamap match` lists the mappings of a kernel."
    ),
}
