"""The description of all calls over HTTP as OpenAPI 3.1, made of the tables of routes."""

from __future__ import annotations

import re
from typing import Any

from pinnace import __version__
from pinnace.server.routes import PROTOCOL, TEXT, Route
from pinnace.server.tensors import NAMES

Schema = dict[str, Any]


def _object(needed: str = "", **properties: Schema) -> Schema:
    made: Schema = {"type": "object", "properties": properties}
    return made | ({"required": needed.split()} if needed else {})


def _list(items: Schema, **limits: Any) -> Schema:
    return {"type": "array", "items": items, **limits}


_TEXT: Schema = {"type": "string"}
_SWITCH: Schema = {"type": "boolean"}
_SIZE: Schema = {"type": "integer", "minimum": 0, "maximum": (1 << 31) - 1}
_TENSOR = {
    "name": _TEXT,
    "datatype": {"enum": list(NAMES.values())},
    "shape": _list(_SIZE),
    "data": {**_list({}), "description": "flat or nested, in row-major order; or raw bytes after the JSON"},
}
_PORT = _object(
    "name datatype shape", name=_TEXT, datatype=_TENSOR["datatype"], shape=_list({"type": "integer"})
)
_OPTIONS = _object()

SCHEMAS: dict[str, Schema] = {
    "Error": _object("error", error={"type": ["string", "object"]}),
    "Object": _object(),
    "Objects": _list(_object()),
    "Texts": _list(_TEXT),
    "Live": _object("live", live=_SWITCH),
    "Ready": _object("ready", name=_TEXT, live=_SWITCH, ready=_SWITCH),
    "Server": _object("name version extensions", name=_TEXT, version=_TEXT, extensions=_list(_TEXT)),
    "Model": _object(
        "name versions platform inputs outputs",
        name=_TEXT, versions=_list(_TEXT), platform=_TEXT, inputs=_list(_PORT), outputs=_list(_PORT),
    ),
    "Inference": _object(
        "inputs",
        id=_TEXT,
        parameters=_object(
            timeout={"type": "integer", "minimum": 0}, priority=_SIZE, binary_data_output=_SWITCH
        ),
        inputs=_list(_object("name datatype shape", **_TENSOR, parameters=_OPTIONS)),
        outputs=_list(_object("name", name=_TEXT, parameters=_object(binary_data=_SWITCH))),
    ),
    "Result": _object(
        "model_name model_version outputs",
        model_name=_TEXT, model_version=_TEXT, id=_TEXT,
        outputs=_list(_object("name datatype shape", **_TENSOR, parameters=_OPTIONS)),
    ),
    "Statistics": _object(
        "model_stats", model_stats=_list(_object("name version", name=_TEXT, version=_TEXT))
    ),
    "IndexRequest": _object(ready=_SWITCH),
    "Index": _list(
        _object("name version state reason", name=_TEXT, version=_TEXT, state=_TEXT, reason=_TEXT)
    ),
    "Load": _object(parameters=_object(config=_TEXT)),
    "Region": _object("key byte_size", key=_TEXT, offset=_SIZE, byte_size=_SIZE),
    "Embedding": _object(
        "model input",
        model=_TEXT,
        input={"anyOf": [_TEXT, _list(_TEXT), _list(_SIZE), _list(_list(_SIZE))]},
        encoding_format={"enum": ["float", "base64"]},
        dimensions={"type": "integer", "minimum": 1},
        user=_TEXT,
    ),
    "Ranking": _object(
        "model query documents",
        model=_TEXT, query=_TEXT,
        documents=_list({"anyOf": [_TEXT, _object("text", text=_TEXT)]}, minItems=1),
        top_n={"type": "integer", "minimum": 1}, return_documents=_SWITCH,
    ),
}  # fmt: skip
"""Bodies of JSON by name."""


def document(server_name: str) -> dict[str, Any]:
    """Return the description of all calls."""
    paths: dict[str, dict[str, Any]] = {}
    for route in (*PROTOCOL, *TEXT):
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": server_name, "version": __version__},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", route.path)
    where = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names]
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{route.method} {route.path}".lower()).strip("_"),
        "summary": route.does,
        "responses": {
            "200": {"description": "done", **_content(route.gives)},
            "default": {"description": "a failure", **_content("Error")},
        },
    }
    if where:
        operation["parameters"] = where
    if route.takes:
        operation["requestBody"] = _content(route.takes)
    if route.scope != "open":
        operation["description"] = f"With tokens, it needs the scope `{route.scope}`."
        operation["security"] = [{}, {"token": []}]
    return operation


def _content(name: str) -> dict[str, Any]:
    if not name:
        return {}
    if "/" in name:
        return {"content": {name: {"schema": _TEXT}}}
    return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}
