"""The one function that writes files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from naq.errors import DataError

NO_SPACE = "free some space or choose another folder"
"""Ends every sentence about a write that failed after it was begun: the disk's fault, not that of what was written."""


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Call ``write`` on a temporary file beside ``path``, then rename: a reader sees the old file or the new one."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp" + path.suffix[:20]
        )
    except (OSError, ValueError) as error:
        raise DataError(f"cannot write {path}: {_reason(error)}; choose a folder you may write to.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise DataError(f"cannot write {path}: {_reason(error)}; {NO_SPACE}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
