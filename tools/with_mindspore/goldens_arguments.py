"""Make goldens of arguments that are seldom given, and that a lowering could leave out.

    python tools/with_mindspore/goldens_arguments.py FOLDER [PATTERN ...]

Needs MindSpore 2.10.
"""

from __future__ import annotations

import sys
from pathlib import Path

from goldens import case, main

case("arguments_embedding_lookup", "f32[4,3]", "i32[2,6]<8", call="O.EmbeddingLookup()(x0, x1, 1)")
case("arguments_embedding_lookup_rows", "f32[4]", "i64[6]>-2<5", call="O.EmbeddingLookup()(x0, x1, 0)")
case("arguments_embedding_lookup_ints", "i32[4]>-4<5", "i64[6]>-2<5", call="O.EmbeddingLookup()(x0, x1, 0)")
case(
    "arguments_lp_norm_epsilon",
    "f32[3,4]",
    call="ops.LpNorm((1,), 2, False, 2.0)(x0), ops.LpNorm((0, 1), 1, True, 100.0)(x0)",
)
case(
    "arguments_log_softmax_dtype",
    "f32[3,4]",
    call="P.LogSoftmaxExt()(x0, 0, ms.float64), P.LogSoftmaxExt()(x0, 1)",
    reference="ops.log_softmax(x0.astype(ms.float64), 0), ops.log_softmax(x0, 1)",
)
case(
    "arguments_depthwise_pad",
    "f32[1,4,6,7]",
    "f32[1,4,3,3]",
    op="O.DepthwiseConv2dNative(1, (3, 3), pad_mode='pad', pad=1)",
    reference="ops.conv2d(x0, x1.reshape(4, 1, 3, 3), None, 1, 'pad', 1, 1, 4)",
)
case(
    "arguments_max_pool_argmax_type",
    "f32[1,2,4,6]",
    op="O.nn_ops.MaxPoolWithArgmaxV2(2, 2, 0, (1, 1), False, ms.int32)",
)

GROUPS: dict[tuple[str, ...], dict[str, str]] = {
    ("f32[3,4]",): {
        "softplus": "P.SoftplusExt()(x0, 2.0, 1.0)",
        "quantile_keep": "O.Quantile(1, True)(x0, ms.Tensor([0.2, 0.7], ms.float32))",
        "quantile_all": "O.Quantile()(x0, ms.Tensor(0.3, ms.float32))",
        "arg_max_keep": "mint.argmax(x0, 1, True)",
        "arg_min_all": "mint.argmin(x0)",
        "arg_min_rows": "mint.argmin(x0, 0)",
        "arg_max_with_value": "ops.ArgMaxWithValue(0, True)(x0)",
        "arg_min_with_value": "ops.ArgMinWithValue(1, True)(x0)",
        "arg_sort": "mint.argsort(x0, 0, True), ops.argsort(x0, 1, True)",
        "sort": "mint.sort(x0, dim=0, descending=False)",
        "std_keep": "P.Std()(x0, (1,), 0, True), P.Std()(x0, None, 1, False)",
        "std_mean": "P.StdMean()(x0, None, 0, True), P.StdMean()(x0, (0,), 2, False)",
        "var": "P.Var()(x0, None, 2, False)",
        "var_mean": "P.VarMean()(x0, None, 0, True), P.VarMean()(x0, (0,), 2, False)",
        "sum_dtype": "mint.sum(x0, 1, True, dtype=ms.int32)",
        "mean_keep": "mint.mean(x0, 1, True), mint.mean(x0)",
        "prod_dtype": "mint.prod(x0, 1, True, dtype=ms.float64), mint.prod(x0)",
        "reduce_prod": "ops.ReduceProd(True)(x0, 1), ops.ReduceProd()(x0)",
        "min_dim": "mint.min(x0, 1, False), mint.max(x0, 0, True)",
        "log_sum_exp": "mint.logsumexp(x0, (0, 1)), mint.logsumexp(x0, 0, True)",
        "norm": "P.Norm()(x0, 1.0, (0,), False), P.Norm()(x0, 3.0, None, True)",
        "vector_norm": "P.LinalgVectorNorm()(x0, 3.0, (1,), True, ms.float64)",
        "median": "ops.Median(False, 0, True)(x0), ops.Median(True)(x0)[0]",
        "median_dim": "mint.median(x0, 0, True)",
        "kth_value": "P.Kthvalue()(x0, 2, 0, True)",
        "top_k": "mint.topk(x0, 2, 0, True, True)",
        "count_nonzero": "P.CountNonZero()(x0, None)",
        "cumsum_dtype": "mint.cumsum(x0, 0, dtype=ms.float64)",
        "elu": "O.Elu(1.0)(x0), mint.nn.functional.elu(x0, 0.5)",
        "leaky_relu": "P.LeakyReLUExt()(x0, 0.3)",
        "clamp": "mint.clamp(x0, None, 0.5), mint.clamp(x0, -0.5, None)",
        "tril": "mint.tril(x0, 1), mint.triu(x0, -1)",
        "trace": "P.TraceV2()(x0, 1, 0, 1, ms.float64)",
        "flatten": "mint.flatten(x0, 1), mint.flatten(x0, 0, 1)",
        "ones_like": "mint.ones_like(x0, dtype=ms.int32), mint.zeros_like(x0, dtype=ms.float64)",
        "softmax_axes": "ops.Softmax((0, 1))(x0), ops.Softmax((-1, 0))(x0)",
        "l2_normalize": "ops.L2Normalize(0, 0.5)(x0)",
        "repeat_all": "mint.repeat_interleave(x0, 2), mint.repeat_interleave(x0, 2, 1)",
        "fft_shift": "ops.ifftshift(x0), ops.fftshift(x0, (0,))",
        "nan_sum": "mint.nansum(x0), mint.nansum(x0, 1, True, dtype=ms.float64)",
        "sequence_slice": "x0[0:3:2]",
        "log_softmax": "ops.LogSoftmax(0)(x0)",
    },
    ("f32[2,3,4]",): {
        "reductions_max": "ops.amax(x0, (0, 2), True), ops.amin(x0, 1, True)",
        "lp_norm": "O.LpNorm((0, 2), 3, True)(x0), ops.norm(x0, 1, (0, 1))",
        "euclidean_norm": "O.EuclideanNorm(False)(x0, ms.Tensor([1], ms.int64))",
        "strided_slice": "O.StridedSlice(0, 0, 0, 0, 1)(x0, (0, 1), (2, 3), (1, 1))",
        "avg_pool1d_strides": "mint.nn.functional.avg_pool1d(x0, 2)",
        "avg_pool_1d": "ops.avg_pool1d(x0, 2, 1, 1, True, True)",
        "upsample_nearest": "P.UpsampleNearest1D()(x0, (9,), None)",
        "pad_contiguous": "ops.PadV3('constant', False)(x0, (1, 0, 2, 0, 1, 1), 0.5)",
        "pad_replicate": "ops.PadV3('edge', True)(x0, (1, 2))",
        "reverse_sequence": "ops.ReverseSequence(0, 1)(x0, ms.Tensor([1, 2, 1], ms.int64))",
        "trace_axes": "P.TraceV2()(x0, -1, 0, 2, ms.float32)",
        "max_axes": "ops.ReduceMax(True)(x0, (0, 2)), ops.ReduceMin(False)(x0, (1,))",
        "gather_batch": "ops.Gather(1)(x0, ms.Tensor([[0, 2], [1, 0]], ms.int32), 1)",
        "gather_batch_last": "ops.Gather(1)(x0, ms.Tensor([[3, 2, 0], [1, 0, 1]], ms.int32), 2)",
    },
    ("f32[3,3]",): {
        "cholesky": "ops.cholesky(x0 @ x0.T + 3 * ops.eye(3, 3, ms.float32), True)",
        "cholesky_solve": "O.CholeskySolve(True)(x0, ops.triu(x0) + 3 * ops.eye(3, 3, ms.float32))",
        "inverse": "O.MatrixInverse(True)(x0 + 3 * ops.eye(3, 3, ms.float32))",
        "matrix_solve": "O.MatrixSolve(True)(x0 + 3 * ops.eye(3, 3, ms.float32), x0)",
        "svd": "ops.svd(x0, True, False)",
        "triangular_lower": "P.TriangularSolve()(x0, x0 + 4 * ops.eye(3, 3, ms.float32), False, False, False)",
        "lu_unpack": "ops.lu_unpack(x0, ms.Tensor([2, 3, 3], ms.int32), True, False)[1:]",
        "matrix_diag_part": "O.MatrixDiagPartV3('LEFT_RIGHT')(x0, ms.Tensor([-1, 1], ms.int32), ms.Tensor(9.0, ms.float32))",
        "matrix_diag_left": "O.MatrixDiagPartV3('LEFT_LEFT')(x0, ms.Tensor([-2, 1], ms.int32), ms.Tensor(9.0, ms.float32))",
        "addmm": "ops.addmv(x0[0], x0, x0[1], beta=1, alpha=3), ops.addmv(x0[0], x0, x0[1])",
        "scatter_elements": "ops.ScatterAddWithAxis(1)(x0, ms.Tensor([[0, 2, 2]], ms.int32), x0[:1])",
    },
    ("f32[2,3,3]", "f32[2,3,3]", "f32[2,3,3]"): {
        "bmm": "ops.baddbmm(x0, x1, x2), ops.baddbmm(x0, x1, x2, beta=0.3, alpha=0.7)",
        "addbmm": "ops.addbmm(x0[0], x1, x2), ops.addbmm(x0[0], x1, x2, beta=2, alpha=3)",
        "addc": "mint.addcdiv(x0, x1, x2 + 4), mint.addcmul(x0, x1, x2), mint.addcmul(x0, x1, x2, value=0.5)",
        "lerp_close": "ops.isclose(x0, x1, 0.5, 0.1, True)",
    },
    ("f32[1,4,6,7]",): {
        "avg_pool_strides": "ops.avg_pool2d(x0, 2, 2), mint.nn.functional.avg_pool2d(x0, 2)",
        "max_pool_strides": "ops.max_pool2d(x0, 2), ops.max_pool2d(x0, (2, 3), return_indices=True)",
        "avg_pool_ceil": "ops.avg_pool2d(x0, 3, 2, 1, True, False, 5)",
        "avg_pool_pad": "O.AvgPool(3, 2, 'same')(x0)",
        "max_pool_indices": "ops.max_pool2d(x0, 3, 2, 1, 1, True, True)",
        "max_pool_dilated": "ops.max_pool2d(x0, 2, 1, 0, 2, False, True)",
        "max_pool_argmax": "O.MaxPoolWithArgmaxV2(2, 1, 0, (2, 1), True)(x0)",
        "resize_nearest": "ops.ResizeNearestNeighborV2(True)(x0, ms.Tensor([9, 5], ms.int32))",
        "resize_nearest_half": "ops.ResizeNearestNeighborV2(False, True)(x0, ms.Tensor([9, 5], ms.int32))",
        "resize_area": "O.ResizeArea(True)(x0.transpose(0, 2, 3, 1), ms.Tensor([9, 5], ms.int32))",
        "unfold_image": "mint.nn.functional.unfold(x0, (2, 3), (1, 2), (1, 0), (2, 1))",
        "unfold_numbers": "mint.nn.functional.unfold(x0, 2, 2, 1, 2)",
        "group_norm": "mint.nn.functional.group_norm(x0, 2, None, None, 0.1)",
        "layer_norm": "mint.nn.functional.layer_norm(x0, (6, 7), None, None, 0.5)",
        "reflection_pad": "ops.pad(x0, (1, 2, 2, 1), 'reflect'), ops.pad(x0, (1, 2, 0, 1), 'replicate')",
        "space_to_batch": "O.SpaceToBatchND([2, 3], [[1, 1], [0, 2]])(x0)",
        "upsample_2d": "ops.interpolate(x0, (9, 5), None, 'bilinear', True), ops.interpolate(x0, (9, 5), None, 'bicubic', True)",
        "lrn": "O.LRN(3, 2.0, 0.5, 0.25)(x0)",
        "crop_pad": "ops.pad(x0, (-1, 2), 'constant', 0.25)",
    },
    ("f32[2,4,9]", "f32[6,2,3]"): {
        "conv1d": "mint.nn.functional.conv1d(x0, x1, None, 2, 1, 2, 2)",
        "conv1d_same": "mint.nn.functional.conv1d(x0, x1, None, 1, 'same', 2, 2)",
    },
    ("f32[1,4,6,7]", "f32[6,2,3,2]"): {
        "conv2d": "mint.nn.functional.conv2d(x0, x1, None, (2, 1), (1, 0), (1, 2), 2)",
        "conv2d_same": "mint.nn.functional.conv2d(x0, x1, None, 1, 'same', (2, 1), 2)",
    },
    ("f32[1,4,6,7]", "f32[4,3,3,2]"): {
        "conv2d_transpose": "mint.nn.functional.conv_transpose2d(x0, x1, None, (2, 1), (1, 0), (1, 0), 2, (1, 2))",
        "conv2d_transpose_plain": "mint.nn.functional.conv_transpose2d(x0, x1)",
    },
    ("f32[1,4,5,6,7]", "f32[6,2,3,2,2]"): {
        "conv3d": "mint.nn.functional.conv3d(x0, x1, None, (2, 1, 1), (1, 0, 1), (1, 2, 1), 2)",
        "conv3d_primitive": "O.Conv3D(6, (3, 2, 2), pad_mode='same', stride=2, group=2)(x0, x1)",
    },
    ("f32[1,4,4,5,3]", "f32[4,3,3,2,2]"): {
        "conv3d_transpose": "O.Conv3DTranspose(4, 3, (3, 2, 2), pad_mode='pad', pad=1, stride=2, output_padding=1)(x0, x1)",
        "conv3d_transpose_same": "O.Conv3DTranspose(4, 3, (3, 2, 2), pad_mode='same', stride=(1, 2, 2))(x0, x1)",
    },
    ("f32[1,2,4,5,6]",): {
        "avg_pool3d_strides": "mint.nn.functional.avg_pool3d(x0, 2), ops.max_pool3d(x0, 2)",
        "avg_pool3d": "ops.avg_pool3d(x0, (2, 3, 2), (1, 2, 2), (1, 1, 1, 1, 0, 0), False, False, 7)",
        "max_pool3d": "O.MaxPool3D((2, 3, 2), (1, 2, 2), 'same')(x0)",
        "max_pool3d_ceil": "O.MaxPool3D(2, 2, 'pad', (1, 1, 0, 1, 1, 0), True)(x0)",
        "upsample_trilinear": "ops.interpolate(x0, (5, 3, 7), None, 'trilinear', True)",
        "upsample_nearest3d": "ops.interpolate(x0, None, (1.5, 0.7, 2.0), 'nearest', recompute_scale_factor=False)",
    },
    ("f32[3,4]", "i64[3]<4"): {
        "nll_sum": "ops.nll_loss(x0, x1, None, 1, 'sum'), ops.nll_loss(x0, x1, x0[0] ** 2 + 1, -100, 'mean')",
        "cross_entropy": "ops.cross_entropy(x0, x1, x0[0] ** 2 + 1, 2, 'sum', 0.1)",
        "multi_margin": "ops.multi_margin_loss(x0, x1, 2, 3, x0[0] ** 2, 'sum')",
        "one_hot": "ops.OneHot(0)(x1, 5, ms.Tensor(3.0, ms.float32), ms.Tensor(-1.0, ms.float32)) + 0 * x0.sum()",
        "index_put": "ops.index_add(x0, ms.Tensor([0, 2], ms.int32), x0[:2], 0)",
        "put": "x0.index_put((ms.Tensor([0, 0, 1], ms.int64), x1), x0[:, 0], True)",
    },
    ("f32[3,4]>0<1", "f32[3,4]>0<1"): {
        "kl_div": "ops.kl_div(x0, x1, 'sum'), mint.nn.functional.kl_div(x0, x1, 'none', True)",
        "binary_cross_entropy": "ops.BinaryCrossEntropy('sum')(x0, x1, None), ops.BinaryCrossEntropy('mean')(x0, x1, None)",
        "smooth_l1": "ops.smooth_l1_loss(x0, x1, 0.3, 'mean'), ops.SmoothL1Loss(0.2, 'sum')(x0, x1)",
        "search_sorted": "ops.searchsorted(ops.sort(x0)[0], x1, right=True)",
        "search_sorted_by": "ops.searchsorted(x0[:, ::-1], x1, sorter=ops.sort(x0[:, ::-1])[1].astype(ms.int64))",
        "float_division": "ops.div(x0, x1 + 0.1, rounding_mode='floor'), ops.div(x0 * 9, x1 + 0.1, rounding_mode='trunc')",
    },
    ("i64[6]<5",): {
        "bincount": "mint.bincount(x0, None, 8), mint.bincount(x0, x0 * 0.5, 3)",
        "dim_map": "O.DataFormatDimMap('NCHW', 'NHWC')(ms.ops.cast(x0 % 4, ms.int32))",
        "fills": "ops.full((2, 3), 2, dtype=ms.float64), ops.fill(ms.int32, (2,), 3), ops.full_like(x0, 2.5, dtype=ms.float32)",
        "windows": "ops.bartlett_window(ms.Tensor(5, ms.int64), False), ops.blackman_window(ms.Tensor(6, ms.int64), False)",
        "hamming": "ops.hamming_window(7, False, 0.3, 0.6)",
        "ranges": "ops.linspace(1, 3, 5), mint.arange(1, 9, 3, dtype=ms.float32), ops.logspace(0.0, 2.0, 3, 2)",
        "indices": "ops.tril_indices(3, 4, 1), ops.triu_indices(4, 3, -1)",
        "repeat_by_tensor": "mint.repeat_interleave(x0, ms.Tensor([1, 0, 2, 1, 1, 3], ms.int64))",
        "cum": "ops.cumsum(x0, 0), ops.CumSum(True, True)(x0, 0), ops.CumProd(True, True)(x0.astype(ms.float32), 0)",
    },
}

REFERENCES = {
    "avg_pool_strides": "ops.AvgPool(2, 2)(x0), ops.AvgPool(2, 2)(x0)",
    "max_pool_strides": "ops.max_pool2d(x0, 2, 2), ops.max_pool2d(x0, (2, 3), (2, 3), return_indices=True)",
    "avg_pool3d_strides": "ops.avg_pool3d(x0, 2, 2), ops.max_pool3d(x0, 2, 2)",
    "avg_pool1d_strides": "ops.avg_pool1d(x0, 2, 2)",
    "quantile_keep": "ops.stack((ops.sort(x0, 1)[0][:, :1] * 0.4 + ops.sort(x0, 1)[0][:, 1:2] * 0.6, ops.sort(x0, 1)[0][:, 2:3] * 0.9 + ops.sort(x0, 1)[0][:, 3:] * 0.1))",
    "quantile_all": "ops.sort(x0.reshape(12))[0][3] * 0.7 + ops.sort(x0.reshape(12))[0][4] * 0.3",
    "arg_min_all": "ops.argmin(x0, None).astype(ms.int64)",
    "arg_min_rows": "ops.argmin(x0, 0).astype(ms.int64)",
    "arg_sort": "ops.sort(x0, 0, True)[1].astype(ms.int64), ops.sort(x0, 1, True)[1]",
    "sort": "ops.sort(x0, 0)[0], ops.sort(x0, 0)[1].astype(ms.int64)",
    "std_keep": "ops.sqrt(ops.square(x0 - x0.mean(1, True)).mean(1, True)), ops.sqrt(ops.square(x0 - x0.mean()).sum() / 11)",
    "std_mean": "ops.sqrt(ops.square(x0 - x0.mean()).mean((0, 1), True)), x0.mean((0, 1), True), ops.sqrt(ops.square(x0 - x0.mean(0, True)).sum(0)), x0.mean(0)",
    "var": "ops.square(x0 - x0.mean()).sum() / 10",
    "var_mean": "ops.square(x0 - x0.mean()).mean((0, 1), True), x0.mean((0, 1), True), ops.square(x0 - x0.mean(0, True)).sum(0), x0.mean(0)",
    "log_sum_exp": "ops.log(ops.exp(x0).sum()), ops.log(ops.exp(x0).sum(0, keepdims=True))",
    "norm": "ops.abs(x0).sum(0), (ops.abs(x0) ** 3).sum((0, 1), keepdims=True) ** (1 / 3)",
    "vector_norm": "(ops.abs(x0.astype(ms.float64)) ** 3).sum(1, keepdims=True) ** (1 / 3)",
    "median_dim": "ops.sort(x0, 0)[0][1:2], ops.sort(x0, 0)[1][1:2].astype(ms.int64)",
    "kth_value": "ops.sort(x0, 0)[0][1:2], ops.sort(x0, 0)[1][1:2].astype(ms.int64)",
    "top_k": "ops.sort(x0, 0, True)[0][:2], ops.sort(x0, 0, True)[1][:2].astype(ms.int64)",
    "count_nonzero": "(x0 != 0).astype(ms.int64).sum()",
    "cumsum_dtype": "ops.cumsum(x0.astype(ms.float64), 0)",
    "elu": "ops.elu(x0), ops.select(x0 > 0, x0, 0.5 * (ops.exp(x0) - 1))",
    "leaky_relu": "ops.select(x0 > 0, x0, 0.3 * x0)",
    "tril": "x0 * ms.Tensor(np.tri(3, 4, 1), ms.float32), x0 * ms.Tensor(1 - np.tri(3, 4, -2), ms.float32)",
    "softmax_axes": "ops.exp(x0) / ops.exp(x0).sum(), ops.exp(x0) / ops.exp(x0).sum()",
    "repeat_all": "ops.repeat_interleave(x0.reshape(12), 2, 0), ops.repeat_interleave(x0, 2, 1)",
    "nan_sum": "x0.sum(), x0.astype(ms.float64).sum(1, keepdims=True)",
    "euclidean_norm": "ops.sqrt(ops.square(x0).sum(1))",
    "triangular_lower": "ops.matrix_solve(ops.tril(x0 + 4 * ops.eye(3, 3, ms.float32)), x0), x0 + 4 * ops.eye(3, 3, ms.float32)",
    "addc": "x0 + x1 / (x2 + 4), x0 + x1 * x2, x0 + 0.5 * x1 * x2",
    "unfold_image": "ops.unfold(x0, (2, 3), (1, 2), (1, 0), (2, 1))",
    "unfold_numbers": "ops.unfold(x0, 2, 2, 1, 2)",
    "layer_norm": "(x0 - x0.mean((2, 3), True)) / ops.sqrt(ops.square(x0 - x0.mean((2, 3), True)).mean((2, 3), True) + 0.5)",
    "conv1d": "ops.conv1d(x0, x1, None, 2, 'pad', 1, 2, 2)",
    "conv1d_same": "ops.conv1d(x0, x1, None, 1, 'pad', 2, 2, 2)",
    "conv2d": "ops.conv2d(x0, x1, None, (2, 1), 'pad', (1, 0), (1, 2), 2)",
    "conv2d_same": "O.Conv2D(6, (3, 2), pad_mode='pad', pad=(2, 2, 0, 1), dilation=(2, 1), group=2)(x0, x1)",
    "conv2d_transpose": "ops.concat([O.nn_ops.Conv2DBackpropInput(2, (3, 2), 'pad', (1, 1, 0, 0), stride=(2, 1), dilation=(1, 2))(x0[:, 2 * i : 2 * i + 2], x1[2 * i : 2 * i + 2], (1, 3, 12, 9)) for i in (0, 1)], 1)",
    "conv2d_transpose_plain": "O.nn_ops.Conv2DBackpropInput(4, (3, 2), 'valid')(x0, x1, (1, 3, 8, 8))",
    "conv3d": "O.Conv3D(6, (3, 2, 2), pad_mode='pad', pad=(1, 1, 0, 0, 1, 1), stride=(2, 1, 1), dilation=(1, 2, 1), group=2)(x0, x1)",
    "kl_div": "ops.select(x1 > 0, x1 * (ops.log(x1) - x0), x1 * 0).sum(), ops.exp(x1) * (x1 - x0)",
    "search_sorted_by": "ops.searchsorted(ops.sort(x0)[0], x1)",
    "bincount": "ops.stack([(x0 == i).astype(ms.int64).sum() for i in range(8)]), ops.stack([((x0 == i).astype(ms.float32) * x0.astype(ms.float32) * 0.5).sum() for i in range(5)])",
    "repeat_by_tensor": "ops.gather(x0, ms.Tensor([0, 2, 2, 3, 4, 5, 5, 5]), 0)",
}
"""Where MindSpore has no kernel for the CPU."""

for inputs, calls in GROUPS.items():
    for name, call in calls.items():
        case(f"arguments_{name}", *inputs, call=call, reference=REFERENCES.get(name, ""))

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
