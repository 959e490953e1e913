"""The protocol, as NVIDIA's tritonclient speaks it, over HTTP and over gRPC."""

from __future__ import annotations

import asyncio
import json
import threading
from http.client import HTTPConnection
from types import ModuleType, SimpleNamespace
from urllib.request import urlopen

import grpc
import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
from onnx import TensorProto, helper
from tests.server import models
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from pinnace.server import tensors

A = np.arange(16, dtype=np.int32)[np.newaxis]
B = np.ones((1, 16), np.int32)
DOORS = {"http": tritonclient.http, "grpc": tritonclient.grpc}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> ModuleType:
    return DOORS[request.param]


@pytest.fixture
def client(door: ModuleType, serving, simple):
    server = serving(simple)
    return connected(door, server)


def connected(door: ModuleType, server):
    port = server.http_port if door is tritonclient.http else server.grpc_port
    return door.InferenceServerClient(f"127.0.0.1:{port}")


def inputs(door: ModuleType, *arrays: np.ndarray, names=("INPUT0", "INPUT1")) -> list:
    given = []
    for name, array in zip(names, arrays, strict=False):
        given.append(door.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        given[-1].set_data_from_numpy(array)
    return given


def plain(found) -> SimpleNamespace:
    """What a client says of the server, over HTTP as over gRPC."""
    return (
        json.loads(json.dumps(found), object_hook=lambda d: SimpleNamespace(**d))
        if isinstance(found, dict | list)
        else found
    )


def test_a_request_gets_its_results(door, client):
    result = client.infer("simple", inputs(door, A, B), request_id="seven")
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), A + B)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), A - B)
    response = plain(result.get_response())
    assert (response.model_name, response.model_version, response.id) == ("simple", "1", "seven")


def test_only_the_outputs_that_are_asked_for_come_back_in_their_order(door, client):
    wanted = [door.InferRequestedOutput(name) for name in ("OUTPUT1", "OUTPUT0")]
    response = plain(client.infer("simple", inputs(door, A, B), outputs=wanted).get_response())
    assert [output.name for output in response.outputs] == ["OUTPUT1", "OUTPUT0"]
    wanted = [door.InferRequestedOutput("OUTPUT1")]
    assert client.infer("simple", inputs(door, A, B), outputs=wanted).as_numpy("OUTPUT0") is None


def test_the_server_describes_itself_and_its_models(door, client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("simple")
    assert plain(client.get_server_metadata()).name == "pinnace"
    model = plain(client.get_model_metadata("simple"))
    assert [(t.name, t.datatype, list(map(int, t.shape))) for t in model.inputs] == [
        ("INPUT0", "INT32", [-1, 16]),
        ("INPUT1", "INT32", [-1, 16]),
    ]
    assert [t.name for t in model.outputs] == ["OUTPUT0", "OUTPUT1"]
    config = plain(client.get_model_config("simple"))
    config = getattr(config, "config", config)
    assert config.max_batch_size == 0
    assert config.input[0].data_type in ("TYPE_INT32", 8)


def test_health_is_told_in_json_as_kserves_client_reads_it(serving, simple):
    place = f"http://127.0.0.1:{serving(simple).http_port}/v2"
    assert json.load(urlopen(f"{place}/health/live")) == {"live": True}
    assert json.load(urlopen(f"{place}/health/ready"))["ready"] is True
    assert json.load(urlopen(f"{place}/models/simple/ready")) == {"name": "simple", "ready": True}


def test_statistics_count_requests(door, client):
    for _ in range(3):
        client.infer("simple", inputs(door, A, B))
    with pytest.raises(InferenceServerException):
        client.infer("simple", inputs(door, A[:, :5], B))
    (stats,) = plain(client.get_inference_statistics("simple")).model_stats
    assert (int(stats.inference_count), int(stats.inference_stats.fail.count)) == (3, 1)
    assert int(stats.inference_stats.success.ns) > 0
    assert plain(client.get_inference_statistics()).model_stats[0].name == "simple"


def test_a_model_is_unloaded_and_loaded(door, client):
    client.unload_model("simple")
    assert not client.is_model_ready("simple")
    with pytest.raises(InferenceServerException, match="simple is not loaded"):
        client.infer("simple", inputs(door, A, B))
    index = plain(client.get_model_repository_index())
    assert [(m.name, m.state) for m in getattr(index, "models", index)] == [("simple", "UNAVAILABLE")]
    client.load_model("simple")
    assert client.infer("simple", inputs(door, A, B)).as_numpy("OUTPUT0")[0, 1] == 2


TYPES = {
    "BOOL": (TensorProto.BOOL, np.array([True, False, True])),
    "INT8": (TensorProto.INT8, np.array([-128, 0, 127], np.int8)),
    "INT16": (TensorProto.INT16, np.array([-(2**15), 0, 2**15 - 1], np.int16)),
    "INT32": (TensorProto.INT32, np.array([-(2**31), 0, 2**31 - 1], np.int32)),
    "INT64": (TensorProto.INT64, np.array([-(2**63), 0, 2**63 - 1], np.int64)),
    "UINT8": (TensorProto.UINT8, np.array([0, 255], np.uint8)),
    "UINT16": (TensorProto.UINT16, np.array([0, 2**16 - 1], np.uint16)),
    "UINT32": (TensorProto.UINT32, np.array([0, 2**32 - 1], np.uint32)),
    "UINT64": (TensorProto.UINT64, np.array([0, 2**64 - 1], np.uint64)),
    "FP16": (TensorProto.FLOAT16, np.array([0.5, -65504, np.inf], np.float16)),
    "FP32": (TensorProto.FLOAT, np.array([0.1, -3e38, np.nan], np.float32)),
    "FP64": (TensorProto.DOUBLE, np.array([0.1, -1e308, 0.0])),
    "BF16": (TensorProto.BFLOAT16, np.array([1.5, -2.0], ml_dtypes.bfloat16)),
    "BYTES": (TensorProto.STRING, np.array([b"", "grüß dich".encode(), b"a" * 300], object)),
}


@pytest.mark.parametrize("name", TYPES)
def test_every_element_type_goes_there_and_back(door, serving, tmp_path, name):
    kind, array = TYPES[name]
    server = serving(models.echo(tmp_path / "echo.onnx", kind))
    result = connected(door, server).infer("echo", inputs(door, array, names=["x"]))
    assert plain(result.get_response()).outputs[0].datatype == name
    np.testing.assert_array_equal(result.as_numpy("y"), array)


def test_no_elements_go_there_and_back(door, serving, tmp_path):
    server, none = (
        serving(models.echo(tmp_path / "echo.onnx", TensorProto.FLOAT)),
        A[0, :0].astype(np.float32),
    )
    result = connected(door, server).infer("echo", inputs(door, none, names=["x"]))
    assert plain(result.get_response()).outputs[0].shape == [0]


CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents",
    "UINT32": "uint_contents", "UINT64": "uint64_contents", "FP32": "fp32_contents",
    "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip
"""The field of the protocol's messages that has elements of each type."""


def test_elements_in_a_message_of_grpc_are_those_in_raw_bytes(serving, tmp_path):
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in CONTENTS]
    ports = [
        [models.value(f"{name}{end}", [f"n_{name}"], TYPES[name][0]) for name in CONTENTS]
        for end in ("", "_out")
    ]
    server = serving(models.write(tmp_path / "all.onnx", nodes, *ports))
    request = service_pb2.ModelInferRequest(model_name="all")
    for name, field in CONTENTS.items():
        array = TYPES[name][1]
        given = request.inputs.add(name=name, datatype=name, shape=array.shape)
        getattr(given.contents, field).extend(array.tolist())
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        result = tritonclient.grpc.InferResult(stub.ModelInfer(request))
        for name in CONTENTS:
            np.testing.assert_array_equal(result.as_numpy(f"{name}_out"), TYPES[name][1])
        for name in TYPES.keys() - CONTENTS.keys():
            request.inputs[0].datatype = name
            with pytest.raises(grpc.RpcError, match=f"{name} is sent in raw_input_contents"):
                stub.ModelInfer(request)


def test_an_input_in_a_message_of_grpc_is_given_once(serving, simple):
    request = service_pb2.ModelInferRequest(model_name="simple")
    for name, array in (("INPUT0", A), ("INPUT1", B)):
        request.inputs.add(name=name, datatype="INT32", shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    with grpc.insecure_channel(f"127.0.0.1:{serving(simple).grpc_port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ModelInfer(request).raw_output_contents[0] == (A + B).tobytes()
        request.inputs[1].contents.int_contents.extend([0] * 16)
        with pytest.raises(grpc.RpcError, match="'INPUT1' is given twice"):
            stub.ModelInfer(request)
        del request.inputs[1]
        request.inputs.add(name="é" * 20_000, datatype="INT32", shape=B.shape)
        with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENT"):
            stub.ModelInfer(request)


def test_many_texts_and_their_json_hold_up_nobody(door, serving, tmp_path, monkeypatch):
    """They take seconds of Python, which a thread of its own takes."""
    threads, texts = [], np.full(20_000, b"text", object)

    def noted(work):
        return lambda *words: threads.append(threading.current_thread()) or work(*words)

    for name in ("from_raw", "to_raw"):
        monkeypatch.setattr(tensors, name, noted(getattr(tensors, name)))
    server = serving(models.echo(tmp_path / "echo.onnx", TensorProto.STRING))
    result = connected(door, server).infer("echo", inputs(door, texts, names=["x"]))
    assert (result.as_numpy("y") == texts).all()
    assert len(threads) == 2
    assert server._thread not in threads


def test_a_path_that_nobody_has_leads_nowhere(serving, simple):
    client = HTTPConnection("127.0.0.1", serving(simple).http_port)
    client.request("GET", "/v2/", headers={"host": "elsewhere"})
    assert client.getresponse().status == 404


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_name": "../simple"}, "Request for unknown model|404"),
        ({"model_version": "7"}, "has no version '7'"),
        ({"inputs": [A]}, "lacks 'INPUT1'"),
        ({"inputs": [A, B.astype(np.float32)]}, "must be DataType.INT32"),
        ({"inputs": [A, B[:, :5]]}, "must have shape"),
        ({"sequence_id": 3}, "sequences keep no state here"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(door, client, changed, message):
    options = {"model_name": "simple", "inputs": [A, B]} | changed
    options["inputs"] = inputs(door, *options["inputs"])
    with pytest.raises(InferenceServerException, match=message):
        client.infer(**options)


def test_an_unknown_output_is_refused(door, client):
    with pytest.raises(InferenceServerException, match="has no output 'OUTPUT7'; it has OUTPUT0, OUTPUT1"):
        client.infer("simple", inputs(door, A, B), outputs=[door.InferRequestedOutput("OUTPUT7")])


def test_asynchronous_clients_are_served(serving, simple):
    server = serving(simple)

    async def ask(door: ModuleType, port: int) -> np.ndarray:
        async with door.aio.InferenceServerClient(f"127.0.0.1:{port}") as client:
            results = await asyncio.gather(
                *(client.infer("simple", inputs(door, A, i * B)) for i in range(8))
            )
            return np.concatenate([result.as_numpy("OUTPUT0") for result in results])

    wanted = np.concatenate([A + i * B for i in range(8)])
    for door, port in ((tritonclient.http, server.http_port), (tritonclient.grpc, server.grpc_port)):
        np.testing.assert_array_equal(asyncio.run(ask(door, port)), wanted)


def test_a_stream_of_grpc_answers_in_order(serving, simple):
    answers = []
    client = connected(tritonclient.grpc, serving(simple))
    client.start_stream(lambda result, error: answers.append((result, error)))
    for i in range(4):
        client.async_stream_infer("simple", inputs(tritonclient.grpc, A, i * B))
    client.async_stream_infer("nothing", inputs(tritonclient.grpc, A, B))
    client.stop_stream()
    assert [int(result.as_numpy("OUTPUT0")[0, 0]) for result, _ in answers[:4]] == [0, 1, 2, 3]
    assert "unknown model" in str(answers[4][1])


def test_json_and_compression_of_http_mean_the_same_as_raw_bytes(serving, simple):
    client = connected(tritonclient.http, serving(simple))
    given = inputs(tritonclient.http, A, B)
    given[0].set_data_from_numpy(A, binary_data=False)
    big = [tritonclient.http.InferRequestedOutput("OUTPUT1", binary_data=False)]
    for sent, received in ((None, None), ("gzip", "deflate"), ("deflate", "gzip")):
        result = client.infer(
            "simple", given, outputs=big, request_compression_algorithm=sent,
            response_compression_algorithm=received,
        )  # fmt: skip
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), A - B)
        assert result.get_response()["outputs"][0]["data"] == (A - B).ravel().tolist()


def test_each_output_in_json_has_its_own_elements(serving, tmp_path):
    names = ["y", '"data": []', 'a\\"data": []', "z"]
    nodes = [helper.make_node("Identity", [f"x{i}"], [name]) for i, name in enumerate(names)]
    kinds = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.STRING, TensorProto.INT64]
    taken = [models.value(f"x{i}", [f"n{i}"], kind) for i, kind in enumerate(kinds)]
    given = [models.value(name, [f"n{i}"], kinds[i]) for i, name in enumerate(names)]
    server = serving(models.write(tmp_path / "m.onnx", nodes, taken, given))
    data = [[1.5], [], ['"data": []', "b"], [7]]
    types = ["FP32", "FP32", "BYTES", "INT64"]
    asked = [
        {"name": f"x{i}", "shape": [len(data[i])], "datatype": types[i], "data": data[i]} for i in range(4)
    ]
    client = HTTPConnection("127.0.0.1", server.http_port)
    client.request("POST", "/v2/models/m/infer", json.dumps({"inputs": asked}))
    found = json.loads(client.getresponse().read())["outputs"]
    assert [(one["name"], one["data"]) for one in found] == list(zip(names, data, strict=True))


@pytest.mark.parametrize("way", ["gzip", "deflate", None])
def test_large_answers_are_compressed_as_the_client_accepts_them(serving, simple, way):
    large = np.repeat(A, 100, axis=0)
    client = connected(tritonclient.http, serving(simple))
    asked = inputs(tritonclient.http, large, large)
    found = client.infer("simple", asked, response_compression_algorithm=way)
    np.testing.assert_array_equal(found.as_numpy("OUTPUT0"), 2 * large)
    body, length = client.generate_request_body(asked)
    headers = {"Inference-Header-Content-Length": str(length), "Accept-Encoding": way or "identity"}
    answer = client._post("v2/models/simple/infer", body, headers, None)
    assert answer.get("content-encoding") == way
