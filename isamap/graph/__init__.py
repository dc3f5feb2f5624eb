"""The operator graph: networks from ONNX or torch, lowered to kernels, compiled to one library."""
