"""What the lowering of one primitive computes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from pinnace.engines.onnxruntime.kernel_types import cast_for_kernels
from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find
from pinnace.program import Dialect, Layout, TypeInfo


def results(
    dialect: Dialect,
    name: str,
    given: list,
    *,
    layout: Layout = Layout.NCHW,
    free: bool = False,
    declared: ir.DataType | None = None,
    **attributes,
) -> list[np.ndarray]:
    """The results of a primitive; arrays are inputs of the model, of `free` dimensions if asked for.

    All else is known before the run. Results that a lowering does not give are left out. `declared` is the
    type that the file gives the first result.
    """
    b = LoweringBuilder(layout)
    b.declared = [] if declared is None else [TypeInfo(declared, None)]
    arrays = {f"x{i}": a for i, a in enumerate(given) if isinstance(a, np.ndarray)}
    inputs = {
        n: ir.Value(
            name=n,
            shape=ir.Shape([None] * a.ndim if free else a.shape),
            type=ir.TensorType(ir.DataType.from_numpy(a.dtype)),
        )
        for n, a in arrays.items()
    }
    y = find(dialect, name).lower(b, [inputs.get(f"x{i}", a) for i, a in enumerate(given)], attributes)
    outputs = [b.op("Identity", v) for v in (y if isinstance(y, tuple) else (y,)) if v is not None]
    graph = ir.Graph(
        [*inputs.values()],
        outputs,
        nodes=b.nodes,
        initializers=b.initializers.values(),
        opset_imports={"": 21},
        name="g",
    )
    model = ir.Model(graph, ir_version=10)
    rewrite(model)
    cast_for_kernels(model)
    data = ir.to_proto(model).SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, arrays)
