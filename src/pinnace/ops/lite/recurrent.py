"""MindSpore Lite: recurrent layers, with weights as ONNX has them; lists of tensors; signals and spectra."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room, span
from pinnace.ops import binding
from pinnace.ops.lite.math import activated, lite, lite_formulas, lites
from pinnace.ops.mindspore import recurrent
from pinnace.ops.table import Dims, Dtype, Ints, Tensor
from pinnace.ops.values import INT32, INT64, Value


@lite("LSTM", unused="num_directions dropout")
def lstm(
    op: Builder,
    x: Tensor,
    *rest: Tensor,
    hidden_size: int = 0,
    input_size: int = 0,
    num_layers: int = 1,
    has_bias: bool = True,
    bidirectional: bool = False,
) -> Value:
    """LSTM; of a model that came from MindSpore as there."""
    if len(rest) == 3 and op.rank(rest[2]) == 3:
        h, c, w = rest
        layers = (input_size, hidden_size, num_layers, has_bias, bidirectional)
        return recurrent.lstm(op, x, h, c, w, *layers)[:3]
    weights, recurrence, bias, *states = rest
    return _layer(op, "LSTM", 3, x, weights, recurrence, bias, None, *states)


@lite("GRU", unused="bidirectional")
def _gru(
    op: Builder,
    x: Tensor,
    weights: Tensor,
    recurrence: Tensor,
    bias: Tensor,
    start: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Value:
    """GRU, which resets before the product."""
    lengths = None if lengths is None else op.cast(lengths, INT32)
    return _layer(op, "GRU", 2, x, weights, recurrence, bias, lengths, start)


def _layer(
    op: Builder, op_type: str, outputs: int, x: Tensor, weights: Tensor, recurrence: Tensor, *rest: Value
) -> Value:
    direction = "bidirectional" if op.static_shape(weights)[0] == 2 else "forward"
    hidden = op.static_shape(recurrence)[2]
    return op.ops(op_type, outputs, x, weights, recurrence, *rest, hidden_size=hidden, direction=direction)


@lite("TensorListReserve", unused="shape_type")
def _tensor_list_reserve(op: Builder, element_shape: Dims, count: Dims, element_dtype: Dtype) -> Value:
    return _zeros(op, (*count, *element_shape), element_dtype)


@lite("TensorListSetItem", unused="element_dtype")
def list_set_item(op: Builder, items: Tensor, index: Tensor, item: Tensor) -> Value:
    place = op.reshape(op.cast(index, INT64), [1, 1])
    return op.ScatterND(items, place, op.Unsqueeze(item, [0]))


@lite("TensorArray", unused="dynamic_size identical_element_shapes")
def tensor_array(op: Builder, size: Dims, element_shape: Ints = (), data_type: int = 43) -> Value:
    """Expand of zero; the second result, the flow, is what the array holds."""
    empty = _zeros(op, (*size, *element_shape), binding.dtype_(op, data_type))
    return empty, empty


def _zeros(op: Builder, dims: Dims, dtype: ir.DataType) -> Tensor:
    if any(isinstance(d, int) and d < 0 for d in dims):
        raise Unsupported(f"makes a list of tensors of shape {list(dims)[1:]}, which must be fixed")
    return op.Expand(op.constant(0, dtype.numpy()), op.vector(dims))


lite_formulas(
    {
        "TensorArrayRead": lambda op, handle, index, flow: op.Gather(flow, op.scalar(index), axis=0),
        "TensorArrayWrite": lambda op, handle, index, item, flow: list_set_item(op, flow, index, item),
        "TensorListFromTensor": lambda op, x, element_shape=None: x,
        "TensorListGetItem": lambda op, x, index, element_shape=None: op.Gather(x, op.scalar(index), axis=0),
        "TensorListStack": lambda op, x, element_shape=None: op.Identity(x),
    },
    unused="handle element_shape element_dtype num_elements shape_type",
)


@lite("Splice", unused="output_dim")
def splice(op: Builder, x: Tensor, context: Ints, forward_indexes: Ints = ()) -> Value:
    """Gather of the frames that forward_indexes names, or of every one with its context, and Reshape."""
    frames, width = op.static_shape(x)[1:3]
    room(frames, len(context))
    whole = range(max(0, -min(context)), frames - max(0, *context))  # frames that have all of their context
    named = forward_indexes or [t + c for t in whole for c in context]
    places = np.array(named, np.int64).reshape(-1, len(context))
    spliced = op.Gather(x, places, axis=1)
    return op.reshape(spliced, [op.dim(x, 0), len(places), len(context) * width])


@lite("Affine", unused="output_dim")
def _affine(
    op: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    context: Ints = (0,),
    activation_type: int = 0,
    transpose_b: bool = True,
) -> Value:
    spliced = op.tensor(splice(op, x, context))
    y = op.MatMul(spliced, op.transpose(weight, (1, 0)) if transpose_b else weight)
    return activated(op, y if bias is None else y + bias, activation_type)


# A complex tensor is one with a last dimension of real and imaginary part.


@lite("Rfft")
def rfft(op: Builder, x: Tensor, fft_length: int = 0) -> Value:
    """DFT, of one side; x is cut, or filled with zeros, to fft_length."""
    length = op.constant(fft_length, np.int64)
    whole = op.Unsqueeze(x, [-1])
    return op.DFT(whole, length, op.constant(op.rank(x) - 1, np.int64), onesided=1)


@lites({"FftReal": 0, "FftImag": 1})
def part(op: Builder, index: int, x: Tensor) -> Value:
    return op.Gather(x, np.asarray(index), axis=-1)


@lite("AudioSpectrogram")
def audio_spectrogram(
    op: Builder, x: Tensor, window_size: int, stride: int, mag_square: bool = False
) -> Value:
    """STFT with a Hann window, and the length or square of its numbers; x is samples by channels."""
    bins = 1 << max(0, math.ceil(math.log2(max(1, window_size))))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(span(window_size)) / window_size)
    samples = op.static_shape(x)[0]
    count = 1 + (samples - window_size) // stride if samples >= window_size else 0
    if not count:
        raise Unsupported(f"has {samples} samples, and a window takes {window_size}")
    room(count, window_size)
    places = (np.arange(count) * stride)[:, None] + np.arange(window_size)
    frames = op.Gather(op.transpose(x, (1, 0)), places.astype(np.int64), axis=1)
    weighted = frames * window.astype(np.float32)
    spectrum = rfft(op, weighted, bins)
    power = op.ReduceSumSquare(spectrum, [3], keepdims=0)
    return power if mag_square else op.Sqrt(power)


@lite("Mfcc")
def mfcc(
    op: Builder,
    spectrogram: Tensor,
    sample_rate: Tensor,
    freq_upper_limit: float,
    freq_lower_limit: float,
    filter_bank_channel_num: int,
    dct_coeff_num: int,
) -> Value:
    """MatMul with the mel filters of the roots, Log, MatMul with a cosine transform."""
    bins = op.static_shape(spectrogram)[2]
    room(filter_bank_channel_num, bins, dct_coeff_num)
    filters = _mel_filters(
        bins, binding.int_(op, sample_rate), freq_lower_limit, freq_upper_limit, filter_bank_channel_num
    )
    energies = op.MatMul(op.Sqrt(spectrogram), filters.astype(np.float32))
    logs = op.Log(op.Max(energies, 1e-12))
    channels = np.arange(filter_bank_channel_num) + 0.5
    angles = np.outer(channels, np.arange(dct_coeff_num)) * np.pi / filter_bank_channel_num
    transform = np.cos(angles) * math.sqrt(2 / filter_bank_channel_num)
    return op.MatMul(logs, transform.astype(np.float32))


def _mel_filters(bins: int, rate: int, low: float, high: float, channels: int) -> np.ndarray:
    """Triangles of equal width on the mel scale, from bins of a spectrum to channels."""

    def mel(hertz: np.ndarray | float) -> np.ndarray:
        return 1127 * np.log1p(np.asarray(hertz, np.float64) / 700)

    step = 0.5 * rate / (bins - 1)
    hertz = np.arange(bins) * step
    inside = (np.arange(bins) >= int(1.5 + low / step)) & (np.arange(bins) <= int(high / step))
    at = (mel(hertz) - mel(low)) / (mel(high) - mel(low)) * (channels + 1)
    triangles = 1 - abs(at[:, None] - (1 + np.arange(channels)))
    return np.where(inside[:, None], triangles.clip(0, None), 0)
