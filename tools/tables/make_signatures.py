"""Write src/pinnace/ops/signatures.jsonl: the inputs and attributes of all primitives, with types and defaults.

    python tools/tables/make_signatures.py OLDER [src/pinnace/ops/signatures.jsonl]

needs MindSpore 2.10, whose operator definitions it reads as text, and src/pinnace/formats/ms/schema.json. OLDER is
the folder `mindspore/ops` of MindSpore 2.0.0, the last one before arguments became inputs; what it had and 2.10
has not is in the table, too. `pinnace.ops.signatures` tells the form of the file.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "src/pinnace/formats/ms/schema.json"
DEFAULT_OUT = ROOT / "src/pinnace/ops/signatures.jsonl"

HANDLERS = {
    "str_to_enum": "enum",
    "dtype_to_type_id": "dtype",
    "_normalize_int_sequence": "ints",
    "_scalar_tensor_to_int": "int",
    "_scalar_tensor_to_float": "float",
    "_scalar_tensor_to_scalar": "number",
    "to_pair": "ints",
    "to_kernel_size": "ints",
    "to_strides": "ints",
    "to_rates": "ints",
    "to_dilations": "ints",
    "to_output_padding": "ints",
    "to_2d_paddings": "ints",
}
"""What MindSpore passes an argument through -> the type that it has in a file."""

KINDS = [
    (r"(tuple|list)\W*tensor", "tensors"),
    (r"tensor|parameter", "tensor"),
    (r"dtype|mindspore\.type|\btype\b", "dtype"),
    (r"(tuple|list)\W*int|tuple|list", "ints"),
    (r"\bint", "int"),
    (r"float", "float"),
    (r"number|scalar", "number"),
    (r"bool", "bool"),
    (r"str", "str"),
]
"""What a documented type has in it -> the type here; the first that fits."""
NAMED = {"GlobalComm.WORLD_COMM_GROUP": "hccl_world_group", "ReduceOp.SUM": "sum"}
"""Defaults that are names -> what a file has for them."""
LITE = {"bool": "bool", "float": "float", "string": "str", "int": "int", "long": "int", "byte": "int"}

Row = list[Any]


class Definitions:
    """The classes of MindSpore's operator definitions by name, and how they document their arguments."""

    def __init__(self, folder: Path) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        public = sorted((folder / "operations").rglob("*.py"), key=lambda f: (f.name.startswith("_"), f))
        made = folder / "auto_generate"
        self.instances: dict[str, str] = {}
        for file in (made / "gen_ops_prim.py", made / "pyboost_inner_prim.py", *public):
            for node in _parsed(file):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
                elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                    self.instances[ast.unparse(node.targets[0])] = ast.unparse(node.value.func)
        self.documents = dict(self._functions(made / "gen_ops_def.py"))

    def _functions(self, file: Path) -> Iterator[tuple[str, str]]:
        for node in _parsed(file):
            if isinstance(node, ast.FunctionDef):
                for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
                    name = self.instances.get(ast.unparse(call.func))
                    if name:
                        yield name, ast.get_docstring(node) or ""

    def method(self, cls: ast.ClassDef, name: str) -> ast.FunctionDef | None:
        """A method of a class or of the nearest base that has it."""
        for node in cls.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
        bases = [self.classes[b] for b in map(ast.unparse, cls.bases) if b in self.classes]
        return next((found for b in bases if b is not cls and (found := self.method(b, name))), None)

    def signatures(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each primitive and its signature."""
        for cls in self.classes.values():
            made = self.method(cls, "__init__")
            style = " ".join(ast.unparse(d) for d in made.decorator_list) if made else ""
            if made is None or "prim_a" not in style:
                continue
            document = "\n".join([ast.get_docstring(cls) or "", self.documents.get(cls.name, "")])
            name = _given_name(made) or cls.name
            if "Grad" in name:
                continue  # no primitive of inference
            if "prim_arg_register" in style:
                yield name, self._with_arguments(cls, made, document)
            else:
                yield name, _with_attributes(made, document) | {"derived": self._derived(cls, made)}

    def _with_arguments(self, cls: ast.ClassDef, made: ast.FunctionDef, document: str) -> dict[str, Any]:
        """That of a class whose arguments are all inputs in a file; `moved` come from its constructor."""
        called = self.method(cls, "__call__")
        handlers = {c.args[1].value: _called(c) for c in _calls(called) if _is_handler(c)}
        stored = [c for c in _calls(made) if _called(c).startswith("_set_prim_arg")]
        handlers |= {c.args[0].value: ast.unparse(c.args[2]) for c in stored if len(c.args) > 2}
        defaults = _arguments(called) | _arguments(made)
        order = [*(_signed(cls) or _arguments(called)), *(c.args[0].value for c in stored)]
        order += [n for n in _arguments(made) if n not in order]
        rows = [_row(n, defaults.get(n, ...), document, handlers.get(n, ""), cls.name) for n in order]
        moved = len(_arguments(made).keys() & set(order))
        return {"inputs": rows, "moved": moved, "attributes": [], "derived": self._derived(cls, made, order)}

    def _derived(self, cls: ast.ClassDef, made: ast.FunctionDef, inputs: Iterable[str] = ()) -> list[Row]:
        """The attributes that constructors add to those that they are given, with the value of a constant."""
        rows: dict[str, Row] = {}
        own = _arguments(made).keys() | set(inputs)
        for call in self._constructing(cls):
            if _called(call) in ("add_prim_attr", "_set_prim_attr") and isinstance(
                call.args[0], ast.Constant
            ):
                name = call.args[0].value
                if name not in own:
                    value = _literal(call.args[1]) if len(call.args) > 1 else ...
                    rows[name] = [name] if value is ... or name in rows else [name, value]
        return list(rows.values())

    def _constructing(self, cls: ast.ClassDef) -> Iterator[ast.Call]:
        """The calls that a class's constructor makes, and those of the constructors before it."""
        own = [n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        for made in own:
            yield from _calls(made)
        if not own or any(_called(c) == "__init__" for c in _calls(own[0])):
            for base in (self.classes.get(ast.unparse(b)) for b in cls.bases):
                if base is not None and base is not cls:
                    yield from self._constructing(base)


def _parsed(file: Path) -> list[ast.stmt]:
    return ast.parse(file.read_text(encoding="utf-8")).body if file.exists() else []


def _with_attributes(made: ast.FunctionDef, document: str) -> dict[str, list[Row]]:
    """That of a class whose arguments are attributes in a file."""
    own = _arguments(made)
    inputs: list[str] = []
    for call in _calls(made):
        if _called(call) == "init_prim_io_names":
            given = [*call.args, *(k.value for k in call.keywords if k.arg == "inputs")]
            names = _literal(given[0]) if given and isinstance(given[0], ast.List) else []
            inputs = [n for name in names for n in name.split(", ")]  # one class writes several as one
    if not inputs:
        inputs = re.findall(r"^\s+- \*\*(\w+)\*\*", _section(document, "Inputs"), re.M)
    return {
        "inputs": [_row(n, ..., document, "") for n in inputs],
        "attributes": [_row(n, d, document, "") for n, d in own.items()],
    }


def _section(document: str, title: str) -> str:
    found = re.search(rf"^{title}:\n((?:[ \t]+.*\n|\n)*)", document, re.M)
    return found[1] if found else ""


def _row(name: str, default: Any, document: str, handler: str, primitive: str = "") -> Row:
    kind = HANDLERS.get(handler) or _documented(name, document) or _kind_of(default)
    if kind == "enum" and isinstance(default, str):
        default = {default: _number(primitive, name, default)}
    return [name, kind] if default is ... else [name, kind, default]


def _documented(name: str, document: str) -> str:
    found = re.search(rf"^\s*(?:- \*\*)?{name}(?:\*\*)? \((.*)", document, re.M)
    if not found:
        return ""
    text = found[1].partition(") -")[0].partition("):")[0].lower()
    return next((kind for pattern, kind in KINDS if re.search(pattern, text)), "")


def _kind_of(default: Any) -> str:
    if isinstance(default, dict):
        return "dtype"
    names = {bool: "bool", int: "int", float: "float", str: "str", list: "ints", tuple: "ints"}
    return names.get(type(default), "")


def _number(primitive: str, name: str, text: str) -> int:
    from mindspore._c_expression import op_enum

    return int(op_enum.str_to_enum(primitive, name, text))


def _given_name(made: ast.FunctionDef) -> str:
    """The name that a constructor gives its primitive where it is not that of the class."""
    for call in _calls(made):
        if _called(call) == "__init__":
            given = [*call.args, *(k.value for k in call.keywords if k.arg == "name")]
            for value in given:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    return value.value
    return ""


def _arguments(function: ast.FunctionDef | None) -> dict[str, Any]:
    """A function's arguments after `self` and their defaults, `...` for those without."""
    if function is None:
        return {}
    names = [a.arg for a in [*function.args.posonlyargs, *function.args.args]][1:]
    defaults = [_literal(d) for d in function.args.defaults]
    found = dict(zip(names, [...] * (len(names) - len(defaults)) + defaults, strict=True))
    if function.args.vararg:
        found[function.args.vararg.arg] = ...
    keywords = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return found | {a.arg: ... if d is None else _literal(d) for a, d in keywords}


def _literal(node: ast.expr) -> Any:
    """The value of a constant expression, an element type as its name and number, `...` for all others."""
    text = ast.unparse(node)
    found = re.fullmatch(r"(?:mstype|ms|mindspore)\.(\w+)", text)
    if found:
        import mindspore
        from mindspore._c_expression import typing

        dtype = getattr(mindspore, found[1], None)
        return ... if dtype is None else {found[1].rstrip("_"): int(typing.type_to_type_id(dtype))}
    try:
        return NAMED[text] if text in NAMED else ast.literal_eval(node)
    except ValueError:
        return ...


def _calls(function: ast.FunctionDef | None) -> Iterator[ast.Call]:
    return (n for n in ast.walk(function) if isinstance(n, ast.Call)) if function else iter(())


def _signed(cls: ast.ClassDef) -> list[str]:
    """The inputs that a class's `__mindspore_signature__` names."""
    made = [
        n.value for n in cls.body if isinstance(n, ast.Assign) and "__mindspore_signature__" in ast.unparse(n)
    ]
    calls = [c for m in made for c in ast.walk(m) if isinstance(c, ast.Call) and _called(c) == "make_sig"]
    return [c.args[0].value for c in calls if c.args and isinstance(c.args[0], ast.Constant)]


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _is_handler(call: ast.Call) -> bool:
    return _called(call) in HANDLERS and len(call.args) > 2 and isinstance(call.args[1], ast.Constant)


def lite(schema: dict[str, Any]) -> dict[str, dict[str, list[Row]]]:
    """The primitives of MindSpore Lite; the schema says nothing of their inputs."""
    enums = schema["enums"]

    def kind(text: str) -> str:
        inner = text.strip("[]")
        known = "int" if inner in enums else LITE.get(inner, inner)
        return f"{known}s" if text.startswith("[") else known

    def row(name: str, text: str, *default: Any) -> Row:
        absent = "" if text == "string" else [] if text.startswith("[") else None
        return [name, kind(text), *(default or [absent])]

    names = schema["unions"]["PrimitiveType"]
    fields = {name: [row(*f) for f in schema["tables"][name] if f[0]] for name in names}
    return {name: {"attributes": rows} for name, rows in fields.items()}


def to_text(dialects: dict[str, dict[str, dict[str, Any]]]) -> str:
    """One primitive a line, as JSON, without the parts that are empty."""
    lines = []
    for dialect, rows in dialects.items():
        full = {name: {part: args for part, args in row.items() if args} for name, row in rows.items()}
        lines += [json.dumps([dialect, name, full[name]]) for name in sorted(full)]
    return "\n".join(lines) + "\n"


def with_older(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """The newer signatures, with the primitives and attributes that only older definitions have."""
    merged = {**old, **new}
    for name in new.keys() & old.keys():
        parts = ("inputs", "attributes", "derived")
        known = {argument[0] for part in parts for argument in new[name].get(part, ())}
        given = [[n, *default] for n, _, *default in old[name]["attributes"] if n not in known]
        derived = [argument for argument in old[name]["derived"] if argument[0] not in known]
        merged[name] = new[name] | {"older": given + derived}
    return merged


def main(older: Path, out: Path) -> None:
    from importlib.util import find_spec

    found = find_spec("mindspore")
    if found is None or found.origin is None:
        sys.exit("MindSpore is needed")
    new, old = (dict(Definitions(f).signatures()) for f in (Path(found.origin).parent / "ops", older))
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    out.write_text(to_text({"mindspore": with_older(new, old), "lite": lite(schema)}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_OUT)
