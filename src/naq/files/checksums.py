"""The one checksum of everything we write: BLAKE2b of the content, 16 bytes.

It finds accidents, of the disk or of an editor. It is no signature: whoever changes a file on purpose can compute a new one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

SIZE = 16


def checksum_of_bytes(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=SIZE).hexdigest()


def checksum_of_json(value: Any) -> str:
    """Of JSON values: spaces and the order of keys do not count."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return checksum_of_bytes(text.encode())


def checksum_of_arrays(header: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Of a text and of named arrays, with their types and shapes."""
    digest = hashlib.blake2b(header.encode(), digest_size=SIZE)
    for name in sorted(arrays):
        digest.update(f"{name}:{arrays[name].dtype}:{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()
