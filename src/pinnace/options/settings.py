"""Settings of a build, from an .ini file, a dict, or both.

`pinnace.options.table` lists the sections and keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pinnace.errors import ArgumentTypeError, ConfigError, did_you_mean, warn
from pinnace.options.arguments import check_sections, check_type
from pinnace.options.table import AFTER, KEEPS, SECTIONS
from pinnace.options.values import Words

if TYPE_CHECKING:
    import configparser

_FLAT = {
    "pids": ("ascend_context", "shareable_weight_pid_list"),
    "shared_mem_handle": ("ascend_context", "shareable_weight_mem_handle"),
}
"""Keys that may be given without a section, and their sections."""

_PLAN_TYPES = ("float32", "float16")


class Settings(NamedTuple):
    """Options by section and key, checked. `Settings()` is empty.

    `folder` is that of the .ini file, "" if there is none.
    """

    sections: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    folder: str = ""

    @classmethod
    def load(
        cls, path: str = "", options: Mapping[str, object] | None = None, name: str = "config"
    ) -> Settings:
        """Read the .ini file at `path` ("" for none) and override it with `options`.

        `options` is {section: {key: value}} of strings, and is called `name` in messages; the keys `pids` and
        `shared_mem_handle` may be given without a section. Quotes around values are removed. Raises
        `ConfigError` for a file that cannot be read and for an invalid value, `ArgumentTypeError` for other
        types; warns of unknown sections and keys.
        """
        sources = [(path, sections_of(path))] if path else []
        if options:
            sources.append((name, _nested(options, name)))
        combined: dict[str, dict[str, str]] = {}
        for origin, sections in sources:
            for section, values in _normalized(origin, sections).items():
                _check(origin, section, values)
                combined.setdefault(section, {}).update(values)
        return cls(combined, os.path.dirname(path))

    def get(self, section: str, key: str, default: str = "") -> str:
        return self.sections.get(section, {}).get(key, default)

    @property
    def keep(self) -> str:
        """`[ms_cache] keep`, else PINNACE_CACHE_KEEP, else "after". Raises ConfigError for another value."""
        kept = self.get("ms_cache", "keep") or os.environ.get("PINNACE_CACHE_KEEP") or AFTER
        return Words(KEEPS).read("PINNACE_CACHE_KEEP", kept)

    def uncached(self) -> Settings:
        """Return these options with the compile cache off."""
        return Settings({**self.sections, "ms_cache": {"serialize_path": "off"}}, self.folder)

    def path(self, path: str) -> Path:
        """Return a path as given, or relative to the folder of the .ini file if there is none as given."""
        beside = Path(self.folder, path)
        return beside if beside.exists() and not Path(path).exists() else Path(path)

    def number(self, section: str, key: str) -> int:
        return int(self.get(section, key) or 0)

    @property
    def flat(self) -> tuple[tuple[str, str, str], ...]:
        """All options as (section, key, value)."""
        return tuple((s, key, value) for s, values in self.sections.items() for key, value in values.items())

    @property
    def precision_plan(self) -> dict[str, str]:
        """Element types ("float16" or "float32") by node name, of `[execution_plan]`."""
        plan = self.sections.get("execution_plan", {})
        return {node: kind for node, value in plan.items() if (kind := _plan_type(value))}

    @property
    def variable_weights(self) -> tuple[str, ...]:
        """Names of the exchangeable weights, one per line in the file `variable_weights_file`.

        The option belongs to `[ascend_context]`, as in MindSpore Lite, or to `[common_context]`. A relative
        path that does not exist in the working directory is tried in the folder of the .ini file. Without a
        file, `variable_weights_list` has the names, separated by commas. Raises ConfigError, also if two of
        these options are given and differ.
        """
        given = {
            f"[{section}] {key}": value
            for key in (_VARIABLE_WEIGHTS, _VARIABLE_LIST)
            for section in _VARIABLE_SECTIONS
            if (value := self.get(section, key))
        }
        if len(set(given.values())) > 1:
            raise ConfigError(f"{' and '.join(given)} name weights to exchange: leave one of them out")
        option, value = next(iter(given.items()), ("", ""))
        if option.endswith(_VARIABLE_WEIGHTS):
            return self._named_in(value)
        names = tuple(dict.fromkeys(filter(None, map(str.strip, value.split(",")))))
        if option and not names:
            raise ConfigError(f"{option} names no weights: separate names by commas")
        return names

    def _named_in(self, path: str) -> tuple[str, ...]:
        path = str(self.path(path))
        lines: dict[str, int] = {}
        for number, line in enumerate(_text(path, _VARIABLE_WEIGHTS).splitlines(), 1):
            name = _weight_of(line.strip(), f"{path}:{number}")
            if name in lines:
                raise ConfigError(f"{path}:{number}: {name!r} is in line {lines[name]} already")
            if name:
                lines[name] = number
        if not lines:
            raise ConfigError(f"{path}: {_VARIABLE_WEIGHTS} names no weights: write one name a line")
        return tuple(lines)


def _weight_of(line: str, where: str) -> str:
    """Return the weight that a line names: NAME or, as mindspore_lite's converter has it, NAME:SHAPE;NODE."""
    found = _NODE_LINE.match(line)
    if found is None:
        return line
    name, node = found.groups()
    if any(part in name for part in _ADAPTER):
        raise ConfigError(
            f"{where}: {name!r} is a matrix to be inserted at {node!r}, which Pinnace does not do: leave the "
            "line out, and call apply_lora with the adapter's file"
        )
    return name


_NODE_LINE = re.compile(r"(.+?):\(?\d+(?:\s*,\s*\d+)*,?\)?;(.+)")
_ADAPTER = ("lora_up", ".up.", "lora_down", ".down.", "alpha")
"""Parts of the names of LoRA's matrices."""
_VARIABLE_WEIGHTS, _VARIABLE_LIST = "variable_weights_file", "variable_weights_list"
_VARIABLE_SECTIONS = ("ascend_context", "acl_option_cfg_param", "common_context")


def _text(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read {what} {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file, byte {error.start} is not UTF-8") from None


def sections_of(path: str) -> dict[str, dict[str, str]]:
    """Return the sections of an .ini file as they are. Raises `ConfigError` if it cannot be read."""
    import configparser  # for files only

    parser = configparser.ConfigParser(
        delimiters=("=",), comment_prefixes=("#", ";"), interpolation=None, default_section="\0"
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    text = _text(path, "configuration file")
    try:
        # MindSpore Lite trims lines; otherwise an indented key would continue the previous one.
        parser.read_string("\n".join(line.strip() for line in text.split("\n")), source=path)
    except configparser.Error as error:
        raise ConfigError(_place(path, error)) from None
    return {section: dict(parser[section]) for section in parser.sections()}


def _place(path: str, error: configparser.Error) -> str:
    """Describe the place of a syntax error in one line."""
    import configparser

    match error:
        case configparser.DuplicateSectionError():
            return f"{path}:{error.lineno}: section [{error.section}] is given twice"
        case configparser.DuplicateOptionError():
            return f"{path}:{error.lineno}: key {error.option!r} is given twice in [{error.section}]"
        case configparser.MissingSectionHeaderError():
            return f"{path}:{error.lineno}: {error.line.strip()!r} is before the first [section]"
        case configparser.ParsingError():
            line, _ = error.errors[0]
            return f"{path}:{line}: the line is neither [section] nor key=value"
        case _:
            return f"{path}: {error}"


def _normalized(origin: str, sections: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return sections with the table's spelling of names, and values without quotes.

    Raises `ConfigError` for a key that is given twice in spellings that differ in case.
    """
    normalized: dict[str, dict[str, str]] = {}
    for name, values in sections.items():
        section = _spelled(name, [*SECTIONS, *normalized])
        keys = SECTIONS[section].keys if section in SECTIONS else ()
        clean = normalized.setdefault(section, {})
        for given, value in values.items():
            key = _spelled(given, keys)
            if key in clean:
                raise ConfigError(f"{origin}: key {key!r} is given twice in [{section}], but for its case")
            clean[key] = _unquote(value)
    return normalized


def _nested(options: Mapping[str, object], name: str) -> dict[str, dict[str, str]]:
    """Move keys without a section to theirs, and check all types."""
    check_type(name, options, dict)
    nested: dict[str, Any] = {}
    for key, value in options.items():
        if key in _FLAT and isinstance(value, str | int):
            section, option = _FLAT[key]
            _add(nested, section, {option: str(value)}, name)
        elif key in _FLAT and not isinstance(value, dict):
            raise ArgumentTypeError(f"{name}[{key!r}] must be str or int, but got {type(value)}.")
        elif isinstance(value, dict):
            _add(nested, key, value, name)
        else:
            nested[key] = value
    check_sections(name, nested)
    return nested


def _add(nested: dict[str, Any], section: str, values: Mapping[str, Any], name: str) -> None:
    """Add values to a section. Raises `ConfigError` for a key that it has."""
    there = check_type(f"{name}_value", nested.setdefault(section, {}), dict)
    twice = [key for key in values if key in there]
    if twice:
        raise ConfigError(f"{name}: key {twice[0]!r} of [{section}] is given twice, once without the section")
    there.update(values)


def _check(origin: str, section: str, values: Mapping[str, str]) -> None:
    if section not in SECTIONS:
        warn(f"{origin}: unknown section [{section}] is ignored{did_you_mean(section, SECTIONS)}")
        return
    if section == "execution_plan":
        _check_plan(origin, values)
    table = SECTIONS[section]
    for key, value in values.items():
        option = table.option(key)
        if option is None:
            warn(f"{origin}: unknown key {key!r} in [{section}] is ignored{did_you_mean(key, table.keys)}")
        elif option.values is not None:
            option.values.read(f"{origin}: [{section}] {key}", value)


def _check_plan(origin: str, values: Mapping[str, str]) -> None:
    # mindspore_lite skips invalid lines of the plan; this warns of them.
    for node, value in values.items():
        if _plan_type(value) is None:
            warn(
                f"{origin}: [execution_plan] {node}={value} is ignored: "
                f"it must be data_type:float16 or data_type:float32"
            )


def _plan_type(value: str) -> str | None:
    key, _, kind = value.partition(":")
    kind = kind.strip().lower()
    return kind if key.strip().lower() == "data_type" and kind in _PLAN_TYPES else None


def _spelled(name: str, names: Iterable[str]) -> str:
    """Return a name in the table's spelling: MindSpore's pages write `model_File` and `serialize_Path`."""
    return next((word for word in names if word.lower() == name.lower()), name)


def _unquote(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
