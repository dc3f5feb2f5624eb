"""The codes of the language: of texts, names, types, indices, sizes and what the verifier finds."""

from __future__ import annotations

from isamap.source.diagnostic import Explanation

LANGUAGE_CODES: dict[str, Explanation] = {
    "argument-count": Explanation(
        "wrong number of arguments",
        "Functions, casts and rounding take a fixed number of values; `round` and `rounding_shift` "
        "take a mode as their last one.",
        "kernel k(M) { inout C: f32[M]; for i in M { C[i] = max(C[i]); } }",
    ),
    "attribute-missing": Explanation(
        "a memory lacks an attribute",
        "A cache states its bytes; a scratchpad its bytes, or rows and row_bytes; registers their "
        "count and either bytes or rows and row_bytes.",
        "memory r: registers(count = 32);",
    ),
    "bad-accumulate": Explanation(
        "an accumulator that is too narrow",
        "The type after `accumulate` is of the same kind as the operand's and at least as wide: the "
        "sum runs in it and is rounded once.",
        "kernel k(M) { inout C: f32[M] accumulate bf16; for i in M { C[i] += bf16(1); } }",
    ),
    "bad-cast": Explanation(
        "a cast that does not exist",
        "Only integers wrap or saturate; nothing is cast to bool. Compare with 0 to get a bool.",
        "kernel k(M) { in A: f32[M]; out C: bf16[M]; for i in M { C[i] = sat_bf16(A[i]); } }",
    ),
    "bad-divisor": Explanation(
        "an index is divided by what may not be positive",
        "Index division rounds down and needs a divisor of at least 1 for every allowed size. State a"
        " range or a `where`.",
        "kernel k(M, s: 0..3) { inout C: f32[M]; for i in M { C[i / s] += 1; } }",
    ),
    "bad-domain": Explanation(
        "values are declared of what makes no index",
        "Inputs of which indices are made are integers along one axis.",
        "kernel k(M) { in A: f32[M] values 0..9; inout C: f32[M]; for i in M { C[i] += A[i]; } }",
    ),
    "bad-parameter": Explanation(
        "a parameter of the wrong kind",
        "A kernel has sizes (`M`) and typed scalars (`scalar alpha: f32`). An instruction's "
        "parameters say what decides them: `choose`, `machine`, `imm` or `scalar`.",
        "kernel k(choose M) { inout C: f32[M]; for i in M { C[i] = 0; } }",
    ),
    "bad-range": Explanation(
        "a range that cannot be",
        "A range is LOW..HIGH, both included; a default lies inside. Without a range a size is at least 1.",
        "kernel k(M, pad = 0) { inout C: f32[M]; for i in M { C[i] = 0; } }",
    ),
    "cannot-infer-type": Explanation(
        "a literal without a type",
        "A literal takes the type of the other operand or of what is assigned. Where there is none, a"
        " cast says it.",
        "kernel k(M) { inout C: f32[M]; for i in M { C[i] = select(1 < 2, C[i], 0); } }",
    ),
    "cast-may-overflow": Explanation(
        "a cast to an integer that may overflow",
        "`i8(x)` needs a proof that x fits. `sat_i8(x)` saturates; `wrap_i8(x)` keeps the low bits.",
        "kernel k(M) { in A: i32[M]; out C: i8[M]; for i in M { C[i] = i8(A[i]); } }",
    ),
    "clause-misplaced": Explanation(
        "a clause that does not belong here",
        "`outside` and `accumulate` are about outputs; `requires`, `sets`, `releases` and `clobbers` "
        "belong to instructions.",
        "kernel k(M) { in A: f32[M] outside zero; inout C: f32[M]; for i in M { C[i] = A[i]; } }",
    ),
    "clause-repeated": Explanation(
        "something is said twice",
        "Each clause, attribute and coordinate is given once.",
        "memory r: registers(count = 32, count = 16, bytes = 64);",
    ),
    "data-dependent": Explanation(
        "an index depends on data of which nothing is known",
        "Indices are made of elements of inputs that declare their range, as `P: i32[M] values 0..N - 1`: so"
        " all that is read is inside its array. Where results go, and sizes, never depend on data.",
        "kernel k(M) { in P: i32[M]; inout C: f32[M]; for i in M { C[P[i]] = 0; } }",
    ),
    "division-by-zero": Explanation(
        "an index is divided by zero",
        "Index division needs a divisor of at least 1.",
        "kernel k(M) { inout C: f32[M]; for i in M { C[i / 0] += 1; } }",
    ),
    "duplicate-write": Explanation(
        "two iterations assign one element",
        "`for` is unordered, so an element may be assigned by one iteration only. Reduce with `+=` or"
        " another reduction, order the loop with `seq`, or subscript the target by the axis.",
        "kernel k(M, N) { in A: f32[M, N]; inout C: f32[M]; for i in M, j in N { C[i] = A[i, j]; } }",
    ),
    "empty-loop": Explanation(
        "a loop without statements",
        "A loop performs at least one statement.",
        "kernel k(M) { inout C: f32[M]; for i in M { C[i] = 0; } for j in M { } }",
    ),
    "empty-routine": Explanation(
        "nothing is computed",
        "A kernel or instruction performs at least one statement, unless it sets or releases state.",
        "kernel k(M) { inout C: f32[M]; }",
    ),
    "extent-not-positive": Explanation(
        "an extent below 1",
        "Operands and loops have extents of at least 1.",
        "kernel k(M) { inout C: f32[0]; C[0] = 0; }",
    ),
    "extent-too-large": Explanation(
        "an extent above 2**31",
        "No operand and no loop has an extent above 2**31.",
        "kernel k(M) { inout C: f32[4294967296]; C[0] = 0; }",
    ),
    "extent-varies": Explanation(
        "an extent that changes with an axis",
        "Loops are rectangular: extents are made of numbers and sizes, inside of `seq` of elements of inputs,"
        " too. A guard leaves out what is too much.",
        "kernel k(M) { inout C: f32[M]; for i in M { for j in i + 1 { C[i] += 1; } } }",
    ),
    "function-too-large": Explanation(
        "a function that becomes enormous where it is called",
        "A call of a `function` stands for its expression, and every name that `let` gives is written out "
        "wherever it is used: a step that uses the one before it twice doubles it. Steps that are used "
        "several times are kept in a `temp` of the kernel.",
        "function f(x: f32) { "
        + " ".join(f"let {b} = {a} * {a};" for a, b in zip("xabcdefghijkl", "abcdefghijklm", strict=True))
        + " return m; } kernel k(M) { inout C: f32[M]; for i in M { C[i] = f(C[i]); } }",
    ),
    "index-out-of-range": Explanation(
        "a subscript leaves its operand",
        "Every subscript lies in 0 .. extent-1 for all sizes that `where` allows; the note shows "
        "sizes for which it does not. `A[e] else 0` reads 0 outside.",
        "kernel k(M, N) { in A: f32[M, N]; inout C: f32[M]; for i in M, j in N { C[i] += A[i, j + 1]; } }",
    ),
    "independence-unproved": Explanation(
        "iterations could not be proved independent",
        "`for` is unordered: no iteration may touch what another one assigns. No two that do were found, "
        "and no proof that there are none. Subscript by the axis itself, or order the loop with `seq`.",
        "kernel k(M) { out C: f32[2*M + 1]; for i in 2*M + 1 { C[4*i % (2*M + 1)] = 0; } }",
    ),
    "index-unproved": Explanation(
        "a subscript could not be proved inside",
        "No counterexample was found, and no proof either. State what you know in `where`, guard the "
        "statement, or read with `else`.",
        "kernel k(M) { in A: f32[1]; inout C: f32[M]; for i in M { C[i] += A[(M*M + M) % 2]; } }",
    ),
    "kernel-ambiguous": Explanation(
        "several kernels, and none was chosen",
        "A text may hold several kernels; where one is wanted, its name says which.",
    ),
    "kernel-missing": Explanation(
        "no such kernel",
        "The text does not hold the kernel that was asked for.",
    ),
    "literal-out-of-range": Explanation(
        "a literal that its type cannot hold",
        "A literal takes the type of its surroundings and has to be one of that type's values.",
        "kernel k(M) { out C: u8[M]; for i in M { C[i] = 256; } }",
    ),
    "literal-type": Explanation(
        "a literal of the wrong kind",
        "An integer has no fraction or exponent; a bool is `true` or `false`.",
        "kernel k(M) { out C: i32[M]; for i in M { C[i] = 1.5; } }",
    ),
    "loop-carried": Explanation(
        "an iteration uses what another one computed",
        "`for` is unordered; apart from reductions (`+=`, `max=`, …) its iterations are independent. "
        "`seq` orders a loop, which is then never mapped onto an instruction's axis.",
        "kernel k(N) { inout h: f32[N + 1]; for i in N { h[i + 1] = h[i]; } }",
    ),
    "memory-in-kernel": Explanation(
        "a kernel names a memory",
        "The schedule decides where a kernel's operands live; only instructions name memories.",
        "memory m: addressable(); kernel k(M) { inout C: f32[M] @ m; for i in M { C[i] = 0; } }",
    ),
    "memory-missing": Explanation(
        "an operand without a memory",
        "Every operand of an instruction says where it lives: `@ MEMORY`.",
        "instruction f() { inout c: f32[4]; for i in 4 { c[i] = 0; } }",
    ),
    "name-taken": Explanation(
        "a name with two meanings",
        "Within a routine every parameter, let, operand and axis in sight has a name of its own; so "
        "has every declaration of a text.",
        "kernel k(M) { inout C: f32[M]; for i in M, i in M { C[i] += 1; } }",
    ),
    "no-gradient": Explanation(
        "no derivative of a kernel",
        "`isamap grad` takes the derivatives of a kernel's results by its inputs, both of floats. It has "
        "none of operations on integers and of ordered loops within each other, where an assignment replaces "
        "a part of an array that is no whole slice, and by what is read at places made of data: there it "
        "would be added up, and results are at no such places.",
    ),
    "nested-too-deeply": Explanation(
        "nesting deeper than 200 levels",
        "Texts are nested at most 200 levels deep, chains of operators included.",
        "kernel k(M) { inout C: f32[M]; C[0] = " + "(" * 201 + "1" + ")" * 201 + "; }",
    ),
    "never-written": Explanation(
        "an output that nothing is assigned to",
        "Every `out` and `inout` operand is assigned.",
        "kernel k(M) { in A: f32[M]; out C: f32[M]; inout D: f32[M]; for i in M { D[i] = A[i]; } }",
    ),
    "not-a-constraint": Explanation(
        "`where` without a comparison",
        "`where` takes comparisons of sizes, strides and alignments, separated by commas.",
        "kernel k(M) where M { inout C: f32[M]; for i in M { C[i] = 0; } }",
    ),
    "not-affine": Explanation(
        "an index that is not affine",
        "Axes are multiplied and divided by numbers and sizes only, so that every access is a linear "
        "function of the axes.",
        "kernel k(M) { inout C: f32[M*M]; for i in M, j in M { C[i*j] += 1; } }",
    ),
    "not-an-index": Explanation(
        "not an integer expression",
        "Subscripts, extents and ranges are made of integers, axes and sizes with + - * / % min max.",
        "kernel k(M) { inout C: f32[M]; for i in M { C[1.5] += 1; } }",
    ),
    "not-an-operand": Explanation(
        "a name that is not an operand",
        "Subscripts and assignments go to operands.",
        "kernel k(M) { inout C: f32[M]; for i in M { i[0] = 1; } }",
    ),
    "number-too-large": Explanation(
        "a number beyond 64 bits",
        "Indices, sizes and products of them fit into 64 bits.",
        "kernel k(M) { inout C: f32[M]; C[99999999999999999999] = 1; }",
    ),
    "partly-written": Explanation(
        "an output that is written in part only",
        "An `out` operand that the statements do not fill says what it holds elsewhere: `outside "
        "zero`, `outside keep` or `outside undefined`.",
        "kernel k(M) { in A: f32[M]; out C: f32[2*M]; for i in M { C[2*i] = A[i]; } }",
    ),
    "placement-negative": Explanation(
        "a placement with a negative coordinate",
        "Coordinates of a placement count from 0.",
        "memory r: registers(count = 32, bytes = 64); instruction f() { inout c: f32[4] @ r placed "
        "[i] at lane: i - 1; for i in 4 { c[i] = 0; } }",
    ),
    "placement-not-one-to-one": Explanation(
        "two elements in one place",
        "A placement gives every element a place of its own.",
        "memory r: registers(count = 32, bytes = 64); instruction f() { inout c: f32[4] @ r placed "
        "[i] at lane: i / 2; for i in 4 { c[i] = 0; } }",
    ),
    "placement-outside": Explanation(
        "a view that leaves its memory",
        "The bytes of a view are bytes of the memory below it.",
        "memory a: registers(count = 1, rows = 8, row_bytes = 8); view b of a: registers(count = 2, "
        "rows = 4, row_bytes = 8) placed [t, r, c] at row: 3*r + t, byte: c;",
    ),
    "read-before-write": Explanation(
        "a value is read before it exists",
        "Temporaries and `out` operands hold nothing at first. Assign them before they are read or "
        "reduced into, or declare an output `inout`.",
        "kernel k(M) { in A: f32[M]; out C: f32; for i in M { C += A[i]; } }",
    ),
    "reserved-name": Explanation(
        "a name that the language keeps",
        "`inf`, `true`, `false` and the number types are not free for sizes, operands, axes and lets.",
        "kernel k(inf) { inout C: f32[4]; for i in 4 { C[i] = 0; } }",
    ),
    "size-not-positive": Explanation(
        "a size below 1",
        "Sizes are at least 1, unless their range says otherwise.",
    ),
    "size-out-of-range": Explanation(
        "a size outside its range",
        "A size lies in the range that the kernel states.",
    ),
    "size-too-large": Explanation(
        "a size beyond the limits",
        "Sizes are at most 2**31, and numbers of elements, bytes and iterations fit into 64 bits.",
    ),
    "size-unbound": Explanation(
        "a size without a value",
        "Every size needs a value (`-D M=64`), a range (`-D M=1..8192@512`) or a default.",
    ),
    "syntax-error": Explanation(
        "not of the language",
        "The text cannot be read at this place; the message says what could stand there.",
        "kernel k(M) { inout C: f32[M] }",
    ),
    "too-many-accesses": Explanation(
        "more accesses of one buffer than can be compared",
        "Iterations of a `for` are independent, so every two accesses of a buffer in one are compared, each "
        "pair of different ones. A million pairs are some thousand statements without a loop among them.",
    ),
    "text-too-large": Explanation(
        "a text above 1 MB",
        "Texts have at most 1,000,000 bytes.",
    ),
    "type-mismatch": Explanation(
        "two types where one is needed",
        "Nothing is converted implicitly: operands of an operation have one type, and a value has the"
        " type of what it is assigned to. Casts are written: `f32(x)`.",
        "kernel k(M) { in A: bf16[M]; inout C: f32[M]; for i in M { C[i] += A[i]; } }",
    ),
    "unknown-attribute": Explanation(
        "an attribute that does not exist",
        "Each kind of memory has its own attributes.",
        "memory r: registers(count = 32, byts = 64);",
    ),
    "unknown-character": Explanation(
        "a character outside the language",
        "The language is written in letters, digits and the usual signs; comments start with `#`.",
        "kernel k(M) { inout C: f32[M]; C[0] = $; }",
    ),
    "unknown-coordinate": Explanation(
        "a coordinate that a memory does not have",
        "A view places its bytes by the register, the row (where there are rows) and the byte of the "
        "memory below it.",
        "memory a: registers(count = 4, bytes = 8); view b of a: registers(count = 2, bytes = 8) placed "
        "[t, c] at row: t, byte: c;",
    ),
    "unknown-field": Explanation(
        "a field that the state does not have",
        "`requires` names a field of a declared state.",
        "memory r: registers(count = 8, bytes = 64); state cfg { rows: u8[8]; } instruction f() { "
        "inout c: f32[4] @ r; requires cfg.row[c] == 4; for i in 4 { c[i] = 0; } }",
    ),
    "unknown-function": Explanation(
        "a function that does not exist",
        "Functions: abs sqrt exp expm1 log log1p tanh sigmoid erf sin cos fma select round rounding_shift "
        "min max; those of the library, gelu silu reciprocal rsqrt; and those that `function` defines above. "
        "Casts carry the name of a type.",
        "kernel k(M) { inout C: f32[M]; for i in M { C[i] = sqt(C[i]); } }",
    ),
    "unknown-kind": Explanation(
        "a kind of memory that does not exist",
        "Memories are addressable, cache, scratchpad or registers.",
        "memory r: register(count = 32, bytes = 64);",
    ),
    "unknown-memory": Explanation(
        "a memory that is not declared",
        "Operands, views and `clobbers` name memories that are declared above or by the machine.",
        "instruction f() { inout c: f32[4] @ zmm; for i in 4 { c[i] = 0; } }",
    ),
    "unknown-mode": Explanation(
        "a rounding mode that does not exist",
        "Rounding modes: even, away, zero, up, down.",
        "kernel k(M) { inout C: f32[M]; for i in M { C[i] = round(C[i], evn); } }",
    ),
    "unknown-name": Explanation(
        "a name that nothing declares",
        "Names are parameters, lets, operands and axes in sight.",
        "kernel k(M) { inout C: f32[M]; for i in M { C[i] = alpha; } }",
    ),
    "unknown-numerics": Explanation(
        "not a word of `numerics`",
        "`numerics` says how an instruction's floating-point results differ from those of its loops, in "
        "words that isamap knows.",
        "memory r: registers(count = 32, bytes = 64); instruction f() { inout c: f32[4] @ r; numerics "
        "reorderd; for i in 4 { c[i] += 1; } }",
    ),
    "unknown-outside": Explanation(
        "not a rule for what is outside",
        "`outside zero`, `outside keep` or `outside undefined`.",
        "kernel k(M) { out C: f32[M] outside none; for i in M { C[i] = 0; } }",
    ),
    "unknown-size": Explanation(
        "a size that the kernel does not have",
        "`-D NAME=VALUE` names sizes of the kernel.",
    ),
    "unknown-state": Explanation(
        "a state that is not declared",
        "`requires`, `sets` and `releases` name declared states.",
        "instruction f() { sets cfg; }",
    ),
    "unknown-type": Explanation(
        "a type that does not exist",
        "Types: f64 f32 tf32 f16 bf16 f8e4m3 f8e5m2, i64 … i4, u64 … u4, bool.",
        "kernel k(M) { inout C: fp32[M]; for i in M { C[i] = 0; } }",
    ),
    "where-violated": Explanation(
        "sizes that `where` excludes",
        "The given sizes do not obey the kernel's own constraints.",
    ),
    "write-to-input": Explanation(
        "an assignment to an input",
        "Only `out`, `inout` and `temp` operands are assigned.",
        "kernel k(M) { in A: f32[M]; for i in M { A[i] = 0; } }",
    ),
    "wrong-operand-type": Explanation(
        "an operation on the wrong kind of type",
        "Arithmetic takes numbers, `&` `|` `^` `~` integers or bool, `%` and shifts integers, exp and"
        " the like floats.",
        "kernel k(M) { inout C: f32[M]; for i in M { C[i] = C[i] & C[i]; } }",
    ),
    "wrong-rank": Explanation(
        "a wrong number of subscripts",
        "An access has one subscript per axis of its operand; strides and placements one entry per axis.",
        "kernel k(M, N) { in A: f32[M, N]; inout C: f32[M]; for i in M { C[i] = A[i]; } }",
    ),
}
