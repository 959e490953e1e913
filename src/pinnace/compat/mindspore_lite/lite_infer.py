"""`mindspore_lite.lite_infer`."""

from pinnace import LiteInfer

__all__ = ["LiteInfer"]
