"""The options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

KernelName = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL", help="A shipped kernel's name, the path of an .ir file, or -.", show_default=False
    ),
]
KernelOrModel = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL",
        help="A shipped kernel's name, the path of an .ir file, or -; a model's .onnx file, or a graph.json.",
        show_default=False,
    ),
]
KernelNames = Annotated[
    list[str],
    typer.Argument(
        metavar="KERNEL…",
        help="A shipped kernel's name, the path of an .ir file, or -; several of them, or a folder, "
        "give a matrix.",
        show_default=False,
    ),
]
MachineName = Annotated[
    str,
    typer.Option(
        "--hw",
        metavar="MACHINE",
        help="A shipped machine's name, `host`, or the path of a description; @Q=8 behind it gives a length "
        "of vectors, @Q=any all that the description names.",
        show_default=False,
    ),
]
MachineNames = Annotated[
    list[str],
    typer.Option(
        "--hw",
        metavar="MACHINE",
        help="A shipped machine's name, `host`, or the path of a description; @Q=8 behind it gives a length "
        "of vectors, @Q=any code for all that the description names; several, each behind its own --hw, give "
        "code that picks one when it runs.",
        show_default=False,
    ),
]
MachineArgument = Annotated[
    str,
    typer.Argument(
        metavar="MACHINE", help="A shipped machine's name, `host`, a path, or -.", show_default=False
    ),
]
SizeWords = Annotated[
    list[str] | None,
    typer.Option(
        "-D",
        metavar="NAME=VALUE",
        help="Sizes, as many as follow: -D M=64 N=64, or M=1..8192@512.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]
Portfolio = Annotated[
    bool,
    typer.Option(
        "--portfolio", help="Call an installed library where that is measured to be faster, and right."
    ),
]
LibraryFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--library",
        metavar="FILE",
        help="With --portfolio, what describes a library, in place of those shipped; may be repeated.",
        show_default=False,
    ),
]
ScheduleFile = Annotated[
    str | None, typer.Option("--schedule", metavar="FILE", help="Replay this schedule.", show_default=False)
]
HeuristicName = Annotated[
    str,
    typer.Option(
        "--heuristic", metavar="NAME", help="How to schedule: cpsat, annealing, or greedy, which is quick."
    ),
]
CostModelName = Annotated[
    str, typer.Option("--cost-model", metavar="NAME", help="What schedules are chosen by.")
]
LimitSeconds = Annotated[str, typer.Option("--limit", metavar="SECONDS", help="Longest time for the solver.")]
FixWords = Annotated[
    list[str] | None,
    typer.Option(
        "--fix",
        metavar="DECISION=NUMBER",
        help="Decide for the solver: --fix block.k=256; with --schedule, --fix unroll keeps what it has.",
        show_default=False,
    ),
]
ProfileName = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="PROFILE",
        help="Measured figures: a file of `isamap hw calibrate`, none, or default, the newest measured here, "
        "else those shipped for this processor.",
    ),
]
FormNumber = Annotated[
    str | None,
    typer.Option(
        "--transform",
        metavar="[N]",
        help="Rewrite the kernel where that is faster, or as in form N of `match --transform`.",
        show_default=False,
    ),
]
Requirement = Annotated[
    str,
    typer.Option(
        "--require",
        metavar="WORD",
        help="proven: end with exit code 4 where the schedule is not proven optimal.",
        show_default=False,
    ),
]
HeuristicNames = Annotated[
    list[str] | None,
    typer.Option(
        "--heuristic",
        metavar="NAME",
        help="Ask this one, cpsat by default; several with commas, or repeated.",
        show_default=False,
    ),
]
EvaluatorNames = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluate",
        metavar="NAME",
        help="Evaluate all schedules: simulated, measured, learned:FILE; several as above, the first "
        "one chooses.",
        show_default=False,
    ),
]
EvaluatorName = Annotated[
    str,
    typer.Option(
        "--evaluate",
        metavar="NAME",
        help="Let simulated, measured or learned:FILE choose among the schedules that --best asks for.",
    ),
]
BestCount = Annotated[
    str,
    typer.Option("--best", metavar="COUNT", help="How many of the cheapest schedules by the cost model."),
]
TuneCount = Annotated[
    str | None,
    typer.Option(
        "--tune",
        metavar="[N]",
        help="Measure the model's N best schedules, 8 by default; take and keep the fastest.",
        show_default=False,
    ),
]
TuneLimit = Annotated[
    str, typer.Option("--tune-limit", metavar="SECONDS", help="Longest time for measuring with --tune.")
]
SearchName = Annotated[
    str,
    typer.Option(
        "--search",
        metavar="NAME",
        help="What proposes the N schedules of --tune: annealing, genetic, policy, or an installed one.",
        show_default=False,
    ),
]
Tuned = Annotated[bool, typer.Option("--tuned", help="Take the schedule that --tune has kept.")]
PackedNames = Annotated[
    list[str] | None,
    typer.Option(
        "--packed",
        metavar="OPERAND",
        help="An input that is packed once, before: a program beside the kernel's does it; may be repeated.",
        show_default=False,
    ),
]
Cold = Annotated[bool, typer.Option("--cold", help="Each call's operands are in no cache yet.")]
ThreadCount = Annotated[
    str, typer.Option("--threads", metavar="N", help="How many threads perform the kernel.")
]
AsModel = Annotated[
    bool, typer.Option("--model", help="Emit plain-C models of the instructions instead of the instructions.")
]
EmulatorCommand = Annotated[
    str | None,
    typer.Option(
        "--emulator",
        metavar="COMMAND",
        help="Run it under an emulator: a command that runs the one behind it, as `qemu-x86_64 -cpu max`.",
        show_default=False,
    ),
]
ProgramPath = Annotated[
    str | None,
    typer.Option(
        "--program",
        metavar="FILE",
        help="Read this file of `compile --emit program` and perform its words, instead of compiling.",
        show_default=False,
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Neither recall earlier results nor keep new ones.")
]
RowsFile = Annotated[
    str | None,
    typer.Option(
        "--rows",
        metavar="FILE.csv",
        help="Schedule every row: sizes under a header that names them, or a shipped suite's name.",
        show_default=False,
    ),
]
