"""Schemathesis on a server: `python -m tests.server.schema --program BIN/schemathesis --seconds 300`.

It makes requests of what `/openapi.json` describes, and others. The server must answer as described, and with
no status of 5xx but the promised ones. `pip install schemathesis` into an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.server import models
from tests.server.texts import DATA

from pinnace.server import ModelSettings, Options, Server

SETTINGS = "[checks.not_a_server_error]\nexpected-statuses = ['2xx', '4xx', 501, 503]\n"
"""501 is a call that a model does not support, 503 one of a model that a request has unloaded."""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


VALUES = {
    "model": ["simple", "embedding", "reranker", "nothing"],
    "version": ["1", "2", "x"],
    "region": ["one", "two"],
}
TENSOR = {"name": {"enum": ["INPUT0", "INPUT1"]}, "shape": {"enum": [[1, 16], [16, 1]]}}
DATA_OF_TENSOR = {"type": "array", "items": {"type": "integer"}, "minItems": 16, "maxItems": 16}


def narrowed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a description whose requests name what the server has, so that they reach its models."""
    for calls in document["paths"].values():
        for call in calls.values():
            for one in call.get("parameters", []):
                one["schema"] = {"enum": VALUES[one["name"]]}
    schemas = document["components"]["schemas"]
    for name, model in (("Embedding", "embedding"), ("Ranking", "reranker")):
        schemas[name]["properties"]["model"] = {"enum": [model]}
    tensors = schemas["Inference"]["properties"]["inputs"]
    tensors |= {"minItems": 2, "maxItems": 2}
    tensors["items"]["properties"] |= TENSOR | {"datatype": {"enum": ["INT32"]}, "data": DATA_OF_TENSOR}
    return document


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.server.schema", description=__doc__)
    parser.add_argument("--program", default="schemathesis")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        models.simple(here / "models" / "simple.onnx")
        for name in ("embedding", "reranker"):
            shutil.copytree(DATA / name, here / "models" / name)
        (here / "schemathesis.toml").write_text(SETTINGS)
        limits = Options(http_port=0, grpc_port=None, max_bytes=100_000, shared_memory="/pinnace-fuzz-")
        with Server([here / "models"], ModelSettings(workers=1, threads=1), limits) as server:
            url = f"http://127.0.0.1:{server.http_port}"
            described = narrowed(json.load(urlopen(f"{url}/openapi.json")))
            (here / "openapi.json").write_text(json.dumps(described))
            run = ["run", "openapi.json", "--url", url, "--checks", CHECKS]
            run += ["--max-time", str(options.seconds), "--seed", str(options.seed), "--continue-on-failure"]
            command = [options.program, "--config-file", "schemathesis.toml", *run]
            return subprocess.run(command, cwd=here, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
