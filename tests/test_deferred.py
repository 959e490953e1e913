"""onnx-ir without sympy: lean where it can be, whole where it must be."""

from __future__ import annotations

import subprocess
import sys

import pytest


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


LEAN = "import sys; from pinnace.deferred import import_onnx_ir; import_onnx_ir(); import onnx_ir; "


def test_opening_a_model_imports_no_sympy(data):
    model = data / "split" / "big_graph.mindir"
    code = f"from pinnace.building.opening import inspect_model; inspect_model({str(model)!r}); "
    out = python(f"{LEAN}{code}print('sympy' in sys.modules)")
    assert out == "False"


@pytest.mark.parametrize("cache", ["off", "on"])
@pytest.mark.parametrize("name", ["picture.ms", "dense.mindir", "dense.onnx"])
def test_building_a_model_imports_no_sympy(data, tmp_path, monkeypatch, cache, name):
    monkeypatch.setenv("PINNACE_CACHE_DIR", cache if cache == "off" else str(tmp_path / "cache"))
    names = "from pinnace.building.build import Settings, Target, build_model as build; "
    code = f"import sys; {names}build(sys.argv[1], None, Target(), Settings()); "
    code += "print(*(name in sys.modules for name in ('onnx_ir', 'sympy')))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(data / "api" / name)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True False"


def test_sympy_is_whole_for_everybody_else():
    assert python(f"{LEAN}import sympy; print(sympy.Symbol('x') + 1)") == "x + 1"


def test_symbolic_dimensions_still_compute():
    code = "print(onnx_ir.SymbolicDim('n') * 2 + 1, 'sympy' in sys.modules)"
    assert python(LEAN + code) == "2*n + 1 True"


def test_functions_in_symbolic_dimensions_still_compute():
    code = "print(onnx_ir.SymbolicDim('max(n, 3)').evaluate({'n': 5}))"
    assert python(LEAN + code) == "5"


@pytest.mark.parametrize("first", ["sympy", "onnx_ir"])
def test_what_is_imported_already_is_left_alone(first):
    code = f"import {first}; {LEAN}print(onnx_ir.SymbolicDim('n') + 1, type(sys.modules['sympy']).__name__)"
    assert python(code) == "n + 1 module"
