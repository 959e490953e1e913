"""Arguments for a parameter, from what its documentation says, with a liking for what people seldom use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Parameter = dict[str, Any]
"""`catalog.Parameter`, out of JSON."""

FLOATS = ("f32", "f64", "f16")
INTEGERS = ("i32", "i64", "i8", "u8", "i16", "u16", "u32", "u64")
_WEIGHTS = {"f32": 9, "f64": 4, "f16": 4, "i32": 3, "i64": 3, "b": 2}
_LONG = {"float16": "f16", "float32": "f32", "float64": "f64", "bool": "b"} | {
    f"{sign}int{bits}": f"{(sign or 'i')[0]}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
SHORT = {np.dtype(long).name: short for long, short in _LONG.items()}
_KINDS = (
    ("cootensor", "none of these"),
    ("csrtensor", "none of these"),
    ("generator", "none of these"),
    ("callable", "none of these"),
    ("initializer", "none of these"),
    ("dtype", "dtype"),
    ("tensor", "tensor"),
    ("parameter", "tensor"),
    ("int", "int"),
    ("float", "float"),
    ("double", "float"),
    ("number", "number"),
    ("scalar", "number"),
    ("bool", "bool"),
    ("str", "str"),
    ("none", "none"),
)
_SEQUENCE = re.compile(r"(?:tuple|list|sequence)s?(?: of (\w+)|\s*[\[(]([^\[\]()]*)[\])])?")
_INDEX = re.compile(
    r"ind(ex|ices)|idx|ids$|segment|label|target|offset|position|length|sizes?$|start|end$|tokens?$"
)
_AXIS = re.compile(
    r"^(axis|axes|dims?|axis\d|dim\d|start_dim|end_dim|start_axis|end_axis|source|destination|batch_dims?)$"
)
_SHAPE = re.compile(r"shape|size|repeats|reps|dims$|tiles|multiples|num_|^n$|^k$|channels|features|groups?$")
_SPATIAL = ("H", "W", "D", "L", "T", "S", "K", "k")
_SAME = {"C_in": "in_channels", "C_out": "out_channels", "H_in": "in_features", "H_out": "out_features"}


@dataclass
class Known:
    """A tensor that is there: how Python names it, and its type."""

    text: str
    dtype: str
    shape: tuple[int, ...]


def kinds(text: str) -> list[str]:
    """What may be given, read from the type in the documentation; empty where that says nothing known."""
    low = re.sub(r"tensor\[\w+\]", "tensor", text.lower().replace("`", ""))
    found = []
    for one in _SEQUENCE.finditer(low):
        inner = one[1] or one[2] or "int"
        found.append("tensors" if "tensor" in inner else "floats" if "float" in inner else "ints")
    low = _SEQUENCE.sub("", low)
    for word, kind in _KINDS:
        if word in low and kind not in found:
            found.append(kind)
            low = low.replace("dtype", "").replace("boolean", "bool") if kind == "dtype" else low
    return [kind for kind in found if kind != "none of these"]


@dataclass
class Drawer:
    """Draws the arguments of one call. `wild` is how often it goes beyond what is usual, from 0 to 1.

    `inputs` grows by the tensors that it makes; `given` are tensors that are there, used before new ones.
    """

    random: np.random.Generator
    wild: float
    inputs: list[str]
    given: list[Known] = field(default_factory=list)
    free: bool = False
    bound: dict[str, Any] = field(default_factory=dict)
    base: Known | None = None

    def __post_init__(self) -> None:
        if self.given:
            self.base = self.given[int(self.random.integers(len(self.given)))]
        self.shape = self.base.shape if self.base else self._shape()
        self.dtype = self.base.dtype if self.base else self._dtype()
        self.used = False

    def chance(self, of: float) -> bool:
        return bool(self.random.random() < of)

    def pick(self, among: Any) -> Any:
        return among[int(self.random.integers(len(among)))]

    def arguments(self, parameters: list[Parameter], constructor: bool = False) -> list[str]:
        """Python text for parameters; those with a default are often left out. Tensors come last to be drawn."""
        drawn: dict[str, str] = {}
        for one in sorted(parameters, key=self._is_tensor):
            if one["default"] != "required" and (
                one["name"] in ("name", "generator") or self.chance(0.75 - 0.5 * self.wild)
            ):
                self.bound.setdefault(one["name"], _value(one["default"]))
                continue
            drawn[one["name"]] = self._argument(one, constructor)
        by_name, texts = False, []
        for one in parameters:
            if one["name"] not in drawn:
                by_name = True
            else:
                by_name = by_name or one["keyword"]
                texts.append(f"{one['name']}={drawn[one['name']]}" if by_name else drawn[one["name"]])
        return texts

    def _is_tensor(self, one: Parameter) -> bool:
        return "tensor" in one["type"].lower() or (not one["type"] and one["default"] == "required")

    def _argument(self, one: Parameter, constructor: bool) -> str:
        known = kinds(one["type"]) or self._guessed(one)
        kind = self.pick(known)
        if "tensor" in known and not self.used and not constructor:
            kind = "tensor"  # something must be computed
        if constructor and kind in ("tensor", "tensors"):
            return one["default"] if one["default"] != "required" else "None"
        if kind == "tensor":
            return self.tensor(one)
        if kind == "tensors":
            return self._tensors(one)
        text = str(getattr(self, f"_{kind}")(one))
        self.bound[one["name"]] = _value(text)
        return text

    def _guessed(self, one: Parameter) -> list[str]:
        default = _value(one["default"])
        if isinstance(default, bool):
            return ["bool"]
        if isinstance(default, int | float | str):
            return [type(default).__name__]
        if isinstance(default, tuple):
            return ["ints"]
        return ["tensor"] if one["default"] == "required" and not _AXIS.match(one["name"]) else ["int"]

    # -- what is no tensor ------------------------------------------------------------------------------

    def _none(self, one: Parameter) -> str:
        return "None"

    def _bool(self, one: Parameter) -> bool:
        return self.chance(0.5)

    def _int(self, one: Parameter) -> int:
        rank = max(1, len(self.shape))
        if _AXIS.match(one["name"]):
            return int(self.random.integers(-rank, rank))
        if _SHAPE.search(one["name"]):
            return int(self.pick([1, 2, 2, 3, 4, 6] if self.chance(1 - self.wild / 3) else [0, -1, 5, 8]))
        return int(self.pick([0, 1, 1, 2, 3] if self.chance(1 - self.wild / 2) else [-1, -2, 5, 10, 100]))

    def _ints(self, one: Parameter) -> tuple[float, ...]:
        if one["name"] == "boundaries":
            return self._floats(one)
        longest = max(1, len(self.shape))
        if _AXIS.match(one["name"]):
            count = int(self.random.integers(0 if self.chance(self.wild) else 1, longest + 1))
            axes = [int(a) for a in self.random.permutation(longest)[:count]]
            if axes and self.chance(self.wild / 3):
                axes.append(axes[0])
            return tuple(a - longest if self.chance(0.4) else a for a in axes)
        if one["name"] in ("shape", "size", "sizes") and self.shape and self.chance(0.6):
            return self._related_sizes()
        length = int(self.pick([1, 2, 2, 3, longest]))
        if "kernel_size" in self.bound and isinstance(self.bound["kernel_size"], tuple):
            length = len(self.bound["kernel_size"]) * (2 if "pad" in one["name"] and self.chance(0.3) else 1)
        if re.search(r"perm|order|dims", one["name"]):
            return tuple(int(a) for a in self.random.permutation(longest))
        return tuple(
            int(self._int({**one, "name": "shape" if _SHAPE.search(one["name"]) else ""}))
            for _ in range(length)
        )

    def _related_sizes(self) -> tuple[int, ...]:
        """Sizes that the shape at hand can be given: by broadcasting, or in another order."""
        if self.chance(0.5):
            return tuple(int(d) for d in self.random.permutation(self.shape))
        grown = [int(self.pick([2, 3])) if d == 1 else -1 if self.chance(0.2) else d for d in self.shape]
        return (*((2,) if self.chance(0.3) else ()), *grown)

    def _floats(self, one: Parameter) -> tuple[float, ...]:
        drawn = tuple(float(self._float(one)) for _ in range(int(self.pick([1, 2, 3]))))
        return tuple(sorted(set(drawn))) if one["name"] == "boundaries" else drawn

    def _float(self, one: Parameter) -> str:
        usual = [0.5, 1.0, 2.0, 0.1, 1e-5, 1.5, 0.0, 3.0]
        return repr(
            self.pick(usual if self.chance(1 - self.wild / 2) else [-1.0, -0.5, 1e-12, 100.0, -2.5, -0.0])
        )

    def _number(self, one: Parameter) -> str:
        kind = self.pick(["int", "float", "bool"] if self.chance(self.wild / 3) else ["int", "float"])
        return str(getattr(self, f"_{kind}")({**one, "name": ""}))

    def _str(self, one: Parameter) -> str:
        words = re.findall(r"``['\"](\w+)['\"]``|['\"](\w+)['\"]", one["about"])
        known = sorted({a or b for a, b in words} | {str(_value(one["default"]))} - {"required", "None"})
        return repr(self.pick(known)) if known else "'mean'"

    def _dtype(self, one: Parameter | None = None) -> str:
        if one is not None:
            return "ms." + self.pick(
                [long for long in _LONG if self.wild > 0.3 or "float" in long or long == "int32"]
            )
        if self.chance(0.12 * self.wild):
            return str(self.pick(INTEGERS))
        weights = np.array(list(_WEIGHTS.values()), float)
        return str(self.random.choice(list(_WEIGHTS), p=weights / weights.sum()))

    # -- tensors ----------------------------------------------------------------------------------------

    def tensor(self, one: Parameter) -> str:
        """A tensor: one that is there, or a new input."""
        if self.base is not None and (not self.used or self.chance(0.15)):
            self.used = True
            return self.base.text
        self.used = True
        return self._new(self._kind_of(one), self._shape_of(one), one["name"])

    def _tensors(self, one: Parameter) -> str:
        items = [self.tensor({**one, "about": ""}) for _ in range(int(self.pick([1, 2, 2, 3])))]
        return f"({', '.join(items)},)"

    def _new(self, dtype: str, shape: tuple[int, ...], name: str = "") -> str:
        dims = [f"{d}*" if self.free and self.chance(0.6) else str(d) for d in shape]
        spec = f"{dtype}[{','.join(dims)}]"
        if dtype in FLOATS:
            spec += self.pick(["", "", "", ">0.1<3", ">-1<1"]) if self.chance(0.85) else ">-40<40"
            if "sorted" in name:
                spec += "^"
            elif self.chance(0.3 * self.wild) and np.prod(shape) >= 1:
                spec += self.pick("!!~")
        elif dtype != "b":
            places = _INDEX.search(name) is not None  # beyond the dimensions MindSpore reads what is there
            top = min(size for size in (*self.shape, 4) if size) if places else self.pick([3, 7])
            low = -top if dtype[0] == "i" and not places and self.chance(0.5) else 0
            spec += f">{low}<{top}"
            if self.chance(0.15 * self.wild) and not places:
                spec += "!"
        self.inputs.append(spec)
        return f"x{len(self.inputs) - 1}"

    def _kind_of(self, one: Parameter) -> str:
        about = one["about"].lower()
        named = [short for long, short in _LONG.items() if re.search(rf"\b{long}\b", about)]
        if "[bool]" in one["type"].lower() or one["name"] in ("mask", "condition", "where"):
            return "b"
        if _INDEX.search(one["name"]) and not self.chance(self.wild / 4):
            return str(self.pick([n for n in named if n in INTEGERS] or ["i32", "i64"]))
        if self.dtype in named or not named or self.chance(self.wild / 2):
            return self.dtype if self.chance(1 - self.wild / 4) else self._dtype()
        return str(self.pick(named))

    def _shape(self) -> tuple[int, ...]:
        rank = int(self.random.choice([0, 1, 2, 3, 4, 5], p=[0.1, 0.2, 0.28, 0.22, 0.15, 0.05]))
        return tuple(self._length() for _ in range(rank))

    def _length(self) -> int:
        if self.chance(0.06 * self.wild):
            return 0
        return int(self.random.choice([1, 2, 3, 4, 5, 7], p=[0.22, 0.26, 0.26, 0.14, 0.08, 0.04]))

    def _shape_of(self, one: Parameter) -> tuple[int, ...]:
        written = re.findall(r":math:`(\([^`]*?\))`", one["about"])
        if written and not self.chance(0.3 * self.wild):
            shape = self._read(str(self.pick(written[:3])))
            if shape is not None:
                if not self.bound.get("first shape"):
                    self.bound["first shape"], self.shape = True, shape
                return shape
        return self._broadcast(self.shape)

    def _broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that can be combined with another, or the same."""
        if self.chance(0.6):
            return shape
        kept = shape[int(self.random.integers(len(shape) + 1)) :] if self.chance(0.5) else shape
        kept = tuple(1 if self.chance(0.3) else d for d in kept)
        return (self._length(), *kept) if self.chance(0.2) and len(kept) < 5 else kept

    def _read(self, text: str) -> tuple[int, ...] | None:
        """A shape as the documentation writes it, (N, C_{in}, *), with the same size for the same letter."""
        plain = re.sub(
            r"\\(?:text|mathrm)\{([^{}]*)\}", r"\1", text[1:-1].replace("\\_", "_").replace("\\ ", "")
        )
        plain = re.sub(r"[{}\s]", "", plain.replace("\\times", "*").replace("\\ast", "..."))
        if not plain:
            return ()
        shape: list[int] = []
        for part in re.split(r",(?![^\[]*\])", plain.rstrip(",")):
            if part in ("*", "...", "\\ldots", "\\cdots"):
                more = self.bound.setdefault(
                    "*", tuple(self._length() for _ in range(int(self.random.integers(3))))
                )
                shape += more
                continue
            try:
                shape.append(max(0, int(self._size(part))))
            except ValueError:
                return None
        return tuple(shape) if len(shape) < 7 and np.prod(shape) < 5000 else None

    def _size(self, part: str) -> int:
        for sign in ("//", "/", "*", "+", "-"):
            left, found, right = part.rpartition(sign)
            if found and left and right:
                a, b = self._size(left), self._size(right)
                return {"//": a // (b or 1), "/": a // (b or 1), "*": a * b, "+": a + b, "-": a - b}[sign]
        if part.lstrip("-").isdigit():
            return int(part)
        name, _, place = part.partition("[")
        if not re.fullmatch(r"\w+", name):
            raise ValueError(part)
        given = self.bound.get(_SAME.get(name, name), self.bound.get(name))
        if isinstance(given, tuple) and place:
            number = int(place.rstrip("]")) if place.rstrip("]").isdigit() else 0
            given = given[number] if number < len(given) else None
        if isinstance(given, int) and not isinstance(given, bool):
            return given
        size = int(self.random.integers(3, 9)) if name[0] in _SPATIAL else self._length()
        return int(self.bound.setdefault(part, size))


def _value(text: str) -> Any:
    """What a default or a drawn text is, where it is a literal."""
    import ast

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
