"""The description of the calls, beside the routes of the application and their answers."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.request import Request, urlopen

import pytest
from starlette.routing import Route
from tests.server.test_protocol import A, B

from pinnace import __version__
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


def test_it_has_what_openapi_demands():
    described = document("ours")
    assert described["openapi"].startswith("3.1.")
    assert described["info"] == {"title": "ours", "version": __version__}
    assert described["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    for calls in described["paths"].values():
        for call in calls.values():
            assert call["summary"]
            assert call["responses"].keys() == {"200", "default"}
            assert all(answer["description"] for answer in call["responses"].values())
            bodies = [call.get("requestBody", {}), *call["responses"].values()]
            kinds = {kind for body in bodies for kind in body.get("content", ())}
            assert kinds <= {"application/json", "text/plain", "text/html"}
            assert {one["in"] for one in call.get("parameters", [])} <= {"path"}
            assert all(one["required"] and fits("a", one["schema"]) for one in call.get("parameters", []))
            assert call.get("security", [{}, {"token": []}]) == [{}, {"token": []}]
            assert ("security" in call) is ("scope `" in call.get("description", ""))
    paths = described["paths"]
    assert "security" not in paths["/v2/health/live"]["get"]
    assert "`admin`" in paths["/v2/repository/models/{model}/load"]["post"]["description"]
    page = paths["/"]["get"]["responses"]["200"]["content"]
    assert page == {"text/html": {"schema": {"type": "string"}}}


X = {"name": "x", "datatype": "FP32", "shape": [1], "data": [[0.5]]}


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        (
            "Inference",
            [
                {"inputs": []}, {"inputs": [X], "id": "1", "parameters": {"timeout": 0, "priority": 0}},
                {"inputs": [X | {"shape": [0, (1 << 31) - 1]}], "outputs": [{"name": "y"}]},
                {"inputs": [X], "parameters": {"timeout": 1 << 40, "binary_data_output": True}},
                {"inputs": [X], "outputs": [{"name": "y", "parameters": {"binary_data": False}}]},
            ],
            [
                {}, {"inputs": {}}, {"inputs": ["x"]}, {"inputs": [X], "id": 1},
                {"inputs": [X | {"name": 1}]},
                {"inputs": [X | {"shape": [-1]}]}, {"inputs": [X | {"shape": [1 << 31]}]},
                {"inputs": [X | {"shape": [1.5]}]}, {"inputs": [X | {"datatype": "FLOAT"}]},
                {"inputs": [X | {"data": 1}]}, {"inputs": [{"name": "x", "datatype": "FP32"}]},
                {"inputs": [X], "parameters": {"timeout": -1}},
                {"inputs": [X], "parameters": {"timeout": "1"}},
                {"inputs": [X], "parameters": {"priority": -1}},
                {"inputs": [X], "parameters": {"binary_data_output": 1}}, {"inputs": [X], "outputs": [{}]},
                {"inputs": [X], "outputs": [{"name": "y", "parameters": {"binary_data": 1}}]},
            ],
        ),
        ("IndexRequest", [{}, {"ready": True}], [{"ready": 1}]),
        ("Load", [{}, {"parameters": {"config": "{}"}}], [{"parameters": {"config": {}}}]),
        (
            "Region", [{"key": "/x", "byte_size": 1, "offset": 0}],
            [{"key": "/x"}, {"key": 1, "byte_size": 1}, {"key": "/x", "byte_size": 1, "offset": -1}],
        ),
        (
            "Embedding",
            [
                *({"model": "m", "input": one} for one in ("a", ["a"], [0], [[0, 1], [2]])),
                {"model": "m", "input": "a", "encoding_format": "base64", "dimensions": 1, "user": "u"},
            ],
            [
                {"model": "m"}, {"model": "m", "input": [["a"]]}, {"model": "m", "input": 1},
                {"model": "m", "input": "a", "encoding_format": "hex"},
                {"model": "m", "input": "a", "dimensions": 0}, {"model": "m", "input": "a", "user": 1},
            ],
        ),
        (
            "Ranking",
            [{"model": "m", "query": "q", "documents": ["a", {"text": "b"}], "top_n": 1}],
            [
                *({"model": "m", "query": "q", "documents": one} for one in ([], [{}], [1], "a")),
                {"model": "m", "query": "q", "documents": ["a"], "top_n": 0},
                {"model": "m", "query": "q", "documents": ["a"], "return_documents": 1},
                {"model": "m", "query": 1, "documents": ["a"]},
            ],
        ),
    ],
)  # fmt: skip
def test_a_description_of_a_body_takes_what_the_server_takes(schema, right, wrong):
    assert [one for one in right if not fits(one, SCHEMAS[schema])] == []
    assert [one for one in wrong if fits(one, SCHEMAS[schema])] == []


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Say whether JSON is what a schema says, by the rules of JSON Schema that the description uses."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    if not schema:
        return True
    named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if type(value) not in [kinds[name] for name in named]:
        return False
    if isinstance(value, int):
        return schema.get("minimum", value) <= value <= schema.get("maximum", value)
    if isinstance(value, list):
        enough = len(value) >= schema.get("minItems", 0)
        return enough and all(fits(one, schema["items"]) for one in value)
    if isinstance(value, dict):
        known = schema["properties"]
        return set(schema.get("required", ())) <= value.keys() and all(
            fits(one, known[name]) for name, one in value.items() if name in known
        )
    return True


@pytest.mark.parametrize(
    ("path", "place", "body"),
    [
        ("/v2", "/v2", None),
        ("/v2/health/live", "/v2/health/live", None),
        ("/v2/health/ready", "/v2/health/ready", None),
        ("/v2/models/{model}/ready", "/v2/models/simple/ready", None),
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
