"""Commands run in this process, as `pinnace` on the command line would run them."""

import json
import logging
import signal
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pinnace.cli import main

_OF_THE_LOG = (
    (sys, "stderr"), (sys, "excepthook"), (warnings, "showwarning"), (logging, "lastResort"),
)  # fmt: skip
"""What --log json replaces."""


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def any_width(monkeypatch):
    """Let output have any width: pytest-xdist sets one."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def handlers_as_before():
    """Put handlers of signals back, which `pinnace serve` sets for good."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def printed(capsys):
    """Call a function, and return the lines that it prints, with single blanks."""

    def lines(call, *arguments):
        call(*arguments)
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    return lines


@pytest.fixture
def pinnace(monkeypatch, capsys, tmp_path_factory):
    """Call `pinnace ARGUMENTS`, with a compile cache that is empty."""
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    logger = logging.getLogger("pinnace")
    handlers, level = list(logger.handlers), logger.level
    monkeypatch.setenv("PINNACE_LOG", "")
    for place, name in _OF_THE_LOG:
        monkeypatch.setattr(place, name, getattr(place, name))
    monkeypatch.setattr(sys.modules["__main__"], "__package__", "")  # else `python -m pytest` is in usages

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["pinnace", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        streams = capsys.readouterr()
        return Answer(stopped.value.code or 0, streams.out, streams.err)

    yield call
    logger.handlers[:] = handlers  # --log adds one, of a stderr that is gone
    logger.setLevel(level)


def _dimension(text):
    return None if text == "?" else int(text) if text.isdecimal() else text


@pytest.fixture
def onnx_file(tmp_path):
    """Write an ONNX model of nodes "Op inputs -> output", and of ports "name dtype 1,batch,?"."""

    def port(text):
        name, dtype, *shape = text.split()
        dimensions = [_dimension(size) for size in shape[0].split(",")] if shape else []
        return helper.make_tensor_value_info(name, getattr(TensorProto, dtype.upper()), dimensions)

    def write(nodes, inputs, outputs, name="model.onnx"):
        made = []
        for node in nodes:
            left, _, right = node.partition(" -> ")
            operator, *names = left.split()
            made.append(helper.make_node(operator, names, right.split()))
        graph = helper.make_graph(made, "graph", list(map(port, inputs)), list(map(port, outputs)))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path = tmp_path / name
        onnx.save(model, path)
        return path

    return write


@pytest.fixture
def array_file(tmp_path):
    """Write an array as .npy, or as .bin where the name says so."""

    def write(name, array):
        path = tmp_path / name
        if path.suffix == ".bin":
            np.asarray(array).tofile(path)
        else:
            np.save(path, array)
        return path

    return write
