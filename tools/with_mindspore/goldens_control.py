"""Make goldens of control flow, state and tuples.

    python tools/with_mindspore/goldens_control.py FOLDER [PATTERN ...]

Needs MindSpore 2.10. A case that keeps state holds the outputs of its first prediction.
"""

from __future__ import annotations

import sys
from pathlib import Path

from goldens import case, main

X = "f32[3,4]"
N = "i32[]>2<6"
_STATE = "self.kept = ms.Parameter(ms.Tensor(np.ones((3, 4), np.float32)), name='kept')"

case(
    "control_if_else_if",
    X,
    body="""
    total = x0.sum()
    if total > 3:
        y = x0 * 2
    elif total > -3:
        y = x0 + 1
    else:
        y = x0 - 5
    return y
    """,
)
case(
    "control_if_nested",
    X,
    N,
    body="""
    y = x0
    if x1 > 3:
        y = y + 1
        if x0.sum() > 0:
            y = y * 3
        else:
            y = y - x0.sum()
    return y, x1 * 2
    """,
)
case(
    "control_if_early_return",
    X,
    N,
    body="""
    if x1 > 9:
        return x0
    if x1 > 3:
        return x0 + 1
    return x0 * 2
    """,
)
case(
    "control_if_several",
    X,
    N,
    body="""
    if x1 > 3:
        a, b = x0 + 1, x0.sum()
    else:
        a, b = x0, x0.max()
    return a * b, b
    """,
)
case("control_if_expression", X, N, body="return (x0 + 1 if x1 > 3 else x0 * 2) + 1")
case("control_if_and", X, N, body="return x0 + 1 if x1 > 3 and x0.sum() > 0 else x0")
case(
    "control_while",
    X,
    N,
    body="""
    i = 0
    while i < x1:
        x0 = x0 * 1.5 + i
        i = i + 1
    return x0
    """,
)
case(
    "control_while_tensor",
    X,
    body="""
    n = ms.Tensor(0, ms.int32)
    while x0.abs().max() > 0.1:
        x0 = x0 * 0.5
        n = n + 1
    return x0, n
    """,
)
case(
    "control_while_nested",
    X,
    N,
    body="""
    i = ms.Tensor(0, ms.int32)
    total = x0
    while i < x1:
        j = ms.Tensor(0, ms.int32)
        while j < i:
            total = total + x0 * j
            j = j + 1
        total = total * 0.5
        i = i + 1
    return total, i
    """,
)
case(
    "control_while_if",
    X,
    N,
    body="""
    i = ms.Tensor(0, ms.int32)
    while i < x1:
        if i % 2 == 0:
            x0 = x0 + 1
        else:
            x0 = x0 * 2
        i = i + 1
    return x0
    """,
)
case(
    "control_while_break",
    X,
    N,
    body="""
    i = ms.Tensor(0, ms.int32)
    while i < 9:
        x0 = x0 + 1
        if i > x1:
            break
        i = i + 1
    return x0, i
    """,
)
case(
    "control_while_continue",
    X,
    N,
    body="""
    i = ms.Tensor(0, ms.int32)
    while i < x1:
        i = i + 1
        if i == 2:
            continue
        x0 = x0 * 2
    return x0, i
    """,
)
case(
    "control_while_return",
    X,
    N,
    body="""
    i = ms.Tensor(0, ms.int32)
    while i < 9:
        x0 = x0 + 1
        if i > x1:
            return x0 * 10
        i = i + 1
    return x0
    """,
)
case(
    "control_while_grows",
    X,
    body="""
    i = ms.Tensor(0, ms.int32)
    while i < 3:
        x0 = x0 + x0.mean(0, True)
        i = i + 1
    return ops.concat((x0, x0))
    """,
)
case(
    "control_for_unrolled_if",
    X,
    N,
    body="""
    for k in range(3):
        if x1 > k + 1:
            x0 = x0 * (k + 2)
    return x0
    """,
)
case(
    "control_after_while",
    X,
    N,
    body="""
    i = ms.Tensor(0, ms.int32)
    y = x0
    while i < x1:
        y = y + x0
        i = i + 1
    k = ms.Tensor(0, ms.int32)
    while k < i:
        y = y * 0.5
        k = k + 1
    return y
    """,
)
case(
    "control_state_twice",
    X,
    setup=_STATE,
    body="""
    first = self.kept + 0
    ops.assign(self.kept, x0)
    second = self.kept * 2
    ops.assign(self.kept, x0 + 1)
    return first, second, self.kept * 3
    """,
)
case(
    "control_state_if",
    X,
    N,
    setup=_STATE,
    body="""
    if x1 > 3:
        ops.assign_add(self.kept, x0)
    else:
        ops.assign_sub(self.kept, x0)
    return self.kept * 2
    """,
)
case(
    "control_state_one_side",
    X,
    N,
    setup=_STATE,
    body="""
    before = self.kept * 1
    if x1 > 3:
        ops.assign(self.kept, x0)
    return before + self.kept
    """,
)
case(
    "control_state_while",
    X,
    N,
    setup=_STATE,
    body="""
    i = ms.Tensor(0, ms.int32)
    while i < x1:
        ops.assign_add(self.kept, x0)
        i = i + 1
    return self.kept * 2, i
    """,
)
case(
    "control_state_counter",
    X,
    setup="self.count = ms.Parameter(ms.Tensor(0, ms.int32), name='count')",
    body="""
    ops.assign_add(self.count, ms.Tensor(1, ms.int32))
    if self.count > 0:
        x0 = x0 + self.count
    return x0
    """,
)
case(
    "control_state_cache",
    "f32[1,4]",
    "i32[1]<5",
    setup="self.cache = ms.Parameter(ms.Tensor(np.zeros((5, 4), np.float32)), name='cache')",
    body="""
    ops.ScatterUpdate()(self.cache, x1, x0)
    return ops.matmul(x0, ops.transpose(self.cache, (1, 0)))
    """,
)
case("control_inplace_add", X, X, body="y = x0 * 1\ny.add_(x1)\nreturn y, x0")
case("control_tuples", X, X, body="return (x0, (x1, x0 + x1)), [x1 * 2]")
case("control_constant_out", X, body="return x0, 3, 2.5, True")
case("control_input_out", X, X, body="return x1, x0, x0")
case("control_weight_out", X, setup=_STATE, body="return self.kept, x0 + self.kept")
case("control_setitem", X, body="x0[1] = 5.0\nx0[:, 2] = x0[:, 0]\nreturn x0")
case(
    "control_getitem",
    "f32[4,5,6]",
    body="return x0[1], x0[..., 2], x0[1:3, ::2], x0[:, -1, 1:-1], x0[None, 2]",
)
case("control_getitem_tensor", "f32[4,5,6]", "i32[3]<4", body="return x0[x1], x0[:, x1], x0[x1, x1]")
case("control_getitem_negative", "f32[4,5,6]", body="return x0[::-1], x0[-3:-1, 4:1:-2]")
case("control_getitem_mask", "f32[4,5]", body="return x0[x0 > 0]")
case("control_setitem_mask", "f32[4,5]", body="x0[x0 > 0] = 1.0\nreturn x0")
case("control_setitem_tensor", "f32[4,5]", "i32[2]<4", body="x0[x1] = 7.0\nreturn x0")
case("control_setitem_dynamic", "f32[4*,5*]", body="x0[1] = 5.0\nreturn x0")
case(
    "control_dynamic_shape",
    "f32[2*,3*,4]",
    body="""
    b, n = x0.shape[0], x0.shape[1]
    y = x0.reshape(b, n // 1 * 2, 2)
    return y + ops.ones((b, 1, 2), ms.float32), ops.zeros((n,), ms.int32), x0.shape[0] * 2
    """,
)
case(
    "control_dynamic_if",
    "f32[2*,3]",
    body="""
    if x0.shape[0] > 1:
        return x0 * 2
    return x0 + 1
    """,
)
case("control_dynamic_slices", "f32[6*,5*]", body="return x0[1:3], x0[-2:], x0[:, 0], x0[::2, 1:-1], x0[0]")
case(
    "control_dynamic_arange",
    "f32[6*]",
    body="return ops.arange(0, x0.shape[0]), ops.arange(x0.shape[0]) + x0",
)
case(
    "control_dynamic_mask",
    "f32[1*,4*]",
    body="""
    n = x0.shape[1]
    mask = ops.tril(ops.ones((n, n), ms.float32))
    return ops.broadcast_to(x0.expand_dims(1), (-1, n, -1)) * mask
    """,
)
case(
    "control_dynamic_concat",
    "f32[2*,3]",
    "f32[4*,3]",
    body="return ops.concat((x0, x1)), ops.tile(x0, (2, 1))",
)
case("control_dynamic_split", "f32[2*,6]", body="return ops.split(x0, 2, 1), ops.chunk(x0, 3, 1)")
case(
    "control_dynamic_expand",
    "f32[2*,1]",
    "f32[2*,3]",
    body="return x0.expand_as(x1), ops.flatten(x1.expand_dims(1))",
)
case("control_scalar_tensor", "f32[]", "i64[]>1<5", body="return x0 * x1, x0 + 1, ops.stack((x0, x0 * 2))")
case("control_dict_list", X, body="d = {'a': x0, 'b': [x0 + 1, x0 * 2]}\nreturn d['b'][1] + d['a']")
case(
    "control_switch_layer",
    X,
    N,
    setup="self.layers = nn.CellList([nn.ReLU(), nn.Tanh(), nn.Sigmoid()])",
    body="return self.layers[x1 - 5](x0) + self.layers[x1 % 3](x0)",
)
case(
    "control_state_switch_layer",
    X,
    "i32[]>1<2",
    setup=_STATE,
    body="""
    def plain(y):
        return y * 2

    def counted(y):
        ops.assign(self.kept, self.kept + 1)
        return y + self.kept

    functions = (plain, counted, plain)
    y = functions[x1](x0)
    return functions[(x1 + 1) % 3](y), self.kept * 1
    """,
)
case(
    "control_write_of_a_branch",
    X,
    N,
    body="""
    y = x0 * 1
    z = y * 2
    if x1 > 1:
        y.add_(1.0)
        w = y
    else:
        w = z
    w.mul_(2.0)
    return y, z, w
    """,
)
case(
    "control_write_of_new_or_old",
    X,
    N,
    body="""
    y = x0 * 1
    z = y * 3
    if x1 > 1:
        y = x0 * 5
    y += 1
    return y, z
    """,
)
case(
    "control_write_before_while",
    X,
    N,
    body="""
    y = x0 * 1
    z = x0 * 3
    y.add_(1.0)
    i = 0
    while i < x1 - 2:
        z = y
        y.add_(1.0)
        y = x0 * 2
        i = i + 1
    return y, z
    """,
)
case("control_zip", X, X, body="y = 0\nfor a, b in zip((x0, x1), (x1, x1)):\n    y = y + a * b\nreturn y")
case("control_lambda", X, N, body="f = lambda v: v * x1\nreturn f(x0) + f(x0 + 1)")
case(
    "control_closure",
    X,
    N,
    body="""
    def twice(v):
        if x1 > 3:
            return v * x1
        return v + x1
    return twice(x0) + twice(x0 * 2)
    """,
)
case("control_assert_shape", "f32[2*,4]", body="assert x0.shape[1] == 4\nreturn x0 * 2")
case("control_raise", X, N, body="if x1 > 100:\n    raise ValueError('too large')\nreturn x0 * x1")

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
