"""`mindspore_lite.tensor`."""

from pinnace import DataType, Format, Tensor, TensorMeta

__all__ = ["DataType", "Format", "Tensor", "TensorMeta"]
