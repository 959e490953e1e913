"""`repr` is one informative line; notebooks show a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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


def test_a_notebook_shows_tables_of_tensors_contexts_and_stats():
    tensor = pinnace.Tensor(np.arange(3, dtype=np.float32))
    tensor.name = "<x>"
    assert "<caption>Tensor &lt;x&gt;</caption>" in tensor._repr_html_()
    assert "<tr><td>values</td><td>0.0, 1.0, 2.0</td></tr>" in tensor._repr_html_()
    assert "<tr><td>threads</td><td>3 threads</td></tr>" in pinnace.Context(thread_num=3)._repr_html_()
    with pinnace.Model(ADD) as model:
        model.predict([np.zeros((3, 4, 5), np.float32)] * 2)
        assert "<tr><td>served</td><td>1</td></tr>" in model.stats()._repr_html_()


def test_a_runner_shows_its_workers():
    context = pinnace.Context(thread_num=1)
    context.parallel.workers_num = 2
    assert repr(context) == "<Context cpu: 1 threads, enforce_fp32, 2 workers>"
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(ADD, context)
        assert ", 2 workers: 'x' float32[3, 4, 5], " in repr(runner)


def test_names_of_a_file_do_not_reach_the_terminal_or_the_page_as_they_are():
    shown = pinnace.tensors.summary.Summary(
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


def test_free_dimensions_keep_the_names_of_the_file():
    pair = ADD.with_name("pair.onnx")
    for _ in range(2):  # the second one is from the cache
        with pinnace.Model() as model:
            model.build_from_file(pair, pinnace.ModelType.ONNX)
            assert repr(model).endswith(
                ": 'table' float32[n, 2], 'rows' int64[n] -> 'sum' float32[n, 2], 'twice' int64[n]>"
            )
            table, rows = model.get_inputs()
            assert (table.shape, table.dim_names, rows.dim_names) == ([-1, 2], ["n", ""], ["n"])
            assert repr(table) == "<Tensor 'table' float32[n, 2]: no data>"
            with pytest.raises(pinnace.DataMismatchError, match=r"must have shape \[n, 2\]"):
                model.predict([np.zeros(3, np.float32), np.zeros(3, np.int64)])
            with pytest.raises(pinnace.DataMismatchError, match=r"has shape \[n, 2\] and"):
                model.resize(model.get_inputs(), [[3, 3, 3], [3]])
            model.resize([table, rows], [[3, 2], [3]])
            assert repr(table) == "<Tensor 'table' float32[3, 2]: no data>"
