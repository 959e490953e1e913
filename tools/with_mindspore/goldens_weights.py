"""Make goldens of Parameters that a model assigns, returns, slices and chooses between, also in nested loops.

    python tools/with_mindspore/goldens_weights.py FOLDER [PATTERN ...]

Needs MindSpore 2.10. Each case holds the outputs of its first prediction.
"""

from __future__ import annotations

import sys
from pathlib import Path

from goldens import case, main

X = "f32[3,4]"
_TWO = """
self.a = ms.Parameter(ms.Tensor(np.ones((3, 4), np.float32)), name='a')
self.b = ms.Parameter(ms.Tensor(np.ones((3, 4), np.float32)), name='b')
"""

case("weights_returned", X, setup=_TWO, body="self.a += x0\nreturn self.a, x0 * 2")
case(
    "weights_returned_in_tuples",
    X,
    setup=_TWO,
    body="""
    y = self.a + 0
    self.a = x0 * 2
    z = self.a
    self.a = self.a + 1
    return y, z, self.a, (self.a, z)
    """,
)
case(
    "weights_returned_by_assign",
    X,
    setup=_TWO,
    body="return ops.assign(self.a, x0), ops.assign_add(self.a, x0)",
)
case(
    "weights_returned_by_branch",
    X,
    setup=_TWO,
    body="""
    if x0.sum() > 0:
        y = self.a
        self.a += x0
    else:
        y = self.b
        self.b -= x0
    return y, self.b
    """,
)
case(
    "weights_depend",
    X,
    setup=_TWO,
    body="y = ops.depend(self.a, ops.assign(self.a, x0 * 3))\nreturn y, y + 1",
)
case(
    "weights_into_weights",
    X,
    setup=_TWO,
    body="""
    self.a.add_(self.b)
    self.b.sub_(self.a)
    ops.assign(self.a, self.b)
    self.b.mul_(2)
    return self.a, self.b
    """,
)
case(
    "weights_in_place_beside",
    X,
    body="""
    a, b, c = x0 * 1, x0 * 2, mint.zeros((3, 4))
    a.add_(b)
    b.copy_(a)
    a.add_(1)
    c.copy_(a)
    c.mul_(b)
    d = a.add_(5)
    b.copy_(d)
    a.add_(7)
    c.add_(d)
    return a, b, c, d
    """,
)
case(
    "weights_sliced_for_branch",
    X,
    setup=_TWO,
    body="""
    self.a += x0
    total = self.a[1:].sum()
    if total > 0:
        self.b = self.b + self.a
    return self.b * 1, total
    """,
)
case(
    "weights_shifted",
    X,
    setup=_TWO,
    body="self.a = ops.concat((self.a[1:], x0[:1]))\nreturn self.a * 1",
)
case(
    "weights_chosen",
    X,
    setup=_TWO,
    body="""
    self.a += x0
    y = self.a if x0.sum() > 0 else self.b
    return y * 2
    """,
)
case(
    "weights_chosen_before",
    X,
    setup=_TWO,
    body="""
    y = self.a if x0.max() > -9 else x0
    self.a += x0
    return y, x0 * 2
    """,
)
case(
    "weights_chosen_and_written",
    X,
    setup=_TWO,
    body="""
    y = self.a if x0.sum() > 0 else self.b
    y.add_(x0)
    return y * 2, self.a * 1, self.b * 1
    """,
)
case(
    "weights_in_nested_loops",
    X,
    setup=_TWO,
    body="""
    i = ms.Tensor(0, ms.int32)
    while i < 4:
        j = ms.Tensor(0, ms.int32)
        while j < 2:
            self.a += x0.abs()
            j = j + 1
            if self.a.sum() > 30:
                break
        self.b += self.a
        i = i + 1
    return self.a * 1, self.b
    """,
)
case(
    "loops_nested_break",
    "f32[4,4]",
    body="""
    i, c = ms.Tensor(0, ms.int32), ms.Tensor(0, ms.int32)
    while i < 4:
        j = ms.Tensor(0, ms.int32)
        while j < 4:
            if x0[i, j] > 1.0:
                break
            c = c + 1
            j = j + 1
        i = i + 1
    return c
    """,
)
case(
    "loops_nested_return",
    "f32[4,4]",
    body="""
    i = ms.Tensor(0, ms.int32)
    while i < 4:
        j = ms.Tensor(0, ms.int32)
        while j < 4:
            if x0[i, j] > 1.0:
                return x0 * i + j
            if x0[j, i] < -1.0:
                break
            j = j + 1
        i = i + 1
    return -x0
    """,
)

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
