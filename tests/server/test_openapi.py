"""The description of the calls, beside the routes of the application and their answers."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.request import Request, urlopen

import pytest
from starlette.routing import Route
from tests.server.test_protocol import A, B

from pinnace.server import app
from pinnace.server.openapi import SCHEMAS, document


def test_it_has_the_calls_of_the_application_and_no_others(simple):
    described = {(path, method.upper()) for path, calls in document("x")["paths"].items() for method in calls}
    routes = {
        (route.path, method)
        for route in app([simple]).routes
        if isinstance(route, Route)
        for method in route.methods - {"HEAD"}
    }
    assert described == routes


def test_each_schema_is_used_and_each_use_has_one():
    described = document("x")
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described)))
    assert used == SCHEMAS.keys()
    names = [call["operationId"] for calls in described["paths"].values() for call in calls.values()]
    assert len(set(names)) == len(names)
    for path, calls in described["paths"].items():
        for call in calls.values():
            assert {one["name"] for one in call.get("parameters", [])} == set(re.findall(r"{(\w+)}", path))


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Say whether JSON has the type and the needed fields that a schema says."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if "enum" in schema:
        return value in schema["enum"]
    if not isinstance(value, kinds.get(schema.get("type"), object)):
        return False
    if isinstance(value, list):
        return all(fits(one, schema.get("items", {})) for one in value)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return set(schema.get("required", ())) <= value.keys() and all(
            fits(one, known[name]) for name, one in value.items() if name in known
        )
    return True


@pytest.mark.parametrize(
    ("path", "place", "body"),
    [
        ("/v2", "/v2", None),
        ("/v2/models/{model}", "/v2/models/simple", None),
        ("/v2/models/{model}/versions/{version}/stats", "/v2/models/simple/versions/1/stats", None),
        ("/v2/repository/index", "/v2/repository/index", {"ready": True}),
        (
            "/v2/models/{model}/infer",
            "/v2/models/simple/infer",
            {
                "id": "1",
                "inputs": [
                    {"name": name, "datatype": "INT32", "shape": [1, 16], "data": data.tolist()}
                    for name, data in (("INPUT0", A), ("INPUT1", B))
                ],
            },
        ),
    ],
)
def test_bodies_are_as_described(serving, simple, path, place, body):
    server = serving(simple)
    described = json.load(urlopen(f"http://127.0.0.1:{server.http_port}/openapi.json"))
    call = described["paths"][path]["get" if body is None else "post"]
    data = None if body is None else json.dumps(body).encode()
    answer = json.load(urlopen(Request(f"http://127.0.0.1:{server.http_port}{place}", data)))

    def schema(holder: dict[str, Any]) -> dict[str, Any]:
        name = holder["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        return described["components"]["schemas"][name]

    assert fits(answer, schema(call["responses"]["200"]))
    assert not fits({}, schema(call["responses"]["200"]))
    if body is not None:
        assert fits(body, schema(call["requestBody"]))
