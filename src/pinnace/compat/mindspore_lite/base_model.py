"""`mindspore_lite.base_model`."""

from pinnace.api.base_model import BaseModel

__all__ = ["BaseModel"]
