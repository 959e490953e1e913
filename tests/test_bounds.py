"""Files that ask for much work with few bytes: each ends in one error that names the bound, or runs."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper
from onnx_ir.passes.common import InlinePass
from PIL import Image, features
from tests.fuzz import amplify

from pinnace import Context, DataType, Model, ModelType, Tensor, bounds, images
from pinnace.building.build import build_model as build
from pinnace.building.opening import inspect_model
from pinnace.cli import console, inputs
from pinnace.converter.convert import Conversion, convert
from pinnace.distributed.shard.cutting import shard
from pinnace.engines import folding_limits
from pinnace.errors import ConfigError, ModelStateError, PinnaceError
from pinnace.formats import packing
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.weights import lora
from pinnace.weights.source import Source

ROOT = Path(__file__).parent.parent

# In a process of its own, because what is not bounded takes all memory and never ends.
OPEN = """
import resource, sys
from pinnace.building.build import build_model as build
from pinnace.options.settings import Settings
from pinnace.errors import PinnaceError
from pinnace.options.target import Target

resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
try:
    build(sys.argv[1], None, Target(threads=1), Settings()).close()
    print("built")
except PinnaceError as error:
    print(error)
with open("/proc/self/status") as lines:  # ru_maxrss counts the process that forked this one, too
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
assert peak < 1 << 20, "took more than 1 GiB"
"""


def opened(tmp_path, model) -> str:
    path = tmp_path / "model"
    path.write_bytes(model.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (amplify.tuples(60), "a tuple of 8192 items"),
        (amplify.tuples(60, 1), "33 nested tuples"),
        (amplify.calls(20, 2), "nodes, with all calls inlined"),
        (amplify.calls(1600), "is nested in more than 128 calls"),
        (amplify.functions(30), "nodes, with all functions inlined"),
        (amplify.functions(200), "more than 128 deep, or themselves"),
        (amplify.outputs(20_000), "has 20000 outputs, but at most 4096 are supported"),
        (amplify.repeats("Sum", 5000), "Sum 'd' has 5000 inputs, but at most 4096 are supported"),
        (amplify.doubles(2000), "cannot"),
    ],
    ids=[
        "tuples",
        "deep tuples",
        "calls",
        "deep calls",
        "functions",
        "deep functions",
        "outputs",
        "inputs",
        "doubles",
    ],
)
def test_endless_files_are_refused(model, message, tmp_path):
    assert message in opened(tmp_path, model)


@pytest.mark.parametrize(
    "model",
    [
        amplify.calls(100),
        amplify.functions(100, 1),
        amplify.tuples(8),
        amplify.parts(50_000),
        amplify.repeats("Concat", 4096),
        amplify.fan(4096),
        amplify.chain("Transpose", 8000),
        amplify.joined(4000),
    ],
    ids=[
        *("calls", "functions", "tuples", "outputs of a node", "inputs of a node", "readers of a value"),
        *("moves", "joined steps"),
    ],
)
def test_what_is_within_bounds_runs(model, tmp_path):
    assert opened(tmp_path, model) == "built\n"


@pytest.mark.parametrize(
    "model",
    [
        amplify.constants(40, 4000),
        amplify.products(200, 4000),
        amplify.products(200, 500),
        amplify.einsum(6, 60),
        amplify.einsum(2, 8000),
        amplify.convolution(1000),
        amplify.doubles(60),
    ],
    ids=["constants", "products", "small products", "einsum", "outer product", "convolution", "doubles"],
)
def test_what_takes_long_is_left_for_the_run(model, tmp_path):
    """Without bounds these take 2.6 GB, minutes, or both."""
    assert opened(tmp_path, model) == "built\n"


def _all_ways(path):
    """Open, describe and convert a file."""
    source = Source.of_file(path)
    for provider in ("onnxruntime", "openvino"):
        yield lambda provider=provider: build(
            str(path), None, Target(threads=1, provider=provider), Settings()
        )
    yield lambda: inspect_model(path)
    for kind in (ModelType.MINDIR, ModelType.MINDIR_LITE):
        yield lambda kind=kind: convert(source, ModelType.ONNX, f"{path}.made", Conversion(save_type=kind))


@pytest.mark.filterwarnings("ignore::pinnace.PinnaceWarning")
def test_texts_where_numbers_belong_are_refused(tmp_path):
    """Each operator of ONNX, with a text in the place of each input: others than PinnaceErrors are faults."""
    for number, (operator, place) in enumerate(amplify.texts()):
        others = ["xic"[(number + i) % 3] for i in range(12)]
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(amplify.text(operator, place, others, number % 4).SerializeToString())
        for way in _all_ways(path):
            with contextlib.suppress(PinnaceError):  # some take texts
                way()


def test_constants_left_for_the_run_are_right(run_model, tmp_path):
    path = tmp_path / "products.onnx"
    path.write_bytes(amplify.products(3, 1500).SerializeToString())
    (left,) = run_model(path, [np.zeros(2, np.float32)])
    total = 1e-3 * 1.5**3 * 1500**2
    assert left == pytest.approx([total] * 2, rel=1e-2)  # a sum of two million float32


def test_a_constant_that_is_computed_often_is_a_weight_once():
    """Calls of a function would raise the bounds of what may be computed ahead."""
    value = onnx.numpy_helper.from_array(np.zeros(1000, np.float32), "c")
    imports = [helper.make_opsetid("", 21)]
    nodes = [helper.make_node("Constant", [], ["y"], value=value)]
    function = helper.make_function("f", "c", [], ["y"], nodes, imports)
    calls = [helper.make_node("c", [], [f"y{i}"], domain="f") for i in range(9)]
    graph = helper.make_graph(calls, "calls", [], [helper.make_tensor_value_info("y0", 1, [1000])])
    made = helper.make_model(
        graph, functions=[function], opset_imports=[*imports, helper.make_opsetid("f", 1)]
    )
    model = ir.serde.deserialize_model(made)
    InlinePass()(model)
    assert sum(folding_limits._Estimate(model).weights()) == 4000


def test_inspect_has_the_same_bounds(tmp_path):
    path = tmp_path / "tuples.mindir"
    path.write_bytes(amplify.tuples(60).SerializeToString())
    (refused,) = inspect_model(path).unsupported
    assert "a tuple of 8192 items" in refused.reason


def test_endless_pattern_is_refused_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(lora, "_MATCHING", 1)
    with pytest.raises(ValueError, match="alpha_pattern takes more than 1 s to match"):
        lora._matching(["(a+)+b", "plain"], ["a" * 60])


def test_patterns_match_as_peft_matches_them():
    keys = ["net.1.fc", "net.12.fc", "fc", "net.1.other"]
    found = lora._matching(["fc", r"net\.1\.\w+", "1"], keys)
    assert found == {"fc": {*keys[:3]}, r"net\.1\.\w+": {keys[0], keys[3]}, "1": set()}


@pytest.mark.parametrize("kind", ["INDEXING", "FSE"])
def test_few_packed_bytes_are_not_many_weights(kind):
    row = {"numBits": 8, "scale": 1.0, "varCorr": 1.0, "meanCorr": 0.0, "zeroPoint": 0}
    pack = packing.of(kind, (1 << 27,), ir.DataType.INT8, [row], 0, ValueError)
    with pytest.raises(ValueError, match="131072 bytes cannot hold 134217728 elements"):
        pack.unpack(np.zeros(1 << 17, np.uint8))


def test_weights_of_several_pieces_are_unpacked_as_one():
    row = {"numBits": 3, "scale": 1.0, "varCorr": 1.0, "meanCorr": 0.0, "zeroPoint": 1}
    numbers = np.random.default_rng(0).integers(0, 8, 200_000, np.uint8)
    bits = np.unpackbits(numbers[:, None], axis=1, bitorder="little")[:, :3]
    pack = packing.of("BITPACKING", (200_000,), ir.DataType.INT8, [row], 0, ValueError)
    found = pack.unpack(np.packbits(bits.reshape(-1), bitorder="little"))
    assert np.array_equal(found, numbers.astype(np.float32) - 5)


def test_more_ranks_than_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="1000000 ranks: a model can be cut into at most 1024"):
        shard(tmp_path / "model.onnx", 1_000_000, tmp_path)


def test_inputs_that_no_memory_holds(tmp_path):
    path = tmp_path / "free.onnx"
    x, y = (helper.make_tensor_value_info(n, 1, ["n", 64]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "free", [x], [y])
    path.write_bytes(
        helper.make_model(
            graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]
        ).SerializeToString()
    )
    with Model() as model:
        model.build_from_file(str(path), ModelType.ONNX, Context())
        model.resize(model.get_inputs(), [[1 << 40, 64]])
        (output,) = model.get_outputs()
        assert output.shape == [-1, 64]
        with pytest.raises(ModelStateError, match="can hold no data"):
            model.get_inputs()[0].get_data_to_numpy()


def test_control_characters_are_spelled_out():
    assert console.plain("a\x1b[31m\x9b\u202eb\n\u00fc") == "a\\x1b[31m\\x9b\\u202eb\n\u00fc"


def picture(size: int) -> bytes:
    file = io.BytesIO()
    Image.new("1", (size, size)).save(file, "PNG")
    return file.getvalue()


def icns(png: bytes) -> bytes:
    """Icons of Apple's, one of which says that it has 256 x 256 pixels."""
    icon = b"ic08" + (8 + len(png)).to_bytes(4, "big") + png
    return b"icns" + (8 + len(icon)).to_bytes(4, "big") + icon


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("deep.npy", b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000, "an .npy file"),
        ("bomb.png", picture(9000), "81000000 pixels"),
        ("bomb.icns", icns(picture(9000)), "81000000 pixels"),
        ("damaged.dds", b"DDS \x7c\0\0\0" + b"\xff" * 200, "is no .npy or .npz file, picture"),
        ("damaged.icns", b"icns\x00\x00\x00\x20ic08\x00\x00\x00\x18" + b"\xff" * 16, "cannot be read"),
        ("large.bin", b"\0" * 100, "has 100 bytes, but the input [1, 3, 8, 8] takes 768"),
    ],
)
def test_inputs_that_are_no_inputs_are_one_error(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    slot = Tensor(shape=[1, 3, 8, 8], dtype=DataType.FLOAT32)
    with pytest.raises(PinnaceError, match=re.escape(message)):
        inputs.feed([slot], {"": path}, {}, inputs.Pictures())


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow reads no AVIF")
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_half_an_avif_is_one_error(kept, tmp_path):
    path = tmp_path / "half.avif"
    Image.effect_noise((64, 64), 50).convert("RGB").save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(PinnaceError, match=r"cannot be read|not a picture"):
        images.load(path, (8, 8))


def test_a_limit_grows_by_16_for_each_part_of_a_file():
    assert bounds.of_file(1000, 50) == 1800
