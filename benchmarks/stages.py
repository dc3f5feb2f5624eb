"""Stages of networks as their papers list them, for models of ONNX and of torch alike."""

from __future__ import annotations

MOBILENETV2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, and the first one's stride (Sandler et al. 2018, table 2)."""
