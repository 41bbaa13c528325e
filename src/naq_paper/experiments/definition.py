"""An experiment is data: a TOML file becomes the dataclass that its ``analysis`` names, key by key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from naq.errors import DataError
from naq.options import did_you_mean, imported

Made = TypeVar("Made")
ANALYSES = "naq_paper.experiments.analyses"
NAMES: dict[Any, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}


def read_definition(file: Path) -> dict[str, Any]:
    """The content of a file; an error names the file and, where TOML itself is wrong, the line."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{file} is not a readable TOML file: {error}.") from error


def make_experiment(data: Mapping[str, Any], file: Path) -> Any:
    """The experiment that the content of a file defines, under the file's name.

    ``analysis`` is ``module:Class`` of :mod:`naq_paper.experiments.analyses`; every other key is a field of that class.
    """
    given = {name: value for name, value in data.items() if name != "analysis"}
    module, _, kind = str(data.get("analysis", "")).partition(":")
    try:
        analysis = imported(f"{ANALYSES}.{module}:{kind}")
    except (ImportError, AttributeError, ValueError) as error:
        what = f"analysis is {data.get('analysis')!r}"
        raise DataError(f"{file}: {what}; expected module:Class, e.g. 'sweep:Sweep' ({error}).") from error
    return make_dataclass(analysis, {"name": file.stem, **given}, file)


def make_dataclass(kind: type[Made], data: Mapping[str, Any], file: Path, where: str = "") -> Made:
    """The dataclass with these fields; an error names the file and the key, which is ``where`` in it."""
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    for key in data:
        if key not in known:
            raise DataError(f"{file}: {where}{key} is not a key; {did_you_mean(key, known)}")
    for key, field in known.items():
        if key not in data and field.default is MISSING and field.default_factory is MISSING:
            raise DataError(f"{file}: the key {where}{key} is missing.")
    return kind(**{key: _value(hints[key], value, file, f"{where}{key}") for key, value in data.items()})


def _value(hint: Any, value: Any, file: Path, where: str) -> Any:
    """``value`` as the type of its field; a value that is not a table is the first field of a dataclass."""

    def wrong(expected: str) -> DataError:
        return DataError(f"{file}: {where} is {value!r}; expected {expected}.")

    if hint is Any:
        return value
    if isinstance(hint, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        if len(kinds) == 1:
            return _value(kinds[0], value, file, where)
        if not any(_is(kind, value) for kind in kinds):
            raise wrong(" or ".join(NAMES[kind] for kind in kinds))
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        table = value if isinstance(value, dict) else {fields(hint)[0].name: value}
        return make_dataclass(hint, table, file, f"{where}.")
    if get_origin(hint) in (tuple, Sequence):
        if not isinstance(value, list):
            raise wrong("a list")
        return tuple(_value(get_args(hint)[0], one, file, f"{where}[{i}]") for i, one in enumerate(value))
    if get_origin(hint) is Mapping:
        if not isinstance(value, dict):
            raise wrong("a table")
        return {key: _value(get_args(hint)[1], one, file, f"{where}.{key}") for key, one in value.items()}
    if not _is(hint, value):
        raise wrong(NAMES[hint])
    return value


def _is(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def fill_in(value: Any, known: Mapping[str, Any], where: str) -> Any:
    """``value`` with every text ``$name`` replaced by what is known under the name, inside tables too."""
    if isinstance(value, Mapping):
        return {key: fill_in(one, known, f"{where}.{key}") for key, one in value.items()}
    if isinstance(value, str) and value.startswith("$"):
        if value[1:] not in known:
            raise DataError(f"{where} is {value!r}; {did_you_mean(value, [f'${name}' for name in known])}")
        return known[value[1:]]
    return value
