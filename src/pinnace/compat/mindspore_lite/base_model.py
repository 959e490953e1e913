"""`mindspore_lite.base_model`."""

from pinnace.base_model import BaseModel

__all__ = ["BaseModel"]
