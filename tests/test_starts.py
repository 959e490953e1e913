"""The modules that a process imports before its first answer: each costs every start of every service."""

import os
import subprocess
import sys

import pytest

RUN = """
import sys
import numpy
before = set(sys.modules)
import pinnace
for path in sys.argv[1:]:
    model = pinnace.Model(path)
    model.predict([numpy.zeros([max(1, size) for size in one.shape], one.dtype.to_numpy())
                   for one in model.get_inputs()])
print(*set(sys.modules) - before)
"""

NEVER = {
    *("asyncio", "openvino", "sympy"),
    *(
        "pinnace.api.runner",
        "pinnace.building.background",
        "pinnace.serving.stats",
        "pinnace.tensors.summary",
    ),
}
KEPT = NEVER | {
    *("concurrent.futures._base", "difflib", "email", "importlib.metadata", "importlib.resources"),
    *("subprocess", "tempfile", "uuid"),
    *("google.protobuf", "logging", "numpy.typing", "onnx", "onnx.onnx_ml_pb2", "onnx_ir"),
    *("pinnace.lowering", "pinnace.engines.rule", "pinnace.engines.onnxruntime.compilation", "pinnace.ops"),
}
FIRST = NEVER | {"pinnace.distributed", "pinnace.ops.table"}
LOWERED = FIRST - {"pinnace.ops.table"} | {"pinnace.ops.mindspore.boxes", "pinnace.ops.lite.sparse"}
IMPORT = KEPT | {
    *("json", "mmap", "onnxruntime", "pinnace.cache", "pinnace.engines.onnxruntime", "pinnace.formats"),
}


def imported(cache: object, keep: str, *models: object) -> set[str]:
    environment = {**os.environ, "PINNACE_CACHE_DIR": str(cache), "PINNACE_CACHE_KEEP": keep}
    command = [sys.executable, "-c", RUN, *map(str, models)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_package_alone():
    assert imported("off", "never") & IMPORT == set()


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("dense.onnx", FIRST),
        ("dense.mindir", LOWERED),
        ("picture.ms", LOWERED | {"pinnace.formats.mindir"}),
    ],
)
def test_a_model_first_and_again(data, tmp_path, name, absent):
    model = data / "api" / name
    assert imported(tmp_path, "never", model) & absent == set()
    imported(tmp_path, "before", model)
    assert imported(tmp_path, "never", model) & KEPT == set()
