"""Reader of protobuf's text format, in which Caffe's networks are written.

It needs no table of Caffe's hundred messages: a message is its fields by name, and a rule knows those that it
reads (protobuf.dev/reference/protobuf/textformat-spec).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

from pinnace.errors import ModelFormatError

T = TypeVar("T", bool, int, float, str)

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)|(?P<name>[A-Za-z_]\w*)|(?P<number>[-+]?(?:\d|\.\d)[\w.]*(?:(?<=[eE])[-+]\d+)?)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[{}<>\[\]:;,])""",
    re.ASCII,
)
_DEPTH = 64
_CLOSES = {"{": "}", "<": ">"}


class Message:
    """The fields of a message in their order; each has a list of values."""

    def __init__(self, where: str) -> None:
        self.where = where
        """The file, for errors."""
        self.fields: dict[str, list[Any]] = {}

    def all(self, name: str, kind: type[T]) -> list[T]:
        """Return all values of a field. Raises ModelFormatError unless they are of a kind."""
        return [self._as(name, value, kind) for value in self.fields.get(name, ())]

    def get(self, name: str, default: T) -> T:
        """Return the last value of a field, or the default, whose kind it must have."""
        return (self.all(name, type(default)) or [default])[-1]

    def messages(self, name: str) -> list[Message]:
        """Return the messages of a field. Raises ModelFormatError if it is none."""
        found = self.fields.get(name, [])
        for value in found:
            if not isinstance(value, Message):
                raise ModelFormatError(f"{self.where}: field {name} is {value!r}, not a message")
        return found

    def message(self, name: str) -> Message:
        """Return the last message of a field, an empty one if there is none."""
        return (self.messages(name) or [Message(self.where)])[-1]

    def _as(self, name: str, value: Any, kind: type[T]) -> T:
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise ModelFormatError(f"{self.where}: field {name} is {value!r}, not {kind.__name__}")
        return value


def parse(text: str, where: str) -> Message:
    """Return the message of a text. Raises ModelFormatError with the line."""
    tokens = _tokens(text, where)
    whole = Message(where)
    open_: list[tuple[Message, str]] = [(whole, "")]
    token = next(tokens)
    while True:
        message, close = open_[-1]
        kind, word, line = token
        if word == close:
            if not close:
                return whole
            open_.pop()
            token = next(tokens)
        elif word in (";", ",") and kind == "mark":
            token = next(tokens)
        elif kind == "name":
            token = _field(tokens, message.fields.setdefault(word, []), open_, where)
        else:
            raise _unexpected(where, line, word)


def _field(
    tokens: Iterator[tuple[str, str, int]], values: list[Any], open_: list[tuple[Message, str]], where: str
) -> tuple[str, str, int]:
    """Read what follows a field's name, up to a message that it opens; return the next token."""
    kind, word, line = next(tokens)
    if word == ":":
        kind, word, line = next(tokens)
    if word in _CLOSES:
        if len(open_) > _DEPTH:
            raise ModelFormatError(f"{where}: line {line}: messages are nested more than {_DEPTH} deep")
        values.append(Message(where))
        open_.append((values[-1], _CLOSES[word]))
        return next(tokens)
    if word != "[":
        values.append(_scalar(kind, word, line, where))
        return next(tokens)
    while True:
        kind, word, line = next(tokens)
        if word == "]":
            return next(tokens)
        if word != ",":
            values.append(_scalar(kind, word, line, where))


def _tokens(text: str, where: str) -> Iterator[tuple[str, str, int]]:
    """Yield kind, text and line of each token, and at the end empty ones."""
    place, line = 0, 1
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise _unexpected(where, line, text[place])
        if found.lastgroup != "space":
            yield str(found.lastgroup), found[0], line
        line += found[0].count("\n")
        place = found.end()
    while True:
        yield "end", "", line


def _scalar(kind: str, word: str, line: int, where: str) -> bool | int | float | str:
    if kind == "text":
        return word[1:-1]
    if kind == "name":
        return {"true": True, "false": False}.get(word, word)
    if kind == "number":
        for number in (int, float):
            try:
                return number(word.rstrip("fF") if number is float else word)
            except ValueError:
                continue
    raise _unexpected(where, line, word)


def _unexpected(where: str, line: int, word: str) -> ModelFormatError:
    what = f"{word[:40]!r} is unexpected" if word else "the file ends inside a message"
    return ModelFormatError(f"{where}: line {line}: {what}: is it a network of Caffe in text (.prototxt)?")
