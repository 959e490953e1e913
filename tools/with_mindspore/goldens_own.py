"""Make goldens of primitives that are reached by their own names alone, and of what older files call them.

    python tools/with_mindspore/goldens_own.py FOLDER [PATTERN ...]

Needs MindSpore 2.10.
"""

from __future__ import annotations

import sys
from pathlib import Path

from goldens import case, main

X = "f32[3,4]"
U = "f32[3,4]>0.1<3"
B = "b[3,4]"
I = "i32[3,4]<9"  # noqa: E741

# -- elementwise -----------------------------------------------------------------------------------

for _name, _inputs, _call, _same in (
    ("accumulate_nv2", (X, X, X), "O.AccumulateNV2()((x0, x1, x2))", "x0 + x1 + x2"),
    ("acos_ext", ("f32[3,4]>-1<1",), "P.AcosExt()(x0)", "ops.acos(x0)"),
    ("asin_ext", ("f32[3,4]>-1<1",), "P.AsinExt()(x0)", "ops.asin(x0)"),
    ("atan_ext", (X,), "P.AtanExt()(x0)", "ops.atan(x0)"),
    ("any", (B,), "P.Any()(x0)", "ops.any(x0)"),
    ("bitwise_not", (I,), "P.BitwiseNot()(x0)", "ops.invert(x0)"),
    ("bitwise_or_scalar", (I,), "P.BitwiseOrScalar()(x0, 5)", "ops.bitwise_or(x0, ms.Tensor(5, ms.int32))"),
    ("bitwise_xor_tensor", (I, I), "P.BitwiseXorTensor()(x0, x1)", "ops.bitwise_xor(x0, x1)"),
    ("div_mods", (X, U), "P.DivMods()(x0, 2.0, 'floor')", "ops.floor(x0 / 2)"),
    ("div_mod", (X, U), "P.DivMod()(x0, x1, 'trunc')", "ops.trunc(x0 / x1)"),
    ("fmin", (X, X), "O.Fmin()(x0, x1)", "ops.minimum(x0, x1)"),
    ("frac", (X,), "P.Frac()(x0)", "ops.frac(x0)"),
    ("inv", (U,), "O.Inv()(x0)", ""),
    ("is_neg_inf", ("f32[3,4]!",), "P.IsNegInf()(x0)", "ops.isneginf(x0)"),
    ("fast_gelu", (X,), "O.FastGelu()(x0)", "ops.fast_gelu(x0)"),
    ("select_v2", (B, X, "f32[4]"), "P.SelectV2()(x0, x1, x2)", "ops.where(x0, x1, x2)"),
    ("next_after", (X, X), "P.NextAfter()(x0, x1)", ""),
    ("next_after_double", ("f64[3,4]", "f64[3,4]"), "P.NextAfter()(x0, x1)", ""),
    ("next_after_ends", ("f32[8]!", "f32[8]!"), "P.NextAfter()(x0, x1[::-1])", ""),
    ("next_after_double_ends", ("f64[8]!", "f64[8]!"), "P.NextAfter()(x0, x1[::-1])", ""),
    ("hswish_double_ends", ("f64[12]!",), "1.0 / P.HSwish()(x0 * 3.0)", ""),
    ("igamma", ("f32[4,5]>0.1<20", "f32[4,5]>0.01<25"), "O.Igamma()(x0, x1)", ""),
    ("igammac", ("f32[4,5]>0.1<20", "f32[4,5]>0.01<25"), "O.Igammac()(x0, x1)", ""),
    ("betainc", ("f32[4,5]>0.1<20", "f32[4,5]>0.1<20", "f32[4,5]>0.01<0.99"), "P.Betainc()(x0, x1, x2)", ""),
    ("real", (X,), "P.Real()(x0)", ""),
    ("imag", (X,), "O.Imag()(x0)", ""),
    ("conj", (X,), "P.Conj()(x0)", ""),
    ("angle", (X,), "P.Angle()(x0)", "ops.where(x0 < 0, ms.Tensor(np.pi, ms.float32), x0 * 0)"),
    ("equal_ext", (X, X), "P.EqualExt()(x0, x1)", "ops.equal(x0, x1).all()"),
    ("equal_count", (I, I), "O.EqualCount()(x0, x1)", ""),
    ("eps", (X,), "O.Eps()(x0)", ""),
    ("l2_loss", (X,), "O.L2Loss()(x0)", ""),
    ("square_sum_all", (X, X), "O.SquareSumAll()(x0, x1)", ""),
    ("check_numerics", (X,), "O.CheckNumerics()(x0)", ""),
    ("compare_and_bitpack", ("f32[3,16]", "f32[1]"), "O.CompareAndBitpack()(x0, x1[0])", ""),
    ("compare_and_bitpack_bools", ("b[3,16]", "b[1]"), "O.CompareAndBitpack()(x0, x1[0])", ""),
    ("data_format_dim_map", ("i32[4]>-4<4",), "O.DataFormatDimMap('NHWC', 'NCHW')(x0)", ""),
    ("data_format_vec_permute", ("i32[4]<9",), "O.DataFormatVecPermute('NHWC', 'NCHW')(x0)", ""),
    ("data_format_vec_permute_pairs", ("i32[4,2]<9",), "O.DataFormatVecPermute('NCHW', 'NHWC')(x0)", ""),
    ("tensor_add", (X, "f32[4]"), "O.TensorAdd()(x0, x1)", ""),
    ("gelu", (X,), "O.Gelu()(x0)", ""),
    ("identity_n", (X, U), "O.IdentityN()((x0, x1))", "x0, x1"),
    ("float_status", (X,), "O.FloatStatus()(x0)", "ops.zeros((1,), ms.float32)"),
):
    case(f"own_{_name}", *_inputs, call=_call, reference=_same)

# -- arrays ----------------------------------------------------------------------------------------

_IMAGE = "f32[1,2,3,4]"
for _name, _inputs, _call, _same in (
    (
        "arange",
        (X,),
        "P.Arange()(1, 10, 3, ms.int64), P.Arange()(0.5, 2.5, 0.5, ms.float32)",
        "ops.arange(1, 10, 3), ops.arange(0.5, 2.5, 0.5)",
    ),
    ("bincount", ("i32[9]<5", "f32[9]"), "O.Bincount()(x0, ms.Tensor(5, ms.int32), x1)", ""),
    (
        "batch_to_space_nd_v2",
        ("f32[4,2,3,1]",),
        "O.BatchToSpaceNDV2()(x0, ms.Tensor([2, 2], ms.int64), ms.Tensor([[0, 1], [1, 0]], ms.int64))",
        "ops.batch_to_space_nd(x0, (2, 2), [[0, 1], [1, 0]])",
    ),
    ("chunk", ("f32[5,4]",), "P.Chunk()(x0, 3, 0)", "ops.split(x0, (2, 2, 1), 0)"),
    (
        "constant_pad_nd",
        (X,),
        "P.ConstantPadND()(x0, (1, 2, 0, 1), 0.5)",
        "ops.pad(x0, (1, 2, 0, 1), value=0.5)",
    ),
    ("copy", (X,), "P.Copy()(x0)", "x0 * 1"),
    ("diag_part", ("f32[3,3]",), "O.DiagPart()(x0)", ""),
    ("diagonal_view", ("f32[2,3,4]",), "P.DiagonalView()(x0, 1, 1, 2)", "ops.diagonal(x0, 1, 1, 2)"),
    (
        "dynamic_broadcast_to",
        ("f32[4]", "i64[2]>3<4"),
        "O._inner_ops.DynamicBroadcastTo()(x0, ms.Tensor([3, 4]))",
        "ops.broadcast_to(x0, (3, 4))",
    ),
    (
        "dynamic_broadcast_to_input",
        ("f32[1]", "i64[2]>3<4"),
        "O._inner_ops.DynamicBroadcastTo()(x0, x1)",
        "ops.broadcast_to(x0, (3, 3))",
    ),
    ("einsum_ext", (X, "f32[4,2]"), "P.EinsumExt()('ij,jk->ki', (x0, x1))", "ops.matmul(x0, x1).T"),
    ("expand_as", ("f32[4]", X), "P.ExpandAs()(x0, x1)", "ops.broadcast_to(x0, (3, 4))"),
    ("fill", (X,), "O.Fill()(ms.float32, (2, 3), 1.5)", ""),
    (
        "fill_tensor",
        ("f32[1]",),
        "P.FillTensor()((2, 3), x0[0], ms.float32)",
        "ops.ones((2, 3), ms.float32) * x0[0]",
    ),
    ("fills", (X,), "O.Fills()(x0, 2.5)", "x0 * 0 + 2.5"),
    ("identity", (X,), "P.Identity()(x0)", ""),
    ("index", (X, "i64[2]<3", "i64[2]<4"), "P.Index()(x0, (x1, x2))", "x0[x1, x2]"),
    ("inner_index", (X, "i64[2]<3"), "P.InnerIndex()(x0, (x1,))", "x0[x1]"),
    (
        "index_fill_tensor",
        (X, "f32[1]"),
        "P.IndexFillTensor()(x0, 1, ms.Tensor([0, 2]), x1[0])",
        "ops.index_fill(x0, 1, ms.Tensor([0, 2], ms.int32), x1[0])",
    ),
    ("masked_fill_scalar", (X, B), "P.MaskedFillScalar()(x0, x1, 0.5)", "ops.masked_fill(x0, x1, 0.5)"),
    ("norm", (X,), "P.Norm()(x0, 2.0, (1,), True, None)", "ops.norm(x0, 2, 1, True)"),
    ("ones_like", (X,), "P.OnesLike()(x0)", ""),
    ("pack", (X, X), "O.Pack(1)((x0, x1))", "ops.stack((x0, x1), 1)"),
    ("unpack", ("f32[2,3]",), "O.Unpack(1)(x0)", "ops.unstack(x0, 1)"),
    ("pixel_shuffle", ("f32[1,8,2,3]",), "P.PixelShuffle()(x0, 2)", "ops.pixel_shuffle(x0, 2)"),
    ("rank", (X,), "x0 * P.Rank()(x0)", ""),
    ("size", ("f32[3*,4]",), "x0 * O.Size()(x0)", ""),
    ("reflection_pad_1d", ("f32[2,4]",), "P.ReflectionPad1D()(x0, (1, 2))", "ops.pad(x0, (1, 2), 'reflect')"),
    (
        "reflection_pad_3d",
        (_IMAGE,),
        "P.ReflectionPad3D()(x0, (1, 2, 0, 1, 1, 0))",
        "ops.gather(ops.gather(ops.gather(x0, ms.Tensor([1, 0, 1, 2, 3, 2, 1]), 3), ms.Tensor([0, 1, 2, 1]), 2), ms.Tensor([1, 0, 1]), 1)",
    ),
    (
        "replication_pad_1d",
        ("f32[2,4]",),
        "P.ReplicationPad1D()(x0, (1, 2))",
        "ops.pad(x0, (1, 2), 'replicate')",
    ),
    (
        "replication_pad_2d",
        ("f32[2,3,4]",),
        "P.ReplicationPad2D()(x0, (1, 2, 3, 0))",
        "ops.pad(x0, (1, 2, 3, 0), 'replicate')",
    ),
    (
        "replication_pad_3d",
        (_IMAGE,),
        "P.ReplicationPad3D()(x0, (1, 2, 0, 1, 1, 0))",
        "ops.pad(x0, (1, 2, 0, 1, 1, 0), 'replicate')",
    ),
    ("slice_ext_view", (X,), "P.SliceExtView()(x0, 1, 1, 3, 1)", "x0[:, 1:3]"),
    ("sparse_gather_v2", (X, "i32[2]<3"), "O.SparseGatherV2()(x0, x1, 0)", "ops.gather(x0, x1, 0)"),
    ("gather_v2", (X, "i32[2]<4"), "O.GatherV2()(x0, x1, 1)", "ops.gather(x0, x1, 1)"),
    ("gather_nd_ext", (X, "i64[2,1]<3"), "P.GatherNdExt()(x0, x1)", "ops.gather_nd(x0, x1)"),
    ("split_v", ("f32[2,6]",), "O.SplitV([1, -1, 2], 1, 3)(x0)", "ops.split(x0, (1, 3, 2), 1)"),
    ("stop_gradient", (X,), "O.StopGradient()(x0)", ""),
    ("new_full", (X,), "P.NewFull()(x0, (2, 3), 1.5, None)", "ops.ones((2, 3), ms.float32) * 1.5"),
    (
        "new_ones",
        (X,),
        "P.NewOnes()(x0, (2, 3), ms.int32), P.NewZeros()(x0, (2, 3), None)",
        "ops.ones((2, 3), ms.int32), ops.zeros((2, 3), ms.float32)",
    ),
    (
        "empty",
        (X,),
        "P.Empty()((2, 3), ms.float32) * 0 + x0[0, 0], P.EmptyLike()(x0) * 0",
        "ops.zeros((2, 3), ms.float32) + x0[0, 0], x0 * 0",
    ),
    ("fill_diagonal", ("f32[5,3]",), "O.FillDiagonal(2.5)(x0)", ""),
    ("fill_diagonal_wrap", ("f32[7,3]",), "O.FillDiagonal(2.5, True)(x0)", ""),
    ("fill_diagonal_cube", ("f32[3,3,3]",), "O.FillDiagonal(2.5)(x0)", ""),
    ("fill_diagonal_wide", ("f32[2,5]",), "O.FillDiagonal(2.5)(x0)", ""),
    ("invert_permutation", (X,), "ops.gather(x0, ms.Tensor(O.InvertPermutation()((2, 0, 1))), 0)", ""),
    ("unravel_index", ("i32[4]<24",), "O.UnravelIndex()(x0, ms.Tensor([2, 3, 4], ms.int32))", ""),
    ("tuple_to_array", (X,), "x0[0, :3] * O.TupleToArray()((1, 2, 3))", ""),
    (
        "confusion_matrix",
        ("i32[9]<4", "i32[9]<4"),
        "O.ConfusionMatrix(4)(x0, x1)",
        "ops.scatter_nd(ops.stack((x0, x1), 1), ops.ones((9,), ms.int32), (4, 4))",
    ),
    (
        "histogram_fixed_width",
        ("f32[12]",),
        "O.HistogramFixedWidth(5)(x0, ms.Tensor([-1.0, 1.0], ms.float32))",
        "ops.cast(ops.histc(ops.clamp(x0, -1, 1), 5, -1.0, 1.0), ms.int32)",
    ),
    ("histc_ext", ("f32[12]",), "P.HistcExt()(x0, 4, -1, 1)", "ops.histc(x0, 4, -1.0, 1.0)"),
    ("list_diff", ("i32[9]<6", "i32[3]<6"), "O.ListDiff()(x0, x1)", ""),
    (
        "lower_bound",
        ("f32[2,5]", "f32[2,3]"),
        "O.LowerBound()(ops.sort(x0)[0], x1), O.UpperBound()(ops.sort(x0)[0], x1)",
        "",
    ),
    (
        "lower_bound_int",
        ("i32[2,5]<4", "i32[2,3]<4"),
        "O.LowerBound(ms.int64)(ops.sort(x0)[0], x1), O.UpperBound(ms.int64)(ops.sort(x0)[0], x1)",
        "",
    ),
    ("nth_element", ("f32[2,5]",), "O.NthElement()(x0, 1), O.NthElement(True)(x0, 1)", ""),
    (
        "quantile",
        ("f32[3,5]", "f32[1]>0<1"),
        "O.Quantile(1)(x0, x1)",
        "ops.gather(ops.sort(x0)[0], ops.cast(ops.floor(x1 * 4), ms.int32), 1).T * (1 - x1 * 4 + ops.floor(x1 * 4)) + ops.gather(ops.sort(x0)[0], ops.cast(ops.floor(x1 * 4), ms.int32) + 1, 1).T * (x1 * 4 - ops.floor(x1 * 4))",
    ),
    ("parallel_concat", ("f32[1,4]", "f32[1,4]"), "O.ParallelConcat()((x0, x1))", ""),
    ("sequence_concat", (X, X), "P.SequenceConcat(1)((x0, x1))", "ops.concat((x0, x1), 1)"),
    ("trans_shape", (X,), "O.TransShape()(x0, (3, 4))", "x0"),
    ("unique_with_pad", ("i32[9]<5",), "O.UniqueWithPad()(x0, 7)", ""),
    ("to_dtype", (X,), "P.ToDtype()(x0, ms.float16)", "ops.cast(x0, ms.float16)"),
    ("to_other", (X, "i32[2]"), "P.ToOther()(x0, x1)", "ops.cast(x0, ms.int32)"),
    ("to_device", (X,), "P.ToDevice()(x0, None, ms.float16)", "ops.cast(x0, ms.float16)"),
    ("move_to", (X,), "O.MoveTo()(x0, 'CPU')", "x0"),
    ("copy_to_host", (X,), "P.CopyToHost()(x0)", "x0"),
    ("detach", (X,), "P.Detach()(x0)", "x0"),
    ("expand", ("f32[4]",), "O.Expand()(x0, ms.Tensor([3, 4]))", "ops.broadcast_to(x0, (3, 4))"),
    (
        "ragged_range",
        ("i32[3]>1<4", "i32[3]>5<9"),
        "O.RaggedRange(ms.int32)(x0, x1, ms.Tensor([1, 2, 3], ms.int32))",
        "",
    ),
    ("inner_non_zero", ("f32[3,4]!",), "P.InnerNonZero()(x0 > 0)", "ops.nonzero(x0 > 0)"),
    ("tensor_copy_slices", ("f32[5,4]", "f32[2,4]"), "P.TensorCopySlices()(x0, x1, (1,), (3,), (1,))", ""),
    ("fft_shift", (X,), "P.FFTShift()(x0, (0, 1)), P.IFFTShift()(x0, (1,)), P.FFTShift()(x0)", ""),
    ("fft_freq", (X,), "P.FFTFreq()(5, 0.5), P.RFFTFreq()(6, 0.5)", ""),
):
    case(f"own_{_name}", *_inputs, call=_call, reference=_same)

# -- signals ---------------------------------------------------------------------------------------

for _name in ("DCT", "IDCT"):
    case(f"own_{_name.lower()}", "f32[3,5]", call=f"P.{_name}()(x0), P.{_name}()(x0, 2, 4, 0, 'ortho')")
    case(
        f"own_{_name.lower()}n",
        "f32[3,5]",
        call=f"P.{_name}N()(x0), P.{_name}N()(x0, 2, (2, 6), (0, 1), 'ortho')",
    )

# -- sequences -------------------------------------------------------------------------------------

for _name, _body, _same in (
    ("in_sequence", "return x0 * (2 if O._sequence_ops.InSequence()(x0.shape[1], (3, 5, 7)) else 3)", ""),
    (
        "scalars",
        "n, m = x0.shape\nreturn x0 * P.ScalarMax()(n, m), x0 * P.ScalarMin()(n, m), x0 * P.ScalarUadd()(n), x0 * P.ScalarLog()(P.ScalarCast()(n, ms.float32)), x0 * P.ScalarBool()(n)",
        "x0 * 5, x0 * 3, x0 * 3, x0 * 1.0986122886681098, x0",
    ),
    (
        "sequence",
        "s = O._sequence_ops.SequenceAdd()(x0.shape, (2,))\nt = O._sequence_ops.SequenceMul()(x0.shape, 2)\nu = O._sequence_ops.SequenceSlice()(t, 1, 3, 1)\nreturn x0 * s[2], x0 * t[3], x0 * u[0]",
        "x0 * 2, x0 * 5, x0 * 5",
    ),
    (
        "tuple_tensor",
        "t = P.TupleToTensor()(x0.shape, ms.int64)\nu = O._sequence_ops.ListToTensor()([x0.shape[0], x0.shape[1]], ms.int64)\nreturn t, u, x0 * P.TensorToTuple()(t)[1]",
        "ms.Tensor([3, 5]), ms.Tensor([3, 5]), x0 * 5",
    ),
    ("tensor_list", "return x0 * O._sequence_ops.TensorToList()(ms.Tensor([2, 3]))[1]", "x0 * 3"),
):
    case(f"own_{_name}", "f32[3*,5*]", body=_body, reference=_same)

# -- in place --------------------------------------------------------------------------------------

_KEPT = "self.kept = ms.Parameter(ms.Tensor(np.ones((3, 4), np.float32)), name='kept')"
for _name, _call, _same in (
    ("addmm", "P.InplaceAddmm()(y, x0, x1, 2, 3)", "(x0 @ x1) * 3 + x0 * 4"),
    ("erfinv", "P.InplaceErfinv()(y)", "ops.erfinv(x0 * 2)"),
    ("floor", "P.InplaceFloor()(y)", "ops.floor(x0 * 2)"),
    ("sign", "P.InplaceSign()(y)", "ops.sign(x0 * 2)"),
    ("sub_ext", "y = P.InplaceSubExt()(y, x1, 2)", "x0 * 2 - x1 * 2"),
    ("sub_scalar", "y = P.InplaceSubScalar()(y, 3, 2)", "x0 * 2 - 6"),
    (
        "scatter_reduce",
        "P.InplaceScatterSrcReduce()(y, 1, ms.Tensor([[0], [1], [0], [2]]), x1, 'add')",
        "ops.tensor_scatter_elements(x0 * 2, ms.Tensor([[0], [1], [0], [2]]), x1[:, :1], 1, 'add')",
    ),
    (
        "scatter_value_reduce",
        "P.InplaceScatterValueReduce()(y, 1, ms.Tensor([[0], [1], [0], [2]]), 3.0, 'multiply')",
        "ops.tensor_scatter_mul(x0 * 2, ms.Tensor([[0, 0], [1, 1], [2, 0], [3, 2]]), ms.Tensor([3.0, 3.0, 3.0, 3.0]))",
    ),
    (
        "fill_diagonal",
        "P.InplaceFillDiagonal()(y, 1.5, False)",
        "x0 * 2 * (1 - ops.eye(4)) + 1.5 * ops.eye(4)",
    ),
    (
        "index_copy",
        "P.InplaceIndexCopy()(y, 0, ms.Tensor([2, 0]), x1[:2])",
        "ops.tensor_scatter_update(x0 * 2, ms.Tensor([[2], [0]]), x1[:2])",
    ),
    (
        "index_put",
        "P.InplaceIndexPut()(y, (ms.Tensor([2, 0]), ms.Tensor([1, 1])), x1[0, :2], False)",
        "ops.tensor_scatter_update(x0 * 2, ms.Tensor([[2, 1], [0, 1]]), x1[0, :2])",
    ),
    (
        "index_put_rows",
        "P.InnerInplaceIndexPut()(y, (ms.Tensor([2, 2]),), x1[:2], True)",
        "ops.tensor_scatter_add(x0 * 2, ms.Tensor([[2], [2]]), x1[:2])",
    ),
    (
        "put",
        "P.InplacePut()(y, ms.Tensor([3, 9]), x1[0, :2], True)",
        "ops.tensor_scatter_add((x0 * 2).reshape(-1), ms.Tensor([[3], [9]]), x1[0, :2]).reshape(4, 4)",
    ),
):
    case(
        f"own_inplace_{_name}",
        "f32[4,4]>-0.4<0.4",
        "f32[4,4]",
        body=f"y = x0 * 2\n{_call}\nreturn y",
        reference=_same,
    )
for _name, _call in (
    ("add", "O.InplaceAdd((2, 0))(x0, x1)"),
    ("sub", "O.InplaceSub((2, 0))(x0, x1)"),
    ("update", "O.InplaceUpdate((2, 0))(x0, x1)"),
    ("update_v2", "O.InplaceUpdateV2()(x0, (2, 0), x1)"),
):
    case(f"own_inplace_rows_{_name}", X, "f32[2,4]", call=_call)
case(
    "own_inplace_index_add",
    X,
    "f32[3,2]",
    setup=_KEPT,
    call="O.InplaceIndexAdd(1)(self.kept, ms.Tensor([3, 0], ms.int32), x1)",
)
case(
    "own_scatter_sub",
    "i32[4]<3",
    "f32[4,4]",
    setup=_KEPT,
    call="O.ScatterSub()(self.kept, x0, x1)",
    reference="ops.tensor_scatter_sub(self.kept, x0.reshape(4, 1), x1)",
)
case(
    "own_scatter_non_aliasing_add",
    "i32[4,1]<3",
    "f32[4,4]",
    setup=_KEPT,
    call="O.ScatterNonAliasingAdd()(self.kept, x0, x1)",
    reference="ops.tensor_scatter_add(self.kept, x0, x1)",
)
case("own_scatter_add_with_axis", X, "i32[2,4]<3", "f32[2,4]", call="O.ScatterAddWithAxis(0)(x0, x1, x2)")
for _name in ("Sum", "Mean", "Prod", "Max", "Min"):
    case(
        f"own_segment_{_name.lower()}",
        "f32[6,2]",
        call=f"O.Segment{_name}()(x0, ms.Tensor([0, 0, 1, 3, 3, 3], ms.int32))",
    )
case(
    "own_sparse_to_dense",
    "i32[3]",
    call="O.SparseToDense()(ms.Tensor([[0, 1], [1, 2], [2, 0]], ms.int32), x0, (3, 4))",
)
case(
    "own_sparse_dense_add",
    X,
    "f32[3]",
    call="O.SparseTensorDenseAdd()(ms.Tensor([[0, 1], [1, 2], [0, 1]], ms.int32), x1, ms.Tensor([3, 4], ms.int32), x0)",
)
case(
    "own_sparse_dense_matmul",
    X,
    "f32[3]",
    call="O.SparseTensorDenseMatmul()(ms.Tensor([[0, 1], [1, 2], [0, 1]], ms.int32), x1, (2, 3), x0)",
)
case(
    "own_sparse_dense_matmul_adjoint",
    X,
    "f32[3]",
    call="O.SparseTensorDenseMatmul(True, True)(ms.Tensor([[0, 1], [3, 2], [0, 1]], ms.int32), x1, (4, 3), x0)",
)

# -- layers ----------------------------------------------------------------------------------------

_IMAGES = "f32[1,2,6,7]"
for _rank, _spatial in ((1, "9"), (2, "6,7"), (3, "4,5,6")):
    _kernel = ",".join("3" * _rank)
    for _mode in ("same", "valid"):
        case(
            f"own_conv{_rank}d_padding_{_mode}",
            f"f32[1,2,{_spatial}]",
            f"f32[3,2,{_kernel}]",
            "f32[3]",
            call=f"P.Conv{_rank}DPadding()(x0, x1, x2, 1, '{_mode}', 1, 1)",
            reference=f"ops.conv{_rank}d(x0, x1, x2, 1, '{_mode}', 0, 1, 1)",
        )
for _name, _inputs, _call, _same in (
    (
        "convolution_str",
        (_IMAGES, "f32[3,2,3,3]", "f32[3]"),
        "P.ConvolutionStr()(x0, x1, x2, 1, 'same', 1, False, 0, 1)",
        "ops.conv2d(x0, x1, x2, 1, 'same', 0, 1, 1)",
    ),
    (
        "conv3d_backprop_input",
        ("f32[2,3,2,2,2]", "f32[1,2,3,3,3]"),
        "O.nn_ops.Conv3DBackpropInput(2, 2, pad_mode='valid')(x0, x1, (1, 3, 4, 4, 4))",
        "ops.Conv3DTranspose(2, 3, 2)(x1, x0)",
    ),
    ("avg_pool_v1", (_IMAGES,), "O.nn_ops.AvgPoolV1(2, 2, 'same')(x0)", "ops.AvgPool(2, 2, 'same')(x0)"),
    ("max_pool_v1", (_IMAGES,), "O.nn_ops.MaxPoolV1(2, 2, 'valid')(x0)", "ops.MaxPool(2, 2, 'valid')(x0)"),
    (
        "max_pool_with_argmax",
        (_IMAGES,),
        "O.MaxPoolWithArgmax(2, 2, 'valid')(x0)[0]",
        "ops.MaxPool(2, 2, 'valid')(x0)",
    ),
    (
        "instance_norm_v2",
        ("f32[2,3,4,4]", "f32[2,3,1,1]", "f32[2,3,1,1]", "f32[2,3,1,1]", "f32[2,3,1,1]>0.5<2"),
        "O.nn_ops.InstanceNormV2(False)(x0, x1, x2, x3, x4)[0]",
        "",
    ),
    (
        "instance_norm_v2_training",
        ("f32[2,3,4,4]", "f32[2,3,1,1]", "f32[2,3,1,1]", "f32[2,3,1,1]", "f32[2,3,1,1]>0.5<2"),
        "O.nn_ops.InstanceNormV2(True)(x0, x1, x2, x3, x4)[0]",
        "",
    ),
    ("nll_loss", (X, "i32[3]<4", "f32[4]>0.1<1"), "P.NLLLoss('mean')(x0, x1, x2)[0]", ""),
    (
        "nll_loss2d",
        ("f32[2,3,2,2]", "i64[2,2,2]<3", "f32[3]>0.1<1"),
        "P.NLLLoss2d()(x0, x1, x2, 'mean', -100)[0]",
        "ops.nll_loss(x0, ops.cast(x1, ms.int32), x2)",
    ),
    (
        "dynamic_resize_nearest",
        (_IMAGES,),
        "O._inner_ops.DynamicResizeNearestNeighbor()(x0, ms.Tensor([3, 9], ms.int64))",
        "ops.ResizeNearestNeighbor((3, 9))(x0)",
    ),
    (
        "extract_image_patches",
        (_IMAGES,),
        "P.ExtractImagePatches((1, 1, 2, 3), (1, 1, 2, 1), (1, 1, 1, 2), 'VALID')(x0)",
        "ops.concat([x0[:, :, r:r + 5:2, c:c + 3] for r, c in ((0, 0), (0, 2), (0, 4), (1, 0), (1, 2), (1, 4))], 1)",
    ),
    (
        "extract_image_patches_same",
        (_IMAGES,),
        "P.ExtractImagePatches((1, 1, 3, 2), (1, 1, 2, 2), (1, 1, 1, 1), 'SAME')(x0)",
        "ops.concat([ops.pad(x0, (0, 1, 0, 1))[:, :, r:r + 5:2, c:c + 7:2] for r, c in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1))], 1)",
    ),
    (
        "fractional_max_pool",
        ("f32[2,2,7,9]", "f32[2,2,2]>0<1"),
        "O.FractionalMaxPoolWithFixedKsize((2, 3), (3, 4))(x0, x1)",
        "",
    ),
    (
        "fractional_max_pool3d",
        ("f32[1,2,5,7,9]", "f32[1,2,3]>0<1"),
        "O.FractionalMaxPool3DWithFixedKsize((2, 2, 3), (3, 3, 4))(x0, x1)",
        "",
    ),
    (
        "multilabel_margin_loss",
        ("f32[4]",),
        "O.MultilabelMarginLoss('mean')(x0, ms.Tensor([1, 2, -1, 3], ms.int32))",
        "ops.relu(1 - x0[(1, 2),].reshape(2, 1) + x0[(0, 3),]).sum() / 4, ms.Tensor([0, 1, 1, 0], ms.int32)",
    ),
    (
        "multilabel_margin_loss_none",
        ("f32[2,4]",),
        "O.MultilabelMarginLoss('none')(x0, ms.Tensor([[1, 2, -1, 3], [2, -1, 1, 0]], ms.int32))",
        "ops.stack((ops.relu(1 - x0[0, (1, 2)].reshape(2, 1) + x0[0, (0, 3)]).sum() / 4, ops.relu(1 - x0[1, 2] + x0[1, (0, 1, 3)]).sum() / 4)), ms.Tensor([[0, 1, 1, 0], [0, 0, 1, 0]], ms.int32)",
    ),
    (
        "cosine_embedding_loss",
        (X, X, "i32[3]<1"),
        "P.CosineEmbeddingLoss()(x0, x1, x2 * 2 + 1, 0.1, 'mean')",
        "ops.cosine_embedding_loss(x0, x1, x2 * 2 + 1, 0.1)",
    ),
    ("no_repeat_ngram", ("i32[2,2,9]<3", "f32[2,2,5]"), "O.NoRepeatNGram(3)(x0, x1)", ""),
    ("no_repeat_ngram_1", ("i32[2,2,3]<5", "f32[2,2,5]"), "O.NoRepeatNGram(1)(x0, x1)", ""),
    (
        "combined_nms",
        ("f32[2,6,1,4]>0<1", "f32[2,6,3]>0<1", "i32[]>2<3", "i32[]>5<6", "f32[]>0.4<0.6", "f32[]>0.2<0.4"),
        "O.CombinedNonMaxSuppression(False, True)(ops.concat((x0[..., :2] * 0.4, 0.4 + x0[..., 2:] * 0.7), -1), x1, x2, x3, x4, x5)",
        "",
    ),
    (
        "combined_nms_per_class",
        ("f32[2,6,3,4]>0<1", "f32[2,6,3]>0<1", "i32[]>2<3", "i32[]>9<10", "f32[]>0.4<0.6", "f32[]>0.4<0.6"),
        "O.CombinedNonMaxSuppression(True, False)(ops.concat((x0[..., :2] * 0.4, 0.4 + x0[..., 2:] * 0.7), -1), x1, x2, x3, x4, x5)",
        "",
    ),
):
    case(f"own_{_name}", *_inputs, call=_call, reference=_same)

# -- matrices --------------------------------------------------------------------------------------

_EXP = "ops.eye(3, 3, ms.float64)"
for _number in range(20, 0, -1):
    _EXP = f"(ops.eye(3, 3, ms.float64) + ops.matmul(ops.cast(x0, ms.float64) / {16 * _number}, {_EXP}))"
for _ in range(4):
    _EXP = f"(lambda e: ops.matmul(e, e))({_EXP})"
for _name, _inputs, _call, _same in (
    ("det", ("f32[2,4,4]",), "ops.det(x0)", ""),
    (
        "matrix_triangular_solve",
        ("f32[4,4]>1<2", "f32[4,2]"),
        "O.MatrixTriangularSolve(True, False)(x0, x1)",
        "",
    ),
    (
        "matrix_triangular_solve_upper",
        ("f32[2,4,4]>1<2", "f32[2,4,2]"),
        "O.MatrixTriangularSolve(False, True)(x0, x1)",
        "",
    ),
    ("solve_triangular", ("f32[4,4]>1<2", "f32[4,2]"), "P.SolveTriangular()(x0, x1, 0, True, False)", ""),
    (
        "solve_triangular_int8",
        ("i8[3,3]>1<4", "i8[3,2]>-4<5"),
        "P.SolveTriangular()(x0, x1, 0, True, False)",
        "",
    ),
    (
        "solve_triangular_transposed",
        ("f32[4,4]>1<2", "f32[4,2]"),
        "P.SolveTriangular()(x0, x1, 1, False, True)",
        "",
    ),
    ("lu_unpack", ("f32[4,4]",), "O.LuUnpack()(x0, ms.Tensor([2, 4, 3, 4], ms.int32))", ""),
    ("lu_unpack_tall", ("f32[5,3]",), "O.LuUnpack()(x0, ms.Tensor([2, 5, 3], ms.int32))", ""),
    ("lu_unpack_batch", ("f32[2,3,4]",), "O.LuUnpack()(x0, ms.Tensor([[2, 3, 3], [3, 2, 3]], ms.int32))", ""),
    ("lu_solve", ("f32[4,4]>1<3", "f32[4,2]"), "O.LuSolve()(x1, x0, ms.Tensor([2, 4, 3, 4], ms.int32))", ""),
    ("matrix_exp", ("f32[2,3,3]",), "P.MatrixExp()(x0)", "ops.cast(" + _EXP + ", ms.float32)"),
    ("qr", ("f32[5,3]",), "P.Qr()(x0)", ""),
    ("qr_full", ("f32[2,5,3]",), "P.Qr(True)(x0)", ""),
    ("qr_wide", ("f32[3,5]",), "P.Qr()(x0)", ""),
    ("linalg_qr", ("f32[4,4]",), "mint.linalg.qr(x0)", "ops.qr(x0)"),
    ("geqrf", ("f32[5,3]",), "P.Geqrf()(x0)", ""),
    ("geqrf_wide", ("f32[3,4]",), "P.Geqrf()(x0)", ""),
    ("orgqr", ("f32[5,3]",), "O.Orgqr()(*P.Geqrf()(x0))", ""),
    (
        "ormqr",
        ("f32[5,3]", "f32[5,2]"),
        "O.Ormqr(True, True)(*P.Geqrf()(x0), x1)",
        "ops.matmul(P.Qr(True)(x0)[0].T, x1)",
    ),
    ("lstsq", ("f32[5,3]", "f32[5,2]"), "O.Lstsq()(x0, x1)", ""),
    ("lstsq_wide", ("f32[3,5]", "f32[3,2]"), "O.Lstsq()(x0, x1)", ""),
    ("svd_values", ("f32[2,5,3]",), "P.Svd(False, False)(x0)[0]", ""),
    ("nuclear_norm", ("f32[3,5]",), "O.NuclearNorm()(x0)", ""),
):
    case(f"own_{_name}", *_inputs, call=_call, reference=_same)
case(
    "own_svd",
    "f32[3,5]",
    body="s, u, v = P.Svd()(x0)\nreturn s, ops.matmul(u * s, v.T), ops.matmul(u.T, u), ops.matmul(v.T, v)",
)

# -- along a dimension known only at run time -----------------------------------------------------

_FREE = "f32[2,7*,3]"
case("own_running_best", _FREE, call="ops.cummax(x0, 1), ops.cummin(x0, 1)")
case(
    "own_running_product",
    _FREE,
    call="O.CumProd()(x0, 1), O.CumProd(True, False)(x0, 1), O.CumProd(True, True)(x0, 1)",
)
case("own_running_ints", "i32[6*]<4", call="ops.cummax(x0, 0), ops.cummin(x0, 0), ops.cumprod(x0 + 1, 0)")
case("own_running_one", "f32[1*,3]", call="ops.cummax(x0, 0), ops.cumprod(x0, 0)")

# -- experts ---------------------------------------------------------------------------------------

_TOPK = "f16[4,2]>0<1"
for _name, _inputs, _call, _same in (
    (
        "moe_token_permute",
        (X, "i32[3,2]<4"),
        "P.MoeTokenPermute()(x0, x1)",
        "ops.gather(x0, ops.argsort(ops.cast(x1.reshape(-1), ms.float32) * 8 + ms.Tensor([0., 1, 2, 3, 4, 5])) // 2, 0), ops.argsort(ops.cast(ops.argsort(ops.cast(x1.reshape(-1), ms.float32) * 8 + ms.Tensor([0., 1, 2, 3, 4, 5])), ms.float32))",
    ),
    (
        "moe_token_unpermute",
        ("f32[6,4]", "f32[3,2]>0<1"),
        "P.MoeTokenUnpermute()(x0, ms.Tensor([3, 0, 5, 1, 2, 4], ms.int32), x1)",
        "(ops.gather(x0, ms.Tensor([3, 0, 5, 1, 2, 4]), 0).reshape(3, 2, 4) * x1.expand_dims(-1)).sum(1)",
    ),
    (
        "moe_token_unpermute_plain",
        ("f32[6,4]",),
        "P.InnerMoeTokenUnpermute()(x0, ms.Tensor([3, 0, 5, 1, 2, 4], ms.int32), None, False, None)",
        "ops.gather(x0, ms.Tensor([3, 0, 5, 1, 2, 4]), 0)",
    ),
    (
        "moe_gating",
        ("f32[3,5]",),
        "P.MoeGatingTopKSoftmax()(x0, None, 2)",
        "ops.topk(ops.softmax(x0, -1), 2)[0], ops.cast(ops.topk(ops.softmax(x0, -1), 2)[1], ms.int32), ms.Tensor([[0, 3], [1, 4], [2, 5]], ms.int32)",
    ),
    (
        "moe_init_routing",
        ("f16[3,4]",),
        "P.MoeInitRouting()(x0, ms.Tensor([[0, 3], [1, 4], [2, 5]], ms.int32), ms.Tensor([[2, 0], [1, 2], [0, 1]], ms.int32), 3)",
        "ops.gather(x0, ms.Tensor([0, 2, 1, 2, 0, 1]), 0), ms.Tensor([4, 2, 1, 0, 5, 3], ms.int32), ms.Tensor([0, 0, 1, 1, 2, 2], ms.int32)",
    ),
    (
        "moe_compute_expert_tokens",
        ("f32[1]",),
        "P.MoeComputeExpertTokens()(ms.Tensor([0, 0, 1, 3, 3], ms.int32), 5)",
        "ms.Tensor([2, 3, 3, 5, 5], ms.int32)",
    ),
    (
        "moe_finalize_routing",
        ("f16[6,4]", "f16[3,4]", "f16[4,4]", "f16[3,2]>0<1"),
        "P.MoeFinalizeRouting()(x0, x1, None, x2, x3, ms.Tensor([2, 3, 1, 0, 5, 4], ms.int32), ms.Tensor([[0, 1], [0, 2], [1, 3]], ms.int32))",
        "ops.cast(x1 + ops.cast(x3[:, :1], ms.float32) * (ops.cast(ops.gather(x0, ms.Tensor([2, 3, 1]), 0), ms.float32) + ops.gather(x2, ms.Tensor([0, 0, 1]), 0)) + ops.cast(x3[:, 1:], ms.float32) * (ops.cast(ops.gather(x0, ms.Tensor([0, 5, 4]), 0), ms.float32) + ops.gather(x2, ms.Tensor([1, 2, 3]), 0)), ms.float16)",
    ),
    (
        "grouped_matmul",
        ("f16[6,4]", "f16[3,4,2]", "f16[3,2]"),
        "P.GroupedMatmul(3, 0)((x0,), (x1,), (x2,), None, None, None, None, ms.Tensor([1, 3, 6], ms.int64))[0]",
        "ops.concat((ops.matmul(x0[:1], x1[0]) + x2[0], ops.matmul(x0[1:3], x1[1]) + x2[1], ops.matmul(x0[3:], x1[2]) + x2[2]))",
    ),
    (
        "grouped_matmul_v4",
        ("f16[6,4]", "f16[3,4,2]"),
        "P.GroupedMatmulV4()((x0,), (x1,), None, None, None, None, None, None, ms.Tensor([2, 0, 4], ms.int64), None, None, None, 3, 0, 1)[0]",
        "ops.concat((ops.matmul(x0[:2], x1[0]), ops.matmul(x0[2:], x1[2])))",
    ),
    (
        "grouped_matmul_pairs",
        ("f16[6,4]", "f16[3,4]", "f16[4,2]", "f16[4,3]"),
        "P.GroupedMatmulV4()((x0, x1), (x2, x3), None, None, None, None, None, None, None, None, None, None, 0, -1)",
        "ops.matmul(x0, x2), ops.matmul(x1, x3)",
    ),
):
    case(f"own_{_name}", *_inputs, call=_call, reference=_same)

# -- quantized -------------------------------------------------------------------------------------

_GRID = "ops.floor((ops.clamp(x0, {0}, {1}) - {0}) / {2} + 0.5) * {2} + {0}"
for _name, _inputs, _call, _same in (
    (
        "fake_quant_per_layer",
        ("f32[2,3,4]",),
        "O.FakeQuantPerLayer(training=False)(x0, ms.Tensor([-1.1]), ms.Tensor([2.0]))",
        _GRID.format("(0 - 90) * (3.1 / 255)", "(255 - 90) * (3.1 / 255)", "(3.1 / 255)"),
    ),
    (
        "fake_quant_per_layer_narrow",
        ("f32[2,3,4]",),
        "O.FakeQuantPerLayer(num_bits=4, symmetric=True, narrow_range=True, training=False)(x0, ms.Tensor([-1.0]), ms.Tensor([0.5]))",
        _GRID.format("(-1.0)", "1.0", "(1 / 7)"),
    ),
    (
        "fake_quant_per_channel",
        ("f32[2,2,4]",),
        "O.FakeQuantPerChannel(training=False, channel_axis=1)(x0, ms.Tensor([-1.0, -2.0]), ms.Tensor([1.55, 0.55]))",
        "ops.stack((ops.floor((ops.clamp(x0[:, 0], -1.0, 1.55) + 1) / 0.01 + 0.5) * 0.01 - 1, ops.floor((ops.clamp(x0[:, 1], -2.0, 0.55) + 2) / 0.01 + 0.5) * 0.01 - 2), 1)",
    ),
    (
        "fake_learned_scale",
        ("f32[2,3,4]",),
        "O.FakeLearnedScaleQuantPerLayer(training=False)(x0, ms.Tensor([1.5]), ms.Tensor([127.0]))",
        "ops.floor(ops.clamp(x0 / 1.5, -1, 1) * 127 + 0.5) / 127 * 1.5",
    ),
    (
        "fake_learned_scale_channel",
        ("f32[2,2,4]",),
        "O.FakeLearnedScaleQuantPerChannel(neg_trunc=True, training=False)(x0, ms.Tensor([1.5, 2.0]), ms.Tensor([15.0]))",
        "ops.floor(ops.clamp(x0 / ms.Tensor([[1.5], [2.0]]), 0, 1) * 15 + 0.5) / 15 * ms.Tensor([[1.5], [2.0]])",
    ),
    (
        "fake_quant_with_bounds",
        ("f32[2,3,4]",),
        "O.FakeQuantWithMinMaxVars(8, True)(x0, ms.Tensor([-1.27]), ms.Tensor([1.27]))",
        "ops.floor((ops.clamp(x0, -1.27, 1.27) + 1.27) / 0.01 + 0.5) * 0.01 - 1.27",
    ),
    (
        "fake_quant_with_bounds_channel",
        ("f32[3,2]",),
        "O.FakeQuantWithMinMaxVarsPerChannel(8, False)(x0, ms.Tensor([-1.0, -2.0]), ms.Tensor([1.55, 0.55]))",
        "ops.stack((ops.floor((ops.clamp(x0[:, 0], -1.0, 1.55) + 1) / 0.01 + 0.5) * 0.01 - 1, ops.floor((ops.clamp(x0[:, 1], -2.0, 0.55) + 2) / 0.01 + 0.5) * 0.01 - 2), 1)",
    ),
    (
        "quant_v2",
        ("f16[3,4]",),
        "P.QuantV2()(x0, ms.Tensor([50.0, 60.0, 70.0, 80.0], ms.float16), ms.Tensor([1.0, 2.0, 3.0, 4.0], ms.float16), False, 'ROUND', ms.int8)",
        "ops.cast(ops.clamp(ops.round(ops.cast(x0, ms.float32) * ms.Tensor([50.0, 60.0, 70.0, 80.0]) + ms.Tensor([1.0, 2.0, 3.0, 4.0])), -128, 127), ms.int8)",
    ),
    (
        "dynamic_quant_ext",
        ("f16[3,4]", "f16[4]>0.5<2"),
        "P.DynamicQuantExt()(x0, x1)",
        "ops.cast(ops.round(ops.cast(x0, ms.float32) * x1 / (ops.abs(ops.cast(x0, ms.float32) * x1).max(1, keepdims=True) / 127)), ms.int8), ops.abs(ops.cast(x0, ms.float32) * x1).max(1) / 127",
    ),
    (
        "quant_batch_matmul",
        ("i8[3,32]>-127<127", "i8[32,16]>-127<127", "i32[16]>-500<500"),
        "P.QuantBatchMatmul(dtype=ms.float16)(x0, x1, ms.Tensor(np.linspace(0.0001, 0.001, 16), ms.float32), None, x2, None)",
        "ops.cast((ops.matmul(ops.cast(x0, ms.float32), ops.cast(x1, ms.float32)) + x2) * ms.Tensor(np.linspace(0.0001, 0.001, 16), ms.float32), ms.float16)",
    ),
    (
        "quant_batch_matmul_token",
        ("i8[3,32]>-127<127", "i8[16,32]>-127<127", "f32[3]>0.01<0.1"),
        "P.QuantBatchMatmul(False, True, ms.bfloat16)(x0, x1, ms.Tensor(np.linspace(0.001, 0.01, 16), ms.bfloat16), None, None, x2).astype(ms.float32)",
        "ops.cast(ops.cast(ops.matmul(ops.cast(x0, ms.float32), ops.cast(x1, ms.float32).T) * ops.cast(ms.Tensor(np.linspace(0.001, 0.01, 16), ms.bfloat16), ms.float32) * x2.expand_dims(-1), ms.bfloat16), ms.float32)",
    ),
    (
        "weight_quant_batch_matmul",
        ("f16[3,8]", "i8[8,4]>-127<127", "f16[4]>0.01<0.02", "f16[4]", "f16[4]"),
        "P.WeightQuantBatchMatmul()(x0, x1, x2, x3, None, None, x4)",
        "ops.cast(ops.matmul(ops.cast(x0, ms.float32), (ops.cast(x1, ms.float32) + x3) * x2) + x4, ms.float16)",
    ),
):
    case(f"own_{_name}", *_inputs, call=_call, reference=_same)
case(
    "own_fake_quant_param",
    X,
    op="O.FakeQuantParam.linear_quant_param(ms.common.dtype.QuantDtype.INT8, 0.5, 1)",
    reference="x0",
)
case(
    "own_deformable_attention",
    "f32[2,20,2,8]",
    "f32[2,3,2,2,4,2]>-0.2<1.2",
    "f32[2,3,2,2,4]>0<1",
    call="P.MultiScaleDeformableAttn()(x0, ms.Tensor([[4, 4], [2, 2]], ms.int32), ms.Tensor([0, 16], ms.int32), x1, x2)",
    reference="(ops.grid_sample(x0[:, :16].transpose(0, 2, 3, 1).reshape(4, 8, 4, 4), x1[:, :, :, 0].transpose(0, 2, 1, 3, 4).reshape(4, 3, 4, 2) * 2 - 1) * x2[:, :, :, 0].transpose(0, 2, 1, 3).reshape(4, 1, 3, 4) + ops.grid_sample(x0[:, 16:].transpose(0, 2, 3, 1).reshape(4, 8, 2, 2), x1[:, :, :, 1].transpose(0, 2, 1, 3, 4).reshape(4, 3, 4, 2) * 2 - 1) * x2[:, :, :, 1].transpose(0, 2, 1, 3).reshape(4, 1, 3, 4)).sum(-1).reshape(2, 16, 3).transpose(0, 2, 1)",
)

# -- values known only at run time -----------------------------------------------------------------------

for _name, _inputs, _call, _same in (
    (
        "arange_free",
        ("f32[3*,2]",),
        "P.Arange()(0, x0.shape[0], 1, ms.int64), ops.arange(1, x0.shape[0] * 2, 2)",
        "ops.arange(0, 3, 1), ops.arange(1, 6, 2)",
    ),
    ("ones_like_free", ("f32[3*,2]",), "P.OnesLike()(x0), ops.zeros_like(x0)", ""),
    ("fill_free", ("f32[3*,2]",), "O.Fill()(ms.float32, x0.shape, 2.5)", ""),
    ("bucketize", ("f32[3,4]",), "O.Bucketize([-0.5, 0.0, 1.0])(x0)", ""),
    (
        "unique_dim",
        ("i32[5,2]<2",),
        "P.UniqueDim()(x0, True, True, 0)[1]",
        "ops.cast(ops.unique_consecutive(ops.sort(x0[:, 0] * 2 + x0[:, 1])[0], True)[1] * 0, ms.int64) + (ops.cast((x0[:, 0] * 2 + x0[:, 1]).reshape(5, 1) > ops.arange(0, 4).reshape(1, 4), ms.int64) * ops.cast(ops.stack([((x0[:, 0] * 2 + x0[:, 1]) == k).any() for k in range(4)]), ms.int64)).sum(1)",
    ),
    ("conjugate_transpose", ("f32[2,3]",), "O.ConjugateTranspose()(x0, (1, 0))", "x0.T"),
    (
        "transpose_batch_matmul",
        ("f16[3,2,4]", "f16[2,4,5]"),
        "P.TransposeBatchMatmulTranspose()(x0, x1, (1, 0, 2), (1, 0, 2), False, False)",
        "ops.cast(ops.matmul(ops.cast(x0, ms.float32).transpose(1, 0, 2), ops.cast(x1, ms.float32)).transpose(1, 0, 2), ms.float16)",
    ),
    (
        "ffn",
        ("f16[3,4]", "f16[4,6]", "f16[6,4]", "f16[6]", "f16[4]"),
        "P.FFNExt('relu', 1)(x0, x1, x2, None, x3, x4)",
        "ops.cast(ops.matmul(ops.relu(ops.matmul(ops.cast(x0, ms.float32), ops.cast(x1, ms.float32)) + x3), ops.cast(x2, ms.float32)) + x4, ms.float16)",
    ),
    (
        "euclidean_norm",
        ("f32[2,3]",),
        "O.EuclideanNorm(True)(x0, ms.Tensor([1], ms.int32))",
        "ops.norm(x0, 2, 1, True)",
    ),
    (
        "grouped_matmul_v2",
        ("f16[6,4]", "f16[4,2]"),
        "P.GroupedMatmulV2()((x0,), (x1,), None, None, None, None, None, None, 0, -1)",
        "ops.matmul(x0, x1)",
    ),
    (
        "moe_init_routing_v2",
        ("f16[3,4]",),
        "P.MoeInitRoutingV2()(x0, ms.Tensor([[2, 0], [1, 2], [0, 1]], ms.int32), 0, 0, 3, 0, 1, False)[:3]",
        "ops.gather(x0, ms.Tensor([0, 2, 1, 2, 0, 1]), 0), ms.Tensor([4, 0, 2, 5, 1, 3], ms.int32), ms.Tensor([2, 4, 6], ms.int32)",
    ),
    (
        "nll_weighted",
        ("f32[3,4]", "i64[3]<4"),
        "F.cross_entropy(x0, x1)",
        "ops.cross_entropy(x0, ops.cast(x1, ms.int32))",
    ),
):
    case(f"own_{_name}", *_inputs, call=_call, reference=_same)
_VALUES = "ops.cast(ops.sort(ops.cast(ops.unique(x0)[0], ms.float32))[0], ms.int32)"
case(
    "own_inner_unique",
    "i32[9]<5",
    call="P.InnerUnique()(x0, True, True)",
    reference=f"{_VALUES}, ops.cast(x0.reshape(9, 1) > {_VALUES}.reshape(1, -1), ms.int64).sum(1)",
)
case("own_print", X, body="print('x0', x0)\nreturn x0 * 2", reference="x0 * 2")
case(
    "own_summary",
    X,
    setup="self.summary = ops.TensorSummary()\nself.scalar = ops.ScalarSummary()",
    body="self.summary('x', x0)\nself.scalar('s', x0[0, 0])\nreturn x0 * 2",
    reference="x0 * 2",
)
case(
    "own_dump",
    X,
    setup="self.dump = ops.TensorDump()",
    body="self.dump('x', x0)\nreturn x0 * 2",
    reference="x0 * 2",
)
case("own_assert", X, body="assert x0.sum() < 1e9, 'too large'\nreturn x0 * 2", reference="x0 * 2")
case(
    "own_assert_op",
    X,
    setup="self.check = O.Assert()",
    body="self.check(x0.sum() < 1e9, [x0])\nreturn x0 * 2",
    reference="x0 * 2",
)
case(
    "own_while_loop",
    "f32[2]",
    body="return ops.WhileLoop()(lambda x: x.sum() < 100, lambda x: x * x + 1, x0)",
)
case("own_fori_loop", "f32[2]", body="return ops.ForiLoop()(0, 3, lambda i, x: x * 2 + i, x0)")
case("own_scan", "f32[2]", body="return ops.Scan()(lambda c, x: (c + x, c * x), x0, (1, 2, 3), None)")

# -- element types ---------------------------------------------------------------------------------

_BRAIN = "ops.cast(x0, ms.bfloat16)"
for _name, _call in {
    "add": "{x} + {y}",
    "mul": "{x} * 3",
    "div": "{x} / {y}",
    "exp": "ops.exp({x})",
    "sqrt": "ops.sqrt(ops.abs({x}))",
    "tanh": "ops.tanh({x})",
    "sigmoid": "ops.sigmoid({x})",
    "gelu": "ops.GeLU()({x})",
    "silu": "ops.silu({x})",
    "relu": "ops.relu({x})",
    "softmax": "ops.softmax({x}, -1)",
    "matmul": "ops.matmul({x}, {y}.T)",
    "batch_matmul": "ops.BatchMatMul()({x}.reshape(1, 3, 4), {y}.reshape(1, 4, 3))",
    "sum": "{x}.sum(1)",
    "mean": "{x}.mean(0)",
    "max": "ops.ReduceMax()({x}, 1)",
    "concat": "ops.concat(({x}, {y}), 1)",
    "stack": "ops.stack(({x}, {y}), 0)",
    "gather": "ops.gather({x}, ms.Tensor([2, 0]), 0)",
    "transpose": "{x}.T",
    "slice": "{x}[1:, ::2]",
    "split": "ops.split({x}, 2, 1)[1]",
    "tile": "ops.tile({x}, (2, 1))",
    "where": "ops.where({x} > {y}, {x}, {y})",
    "cumsum": "ops.cumsum({x}, 1)",
    "clamp": "ops.clamp({x}, -0.5, 0.5)",
    "layer_norm": "ops.LayerNorm(1, 1)({x}, ops.ones(4, ms.bfloat16), ops.zeros(4, ms.bfloat16))[0]",
    "conv2d": "ops.conv2d({x}.reshape(1, 1, 3, 4), {y}[:, :3].reshape(3, 1, 1, 3))",
    "avg_pool": "ops.AvgPool(2, 1)({x}.reshape(1, 1, 3, 4))",
    "max_pool": "ops.MaxPool(2, 1)({x}.reshape(1, 1, 3, 4))",
    "topk": "ops.topk({x}, 2)[0]",
    "argmax": "ops.cast(ops.argmax({x}, 1), ms.bfloat16)",
    "scatter": "ops.tensor_scatter_update({x}, ms.Tensor([[0], [2]]), {y}[:2])",
    "compare": "ops.cast({x} < {y}, ms.bfloat16)",
    "pow": "ops.pow(ops.abs({x}), 2)",
}.items():
    _exact = _call.format(
        x="ops.cast(ops.cast(x0, ms.bfloat16), ms.float32)",
        y="ops.cast(ops.cast(x1, ms.bfloat16), ms.float32)",
    )
    _exact = (
        _exact.replace("ms.bfloat16)", "ms.float32)")
        if _name in ("layer_norm", "rms_norm", "argmax", "compare", "one_hot")
        else _exact
    )
    case(
        f"brain_{_name}",
        X,
        X,
        call="ops.cast("
        + _call.format(x="ops.cast(x0, ms.bfloat16)", y="ops.cast(x1, ms.bfloat16)")
        + ", ms.float32)",
        reference=f"ops.cast(ops.cast({_exact}, ms.bfloat16), ms.float32)",
    )
_NUMBERS = {"f64": "f64[{}]", "f16": "f16[{}]"}
for _type in ("f64", "f16"):
    _dtype = {"f64": "ms.float64", "f16": "ms.float16"}[_type]
    for _name, _dims, _call in (
        ("softmax", "3,4", "ops.softmax(x0, -1)"),
        ("log_softmax", "3,4", "ops.log_softmax(x0, -1)"),
        ("gelu", "3,4", "ops.gelu(x0)"),
        ("sigmoid", "3,4", "ops.sigmoid(x0)"),
        ("erf", "3,4", "ops.erf(x0)"),
        ("mean", "3,4", "x0.mean(1)"),
        ("std", "3,4", "ops.std(x0, 1)"),
        ("max_pool", "1,2,5,5", "ops.MaxPool(2, 2)(x0)"),
        ("avg_pool", "1,2,5,5", "ops.AvgPool(2, 2)(x0)"),
        ("adaptive_pool", "1,2,6,6", "ops.adaptive_avg_pool2d(x0, (3, 2))"),
        ("resize", "1,2,3,3", "ops.ResizeBilinearV2()(x0, (5, 4))"),
        ("resize_nearest", "1,2,3,3", "ops.ResizeNearestNeighborV2()(x0, (5, 4))"),
        ("group_norm", "2,4,3", "ops.group_norm(x0, 2, ops.ones(4, {0}), ops.zeros(4, {0}))"),
        ("layer_norm", "3,4", "ops.LayerNorm(1, 1)(x0, ops.ones(4, {0}), ops.zeros(4, {0}))[0]"),
        (
            "batch_norm",
            "2,3,4,4",
            "ops.BatchNorm()(x0, ops.ones(3, ms.float32), ops.zeros(3, ms.float32), ops.zeros(3, ms.float32), ops.ones(3, ms.float32))[0]",
        ),
        ("cumprod", "3,4", "ops.cumprod(x0, 1)"),
        ("sort", "3,4", "ops.sort(x0, 1)[0]"),
        ("einsum", "3,4", "ops.matmul(x0, x0.T)"),
        ("dense", "3,4", "ops.dense(x0, ops.ones((2, 4), {0}))"),
        ("inverse", "3,3", "ops.inverse(x0 + 3 * ops.eye(3, 3, {0}))"),
        ("grid_sample", "1,2,4,4", "ops.grid_sample(x0, ops.zeros((1, 2, 2, 2), {0}) + 0.3)"),
        ("lgamma", "3,4", "ops.lgamma(ops.abs(x0) + 1)"),
        ("norm", "3,4", "ops.norm(x0, 2, 1)"),
        ("l2_normalize", "3,4", "ops.L2Normalize(1)(x0)"),
    ):
        if (_type, _name) not in (
            ("f64", "batch_norm"),
            ("f64", "norm"),
            ("f16", "inverse"),
        ):  # not MindSpore's
            case(f"{_type}_{_name}", f"{_type}[{_dims}]", call=_call.format(_dtype))
for _type in ("u8", "i8", "i64", "b"):
    for _name, _dims, _call in (
        ("gather", "5,3", "ops.gather(x0, ms.Tensor([4, 0]), 0)"),
        ("stack", "2,3", "ops.stack((x0, x0), 1)"),
        ("split", "2,4", "ops.split(x0, 2, 1)"),
        ("slice", "4,6", "x0[1:, ::2]"),
        ("flip", "3,4", "ops.flip(x0, (1,))"),
        ("broadcast", "1,4", "ops.broadcast_to(x0, (3, 4))"),
        ("expand", "3,4", "x0.expand_dims(1).squeeze(1).reshape(4, 3)"),
        ("scatter_update", "5,3", "ops.tensor_scatter_update(x0, ms.Tensor([[1], [3]]), x0[:2])"),
        ("gather_nd", "5,3", "ops.gather_nd(x0, ms.Tensor([[1, 2], [0, 0]]))"),
        ("gather_elements", "3,4", "ops.gather_elements(x0, 1, ms.Tensor([[0, 2], [1, 1], [3, 0]]))"),
        (
            "masked_fill",
            "3,4",
            "ops.masked_fill(x0, ops.cast(x0, ms.bool_), ops.cast(ms.Tensor(1), x0.dtype))",
        ),
        ("nonzero", "3,4", "ops.nonzero(x0)"),
        ("equal", "3,4", "ops.equal(x0, x0[:1])"),
        ("cast", "3,4", "ops.cast(x0, ms.float32), ops.cast(x0, ms.int32), ops.cast(x0, ms.bool_)"),
        ("meshgrid", "4", "ops.meshgrid(x0, x0)"),
        ("unique", "9", "ops.unique(x0)[0]"),
        ("logical", "3,4", "ops.logical_and(x0, x0), ops.logical_not(ops.cast(x0, ms.bool_))"),
        ("minimum", "3,4", "ops.minimum(x0, x0[:1]), ops.ReduceMax()(x0, 1)"),
        ("masked_select", "3,4", "ops.masked_select(x0, ops.cast(x0, ms.bool_))"),
    ):
        if (_type, _name) not in (("b", "unique"), ("b", "minimum")):  # not MindSpore's
            case(f"{_type}_{_name}", f"{_type}[{_dims}]<{2 if _type == 'b' else 4}", call=_call)

# -- through views ---------------------------------------------------------------------------------

for _name, _body, _same in (
    (
        "select",
        "z = mint.select(y, 0, 1)\nz.add_(1)\nreturn y, z",
        "ops.concat((x0[:1] * 2, x0[1:2] * 2 + 1, x0[2:] * 2)), x0[1] * 2 + 1",
    ),
    (
        "narrow",
        "z = mint.narrow(y, 1, 1, 2)\nz.mul_(3)\nreturn y, z",
        "ops.concat((x0[:, :1] * 2, x0[:, 1:3] * 6, x0[:, 3:] * 2), 1), x0[:, 1:3] * 6",
    ),
    (
        "transposed",
        "z = mint.transpose(y, 0, 1)\nz.add_(ms.Tensor([1.0, 2.0, 3.0]))\nreturn y, z",
        "x0 * 2 + ms.Tensor([[1.0], [2.0], [3.0]]), (x0 * 2 + ms.Tensor([[1.0], [2.0], [3.0]])).T",
    ),
    (
        "chunk",
        "a, c = mint.chunk(y, 2, 1)\na.zero_()\nreturn y + 1, c",
        "ops.concat((x0[:, :2] * 0, x0[:, 2:] * 2), 1) + 1, x0[:, 2:] * 2",
    ),
    (
        "nested",
        "z = mint.select(mint.narrow(y, 1, 1, 2), 0, 2)\nz.fill_(5.0)\nreturn y + 0",
        "ops.concat((x0[:2] * 2, ops.stack((x0[2, 0] * 2, x0[2, 0] * 0 + 5, x0[2, 0] * 0 + 5, x0[2, 3] * 2)).reshape(1, 4)))",
    ),
    ("base", "z = mint.select(y, 0, 1)\ny.add_(1)\nreturn z + 0", "x0[1] * 2 + 1"),
    (
        "setitem",
        "y[1] = 7\ny[:, 2] = x0[:, 0]\nreturn y",
        "ops.stack((ops.concat((x0[0, :2] * 2, x0[0, :1], x0[0, 3:] * 2)), ops.concat((x0[0, :2] * 0 + 7, x0[1, :1], x0[0, 3:] * 0 + 7)), ops.concat((x0[2, :2] * 2, x0[2, :1], x0[2, 3:] * 2))))",
    ),
):
    case(f"view_{_name}", X, body=f"y = x0 * 2\n{_body}", reference=_same)

# -- what computes nothing -------------------------------------------------------------------------

for _name, _inputs, _setup, _body, _same in (
    (
        "histogram_summary",
        (X,),
        "self.summary = ops.HistogramSummary()",
        "self.summary('x', x0)\nreturn x0 * 2",
        "x0 * 2",
    ),
    (
        "image_summary",
        ("f32[1,3,4,4]",),
        "self.summary = ops.ImageSummary()",
        "self.summary('x', x0)\nreturn x0 * 2",
        "x0 * 2",
    ),
    (
        "new_empty",
        (X,),
        "",
        "return P.NewEmpty()(x0, (2, 3), ms.float32, None) * 0 + x0[0, 0]",
        "ops.zeros((2, 3), ms.float32) + x0[0, 0]",
    ),
    ("copy_to_device", (X,), "", "return P.CopyToDevice()(x0) * 2", "x0 * 2"),
):
    case(f"own_{_name}", *_inputs, setup=_setup, body=_body, reference=_same)

# -- found by networks drawn at random -------------------------------------------------------------

for _rank, _size in (("", "8,9"), ("3D", "8,9,7")):
    for _kind in ("Max", "Avg"):
        case(
            f"own_{_kind.lower()}_pool{_rank.lower()}_steps_over",
            f"f32[1,2,{_size}]",
            call=f"O.{_kind}Pool{_rank}(1, 3, 'same')(x0), O.{_kind}Pool{_rank}(2, 4, 'same')(x0)",
        )
case("own_max_pool_steps_over_free", "f32[1*,2,8*,9*]", call="O.MaxPool(2, 5, 'same')(x0)")
case(
    "own_roi_align_small",
    "f32[2,3,8,9]",
    setup="self.rois = ms.Tensor([[1, 6.2, 6.1, 7.6, 6.8], [0, 4.4, 4.8, 11.5, 7.4]], ms.float32)",
    body="return O.ROIAlign(1, 2, 0.25, 3, 1)(x0, self.rois), O.ROIAlign(2, 1, 0.25, 2, 0)(x0, self.rois)",
)
case(
    "own_cum_prod_exclusive_large",
    "f32[3,4]>100000000<900000000",
    call="O.CumProd(True, False)(x0, 1), O.CumProd(True, True)(x0, 0)",
)
case(
    "own_interpolate_nearest_doubled",
    "f32[1,2,3,2]",
    call="F.interpolate(x0, scale_factor=(1.3, 2.4), mode='nearest')",
)
case("own_gather_batch_all", "f32[2,3]", "i32[2]<3", call="O.Gather(1)(x0, x1, 1)")
case(
    "own_strided_slice_from_before",
    "f32[4,2]",
    call="O.StridedSlice()(x0, (-4, -3), (-5, -3), (-1, -1)), O.StridedSlice()(x0, (3, -1), (-9, -3), (-1, -1))",
)
case(
    "own_far_out",
    "f32[4]>100<500",
    body="""
    inf = x0 / (x0 - x0)
    ends = ops.hypot(inf, -inf), ops.igamma(x0, inf), ops.igamma(inf, x0 - x0)
    return ops.expm1(-x0), ops.expm1(-inf), ops.atan2(x0, (x0 - x0) / -x0), *ends
    """,
)
case(
    "own_clamp_one_side_infinite",
    "f32[8]",
    body="x = x0 / (x0 - x0)\nreturn ops.clamp(x, min=0.5), ops.clamp(x, max=0.5)",
)
case("own_lerp_half", "f16[3,4]", "f16[4]", call="ops.lerp(x0, x1, 0.3)")
case("own_logical_not_ints", "i32[3,4]<3", "f32[5]!", call="O.LogicalNot()(x0), O.LogicalNot()(x1)")
case("own_real_div_ints", "i32[3,4]>-9<9", "i32[4]>1<5", call="O.RealDiv()(x0, x1)")
case(
    "own_strided_slice_shrunk_from_edge", "f32[5]", call="O.StridedSlice(1, 0, 0, 0, 1)(x0, (2,), (4,), (1,))"
)
case(
    "own_cumulative_log_sum_exp_far",
    "f32[5,3]>-300<300",
    call="O.CumulativeLogsumexp()(x0, ms.Tensor(0)), O.CumulativeLogsumexp(True, True)(x0, ms.Tensor(0))",
)
case(
    "own_cumulative_log_sum_exp_free", "f32[5*,3]>-300<300", call="O.CumulativeLogsumexp()(x0, ms.Tensor(0))"
)
case(
    "own_interpolate_bicubic_free",
    "f32[1*,2,5*,6*]",
    call="ops.interpolate(x0, size=(10, 3), mode='bicubic')",
)
for _bits in (8, 32):
    _most = 2 ** (_bits - 1) - 1
    case(
        f"own_floor_div_far_{_bits}",
        *[f"i{_bits}[9]>-{_most}<{_most}", f"i{_bits}[9]>{_most // 2}<{_most}"],
        call="O.FloorDiv()(x0, x1), O.FloorDiv()(x0, -x1), O.FloorDiv()(x1, -x1[::-1])",
    )
for _bits in (8, 16, 32, 64):
    _most = 2 ** (_bits - 1) - 1
    case(
        f"own_right_shift_{_bits}",
        f"i{_bits}[3,{_bits}]>-{_most}<{_most}",
        call=f"O.RightShift()(x0, ms.Tensor(list(range({_bits})), ms.int{_bits}))",
    )
for _shape in ((2, 3, 1, 4), (2, 3, 5, 1), (1, 1, 1, 1), (2, 3, 1, 4, 5), (1, 2, 3, 1, 1)):
    _rank = len(_shape) - 2
    case(
        f"own_affine_grid_thin_{'_'.join(map(str, _shape))}",
        f"f32[{_shape[0]},{_rank},{_rank + 1}]",
        call=f"ops.affine_grid(x0, {_shape}, align_corners=True)",
    )
case(
    "own_cumulative_product_long",
    "f32[2,300]>0.9<1.1",
    call="O.CumProd()(x0, 1), O.CumProd(exclusive=True, reverse=True)(x0, 1)",
)
case(
    "own_cumulative_log_sum_exp_long",
    "f32[2,300]>-30<30",
    call="O.CumulativeLogsumexp()(x0, ms.Tensor(1)), "
    "O.CumulativeLogsumexp(exclusive=True, reverse=True)(x0, ms.Tensor(1))",
)
# Of one part: views of all of a tensor, written to, too.
for _name, _input, _call in (
    ("mint_split", "f32[3,4]", "mint.split(x0, 3), mint.split(x0, [4], 1)"),
    ("mint_chunk", "f32[3,4]", "mint.chunk(x0, 1)[0] * 2, mint.chunk(x0[:1], 3)"),
    ("views", "f32[1,4]", "P.SplitWithSizeView()(x0, (1,), 0), P.ChunkView()(x0, 1, 1), mint.unbind(x0)"),
    ("others", "f32[1,4]", "ops.split(x0, 1), ops.chunk(x0, 1), ops.unstack(x0), ops.tensor_split(x0, 1)"),
):
    case(f"own_one_part_{_name}", _input, call=_call)
case(
    "own_one_part_written",
    "f32[3,4]",
    body="""
        y = x0 * 1
        z = mint.chunk(y, 1)
        z[0].add_(1)
        y.mul_(2)
        return z[0] + 1, y
    """,
)
case("own_hard_double", "f64[3,4]>-5<5", call="ops.hardswish(x0), ops.hardsigmoid(x0)")
case("own_hard_half", "f16[3,4]>-5<5", call="ops.hardswish(x0), ops.hardsigmoid(x0)")
for _limit in (0.0, 0.3):
    case(f"own_nms_corners_{_limit}".replace(".", ""), "f32[40,5]>0<10", op=f"O.NMSWithMask({_limit})")
for _type in ("f32", "f64"):
    case(
        f"own_gamma_ends_{_type}",
        f"{_type}[7]!",
        call="ops.digamma(x0), ops.lgamma(x0), ops.digamma(ops.round(x0 * 3)), ops.lgamma(ops.round(x0 * 3))",
    )
_ZETAS = (
    "x0 + ms.Tensor([1, 1, 2, 2, 2, 3, 3, 0.5, 2, 2.5, 3, np.inf, 2, 4], x0.dtype)",
    "ms.Tensor([2, 0, 0, -1, -0.5, -1, -0.5, 2, np.inf, -1.5, -2.5, 2, -3.5, -2], x0.dtype)",
)
_BESSEL = ("i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1")
for _factor, _name in ((100, "large"), (1e-3, "small"), (1e-6, "tiny")):
    _call = ", ".join(f"ops.bessel_{f}(x0 * {_factor})" for f in _BESSEL)
    case(f"own_bessel_{_name}", "f64[9]>0.2<7", call=_call)
_CALL = ", ".join(f"ops.bessel_{f}(x0)" for f in _BESSEL)
case("own_bessel_ends", "f64[8]!", call=_CALL)
for _bits in (8, 64):
    case(f"own_hard_int{_bits}", f"i{_bits}[16]>-8<8", call="ops.hardswish(x0), ops.hardsigmoid(x0)")
case("own_nan_to_num_double", "f64[8]!", call="ops.nan_to_num(x0), ops.nan_to_num(x0, 1.0, 2.0, 3.0)")
case("own_zeta_ends", "f64[14]>0<0", call=f"ops.zeta({', '.join(_ZETAS)})")
# In types that an engine has no kernel for, or that others are computed in.
for _name, _kind, _call in (
    ("celu", "f16", "ops.celu(x0)"),
    ("selu", "i32", "ops.selu(x0)"),
    ("inverse", "i32", "O.Inv()(x0 + 7)"),
    ("inverse", "i64", "O.Inv()(x0 + 7)"),
    (
        "roi_align",
        "f16",
        "O.ROIAlign(2, 2, 0.5)(x0.reshape(1, 1, 3, 4), ms.Tensor([[0, 0, 0, 3, 2]], ms.float16))",
    ),
    ("transform", "f16", "P.DCT()(x0, 2, None, -1, 'ORTHO')"),
    ("remainder", "i8", "mint.remainder(7, x0 + 9)"),
    (
        "overlaps",
        "f64",
        "ops.operations.image_ops.NonMaxSuppressionWithOverlaps()(x0[:, :3], x0[:, 0], ms.Tensor(3, ms.int32),"
        " ms.Tensor(0.5), ms.Tensor(-9.0))",
    ),
    ("huber", "f16", "ops.huber_loss(x0, x0 * 2, 'none', 0.7)"),
):
    case(f"own_typed_{_name}_{_kind}", f"{_kind}[3,4]" + (">-4<5" if _kind[0] == "i" else ""), call=_call)
for _kind in ("i32", "u8", "f16"):
    case(
        f"own_typed_length_{_kind}",
        f"{_kind}[3*,5*]>0<5",
        call="x0 * (x0.shape[0] + x0.shape[1]), x0 + x0.shape[0]",
    )
for _kind in ("i8", "i32", "i64"):
    case(
        f"own_typed_adaptive_{_kind}",
        f"{_kind}[1,2,2,3,4]>-9<9",
        call="ops.adaptive_avg_pool3d(x0, (2, 2, 3)), ops.adaptive_avg_pool3d(x0, (1, 1, 1)), "
        "ops.adaptive_avg_pool3d(x0, (1, 3, 2))",
    )
case(
    "own_typed_lstm_f64",
    "f64[2,3,4]",
    op="ops.operations.nn_ops.LSTM(4, 2, 1, True, False, 0.0)",
    call="self.op(x0, x0[:1, :, :2], x0[:1, :, 1:3], ops.tile(x0.reshape(24, 1, 1), (3, 1, 1))[:56])[:3]",
)

case(
    "own_dilation_2d",
    "f32[1,2,6,5]",
    "f32[2,3,2]",
    op="ops.Dilation2D(stride=2, dilation=2, pad_mode='SAME')",
    setup="self.padded = ops.Pad(((0, 0), (0, 0), (1, 2), (1, 1)))",
    reference="ops.stack(["
    + ", ".join(
        f"self.padded(x0 + 100)[:, :, {2 * i}:{2 * i + 6}:2, {2 * j}:{2 * j + 5}:2] - 100 + x1[:, {i}, {j}].reshape(2, 1, 1)"
        for i in range(3)
        for j in range(2)
    )
    + "]).max(0)",
)

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
