"""The codes of building and running emitted code."""

from __future__ import annotations

from isamap.source.explanation import Explanation

CODEGEN_CODES: dict[str, Explanation] = {
    "dispatch-feature": Explanation(
        "a machine that a program cannot recognise",
        "One artifact for several machines asks the processor for features when it is called, by "
        "`__builtin_cpu_supports`, which knows those of x86. Compile for this machine alone.",
    ),
    "dispatch-packed": Explanation(
        "programs that are called in different ways",
        "One artifact for several machines has one argument struct; a tensor that one of them takes packed "
        "has a layout of its own.",
    ),
    "not-measurable": Explanation(
        "schedules of this machine cannot be measured here",
        "`--evaluate measured` runs the code, so that the processor has to have what the machine needs. "
        "`--evaluate simulated` works everywhere.",
    ),
    "nothing-ran": Explanation(
        "no schedule could be evaluated",
        "Each of the schedules crashed or exceeded a limit. The notes say what became of the first.",
    ),
    "argument-mismatch": Explanation(
        "arguments that a compiled program does not take",
        "A program takes its tensors with the types and shapes for which it was made, its run-time sizes and "
        "its scalars, each by name, and nothing else. Sizes and scalars of integer types are whole numbers "
        "within their range, of Python or numpy; no number is rounded to fit, but into a float's type.",
    ),
    "cache-not-private": Explanation(
        "a cache folder that cannot be trusted",
        "The cache holds libraries that are loaded and run, so the folder has to belong to you, and no "
        "other user may write to it. `ISAMAP_CACHE_DIR` names another.",
    ),
    "cache-unusable": Explanation(
        "a cache folder that cannot be read or written",
        "The disk is full, the folder may not be written, or something else lies where it should be. What "
        "isamap made is not lost by that, only not kept for the next time. `ISAMAP_CACHE_DIR` names another.",
    ),
    "calibrate-busy": Explanation(
        "a computer that does other things while it measures",
        "Functions are called many times for a moment each, and the least time of each counts: that survives "
        "neighbours. What two threads do together does not.",
    ),
    "calibrate-elsewhere": Explanation(
        "a machine that cannot be measured on this computer",
        "`isamap hw calibrate` runs a machine's instructions, which takes a processor that has them all.",
    ),
    "compiler-refused": Explanation(
        "the C compiler does not accept the emitted code",
        "An `emit`, a C type or a flag of the description does not fit the compiler. The finding stands at "
        "the emission that the compiler's message is about, where it is about one."
        " The notes hold what it says.",
    ),
    "compiler-timeout": Explanation(
        "the C compiler takes too long",
        "It is stopped after five minutes, with all that it has started, and nothing is said of the code. "
        "The usual reason is a computer that is short of memory or does other things; very long programs are "
        "another.",
    ),
    "data-not-private": Explanation(
        "a data folder that cannot be trusted",
        "The data folder holds measured figures by which code is chosen, so it has to belong to you, and "
        "no other user may write to it. `ISAMAP_DATA_DIR` names another.",
    ),
    "data-unusable": Explanation(
        "a data folder that cannot be read or written",
        "The disk is full, the folder may not be written, or something else lies where it should be. What "
        "was measured before is not used, what is measured now not kept. `ISAMAP_DATA_DIR` names another.",
    ),
    "instruction-crashed": Explanation(
        "an instruction ended the process that tried it",
        "It touched memory beside its operands, or the processor does not have it.",
    ),
    "instruction-differs": Explanation(
        "an instruction does not do what its semantics say",
        "It was run on this processor and its result is not that of the reference interpreter. One of "
        "`semantics`, `emit` and `numerics` is wrong.",
    ),
    "limit-too-low": Explanation(
        "the limits under which isamap was started are too low",
        "A process passes its limits on to those that it starts, and none of them can raise them. Emitted "
        "code gets what it is to have or, where that is less, what isamap itself may use (`ulimit -t`, "
        "`ulimit -v`).",
    ),
    "no-compiler": Explanation(
        "no C compiler",
        "Looked for are, in this order: the one that the user or `ISAMAP_CC` names, gcc and clang on PATH if "
        "they take the machine's flags, and the compiler in the `ziglang` package.",
    ),
    "no-emission": Explanation(
        "an instruction that cannot be written",
        "Its description has no `emit`, as in drafts of machines. A program with it can be simulated, and "
        "run as a plain-C model.",
    ),
    "no-emulator": Explanation(
        "no such emulator",
        "`--emulator` names a command, which is looked for as a shell would: by its path, or on PATH. The "
        "emulator runs the process in which emitted code runs: docs/emulators.md.",
    ),
    "permission-refused": Explanation(
        "the operating system keeps a part of the processor to itself",
        "Some state of the processor, as AMX's tiles, may be used only by processes that asked and were "
        "allowed to.",
    ),
    "program-crashed": Explanation(
        "emitted code ended its process",
        "It ran in a child process, so nothing else is harmed. Touching memory that it was not given, or an "
        "instruction that the processor lacks, are the usual reasons.",
    ),
    "program-failed": Explanation(
        "emitted code could not be run",
        "The child process could not be set up or could not load the library.",
    ),
    "program-out-of-memory": Explanation(
        "emitted code needs more memory than it may use",
        "The child process has a limit, well above what the tensors and the workspace take.",
    ),
    "program-timeout": Explanation(
        "emitted code did not end in time",
        "The child process was stopped at its limit of wall-clock or processor time.",
    ),
    "program-unanswered": Explanation(
        "emitted code kept its process from answering",
        "The process in which it ran ended as if all were well, but its answer is missing or is not its own. "
        "Code that calls `exit`, or writes to files that it did not open, does that.",
    ),
    "program-unstable": Explanation(
        "results depend on where the data lies",
        "Two runs on the same data at different addresses gave different bits: something is read that was "
        "never written.",
    ),
    "unknown-compiler": Explanation(
        "a compiler that is not known",
        "`ISAMAP_CC` and `--cc` take `gcc`, `clang` or `zig`; neither a path nor arguments.",
    ),
}
