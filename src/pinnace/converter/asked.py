"""The sections of a configuration that a conversion reads: quantization, parts, shapes for Ascend devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pinnace.converter.convert import Conversion
from pinnace.converter.sections import Sections, quantization
from pinnace.converter.splitting import taken
from pinnace.errors import ConfigError
from pinnace.options.context import Context
from pinnace.options.effects import FilledContext
from pinnace.options.setting import given
from pinnace.options.settings import Settings
from pinnace.options.table import SECTIONS
from pinnace.shapes import named_shapes

_TAKEN = tuple(f"ascend.{name}" for name in ("input_shape", "dynamic_dims", "output_type"))
"""Attributes of a context that decide what is in a converted file."""


def configured(options: Conversion, sections: Sections, device: str, name: str) -> Conversion:
    """Return the choices of a conversion with those of a configuration, which messages call `name`.

    The shapes and sizes that an Ascend device is given are read for that device only. Raises `ConfigError`
    for wrong values, and for shapes that contradict `options`.
    """
    sections = dict(sections)
    options = replace(options, split=taken(sections))
    known = {title.lower(): section.kind for title, section in SECTIONS.items()}
    of_device = {title: values for title, values in sections.items() if known.get(title.lower()) == "ascend"}
    rest = {title: values for title, values in sections.items() if title not in of_device}
    options = replace(options, quantize=quantization(rest))
    if not of_device:
        return options
    if device != "Ascend":
        titles = ", ".join(f"[{title}]" for title in of_device)
        note = f"{titles}: without effect on the file; optimize=ascend_oriented reads the shapes in it"
        return replace(options, notes=(*options.notes, note))
    return _for_ascend(options, Settings.load(options=of_device, name=name))


def _for_ascend(options: Conversion, settings: Settings) -> Conversion:
    filled, idle = FilledContext(Context()), []
    for title in reversed([title for title in SECTIONS if title in settings.sections]):
        for key, value in settings.sections[title].items():
            option, called = SECTIONS[title].option(key), f"[{title}] {key}"
            if option is None:  # unknown; the reader has warned
                continue
            why = filled.fill(option, value, called) if option.fills in _TAKEN else ""
            if why or option.fills not in _TAKEN:
                idle.append(f"{called} ({why})" if why else called)
    shape, dims, option_of, kind = (
        str(given(filled.context.ascend, what) or "")
        for what in ("input_shape", "dynamic_dims", "dynamic_dims_option", "output_type")
    )
    notes = options.notes
    if idle:
        why = "without effect on the file: give it where the model is built"
        notes = (*notes, f"{', '.join(idle)}: {why}")
    return replace(
        options,
        input_shape=_together(shape, options.input_shape),
        dynamic_dims=dims,
        dynamic_dims_option=option_of,
        output_type=kind,
        notes=notes,
    )


def _together(configuration: str, flag: str) -> str:
    """Return the shapes of a configuration, then those that only a flag has. Raises `ConfigError`."""
    own, others = named_shapes(configuration), named_shapes(flag)
    for name, shape in others.items():
        if own.get(name, shape) != shape:
            raise ConfigError(
                f"input {name!r} is {list(own[name])} in the configuration's input_shape, and {list(shape)} "
                f"in that of the command: give one of them"
            )
    return _written({**own, **others})


def _written(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ";".join(f"{name}:{','.join(map(str, shape))}" for name, shape in shapes.items())
