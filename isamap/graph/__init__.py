"""One operator graph: networks read from ONNX or torch, lowered to kernels, compiled to one library."""
