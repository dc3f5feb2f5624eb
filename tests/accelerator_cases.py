"""A small accelerator in parts: statements that networks have, and the instruction that each of them needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HEAD = """isamap: 1
name: part-npu
summary: an accelerator in parts
sources: {invented: "invented for tests"}
target: {toolchains: [gcc], flags: [-O2], headers: [stdint.h, math.h], run: model}
clock_ghz: 1.0
language: |
  memory dram: addressable();
  memory spad: scratchpad(bytes = 65536);
  memory acc: scratchpad(bytes = 65536);
memories: {dram: {source: invented}, spad: {source: invented}, acc: {source: invented}}
links:
  - {from: dram, to: spad, bandwidth_bytes_per_ns: 16, source: invented}
  - {from: dram, to: acc, bandwidth_bytes_per_ns: 16, source: invented}
units: {dma: {count: 1, queued: 16, source: invented}, vector: {count: 1, queued: 16, source: invented}}
instructions:
"""


def instruction(text: str, unit: str = "vector") -> str:
    """Return an instruction of the description by its semantics."""
    lines = "".join(f"      {line}\n" for line in text.strip().splitlines())
    cost = f"{{unit: {unit}, interval_cycles: 32, latency_cycles: 40}}"
    return f"  - semantics: |\n{lines}    emit: semantics\n    cost: {cost}\n    source: invented\n"


def load(dtype: str, memory: str = "spad") -> str:
    return instruction(
        f"""instruction load_{dtype}(scalar R: 0..32, scalar C: 0..32) {{
  in x: {dtype}[R, C] @ dram strides(any, 1);
  out z: {dtype}[R, C] @ {memory} strides(32, 1);
  for r in R, c in C {{ z[r, c] = x[r, c]; }}
}}""",
        "dma",
    )


def store(dtype: str, memory: str = "spad") -> str:
    return instruction(
        f"""instruction store_{dtype}(scalar R: 0..32, scalar C: 0..32) {{
  in x: {dtype}[R, C] @ {memory} strides(32, 1);
  out y: {dtype}[R, C] @ dram strides(any, 1);
  for r in R, c in C {{ y[r, c] = x[r, c]; }}
}}""",
        "dma",
    )


def fill(dtype: str, memory: str = "spad") -> str:
    return instruction(
        f"""instruction fill_{dtype}(scalar L: 0..1024, scalar v: {dtype}) {{
  out z: {dtype}[L] @ {memory};
  for i in L {{ z[i] = v; }}
}}""",
        "dma",
    )


def vector(name: str, value: str, dtype: str = "f32", memory: str = "spad", inputs: str = "x") -> str:
    """Return an instruction that computes a tile of 32 columns."""
    read = "\n".join(f"  in {one}: {dtype}[R, 32] @ {memory};" for one in inputs)
    return instruction(
        f"""instruction {name}(scalar R: 0..32) {{
{read}
  out z: {dtype}[R, 32] @ {memory};
  for r in R, n in 32 {{ z[r, n] = {value}; }}
}}"""
    )


def reduction(name: str, result: str, op: str, dtype: str = "f32") -> str:
    """Return an instruction that reduces a tile into a column or another tile."""
    shape = "R" if result == "z[r]" else "R, 32"
    return instruction(
        f"""instruction {name}(choose R: 1..32) {{
  in x: {dtype}[R, 32] @ spad;
  inout z: {dtype}[{shape}] @ spad;
  for r in R, n in 32 {{ {result} {op} x[r, n]; }}
}}"""
    )


def kernel(operands: str, body: str) -> str:
    return f"kernel k() {{\n  {operands}\n  {body}\n}}"


@dataclass(frozen=True, slots=True)
class Case:
    """A statement, the instructions that the machine has for it, and the one that it lacks; "" if none would do."""

    what: str
    kernel: str
    has: str
    lacks: str


FLOATS = load("f32") + store("f32") + fill("f32")
BYTES = load("i8") + store("i8") + fill("i8")
SUMS = load("i32", "acc") + store("i32", "acc")
TWO = "in a: i32[64, 64]; in b: i32[64, 64]; out y: i32[64, 64];"
ONE = "in x: {0}[64, 64]; out y: {0}[64, 64];"
ALL = "for i in 64, j in 64 {{ y[i, j] = {0}; }}"
ROWS = kernel(
    "in x: f32[64, 64]; out y: f32[64];",
    "for i in 64 { y[i] = 0; }\n  for i in 64, j in 64 { y[i] += x[i, j]; }",
)
COLUMNS = kernel(
    "in x: f32[64, 64]; out y: f32[64];",
    "for j in 64 { y[j] = 0; }\n  for i in 64, j in 64 { y[j] += x[i, j]; }",
)
WINDOW = kernel(
    "in x: i8[66, 64]; out y: i8[64, 64];",
    "for i in 64, c in 64 { y[i, c] = -128; }\n  for i in 64, c in 64, r in 3 { y[i, c] max= x[i + r, c]; }",
)
BY_INDEX = "in x: i32[64] values 0..255; in t: f32[256{0}]; out y: f32[64{0}];"
SUM_ROWS, SUM_TILES = reduction("sum_rows", "z[r]", "+="), reduction("sum_tiles", "z[r, n]", "+=")
ADD_FLOATS = vector("add_floats", "x[r, n] + y[r, n]", inputs="xy")
TRANSPOSED = instruction(
    """instruction load_transposed(scalar R: 0..32, scalar C: 0..32) {
  in x: i8[R, C] @ dram strides(any, 1);
  out z: i8[C, R] @ spad strides(32, 1);
  for r in R, c in C { z[c, r] = x[r, c]; }
}""",
    "dma",
)
CONVERTED = instruction(
    """instruction floats(scalar R: 0..32) {
  in x: i8[R, 32] @ spad;
  out z: f32[R, 32] @ spad;
  for r in R, n in 32 { z[r, n] = f32(x[r, n]); }
}"""
)
CASES = (
    Case("residual addition of sums", kernel(TWO, ALL.format("a[i, j] + b[i, j]")), SUMS,
         vector("add_sums", "x[r, n] + y[r, n]", "i32", "acc", "xy")),
    Case("sum along rows", ROWS, FLOATS, SUM_ROWS),
    Case("sum along rows by an addition", ROWS, FLOATS + ADD_FLOATS, SUM_ROWS),
    Case("sum along columns", COLUMNS, FLOATS, SUM_TILES),
    Case("largest of a window", WINDOW, BYTES, reduction("max_tiles", "z[r, n]", "max=", "i8")),
    Case("exponential, as of softmax", kernel(ONE.format("f32"), ALL.format("exp(x[i, j])")), FLOATS,
         vector("exp_tile", "exp(x[r, n])")),
    Case("root, as of norms", kernel(ONE.format("f32"), ALL.format("sqrt(x[i, j])")), FLOATS,
         vector("root_tile", "sqrt(x[r, n])")),
    Case("limit of floats", kernel(ONE.format("f32"), ALL.format("max(x[i, j], 0)")), FLOATS,
         vector("relu_tile", "max(x[r, n], 0.0)")),
    Case("transpose", kernel(ONE.format("i8"), ALL.format("x[j, i]")), store("i8"), TRANSPOSED),
    Case("copy", kernel(ONE.format("i8"), ALL.format("x[i, j]")), load("i8"), store("i8")),
    Case("conversion of bytes", kernel("in x: i8[64, 64]; out y: f32[64, 64];", ALL.format("f32(x[i, j])")),
         load("i8") + store("f32"), CONVERTED),
    Case("look-up in a table", kernel(BY_INDEX.format(""), "for i in 64 { y[i] = t[x[i]]; }"), FLOATS + SUMS, ""),
    Case("rows that an index names",
         kernel(BY_INDEX.format(", 64"), "for i in 64, j in 64 { y[i, j] = t[x[i], j]; }"), FLOATS + SUMS, ""),
)  # fmt: skip


def write_machine(folder: Path, instructions: str) -> str:
    """Write the machine with these instructions, and return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / "part-npu.yaml"
    path.write_text(HEAD + instructions, encoding="utf-8")
    return str(path)
