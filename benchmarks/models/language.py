"""Transformers for text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.models.writer import FLOAT, INT32, INT64, Dimension, Writer

WIDTH, HEADS, LAYERS = 768, 12, 12
PAST = 128


def bert(
    path: Path, batch: Dimension, length: Dimension, words: int,
    width: int, heads: int, layers: int, kinds: int = 0, places: int = 0,
) -> Path:  # fmt: skip
    """A BERT without pooler: ids (batch, length) of int64; types and places likewise where there are any.

    Without `places` each has one of its own, and `length` is a number.
    """
    w = Writer()
    split = w.constant("split", [0, 0, heads, width // heads], np.int64)
    join = w.constant("join", [0, 0, width], np.int64)
    scale = w.constant("scale", (width // heads) ** -0.5)

    def turned(x: str, *perm: int) -> str:
        return w.node("Transpose", w.node("Reshape", x, split), perm=perm)

    def looked_up(name: str, count: int) -> str:
        return w.node(
            "Gather", w.weight(f"{name}.table", count, width), w.input(name, [batch, length], INT64)
        )

    x = looked_up("ids", words)
    if kinds:
        x = w.node("Add", x, looked_up("kinds", kinds))
    x = w.node(
        "Add", x, looked_up("places", places) if places else w.weight("positions", 1, int(length), width)
    )
    x = w.norm(x, "embeddings", width)
    for i in range(layers):
        query, key, value = (w.dense(x, f"{i}.{part}", width, width) for part in ("query", "key", "value"))
        scores = w.node("Mul", w.node("MatMul", turned(query, 0, 2, 1, 3), turned(key, 0, 2, 3, 1)), scale)
        seen = w.node("MatMul", w.node("Softmax", scores, axis=-1), turned(value, 0, 2, 1, 3))
        joined = w.node("Reshape", w.node("Transpose", seen, perm=[0, 2, 1, 3]), join)
        x = w.norm(w.node("Add", x, w.dense(joined, f"{i}.out", width, width)), f"{i}.norm1", width)
        up = w.gelu(w.dense(x, f"{i}.up", width, 4 * width))
        x = w.norm(w.node("Add", x, w.dense(up, f"{i}.down", 4 * width, width)), f"{i}.norm2", width)
    w.output("hidden", x, [batch, length, width])
    return w.save(path)


def bert_base(path: Path, batch: Dimension = 1, words: int = 30522, length: int = 128) -> Path:
    """BERT-base without pooler, 109 million parameters: ids (batch, 128) of int64."""
    return bert(path, batch, length, words, WIDTH, HEADS, LAYERS)


def bert_free(path: Path) -> Path:
    """The same with a free batch."""
    return bert_base(path, "batch")


def gpt2_step(path: Path, words: int = 50257) -> Path:
    """One token of GPT-2 small after 128 others, whose keys and values are given: 124 million parameters.

    ids and position (1, 1) of int64; key and value of every layer (1, 12, 128, 64). The keys and values
    with the new token's come back, beside the logits.
    """
    w = Writer()
    size = WIDTH // HEADS
    split = w.constant("split", [1, 1, HEADS, size], np.int64)
    join = w.constant("join", [1, 1, WIDTH], np.int64)
    scale = w.constant("scale", size**0.5)

    def with_past(name: str, x: str) -> str:
        past = w.input(f"past.{name}", [1, HEADS, PAST, size])
        return w.node("Concat", past, x, axis=2)

    token = w.node("Gather", w.weight("words", words, WIDTH), w.input("ids", [1, 1], INT64))
    place = w.node("Gather", w.weight("positions", 1024, WIDTH), w.input("position", [1, 1], INT64))
    x = w.node("Add", token, place)
    present = {}
    for i in range(LAYERS):
        both = w.dense(w.norm(x, f"{i}.norm1", WIDTH), f"{i}.attention", WIDTH, 3 * WIDTH)
        thirds = w.nodes("Split", 3, both, w.constant("thirds", [WIDTH] * 3, np.int64), axis=2)
        query, key, value = (
            w.node("Transpose", w.node("Reshape", part, split), perm=[0, 2, 1, 3]) for part in thirds
        )
        present[f"{i}.key"] = key = with_past(f"{i}.key", key)
        present[f"{i}.value"] = value = with_past(f"{i}.value", value)
        scores = w.node("Div", w.node("MatMul", query, w.node("Transpose", key, perm=[0, 1, 3, 2])), scale)
        seen = w.node("MatMul", w.node("Softmax", scores, axis=-1), value)
        joined = w.node("Reshape", w.node("Transpose", seen, perm=[0, 2, 1, 3]), join)
        x = w.node("Add", x, w.dense(joined, f"{i}.out", WIDTH, WIDTH))
        up = w.gelu_by_tanh(w.dense(w.norm(x, f"{i}.norm2", WIDTH), f"{i}.up", WIDTH, 4 * WIDTH))
        x = w.node("Add", x, w.dense(up, f"{i}.down", 4 * WIDTH, WIDTH))
    logits = w.node("MatMul", w.norm(x, "norm", WIDTH), w.weight("head", WIDTH, words))
    w.output("logits", logits, [1, 1, words])
    for name, value in present.items():
        w.output(f"present.{name}", value, [1, HEADS, PAST + 1, size])
    return w.save(path)


def llama_block(path: Path, width: int = 2048, heads: int = 32, groups: int = 4, inner: int = 5632) -> Path:
    """One block of TinyLlama, 44 million parameters: hidden (1, 128, 2048), which comes back.

    Queries share keys and values by eights; the rotation of positions is left out.
    """
    w = Writer()
    size = width // heads
    split = w.constant("split", [0, 0, heads, size], np.int64)
    few = w.constant("few", [0, 0, groups, 1, size], np.int64)
    repeated = w.constant("repeated", [1, 1, 1, heads // groups, 1], np.int64)
    join = w.constant("join", [0, 0, width], np.int64)

    def product(x: str, name: str, given: int, made: int) -> str:
        return w.node("MatMul", x, w.weight(name, given, made))

    def norm(x: str, name: str) -> str:
        squares = w.node("ReduceMean", w.node("Mul", x, x), axes=[-1])
        std = w.node("Sqrt", w.node("Add", squares, w.constant("epsilon", 1e-5)))
        return w.node("Mul", w.node("Div", x, std), w.constant(name, np.ones(width)))

    def shared(x: str, *perm: int) -> str:
        each = w.node("Expand", w.node("Reshape", x, few), repeated)
        return w.node("Transpose", w.node("Reshape", each, split), perm=perm)

    x = w.input("hidden", [1, 128, width])
    y = norm(x, "norm1")
    query = w.node(
        "Transpose", w.node("Reshape", product(y, "query", width, width), split), perm=[0, 2, 1, 3]
    )
    key = shared(product(y, "key", width, groups * size), 0, 2, 3, 1)
    value = shared(product(y, "value", width, groups * size), 0, 2, 1, 3)
    scores = w.node("Mul", w.node("MatMul", query, key), w.constant("scale", size**-0.5))
    seen = w.node("MatMul", w.node("Softmax", scores, axis=-1), value)
    joined = w.node("Reshape", w.node("Transpose", seen, perm=[0, 2, 1, 3]), join)
    x = w.node("Add", x, product(joined, "joined", width, width))
    y = norm(x, "norm2")
    gate = product(y, "gate", width, inner)
    gated = w.node("Mul", w.node("Mul", gate, w.node("Sigmoid", gate)), product(y, "up", width, inner))
    w.output("after", w.node("Add", x, product(gated, "down", inner, width)), [1, 128, width])
    return w.save(path)


def cached_decoder(
    path: Path, length: Dimension, kept: Dimension,
    words: int = 4096, width: int = 256, heads: int = 4, layers: int = 4,
) -> Path:  # fmt: skip
    """A decoder of 6 million parameters that writes `length` keys and values into caches of `kept` places.

    ids and places (1, length) and mask (1, kept) of int32, keys and values (layers, 1, heads, kept, size);
    the logits of the last token, and the caches, come back. A place where the mask is 0 is not looked at.
    """
    w = Writer()
    size = width // heads
    split = w.constant("split", [1, -1, heads, size], np.int64)
    join = w.constant("join", [1, -1, width], np.int64)
    ids, places = (w.input(name, [1, length], INT32) for name in ("ids", "places"))
    mask = w.input("mask", [1, kept], INT32)
    caches = {n: w.input(n, [layers, 1, heads, kept, size]) for n in ("keys", "values")}
    each = {n: w.nodes("Split", layers, cache, axis=0) for n, cache in caches.items()}
    made: dict[str, list[str]] = {n: [] for n in caches}
    hidden = w.node("Sub", w.node("Cast", mask, to=FLOAT), w.constant("one", 1))
    hidden = w.node("Mul", hidden, w.constant("much", 1e4))
    row = w.node("Reshape", places, w.constant("flat", [-1, 1], np.int64))
    x = w.node("Gather", w.weight("words", words, width), ids)
    x = w.node("Add", x, w.node("Gather", w.weight("positions", 4096, width), places))
    for i in range(layers):
        both = w.dense(w.norm(x, f"{i}.norm1", width), f"{i}.attention", width, 3 * width)
        thirds = w.nodes("Split", 3, both, w.constant("thirds", [width] * 3, np.int64), axis=2)
        query = w.node("Transpose", w.node("Reshape", thirds[0], split), perm=[0, 2, 1, 3])
        for n, part in zip(made, thirds[1:], strict=True):
            # places come first, so that ScatterND writes whole rows
            old = w.node(
                "Transpose",
                w.node("Squeeze", each[n][i], w.constant("axes", [0, 1], np.int64)),
                perm=[1, 0, 2],
            )
            new = w.node("Squeeze", w.node("Reshape", part, split), w.constant("axis", [0], np.int64))
            written = w.node("ScatterND", old, w.node("Cast", row, to=INT64), new)
            written = w.node("Transpose", written, perm=[1, 0, 2])
            made[n].append(w.node("Unsqueeze", written, w.constant("axes", [0, 1], np.int64)))
        key, value = (w.node("Squeeze", made[n][i], w.constant("axis", [0], np.int64)) for n in made)
        scores = w.node(
            "Div",
            w.node("MatMul", query, w.node("Transpose", key, perm=[0, 1, 3, 2])),
            w.constant("scale", size**0.5),
        )
        seen = w.node("MatMul", w.node("Softmax", w.node("Add", scores, hidden), axis=-1), value)
        joined = w.node("Reshape", w.node("Transpose", seen, perm=[0, 2, 1, 3]), join)
        x = w.node("Add", x, w.dense(joined, f"{i}.out", width, width))
        up = w.gelu_by_tanh(w.dense(w.norm(x, f"{i}.norm2", width), f"{i}.up", width, 4 * width))
        x = w.node("Add", x, w.dense(up, f"{i}.down", 4 * width, width))
    last = w.node("Gather", w.norm(x, "norm", width), w.constant("last", -1, np.int64), axis=1)
    w.output("logits", w.node("MatMul", last, w.weight("head", width, words)), [1, words])
    for n in made:
        w.output(f"{n}_out", w.node("Concat", *made[n], axis=0), [layers, 1, heads, kept, size])
    return w.save(path)
