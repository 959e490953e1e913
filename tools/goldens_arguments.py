"""Make goldens of arguments that are seldom given, and that a lowering could leave out.

    python tools/goldens_arguments.py FOLDER [PATTERN ...]

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

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
