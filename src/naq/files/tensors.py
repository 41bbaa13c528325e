"""Arrays and facts about them in one safetensors file, with a checksum over both in its header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from naq import device
from naq.errors import DataError
from naq.files.disk import checksum_of_arrays, file_of, parse_json, write_atomically


def write_tensors(path: str | Path, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> str:
    """Write arrays, and facts as JSON in the header; the checksum of both comes back."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = json.dumps(dict(facts), allow_nan=False)
    flat = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    checksum = checksum_of_arrays(text, flat)

    def write(temporary: Path) -> None:
        try:
            save_file(flat, temporary, metadata={"facts": text, "checksum": checksum})
        except SafetensorError as error:  # a full disk is no OSError there
            raise OSError(str(error)) from error

    write_atomically(path, write)
    return checksum


def read_tensors(path: str | Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What :func:`write_tensors` wrote, once its checksum fits."""
    arrays, stored = _content(path, kind)
    text, checksum = stored.get("facts", "{}"), stored.get("checksum")
    if checksum is None or checksum != checksum_of_arrays(text, arrays):
        raise DataError(f"{path} is damaged: its content does not fit its checksum; make the {kind} again.")
    try:
        facts = parse_json(text)
        if not isinstance(facts, dict):
            raise ValueError("no object")
    except ValueError as error:
        raise DataError(f"{path} is no {kind}: its facts are no JSON ({error}).") from error
    return arrays, facts


def checksum_of(path: str | Path, kind: str) -> str:
    """The checksum of what the file holds now."""
    arrays, stored = _content(path, kind)
    return checksum_of_arrays(stored.get("facts", "{}"), arrays)


def _content(path: str | Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and header; whatever is wrong with the file is a ``DataError``."""
    from safetensors import SafetensorError, safe_open

    path = file_of(path, kind)
    device.require(path.stat().st_size, f"reading {path}", "use a larger machine", DataError)
    try:
        with safe_open(path, framework="numpy") as archive:
            return {name: archive.get_tensor(name) for name in archive.keys()}, archive.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(f"{path} is not a readable {kind} ({error}); it may be truncated: make it again.") from error
