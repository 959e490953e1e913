"""The files beside a model that say what it does with texts: those of sentence-transformers and transformers.

What they ask for and Pinnace does not do is refused by name: it would change the numbers.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from pinnace.errors import NotSupportedError

TOKENIZER = "tokenizer.json"
MODULES = "modules.json"
_LIBRARY = "sentence_transformers."
_OF_TRANSFORMER = (
    "max_seq_length", "do_lower_case", "transformer_task", "modality_config", "module_output_name",
    "unpad_inputs",
)  # fmt: skip


class Module(NamedTuple):
    """A step of sentence-transformers: the name of its class, and its place in the folder."""

    kind: str
    place: str


class Folder:
    """A folder with a `tokenizer.json`. Its properties and methods raise NotSupportedError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, model: Path) -> Folder | None:
        """Return the folder for a model file: its own, or that of all versions; None without a tokenizer."""
        versioned = model.parent.name.isdecimal()
        places = (model.parent, model.parent.parent) if versioned else (model.parent,)
        return next((cls(place) for place in places if (place / TOKENIZER).is_file()), None)

    def read(self, name: str) -> Any:
        """Return the JSON of a file, {} if there is none."""
        file = PurePath(name)  # which may be a link, as in Hugging Face's cache
        if file.is_absolute() or ".." in file.parts:
            raise NotSupportedError(f"{MODULES}: {name} is outside of the model's folder")
        try:
            return json.loads((self.path / file).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise NotSupportedError(f"{name} cannot be read: {error}") from None

    def mapping(self, name: str) -> dict[str, Any]:
        """Return the JSON object of a file, {} if there is none."""
        found = self.read(name)
        if not isinstance(found, dict):
            raise NotSupportedError(f"{name} has no JSON object")
        return found

    @cached_property
    def config(self) -> dict[str, Any]:
        """The model's own `config.json`."""
        return self.mapping("config.json")

    @cached_property
    def saved(self) -> dict[str, Any]:
        """The file of sentence-transformers about the whole; it counts together with modules only."""
        return self.mapping("config_sentence_transformers.json") if self.modules else {}

    @cached_property
    def modules(self) -> list[Module]:
        """The steps from a text to its embedding, in order; [] if the folder does not say."""
        try:
            found = [(str(module["type"]), str(module["path"])) for module in self.read(MODULES)]
        except (TypeError, KeyError):
            raise NotSupportedError(f"{MODULES} is no list of modules with a type and a path") from None
        for kind, _ in found:
            if not kind.startswith(_LIBRARY):
                raise NotSupportedError(f"{MODULES}: {kind} is no module of sentence-transformers itself")
        return [Module(kind.rpartition(".")[2], place) for kind, place in found]

    @cached_property
    def transformer(self) -> dict[str, Any]:
        """The configuration of the first module, whatever the name of its file."""
        names = sorted(file.name for file in self.path.glob("sentence_*_config.json"))
        found = self.mapping(names[0]) if names else {}
        other = [key for key, value in found.items() if value and key not in _OF_TRANSFORMER]
        if other:
            raise NotSupportedError(f"{names[0]}: {other[0]} is not supported")
        return found
