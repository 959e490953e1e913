"""Make goldens of what `python -m tests.random_calls` found, as it printed it or made simpler.

    python tools/with_mindspore/goldens_random.py FOLDER [PATTERN ...]

Needs MindSpore 2.10.
"""

from __future__ import annotations

import sys
from pathlib import Path

from goldens import case, main

# -- integers over 0 ----------------------------------------------------------------------------------

INTS = "i32[3,4]>-2<2"

case("random_floor_div_by_zero", INTS, INTS, call="x0 // x1")
case("random_floor_div_by_zero_u8", "u8[3,4]>0<3", "u8[3,4]>0<2", call="ops.floor_div(x0, x1)")
case("random_floor_div_by_zero_i8", "i8[3,4]>-2<3", "i8[3,4]>-1<2", call="mint.floor_divide(x0, x1)")
case("random_floor_div_of_the_least", "i32[3]>1<2!", "i32[3]>-1<0", call="x0 // x1")
case("random_truncate_div_by_zero", INTS, INTS, call="ops.truncate_div(x0, x1)")
case("random_truncate_mod_by_zero", INTS, INTS, call="ops.truncate_mod(x0, x1)")
case("random_fmod_by_zero", INTS, INTS, call="ops.fmod(x0, x1)")

case("random_floor_mod_by_zero", INTS, INTS, call="x0 % x1")
case("random_floor_mod_by_zero_u8", "u8[3,4]>0<3", "u8[3,4]>0<2", call="x0 % x1")
case("random_remainder_by_zero_i64", "i64[3,4]>-2<3", "i64[3,4]>-1<2", call="mint.remainder(x0, x1)")
case("random_truncated_by_zero", INTS, INTS, call="ops.div(x0, x1, rounding_mode='trunc')")
case(
    "random_truncated_by_zero_i8",
    "i8[3,4]>-2<3",
    "i8[3,4]>-1<2",
    call="ops.div(x0, x1, rounding_mode='trunc')",
)

case("random_floor_div_of_bools", "b[8]", "b[8]", call="ops.floor_div(x0, x1)")

# -- without dimensions, and other sizes than expected ------------------------------------------------

case("random_transpose_of_scalar", "f32[]", call="mint.transpose(x0, -1, 0)")
case("random_prod_of_scalar", "i32[]>-7<7", call="x0.prod(-1)")
case("random_any_of_scalar", "f32[]", call="mint.any(x0, 0)")
case("random_scatter_add_to_scalar", "f32[]", "i32[1]>0<1", "f32[1]", call="ops.scatter_add(x0, x1, x2)")
case("random_scatter_min_to_scalar", "f32[]", "i32[]>0<1", "f32[]", call="ops.scatter_min(x0, x1, x2)")
case("random_histc_of_scalar", "f32[]", call="x0.histc()")
case(
    "random_squeeze_of_larger",
    "f32[2,1]",
    "f32[2*,5]",
    call="(ops.squeeze(x0, -1), ops.squeeze(x1, -1))",
)
case("random_diagflat_free", "f32[2*]", call="ops.diagflat(x0, 1)")

# -- values and types ----------------------------------------------------------------------------------

case("random_any_of_floats", "f32[2,5]!", call="mint.any(x0, 1)")
case("random_all_of_floats", "f32[2,5]!", call="mint.all(x0, 1)")
case("random_cholesky_inverse_whole", "f32[2,2]", call="ops.cholesky_inverse(x0)")
case("random_cholesky_inverse_upper_whole", "f32[2,2]", call="ops.cholesky_inverse(x0, upper=True)")
case("random_igamma_of_nothing", "f32[1]>-1<-0.5", "f32[8]!", call="ops.igamma(x0, x1)")
case("random_unique_slices", "i32[2,6]>0<2", call="mint.unique_consecutive(x0, True, True, 1)")
case("random_unique_rows", "i32[6,1]>0<2", call="mint.unique_consecutive(x0, True, True, -2)")
case("random_nanmedian", "f32[5,3]!", call="ops.nanmedian(x0, axis=1)")
case("random_nanmedian_kept", "f32[5,3]!", call="ops.nanmedian(x0, axis=0, keepdims=True)")
case("random_nanmedian_of_all", "f32[7]!", call="ops.nanmedian(x0)")

case("random_log_of_sigmoid", "f32[16]>-80<40", call="ops.log(ops.sigmoid(x0))")
case("random_logsigmoid", "f32[16]>-80<40", call="ops.logsigmoid(x0)")
case("random_zeros_of_no_type", "i32[2]>1<4", call="ops.zeros(x0)")
case("random_ones_of_no_type", "i32[2]>1<4", call="mint.ones(x0)")
case("random_fill_scalar", "i32[]>0<7", "i32[]>-7<7", call="x0.fill(x1)")
case(
    "random_max_pool_of_integers",
    "i32[4,6,4]>-7<7",
    setup="self.l0 = nn.MaxPool2d(pad_mode='pad')",
    body="return self.l0(x0)",
)

case("random_renorm_of_vector", "f32[2]", call="ops.renorm(x0, 10, -1, 0.5)")
case("random_div_of_two_types", "f32[]>-1<1", "f16[4]", call="ops.div(x1, x0, rounding_mode='trunc')")
case("random_prelu_of_two_types", "f16[4]", setup="self.l0 = nn.PReLUExt(1)", body="return self.l0(x0)")
case("random_gather_elements_of_scalar", "f32[]", "i32[]>0<1", call="x0.gather_elements(-1, x1)")
case("random_index_fill_scalar", "f32[]", "i32[1]>0<1", call="ops.index_fill(x0, 0, x1, 0)")
case("random_population_count", "i32[6]>-7<7", call="ops.population_count(x0)")

# -- shifts, divisors, and their ends ------------------------------------------------------------------

case("random_left_shift_by_any", "i32[12]>0<7", "i32[12]>-40<70", call="x0.bitwise_left_shift(x1)")
case("random_left_shift_by_any_i16", "i16[12]>0<7", "i16[12]>-40<40", call="x0.bitwise_left_shift(x1)")
case("random_right_shift_by_any_i64", "i64[12]>-7<7", "i64[12]>-70<140", call="x0.bitwise_right_shift(x1)")
case("random_right_shift_by_any_u8", "u8[5]>0<70", "u8[5]>0<40", call="x0.bitwise_right_shift(x1)")
case("random_gcd_of_the_least", "i32[7]>-7<7", "i32[7]>0<7!", call="x0.gcd(x1)")
case("random_lcm_of_the_least", "i32[7]>-3<3!", "i32[7]>-1<3!", call="x0.lcm(x1)")

# -- nothing, scalars, and two types --------------------------------------------------------------------

case("random_sum_of_nothing", "f32[2,0]", "f32[2,0]", call="ops.vecdot(x0, x1)")
case("random_all_of_nothing", "b[0,3]", call="mint.all(x0)")
case("random_bessel_of_nothing", "f32[0,2]", call="ops.bessel_k1e(x0)")
case("random_celu_f16", "f16[3,2,2]", call="ops.celu(x0)")
case("random_celu_f16_of_a_small_alpha", "f16[3,4]", call="ops.celu(x0, 1.1e-5)")
case("random_celu_of_infinities", "f32[3,2,2]!", call="ops.celu(x0, 0.5)")
case("random_inplace_update_of_one", "f32[1,4]", "f32[1,4]", call="ops.inplace_update(x0, x1, 0)")
case("random_assign_sub_of_scalar", "f32[]", "f32[1]", call="ops.assign_sub(x0, x1)")
case("random_prelu_of_scalar", "f32[]", "f32[1]", call="mint.nn.functional.prelu(x0, x1)")
case("random_median_of_scalar", "f32[]", call="x0.nanmedian()")
case("random_log_softmax_of_scalar", "f32[]", setup="self.l0 = nn.LogSoftmax(0)", body="return self.l0(x0)")
case("random_cross_of_two_types", "f32[3,1,1,4]", "f64[3,1,1,4]>-40<40", call="ops.cross(x0, x1)")
case(
    "random_cross_entropy_of_two_types",
    "f16[3]",
    "f32[3]>-40<40",
    call="mint.nn.functional.binary_cross_entropy_with_logits(x0, x1)",
)
case(
    "random_adaptive_max_pool_free",
    "f32[1,4*,5*,4]",
    setup="self.l0 = nn.AdaptiveMaxPool3d(1)",
    body="return self.l0(x0)",
)
case(
    "random_crop_of_one_column",
    "f32[3,3,1,3]",
    "f32[5,4]>0.1<3",
    "i32[5]>0<1",
    call="ops.crop_and_resize(x0, x1, x2, (3, 3))",
)
case("random_bucketize_of_nan", "f32[9]!", call="ops.bucketize(x0, [1.0, 2.0, 3.0], right=True)")
case("random_searchsorted_of_nan", "f32[1]", "f32[9]!", call="ops.searchsorted(x0, x1)")
case("random_inner", "f32[2]", "f32[2]", call="x0.inner(x1)")

# -- matrices, pictures and norms of free size ----------------------------------------------------------

case("random_trace_free", "i32[3*,4*]>-7<7", call="ops.trace(x0)")
case("random_diagonal_free", "f32[2,3*,4*]", call="ops.diagonal(x0, -1, 2, 1)")
case("random_diagonal_beyond_free", "f32[3*,4*]", call="ops.diagonal(x0, 9)")
case("random_fill_diagonal_free", "f32[7*,2*]", call="ops.FillDiagonal(7.0, True)(x0)")
case("random_copysign_free", "f32[3*,4*]", "f32[4*]", call="ops.copysign(x0, x1)")
case("random_matrix_diag_free", "f32[2,3*]", call="ops.matrix_diag(x0)")
case("random_cross_free", "i32[3*,2]>0<7", "i32[3*,2]>-3<3", call="mint.cross(x0, x1)")
case(
    "random_sparse_segment_mean",
    "f32[4,3]",
    "i64[5]>0<4",
    "i64[5]>0<4^",
    call="ops.sparse_segment_mean(x0, x1, x2)",
)
case("random_pdist_free", "f32[4*,3]", call="ops.pdist(x0)")
case("random_adaptive_max_pool_places", "f32[2,7*,5]", call="ops.adaptive_max_pool2d(x0, (3, None), True)")
case(
    "random_adaptive_max_pool_of_three_free",
    "f32[2*,5*,4,7*]",
    setup="self.l0 = nn.AdaptiveMaxPool3d((2, 3, 4), True)",
    body="return self.l0(x0)",
)
case(
    "random_max_unpool_free",
    "f32[1,2,4*,6*]",
    body="""
    a, i = ops.max_pool2d(x0, 2, 2, return_indices=True)
    return ops.max_unpool2d(a, i, 2)
    """,
)
case(
    "random_clip_by_norm",
    "f16[3*,4]",
    "f32[]>0.1<2",
    setup="self.l0 = nn.ClipByNorm()",
    body="return self.l0(x0, x1)",
)


# -- what loops and branches assign ---------------------------------------------------------------------


def _loop(name: str, body: str, start: str = "") -> None:
    head = [*start.splitlines(), "n = x0", "while n > 0:"]
    lines = ["    " + line for line in (*body.splitlines()[:-1], "n = n - 1")]
    case(
        f"random_loop_{name}",
        "i32[]>2<4",
        "f32[3]",
        "f32[3]",
        body="\n".join([*head, *lines, body.splitlines()[-1]]),
    )


_loop("adds_to_input", "y = y.add_(x2)\nreturn y", "y = x1")
_loop("adds_to_alias", "y = y.add_(x2)\nreturn y, t", "t = x1 * 2\ny = t")
_loop("adds_from_outside", "t.add_(x2)\nreturn t", "t = x1 * 2")
_loop("adds_to_its_own", "t = x1 * 2\ny = y + t.add_(x2)\nreturn y", "y = x1")
_loop("adds_to_another_each_turn", "y = ops.relu(y.add_(x2))\nreturn y", "y = x1")
_loop("adds_to_two", "t.add_(u)\nu = u.mul_(x2)\nreturn t, u", "t = x1 * 2\nu = x1 * 3")
_loop("adds_in_a_branch", "if n > 1:\n    t = t.add_(x2)\nreturn t", "t = x1 * 2")
_loop("adds_in_a_loop", "k = n\nwhile k > 0:\n    t = t.add_(x2)\n    k = k - 1\nreturn t", "t = x1 * 2")
_loop("adds_to_view", "t[0:1].add_(x2[0:1])\nreturn t", "t = x1 * 2")
case(
    "random_branch_adds_to_its_own",
    "i32[]>0<4",
    "f32[3]",
    "f32[3]",
    body="y = x1\nif x0 > 0:\n    t = x1 * 2\n    y = t.add_(x2)\nreturn y + x2",
)

# -- arguments and places that few use -----------------------------------------------------------------

case("random_clip_by_global_norm", "f32[3,7]", "f32[4]", call="ops.clip_by_global_norm([x0, x1], 1.0)")
case("random_note_of_the_user", "f32[3]", op="ops.ReLU().add_prim_attr('my_note', 3)")
case("random_approximate_equal_of_scalars", "f32[]", "f32[]", call="ops.approximate_equal(x0, x1)")
case("random_lp_pool_negative", "f32[2,3,8]", op="nn.LPPool1d(norm_type=-0.5, kernel_size=2, stride=2)")
case("random_lp_pool_of_root", "f32[1,2,4,4]", call="ops.lp_pool2d(x0, 0.5, 2)")
case(
    "random_decoded_boxes_without_bound",
    "f32[7,4]",
    "f32[7,4]>-1<1",
    call="ops.bounding_box_decode(x0, x1, (-4, 1))",
)
case("random_unfold_beyond", "f32[1,2,4,3]", call="ops.unfold(x0, 3, 2, stride=5)")
case("random_unfold_beyond_padded", "f32[2,3,4,4]", call="ops.unfold(x0, 3, 3, 1, 3)")
case("random_population_count_i64", "i64[5]>-3<3!", call="ops.population_count(x0)")
case(
    "random_crop_beyond_the_picture",
    "f32[1*,4*,5*,2]>0<9",
    "f32[9,4]",
    "i32[9]>0<1",
    call="ops.crop_and_resize(x0, x1, x2, (3, 6), 'bilinear_v2')",
)
case("random_chunk_of_nothing", "f32[0,1,1]", call="mint.chunk(x0, 2)")
case("random_relu_of_the_greatest", "i64[4]>-7<7!", call="ops.relu(x0)")
case("random_arctan2_below_zero", "f32[9]!", "f32[1]>-1<0", call="ops.arctan2(x0, x1)")
case("random_var_of_free_ints", "i32[4*,2]>0<7", call="x0.var(0)")
case("random_sinc_of_bools", "b[8]", call="ops.sinc(x0)")
case("random_kl_div_of_negative", "f32[9]", "f32[9]!", op="nn.KLDivLoss('none')")
case(
    "random_crop_of_one_free_row",
    "f32[1,1,1*,5]",
    "f32[3,4]",
    "i32[3]>0<1",
    call="ops.crop_and_resize(x0, x1, x2, (2, 6))",
)
for adjoint in (False, True):
    case(
        f"random_sparse_times_longer{'_turned' * adjoint}",
        "f32[2]",
        "f32[4,3]",
        setup=f"self.i = ms.Tensor([[0, 1], [1, 1]])\nself.op = nn.SparseTensorDenseMatmul({adjoint})",
        call="self.op(self.i, x0, (2, 2), x1)",
    )

# -- NaN and the signs of zeros where MindSpore compares ------------------------------------------------

case("random_maximum_of_nan", "f32[33]!", "f32[33]", call="(ops.maximum(x0, x1), ops.maximum(x1, x0))")
case("random_minimum_of_nan", "f64[9]!", "f64[9]", call="(ops.minimum(x0, x1), ops.minimum(x1, x0))")
case("random_maximum_of_zeros", "f16[33]!", "f16[1]>0<0", call="(ops.maximum(x0, x1), ops.maximum(x1, x0))")
case("random_maximum_of_nan_and_number", "f32[9]!", call="ops.maximum(x0, 0.5)")
case(
    "random_clamp_of_nan",
    "f32[9]!",
    call="(ops.clamp(x0, -1, 2), ops.clamp(x0, min=-1), ops.clamp(x0, max=2))",
)
case("random_maximum_of_nan_and_factor", "f32[33]!", call="ops.maximum(x0 * 0.5, 0.5)")
case("random_leaky_relu", "f32[33]!", setup="self.l0 = nn.LeakyReLU(0.1)", body="return self.l0(x0)")
case("random_clip_by_value_of_nan", "f16[9]!", call="ops.clip_by_value(x0, -1, 2)")
case("random_clamp_between_tensors", "f32[9]", "f32[9]!", call="ops.clamp(x0, x1, x1 + 1)")
case("random_hardtanh_of_nan", "f64[9]!", call="ops.hardtanh(x0, -1.0, 2.0)")
case("random_bessel_j1_of_zeros", "f32[9]!", call="ops.bessel_j1(x0)")
case("random_bessel_y1_of_zero", "f32[9]!", call="ops.bessel_y1(x0)")
case("random_bessel_y1_of_zero_f64", "f64[9]!", call="ops.bessel_y1(x0)")
case("random_bucketize_of_list", "f32[3,4]", call="ops.bucketize(x0, [-1.0, 0.0, 0.5])")
case("random_searchsorted_of_infinities", "f32[5]^", "f32[9]~", call="ops.searchsorted(x0, x1)")

# -- what OpenVINO makes of them ------------------------------------------------------------------------

case("random_population_count_of_one", "i32[1]>-3<3", call="ops.population_count(x0)")
case("random_population_count_u8", "u8[5]>0<255", call="ops.population_count(x0)")
case("random_uint8_free", "f32[8*]>-90<90", call="x0.byte()")
case("random_int8_free", "f16[8*]>-90<90", body="return (x0 + 60).astype(ms.int8)")
case("random_cumprod_of_large", "i32[1,2]>0<7!", call="x0.cumprod(1)")
case("random_ge_of_nan", "f32[9]>-1<1!", call="(ops.ge(x0 + x0, 1), x0 > 0, x0.bool())")
case("random_logical_not_of_the_least", "i32[9]>-1<1!", call="ops.logical_not(x0)")
case("random_tril_free", "i32[3*,3*]>-7<7!", call="ops.tril(x0)")
case("random_int16_and_back", "i32[7]>-7<7!", call="x0.astype(ms.int16).astype(ms.int32)")

# -- ranks that two branches give differently -----------------------------------------------------------


def _ranks(name: str, result: str, *more: str) -> None:
    """A vector that is made a matrix or not, and what is computed of either."""
    body = f"y = x1\nif x0 > 0:\n    y = ops.diag(y)\nreturn {result}"
    for taken, given in (("", "i32[]>-3<0"), ("_not", "i32[]>1<4")):
        case(f"random_ranks_{name}{taken}", given, "f32[3]", *more, body=body)


_ranks("diag", "ops.diag(y)")
_ranks("sum", "(y + y).sum(-1)")
_ranks("softmax", "ops.softmax(ops.relu(y))")
_ranks("cat", "ops.cat((y, y * 2), 0)")
_ranks("again", "ops.expand_dims(ops.expand_dims(y, 0).sum(-1), -1)")
_ranks("assigned", "y.add_(x2)", "f32[1]")
case(
    "random_ranks_of_which_one_fits",
    "i32[]>-3<0",
    "f32[2,3]",
    body="y = x1\nif x0 > 0:\n    y = y.flatten()\nreturn mint.amin(y, 1)",
)

# -- what later seeds found -----------------------------------------------------------------------------

case("random_i0_of_nothing", "f32[0*,1*,7*]", call="x0.i0()")
case("random_k1_of_masked", "f32[3]>0.1<3", "b[]>0<1", call="ops.bessel_k1(ops.masked_select(x0, x1))")
case("random_igamma_of_nothing_free", "f32[1]>1<2", "f32[0*,1,1]", call="ops.igamma(x0, x1)")
case(
    "random_like_of_no_rank",
    "f32[1]",
    "i32[1*]>0<1",
    body="y = x0.gather_nd(x1)\nreturn ops.ones_like(y), ops.zeros_like(y)",
)
case("random_logit_beyond_half", "f32[9]>0<1", call="ops.logit(x0, 0.7)")
case("random_cross_of_shorter", "f32[2,3]", "f32[3]", call="ops.cross(x0, x1)")
case("random_gather_nd_by_scalar", "f32[2,3]", "i64[]>0<2", call="x0.gather_nd(x1)")
case("random_searchsorted_nothing", "f32[0]", "f32[0]", call="mint.searchsorted(x1, x0)")
case("random_searchsorted_nothing_free", "f32[0*]", "f32[0*]", call="mint.searchsorted(x1, x0)")
case("random_flatten_of_nothing", "b[1,0,1,1,1]", call="mint.flatten_ext(x0, end_dim=-5)")
case(
    "random_clamp_of_crossed_ends",
    "f32[9]!",
    call="(mint.clamp(x0, 1.0, 0.25), ops.clip_by_value(x0, 1, 0.5))",
)
case("random_histc_of_equal_ends", "f32[8]", call="ops.histc(x0, 8, min=0.5, max=0.5)")
case("random_margin_of_free_classes", "f32[3*,4*]", "i64[3]>0<4", call="ops.multi_margin_loss(x0, x1)")
case("random_ctc_of_free_classes", "f32[3*,2*,4*]", "i32[2]>1<4", call="ops.ctc_greedy_decoder(x0, x1)")
for rank, size in ((1, "4"), (2, "2,7"), (3, "4,5,7")):
    case(
        f"random_average_of_longer_window_{rank}",
        f"f32[1,2,{size}]",
        setup=f"self.l0 = nn.AvgPool{rank}d(6, 3, ceil_mode=True)",
        body="return self.l0(x0)",
    )
case(
    "random_sparse_times_infinity",
    "f32[2]",
    "f32[2,3]!",
    setup="self.i = ms.Tensor([[0, 1], [1, 1]])\nself.op = nn.SparseTensorDenseMatmul()",
    call="self.op(self.i, x0, (2, 2), x1)",
)

# -- what seeds 301, 401 and 402 found ------------------------------------------------------------------

for order in (0, 1, 2, 5):
    case(
        f"random_polygamma_{order}_below_zero",
        f"i64[]>{order}<{order + 1}",
        "f32[9]>-40<10",
        call="ops.polygamma(x0, x1)",
    )
case("random_polygamma_of_poles", "i64[]>2<3", "f32[9]!", call="ops.polygamma(x0, x1)")
case("random_zeta_below_zero", "f64[5]>3<3", "f64[5]>-40<0", call="ops.zeta(x0, x1)")
case("random_glu_of_nothing", "f32[0,2]", call="mint.nn.functional.glu(x0, 0)")
case("random_adaptive_avg_pool_to_nothing", "f32[2,3,5*,4]", call="ops.adaptive_avg_pool2d(x0, (None, 0))")
case("random_adaptive_max_pool_of_no_batch", "f32[0,3,3]", call="ops.adaptive_max_pool2d(x0, 2)")
case(
    "random_pool_of_no_channels",
    "f32[3*,0,6]",
    setup="self.l0 = nn.AdaptiveAvgPool1d(3)",
    body="return self.l0(x0)",
)
for shape, stride in (("2,1,5", 5), ("2,9,9*", 4)):
    case(
        f"random_same_convolution_in_steps_of_{stride}",
        f"f32[1,{shape}]",
        setup=f"self.l0 = nn.Conv2d(2, 3, 2, {stride})",
        body="return self.l0(x0)",
    )
case("random_ptp_free", "f32[3*,2*]", call="x0.ptp(1)")
case(
    "random_ends_of_shape",
    "f32[3*,2*]",
    call="(x0.reshape(min(x0.shape), -1), x0.reshape(max(x0.shape), -1))",
)
case("random_reshape_of_nothing", "f32[2,0,3]", call="(x0.reshape(-1, 0), x0.reshape(0, 5, -1))")
case("random_reshape_of_nothing_free", "f32[2,0*,3]", call="x0.reshape(-1, 0)")
case("random_copysign_of_more_dimensions", "i64[1]", "i64[1,3*]>-3<3", call="ops.copysign(x0, x1)")
case(
    "random_margin_of_nan",
    "f32[7,4]!",
    "i64[7]>0<4",
    call="ops.multi_margin_loss(x0, x1, 2, reduction='none')",
)
case("random_nll_that_leaves_out_nan", "f32[5,2]!", "i32[5]>0<2", call="ops.nll_loss(x0, x1, ignore_index=0)")
case("random_celu_of_negative_alpha", "f32[9]!", setup="self.l0 = nn.CELU(-2.0)", body="return self.l0(x0)")
case("random_gather_one", "f32[3]", "i64[]>0<3", call="x0.gather(-1, x1)")
case("random_gather_of_scalar", "f32[]", "i64[2]>0<1", call="mint.gather(x0, 0, x1)")
case("random_ceiled_pool_beyond", "f32[1,1,3,2]", call="ops.max_pool2d(x0, 4, padding=1, ceil_mode=True)")
case("random_ceiled_pool_in_steps", "f32[1,1,5,6,6]", call="ops.max_pool3d(x0, 2, 3, ceil_mode=True)")
case(
    "random_reshape_of_nothing_to_two_free",
    "f32[2*,0*,3]",
    call="x0.reshape(x0.shape[1], x0.shape[0], 3)",
)
case("random_root_over_sigmoid", "f32[9]>-60<40", call="ops.rsqrt(ops.sigmoid(x0))")
case("random_over_sigmoid", "f32[9]>-60<40", call="(x0 / ops.sigmoid(x0), ops.sigmoid(x0) ** -0.5)")
case("random_over_sigmoid_f64", "f64[9]>-60<40", call="1 / ops.sigmoid(x0)")
case("random_product_that_overflows", "i32[2,1,2]>-3<3!", call="x0.prod()")
case(
    "random_average_pool_same_ceiled",
    "f32[2,3,7,3]",
    op="nn.AvgPool2d(4, 3, pad_mode='same', ceil_mode=True)",
)
case(
    "random_average_pool_same_beyond",
    "f32[1,2,1]",
    op="nn.AvgPool1d(6, pad_mode='same', ceil_mode=True, count_include_pad=False)",
)
case("random_pool_of_no_integers", "i64[1,0,5,4]", call="ops.max_pool2d(x0, 3)")
case("random_one_hot_of_several_values", "i32[3]>0<2", "f32[2]", call="ops.one_hot(x0, 2, x1, x1 + 1)")
case("random_unfold_of_infinities", "f32[2,1,4,5]!", call="ops.unfold(x0, (3, 2), padding=1, stride=(1, 2))")
case("random_written_after_full_slice", "f32[3,4]", body="y0 = x0 * 2\ny1 = y0[:]\ny0.add_(1.0)\nreturn y1")
case(
    "random_written_after_concat_of_one",
    "f32[3,4]",
    body="y0 = x0 * 2\ny1 = mint.concat([y0])\ny0.add_(1.0)\nreturn y1",
)
case(
    "random_written_after_split_in_one",
    "f32[3,4]",
    body="y0 = x0 * 2\ny1 = ops.split(y0, 3)\ny0.add_(1.0)\nreturn y1",
)
case(
    "random_written_after_contiguous",
    "f32[3,4]",
    body="y0 = x0 * 2\ny1 = y0.contiguous()\ny0.add_(1.0)\nreturn y1",
)
case("random_copysign_free_over_fixed", "f32[3*,1*,1,1,1*]", "f32[3,1,1,2,1]", call="ops.copysign(x0, x1)")
for clip, name in ((-0.0, "zero"), (-0.5, "negative")):
    case(
        f"random_box_clip_{name}",
        "f32[7,4]",
        "f32[7,4]",
        call=f"ops.bounding_box_decode(x0, x1, (4, 2), wh_ratio_clip={clip})",
    )
case(
    "random_scalar_or_row",
    "f32[2]",
    "i32[]>-1<0",
    body="y0 = ops.reduce_min(x0)\nif x1 > 0:\n    y0 = y0[None]\nreturn y0",
)
case("random_cross_of_free", "i32[7*,3*,3]>-3<3", "i32[7*,3*,3]>-3<3", call="x0.cross(x1)")
case(
    "random_volume_with_holes",
    "f32[1,1,8,3,2]",
    setup="self.l0 = nn.Conv3d(1, 1, 4, 1, dilation=(3, 1, 1))",
    body="return self.l0(x0)",
)
case("random_decoded_zero", "f64[1,2,3]>0<0", "i32[2]>0<1", call="1 / ops.ctc_greedy_decoder(x0, x1)[3]")
case("random_heaviside_near_0", "f64[9]>-8<8", call="ops.heaviside(x0 * 1e-16, x0)")
case(
    "random_nll_loss_weights_of_float16",
    "f32[3,4]",
    "i64[3]>0<4",
    "f16[4]",
    call="mint.nn.functional.nll_loss(x0, x1, x2)",
)
case("random_tangent_near_a_pole", "f64[9]>-8<8", call="ops.tan(x0 * 1e-5 + 1.57079)")
for name, kind in (("uint32", "i32"), ("uint8", "i16"), ("int8", "i64"), ("uint64", "i32")):
    case(f"random_product_as_{name}", f"{kind}[5,1]>-9<-1", call=f"x0.prod(dtype=ms.{name})")
case("random_narrow_to_the_end", "f32[3,5]", call="mint.narrow(x0, 1, -2, 2)")
case("random_cummax_of_nan", "f32[4,5]", call="ops.cummax(ops.log(x0), 0)")
case("random_cummin_of_nan", "f32[80,2]", call="ops.cummin(ops.log(x0 + 3), 0)")

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
