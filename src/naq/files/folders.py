"""Folders of the user's that the package writes to."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """``$NAQ_CACHE``, or ``naq`` in the user's cache folder; None for a user who has no home."""
    given = os.environ.get("NAQ_CACHE") or os.environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given) / ("" if os.environ.get("NAQ_CACHE") else "naq")
    try:
        return Path.home() / ".cache" / "naq"
    except RuntimeError:
        return None
