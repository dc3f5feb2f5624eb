"""Records are immutable; every class and field that is not is listed here, with the reason.

A new class is `@dataclass(frozen=True, slots=True)`, its fields tuples, `Mapping` or `Sequence`. Where that does not
do, add it to the group whose reason it has; a new reason is for a review to judge.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MUTABLE: dict[str, tuple[str, ...]] = {
    "builds one value: made, filled and read inside one function that returns a record": (
        "isamap/adjoint/backward:Backward",
        "isamap/adjoint/value_storage:AdjointNames",
        "isamap/adjoint/single_assignment:Values",
        "isamap/adjoint/value_storage:StorageState",
        "isamap/emit/c_body:BodyWriter",
        "isamap/emit/c_commands:CommandIssuer",
        "isamap/emit/c_interface:_Entry",
        "isamap/emit/c_issue:Issuer",
        "isamap/emit/c_names:CNames",
        "isamap/emit/c_steps:_Writer",
        "isamap/emit/cmodel:ModelWriter",
        "isamap/emit/conformance_source:FormWriter",
        "isamap/emit/lane_functions:_LaneFunction",
        "isamap/emit/lanes:LaneIssuer",
        "isamap/emit/lanes:LaneWriter",
        "isamap/graph/emitting:_Writer",
        "isamap/graph/graph:FoldingBudget",
        "isamap/graph/kernel_groups:Writer",
        "isamap/graph/lowering:Lowering",
        "isamap/graph/making:Making",
        "isamap/graph/making:KernelText",
        "isamap/graph/operators/recurrent:_Way",
        "isamap/graph/quantising:_Rewriting",
        "isamap/graph/sizes:OpenSizes",
        "isamap/ir/equal_axes:_Assumed",
        "isamap/ir/equal_axes:_Digits",
        "isamap/ir/prove:IslNames",
        "isamap/ir/prove:_Search",
        "isamap/lower/barrier_check:_Walk",
        "isamap/lower/length_check:_Spelled",
        "isamap/lower/length_join:_Join",
        "isamap/lower/length_join:Numbers",
        "isamap/lower/load_issues:Emitter",
        "isamap/lower/program:Names",
        "isamap/lower/registers:_Allocator",
        "isamap/machine/emission:_Parser",
        "isamap/machine/tree:_Reader",
        "isamap/machine/tree:Findings",
        "isamap/match/mappings/exact:_Writer",
        "isamap/plan/text/cursor:TextReader",
        "isamap/plan/text/reading:_Body",
        "isamap/report/page/as_html:_Section",
        "isamap/report/page/line_links:_Code",
        "isamap/report/page/memories:_Open",
        "isamap/simulate/prepare:_Builder",
        "isamap/source/codec:_Writer",
        "isamap/stream/tokens:_Assignment",
        "isamap/stream/unroll:_Walk",
        "isamap/syntax/declarations:_Parts",
        "isamap/syntax/scope:TextFindings",
        "isamap/syntax/tree_builder:_Builder",
        "isamap/torch/calls:AtenCall",
        "isamap/torch/operators:Translation",
        "isamap/torch/segments:_Parts",
        "isamap/transform/factors:_Factoring",
        "isamap/transform/guards:_Builder",
        "isamap/transform/winograd:_Tiled",
        "scheduler/graphs/devices:_Model",
        "scheduler/graphs/window:WindowModel",
        "scheduler/graphs/window:_Room",
        "scheduler/memory/skyline:_Search",
        "scheduler/pipelines/modulo:_Table",
        "scheduler/translation/translate:Translator",
    ),
    "owns a process, a thread, a file, memory or a library, and may end it": (
        "isamap/bench/contender:Contender",
        "isamap/bench/models:_Inputs",
        "isamap/bench/packed_libraries:PackedMemory",
        "isamap/bench/ring:Shared",
        "isamap/bench/ring:Mapped",
        "isamap/driver/explaining:Dump",
        "isamap/driver/runnable:CompiledKernel",
        "isamap/emit/device_call:DeviceProgram",
        "isamap/graph/model_library:CompiledModel",
        "isamap/graph/network_stream:StreamedModel",
        "isamap/lsp/server:Messages",
        "isamap/lsp/server:Protocol",
        "isamap/lsp/server:Server",
        "isamap/onnx/onnx_files:OnnxReader",
        "isamap/onnx/onnx_models:OnnxReference",
        "isamap/run/in_process:InProcess",
        "isamap/run/in_process:RepeatedCall",
        "isamap/run/worker:ThreadPool",
        "isamap/run/worker:GuardedMemory",
        "isamap/run/worker:OperandMemory",
        "isamap/source/diagnostic:OnlyWarned",
        "isamap/source/progress:Progress",
        "isamap/torch/packing:Contents",
        "isamap/torch/packing:PackedGraph",
        "isamap/tune/measured:MeasuredSchedule",
        "scheduler/process/children:Child",
        "scheduler/process/solve:Told",
    ),
    "remembers what was asked, each answer found once": (
        "isamap/adjoint/backward:Shares",
        "isamap/bench/campaign:Peaks",
        "isamap/graph/group_prices:Prices",
        "isamap/graph/partition:Partition",
        "isamap/ir/dependences:_Proofs",
        "isamap/match/mappings/mapping:KnownMappings",
        "isamap/report/mapping_facts:Look",
        "isamap/simulate/reuse:Reuse",
        "scheduler/ranking:Pool",
    ),
    "is the state of a machine or a clock while events pass": (
        "isamap/driver/stages:Clock",
        "isamap/driver/verifying:ComparedResult",
        "isamap/lower/lifetimes:_Clock",
        "isamap/simulate/events:_Walk",
        "isamap/simulate/machine_time:MachineTime",
        "isamap/simulate/machine_time:Spans",
        "isamap/simulate/recording:_Recorder",
        "isamap/stream/encoding:_Touched",
        "isamap/stream/execute:_Memory",
        "isamap/stream/execute:_Value",
        "isamap/stream/execute:Execution",
        "isamap/stream/order:LastCommands",
        "isamap/stream/queues:QueueRun",
        "isamap/stream/residency:_Value",
        "isamap/stream/residency:_Trace",
        "isamap/stream/residency:_Allocation",
        "isamap/stream/timing:_Known",
        "isamap/stream/timing:Clock",
        "isamap/transform/block_check:_Trace",
    ),
    "has no field that changes: a plain class for its operators or its plug-in interface": (
        "isamap/bench/charts:_Scale",
        "isamap/graph/sizes:Size",
        "isamap/simulate/events:Simulated",
        "isamap/tune/searchers/annealing:Annealing",
        "isamap/tune/searchers/genetic:Genetic",
        "isamap/tune/searchers/policy:Policy",
        "scheduler/search/annealing:Annealing",
        "scheduler/search/greedy:Greedy",
    ),
}
"""Classes that change, by the reason why they do."""

FIELDS: dict[str, tuple[str, ...]] = {
    "a cache: the other fields determine it, and equality ignores it or the record lives in one function": (
        "isamap/adjoint/partials:_Taking.found",
        "isamap/driver/formulation:Questions.formulated",
        "isamap/driver/formulation:Questions.known",
        "isamap/ir/argument_samples:_Work.found",
        "isamap/ir/elements:_Reader.found",
        "isamap/ir/magnitude:_Work.known",
        "isamap/match/mappings/enumerate:ConditionResults.known",
        "isamap/match/mappings/enumerate:ConditionResults.met",
        "isamap/match/moves/epilogue_moves:_MemoryChoice.known",
        "isamap/match/moves/scratch_buffers:_Composition.known",
        "isamap/match/refusals/remedies:_Counted.known",
        "isamap/match/tiles/walks:Loops.joined",
        "isamap/plan/cost/arrays:_Batch.parts",
        "isamap/plan/cost/arrays:_Batch.takers",
        "isamap/plan/cost/intervals:_Spans.known",
        "isamap/plan/cost/intervals:_Spans.masks",
        "isamap/tune/tournament:Tournament.played",
        "scheduler/deciding/space:Space.kept",
        "scheduler/deciding/space:Space.sizes",
        "scheduler/deciding/tiling:Tiling.kept",
    ),
    "the values or names met so far in one walk, whose other fields are constant": (
        "isamap/emit/c_expr:CScope.used",
        "isamap/ir/argument_samples:_Work.values",
        "isamap/ir/interpret:State.magnitudes",
        "isamap/ir/interpret:State.reduced",
        "isamap/ir/interpret:State.sums",
        "isamap/ir/interpret:State.values",
        "isamap/ir/interpret:State.written",
        "isamap/lower/staging:_TileLoops.inner",
        "isamap/lower/touched:_Points.env",
        "isamap/lower/touched:_Walk.found",
        "isamap/match/tiles/walks:Loops.steps",
    ),
    "buffers that come into being while a kernel is lowered: later moves are found as if they were its arrays": (
        "isamap/match/operand_loads/load_request:MoveSearch.homes",
        "isamap/match/operand_loads/load_request:MoveSearch.steps",
        "isamap/match/operand_loads/load_request:MoveSearch.strides",
    ),
    "only read, by operators and functions that take no Mapping: `|`, reversed, equality with a set": (
        "isamap/ir/prove:Facts.extents",
        "isamap/ir/prove:Facts.lows",
        "isamap/libraries/recognise:_Renaming.sizes",
        "isamap/libraries/recognise:_Renaming.tensors",
        "isamap/libraries/recognise:_Renaming.values",
        "isamap/run/arguments:CallArguments.fields",
        "isamap/run/child:_Ended.answer",
        "isamap/transform/blocks:Members.rows",
        "isamap/transform/blocks:Members.shrunk",
        "isamap/transform/blocks:Rows.held",
        "isamap/transform/blocks:Rows.of",
    ),
}
"""Fields of immutable records that can change or could, by the reason."""

_CHANGING = re.compile(r"(?<!\w)(dict|list|set|bytearray|deque|Counter|defaultdict)\[")
_OWN_BASES = {"BodyWriter", "Function", "Issuer", "ModelWriter"}
_OTHER_BASES = {"LanguageServer", "LanguageServerProtocol", "cp_model.CpSolverSolutionCallback"}


def test_every_class_that_changes_is_listed_with_its_reason() -> None:
    assert {name for name in changing() if "." not in name} == {
        n for names in MUTABLE.values() for n in names
    }


def test_every_field_that_changes_of_an_immutable_record_is_listed_with_its_reason() -> None:
    assert {name for name in changing() if "." in name} == {n for names in FIELDS.values() for n in names}


def test_nothing_is_listed_twice() -> None:
    names = [name for group in (*MUTABLE.values(), *FIELDS.values()) for name in group]
    assert len(names) == len(set(names))


def classes() -> Iterator[tuple[str, ast.ClassDef, bool, bool]]:
    """Yield each class of the product: its name, itself, whether it is a dataclass, and whether that is frozen."""
    for folder in ("isamap", "scheduler"):
        for path in sorted((ROOT / folder).rglob("*.py")):  # rglob does not follow the links
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "class " in text else ():
                if isinstance(node, ast.ClassDef):
                    made = [ast.unparse(d) for d in node.decorator_list if "dataclass" in ast.unparse(d)]
                    name = f"{path.relative_to(ROOT).with_suffix('')}:{node.name}"
                    yield name, node, bool(made), any("frozen=True" in d for d in made)


@cache
def changing() -> frozenset[str]:
    """Return the classes that are neither frozen records nor protocols, words, exceptions and structures of C.

    Of frozen records, return the fields that can change, as `class.field`. Both tests share one reading.
    """
    found: set[str] = set()
    for name, node, is_record, is_frozen in classes():
        bases = {ast.unparse(base) for base in node.bases}
        if not is_frozen and (is_record or not bases or bases & (_OWN_BASES | _OTHER_BASES)):
            found.add(name)
        for item in node.body:
            if is_frozen and isinstance(item, ast.AnnAssign):
                # What a function in a field takes and returns is not the record's.
                own = ast.unparse(item.annotation).partition("Callable")[0]
                if _CHANGING.search(own):
                    found.add(f"{name}.{ast.unparse(item.target)}")
    return frozenset(found)
