"""Make tests/data/update: networks written twice, with two sets of weights, and what each computes.

    python tools/with_mindspore/make_update_goldens.py FOLDER          # needs MindSpore 2.10, onnx, onnxruntime
    python tools/with_mindspore/make_update_goldens.py --lite FOLDER   # needs mindspore_lite 2.0.0

The first writes mixed_a.mindir and mixed_b.mindir, and lite_a.onnx and lite_b.onnx, with NAME.npz beside
them; the second converts the latter to .ms and compares what MindSpore Lite makes of them.
"""

import os
import sys

import numpy as np


def mindspore():
    import mindspore as ms
    from mindspore import Parameter, Tensor, nn, ops

    class Net(nn.Cell):
        """Weights of all kinds: gathered, tied, dense, batched, convolved, and a count of the calls."""

        def __init__(self, seed):
            super().__init__()
            random = np.random.RandomState(seed)

            def weight(name, *shape):
                return Parameter(Tensor(random.randn(*shape).astype(np.float32) / 4), name=name)

            self.table = weight("table", 40, 24)
            self.batched = weight("batched", 2, 24, 24)
            self.dense = nn.Dense(24, 24)
            self.wide = nn.Conv2d(4, 8, 3, pad_mode="same", has_bias=True)
            self.narrow = nn.Conv2d(8, 4, 1, has_bias=True)
            self.norm = nn.LayerNorm((24,))
            self.calls = Parameter(Tensor(np.zeros(1, np.float32)), name="calls")
            for p in self.get_parameters():
                if p.name != "calls":
                    p.set_data(Tensor(random.randn(*p.shape).astype(np.float32) / 4))

        def construct(self, ids):
            count = ops.assign_add(self.calls, Tensor([1.0], ms.float32))
            x = ops.gather(self.table, ids, 0)
            x = self.norm(ops.relu(self.dense(x)) + ops.BatchMatMul()(x, self.batched))
            image = self.narrow(ops.relu(self.wide(x.reshape((2, 4, 6, 6)))))
            x = x + image.reshape((2, 6, 24))
            return ops.matmul(x, ops.transpose(self.table, (1, 0))), count * 1.0

    ms.set_context(mode=ms.GRAPH_MODE)
    ids = np.random.RandomState(7).randint(0, 40, (2, 6)).astype(np.int32)
    for name, seed in (("a", 1), ("b", 2)):
        net = Net(seed)
        net.set_train(False)
        ms.export(net, Tensor(ids), file_name="mixed_" + name, file_format="MINDIR")
        weights = {"w:" + p.name: p.asnumpy() for p in net.get_parameters() if p.name != "calls"}
        np.savez_compressed("mixed_" + name, x0=ids, y0=net(Tensor(ids))[0].asnumpy(), **weights)


def onnx():
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper, save

    for name, seed in (("a", 1), ("b", 2)):
        random = np.random.RandomState(seed)
        shapes = {
            "wide.weight": (16, 4, 3, 3),
            "wide.bias": (16,),
            "narrow.weight": (8, 16, 1, 1),
            "dense.weight": (8, 64),
            "last.weight": (64, 40),
        }
        weights = {key: random.randn(*shape).astype(np.float32) / 4 for key, shape in shapes.items()}
        conv = {"strides": [1, 1], "dilations": [1, 1], "group": 1}
        nodes = [
            (
                "Conv",
                ["x", "wide.weight", "wide.bias"],
                ["c"],
                {"kernel_shape": [3, 3], "pads": [1] * 4, **conv},
            ),
            ("Relu", ["c"], ["r"], {}),
            ("Conv", ["r", "narrow.weight"], ["n"], {"kernel_shape": [1, 1], "pads": [0] * 4, **conv}),
            ("GlobalAveragePool", ["n"], ["p"], {}),
            ("Flatten", ["p"], ["f"], {}),
            ("MatMul", ["f", "dense.weight"], ["d"], {}),
            ("Tanh", ["d"], ["t"], {}),
            ("MatMul", ["t", "last.weight"], ["y"], {}),
        ]
        graph = helper.make_graph(
            [helper.make_node(op, i, o, **a) for op, i, o, a in nodes],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 40))],
            [numpy_helper.from_array(w, key) for key, w in weights.items()],
        )
        save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7),
            "lite_" + name + ".onnx",
        )
        x = np.random.RandomState(7).randn(1, 4, 8, 8).astype(np.float32)
        (y,) = onnxruntime.InferenceSession("lite_" + name + ".onnx").run(None, {"x": x})
        np.savez_compressed("lite_" + name, x0=x, y0=y, **{"w:" + k: w for k, w in weights.items()})


def lite():
    import mindspore_lite as mslite

    for name in ("lite_a", "lite_b"):
        converter = mslite.Converter()
        converter.save_type = mslite.ModelType.MINDIR_LITE
        converter.convert(mslite.FmkType.ONNX, name + ".onnx", name)
        os.chmod(name + ".ms", 0o644)
        model = mslite.Model()
        model.build_from_file(name + ".ms", mslite.ModelType.MINDIR_LITE)
        golden = np.load(name + ".npz")
        inputs = model.get_inputs()
        x = golden["x0"]
        nhwc = list(x.shape) != inputs[0].shape
        inputs[0].set_data_from_numpy(np.ascontiguousarray(x.transpose(0, 2, 3, 1) if nhwc else x))
        y = model.predict(inputs)[0].get_data_to_numpy()
        np.testing.assert_allclose(y, golden["y0"], rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    os.makedirs(sys.argv[-1], exist_ok=True)
    os.chdir(sys.argv[-1])
    for step in [lite] if sys.argv[1] == "--lite" else [mindspore, onnx]:
        step()
