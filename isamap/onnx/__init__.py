"""ONNX models: read, lowered to kernels of the language, and compiled to one library.

import isamap.onnx
model = isamap.onnx.compile_model("model.onnx", "host")
outputs = model({"x": x})
"""

from __future__ import annotations

from isamap.graph.model_library import CompiledModel
from isamap.onnx.onnx_models import compile_model, import_model

__all__ = ["CompiledModel", "compile_model", "import_model"]
