"""The codes of models: of files of ONNX, of their nodes, and of graph files."""

from __future__ import annotations

from isamap.source.diagnostic import Explanation

MODEL_CODES: dict[str, Explanation] = {
    "graph-damaged": Explanation(
        "a graph file that cannot be read",
        "A graph file names tensors, kernels and moves in the order in which they run: each tensor is "
        "written once, before it is read, and always seen in one size; other files lie in the same folder.",
    ),
    "graph-no-kernel": Explanation(
        "an operation of a model that a machine cannot perform",
        "Each operation of a model has a kernel of its own before any are put together, and for this one no "
        "instruction of the machine was found.",
    ),
    "graph-no-room": Explanation(
        "a model's workspace that takes more than is allowed",
        "`--workspace` is the most that tensors between kernels, and kernels' own workspaces, may take. They "
        "share places where they do not live at one time; `isamap graph show` draws which do.",
    ),
    "onnx-damaged": Explanation(
        "a file that is no model of ONNX",
        "The file is cut off, of another format, contradicts itself, or leads to files outside of its "
        "folder. Nothing of it was run.",
    ),
    "onnx-input": Explanation(
        "an input of a model that code cannot be made for",
        "Code is made for known sizes and for the number types of the language: open sizes get a number by "
        "`-D`, and an input that decides sizes a value for all calls by `--constant`.",
    ),
    "onnx-missing": Explanation(
        "the package that reads ONNX is not installed",
        "`pip install 'isamap[onnx]'` brings it.",
    ),
    "onnx-node": Explanation(
        "a node of a model that is not taken",
        "No kernel, move or function of ONNX performs this node as it stands, and nothing else is put in its "
        "place. docs/onnx-operators.md lists what is taken; `isamap import --json` says it of each node.",
    ),
}
