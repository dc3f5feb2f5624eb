"""The names of the stages of a compilation, and of the passes of the stage `lower`, each in their order.

| stage | what it makes |
|---|---|
| parse | the kernel's text typed and bound to sizes, the machine's description read |
| transform | guards made explicit; with `--transform`, the form of the kernel that is compiled |
| match | all mappings of every statement |
| pose | the problem: mappings that may win, with what each costs |
| schedule | the schedule, by the heuristic and the solver |
| check | the schedule judged; warnings about what is slow |
| lower | the program, pass by pass, judged |
| emit | C |
"""

from __future__ import annotations

STAGES = ("parse", "transform", "match", "pose", "schedule", "check", "lower", "emit")
# As in the table that is run (`isamap.driver.workspace.ALL_PASSES`), which brings most of the compiler.
PASS_NAMES = (
    "loops",
    "hold",
    "stage",
    "parallel",
    "overlap",
    "peel",
    "expand",
    "pipeline",
    "registers",
    "configure",
    "workspace",
)
