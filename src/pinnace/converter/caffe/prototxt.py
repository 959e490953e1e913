"""Reader of protobuf's text format, in which Caffe's networks are written.

It needs no table of Caffe's hundred messages: a message is its fields by name, and a rule knows those that it
reads (protobuf.dev/reference/protobuf/textformat-spec).
"""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.text_format import ParseError, Tokenizer

from pinnace.errors import ModelFormatError

T = TypeVar("T", bool, int, float, str)

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
    tokens = Tokenizer(text.splitlines())
    try:
        return _message(tokens, where, "", 0)
    except ParseError as error:
        found = f"{tokens.token[:40]!r} is unexpected" if tokens.token else "the file ends inside a message"
        what = f"line {error.GetLine()}: {found}: is it a network of Caffe in text (.prototxt)?"
        raise ModelFormatError(f"{where}: {what}") from None


def _message(tokens: Tokenizer, where: str, end: str, depth: int) -> Message:
    """Read fields up to what ends a message, "" at the end of the file."""
    if depth > _DEPTH:
        raise ModelFormatError(f"{where}: messages are nested more than {_DEPTH} deep")
    message = Message(where)
    while not (tokens.TryConsume(end) if end else tokens.AtEnd()):
        if tokens.TryConsume(";") or tokens.TryConsume(","):
            continue
        values = message.fields.setdefault(tokens.ConsumeIdentifier(), [])
        tokens.TryConsume(":")
        if not tokens.TryConsume("["):
            values.append(_value(tokens, where, depth))
            continue
        while not tokens.TryConsume("]"):
            values.append(_value(tokens, where, depth))
            tokens.TryConsume(",")
    return message


def _value(tokens: Tokenizer, where: str, depth: int) -> Message | bool | int | float | str:
    if (begin := tokens.token) not in _CLOSES:
        return _scalar(tokens)
    tokens.NextToken()
    return _message(tokens, where, _CLOSES[begin], depth + 1)


def _scalar(tokens: Tokenizer) -> bool | int | float | str:
    word = tokens.token
    if word[:1] in ("'", '"'):
        text: str = tokens.ConsumeString()
        return text
    if word[:1].isalpha() or word[:1] == "_":
        value: bool | int | float | str = {"true": True, "false": False}.get(word, word)
    else:
        try:
            value = int(word) if word.lstrip("+-").isdecimal() else float(word.rstrip("fF"))
        except ValueError:
            return tokens.ConsumeFloat()  # which tells the line
    tokens.NextToken()
    return value
