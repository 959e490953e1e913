"""Models that were converted in parts, and executors that run some of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pinnace.api.model import Model
from pinnace.errors import (
    ArgumentTypeError,
    DataMismatchError,
    ModelFormatError,
    ModelStateError,
    NotSupportedError,
)
from pinnace.options.arguments import check_type, path
from pinnace.options.context import Context
from pinnace.tensors.tensor import Outputs, Tensor, TensorMeta
from pinnace.types import Array, ModelType

_KEY = "pinnace.split"


class ModelExecutor:
    """Runs some parts of a model, one after the other; `MultiModelRunner.get_model_executor` makes it."""

    def __init__(self, executor: tuple[Sequence[Model], Sequence[str], Sequence[str]] | None = None) -> None:
        """Take the parts, and the names of the inputs and outputs. Without, the executor can do nothing."""
        self._parts = executor

    def get_inputs(self) -> list[Tensor]:
        """Return new tensors for the inputs, in order and without data.

        They are called after the nodes that compute them in the whole model, or like its inputs.
        """
        models, inputs, _ = self._built()
        found = {tensor.name: tensor for model in models for tensor in model.get_inputs()}
        return [found[name] for name in inputs]

    def get_outputs(self) -> list[TensorMeta]:
        """Return what is arrays of the outputs, in order."""
        models, _, outputs = self._built()
        found = {meta.name: meta for model in models for meta in model.get_outputs()}
        return [found[name] for name in outputs]

    def predict(self, inputs: Sequence[Tensor | Array], outputs: list[Tensor] | None = None) -> list[Tensor]:
        """Compute the outputs.

        Tensors are taken by name, arrays of numpy, and tensors without a name, in the order of `get_inputs`.
        `outputs` may be a list of tensors to fill. Raises `ArgumentTypeError` for other types,
        `DataMismatchError` if an input is missing or does not fit, and as `Model.predict`.
        """
        models, names, wanted = self._built()
        arrays = _named(inputs, names)
        if missing := [name for name in names if name not in arrays]:
            raise DataMismatchError(f"predict failed! Input {missing[0]!r} is missing")
        for model in models:
            needed = [tensor.name for tensor in model.get_inputs()]
            results = model.predict([arrays[name] for name in needed])
            arrays |= {tensor.name: tensor for tensor in results if tensor.name not in names}
        found = [arrays[name] for name in wanted]
        if outputs is None:
            return Outputs(found)
        check_type("outputs", outputs, list)
        if outputs and len(outputs) != len(found):
            raise DataMismatchError(
                f"the executor has {len(found)} outputs, but predict was given {len(outputs)}"
            )
        for index, tensor in enumerate(outputs):
            if not isinstance(tensor, Tensor):
                raise ArgumentTypeError(
                    f"outputs element must be Tensor, but got {type(tensor)} at index {index}."
                )
            tensor.set_data_from_numpy(found[index].get_data_to_numpy())
        outputs += found[len(outputs) :]
        return outputs

    def _built(self) -> tuple[Sequence[Model], Sequence[str], Sequence[str]]:
        if self._parts is None:
            raise ModelStateError(
                "the executor has no model: MultiModelRunner.get_model_executor makes executors"
            )
        return self._parts


def _named(inputs: object, names: Sequence[str]) -> dict[str, Any]:
    """Return inputs by name."""
    import numpy as np

    if not isinstance(inputs, list | tuple):
        raise ArgumentTypeError(f"inputs must be list or tuple, but got {type(inputs)}.")
    if len(inputs) > len(names):
        raise DataMismatchError(f"the executor has {len(names)} inputs, but got {len(inputs)}")
    arrays = {}
    for name, given in zip(names, inputs, strict=False):
        if not isinstance(given, Tensor | np.ndarray):
            raise ArgumentTypeError("inputs element must be Tensor, or numpy.")
        arrays[(given.name or name) if isinstance(given, Tensor) else name] = given
    return arrays


class MultiModelRunner:
    """A model that the converter wrote in parts, by `[SplitGraph] split_node_name`.

    There is an executor for each pair of inputs and outputs of that option.
    """

    def __init__(self) -> None:
        self._executors: list[ModelExecutor] = []

    def build_from_file(
        self,
        model_path: str | os.PathLike[str],
        model_type: ModelType,
        context: Context | None = None,
        config_path: str | os.PathLike[str] = "",
        config_dict: Mapping[str, object] | None = None,
    ) -> None:
        """Build all parts of the model at `model_path`, whose files are beside it.

        The arguments are those of `Model.build_from_file`, which says what it raises; `model_type` must be
        MINDIR. A model that was not written in parts raises `ModelFormatError`.
        """
        file = path("model_path", model_path)
        check_type("model_type", model_type, ModelType)
        if context is not None:
            check_type("context", context, Context)
        if not os.path.exists(file):
            raise ModelFormatError(f"build_from_file failed, model_path does not exist! ({file})")
        if model_type is not ModelType.MINDIR:
            raise NotSupportedError("build_from_file failed, model_type only support MINDIR!")
        files, executors = _split(file)
        models = [Model() for _ in files]
        for model, part in zip(models, files, strict=True):
            model.build_from_file(part, model_type, context, config_path, config_dict)
        made = []
        for one in executors:
            first, last = one["parts"]
            made.append(ModelExecutor((models[first : last + 1], one["inputs"], one["outputs"])))
        try:
            for executor in made:
                executor.get_inputs(), executor.get_outputs()
        except KeyError as error:
            raise ModelFormatError(
                f"{file}: its parts have no tensor {error}, which an executor needs"
            ) from None
        self._executors = made

    def get_model_executor(self) -> list[ModelExecutor]:
        """Return the executors, in the order of the pairs; none before the build."""
        return list(self._executors)


def _split(file: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the files of a model's parts, and its executors. Raises ModelFormatError."""
    from pinnace import formats
    from pinnace.program import Program
    from pinnace.weights.source import Source

    graph = formats.read(Source.of_file(file), ModelType.MINDIR)
    described = graph.user_info.get(_KEY, "") if isinstance(graph, Program) else ""
    if not described:
        raise ModelFormatError(
            f"{file}: the model has no parts: convert it with [SplitGraph] split_node_name, or use Model"
        )
    try:
        split = json.loads(described)
        names = [str(name) for name in split["files"]]
        executors = [
            {key: [*map(int if key == "parts" else str, one[key])] for key in ("parts", "inputs", "outputs")}
            for one in split["executors"]
        ]
        ranges: list[list[Any]] = [one["parts"] for one in executors]
        inside = all(len(p) == 2 and 0 <= p[0] <= p[1] < len(names) for p in ranges)
    except (ValueError, KeyError, TypeError):
        inside, names = False, []
    if not inside or any(os.path.basename(name) != name for name in names):
        raise ModelFormatError(f"{file}: what it says of its parts is damaged ({_KEY} of its user info)")
    return [os.path.join(os.path.dirname(file), name) for name in names], executors
