"""`mindspore_lite.llm_engine`, whose names raise an error that says what they are."""

from . import __getattr__ as __getattr__
