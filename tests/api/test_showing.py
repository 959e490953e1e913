"""`repr` is one informative line; notebooks show a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import pinnace

ADD = Path(__file__).parents[1] / "data" / "api" / "add.onnx"


def test_a_model_shows_its_file_engine_and_ports():
    model = pinnace.Model()
    assert repr(model) == "<Model not built>"
    model.build_from_file(ADD, pinnace.ModelType.ONNX)
    engine = model.get_model_info("engine")
    facts = f"Model add.onnx, {engine}, float32"
    assert repr(model) == f"<{facts}: 'x' float32[3, 4, 5], 'y' float32[3, 4, 5] -> 'sum' float32[3, 4, 5]>"
    html = model._repr_html_()
    assert html.startswith(f"<table><caption>{facts}</caption>")
    assert html.count("<tr><td>input</td>") == 2
    model.close()
    assert repr(model) == "<Model closed>"


def test_a_runner_shows_its_workers():
    context = pinnace.Context(thread_num=1)
    context.parallel.workers_num = 2
    assert repr(context) == "<Context cpu: 1 threads, enforce_fp32, 2 workers>"
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(ADD, context)
        assert ", 2 workers: 'x' float32[3, 4, 5], " in repr(runner)


def test_names_of_a_file_do_not_reach_the_terminal_or_the_page_as_they_are():
    shown = pinnace.tensors.showing.Shown(
        "Model", ["<b>.onnx"], [pinnace.types.Port("\x1b[2J<i>", pinnace.DataType.INT8, (1,))], ()
    )
    assert "\x1b" not in shown.line()
    assert "&lt;b&gt;.onnx" in shown.table()
    assert "<i>" not in shown.table()


def test_tensors_show_their_first_values():
    tensor = pinnace.Tensor(np.arange(6, dtype=np.int32).reshape(2, 3))
    tensor.name = "ids"
    assert repr(tensor) == "<Tensor 'ids' int32[2, 3]: 0, 1, 2, 3, ...>"
    assert repr(pinnace.Tensor(np.array(2.5))) == "<Tensor '' float64[]: 2.5>"
    assert (
        repr(pinnace.Tensor(shape=[1, -1], dtype=pinnace.DataType.BOOL)) == "<Tensor '' bool[1, -1]: no data>"
    )
    np.testing.assert_array_equal(tensor.numpy(), [[0, 1, 2], [3, 4, 5]])
    assert np.shares_memory(tensor.numpy(), tensor.get_data_to_numpy())
    meta = pinnace.TensorMeta()
    meta.name, meta.dtype, meta.shape = "y", pinnace.DataType.FLOAT16, [3]
    assert repr(meta) == "<TensorMeta 'y' float16[3]>"
