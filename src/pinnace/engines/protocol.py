"""What every engine gives: an executable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pinnace.types import Port

Array = npt.NDArray[np.generic]
State = list[Array]
"""The values that a model instance keeps between predictions; [] for most models."""


class Executable(Protocol):
    """A model compiled for one target. All methods may be called from any number of threads."""

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What `run` takes, in order."""

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What `run` gives, in order."""

    @property
    def info(self) -> Mapping[str, str]:
        """Facts for `Model.get_model_info`: user info of the file, engine, precision in use."""

    def new_state(self) -> State:
        """The initial values of what one model instance keeps between predictions."""

    def run(self, arrays: Sequence[Array], state: State) -> list[Array]:
        """Compute the outputs for `arrays` (C-contiguous, dtypes as `inputs` say; shapes that fit).

        `state` is read and replaced in place; a caller runs one request at a time on the same state.
        Raises `EngineError` where the engine fails.
        """

    def close(self) -> None:
        """Free what the engine holds. `run` must not be called after."""
