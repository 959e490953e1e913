"""Conversions for Ascend, with configurations as those of MindSpore Lite's examples."""

import numpy as np
import onnx
import onnxruntime
import pytest

import pinnace
from pinnace.cli.converter_lite import main
from pinnace.errors import ConfigError, DataMismatchError, ModelFormatError, PinnaceWarning
from pinnace.formats.mindir.reader import model_class

STEP = """<ir_version: 8, opset_import: ["" : 17]>
step (int64[b, s] input_ids, int64[b, t] attention_mask, float[2, b, 2, p, 4] past_key_values)
     => (float[b, s, 4] logits, float[2, b, 2, q, 4] past_kv, int64[b, s] token)
<float[5, 4] table = {0, 1, 2, 3, 4, 5, -6, 7, 8, 9, 1, 1, -2, 3, 4, 5, 6, 7, -8, 9}, int64[1] one = {1}> {
    seen = Cast<to = 1>(attention_mask)
    count = ReduceSum(seen, one)
    weight = Unsqueeze(count, one)
    rows = Gather(table, input_ids)
    logits = Mul(rows, weight)
    token = ArgMax<axis = 2, keepdims = 0>(logits)
    past_kv = Concat<axis = 3>(past_key_values, past_key_values)
}"""
"""A step of a decoder in small: places of int64, and a cache that grows."""

GEARS = {
    "build options": """
        [acl_build_options]
        input_format="ND"
        input_shape="input_ids:1,1;attention_mask:1,-1;past_key_values:2,1,2,-1,4"
        ge.dynamicDims="33,32;65,64"

        [acl_init_options]
        ge.exec.precision_mode=force_fp32
        ge.exec.modify_mixlist="configs/op_fp32.json"
        """,
    "single quotes, spaces and comments": """
        # what a step sees, and what it keeps
        [ascend_context]
        plugin_custom_ops=All
        [acl_build_options]
        input_format='ND'
        input_shape = "input_ids:1,1;attention_mask:1,-1;past_key_values:2,1,2,-1,4"
        ge.dynamicDims = "33,32;65,64"
        """,
    "graph options": """
        [ascend_context]
        plugin_custom_ops=All
        model_cache_mode=mem_opt
        [ge_session_options]
        ge.externalWeight=2
        ge.exec.precision_mode=force_fp16
        [ge_graph_options]
        ge.inputShape=input_ids:1,1;attention_mask:1,-1;past_key_values:2,1,2,-1,4
        ge.dynamicDims=33,32;65,64
        ge.dynamicNodeType=1
        """,
    "init options": """
        [acl_init_options]
        ge.inputShape=input_ids:1,1;attention_mask:1,-1;past_key_values:2,1,2,-1,4
        ge.dynamicDims="33,32;65,64"
        """,
    "context": """
        [ascend_context]
        input_shape=input_ids:[1,1];attention_mask:[1,-1];past_key_values:[2,1,2,-1,4]
        dynamic_dims=[33],[65];[32],[64]
        """,
    "another order": """
        [acl_build_options]
        input_shape="past_key_values:2,1,2,-1,4;attention_mask:1,-1;input_ids:1,1"
        ge.dynamicDims="32,33;64,65"
        """,
}


@pytest.fixture
def step(tmp_path):
    """The step in a file."""
    onnx.save(onnx.parser.parse_model(STEP), tmp_path / "step.onnx")
    return tmp_path / "step.onnx"


def converted(model, configuration="", *flags, optimize="ascend_oriented"):
    """Convert a model by the command; return the file."""
    config = model.with_name("config.ini")
    config.write_text("\n".join(line.strip() for line in configuration.splitlines()))
    made = model.with_suffix("")
    given = ["--fmk=ONNX", f"--modelFile={model}", f"--outputFile={made}", f"--configFile={config}"]
    main([*given, f"--optimize={optimize}", *flags])
    return f"{made}.mindir"


def refused(model, configuration, capsys, *flags):
    """Convert a model, which fails; return what was said."""
    with pytest.raises(SystemExit):
        converted(model, configuration, *flags)
    return capsys.readouterr().err


def opened(path, target="cpu"):
    context, model = pinnace.Context(), pinnace.Model()
    context.target = [target]
    model.build_from_file(path, pinnace.ModelType.MINDIR, context)
    return model


def request(seen, kept, batch=1):
    random = np.random.default_rng(0)
    ids, mask = random.integers(0, 5, (batch, 1)), random.integers(0, 2, (batch, seen))
    past = random.standard_normal((2, batch, 2, kept, 4)).astype(np.float32)
    return ids, mask, past


def reference(model, inputs):
    session = onnxruntime.InferenceSession(model)
    return session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs, strict=True)))


def predicted(model, given):
    """Return what a model with int32 in the place of int64 computes."""
    narrow = [x.astype(np.int32) if x.dtype == np.int64 else x for x in given]
    return [tensor.get_data_to_numpy() for tensor in model.predict(narrow)]


def same(model, given, original):
    """Compare a prediction with int32 in the place of int64 with what onnxruntime computes of int64."""
    found = predicted(model, given)
    for x, y in zip(found, reference(original, given), strict=True):
        # sums of zeros and ones, and products with them, are exact
        np.testing.assert_array_equal(x, y.astype(np.int32) if y.dtype == np.int64 else y, strict=True)


FREE = [[1, 1], [1, -1], [2, 1, 2, -1, 4]]
REFUSED = r"dynamic_dims allows .*65.* of 'attention_mask' .* but got \[{}, {}\]"


@pytest.mark.parametrize("target", ["cpu", "ascend"])
@pytest.mark.parametrize("form", GEARS)
def test_gears_are_the_only_shapes_of_a_converted_model(monkeypatch, step, form, target):
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1")
    path = converted(step, GEARS[form], "--infer=true")
    for _ in range(2):  # the second is loaded from the compile cache, or is on its way there
        model = opened(path, target)
        assert [tensor.shape for tensor in model.get_inputs()] == FREE
        for seen, kept in ((33, 32), (65, 64)):
            same(model, request(seen, kept), step)
        for seen, kept in ((33, 64), (34, 33)):
            with pytest.raises(DataMismatchError, match=REFUSED.format(seen, kept)):
                same(model, request(seen, kept), step)
            with pytest.raises(DataMismatchError, match=REFUSED.format(seen, kept)):
                model.resize(model.get_inputs(), [[1, 1], [1, seen], [2, 1, 2, kept, 4]])
        for seen, kept in ((33, 32), (65, 64)):
            model.resize(model.get_inputs(), [[1, 1], [1, seen], [2, 1, 2, kept, 4]])
            same(model, request(seen, kept), step)
    assert set(model.get_model_info("dynamic_dims").replace(";", ",").split(",")) == {"33", "32", "65", "64"}
    assert "past_key_values:2,1,2,-1,4" in model.get_model_info("input_shape")


@pytest.mark.parametrize(
    "configuration",
    ["", "[acl_init_options]\nge.exec.precision_mode = force_fp32", "[ascend_context]\nprovider=ge"],
)
def test_dimensions_that_nothing_fixes_stay_free(step, configuration):
    model = opened(converted(step, configuration))
    assert [tensor.shape for tensor in model.get_inputs()] == [[-1, -1], [-1, -1], [2, -1, 2, -1, 4]]
    for seen, kept, batch in ((3, 2, 1), (7, 4, 3)):
        same(model, request(seen, kept, batch), step)
    assert model.get_model_info("engine")


def test_an_input_shape_fixes_what_it_names(step, capsys):
    configuration = """[acl_build_options]
        input_shape="attention_mask:1,5;input_ids:1,1"
        """
    model = opened(converted(step, configuration, "--inputShape=past_key_values:2,1,2,-1,4"))
    assert [tensor.shape for tensor in model.get_inputs()] == [[1, 1], [1, 5], [2, 1, 2, -1, 4]]
    same(model, request(5, 3), step)
    error = refused(step, configuration, capsys, "--inputShape=input_ids:1,2")
    assert "input 'input_ids' is [1, 1] in the configuration's input_shape, and [1, 2]" in error


def test_gears_of_one_input_and_its_pictures(tmp_path):
    """Free rows with two sizes, and a batch by its own key."""
    text = "g (float[n, 6] pixels) => (float[n, 6] y) { y = Neg(pixels) }"
    original = tmp_path / "vision.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), original)
    for key in ('ge.dynamicDims="2;5"', "ge.dynamicBatchSize=2,5"):
        model = opened(converted(original, f'[acl_build_options]\ninput_shape="pixels:-1,6"\n{key}'))
        for rows in (2, 5):
            same(model, [np.ones((rows, 6), np.float32)], original)
        with pytest.raises(DataMismatchError, match=r"allows \[2\],\[5\] .* got \[3\]"):
            model.predict([np.ones((3, 6), np.float32)])


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("acl_build_options", "ge.dynamicDims", "1,2"),
        ("acl_build_options", "ge.dynamicBatchSize", "1,2"),
        ("ascend_context", "dynamic_dims", "[1~2]"),
        ("acl_option_cfg_param", "dynamic_batch_size", "1,2"),
    ],
)
def test_sizes_without_a_free_dimension_are_refused_by_their_key(step, section, key, value, capsys):
    shape = "input_ids:1,1;attention_mask:1,3;past_key_values:2,1,2,2,4"
    fixing = f"[ge_graph_options]\nge.inputShape={shape}\n"
    error = refused(step, f"{fixing}[{section}]\n{key}={value}", capsys)
    assert f"[{section}] {key} has sizes of free dimensions, and the model's inputs have none" in error
    fixed = converted(step, fixing)
    context, model = pinnace.Context(), pinnace.Model()
    context.target = ["ascend"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PINNACE_SIMULATE", "ascend:1")
        with pytest.raises(ConfigError, match=rf"\[{section}\] {key} has sizes of free"):
            model.build_from_file(fixed, pinnace.ModelType.MINDIR, context, "", {section: {key: value}})


def test_what_a_file_cannot_hold_is_refused(step, capsys):
    error = refused(step, GEARS["build options"], capsys, "--saveType=MINDIR_LITE")
    assert "[acl_build_options] ge.dynamicDims: a .ms has no place" in error
    wrong = '[acl_build_options]\nge.dynamicDims="1,2"'
    assert "[acl_build_options] ge.dynamicDims: there are sizes for 2 free" in refused(step, wrong, capsys)


def test_shapes_of_the_context_choose_among_the_gears(monkeypatch, step):
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1")
    path = converted(step, GEARS["build options"])
    context = pinnace.Context()
    context.target = ["ascend"]

    def built(shape):
        model = pinnace.Model()
        options = {"ascend_context": {"input_shape": shape}}
        model.build_from_file(path, pinnace.ModelType.MINDIR, context, "", options)
        return model

    model = built("attention_mask:1,65")
    same(model, request(65, 64), step)
    with pytest.raises(DataMismatchError, match=r"allows \[64\] .* got \[32\]"):
        same(model, request(65, 32), step)
    with pytest.raises(ConfigError, match="input_shape is none of its gears"):
        built("attention_mask:1,34")


def test_a_file_that_is_converted_again_keeps_its_gears(step, tmp_path):
    path = converted(step, GEARS["build options"])
    converter = pinnace.Converter()
    converter.convert(pinnace.FmkType.MINDIR, path, tmp_path / "again")
    with pytest.raises(DataMismatchError, match=r"allows \[33,32\],\[65,64\]"):
        same(opened(tmp_path / "again.mindir"), request(33, 33), step)


@pytest.mark.parametrize("text", [b"1", b"1,2,3", b"x", b"\xff", b"0,0"])
def test_gears_of_a_damaged_file_are_an_error_of_the_file(step, text, tmp_path):
    proto = model_class()()
    with open(converted(step, GEARS["build options"]), "rb") as file:
        proto.ParseFromString(file.read())
    (attribute,) = (a for a in proto.graph.attribute if a.name == "dynamic_dims")
    attribute.s = text
    (tmp_path / "damaged.mindir").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelFormatError, match=r"damaged.mindir: its attributes input_shape and dynamic"):
        opened(str(tmp_path / "damaged.mindir"))


WIDE = """<ir_version: 8, opset_import: ["" : 17]>
wide (int64[2] a, double[2] b) => (int64[2] c, double[2] d, int64[2] e) {
    c = Mul(a, a)
    d = Div(b, b)
    e = Identity(a)
}"""


@pytest.mark.parametrize(("keep", "kinds"), [("0", (np.int32, np.float32)), ("1", (np.int64, np.float64))])
def test_ports_are_narrow_unless_the_environment_keeps_them(monkeypatch, tmp_path, keep, kinds):
    monkeypatch.setenv("KEEP_ORIGIN_DTYPE", keep)
    original = tmp_path / "wide.onnx"
    onnx.save(onnx.parser.parse_model(WIDE), original)
    converter = pinnace.Converter()
    converter.infer = True
    if keep == "1":
        converter.convert(pinnace.FmkType.ONNX, original, tmp_path / "wide")
    else:
        with pytest.warns(PinnaceWarning, match="int64 became int32.*input 'a', output 'c'"):
            converter.convert(pinnace.FmkType.ONNX, original, tmp_path / "wide")
    assert converter.summary.error == 0
    model = opened(str(tmp_path / "wide.mindir"))
    whole, real = kinds
    given = [np.array([3, -4]), np.array([0.5, 7])]
    found = [t.get_data_to_numpy() for t in model.predict([given[0].astype(whole), given[1].astype(real)])]
    for x, y in zip(found, reference(original, given), strict=True):
        np.testing.assert_array_equal(x, y.astype(whole if y.dtype == np.int64 else real), strict=True)


def test_a_file_says_how_its_conversion_was_optimized(step, capsys):
    sizes = {}
    for optimize in ("general", "gpu_oriented", "ascend_oriented"):
        path = converted(step, "", optimize=optimize)
        with open(path, "rb") as file:
            sizes[optimize] = file.read()
        error = capsys.readouterr().err
        assert (f"optimize={optimize} wrote what optimize=general writes" in error) == (optimize != "general")
    assert sizes["general"] == sizes["gpu_oriented"] == sizes["ascend_oriented"]
    converted(step, GEARS["build options"], optimize="general")
    assert "optimize=ascend_oriented reads the shapes" in capsys.readouterr().err


def test_outputs_get_the_type_of_the_configuration(step):
    model = opened(converted(step, "[acl_build_options]\nge.outputDataType=FP16", "--infer=true"))
    found = predicted(model, request(3, 2))
    for x, y in zip(found, reference(step, request(3, 2)), strict=True):
        np.testing.assert_array_equal(x, y.astype(np.float16), strict=True)
