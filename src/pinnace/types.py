"""The enumerations of the API: element types, layouts, formats of model files.

Names and numbers of `DataType`, `Format` and `ModelType` are mindspore_lite's; Pinnace's own members are
marked.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pinnace.shapes import Shape, Sizes, alternatives, named, written

if TYPE_CHECKING:
    import numpy.typing as npt  # which takes 0.5 ms

Array = np.ndarray[tuple[Any, ...], np.dtype[np.generic]]
Buffer = bytes | bytearray | memoryview
"""The bytes of a model file."""


class DataType(Enum):
    """Element type of a tensor."""

    UNKNOWN = 0
    STRING = 12  # Pinnace's, like BFLOAT16; the number is MindSpore's
    BOOL = 30
    INT8 = 32
    INT16 = 33
    INT32 = 34
    INT64 = 35
    UINT8 = 37
    UINT16 = 38
    UINT32 = 39
    UINT64 = 40
    FLOAT16 = 42
    FLOAT32 = 43
    FLOAT64 = 44
    BFLOAT16 = 45
    INVALID = 2147483647

    def to_numpy(self) -> np.dtype[np.generic]:
        """Return the numpy dtype of the elements. Raises ValueError for UNKNOWN and INVALID."""
        if self is DataType.BFLOAT16:
            import ml_dtypes  # few models need it

            found: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
            return found
        try:
            return _NUMPY[self]
        except KeyError:
            raise ValueError(f"{self} has no numpy dtype") from None

    @classmethod
    def from_numpy(cls, dtype: npt.DTypeLike) -> DataType:
        """Return the member for a numpy dtype. Raises ValueError if there is none. Text and objects are
        STRING.
        """
        found = _FROM_NUMPY.get(dtype) if dtype.__class__ in _KINDS else None  # others take longer
        if found is not None:
            return found
        try:
            exact = np.dtype(dtype)
            if exact.kind == "U":
                return cls.STRING
            return cls.BFLOAT16 if exact.name == "bfloat16" else _FROM_NUMPY[exact]
        except (KeyError, TypeError):
            raise ValueError(f"no DataType for numpy dtype {dtype!r}") from None


_NUMPY: dict[DataType, np.dtype[np.generic]] = {
    member: np.dtype(object if member is DataType.STRING else member.name.lower())
    for member in DataType
    if member not in (DataType.UNKNOWN, DataType.BFLOAT16, DataType.INVALID)
}
_FROM_NUMPY = {dtype: member for member, dtype in _NUMPY.items()}
_KINDS = frozenset(dtype.__class__ for dtype in _NUMPY.values())


class Format(Enum):
    """Layout of a tensor's dimensions."""

    DEFAULT = -1
    NCHW = 0
    NHWC = 1
    NHWC4 = 2
    HWKC = 3
    HWCK = 4
    KCHW = 5
    CKHW = 6
    KHWC = 7
    CHWK = 8
    HW = 9
    HW4 = 10
    NC = 11
    NC4 = 12
    NC4HW4 = 13
    NCDHW = 15
    NWC = 16
    NCW = 17
    NDHWC = 18
    NC8HW8 = 19


class ModelType(Enum):
    """Kind of model file."""

    MINDIR = 0
    ONNX = 3  # Pinnace's; the number is free in mindspore_lite's enumeration
    MINDIR_LITE = 4


class ModelGroupFlag(Enum):
    """The resources that the models of a `ModelGroup` share."""

    SHARE_WEIGHT = 1
    SHARE_WORKSPACE = 2
    SHARE_WEIGHT_WORKSPACE = 3


class Port(NamedTuple):
    """One input or output of an executable. A free dimension is -1; the shape (-2,) has any rank.

    `sizes` are the allowed sizes of an input's free dimensions, () for any. `names` has the names that the
    file gives to dimensions, "" for those without one; () if none has a name.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    format: Format = Format.NCHW
    sizes: Sizes = ()
    names: tuple[str, ...] = ()

    def dims(self, shape: Shape | None = None) -> str:
        """Return a shape as text, by default the port's own, with the names of free dimensions."""
        return named(self.shape if shape is None else shape, self.names)

    def record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        own = {"dtype": self.dtype.name, "format": self.format.name, "sizes": written(self.sizes)}
        return {**self._asdict(), **own}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Port:
        """Return the port of a `record`. Raises KeyError, TypeError or ValueError."""
        kind, layout = DataType[record["dtype"]], Format[record["format"]]
        sizes = alternatives(record["sizes"])
        return cls(record["name"], kind, tuple(record["shape"]), layout, sizes, tuple(record["names"]))


class Interface(NamedTuple):
    """The ports of a built model, and `info`: the user info of its file, and facts of the engine.

    `states` pairs inputs that hold the state of a model instance with the outputs that replace them; `inputs`
    and `outputs` do not include these.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[tuple[str, str], ...]
    info: dict[str, str]
