"""Attention in nodes `Custom`, alone and in a small language model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from customs import BOTH, CLOSE, HALF, arrays, ran, wide
from onnx import helper

from pinnace.building.build import build_model as build
from pinnace.errors import PinnaceError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

DATA = Path(__file__).parents[1] / "data" / "custom"


LAYOUTS = {
    "BNSD": lambda x: x,
    "BSND": lambda x: x.transpose(0, 2, 1, 3),
    "BSH": lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1),
}


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, hidden: np.ndarray) -> np.ndarray:
    """Attention of (batch, heads, tokens, size), one head after the other."""
    y, group = np.empty(q.shape), q.shape[1] // k.shape[1]
    for batch, head in np.ndindex(q.shape[:2]):
        keys, values = k[batch, head // group], v[batch, head // group]
        scores = np.where(hidden[batch], -np.inf, wide(q[batch, head]) @ keys.T * scale)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        y[batch, head] = weights / weights.sum(-1, keepdims=True) @ values
    return y


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(("layout", "result"), [*((x, x) for x in LAYOUTS), ("BNSD_BSND", "BSND")])
@pytest.mark.parametrize("kv_heads", [0, 2])
@pytest.mark.parametrize("kind", ["PromptFlashAttention", "IncreFlashAttention"])
def test_attention(engine, layout, result, kv_heads, kind):
    tokens = 3 if kind.startswith("Prompt") else 1
    few = kv_heads or 4
    q, k, v = arrays(9, (2, 4, tokens, 8), (2, few, 5, 8), (2, few, 5, 8))
    hidden = np.arange(5) > np.arange(5 - tokens, 5)[:, None] - np.arange(2)[:, None, None]
    lay = LAYOUTS[layout.partition("_")[0]]
    (y,) = ran(
        kind, {"query": lay(q), "key": lay(k), "value": lay(v), "atten_mask": hidden[:, None]},
        engine=engine, num_heads=4, num_key_value_heads=kv_heads, scale_value=0.3, input_layout=layout,
        optional_input_names=["atten_mask"], input_index=[0, 1, 2, 3],
    )  # fmt: skip
    np.testing.assert_allclose(y, LAYOUTS[result](attended(q, k, v, 0.3, hidden)), **CLOSE)


def test_attention_whose_numbers_are_left_out():
    q, k, v = arrays(9, (2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8))
    hidden = np.arange(5) > np.arange(3)[:, None] + np.zeros((2, 1, 1))
    query, key, value = map(LAYOUTS["BSH"], (q, k, v))
    given = {"query": query, "key": key, "value": value, "atten_mask": hidden}
    (y,) = ran("PromptFlashAttention", given, num_heads=4)
    np.testing.assert_allclose(y, LAYOUTS["BSH"](attended(q, k, v, 1.0, hidden)), **CLOSE)


@pytest.mark.parametrize("opset", [13, 14, 17, 18])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.float16])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_masks_of_attention_hide_where_they_are_not_zero(opset, dtype, rank):
    q, k, v = arrays(10, (2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8), dtype=np.float16)
    hidden = np.random.default_rng(11).random((2, 3, 5)) > 0.6
    hidden[:, :, 0] = False
    hidden[1] = hidden[0] if rank == 2 else hidden[1]
    mask = {2: hidden[0], 3: hidden, 4: hidden[:, None]}[rank].astype(dtype)
    (y,) = ran(
        "PromptFlashAttention", {"query": q, "key": k, "value": v, "atten_mask": mask}, opset=opset,
        num_heads=4, num_key_value_heads=2, scale_value=0.5, input_layout="BNSD", pre_tokens=2147483647,
        next_tokens=0, sparse_mode=0, inner_precise=0,
    )  # fmt: skip
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, attended(q, k, v, 0.5, hidden), **HALF)


@pytest.mark.parametrize("next_tokens", [0, 1, 65536])
def test_attention_without_a_mask_sees_all_keys(next_tokens):
    q, k, v = arrays(12, (1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8))
    numbers = {"num_heads": 2, "num_key_value_heads": 2, "scale_value": 0.5, "input_layout": "BNSD"}
    names = {
        "input_names": ["query", "key", "value", "atten_mask"],
        "next_tokens": next_tokens,
        "input_index": [0, 1, 2],
    }
    (y,) = ran("PromptFlashAttention", {"query": q, "key": k, "value": v}, **numbers, **names)
    np.testing.assert_allclose(y, attended(q, k, v, 0.5, np.zeros((1, 1, 1), bool)), **CLOSE)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("PromptFlashAttention", ["query", "key", "value", "atten_mask"]),
        ("InnerPromptFlashAttention", ["query", "key", "value", "pse_shift", "atten_mask"]),
    ],
)
def test_input_index_may_count_places_of_the_names_or_of_the_operator(kind, names):
    q, k, v = arrays(13, (1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8))
    hidden = np.triu(np.ones((1, 3, 3), bool), 1)
    inputs = {"query": q, "key": k, "value": v, "atten_mask": hidden[:, None]}
    numbers = {"num_heads": 2, "scale_value": 0.5, "input_layout": "BNSD", "next_tokens": 65536}
    (y,) = ran(kind, inputs, pre_tokens=65536, input_names=names, input_index=[0, 1, 2, 4], **numbers)
    np.testing.assert_allclose(y, attended(q, k, v, 0.5, hidden), **CLOSE)


@pytest.mark.parametrize("name", ["prefill", "decode"])
@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("shapes", ["the file's", "given"])
def test_a_language_model_gives_what_it_gives_without_the_operators(name, engine, shapes):
    golden = np.load(DATA / f"{name}.npz")
    given = [golden[key] for key in golden.files if not key.startswith("expected")]
    dims = ";".join(f"{key}:{','.join(map(str, golden[key].shape))}" for key in golden.files if key in NAMES)
    target = Target(threads=1, provider=engine, input_shape=dims if shapes == "given" else "")
    executable = build(DATA / f"{name}.onnx", None, target, Settings())
    for y, key in zip(executable.execution().run(given), ("expected_logits", "expected_kept"), strict=True):
        np.testing.assert_allclose(y, golden[key], rtol=1e-4, atol=1e-5)  # float32, through two layers


NAMES = ("ids", "mask", "positions", "cache")


def test_free_dimensions_stay_free():
    golden = np.load(DATA / "prefill.npz")
    executable = build(DATA / "prefill.onnx", None, Target(threads=1), Settings())
    given = [golden[key][:1, :3] for key in ("ids", "mask", "positions")]
    logits, kept = executable.execution().run(given)
    np.testing.assert_allclose(logits, golden["expected_logits"][:1, :3], rtol=1e-4, atol=1e-5)  # as above
    assert kept.shape == (4, 1, 2, 3, 8)


def test_prompt_flash_attention_may_be_a_node_of_its_own():
    q, k, v = arrays(20, (1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8))
    hidden = np.triu(np.ones((1, 3, 3), bool), 1)
    feed = {"a": q, "b": k, "c": v, "d": hidden[:, None]}
    node = helper.make_node("PromptFlashAttention", list(feed), ["y"], num_heads=2, scale_value=0.5)
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in feed.items()
    ]
    graph = helper.make_graph([node], "g", ports, [helper.make_empty_tensor_value_info("y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    executable = build(made.SerializeToString(), None, Target(threads=1), Settings())
    (y,) = executable.execution().run(list(feed.values()))
    np.testing.assert_allclose(y, attended(q, k, v, 0.5, hidden), **CLOSE)


@pytest.mark.parametrize("rank", [3, 4])
def test_a_mask_whose_rank_only_the_run_tells_has_four_dimensions_or_is_an_error(rank):
    q, k, v = arrays(25, (1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8))
    hidden = np.triu(np.ones((1, 3, 3), bool), 1)
    feed = {"query": q, "key": k, "value": v, "small": hidden, "shape": np.array([1, 1, 3, 3][-rank:])}
    names = ["query", "key", "value", "atten_mask"]
    nodes = [
        helper.make_node("Identity", ["shape"], ["counted"]),
        helper.make_node("Reshape", ["small", "counted"], ["atten_mask"]),
        helper.make_node(
            "Custom", names, ["y"], type="PromptFlashAttention", input_names=names, num_heads=2,
            scale_value=0.5, input_layout="BNSD",
        ),
    ]  # fmt: skip
    ports = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(x.dtype), ["n"] if n == "shape" else x.shape
        )
        for n, x in feed.items()
    ]
    graph = helper.make_graph(nodes, "g", ports, [helper.make_empty_tensor_value_info("y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    executable = build(made.SerializeToString(), None, Target(threads=1), Settings())
    if rank < 4:
        with pytest.raises(PinnaceError):
            executable.execution().run(list(feed.values()))
        return
    (y,) = executable.execution().run(list(feed.values()))
    np.testing.assert_allclose(y, attended(q, k, v, 0.5, hidden), **CLOSE)
