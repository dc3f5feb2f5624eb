"""Convolution networks as files of ONNX, with random weights: what benchmarks need where no file is at hand.

    python benchmarks/convnets.py mobilenetv2 resnet50 --folder /tmp

Norms are folded into the convolutions before them, as exporters do for inference.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from stages import MOBILENETV2


class Network:
    """A model of ONNX in the making: layers are added one behind the other."""

    def __init__(self, name: str, size: int = 224, channels: int = 3) -> None:
        self.name = name
        self.random = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.input = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, channels, size, size])

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Return a node; the name of its result."""
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [result], name=f"{op}_{result}", **attributes))
        return result

    def constant(self, array: Any) -> str:
        """Return a constant by its name."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def conv(self, x: str, channels: tuple[int, int], window: int, stride: int = 1, groups: int = 1) -> str:
        """Return a convolution with a bias, whose results are about as large as its inputs."""
        inputs, outputs = channels[0] // groups, channels[1]
        spread = (2 / (inputs * window * window)) ** 0.5
        filters = self.random.normal(0, spread, (outputs, inputs, window, window))
        bias = self.random.normal(0, 0.1, outputs)
        pads, sizes = [window // 2] * 4, [window] * 2
        return self.add(
            "Conv", x, self.constant(filters), self.constant(bias),
            kernel_shape=sizes, strides=[stride] * 2, pads=pads, group=groups,
        )  # fmt: skip

    def clipped(self, x: str) -> str:
        """relu6."""
        return self.add("Clip", x, self.constant(0.0), self.constant(6.0))

    def classified(self, x: str, channels: int) -> onnx.ModelProto:
        """Return the model, with the mean of each channel and 1000 classes behind it."""
        flat = self.add("Flatten", self.add("GlobalAveragePool", x), axis=1)
        weights = self.random.normal(0, channels**-0.5, (1000, channels))
        classes = self.constant(weights), self.constant(np.zeros(1000))
        return self.model(self.add("Gemm", flat, *classes, transB=1), [1, 1000])

    def model(self, result: str, sizes: Sequence[int]) -> onnx.ModelProto:
        """Return the model with this result."""
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, sizes)
        graph = helper.make_graph(self.nodes, self.name, [self.input], [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def mobilenetv2() -> onnx.ModelProto:
    """MobileNetV2, width 1.0 (Sandler et al. 2018, table 2)."""
    net = Network("mobilenetv2")
    x, channels = net.clipped(net.conv("image", (3, 32), 3, 2)), 32
    for factor, outputs, count, first in MOBILENETV2:
        for number in range(count):
            stride, wide = first if number == 0 else 1, channels * factor
            y = net.clipped(net.conv(x, (channels, wide), 1)) if factor != 1 else x
            y = net.clipped(net.conv(y, (wide, wide), 3, stride, groups=wide))
            y = net.conv(y, (wide, outputs), 1)
            x = net.add("Add", x, y) if stride == 1 and channels == outputs else y
            channels = outputs
    return net.classified(net.clipped(net.conv(x, (channels, 1280), 1)), 1280)


def resnet50() -> onnx.ModelProto:
    """ResNet-50, strides in the 3x3 convolutions (He et al. 2016, table 1)."""
    net = Network("resnet50")
    x = net.add("Relu", net.conv("image", (3, 64), 7, 2))
    x, channels = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for width, count in (64, 3), (128, 4), (256, 6), (512, 3):
        for number in range(count):
            stride = 2 if number == 0 and width != 64 else 1
            y = net.add("Relu", net.conv(x, (channels, width), 1))
            y = net.add("Relu", net.conv(y, (width, width), 3, stride))
            y = net.conv(y, (width, 4 * width), 1)
            x = net.conv(x, (channels, 4 * width), 1, stride) if number == 0 else x
            x, channels = net.add("Relu", net.add("Add", y, x)), 4 * width
    return net.classified(x, channels)


def of_size(size: int, channels: int) -> onnx.ModelProto:
    """Return four convolutions of 3 by 3 with ReLU, of one size of ResNet-50."""
    net = Network(f"convolutions{size}", size, channels)
    x = "image"
    for _ in range(4):
        x = net.add("Relu", net.conv(x, (channels, channels), 3))
    return net.model(x, [1, channels, size, size])


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mobilenetv2": mobilenetv2,
    "resnet50": resnet50,
    **{f"convolutions{n}": partial(of_size, n, c) for n, c in ((56, 64), (28, 128), (14, 256), (7, 512))},
}


def saved(names: Sequence[str], folder: Path) -> list[Path]:
    """Return the files of networks; those that are there already are left."""
    found = [folder / f"{name}.onnx" for name in names]
    for name, path in zip(names, found, strict=True):
        if not path.exists():
            path.write_bytes(NETWORKS[name]().SerializeToString())
    return found


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description="Convolution networks with random weights as files of ONNX.")
    parser.add_argument("networks", nargs="*", default=["mobilenetv2", "resnet50"])
    parser.add_argument("--folder", type=Path, default=Path())
    given = parser.parse_args()
    for path in saved(given.networks, given.folder):
        print(path)


if __name__ == "__main__":
    main()
