"""Classifiers of images (1, 3, 224, 224), BatchNorms folded."""

from __future__ import annotations

from pathlib import Path

from benchmarks.models.writer import Writer


def resnet50(path: Path) -> Path:
    """ResNet-50, 25 million parameters."""
    w = Writer()
    x = w.node("Relu", w.conv(w.input("image", [1, 3, 224, 224]), "stem", 3, 64, 7, 2))
    x = w.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    given = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            name, stride = f"{stage}.{block}", 2 if stage and not block else 1
            straight = x if block else w.conv(x, f"{name}.straight", given, 4 * width, 1, stride, gain=1)
            y = w.node("Relu", w.conv(x, f"{name}.a", given, width))
            y = w.node("Relu", w.conv(y, f"{name}.b", width, width, 3, stride))
            x = w.node("Relu", w.node("Add", w.conv(y, f"{name}.c", width, 4 * width, gain=0.2), straight))
            given = 4 * width
    w.output("scores", w.classes(x, given), [1, 1000])
    return w.save(path)


def mobilenet_v2(path: Path) -> Path:
    """MobileNetV2 1.0, 3.5 million parameters."""
    stages = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3)]
    return _inverted(path, [*stages, (6, 160, 3, 2, 3), (6, 320, 1, 1, 3)])


def efficientnet_lite0(path: Path) -> Path:
    """EfficientNet-Lite0, 4.7 million parameters."""
    stages = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5)]
    return _inverted(path, [*stages, (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)])


def _inverted(path: Path, stages: list[tuple[int, int, int, int, int]]) -> Path:
    """Stages of inverted residual blocks: (expansion, channels, blocks, stride, kernel)."""
    w = Writer()
    x = w.relu6(w.conv(w.input("image", [1, 3, 224, 224]), "stem", 3, 32, 3, 2))
    given = 32
    for stage, (expansion, made, blocks, stride, kernel) in enumerate(stages):
        for block in range(blocks):
            name, wide = f"{stage}.{block}", expansion * given
            y = w.relu6(w.conv(x, f"{name}.expand", given, wide)) if expansion > 1 else x
            y = w.relu6(w.conv(y, f"{name}.depth", wide, wide, kernel, 1 if block else stride, group=wide))
            y = w.conv(y, f"{name}.project", wide, made)
            x = w.node("Add", x, y) if block else y
            given = made
    x = w.relu6(w.conv(x, "last", given, 1280))
    w.output("scores", w.classes(x, 1280), [1, 1000])
    return w.save(path)
