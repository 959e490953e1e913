"""C++ programs compile and run, with the results of MindSpore."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.cpp.conftest import ROOT, need, run
from tests.cpp.models import write
from tests.docs.page import blocks

from pinnace.cache.folder import Folder

CAT = ROOT / "examples" / "input.bin"
NET = ROOT / "src" / "pinnace" / "data" / "efficientnet_lite0.mindir"
ADD = ROOT / "tests" / "data" / "api" / "add.onnx"


@pytest.fixture(scope="module")
def concurrent(built, tmp_path_factory) -> Path:
    """The program of examples/cpp, which has the code of MindSpore Lite's document, built by CMake."""
    need("cmake")
    folder = tmp_path_factory.mktemp("build")
    run("cmake", "-S", ROOT / "examples" / "cpp", "-B", folder, f"-Dpinnace_DIR={built.cmakedir}")
    run("cmake", "--build", folder)
    return folder / "concurrent_inference"


def test_the_document_predicts_right_classes(concurrent):
    golden = np.load(ROOT / "tests" / "data" / "efficientnet_lite0_expected.npz")
    expected = golden["chelsea_mindspore"].ravel()
    found = re.findall(r"client (\d) task (\d) class (\d+) score (\S+)", run(concurrent, NET, CAT))
    assert Counter((client, task) for client, task, *_ in found) == Counter(
        (str(client), str(task)) for client in range(5) for task in (1, 2)
    )
    for _, _, best, score in found:
        assert int(best) == expected.argmax()
        assert float(score) == pytest.approx(expected.max(), abs=1e-5)  # printed with six digits


def test_the_errors_of_the_document(concurrent, tmp_path):
    """The code of the document ends with -1, and its text says why."""
    missing = run(concurrent, tmp_path / "none.mindir", CAT, code=255)
    assert "Build model error invalid model file: " in missing
    assert "none.mindir" in missing
    assert "is not a model that Pinnace reads" in run(concurrent, CAT, CAT, code=255)
    weird = tmp_path / "ints.onnx"
    sizes = [1, 3, 224, 224]
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("unused", TensorProto.INT64, [1], [7])],
    )
    graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [1]))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), weird)
    assert "Predict error invalid tensor: tensor 'shape' has no data" in run(concurrent, weird, CAT, code=255)


def test_a_model_from_memory_whose_weights_are_in_files(concurrent, data, tmp_path):
    golden = np.load(data / "split" / "big.npz")
    names = list(golden)
    golden[names[0]].tofile(tmp_path / "x.bin")
    graph = data / "split" / "big_graph.mindir"
    printed = run(concurrent.with_name("from_buffer"), graph, graph, tmp_path / "x.bin").split()
    np.testing.assert_allclose(np.array(printed, float), golden[names[1]].ravel(), rtol=1e-4, atol=1e-5)
    assert "Build model error" in run(concurrent.with_name("from_buffer"), graph, tmp_path, CAT, code=255)


def test_the_tutorial_shows_code_of_the_examples():
    programs = "".join(path.read_text() for path in sorted((ROOT / "examples" / "cpp").glob("*.cc")))
    pieces = [b.text for b in blocks(ROOT / "docs" / "tutorials" / "cpp.md") if b.language == "cpp"]
    assert len(pieces) == 7
    for piece in pieces:
        assert piece in programs or piece.strip() in programs


def test_every_class(compiled, data, tmp_path):
    write(tmp_path)
    output = run(compiled("surface"), data, tmp_path, PINNACE_SIMULATE="gpu:2,ascend:1")
    assert "0 failures" in output


@pytest.mark.parametrize("life", ["static", "threads", "fork"])
def test_lives_of_a_process(compiled, life):
    assert "0 failures" in run(compiled("lives"), life, ADD)


def test_a_python_that_cannot_run_pinnace(compiled, tmp_path):
    assert "0 failures" in run(compiled("lives"), "broken", ADD, PINNACE_PYTHON=str(tmp_path / "python"))


def test_a_program_that_embeds_python(compiled):
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder = sysconfig.get_config_var("LIBDIR")
    flags = f"-I{sysconfig.get_path('include')}", f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l{name}"
    assert "0 failures" in run(compiled("embeds", *flags), ADD, sys.executable)


def test_deleted_runners_are_freed_although_they_wait_to_be_kept(compiled, tmp_path):
    cache = tmp_path / "cache"
    with Folder(cache).lock("keeper", 10):
        output = run(compiled("leaks"), ADD, 70, PINNACE_CACHE_DIR=str(cache), PINNACE_CACHE_KEEP="after")
    left = json.loads(output)
    # The helper takes a pipe, a thread and mappings of modules. A session would take 50 kB, the file of every
    # second runner a descriptor and a mapping.
    assert max(left["files"], left["mappings"], left["threads"]) < 0.3
    assert left["memory"] < 20_000
