"""3x3 convolutions by Winograd's algorithm.

An image is computed in tiles; a tile of m x m results takes (m+2)^2 products instead of 9 m^2: the tile's
data and the kernel are transformed, multiplied element by element, and transformed back. Lavin and Gray,
"Fast Algorithms for Convolutional Neural Networks", https://arxiv.org/abs/1509.09308, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from pinnace.compiler.plan import PLANNED
from pinnace.engines.onnxruntime.rules.match import Rewriter, floats, is_float, made_by, pads_of, private
from pinnace.engines.speed.gains import WORTH
from pinnace.ops.builder import Builder
from pinnace.ops.values import Unsupported

if TYPE_CHECKING:
    import numpy.typing as npt

_Floats = np.ndarray[tuple[Any, ...], np.dtype[np.floating]]


@dataclass(frozen=True)
class _Transform:
    """The matrices B^T, G and A^T, for the data, the kernel and the results of a tile."""

    data: _Floats
    kernel: _Floats
    result: _Floats

    @classmethod
    @cache
    def of(cls, side: int) -> _Transform:
        """Return the transform for tiles of `side` x `side` results.

        It evaluates polynomials at points and at infinity (Toom and Cook). The matrices for data and results
        are exact in float32 if the points and their powers are.
        """
        points = _POINTS[side]
        others = [[q for q in points if q != p] for p in points]
        data = [[*np.poly(rest)[::-1], 0] for rest in others] + [np.poly(points)[::-1]]
        kernel = [
            [p**j / np.prod(np.subtract(p, rest)) for j in range(3)]
            for p, rest in zip(points, others, strict=True)
        ]
        size = len(points) - 1
        result = [[*(p**j for p in points), j == size - 1] for j in range(size)]
        return cls(np.array(data, np.float32), np.array([*kernel, [0, 0, 1]]), np.array(result, np.float32))


_POINTS = {4: (0, 5 / 8, -5 / 8, 3 / 2, -3 / 2), 2: (0, 1, -1)}
"""Points by m. With the usual points 0, 1, -1, 2, -2 errors are twice as large."""


@dataclass(frozen=True)
class _Tiles:
    """The division of a batch of images into tiles of `side` x `side` results."""

    batch: int
    height: int
    width: int
    pads: tuple[int, ...]
    side: int

    @property
    def results(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        top, left, bottom, right = self.pads
        return self.height + top + bottom - 2, self.width + left + right - 2

    @property
    def grid(self) -> tuple[int, int]:
        """Numbers of tiles per column and per row."""
        rows, columns = self.results
        return -(-rows // self.side), -(-columns // self.side)

    @property
    def number(self) -> int:
        """Number of tiles of the batch."""
        return self.batch * self.grid[0] * self.grid[1]

    def sources(self) -> npt.NDArray[np.int64]:
        """Return the pixel of each element of the tiles, (side+2, side+2, tiles); one more is a zero."""
        down, beside = self.grid
        a, b, image, i, j = np.ogrid[: self.side + 2, : self.side + 2, : self.batch, :down, :beside]
        row, column = i * self.side + a - self.pads[0], j * self.side + b - self.pads[1]
        inside = (row >= 0) & (row < self.height) & (column >= 0) & (column < self.width)
        pixel = (image * self.height + row) * self.width + column
        return np.where(inside, pixel, self.batch * self.height * self.width).reshape(-1)

    def origins(self) -> npt.NDArray[np.int64]:
        """Return the index of each result, (batch, rows, columns), in (side, side, tiles)."""
        (rows, columns), (down, beside) = self.results, self.grid
        image, row, column = np.ogrid[: self.batch, :rows, :columns]
        tile = (image * down + row // self.side) * beside + column // self.side
        place = row % self.side * self.side + column % self.side
        found: npt.NDArray[np.int64] = place * self.number + tile
        return found.reshape(-1)


@dataclass(frozen=True)
class _Convolution:
    """A Conv with its fused successors. If the batch size is `free`, the tiles are those of one image."""

    x: ir.Value
    weight: _Floats
    bias: _Floats
    tiles: _Tiles
    relu: bool
    free: bool


def winograd(b: Rewriter, node: ir.Node) -> ir.Value | None:
    """Conv of 3x3 windows with stride 1 -> Winograd's algorithm.

    A BatchNormalization and a Relu after the Conv are included. Height and width must be fixed. With few
    channels the transforms cost more than the products save, with few tiles reading the transformed kernel,
    of 4 or 1.8 times the bytes, does. Rounding errors are up to three times those of sums of float32
    products; an infinity becomes NaN in its whole tile.
    """
    found = _convolution(b, node)
    if found is None:
        return None
    tiles, transform = found.tiles, _Transform.of(found.tiles.side)
    side, place = tiles.side, tiles.side + 2
    outputs, inputs = found.weight.shape[:2]
    kernel = np.einsum("ia,kcab,jb->ijck", transform.kernel, found.weight, transform.kernel, optimize=True)
    data, result = b.constant(transform.data), b.constant(transform.result)

    y = b.op("Gather", _pixels(b, found), b.constant(tiles.sources()), axis=0)
    y = b.op("MatMul", data, b.reshape(y, [place, -1]))
    y = b.op("MatMul", data, b.reshape(y, [place, place, -1]))
    weight = b.weight(ir.tensor(kernel.astype(np.float32).reshape(-1, inputs, outputs)))
    y = b.op("MatMul", b.reshape(y, [place * place, -1, inputs]), weight)
    y = b.op("MatMul", result, b.reshape(y, [place, place, -1]))
    y, bias = b.reshape(y, [place, -1]), found.bias.astype(np.float32)
    if found.free:
        y = b.op("Add", b.reshape(b.op("MatMul", result, y), [-1, outputs]), b.constant(bias))
    else:
        y = b.op("Gemm", result, y, b.constant(np.tile(bias, side * tiles.number)))
    if found.relu:
        y = b.op("Relu", y)  # onnxruntime fuses it with the Gemm
    return _images(b, y, found)


def _pixels(b: Builder, found: _Convolution) -> ir.Value:
    """Write the pixels in order and a zero; with a free batch, a pixel has the channels of all images."""
    tiles = found.tiles
    order = (2, 3, 0, 1) if found.free else (0, 2, 3, 1)
    rows = b.reshape(b.transpose(found.x, order), [tiles.batch * tiles.height * tiles.width, -1])
    if found.free:
        return b.op("Pad", rows, [0, 0, 1, 0])
    return b.op("Concat", rows, b.constant(np.zeros((1, found.weight.shape[1]), np.float32)), axis=0)


def _images(b: Builder, y: ir.Value, found: _Convolution) -> ir.Value:
    """Write the results of the tiles as images."""
    tiles, outputs = found.tiles, found.weight.shape[0]
    rows = b.reshape(y, [tiles.side**2 * tiles.number, -1])
    y = b.op("Gather", rows, b.constant(tiles.origins()), axis=0)
    if found.free:
        return b.transpose(b.reshape(y, [*tiles.results, -1, outputs]), (2, 3, 0, 1))
    return b.transpose(b.reshape(y, [tiles.batch, *tiles.results, outputs]), (0, 3, 1, 2))


def _convolution(b: Rewriter, node: ir.Node) -> _Convolution | None:
    """Return the convolution whose last part is `node` if the algorithm applies to it; else None."""
    parts = _parts(node)
    if parts is None or any(PLANNED in part.meta or len(part.outputs) > 1 for part in parts.values()):
        return None
    conv, norm = parts["Conv"], parts.get("BatchNormalization")
    x, kernel, given = (*conv.inputs, None)[:3]
    if x is None or kernel is None or not _plain(b, conv) or not is_float(b, x):
        return None
    tiles, free = _tiles(b, conv, x, min(b.static_shape(kernel)[:2])), b.shape(x)[0] is None
    if tiles is None or (free and b.opset < _PADS_BY_INPUT):
        return None
    weight = floats(kernel)
    if weight is None:
        return None
    bias = _ZERO if given is None else _vector(given, len(weight))
    factor, summand = (_ONE, _ZERO) if norm is None else _normalised(norm, len(weight))
    whole = np.broadcast_to(bias * factor + summand, weight.shape[:1])
    scaled = weight * factor[:, None, None, None]
    return _Convolution(x, scaled, whole, tiles, "Relu" in parts, free)


_PADS_BY_INPUT = 11
"""The ONNX operator set since which Pad has its pads as an input."""

_BEFORE = {"Relu": ("BatchNormalization", "Conv"), "BatchNormalization": ("Conv",), "Conv": ()}
_AFTER = {"Relu": (), "BatchNormalization": ("Relu",), "Conv": ("Relu", "BatchNormalization")}
_ZERO, _ONE = np.zeros(1), np.ones(1)


def _parts(node: ir.Node) -> dict[str, ir.Node] | None:
    """Return the chain of Conv, BatchNormalization and Relu that ends with `node`, by operator; else None."""
    output = node.outputs[0]
    if private(output) and next(iter(output.uses())).node.op_type in _AFTER[node.op_type]:
        return None  # a longer chain ends there
    parts = {node.op_type: node}
    last: ir.Node | None = node
    while last is not None and last.op_type != "Conv":
        source = last.inputs[0]
        last = made_by(source, *_BEFORE[last.op_type]) if private(source) else None
        if last is not None:
            parts[last.op_type] = last
    return None if last is None else parts


def _plain(b: Builder, conv: ir.Node) -> bool:
    """Return True for a convolution of images by 3 x 3 windows with stride 1, without groups or dilations."""
    x, kernel = conv.inputs[:2]
    if x is None or kernel is None:
        return False
    given = conv.attributes
    steps = [given[name].as_ints() for name in ("strides", "dilations") if name in given]
    declared = tuple(given["kernel_shape"].as_ints()) if "kernel_shape" in given else (3, 3)
    if declared != (3, 3) or any(set(s) != {1} for s in steps) or given.get_int("group", 1) != 1:
        return False
    # Shapes come last, since they may have to be inferred node by node.
    return b.shape(kernel)[2:] == (3, 3) and b.shape(x)[1:2] == b.shape(kernel)[1:2]


def _tiles(b: Rewriter, conv: ir.Node, x: ir.Value, channels: int) -> _Tiles | None:
    """Return the tiles with which the algorithm is the fastest; None if no tiles pay.

    Gains are by the channels, in or out, that are fewer, and by the number of tiles.
    """
    batch, _, height, width = b.shape(x)
    if height is None or width is None:
        return None
    pads = tuple(pads_of(conv, (height, width), (3, 3), (1, 1)))
    best, least = None, WORTH
    for side in _POINTS:
        tiles = _Tiles(1 if batch is None else batch, height, width, pads, side)
        if min(tiles.results) > 0 and tiles.number:
            ratio = b.gains.ratio(f"winograd:{side}", (channels, tiles.number))
            best, least = (tiles, ratio) if ratio < least else (best, least)
    return best


def _vector(value: ir.Value | None, channels: int) -> _Floats:
    """Return a constant vector of one number per channel; else raise Unsupported."""
    known = floats(value)
    if known is None or known.shape != (channels,):
        raise Unsupported("no constant for each channel")
    return known.astype(np.float64)


def _normalised(norm: ir.Node, channels: int) -> tuple[_Floats, _Floats]:
    """Return factor and summand of a BatchNormalization for each channel."""
    if norm.attributes.get_int("training_mode", 0):
        raise Unsupported("normalises by the statistics of its input")
    scale, shift, mean, variance = (_vector(i, channels) for i in norm.inputs[1:5])
    epsilon = norm.attributes["epsilon"].as_float() if "epsilon" in norm.attributes else 1e-5
    factor = scale / np.sqrt(variance + epsilon)
    return factor, shift - mean * factor
