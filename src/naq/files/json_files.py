"""JSON files, plain or with a seal: the checksum of what they hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from naq.errors import DataError
from naq.files.checksums import checksum_of_json
from naq.files.reading import read_bytes
from naq.files.writing import write_atomically

SEAL = "checksum"


def write_json(path: str | Path, value: Any) -> Path:
    """Write ``value`` as indented JSON, atomically; NaN is an error."""
    text = json.dumps(value, indent=2, sort_keys=False, allow_nan=False) + "\n"

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    return write_atomically(path, write)


def read_json(path: str | Path) -> Any:
    """Read JSON, with one clear sentence if it is absent or damaged."""
    content = read_bytes(path, "JSON file")
    try:
        return parse_json(content)
    except ValueError as error:
        raise DataError(f"{path} is not readable JSON ({error}); delete it and make it again.") from error


def parse_json(content: bytes | str) -> Any:
    """JSON values; a ``ValueError`` for anything else, for NaN, for text that is not UTF-8 and for brackets too deep."""
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("its brackets are too deep") from error


def _no_number(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """``value`` with the checksum of all its other entries."""
    content = {name: each for name, each in value.items() if name != SEAL}
    return {**content, SEAL: checksum_of_json(content)}


def verify_seal(value: Any, *, unsealed: bool = False) -> dict[str, Any]:
    """The entries without the checksum, once it fits them.

    Args:
        unsealed: whether a value without a checksum is accepted, as earlier versions wrote it.
    """
    if not isinstance(value, dict):
        raise DataError("it holds no JSON object.")
    content = {name: each for name, each in value.items() if name != SEAL}
    if SEAL not in value:
        if not unsealed:
            raise DataError("it has no checksum.")
        return content
    try:
        fits = value[SEAL] == checksum_of_json(content)
    except (ValueError, RecursionError):  # numbers or brackets that no writer of ours makes
        fits = False
    if not fits:
        raise DataError("its content does not fit its checksum.")
    return content


def write_sealed(path: str | Path, value: Mapping[str, Any]) -> Path:
    """Write ``value`` as JSON with its checksum."""
    return write_json(path, sealed(value))


def read_sealed(path: str | Path, first: int = 2) -> dict[str, Any]:
    """What :func:`write_sealed` wrote.

    Args:
        first: the first ``format`` that has a checksum; a file of an earlier one, or of none, is read without.
    """
    value = read_json(path)
    try:
        old = isinstance(value, dict) and not _is_number(value.get("format", 0), first)
        return verify_seal(value, unsealed=old)
    except DataError as error:
        raise DataError(f"{path} is damaged: {error}") from error


def _is_number(found: Any, least: int) -> bool:
    """Whether this is a format from ``least`` on; what is no number is none of the earlier ones."""
    return not isinstance(found, int) or isinstance(found, bool) or found >= least
