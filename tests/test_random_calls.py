"""The parts of `python -m tests.random_calls` that need no MindSpore."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.random_calls.cases import Case, Step
from tests.random_calls.compare import difference
from tests.random_calls.growing import Grower
from tests.random_calls.ours import named
from tests.random_calls.shrink import shrunk
from tests.random_calls.values import Drawer, kinds

MATRIX = {"dtype": "float32", "shape": [3, 4], "finite": True, "largest": 1.0}
CHAIN = Case(
    ("f32[3,4]", "f64[2,3*]>0<1!", "i32[]>0<4"),
    (
        Step("ops.abs", "function", ("x0",)),
        Step("ops.bad", "function", ("y0", "x1", "dim=-1"), control="while x2"),
        Step("Tensor.exp", "method", ("y1",)),
    ),
    (MATRIX, MATRIX, MATRIX),
)


def test_a_case_becomes_the_body_of_a_network():
    assert CHAIN.body.splitlines() == [
        "y0 = ops.abs(x0)",
        "y1 = y0",
        "n1 = x2",
        "while n1 > 0:",
        "    y1 = ops.bad(y1, x1, dim=-1)",
        "    n1 = n1 - 1",
        "y2 = y1.exp()",
        "return y2",
    ]


def test_a_failing_chain_shrinks_to_the_call_that_fails():
    small = shrunk(CHAIN, lambda case: any(s.call == "ops.bad" for s in case.steps), tries=100)
    assert small.golden("n") == 'case("n", "f32[1]", call=\'ops.bad(x0)\')'


def test_the_words_of_the_documentation_say_what_is_given():
    assert kinds("Union[int, tuple[int], list[int]], optional") == ["ints", "ints", "int"]
    assert kinds("Union[Tensor, number.Number, bool]") == ["tensor", "number", "bool"]
    assert kinds("tuple[Tensor], list[Tensor]") == ["tensors", "tensors"]
    assert kinds(":class:`mindspore.dtype`, optional") == ["dtype"]
    assert kinds("Callable") == []


def test_shapes_of_the_documentation_share_their_letters():
    about = "Tensor of shape :math:`(N, C_{in} / \\text{groups}, \\text{kernel_size[0]})`."
    weight = {"name": "w", "default": "required", "type": "Tensor", "about": about, "keyword": False}
    inputs: list[str] = []
    drawer = Drawer(np.random.default_rng(0), 0, inputs)
    drawer.bound |= {"N": 5, "C_in": 6, "groups": 2, "kernel_size": (3, 1)}
    assert drawer.arguments([weight]) == ["x0"]
    assert "[5,3,3]" in inputs[0]


def test_the_same_seed_draws_the_same():
    parameters = [
        {"name": "input", "default": "required", "type": "Tensor", "about": "", "keyword": False},
        {"name": "axis", "default": "None", "type": "Union[int, tuple(int)]", "about": "", "keyword": False},
    ]

    def drawn():
        inputs: list[str] = []
        return Drawer(np.random.default_rng(3), 1, inputs, free=True).arguments(parameters), inputs

    assert drawn() == drawn()


class _Oracle:
    """Computes every call that is not refused."""

    def __init__(self, refused: str = "nothing") -> None:
        self._refused = refused

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        tree = {**MATRIX, "nan": False, "minus_zero": False, "zero": False, "sorted": True}
        answer = {"result": tree, "inputs": [tree] * len(request["inputs"])}
        return {} if self._refused in request["body"] else answer


def test_a_case_depends_on_its_number_alone():
    parameter = {"name": "x", "default": "required", "type": "Tensor", "about": "", "keyword": False}
    functions = [
        {"name": f"ops.f{i}", "kind": "function", "parameters": [parameter], "inputs": [], "processor": True}
        for i in range(9)
    ]
    grower = Grower(functions, _Oracle(), seed=1)
    cases = [grower.case(number) for number in range(60)]
    assert any(len(case.steps) > 1 for case in cases)
    assert cases[50:] == [Grower(functions, _Oracle(), seed=1).case(number) for number in range(50, 60)]
    other = Grower(functions, _Oracle(refused="ops.f3"), seed=1)
    untouched = [i for i, case in enumerate(cases) if "ops.f3" not in case.body]
    assert [other.case(i) for i in untouched] == [cases[i] for i in untouched]


@pytest.mark.parametrize(
    ("got", "wanted", "same"),
    [
        (np.float32([np.nan, np.inf, 1]), np.float32([np.nan, np.inf, 1 + 1e-6]), True),
        (np.float32([np.inf]), np.float32([-np.inf]), False),
        (np.float32([0.0]), np.float32([-0.0]), False),
        (np.float32([1.0]), np.float64([1.0]), False),
        (np.int32([[1]]), np.int32([1]), False),
        (np.int64([2**53 + 1]), np.int64([2**53]), False),
    ],
)
def test_what_counts_as_the_same(got, wanted, same):
    assert (difference([got], [wanted]) == "") is same


def test_rounding_of_an_input_may_change_what_it_changes():
    got, wanted = np.float32([1.0]), np.float32([1.5])
    assert difference([got], [wanted], [[np.float32([1.6])]]) == ""
    assert difference([got], [wanted], [[np.float32([1.5001])]])


def test_without_an_oracle_it_says_what_it_needs():
    command = [sys.executable, "-m", "tests.random_calls", "--oracle", "no such interpreter"]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "an interpreter with MindSpore 2.10 is needed" in ended.stderr


def test_the_page_of_engines_names_operators_for_numbers():
    assert {"Relu", "MaxPool", "Softmax"} <= named("NaN|infinity")
    assert "Clip" in named("signed zeros")
