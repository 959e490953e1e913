"""Make goldens of primitives that are reached by their own names alone, and of what older files call them.

    python tools/goldens_own.py FOLDER [PATTERN ...]

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

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
