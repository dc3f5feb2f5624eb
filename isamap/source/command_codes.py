"""The codes of command lines, of output folders, of building and running emitted code, and of comparing."""

from __future__ import annotations

from isamap.source.diagnostic import Explanation

COMMAND_CODES: dict[str, Explanation] = {
    "bench-rows": Explanation(
        "rows that the suite does not have",
        "Rows are named by their position in the chosen suites: 0,3,9 or 10..20, or 0..99/5 for every fifth.",
    ),
    "bench-threads": Explanation(
        "more threads than cores",
        "Each thread of a benchmark has a core of its own, or its times say nothing.",
    ),
    "bound-too-large": Explanation(
        "a result that no comparison can judge",
        "What rounding may make of a result is more than a tenth of its values, so that a wrong one would "
        "pass, too. Recurrences make more and more of a rounding: where an output shows the state, as "
        "Y[t, j] = h[j] does, each iteration is compared by itself, from the state that the program had.",
    ),
    "cache-damaged": Explanation(
        "a file in the cache that is not what was kept",
        "What the cache holds is named by its sha256, which is checked at every use; a file that differs is "
        "not used, and its result is made anew.",
    ),
    "cache-kind": Explanation(
        "a kind of results that the cache does not hold",
        "`isamap cache clear KIND` deletes one kind, such as schedules; `isamap cache list` lists them.",
    ),
    "contender-lost": Explanation(
        "a contender of a benchmark ended",
        "Each contender runs in a process of its own; this one crashed or hung, and the row says so.",
    ),
    "cost-differs": Explanation(
        "a description that says something else than was measured",
        "`isamap hw calibrate` measured a figure on this processor that is at least twice, or at most half, "
        "what the description states. Schedules here use the measured one; elsewhere the stated one counts.",
    ),
    "file-not-text": Explanation("a file that is no text", "Inputs are UTF-8 text."),
    "file-too-large": Explanation("a file that is too large", "Inputs have at most 1 MB."),
    "fix-syntax": Explanation(
        "a fixed decision that cannot be read",
        "`--fix` takes DECISION=NUMBER, as in `--fix nest0.block.k=256`; from Python `fix` takes whole "
        'numbers by the names of decisions, {"block.k": 256}.',
    ),
    "gather-rows": Explanation(
        "rows that no samples can be gathered of",
        "`isamap tune gather` visits kernels at fixed sizes: those of a shipped list, or one that is named "
        "with a number for each of its sizes.",
    ),
    "internal-error": Explanation(
        "a mistake in isamap",
        "This should not happen, whatever the input. The file named holds the command line, its input files "
        "and what went wrong; it stays on this computer unless you send it.",
    ),
    "missing-argument": Explanation(
        "a command lacks something", "`isamap COMMAND --help` says what a command needs."
    ),
    "model-unreadable": Explanation(
        "a file that is no trained cost model",
        "`isamap tune train` writes one: JSON with numbers only, which is read as data. What is no tree, or "
        "names features that there are not, is refused.",
    ),
    "model-version": Explanation(
        "a cost model of another version of isamap",
        "What features of schedules mean has changed since it was trained. The samples that it was trained "
        "on are of the older version, too: gather new ones.",
    ),
    "more-findings": Explanation(
        "an input with more mistakes than are shown",
        "Of very many findings the first 50 are shown; mend these, and the others are shown next time.",
    ),
    "cluster-failed": Explanation(
        "a cluster that does not do the work",
        "Each worker of `isamap hw sweep --scheduler` needs the isamap that asks: install it there.",
    ),
    "no-dask": Explanation("Dask is not installed", "`pip install 'isamap[dask]'` brings it."),
    "no-scheduler": Explanation(
        "no scheduler at an address",
        "`dask scheduler` starts one and prints its address; `dask worker ADDRESS` adds a computer to it.",
    ),
    "no-language-server": Explanation(
        "the language server is not installed",
        "`isamap lsp` speaks to editors by the library pygls, an extra: `pip install 'isamap[lsp]'`.",
    ),
    "no-kernels": Explanation(
        "a folder without kernels",
        "`isamap match FOLDER` shows what a machine has for each kernel in it, a file that ends in .ir.",
    ),
    "no-training-library": Explanation(
        "the library that trains cost models is not installed",
        "`isamap tune train` calls lightgbm, an extra: `pip install 'isamap[learn]'`. Trained models are "
        "used without it.",
    ),
    "not-canonical": Explanation(
        "a text that `isamap fmt` would change",
        "`isamap fmt FILE` rewrites it; meaning and comments stay as they are.",
    ),
    "nothing-to-fix": Explanation(
        "no edit is known that would help",
        "`isamap match --fix` makes the edits of the nearest refusal that has any; `--instruction NAME` says "
        "of which instruction.",
    ),
    "nothing-to-transform": Explanation(
        "no rewrite of a kernel matches more",
        "`isamap match --transform` takes statements apart, puts them together and batches them where that "
        "is legal, and compares what a machine performs of each form.",
    ),
    "one-kernel-only": Explanation(
        "an option that needs a single kernel",
        "With several kernels, or a folder, `isamap match` prints a matrix of counts; sizes, refusals and "
        "single instructions are looked at kernel by kernel.",
    ),
    "option-value": Explanation(
        "an option with a value that it does not take", "The message says which values there are."
    ),
    "out-of-registers": Explanation(
        "more registers are needed than there are",
        "Values that live at the same time need registers of their own. Unroll fewer tiles of the nest that "
        "is named: `isamap schedule` prints which axes it unrolls, `--fix nest0.unroll.m=1` decides for one.",
    ),
    "out-of-memory": Explanation(
        "more memory is needed than there is",
        "The tensors of these sizes, or what is computed of them, do not fit. Smaller sizes show the same.",
    ),
    "output-edited": Explanation(
        "an output folder with files that were changed",
        "An output folder is replaced whole, but for one in which a file differs from the digest in its "
        "manifest, an edited schedule, say. `--force` replaces it all the same.",
    ),
    "output-exists": Explanation(
        "a file that is not replaced unasked",
        "A changed kernel or a picture is written to a new file; `--overwrite` replaces one that is there.",
    ),
    "output-in-the-way": Explanation(
        "an output folder that is not replaced",
        "An output folder is replaced whole. One that isamap did not write, or with other files, stays.",
    ),
    "output-unwritable": Explanation(
        "an output that cannot be written", "The operating system refuses to write there."
    ),
    "platform-lacks-runner": Explanation(
        "emitted code is not run here",
        "Emitted code is run on Linux. Elsewhere isamap matches, schedules and emits.",
    ),
    "profile-damaged": Explanation(
        "a profile that was changed",
        "The last line of a profile is the sha256 of all the others; measure again.",
    ),
    "profile-other-cpu": Explanation(
        "a profile of another processor",
        "Measured figures hold for one processor, its microcode, and what the operating system lets programs "
        "use of it.",
    ),
    "profile-other-machine": Explanation(
        "a profile of another description",
        "A profile belongs to the texts of one machine and of all that it extends.",
    ),
    "profile-unreadable": Explanation(
        "a file that is no profile",
        "`isamap hw calibrate -o FILE` writes one; `--profile none` does without.",
    ),
    "profile-version": Explanation(
        "a profile of another format", "Profiles start with the version of their format; measure again."
    ),
    "program-refused": Explanation(
        "emitted code refused its arguments",
        "Emitted functions check sizes, strides and pointers, and return a status; the header lists them.",
    ),
    "result-wrong": Explanation(
        "a result differs from the interpreter's",
        "Integers agree bit for bit; floats within 4·2⁻²³·Σ|a||b| for sums in f32 on random data (K·2⁻²³ on "
        "other data), and one unit in the last place where a result is rounded to a narrower type.",
    ),
    "form-slow": Explanation(
        "another form of a statement is performed faster",
        "Quantised values with zero points, as in `y[m, n] += (i32(x[m, k]) - zx) * (i32(w[n, k]) - zw)`, "
        "are widened before they are multiplied. Out of the sum, they leave a product of bytes: "
        "`--transform` of `compile`, `run` and `verify` writes it so, `isamap match --transform` shows it.",
    ),
    "scalar-only": Explanation(
        "a statement is performed one element at a time",
        "The machine has wider instructions, but none that performs several iterations of this statement at "
        "once: none performs it, or only with all lanes but one unused.",
    ),
    "several-lengths": Explanation(
        "a program for several lengths of vectors that cannot be",
        "--hw riscv-rvv@Q=any asks for a program for each length that the description says, @Q=2,4,8 for "
        "these. It issues calls, to which the length is passed; functions made of `semantics`, plain-C "
        "models and packed operands are of one length.",
    ),
    "several-profiles": Explanation(
        "several profile values where they cannot be",
        "M=1..8192@1,35,512 asks `compile`, `run` and `verify` for a program with a schedule for each of "
        "these values, in increasing order, 16 schedules at most; other commands look for one schedule.",
    ),
    "size-syntax": Explanation(
        "a size that cannot be read",
        "Sizes are written NAME=NUMBER, or NAME=LOW..HIGH@TYPICAL for a size that is given at run time; "
        "several typical values, with commas between them, have a schedule each. From Python they are whole "
        'numbers and texts of ranges by their names: {"M": 1024, "N": "1..8192@512"}.',
    ),
    "rows-output": Explanation(
        "one file for many schedules",
        "`-o` names the file of one schedule; `--rows --json` gives all of them.",
    ),
    "not-proven": Explanation(
        "`--require proven` asked for a proof, and there is none",
        "The best schedule that was found was taken and written. The exit code is 4.",
    ),
    "rows-without-sizes": Explanation(
        "a table without sizes of the kernel",
        "The first line of a table names its columns. Those that are sizes of the kernel are taken.",
    ),
    "size-twice": Explanation(
        "a size given twice", "Each size has one value; only `isamap verify` takes several sets."
    ),
    "solver-stopped": Explanation(
        "the solver was stopped by the clock",
        "The best schedule so far was taken. It is correct; a second run may find another one.",
    ),
    "rows-damaged": Explanation(
        "a line of an earlier run that cannot be read",
        "`--resume` goes on with the rows of rows.jsonl, one a line. A last line that a kill cut off is left "
        "out; any other line is a row as the command wrote it.",
    ),
    "system-refused": Explanation(
        "the operating system lacks something",
        "A disk is full, a folder may not be written or is gone, or there are no more files or processes to "
        "be had. What it is stands in the message.",
    ),
    "too-few-samples": Explanation(
        "too few samples to train a cost model",
        "`isamap tune train` learns from schedules in the log of evaluations that ran on a processor, with "
        "features as this version has them. `isamap tune gather` adds some, and so do `--tune` and "
        "`--evaluate measured`.",
    ),
    "unknown-code": Explanation(
        "a code that does not exist", "Codes stand in brackets behind `error` or `warning`."
    ),
    "unknown-command": Explanation("a command that does not exist", "`isamap --help` lists the commands."),
    "unknown-figure": Explanation(
        "a figure that a new machine does not have",
        "`isamap hw new --set NAME=VALUE` takes the figures of its kind; `isamap hw new --help` lists them.",
    ),
    "unknown-instruction": Explanation(
        "an instruction that the machine does not have", "`isamap hw show MACHINE` lists its instructions."
    ),
    "unknown-kernel": Explanation(
        "a kernel that does not exist", "A kernel is a shipped name, the path of an .ir file, or `-`."
    ),
    "unknown-option": Explanation(
        "an option that does not exist", "`isamap COMMAND --help` lists a command's options."
    ),
    "unknown-place": Explanation(
        "a figure that a description does not state",
        "`isamap hw sweep --set PATH=VALUES` replaces a figure in the text of a description: a key by the "
        "keys that lead to it, a link by its two memories, and what is said of a memory in the language by "
        "`memories.NAME.ATTRIBUTE`.",
    ),
    "usage": Explanation(
        "words that a command does not take", "`isamap COMMAND --help` says what a command takes."
    ),
}


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
    "not-searchable": Explanation(
        "a search that has nowhere to begin",
        "`--search` walks from the cost model's choice in steps that change one decision. Where a schedule "
        "has loops that no decisions lead to, there is no first step. What the scheduler finds itself has "
        "one; please report a kernel that shows this.",
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
