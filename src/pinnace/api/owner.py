"""The base of public objects that own an engine."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Never, Self

from pinnace.errors import ArgumentTypeError
from pinnace.tensors.inputs import Inputs
from pinnace.tensors.tensor import Arrays, Outputs

if TYPE_CHECKING:
    from pinnace.serving.stats import Stats
    from pinnace.tensors.summary import Summary

_lock = threading.Lock()
_owners: weakref.WeakSet[EngineOwner] = weakref.WeakSet()


def owners() -> list[EngineOwner]:
    """Return the models of this process that exist."""
    with _lock:
        return list(_owners)


class EngineOwner(ABC):
    """An object with an engine: a `with` statement closes it; it can be neither copied nor pickled, hence
    not sent to another process.
    """

    _model_path: str

    def __new__(cls, *arguments: object, **options: object) -> Self:
        """Note the object for `owners`."""
        made = super().__new__(cls)
        with _lock:
            _owners.add(made)
        return made

    @property
    def model_name(self) -> str:
        """Name of the model file, or of the class for a model from bytes."""
        return os.path.basename(self._model_path) or type(self).__name__

    @abstractmethod
    def stats(self) -> Stats:
        """Return counts and latencies of predictions. Raises `ModelStateError` if there is no model."""

    @abstractmethod
    def predict(self, inputs: Inputs, *, timeout: float | None = None) -> Outputs:
        """Compute the outputs as tensors."""

    def __call__(self, inputs: Inputs, timeout: float | None = None) -> Arrays:
        """Compute the outputs as numpy arrays: `model(x)[0]` or `model({"x": x})["logits"]`.

        Inputs, `timeout` and errors are those of `predict`, whose results are tensors.
        """
        return Arrays(self.predict(inputs, timeout=timeout))

    @abstractmethod
    def close(self) -> None:
        """Wait for running predictions, fail the waiting ones, and free the model."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _summary(self) -> Summary:
        """Return what is shown of the model."""

    def __repr__(self) -> str:
        return self._summary().line()

    def _repr_html_(self) -> str:
        return self._summary().table()

    def __getstate__(self) -> Never:
        """Raise `ArgumentTypeError`."""
        raise ArgumentTypeError(
            f"a {type(self).__name__} can neither be copied nor sent to another process: build it there, "
            f"from the same file"
        )
