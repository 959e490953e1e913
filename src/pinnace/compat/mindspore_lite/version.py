"""`mindspore_lite.version`."""

__version__ = "2.0.0"
"""The release of mindspore_lite whose behavior Pinnace follows."""
