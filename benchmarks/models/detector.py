"""A detector of the shape of YOLOv5n: images (1, 3, 640, 640) to 25200 boxes of 85 numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.models.writer import Writer

_ANCHORS = {
    8: [(10, 13), (16, 30), (33, 23)],
    16: [(30, 61), (62, 45), (59, 119)],
    32: [(116, 90), (156, 198), (373, 326)],
}
"""Sizes of boxes in pixels, by the pixels that a cell has."""


def yolo(path: Path, size: int = 640) -> Path:
    """1.9 million parameters, 80 classes; `size` is a multiple of 32."""
    net = _Net(Writer())
    w = net.w
    x = net.conv(w.input("image", [1, 3, size, size]), 3, 16, 5, 2)
    x = net.cross(net.conv(x, 16, 32, 3, 2), 32, 32, 1)
    fine = net.cross(net.conv(x, 32, 64, 3, 2), 64, 64, 2)
    middle = net.cross(net.conv(fine, 64, 128, 3, 2), 128, 128, 3)
    coarse = net.pyramid(net.cross(net.conv(middle, 128, 256, 3, 2), 256, 256, 1), 256)
    top = net.conv(coarse, 256, 128)
    middle = net.cross(net.join(net.doubled(top), middle), 256, 128, 1, straight=False)
    side = net.conv(middle, 128, 64)
    fine = net.cross(net.join(net.doubled(side), fine), 128, 64, 1, straight=False)
    middle = net.cross(net.join(net.conv(fine, 64, 64, 3, 2), side), 128, 128, 1, straight=False)
    coarse = net.cross(net.join(net.conv(middle, 128, 128, 3, 2), top), 256, 256, 1, straight=False)
    levels = [(fine, 64, 8), (middle, 128, 16), (coarse, 256, 32)]
    boxes = w.node("Concat", *(net.boxes(x, given, size, cell) for x, given, cell in levels), axis=1)
    w.output("boxes", boxes, [1, 3 * sum((size // cell) ** 2 for cell in _ANCHORS), 85])
    return w.save(path)


class _Net:
    """The blocks that the network is made of."""

    def __init__(self, writer: Writer) -> None:
        self.w = writer
        self._made = 0

    def plain(self, x: str, given: int, made: int, kernel: int = 1, stride: int = 1) -> str:
        self._made += 1
        return self.w.conv(x, f"conv{self._made}", given, made, kernel, stride)

    def conv(self, x: str, given: int, made: int, kernel: int = 1, stride: int = 1) -> str:
        return self.w.silu(self.plain(x, given, made, kernel, stride))

    def join(self, *parts: str) -> str:
        return self.w.node("Concat", *parts, axis=1)

    def doubled(self, x: str) -> str:
        scales = self.w.constant("scales", [1, 1, 2, 2])
        return self.w.node(
            "Resize", x, "", scales, mode="nearest",
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        )  # fmt: skip

    def cross(self, x: str, given: int, made: int, depth: int, straight: bool = True) -> str:
        """A cross-stage block ("C3"): half of the channels go through `depth` bottlenecks."""
        half = made // 2
        deep, flat = self.conv(x, given, half), self.conv(x, given, half)
        for _ in range(depth):
            deeper = self.conv(self.conv(deep, half, half), half, half, 3)
            deep = self.w.node("Add", deep, deeper) if straight else deeper
        return self.conv(self.join(deep, flat), made, made)

    def pyramid(self, x: str, width: int) -> str:
        """Maxima over ever larger surroundings ("SPPF")."""
        seen = [self.conv(x, width, width // 2)]
        for _ in range(3):
            seen.append(
                self.w.node("MaxPool", seen[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2])
            )
        return self.conv(self.join(*seen), 2 * width, width)

    def boxes(self, x: str, given: int, size: int, cell: int) -> str:
        """Center, size (pixels), certainty and classes of three boxes in every cell."""
        w, side = self.w, size // cell
        apart = w.constant(f"apart{cell}", [1, 3, 85, side, side], np.int64)
        x = w.node("Reshape", self.plain(x, given, 3 * 85), apart)
        x = w.node("Sigmoid", w.node("Transpose", x, perm=[0, 1, 3, 4, 2]))
        center, extent, rest = w.nodes("Split", 3, x, w.constant("parts", [2, 2, 81], np.int64), axis=4)
        rows, columns = np.mgrid[:side, :side]
        grid = w.constant(f"grid{cell}", np.stack([columns, rows], -1)[None, None] - 0.5)
        center = w.node("Add", w.node("Mul", center, w.constant("two", 2)), grid)
        center = w.node("Mul", center, w.constant(f"cell{cell}", cell))
        extent = w.node("Pow", w.node("Mul", extent, w.constant("two", 2)), w.constant("two", 2))
        anchors = np.reshape(_ANCHORS[cell], (1, 3, 1, 1, 2))
        extent = w.node("Mul", extent, w.constant(f"anchors{cell}", anchors))
        flat = w.constant("flat", [1, -1, 85], np.int64)
        return w.node("Reshape", w.node("Concat", center, extent, rest, axis=4), flat)
