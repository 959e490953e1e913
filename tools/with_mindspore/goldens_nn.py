"""Make goldens of layers: convolution, pooling, normalization, matrices, recurrent, image, attention.

    python tools/with_mindspore/goldens_nn.py FOLDER [PATTERN ...]

Needs MindSpore 2.10.
"""

from __future__ import annotations

import sys
from pathlib import Path

from goldens import case, main

# -- convolution -----------------------------------------------------------------------------------

X2 = "f32[2,4,9,10]"
case("nn_conv1d_same", "f32[2,4,9]", op="nn.Conv1d(4, 6, 3, stride=2, pad_mode='same', has_bias=True)")
case("nn_conv1d_pad", "f32[2,4,9]", op="nn.Conv1d(4, 6, 4, padding=2, pad_mode='pad', dilation=2, group=2)")
case("nn_conv2d_valid", X2, op="nn.Conv2d(4, 6, (3, 2), stride=(2, 1), pad_mode='valid', has_bias=True)")
case("nn_conv2d_same_even", X2, op="nn.Conv2d(4, 6, (4, 2), stride=(3, 2), pad_mode='same')")
case("nn_conv2d_same_dilated", X2, op="nn.Conv2d(4, 6, 3, stride=2, dilation=2, pad_mode='same')")
case("nn_conv2d_pads", X2, op="nn.Conv2d(4, 6, 3, pad_mode='pad', padding=(0, 1, 2, 1), dilation=(2, 1))")
case("nn_conv2d_depthwise", X2, op="nn.Conv2d(4, 8, 3, group=4, pad_mode='same')")
case("nn_conv2d_half", "f16[2,4,6,6]", op="nn.Conv2d(4, 6, 3, has_bias=True, dtype=ms.float16)")
case(
    "nn_conv2d_dynamic", "f32[1*,4,9*,10*]", op="nn.Conv2d(4, 6, 3, stride=2, pad_mode='same', has_bias=True)"
)
case(
    "nn_conv2d_dynamic_dilated",
    "f32[1*,4,9*,10*]",
    op="nn.Conv2d(4, 6, 3, stride=2, dilation=2, pad_mode='same')",
)
case("nn_conv3d_same", "f32[1,3,5,6,7]", op="nn.Conv3d(3, 4, 3, stride=2, pad_mode='same', has_bias=True)")
case(
    "nn_conv3d_pad",
    "f32[1,4,5,6,7]",
    op="nn.Conv3d(4, 4, (2, 3, 3), padding=(1, 0, 1, 1, 2, 1), pad_mode='pad')",
)
case("nn_conv3d_valid", "f32[1,4,5,6,7]", op="nn.Conv3d(4, 4, 3, pad_mode='valid')")
case("nn_conv1d_transpose_same", "f32[2,4,9]", op="nn.Conv1dTranspose(4, 6, 3, stride=2, pad_mode='same')")
case(
    "nn_conv1d_transpose_pad",
    "f32[2,4,9]",
    op="nn.Conv1dTranspose(4, 6, 4, stride=2, pad_mode='pad', padding=1, has_bias=True)",
)
case("nn_conv2d_transpose_valid", X2, op="nn.Conv2dTranspose(4, 6, 3, stride=2, pad_mode='valid')")
case(
    "nn_conv2d_transpose_same", X2, op="nn.Conv2dTranspose(4, 6, 3, stride=2, pad_mode='same', has_bias=True)"
)
case("nn_conv2d_transpose_small", X2, op="nn.Conv2dTranspose(4, 6, 2, stride=3, pad_mode='same')")
case(
    "nn_conv2d_transpose_pad",
    X2,
    op="nn.Conv2dTranspose(4, 6, 3, stride=2, pad_mode='pad', padding=1, output_padding=1, group=2)",
)
case(
    "nn_conv2d_transpose_dilated",
    X2,
    op="nn.Conv2dTranspose(4, 6, 3, stride=2, dilation=2, pad_mode='pad', padding=(1, 2, 0, 1))",
)
case(
    "nn_conv2d_transpose_dynamic",
    "f32[1*,4,5*,6*]",
    op="nn.Conv2dTranspose(4, 6, 3, stride=2, pad_mode='pad', padding=1)",
)
case(
    "nn_conv2d_transpose_dynamic_same",
    "f32[1*,4,5*,6*]",
    op="nn.Conv2dTranspose(4, 6, 3, stride=2, pad_mode='same')",
)
case(
    "nn_conv3d_transpose_valid",
    "f32[1,3,4,5,6]",
    op="nn.Conv3dTranspose(3, 4, 3, stride=2, pad_mode='valid')",
)
case(
    "nn_conv3d_transpose_same", "f32[1,3,4,5,6]", op="nn.Conv3dTranspose(3, 4, 3, stride=2, pad_mode='same')"
)
case(
    "nn_conv3d_transpose_pad",
    "f32[1,3,4,5,6]",
    op="nn.Conv3dTranspose(3, 4, 3, stride=2, pad_mode='pad', padding=1, output_padding=1, has_bias=True)",
)
case("ops_conv1d", "f32[2,4,9]", "f32[6,2,3]", call="ops.conv1d(x0, x1, None, 2, 'pad', 1, 1, 2)")
case("ops_conv2d", X2, "f32[6,2,3,3]", "f32[6]", call="ops.conv2d(x0, x1, x2, 2, 'pad', (1, 2), 1, 2)")
case("ops_conv3d", "f32[1,3,5,6,7]", "f32[4,3,2,2,2]", call="ops.conv3d(x0, x1, None, 2, 'same', 0, 1, 1)")
for _rank, _spatial in ((1, "9"), (2, "9,8"), (3, "5,6,7")):
    _kernel = ",".join("3" * _rank)
    _in = (f"f32[2,4,{_spatial}]", f"f32[6,2,{_kernel}]", "f32[6]")
    case(
        f"mint_conv{_rank}d",
        *_in,
        call=f"F.conv{_rank}d(x0, x1, x2, stride=2, padding=1, groups=2)",
        reference=f"ops.conv{_rank}d(x0, x1, x2, 2, 'pad', 1, 1, 2)",
    )
    case(
        f"mint_conv{_rank}d_same",
        *_in[:2],
        call=f"F.conv{_rank}d(x0, x1, padding='same', dilation={_rank % 3 + 1}, groups=2)",
        reference=f"ops.conv{_rank}d(x0, x1, None, 1, 'same', 0, {_rank % 3 + 1}, 2)",
    )
    case(
        f"mint_conv{_rank}d_unbatched",
        _in[0].replace("2,", "", 1),
        *_in[1:],
        call=f"F.conv{_rank}d(x0, x1, x2, groups=2)",
        reference=f"ops.conv{_rank}d(x0.expand_dims(0), x1, x2, 1, 'valid', 0, 1, 2)[0]",
    )
case(
    "mint_conv_transpose2d",
    X2,
    "f32[4,3,3,3]",
    "f32[6]",
    call="F.conv_transpose2d(x0, x1, x2, stride=2, padding=1, output_padding=1, groups=2, dilation=2)",
    reference="ops.operations.nn_ops.Conv2DTranspose(6, 3, 'pad', 1, dilation=2, stride=2, "
    "group=2)(x0, x1, (2, 6, 20, 22)) + x2.reshape(6, 1, 1)",
)
case(
    "mint_conv2d_reflect",
    X2,
    op="mint.nn.Conv2d(4, 6, 3, padding=1, padding_mode='reflect')",
    reference="ops.conv2d(ops.pad(x0, (1, 1, 1, 1), 'reflect'), self.op.weight, self.op.bias)",
)
case(
    "ops_conv2d_depthwise_native",
    X2,
    "f32[1,4,3,3]",
    op="ops.operations.DepthwiseConv2dNative(1, (3, 3), pad_mode='same', stride=2)",
    reference="ops.conv2d(x0, x1.reshape(4, 1, 3, 3), None, 2, 'same', 0, 1, 4)",
)
case(
    "ops_deformable_offsets",
    "f32[1,4,5,6]",
    "f32[1,27,5,6]",
    op="ops.operations.nn_ops.DeformableOffsets((1, 1, 1, 1), (1, 1, 1, 1), (3, 3))",
)
case(
    "ops_deformable_conv2d",
    "f32[1,4,6,7]",
    "f32[3,4,3,3]",
    "f32[1,27,4,5]",
    call="ops.deformable_conv2d(x0, x1, x2, (3, 3), (1, 1, 1, 1), (0, 0, 0, 0))",
)
case("ops_unfold", "f32[2,3,6,7]", call="ops.unfold(x0, (2, 3), dilation=2, padding=1, stride=2)")
case(
    "mint_unfold",
    "f32[2,3,6,7]",
    call="F.unfold(x0, (2, 3), dilation=(1, 2), padding=(1, 0), stride=2)",
    reference="ops.unfold(x0, (2, 3), dilation=(1, 2), padding=(1, 0), stride=2)",
)
case(
    "ops_fold",
    "f32[2,3,6,18]",
    call="ops.fold(x0, ms.Tensor([6, 8], ms.int32), (2, 3), padding=0, stride=(2, 1))",
)
case(
    "mint_fold",
    "f32[2,18,16]",
    call="F.fold(x0, (5, 6), (2, 3))",
    reference="ops.fold(x0.reshape(2, 3, 6, 16), ms.Tensor([5, 6], ms.int32), (2, 3), stride=1)",
)
case(
    "mint_fold_padded",
    "f32[2,18,9]",
    call="F.fold(x0, (5, 6), (2, 3), padding=(1, 1), stride=(2, 2))",
    reference="ops.fold(x0.reshape(2, 3, 6, 9), ms.Tensor([5, 6], ms.int32), (2, 3), padding=1, stride=2)",
)

# -- pooling ---------------------------------------------------------------------------------------

case("nn_max_pool1d", "f32[2,3,9]", op="nn.MaxPool1d(3, 2, pad_mode='same')")
case("nn_max_pool1d_pad", "f32[2,3,9]", op="nn.MaxPool1d(3, 2, pad_mode='pad', padding=1, dilation=2)")
case("nn_max_pool2d_same", "f32[2,3,9,10]", op="nn.MaxPool2d((3, 2), (2, 3), pad_mode='same')")
case("nn_max_pool2d_pad", "f32[2,3,9,10]", op="nn.MaxPool2d(3, 2, pad_mode='pad', padding=1, ceil_mode=True)")
case(
    "nn_max_pool2d_indices",
    "f32[2,3,9,10]",
    op="nn.MaxPool2d(3, 2, pad_mode='pad', padding=1, return_indices=True)",
)
case("nn_max_pool2d_dynamic", "f32[2*,3,9*,10*]", op="nn.MaxPool2d(3, 2, pad_mode='same')")
case("nn_max_pool2d_half", "f16[1,2,6,6]", op="nn.MaxPool2d(2, 2)")
case("nn_max_pool3d", "f32[1,2,6,7,8]", op="nn.MaxPool3d(2, 2)")
case(
    "nn_max_pool3d_pad", "f32[1,2,6,7,8]", op="nn.MaxPool3d(3, 2, pad_mode='pad', padding=1, ceil_mode=True)"
)
case("nn_avg_pool1d", "f32[2,3,9]", op="nn.AvgPool1d(3, 2, pad_mode='same')")
case("nn_avg_pool1d_pad", "f32[2,3,9]", op="nn.AvgPool1d(3, 2, pad_mode='pad', padding=1, ceil_mode=True)")
case("nn_avg_pool2d_same", "f32[2,3,9,10]", op="nn.AvgPool2d((3, 2), (2, 3), pad_mode='same')")
case(
    "nn_avg_pool2d_ceil", "f32[2,3,9,10]", op="nn.AvgPool2d(3, 2, pad_mode='pad', padding=1, ceil_mode=True)"
)
case(
    "nn_avg_pool2d_exclude",
    "f32[2,3,9,10]",
    op="nn.AvgPool2d(3, 2, pad_mode='pad', padding=(1, 0), ceil_mode=True, count_include_pad=False)",
)
case(
    "nn_avg_pool2d_divisor",
    "f32[2,3,9,10]",
    op="nn.AvgPool2d(3, 2, pad_mode='pad', padding=1, divisor_override=4)",
)
case("nn_avg_pool2d_dynamic", "f32[2*,3,9*,10*]", op="nn.AvgPool2d(3, 2, pad_mode='same')")
case("nn_avg_pool3d", "f32[1,2,6,7,8]", op="nn.AvgPool3d(2, 2)")
case("nn_avg_pool3d_same", "f32[1,2,5,7,8]", op="nn.AvgPool3d(3, 2, pad_mode='same')")
case(
    "nn_avg_pool3d_pad", "f32[1,2,6,7,8]", op="nn.AvgPool3d(3, 2, pad_mode='pad', padding=1, ceil_mode=True)"
)
case(
    "nn_avg_pool3d_exclude",
    "f32[1,2,6,7,8]",
    op="nn.AvgPool3d(3, 2, pad_mode='pad', padding=1, count_include_pad=False, ceil_mode=True)",
)
case(
    "nn_avg_pool3d_divisor",
    "f32[1,2,6,7,8]",
    op="nn.AvgPool3d(3, 2, pad_mode='pad', padding=1, divisor_override=5)",
)
case(
    "mint_avg_pool1d",
    "f32[2,3,9]",
    call="F.avg_pool1d(x0, 3, 2, 1, True, False)",
    reference="ops.avg_pool1d(x0, 3, 2, 1, True, False)",
)
case(
    "mint_avg_pool2d",
    "f32[2,3,9,10]",
    call="F.avg_pool2d(x0, (3, 2), (2, 2), (1, 0))",
    reference="ops.avg_pool2d(x0, (3, 2), (2, 2), (1, 1, 0, 0))",
)
case(
    "mint_avg_pool2d_exclude",
    "f32[2,3,9,10]",
    call="F.avg_pool2d(x0, 3, 2, 1, True, False)",
    reference="ops.avg_pool2d(x0, 3, 2, 1, True, False)",
)
case(
    "mint_avg_pool2d_divisor",
    "f32[2,3,9,10]",
    call="F.avg_pool2d(x0, 3, 2, 1, True, True, 4)",
    reference="ops.avg_pool2d(x0, 3, 2, 1, True, True, 4)",
)
case(
    "mint_avg_pool3d",
    "f32[1,2,6,7,8]",
    call="F.avg_pool3d(x0, 3, 2, 1, True)",
    reference="ops.avg_pool3d(x0, 3, 2, 1, True)",
)
case(
    "mint_avg_pool3d_exclude",
    "f32[1,2,6,7,8]",
    call="F.avg_pool3d(x0, 3, 2, 1, True, False)",
    reference="ops.avg_pool3d(x0, 3, 2, 1, True, False)",
)
case(
    "mint_max_pool2d",
    "f32[2,3,9,10]",
    call="F.max_pool2d(x0, 3, 2, 1, 1, True)",
    reference="ops.max_pool2d(x0, 3, 2, 1, 1, False, True)",
)
case(
    "mint_max_pool2d_indices",
    "f32[2,3,9,10]",
    call="F.max_pool2d(x0, (3, 2), 2, 1, return_indices=True)",
    reference="ops.max_pool2d(x0, (3, 2), 2, 1, return_indices=True)",
)
case(
    "mint_max_pool2d_dilated",
    "f32[2,3,9,10]",
    call="F.max_pool2d(x0, 3, 1, 1, dilation=2)",
    reference="ops.max_pool2d(x0, 3, 1, 1, dilation=2)",
)
case("ops_max_pool2d", "f32[2,3,9,10]", call="ops.max_pool2d(x0, 3, 2, 1, 1, True, True)")
case("ops_max_pool3d", "f32[1,2,6,7,8]", call="ops.max_pool3d(x0, 3, 2, 1, 1, True, True)")
case("ops_max_pool3d_ints", "i32[1,2,6,7,8]>-9<2", call="ops.max_pool3d(x0, 3, 2, 1, 1, True, True)")
case("ops_max_pool_argmax", "f32[1,2,6,7]", call="ops.max_pool2d(x0, 2, 2, return_indices=True)")
for _rank, _spatial in ((1, "9"), (2, "9,10"), (3, "6,7,9")):
    _in = f"f32[2,3,{_spatial}]"
    _uneven = ("3", "(4, 3)", "(4, 3, 5)")[_rank - 1]
    case(
        f"nn_adaptive_avg_pool{_rank}d", _in, op=f"nn.AdaptiveAvgPool{_rank}d({_uneven if _rank > 1 else 3})"
    )
    case(f"nn_adaptive_avg_pool{_rank}d_1", _in, op=f"nn.AdaptiveAvgPool{_rank}d(1)")
    case(
        f"nn_adaptive_max_pool{_rank}d", _in, op=f"nn.AdaptiveMaxPool{_rank}d({_uneven if _rank > 1 else 3})"
    )
    case(
        f"mint_adaptive_avg_pool{_rank}d",
        _in,
        call=f"F.adaptive_avg_pool{_rank}d(x0, {_uneven})",
        reference=f"ops.adaptive_avg_pool{_rank}d(x0, {_uneven})",
    )
case("nn_adaptive_avg_pool2d_none", "f32[2,3,9,10]", op="nn.AdaptiveAvgPool2d((None, 4))")
case("nn_adaptive_avg_pool2d_dynamic", "f32[2*,3,9*,10*]", op="nn.AdaptiveAvgPool2d(1)")
case("nn_adaptive_avg_pool2d_dynamic_4", "f32[2*,3,9*,10*]", op="nn.AdaptiveAvgPool2d((4, 3))")
case(
    "nn_adaptive_max_pool2d_indices", "f32[2,3,9,10]", op="nn.AdaptiveMaxPool2d((4, 3), return_indices=True)"
)
case(
    "nn_adaptive_max_pool3d_indices",
    "f32[2,3,5,6,7]",
    op="nn.AdaptiveMaxPool3d((2, 3, 4), return_indices=True)",
)
case(
    "mint_adaptive_max_pool1d",
    "f32[2,3,9]",
    call="F.adaptive_max_pool1d(x0, 4)",
    reference="ops.adaptive_max_pool2d(x0.expand_dims(2), (1, 4)).squeeze(2)",
)
case("mint_adaptive_max_pool2d", "f32[2,3,9,10]", call="F.adaptive_max_pool2d(x0, (4, 3), True)")
case("nn_lp_pool1d", "f32[2,3,9]>0<1", op="nn.LPPool1d(3, 3, 2, ceil_mode=True)")
case("nn_lp_pool2d", "f32[2,3,9,10]>0<1", op="nn.LPPool2d(2, (3, 2), 2)")
case("ops_lp_pool2d", "f32[2,3,9,10]", call="ops.lp_pool2d(x0, 1.0, 3, 2, ceil_mode=True)")
case(
    "nn_max_unpool1d",
    "f32[2,3,4]",
    "i64[2,3,4]<2",
    call="ops.max_unpool1d(x0, x1 + ops.arange(0, 8, 2), 2, 2)",
)
case(
    "nn_max_unpool2d",
    "f32[1,2,4,3]",
    op="nn.MaxUnpool2d(2, 2, 0)",
    call="self.op(x0, ops.arange(0, 24).reshape(1, 2, 4, 3) * 2 % 70, (1, 2, 9, 7))",
)
case(
    "nn_max_unpool2d_pooled",
    "f32[2,3,8,10]",
    op="nn.MaxUnpool2d(2, 2)",
    call="self.op(*ops.max_pool2d(x0, 2, 2, return_indices=True))",
)
case(
    "nn_max_unpool3d",
    "f32[1,2,4,6,8]",
    op="nn.MaxUnpool3d(2, 2)",
    call="self.op(*ops.max_pool3d(x0, 2, 2, return_indices=True))",
)
case(
    "mint_max_unpool2d",
    "f32[2,3,8,10]",
    call="F.max_unpool2d(*F.max_pool2d(x0, 2, 2, return_indices=True), 2, 2)",
    reference="ops.max_unpool2d(*ops.max_pool2d(x0, 2, 2, return_indices=True), 2, 2)",
)

# -- normalization ---------------------------------------------------------------------------------

case("nn_batch_norm2d", "f32[2,3,4,5]", op="nn.BatchNorm2d(3, eps=1e-3).set_train(False)")
case("nn_batch_norm2d_train", "f32[2,3,4,5]", op="nn.BatchNorm2d(3, use_batch_statistics=True)")
case("nn_batch_norm1d", "f32[6,3]", op="nn.BatchNorm1d(3).set_train(False)")
case("nn_batch_norm1d_half", "f16[6,3]", op="nn.BatchNorm1d(3).set_train(False)")
case("nn_batch_norm2d_half", "f16[2,3,4,5]", op="nn.BatchNorm2d(3).set_train(False)")
case("nn_batch_norm2d_dynamic", "f32[2*,3,4*,5*]", op="nn.BatchNorm2d(3).set_train(False)")
case("nn_batch_norm3d", "f32[2,3,2,4,5]", op="nn.BatchNorm3d(3).set_train(False)")
case(
    "mint_batch_norm",
    "f32[2,3,4,5]",
    "f32[3]",
    "f32[3]>0<1",
    "f32[3]",
    "f32[3]",
    call="F.batch_norm(x0, x1, x2, x3, x4)",
    reference="ops.batch_norm(x0, x1, x2, x3, x4)",
)
case(
    "mint_batch_norm1d",
    "f32[2,3,7]",
    op="mint.nn.BatchNorm1d(3).set_train(False)",
    reference="ops.batch_norm(x0.expand_dims(3), self.op.running_mean, self.op.running_var, "
    "self.op.weight, self.op.bias).squeeze(3)",
)
case(
    "mint_batch_norm2d",
    "f32[2,3,4,5]",
    op="mint.nn.BatchNorm2d(3).set_train(False)",
    reference="ops.batch_norm(x0, self.op.running_mean, self.op.running_var, self.op.weight, self.op.bias)",
)
case(
    "mint_batch_norm3d",
    "f32[2,3,2,4,5]",
    op="mint.nn.BatchNorm3d(3, affine=False).set_train(False)",
    reference="ops.batch_norm(x0.reshape(2, 3, 8, 5), self.op.running_mean, self.op.running_var, "
    "ops.ones(3), ops.zeros(3)).reshape(2, 3, 2, 4, 5)",
)
case(
    "ops_batch_norm",
    "f32[2,3,4,5]",
    "f32[3]",
    "f32[3]>0<1",
    "f32[3]",
    "f32[3]",
    call="ops.batch_norm(x0, x1, x2, x3, x4)",
)
case("nn_layer_norm", "f32[2,3,8]", op="nn.LayerNorm((8,))")
case("nn_layer_norm_2", "f32[2,3,4,5]", op="nn.LayerNorm((3, 4, 5), begin_norm_axis=1, begin_params_axis=1)")
case(
    "nn_layer_norm_params", "f32[2,3,4,5]", op="nn.LayerNorm((4, 5), begin_norm_axis=1, begin_params_axis=2)"
)
case("nn_layer_norm_half", "f16[2,3,8]", op="nn.LayerNorm((8,), dtype=ms.float16)")
case("nn_layer_norm_dynamic", "f32[2*,3*,8]", op="nn.LayerNorm((8,), epsilon=1e-5)")
case(
    "ops_layer_norm",
    "f32[2,3,8]",
    "f32[8]",
    "f32[8]",
    op="ops.LayerNorm(begin_norm_axis=2, begin_params_axis=2, epsilon=1e-3)",
)
case(
    "mint_layer_norm",
    "f32[2,3,4,5]",
    "f32[4,5]",
    "f32[4,5]",
    call="F.layer_norm(x0, (4, 5), x1, x2, 1e-3)",
    reference="ops.LayerNorm(2, 2, 1e-3)(x0, x1, x2)[0]",
)
case(
    "mint_layer_norm_plain",
    "f32[2,3,8]",
    call="F.layer_norm(x0, (8,))",
    reference="ops.LayerNorm(2, 2, 1e-5)(x0, ops.ones(8), ops.zeros(8))[0]",
)
case(
    "mint_layer_norm_weight",
    "f32[2,3,8]",
    "f32[8]",
    call="F.layer_norm(x0, (8,), x1)",
    reference="ops.LayerNorm(2, 2, 1e-5)(x0, x1, ops.zeros(8))[0]",
)
case("nn_group_norm", "f32[2,6,4,5]", op="nn.GroupNorm(3, 6)")
case("nn_group_norm_half", "f16[2,6,4,5]", op="nn.GroupNorm(3, 6, dtype=ms.float16)")
case("mint_group_norm", "f32[2,6,4,5]", "f32[6]", "f32[6]", call="F.group_norm(x0, 2, x1, x2)")
case("mint_group_norm_plain", "f32[2,6,7]", call="F.group_norm(x0, 3)")
case("mint_group_norm_dynamic", "f32[2*,6,4*,5*]", op="mint.nn.GroupNorm(3, 6)")
case(
    "ops_group_norm_stats",
    "f32[2,6,4,5]",
    "f32[6]",
    "f32[6]",
    op="P.GroupNorm()",
    call="self.op(x0, 2, x1, x2, 1e-3)",
)
for _rank, _spatial in ((1, "7"), (2, "4,5"), (3, "2,3,4")):
    case(
        f"nn_instance_norm{_rank}d",
        f"f32[2,3,{_spatial}]",
        op=f"nn.InstanceNorm{_rank}d(3)",
        reference=f"(x0 - x0.mean({tuple(range(2, _rank + 2))}, keep_dims=True)) / "
        f"ops.sqrt(x0.var({tuple(range(2, _rank + 2))}, keepdims=True) + 1e-5) * "
        f"self.op.gamma.reshape({(3,) + (1,) * _rank}) + self.op.beta.reshape({(3,) + (1,) * _rank})",
    )
case(
    "nn_rms_norm",
    "f32[2,3,8]",
    "f32[8]",
    call="ops.rms_norm(x0, x1)[0]",
    reference="x0 / ops.sqrt((x0 * x0).mean(-1, keep_dims=True) + 1e-6) * x1",
)
case(
    "nn_rms_norm_half",
    "f16[2,3,8]",
    "f16[8]",
    call="ops.rms_norm(x0, x1, 1e-5)[0]",
    reference="(x0.float() / ops.sqrt((x0.float() * x0.float()).mean(-1, keep_dims=True) + "
    "1e-5)).half() * x1",
)
case(
    "ops_rms_norm_2",
    "f32[2,3,8]",
    "f32[3,8]",
    op="P.RmsNorm(1e-5)",
    reference="("
    + "x0 / ops.sqrt((x0 * x0).mean((1, 2), keep_dims=True) + 1e-5) * x1"
    + ", 1 / ops.sqrt((x0 * x0).mean((1, 2), keep_dims=True) + 1e-5))",
)
case(
    "ops_add_rms_norm",
    "f32[2,3,8]",
    "f32[2,3,8]",
    "f32[8]",
    op="P.AddRmsNorm()",
    call="self.op(x0, x1, x2, 1e-5)[0]",
    reference="(x0 + x1) / ops.sqrt(((x0 + x1) * (x0 + x1)).mean(-1, keep_dims=True) + 1e-5) * x2",
)
case(
    "ops_layer_norm_v3",
    "f32[2,3,8]",
    "f32[8]",
    "f32[8]",
    op="P.LayerNormV3(2, 2, 1e-5)",
    reference="(lambda y, m, v: (y, m, 1 / ops.sqrt(v + 1e-5)))(*ops.LayerNorm(2, 2, 1e-5)(x0, x1, x2))",
)
case(
    "ops_add_layer_norm",
    "f32[2,3,8]",
    "f32[2,3,8]",
    "f32[8]",
    "f32[8]",
    op="P.AddLayerNormV2()",
    call="self.op(x0, x1, x2, x3, 1e-5, True)[0]",
    reference="ops.LayerNorm(2, 2, 1e-5)(x0 + x1, x2, x3)[0]",
)
case("ops_lrn", "f32[2,7,4,5]", op="ops.LRN(2, 1.5, 0.1, 0.75)")
case("ops_l2_normalize", "f32[2,7,5]", op="ops.L2Normalize(1, 1e-4)")
case("ops_local_response", "f32[2,7,4,5]", call="ops.lrn(x0)")
case(
    "mint_normalize",
    "f32[2,7,5]",
    call="F.normalize(x0, 2.0, 1)",
    reference="x0 / ops.norm(x0, 2, 1, keepdim=True)",
)
case(
    "ops_batch_norm_elemt",
    "f32[2,3,4,5]",
    "f32[3]",
    "f32[3]",
    "f32[3]",
    "f32[3]>0<1",
    op="P.BatchNormElemt()",
    reference="(x0 - x3.reshape(3, 1, 1)) * x4.reshape(3, 1, 1) * x1.reshape(3, 1, 1) + x2.reshape(3, 1, 1)",
)

# -- matrices --------------------------------------------------------------------------------------

for _ta in (False, True):
    for _tb in (False, True):
        _a, _b = ("5,3" if _ta else "3,5"), ("4,5" if _tb else "5,4")
        _tag = f"{'t' if _ta else 'n'}{'t' if _tb else 'n'}"
        case(f"ops_matmul_{_tag}", f"f32[{_a}]", f"f32[{_b}]", op=f"ops.MatMul({_ta}, {_tb})")
        case(
            f"ops_batch_matmul_{_tag}",
            f"f32[2,3,{_a}]",
            f"f32[2,3,{_b}]",
            op=f"ops.BatchMatMul({_ta}, {_tb})",
        )
case("ops_matmul_i8", "i8[3,5]<9", "i8[5,4]<9", op="ops.MatMul()")
case("ops_matmul_i32", "i32[3,5]<9", "i32[4,5]<9", op="ops.MatMul(transpose_b=True)")
case("ops_matmul_half", "f16[3,5]", "f16[4,5]", op="ops.MatMul(transpose_b=True)")
case("ops_matmul_double", "f64[3,5]", "f64[4,5]", op="ops.MatMul(transpose_b=True)")
case("ops_batch_matmul_dynamic", "f32[2*,3*,5]", "f32[2*,4*,5]", op="ops.BatchMatMul(False, True)")
case("ops_matmul_1d", "f32[5]", "f32[2,5,4]", call="ops.matmul(x0, x1)")
case("mint_matmul", "f32[2,1,3,5]", "f32[4,5,6]", call="mint.matmul(x0, x1)")
case("mint_matmul_vector", "f32[2,3,5]", "f32[5]", call="mint.matmul(x0, x1)")
case("mint_bmm", "f32[2,3,5]", "f32[2,5,6]", call="mint.bmm(x0, x1)")
case("mint_mm", "f32[3,5]", "f32[5,6]", call="mint.mm(x0, x1)", reference="ops.matmul(x0, x1)")
case("mint_mv", "f32[3,5]", "f32[5]", call="mint.mv(x0, x1)", reference="ops.matmul(x0, x1)")
case("mint_dot", "f32[5]", "f32[5]", call="mint.dot(x0, x1)", reference="(x0 * x1).sum()")
case("mint_outer", "f32[5]", "f32[4]", call="mint.outer(x0, x1)", reference="x0.expand_dims(1) * x1")
case("ops_ger", "f32[5]", "f32[4]", call="ops.ger(x0, x1)")
case(
    "mint_addmm",
    "f32[6]",
    "f32[3,5]",
    "f32[5,6]",
    call="mint.addmm(x0, x1, x2, beta=0.5, alpha=2)",
    reference="x0 * 0.5 + ops.matmul(x1, x2) * 2",
)
case(
    "mint_addbmm",
    "f32[3,6]",
    "f32[2,3,5]",
    "f32[2,5,6]",
    call="mint.addbmm(x0, x1, x2, beta=0.5, alpha=2)",
    reference="x0 * 0.5 + ops.matmul(x1, x2).sum(0) * 2",
)
case(
    "mint_baddbmm",
    "f32[2,3,6]",
    "f32[2,3,5]",
    "f32[2,5,6]",
    call="mint.baddbmm(x0, x1, x2, beta=0.5, alpha=2)",
)
case(
    "mint_addmv",
    "f32[3]",
    "f32[3,5]",
    "f32[5]",
    call="mint.addmv(x0, x1, x2, beta=0.5, alpha=2)",
    reference="x0 * 0.5 + ops.matmul(x1, x2) * 2",
)
case("ops_addr", "f32[3,5]", "f32[3]", "f32[5]", call="ops.addr(x0, x1, x2, beta=0.5, alpha=2)")
case("nn_dense", "f32[4,5]", op="nn.Dense(5, 6)")
case("nn_dense_3d", "f32[2,3,5]", op="nn.Dense(5, 6, activation='relu')")
case("nn_dense_plain", "f32[4,5]", op="nn.Dense(5, 6, has_bias=False)")
case("nn_dense_half", "f16[4,5]", op="nn.Dense(5, 6, dtype=ms.float16)")
case("mint_linear", "f32[2,3,5]", "f32[6,5]", "f32[6]", call="F.linear(x0, x1, x2)")
case("mint_linear_2d", "f32[3,5]", "f32[6,5]", "f32[6]", call="F.linear(x0, x1, x2)")
case("mint_linear_plain", "f32[2,3,5]", "f32[6,5]", call="F.linear(x0, x1)")
case("mint_linear_dynamic", "f32[2*,3*,5]", op="mint.nn.Linear(5, 6)")
case("nn_bidense", "f32[4,5]", "f32[4,3]", op="nn.BiDense(5, 3, 6)")
case("ops_bidense", "f32[4,5]", "f32[4,3]", "f32[6,5,3]", call="ops.bidense(x0, x1, x2)")
case("ops_bias_add_5d", "f32[2,3,2,4,5]", "f32[3]", op="ops.BiasAdd(data_format='NCDHW')")
case("ops_bias_add_2d", "f32[2,3]", "f32[3]", op="ops.BiasAdd()")
case(
    "ops_einsum",
    "f32[2,3,5]",
    "f32[2,5,4]",
    call="ops.einsum('bij,bjk->bik', x0, x1)",
    reference="ops.matmul(x0, x1)",
)
case("mint_einsum", "f32[2,3,5]", "f32[2,5,4]", call="mint.einsum('bij,bjk->ik', x0, x1)")
case("mint_einsum_dots", "f32[2,3,5]", "f32[5,4]", call="mint.einsum('...j,jk->...k', x0, x1)")
case("ops_cdist_1", "f32[2,3,5]", "f32[2,4,5]", call="ops.cdist(x0, x1, 1.0)")
case("ops_cdist_inf", "f32[3,5]", "f32[4,5]", call="ops.cdist(x0, x1, float('inf'))")
case("ops_cdist_3", "f32[3,5]", "f32[4,5]", call="ops.cdist(x0, x1, 3.0)")
case("ops_pdist", "f32[4,5]", call="ops.pdist(x0, 2.0)")
case("ops_cross", "f32[2,3,4]", "f32[2,3,4]", call="ops.cross(x0, x1)")
case("mint_cross", "f32[2,4,3]", "f32[2,4,3]", call="mint.cross(x0, x1, 2)")
case("ops_trace", "f32[4,4]", call="ops.trace(x0)")
case("mint_trace", "f32[4,5]", call="mint.trace(x0)", reference="(x0 * ops.eye(4, 5, ms.float32)).sum()")
case(
    "mint_trace_i32",
    "i32[4,5]<9",
    call="mint.trace(x0)",
    reference="(x0 * ops.eye(4, 5, ms.int32)).sum().astype(ms.int64)",
)
case("ops_trace_v2", "f32[3,4,5]", op="P.TraceV2()", call="self.op(x0, 1, 1, 2, None)")
case("ops_det", "f32[2,4,4]", call="ops.det(x0)")
case("ops_slogdet", "f32[2,4,4]", call="ops.slogdet(x0)")
case("ops_inverse", "f32[2,4,4]", call="ops.inverse(x0)")
case("mint_inverse", "f32[4,4]", call="mint.inverse(x0)", reference="ops.inverse(x0)")
case("ops_cholesky", "f32[4,4]", call="ops.cholesky(ops.matmul(x0, x0.T) + ops.eye(4, 4, ms.float32))")
case(
    "ops_cholesky_inverse",
    "f32[4,4]",
    call="ops.cholesky_inverse(ops.tril(x0) + 3 * ops.eye(4, 4, ms.float32))",
)
case(
    "ops_cholesky_solve",
    "f32[4,2]",
    "f32[4,4]",
    call="ops.cholesky_solve(x0, ops.tril(x1) + 3 * ops.eye(4, 4, ms.float32))",
)
case(
    "mint_triangular",
    "f32[4,2]",
    "f32[4,4]",
    call="mint.triangular_solve(x0, x1 + 3 * ops.eye(4, 4, ms.float32))",
    reference="ops.inverse(ops.triu(x1 + 3 * ops.eye(4, 4, ms.float32))) @ x0, x1 + 3 * ops.eye(4, "
    "4, ms.float32)",
)
case("ops_matrix_solve", "f32[2,4,4]", "f32[2,4,3]", call="ops.matrix_solve(x0, x1)")
case("ops_matrix_power", "f32[2,4,4]", call="ops.matrix_power(x0, 3)")
case("ops_matrix_power_neg", "f32[2,4,4]", call="ops.matrix_power(x0, -2)")
case(
    "ops_tridiagonal_matmul",
    "f32[1,4]",
    "f32[1,4]",
    "f32[1,4]",
    "f32[4,3]",
    op="ops.operations.math_ops.TridiagonalMatMul()",
)
case("ops_kron", "f32[2,3]", "f32[4,2]", call="ops.kron(x0, x1)")
case("ops_tensor_dot", "f32[3,4,5]", "f32[5,4,2]", call="ops.tensor_dot(x0, x1, ((1, 2), (1, 0)))")
case("ops_inner", "f32[3,5]", "f32[4,5]", call="ops.inner(x0, x1)")
case("ops_multi_dot", "f32[3,5]", "f32[5,4]", "f32[4,2]", call="ops.matmul(ops.matmul(x0, x1), x2)")
case("ops_matrix_diag", "f32[2,4]", call="ops.matrix_diag(x0)")
case(
    "ops_matrix_diag_k",
    "f32[2,3,4]",
    call="ops.matrix_diag(x0, ms.Tensor([-1, 1], ms.int32), align='LEFT_RIGHT')",
)
case(
    "ops_matrix_diag_part",
    "f32[2,4,5]",
    call="ops.matrix_diag_part(x0, ms.Tensor(0, ms.int32), ms.Tensor(0.0))",
)
case(
    "ops_matrix_diag_part_k",
    "f32[2,4,5]",
    call="ops.matrix_diag_part(x0, ms.Tensor([-1, 2], ms.int32), ms.Tensor(9.0), 'RIGHT_LEFT')",
)
case("ops_matrix_set_diag", "f32[2,4,5]", "f32[2,4]", call="ops.matrix_set_diag(x0, x1)")
case(
    "ops_matrix_set_diag_k",
    "f32[2,4,5]",
    "f32[2,3,4]",
    call="ops.matrix_set_diag(x0, x1, ms.Tensor([-1, 1], ms.int32))",
)
case("ops_matrix_band_part", "f32[2,4,5]", call="ops.matrix_band_part(x0, 1, 2)")
case("ops_matrix_band_part_all", "f32[2,4,5]", call="ops.matrix_band_part(x0, -1, 0)")
case("ops_correlate", "f32[8]", "f32[3]", op="P.Correlate(pad_mode='same')")
case("ops_renorm", "f32[3,4]", call="ops.renorm(x0, 2, 0, 1.5)")
case("ops_vander", "f32[4]", call="ops.vander(x0, 5)")

# -- recurrent -------------------------------------------------------------------------------------

for _cell in ("RNN", "LSTM", "GRU"):
    _low = _cell.lower()
    case(f"nn_{_low}", "f32[3,2,3]", op=f"nn.{_cell}(3, 4)")
    case(f"nn_{_low}_bi", "f32[2,2,3]", op=f"nn.{_cell}(3, 4, 2, bidirectional=True, batch_first=True)")
    case(f"nn_{_low}_plain", "f32[3,2,3]", op=f"nn.{_cell}(3, 4, 2, has_bias=False)")
    case(
        f"nn_{_low}_lengths",
        "f32[3,2,3]",
        op=f"nn.{_cell}(3, 4)",
        call="self.op(x0, None, ms.Tensor([2, 3], ms.int32))",
    )
case(
    "nn_lstm_state",
    "f32[3,2,3]",
    "f32[1,2,4]",
    "f32[1,2,4]",
    op="nn.LSTM(3, 4)",
    call="self.op(x0, (x1, x2))",
)
case("nn_gru_state", "f32[3,2,3]", "f32[1,2,4]", op="nn.GRU(3, 4)", call="self.op(x0, x1)")
case("nn_rnn_relu", "f32[3,2,3]", op="nn.RNN(3, 4, nonlinearity='relu')")
case("nn_rnn_cell", "f32[2,3]", "f32[2,4]", op="nn.RNNCell(3, 4, nonlinearity='relu')")
case("nn_lstm_cell", "f32[2,3]", "f32[2,4]", "f32[2,4]", op="nn.LSTMCell(3, 4)", call="self.op(x0, (x1, x2))")
case("nn_gru_cell", "f32[2,3]", "f32[2,4]", op="nn.GRUCell(3, 4, has_bias=True)")
case(
    "dynamic_rnn",
    "f16[3,2,3]",
    "f16[7,16]",
    "f16[16]",
    "f16[1,2,4]",
    "f16[1,2,4]",
    op="ops.DynamicRNN()",
    call="(lambda r: (r[0], r[2][-1]))(self.op(x0, x1, x2, None, x3, x4))",
    setup="self.cell = nn.layer.rnns._DynamicRNNBase('LSTM')",
    reference="(lambda w, r: (r[0].half(), r[1][1].half()))(None, self.cell(x0.float(), "
    "(x3[0].float(), x4[0].float()), "
    "None, *(ops.concat([x1[rows].T.float()[g * 4 : g * 4 + 4] for g in (0, 2, 1, 3)]) "
    "for rows in (slice(0, 3), slice(3, 7))), ops.concat([x2[g * 4 : g * 4 + 4].float() for g in (0, "
    "2, 1, 3)]), ops.zeros(16)))",
)
for _order in ("rzh", "zrh"):
    _swap = "0, 1, 2" if _order == "rzh" else "1, 0, 2"
    case(
        f"dynamic_gru_{_order}",
        "f16[3,2,3]",
        "f16[3,12]",
        "f16[4,12]",
        "f32[12]",
        "f32[12]",
        "f32[2,4]",
        op=f"ops.DynamicGRUV2(gate_order='{_order}')",
        call="self.op(x0, x1, x2, x3, x4, None, x5)[0]",
        setup="self.cell = nn.layer.rnns._DynamicRNNBase('GRU')",
        reference="self.cell(x0.float(), x5, None, "
        f"*(ops.concat([w.T.float()[g * 4 : g * 4 + 4] for g in ({_swap})]) for w in (x1, x2)), "
        f"*(ops.concat([w[g * 4 : g * 4 + 4] for g in ({_swap})]) for w in (x3, x4)))[0]",
    )
case("ops_ctc_greedy", "f32[6,2,5]", call="ops.ctc_greedy_decoder(x0, ms.Tensor([4, 6], ms.int32))")

# -- images ----------------------------------------------------------------------------------------

_RESIZE = (
    "ops.operations.image_ops.ResizeV2('{where}', '{mode}')(x0, ms.Tensor([], ms.float32), "
    "ms.Tensor([1, 1, 1, 1], ms.float32), ms.Tensor([1, 2, *{size}], ms.int64))"
)
for _mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
    _tag = _mode.replace("-", "_")
    case(f"ops_interpolate_{_tag}_up", "f32[1,2,5,6]", call=f"ops.interpolate(x0, (9, 8), mode='{_mode}')")
    case(f"ops_interpolate_{_tag}_down", "f32[1,2,9,8]", call=f"ops.interpolate(x0, (5, 3), mode='{_mode}')")
for _mode in ("bilinear", "bicubic"):
    case(
        f"ops_interpolate_{_mode}_corners",
        "f32[1,2,5,6]",
        call=f"ops.interpolate(x0, (9, 4), mode='{_mode}', align_corners=True)",
    )
    case(
        f"mint_interpolate_{_mode}",
        "f32[1,2,5,6]",
        call=f"F.interpolate(x0, (9, 4), mode='{_mode}')",
        reference=_RESIZE.format(
            mode="linear" if _mode == "bilinear" else "cubic", where="half_pixel", size="(9, 4)"
        ),
    )
    case(
        f"mint_interpolate_{_mode}_corners",
        "f32[1,2,5,6]",
        call=f"F.interpolate(x0, scale_factor=(2.0, 1.5), mode='{_mode}', align_corners=True)",
        reference=_RESIZE.format(
            mode="linear" if _mode == "bilinear" else "cubic", where="align_corners", size="(10, 9)"
        ),
    )
case("ops_interpolate_linear", "f32[2,3,7]", call="ops.interpolate(x0, 11, mode='linear')")
case(
    "ops_interpolate_linear_corners",
    "f32[2,3,7]",
    call="ops.interpolate(x0, 4, mode='linear', align_corners=True)",
)
case("ops_interpolate_trilinear", "f32[1,2,3,4,5]", call="ops.interpolate(x0, (5, 3, 7), mode='trilinear')")
case("ops_interpolate_nearest_3d", "f32[1,2,3,4,5]", call="ops.interpolate(x0, (5, 3, 7), mode='nearest')")
case("ops_interpolate_nearest_1d", "f32[2,3,7]", call="ops.interpolate(x0, 11, mode='nearest')")
case(
    "ops_interpolate_scale",
    "f32[1,2,5,6]",
    call="ops.interpolate(x0, scale_factor=1.7, mode='nearest', recompute_scale_factor=True)",
)
case("mint_interpolate_nearest", "f32[1,2,5,6]", call="F.interpolate(x0, scale_factor=2.0, mode='nearest')")
case("mint_interpolate_nearest_size", "f32[1,2,5,6]", call="F.interpolate(x0, (7, 3), mode='nearest')")
case("mint_interpolate_nearest_1d", "f32[2,3,7]", call="F.interpolate(x0, scale_factor=1.7, mode='nearest')")
case("mint_interpolate_nearest_3d", "f32[1,2,3,4,5]", call="F.interpolate(x0, (5, 3, 7), mode='nearest')")
case(
    "mint_interpolate_linear",
    "f32[2,3,7]",
    call="F.interpolate(x0, 11, mode='linear')",
    reference="ops.interpolate(x0, 11, mode='linear')",
)
case(
    "mint_interpolate_trilinear",
    "f32[1,2,3,4,5]",
    call="F.interpolate(x0, scale_factor=(2.0, 1.5, 1.3), mode='trilinear')",
)
case(
    "mint_interpolate_dynamic",
    "f32[1*,2,5*,6*]",
    call="F.interpolate(x0, scale_factor=(2.0, 2.0), mode='bilinear')",
    reference="ops.interpolate(x0, (10, 12), mode='bilinear')",
)
case(
    "nn_upsample",
    "f32[1,2,5,6]",
    op="nn.Upsample(scale_factor=2.0, mode='nearest', recompute_scale_factor=True)",
)
for _align, _half in ((False, False), (True, False), (False, True)):
    _tag = "corners" if _align else "half" if _half else "plain"
    for _size, _way in (("(9, 4)", "a"), ("(3, 11)", "b")):
        case(
            f"ops_resize_bilinear_{_tag}_{_way}",
            "f32[1,2,6,5]",
            op=f"ops.ResizeBilinearV2({_align}, {_half})",
            call=f"self.op(x0, {_size})",
        )
        case(
            f"ops_resize_nearest_{_tag}_{_way}",
            "f32[1,2,6,5]",
            op=f"ops.ResizeNearestNeighborV2({_align}, {_half})",
            call=f"self.op(x0, {_size})",
        )
        case(
            f"ops_resize_bicubic_{_tag}_{_way}",
            "f32[1,2,6,5]",
            op=f"ops.operations.image_ops.ResizeBicubic({_align}, {_half})",
            call=f"self.op(x0, {_size})",
        )
    if not _half:
        case(
            f"ops_resize_nearest_v1_{_tag}", "f32[1,2,6,5]", op=f"ops.ResizeNearestNeighbor((9, 4), {_align})"
        )
case("ops_resize_bilinear_half_type", "f16[1,2,6,5]", op="ops.ResizeBilinearV2()", call="self.op(x0, (9, 4))")
case(
    "ops_resize_area",
    "f32[1,6,5,2]",
    op="ops.operations.image_ops.ResizeArea()",
    call="self.op(x0, ms.Tensor([9, 4], ms.int32))",
)
for _mode in ("nearest", "linear", "cubic"):
    for _where in ("half_pixel", "align_corners") if _mode != "nearest" else ("half_pixel",):
        _size = 9 if _mode == "cubic" else 1
        case(
            f"ops_resize_v2_{_mode}_{_where}",
            f"f32[1,2,{6 if _size > 1 else 1},5]",
            op=f"ops.operations.image_ops.ResizeV2('{_where}', '{_mode}')",
            call=f"self.op(x0, ms.Tensor([], ms.float32), ms.Tensor([1.0, 1.0, 1.5, 0.8], "
            f"ms.float32), ms.Tensor([1, 2, {_size}, 4], ms.int64))",
        )
for _mode in ("bilinear", "nearest"):
    for _pad in ("zeros", "border", "reflection"):
        case(
            f"ops_grid_sample_{_mode}_{_pad}",
            "f32[1,2,5,6]",
            "f32[1,4,3,2]",
            call=f"ops.grid_sample(x0, x1, '{_mode}', '{_pad}')",
        )
    case(
        f"ops_grid_sample_{_mode}_3d",
        "f32[1,2,3,5,6]",
        "f32[1,2,4,3,3]",
        call=f"ops.grid_sample(x0, x1, '{_mode}', 'zeros')",
    )
    case(
        f"ops_grid_sample_{_mode}_corners",
        "f32[1,2,5,6]",
        "f32[1,4,3,2]",
        call=f"ops.grid_sample(x0, x1, '{_mode}', 'border', True)",
    )
case("mint_grid_sample", "f32[1,2,5,6]", "f32[1,4,3,2]", call="F.grid_sample(x0, x1)")
case("ops_affine_grid", "f32[2,2,3]", call="ops.affine_grid(x0, (2, 3, 4, 5), True)")
case("ops_affine_grid_plain", "f32[2,2,3]", call="ops.affine_grid(x0, (2, 3, 4, 5), False)")
case("ops_affine_grid_3d", "f32[2,3,4]", call="ops.affine_grid(x0, (2, 3, 2, 4, 5), False)")
_ROIS = (
    "ops.concat((ops.floor(x1[:, :1] * 2), ops.sort(x1[:, 1:].reshape(3, 2, 2) * 8, 1)[0].reshape(3, 4)), 1)"
)
for _end, _count in ((0, 2), (1, 2), (0, 3)):
    case(
        f"ops_roi_align_{_end}{_count}",
        "f32[2,3,8,9]",
        "f32[3,5]>0<1",
        op=f"ops.ROIAlign(3, 2, 0.9, {_count}, {_end})",
        call=f"self.op(x0, {_ROIS})",
    )
for _method in ("bilinear", "nearest", "bilinear_v2"):
    case(
        f"ops_crop_and_resize_{_method}",
        "f32[2,6,7,3]",
        "f32[4,4]>0<1",
        "i32[4]<2",
        call=f"ops.crop_and_resize(x0, x1, x2, (4, 3), '{_method}', 0.5)",
    )
_BOXES = "ops.concat((x0[:, :2], x0[:, :2] + x0[:, 2:4] * 0.6), 1)"
case(
    "ops_nms_with_mask",
    "f32[12,5]>0<1",
    op="ops.NMSWithMask(0.3)",
    call=f"self.op(ops.concat(({_BOXES}, x0[:, 4:]), 1))",
)
_SPAN = "ops.relu(ops.minimum(b[:, {1}], b[:, {1}:{1} + 1]) - ops.maximum(b[:, {0}], b[:, {0}:{0} + 1]))"
_AREA = "((b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]))"
_COMMON = f"({_SPAN.format(0, 2)} * {_SPAN.format(1, 3)})"
_IOUS = f"{_COMMON} / ({_AREA} + {_AREA}.reshape(-1, 1) - {_COMMON})"
case(
    "ops_nms_v3",
    "f32[12,4]>0<1",
    "f32[12]>0<1",
    op="ops.operations.image_ops.NonMaxSuppressionV3()",
    call=f"self.op({_BOXES}, x1, ms.Tensor(6, ms.int32), ms.Tensor(0.4, ms.float32), ms.Tensor(0.2, "
    f"ms.float32))",
    reference=f"(lambda b: ops.operations.image_ops.NonMaxSuppressionWithOverlaps()({_IOUS}, x1, "
    f"ms.Tensor(6, ms.int32), ms.Tensor(0.4, ms.float32), ms.Tensor(0.2, ms.float32)))({_BOXES})",
)
case(
    "ops_nms_overlaps",
    "f32[6,6]>0<1",
    "f32[6]>0<1",
    op="ops.operations.image_ops.NonMaxSuppressionWithOverlaps()",
    call="self.op(x0, x1, ms.Tensor(4, ms.int32), ms.Tensor(0.5, ms.float32), ms.Tensor(0.1, ms.float32))",
)
case("ops_pixel_shuffle", "f32[2,12,3,4]", call="ops.pixel_shuffle(x0, 2)")
case("ops_pixel_unshuffle", "f32[2,3,4,6]", call="ops.pixel_unshuffle(x0, 2)")
case("mint_pixel_shuffle", "f32[2,12,3,4]", call="F.pixel_shuffle(x0, 2)")
case("ops_depth_to_space", "f32[2,12,3,4]", op="ops.DepthToSpace(2)")
case("ops_space_to_depth", "f32[2,3,4,6]", op="ops.SpaceToDepth(2)")
case("ops_channel_shuffle", "f32[2,6,3,4]", call="ops.channel_shuffle(x0, 3)")
case("ops_hsv_to_rgb", "f32[2,3,4,3]>0<1", op="ops.operations.image_ops.HSVToRGB()")
case("ops_rgb_to_hsv", "f32[2,3,4,3]>0<1", op="ops.operations.image_ops.RGBToHSV()")
case(
    "ops_adjust_contrast",
    "f32[3,4,3]>0<1",
    op="ops.operations.image_ops.AdjustContrastv2()",
    call="self.op(x0, ms.Tensor(1.5, ms.float32))",
)
case(
    "ops_adjust_saturation",
    "f32[3,4,3]>0<1",
    op="ops.operations.image_ops.AdjustSaturation()",
    call="self.op(x0, ms.Tensor(1.5, ms.float32))",
)
case(
    "ops_adjust_hue",
    "f32[3,4,3]>0<1",
    op="ops.operations.image_ops.AdjustHue()",
    call="self.op(x0, ms.Tensor(0.3, ms.float32))",
)
case("ops_iou", "f32[5,4]>0<1", "f32[3,4]>0<1", call="ops.iou(x0 * 9, x1 * 9)")
case("ops_iof", "f32[5,4]>0<1", "f32[3,4]>0<1", call="ops.iou(x0 * 9, x1 * 9, 'iof')")
case("ops_check_valid", "f32[5,4]>0<30", "f32[3]>15<30", call="ops.check_valid(x0, x1)")
case(
    "ops_bounding_box_decode",
    "f32[5,4]>0<9",
    "f32[5,4]",
    op="ops.BoundingBoxDecode((12, 14), (0.1, 0.0, 0.2, 0.0), (1.0, 0.5, 1.0, 2.0), 0.1)",
)
case(
    "ops_bounding_box_encode",
    "f32[5,4]>0<9",
    "f32[5,4]>0<9",
    op="ops.BoundingBoxEncode()",
    call="self.op(ops.concat((x0[:, :2], x0[:, :2] + x0[:, 2:] + 1), 1), ops.concat((x1[:, :2], "
    "x1[:, :2] + x1[:, 2:] + 1), 1))",
)
case(
    "ops_extract_volume_patches",
    "f32[1,2,4,5,6]",
    op="ops.operations.array_ops.ExtractVolumePatches((1, 1, 2, 2, 2), (1, 1, 1, 2, 2), 'VALID')",
)
case("ops_space_to_batch_nd", "f32[2,3,4,6]", op="ops.SpaceToBatchND([2, 2], [[0, 0], [1, 1]])")
case("ops_batch_to_space_nd", "f32[8,3,2,4]", call="ops.batch_to_space_nd(x0, [2, 2], [[0, 0], [1, 1]])")
case(
    "ops_space_to_batch",
    "f32[2,3,4,6]",
    op="ops.operations.array_ops.SpaceToBatch(2, [[0, 0], [1, 1]])",
    reference="ops.SpaceToBatchND([2, 2], [[0, 0], [1, 1]])(x0)",
)
case(
    "ops_batch_to_space",
    "f32[8,3,2,4]",
    op="ops.BatchToSpace(2, [[0, 0], [1, 1]])",
    reference="ops.batch_to_space_nd(x0, [2, 2], [[0, 0], [1, 1]])",
)


# -- attention: kernels for Ascend alone, so the references are their formulas -----------------------


def attend(q: str, k: str, v: str, scale: float, masked: str = "", added: str = "") -> str:
    """The attention of q, k, v, given with heads before the sequence."""
    scores = f"ops.matmul({q}, ops.swapaxes({k}, -1, -2))"
    scores = f"({scores} + {added}) * {scale}" if added else f"{scores} * {scale}"
    if masked:
        scores = f"ops.masked_fill({scores}, {masked}, -1e30)"
    return f"ops.matmul(ops.softmax({scores}, -1), {v})"


def heads(x: str, layout: str, count: int) -> str:
    """x of a layout as batch, heads, sequence, dimension."""
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return f"{x}.swapaxes(1, 2)"
    batch_first = x if layout == "BSH" else f"{x}.swapaxes(0, 1)"
    return f"ops.reshape({batch_first}, (2, -1, {count}, 4)).swapaxes(1, 2)"


def back(y: str, layout: str) -> str:
    """The inverse of `heads`."""
    if layout == "BNSD":
        return y
    y = f"{y}.swapaxes(1, 2)"
    if layout == "BSND":
        return y
    y = f"ops.reshape({y}, (2, 3, 8))"
    return y if layout == "BSH" else f"{y}.swapaxes(0, 1)"


_SHAPES = {"BSH": ("2,3,8", "2,5,8"), "SBH": ("3,2,8", "5,2,8"), "BNSD": ("2,2,3,4", "2,2,5,4")}
_SHAPES["BSND"] = ("2,3,2,4", "2,5,2,4")
_HEADS = {layout: [heads(f"x{i}", layout, 2) for i in range(3)] for layout in _SHAPES}
for _layout, (_q, _kv) in _SHAPES.items():
    _in = (f"f16[{_q}]", f"f16[{_kv}]", f"f16[{_kv}]")
    _wide = [h.replace(f"x{i}", f"x{i}.float()") for i, h in enumerate(_HEADS[_layout])]
    case(
        f"flash_attention_{_layout.lower()}",
        *_in,
        op=f"P.FlashAttentionScore(2, scale_value=0.5, input_layout='{_layout}')",
        call="self.op(x0, x1, x2)[3]",
        reference=back(attend(*_wide, 0.5), _layout) + ".half()",
    )
    case(
        f"flash_attention_masked_{_layout.lower()}",
        *_in,
        "u8[2,1,3,5]",
        op=f"P.FlashAttentionScore(2, scale_value=0.5, input_layout='{_layout}')",
        call="self.op(x0, x1, x2, None, None, None, x3)[3]",
        reference=back(attend(*_wide, 0.5, "x3.bool()"), _layout) + ".half()",
    )
    if _layout == "SBH":
        continue
    case(
        f"prompt_flash_attention_{_layout.lower()}",
        *_in,
        "b[2,1,3,5]",
        op=f"P.PromptFlashAttention(2, 0.5, input_layout='{_layout}')",
        call="self.op(x0, x1, x2, x3)",
        reference=back(attend(*_wide, 0.5, "x3"), _layout) + ".half()",
    )
_WIDE = [f"x{i}.float()" for i in range(3)]
_REPEATED = [_WIDE[0], *(f"ops.repeat_interleave({w}, 2, 1)" for w in _WIDE[1:])]
_GROUPED = ("f16[2,4,3,4]", "f16[2,2,5,4]", "f16[2,2,5,4]")
case(
    "flash_attention_grouped",
    *_GROUPED,
    "b[2,1,3,5]",
    op="P.FlashAttentionScore(4, scale_value=0.5, input_layout='BNSD')",
    call="self.op(x0, x1, x2, None, None, None, x3)[3]",
    reference=attend(*_REPEATED, 0.5, "x3") + ".half()",
)
case(
    "flash_attention_shift",
    *_GROUPED,
    "f16[2,4,3,5]",
    op="P.FlashAttentionScore(4, scale_value=0.5, input_layout='BNSD')",
    call="self.op(x0, x1, x2, x3)[3]",
    reference=attend(*_REPEATED, 0.5, added="x3.float()") + ".half()",
)
for _mode, _diagonal in ((2, 0), (3, 2)):
    case(
        f"flash_attention_causal_{_mode}",
        *_GROUPED,
        "u8[1,1]",
        op=f"P.FlashAttentionScore(4, scale_value=0.5, input_layout='BNSD', sparse_mode={_mode})",
        call="self.op(x0, x1, x2, None, None, None, ops.broadcast_to(x3, (2048, 2048)))[3]",
        reference=attend(*_REPEATED, 0.5, f"ops.triu(ops.ones((3, 5)), {_diagonal + 1}).bool()") + ".half()",
    )
case(
    "prompt_flash_attention_lengths",
    *_GROUPED,
    op="P.PromptFlashAttention(4, 0.5, input_layout='BNSD', num_key_value_heads=2)",
    call="self.op(x0, x1, x2, None, None, (3, 5))",
    reference=attend(*_REPEATED, 0.5, "(ops.arange(5) >= ms.Tensor([3, 5]).reshape(2, 1, 1, 1))") + ".half()",
)
case(
    "incre_flash_attention",
    "f16[2,1,16]",
    "f16[2,5,8]",
    "f16[2,5,8]",
    op="P.IncreFlashAttention(4, 'BSH', 0.5, 2)",
    call="self.op(x0, (x1,), (x2,), None, (3, 5))",
    reference=(
        "ops.reshape("
        + attend(
            "ops.reshape(x0.float(), (2, 4, 1, 4))",
            *(
                f"ops.repeat_interleave(ops.reshape(x{i}.float(), (2, 5, 2, 4)).swapaxes(1, 2), 2, 1)"
                for i in (1, 2)
            ),
            0.5,
            "(ops.arange(5) >= ms.Tensor([3, 5]).reshape(2, 1, 1, 1))",
        )
        + ".half(), (2, 1, 16))"
    ),
)
case(
    "fused_infer_attention",
    *_GROUPED,
    "b[2,1,3,5]",
    op="P.FusedInferAttentionScore(4, 0.5, input_layout='BNSD', num_key_value_heads=2)",
    call="self.op(x0, (x1,), (x2,), None, x3)[0]",
    reference=attend(*_REPEATED, 0.5, "x3") + ".half()",
)
case(
    "rotary_half",
    "f32[2,3,4,6]",
    "f32[1,1,4,6]",
    "f32[1,1,4,6]",
    op="P.RotaryPositionEmbedding()",
    reference="x0 * x1 + ops.concat((-x0[..., 3:], x0[..., :3]), -1) * x2",
)
case(
    "rotary_interleaved",
    "f32[2,3,4,6]",
    "f32[1,1,4,6]",
    "f32[1,1,4,6]",
    op="P.RotaryPositionEmbedding()",
    call="self.op(x0, x1, x2, 1)",
    reference="x0 * x1 + ops.stack((-x0[..., 1::2], x0[..., ::2]), -1).reshape(2, 3, 4, 6) * x2",
)
case(
    "swiglu",
    "f32[2,3,8]",
    op="P.Swiglu()",
    reference="x0[..., :4] * ops.sigmoid(x0[..., :4]) * x0[..., 4:]",
)
case(
    "swiglu_first",
    "f32[4,3]",
    op="P.Swiglu()",
    call="self.op(x0, 0)",
    reference="x0[:2] * ops.sigmoid(x0[:2]) * x0[2:]",
)
case(
    "nn_multihead_attention",
    "f32[2,3,8]",
    "f32[2,5,8]",
    op="nn.MultiheadAttention(8, 2, batch_first=True).set_train(False)",
    call="self.op(x0, x1, x1)",
)
case(
    "nn_transformer_decoder",
    "f32[2,3,8]",
    "f32[2,5,8]",
    op="nn.TransformerDecoderLayer(8, 2, 16, batch_first=True).set_train(False)",
)
case(
    "reshape_and_cache",
    "f16[3,8]",
    "f16[3,8]",
    op="P.ReshapeAndCache()",
    setup="""
    self.k = ms.Parameter(ops.zeros((4, 2, 2, 4), ms.float16))
    self.v = ms.Parameter(ops.zeros((4, 2, 2, 4), ms.float16))
    """,
    body="""
    self.op(x0, x1, self.k, self.v, ms.Tensor([5, 0, 3], ms.int32))
    return self.k * 2, self.v * 2
    """,
    reference="tuple("
    "ops.tensor_scatter_update(c.reshape(8, 2, 4), ms.Tensor([[5], [0], [3]]), x.reshape(3, 2, "
    "4)).reshape(4, 2, 2, 4)"
    " * 2 for c, x in ((self.k, x0), (self.v, x1)))",
)
case(
    "kv_cache_scatter_update",
    "f16[2,2,3,4]",
    op="P.KVCacheScatterUpdate()",
    setup="self.k = ms.Parameter(ops.zeros((2, 2, 6, 4), ms.float16))",
    body="""
    self.op(self.k, ms.Tensor([1, 3], ms.int64), x0, -2, "update")
    return self.k * 2
    """,
    reference="ops.tensor_scatter_elements(self.k, ops.broadcast_to((ms.Tensor([1, 3]).reshape(2, 1, 1, 1) + "
    "ops.arange(3).reshape(1, 1, 3, 1)), (2, 2, 3, 4)), x0, 2) * 2",
)
case(
    "paged_attention",
    "f16[2,16]",
    "f16[5,3,2,4]",
    "f16[5,3,2,4]",
    op="P.PagedAttention(4, 0.5, 2)",
    call="self.op(x0, x1, x2, ms.Tensor([[4, 1], [2, 0]], ms.int32), ms.Tensor([5, 2], ms.int32))",
    reference=(
        "ops.reshape("
        + attend(
            "ops.reshape(x0.float(), (2, 4, 1, 4))",
            *(
                f"ops.repeat_interleave(ops.reshape(x{i}.float()[ms.Tensor([[4, 1], [2, 0]])], (2, 6, 2, 4))"
                ".swapaxes(1, 2), 2, 1)"
                for i in (1, 2)
            ),
            0.5,
            "(ops.arange(6) >= ms.Tensor([5, 2]).reshape(2, 1, 1, 1))",
        )
        + ".half(), (2, 16))"
    ),
)
_HALVES = (
    "ops.reshape({x}, (3, 2, 4)) * x2.expand_dims(1) + ops.concat((-ops.reshape({x}, (3, 2, 4))[..., 2:], "
)
_HALVES += "ops.reshape({x}, (3, 2, 4))[..., :2]), -1) * x3.expand_dims(1)"
case(
    "apply_rotary",
    "f16[3,8]",
    "f16[3,8]",
    "f16[3,4]",
    "f16[3,4]",
    op="P.ApplyRotaryPosEmb()",
    call="self.op(x0, x1, x2, x3, ms.Tensor([3], ms.int32))",
    reference=", ".join(f"ops.reshape({_HALVES.format(x=x)}, (3, 8))" for x in ("x0", "x1")),
)
case(
    "prompt_flash_attention_bnsd_bsnd",
    *_GROUPED,
    op="P.PromptFlashAttention(4, 0.5, input_layout='BNSD_BSND', num_key_value_heads=2)",
    call="self.op(x0, x1, x2)",
    reference=attend(*_REPEATED, 0.5) + ".half().swapaxes(1, 2)",
)


# -- other types, and dimensions known only at run time -------------------------------------------

case("half_conv1d", "f16[2,4,9]", op="nn.Conv1d(4, 6, 3, pad_mode='same', has_bias=True, dtype=ms.float16)")
case("half_conv_transpose", "f16[2,4,5,6]", op="nn.Conv2dTranspose(4, 6, 3, stride=2, dtype=ms.float16)")
case("half_avg_pool2d", "f16[2,3,9,10]", op="nn.AvgPool2d(3, 2, pad_mode='same')")
case("half_avg_pool3d", "f16[1,2,6,7,8]", op="nn.AvgPool3d(3, 2, pad_mode='pad', padding=1)")
case("half_max_pool2d_indices", "f16[2,3,8,10]", call="ops.max_pool2d(x0, 2, 2, return_indices=True)")
case("half_adaptive_avg_pool2d", "f16[2,3,9,10]", op="nn.AdaptiveAvgPool2d((4, 3))")
case("half_adaptive_max_pool2d", "f16[2,3,9,10]", op="nn.AdaptiveMaxPool2d((4, 3))")
case("half_resize_nearest", "f16[1,2,6,5]", op="ops.ResizeNearestNeighborV2()", call="self.op(x0, (9, 4))")
case(
    "half_resize_bicubic",
    "f16[1,2,6,5]",
    op="ops.operations.image_ops.ResizeBicubic()",
    call="self.op(x0, (9, 4))",
)
case("half_batch_matmul", "f16[2,3,5]", "f16[2,4,5]", op="ops.BatchMatMul(False, True)")
case("half_dense_3d", "f16[2,3,5]", op="nn.Dense(5, 6, dtype=ms.float16)")
case(
    "half_fold",
    "f16[2,3,6,18]",
    call="ops.fold(x0, ms.Tensor([6, 8], ms.int32), (2, 3), padding=0, stride=(2, 1))",
)
case("half_unfold", "f16[2,3,6,7]", call="ops.unfold(x0, (2, 3), padding=1, stride=2)")
case("half_depth_to_space", "f16[2,12,3,4]", op="ops.DepthToSpace(2)")
case("half_matrix_diag", "f16[2,4]", call="ops.matrix_diag(x0)")
case("double_layer_norm", "f64[2,3,8]", "f64[8]", "f64[8]", op="ops.LayerNorm(-1, -1, 1e-5)")
case("double_inverse", "f64[4,4]", call="ops.inverse(x0)")
case("double_grid_sample", "f64[1,2,5,6]", "f64[1,4,3,2]", call="ops.grid_sample(x0, x1)")
case("nn_batch_norm1d_plain", "f32[6,3]", op="nn.BatchNorm1d(3, affine=False).set_train(False)")
case("dynamic_conv1d", "f32[2*,4,9*]", op="nn.Conv1d(4, 6, 3, stride=2, pad_mode='same', has_bias=True)")
case("dynamic_conv3d", "f32[1*,3,5*,6*,7*]", op="nn.Conv3d(3, 4, 3, stride=2, pad_mode='pad', padding=1)")
case("dynamic_conv1d_transpose", "f32[2*,4,9*]", op="nn.Conv1dTranspose(4, 6, 3, stride=2, pad_mode='valid')")
case("dynamic_max_pool_pad", "f32[2*,3,9*,10*]", op="nn.MaxPool2d(3, 2, pad_mode='pad', padding=1)")
case("dynamic_avg_pool_pad", "f32[2*,3,9*,10*]", op="nn.AvgPool2d(3, 2, pad_mode='pad', padding=1)")
case("dynamic_adaptive_avg_pool1d", "f32[2*,3,9]", op="nn.AdaptiveAvgPool1d(3)")
case("dynamic_adaptive_avg_pool3d", "f32[2*,3,5*,6*,7*]", op="nn.AdaptiveAvgPool3d((2, 3, 1))")
case("dynamic_adaptive_max_pool2d", "f32[2*,3,9,10]", op="nn.AdaptiveMaxPool2d((4, 3), return_indices=True)")
case(
    "dynamic_layer_norm", "f32[2*,3*,4,5]", op="nn.LayerNorm((4, 5), begin_norm_axis=2, begin_params_axis=2)"
)
case("dynamic_batch_norm1d", "f32[6*,3]", op="nn.BatchNorm1d(3).set_train(False)")
case("dynamic_matmul", "f32[3*,5]", "f32[4*,5]", op="ops.MatMul(transpose_b=True)")
case("dynamic_dense", "f32[2*,3*,5]", op="nn.Dense(5, 6)")
case("dynamic_cdist", "f32[2*,3*,5]", "f32[2*,4*,5]", call="ops.cdist(x0, x1)")
case(
    "dynamic_resize",
    "f32[1*,2,5*,6*]",
    op="ops.ResizeBilinearV2(half_pixel_centers=True)",
    call="self.op(x0, (x0.shape[2] * 2, x0.shape[3] + 3))",
)
case(
    "dynamic_resize_like",
    "f32[1*,2,5*,6*]",
    "f32[1*,2,9*,8*]",
    op="ops.ResizeNearestNeighborV2()",
    call="self.op(x0, x1.shape[2:])",
)
case("dynamic_grid_sample", "f32[1*,2,5*,6*]", "f32[1*,4*,3*,2]", call="ops.grid_sample(x0, x1)")
case(
    "dynamic_roi_align",
    "f32[1*,3,8*,9*]",
    "f32[3*,4]>0<4",
    op="ops.ROIAlign(3, 2, 0.9)",
    call="self.op(x0, ops.concat((ops.zeros_like(x1[:, :1]), x1[:, :2], x1[:, 2:] + 4), 1))",
)
case(
    "dynamic_crop_and_resize",
    "f32[2*,6*,7*,3]",
    "f32[4*,4]>0<1",
    "i32[4*]<2",
    call="ops.crop_and_resize(x0, x1, x2, (4, 3), 'bilinear', 0.5)",
)
case(
    "dynamic_nms",
    "f32[12*,5]>0<1",
    op="ops.NMSWithMask(0.3)",
    call=f"self.op(ops.concat(({_BOXES}, x0[:, 4:]), 1))",
)
case("dynamic_iou", "f32[5*,4]>0<1", "f32[3*,4]>0<1", call="ops.iou(x0 * 9, x1 * 9)")
case("dynamic_depth_to_space", "f32[2*,12,3*,4*]", op="ops.DepthToSpace(2)")
case("dynamic_pixel_shuffle", "f32[2*,12,3*,4*]", call="ops.pixel_shuffle(x0, 2)")
case("dynamic_channel_shuffle", "f32[2*,6,3*,4*]", op="nn.ChannelShuffle(3)")
case("dynamic_unfold", "f32[2*,3,6*,7*]", call="ops.unfold(x0, (2, 3), padding=1, stride=2)")
case(
    "dynamic_matrix_diag_part",
    "f32[2*,4,5]",
    call="ops.matrix_diag_part(x0, ms.Tensor(0, ms.int32), ms.Tensor(0.0))",
)
case("dynamic_band_part", "f32[2*,4*,5*]", call="ops.matrix_band_part(x0, 1, 2)")
case("dynamic_inverse", "f32[2*,4,4]", call="ops.inverse(x0)")
case("dynamic_bias_add", "f32[2*,3,4*]", "f32[3]", op="ops.BiasAdd()")
case("dynamic_lrn", "f32[2*,7,4*,5*]", op="ops.LRN(2, 1.5, 0.1, 0.75)")
case(
    "dynamic_lstm",
    "f32[3,2*,3]",
    "f32[1,2*,4]",
    "f32[1,2*,4]",
    op="nn.LSTM(3, 4)",
    call="self.op(x0, (x1, x2))",
)
case(
    "dynamic_flash_attention",
    "f16[2*,4,3*,4]",
    "f16[2*,2,5*,4]",
    "f16[2*,2,5*,4]",
    op="P.FlashAttentionScore(4, scale_value=0.5, input_layout='BNSD')",
    call="self.op(x0, x1, x2)[3]",
    reference=attend(*_REPEATED, 0.5) + ".half()",
)
case(
    "dynamic_flash_attention_bsh",
    "f16[2*,3*,16]",
    "f16[2*,5*,8]",
    "f16[2*,5*,8]",
    op="P.FlashAttentionScore(4, scale_value=0.5, input_layout='BSH')",
    call="self.op(x0, x1, x2)[3]",
    reference="ops.reshape("
    + attend(
        "ops.reshape(x0.float(), (2, 3, 4, 4)).swapaxes(1, 2)",
        *(
            f"ops.repeat_interleave(ops.reshape(x{i}.float(), (2, 5, 2, 4)).swapaxes(1, 2), 2, 1)"
            for i in (1, 2)
        ),
        0.5,
    )
    + ".half().swapaxes(1, 2), (2, 3, 16))",
)
case(
    "dynamic_rms_norm",
    "f16[2*,3*,8]",
    "f16[8]",
    op="P.RmsNorm(1e-5)",
    call="self.op(x0, x1)[0]",
    reference="(x0.float() / ops.sqrt((x0.float() * x0.float()).mean(-1, keep_dims=True) + "
    "1e-5)).half() * x1",
)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
