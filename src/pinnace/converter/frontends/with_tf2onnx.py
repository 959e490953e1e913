"""An ONNX file out of one of TFLite or TensorFlow, by tf2onnx; a script that runs in a process of its own.

    python with_tf2onnx.py FRAMEWORK MODEL OUTPUT

tf2onnx prints what it cannot convert, and leaves such nodes in the file: the converter names them.
"""

import os
import re
import sys
from typing import Any

_OPSET = "18"  # the newest that tf2onnx writes


def main(framework: str, model: str, output: str) -> None:
    """Convert a file, or the folder of a SavedModel."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from tf2onnx import convert

    _add_rules()
    if framework == "TFLITE":
        _check_dense(model)
        given = ["--tflite", model]
    elif os.path.isdir(model):
        given = ["--saved-model", model]
    else:
        inputs, outputs = _ends(model)
        given = ["--graphdef", model, "--inputs", ",".join(inputs), "--outputs", ",".join(outputs)]
    sys.argv[1:] = [*given, "--opset", _OPSET, "--output", output]
    try:
        convert.main()
    except ValueError as error:  # of a variable that the graph assigns, of which tf2onnx makes a constant
        found = re.search(r"of node (\S+) .* incompatible with expected resource", str(error))
        if found is None:
            raise
        raise ValueError(
            f"node {found[1]!r} changes a variable, which would keep its value between requests: "
            "take the value as an input, and return the new one"
        ) from None


def _add_rules() -> None:
    """Tell tf2onnx of Erfc, which Keras 3 has in its GELU."""
    import numpy as np
    from tf2onnx.handler import tf_op
    from tf2onnx.utils import make_name, map_onnx_to_numpy_type

    @tf_op("Erfc")
    class _Erfc:
        @classmethod
        def version_9(cls, graph: Any, node: Any, **_: Any) -> None:
            dtypes, shapes = node.output_dtypes, node.output_shapes
            graph.remove_node(node.name)
            one = graph.make_const(make_name("one"), np.array(1, map_onnx_to_numpy_type(dtypes[0])))
            erf = graph.make_node("Erf", node.input, dtypes=dtypes, shapes=shapes)
            parts = [one.output[0], erf.output[0]]
            graph.make_node("Sub", parts, name=node.name, outputs=node.output, dtypes=dtypes, shapes=shapes)


def _check_dense(model: str) -> None:
    """Raise ValueError for sparse weights, of which tf2onnx reads as if they were dense."""
    from tf2onnx.tflite.Model import Model

    with open(model, "rb") as file:
        graphs = Model.GetRootAs(file.read(), 0)
    for number in range(graphs.SubgraphsLength()):
        graph = graphs.Subgraphs(number)
        for place in range(graph.TensorsLength()):
            if graph.Tensors(place).Sparsity() is not None:
                name = graph.Tensors(place).Name().decode()
                raise ValueError(f"tensor {name!r} is stored sparse: export the model with dense weights")


def _ends(model: str) -> tuple[list[str], list[str]]:
    """Return the names of a frozen graph's inputs, and of what nothing in it reads."""
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef()
    with open(model, "rb") as file:
        definition.ParseFromString(file.read())
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    operations = [o for o in graph.get_operations() if o.outputs and o.type != "Const"]
    inputs = [o for o in operations if o.type == "Placeholder"]
    ends = [o for o in operations if o not in inputs and not any(t.consumers() for t in o.outputs)]
    if not ends:
        raise ValueError("the graph has no nodes that compute a result")
    return [t.name for o in inputs for t in o.outputs], [t.name for o in ends for t in o.outputs]


if __name__ == "__main__":
    main(*sys.argv[1:4])
