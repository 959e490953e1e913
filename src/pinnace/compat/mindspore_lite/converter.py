"""`mindspore_lite.converter`."""

from pinnace import Converter, FmkType

__all__ = ["Converter", "FmkType"]
