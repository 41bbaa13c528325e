"""Skipped tests in one line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

NEEDS = {
    "chromium|browser": "Chromium (Debian: apt-get install chromium)",
    "playwright|could not import": "packages that are missing (make install)",
    "cuda device here$|no cuda|gpu": "a CUDA device",
    "shared": "the shared data (NAQ_SHARED_DATA: its folder)",
    "cores": "two cores (NUMBA_NUM_THREADS=2)",
}
"""What a reason for skipping asks for."""


def in_words(reasons: Iterable[str]) -> str:
    """How many tests were skipped, and what would let them run.

    >>> in_words(["Skipped: no CUDA device here", "Skipped: no Chromium found", "Skipped: needs a GPU"])
    'Skipped: 2 need a CUDA device; 1 needs Chromium (Debian: apt-get install chromium).'
    """
    found = Counter(
        next((need for asked, need in NEEDS.items() if re.search(asked, reason, re.I)), "something else (pytest -rs)")
        for reason in reasons
    )
    parts = [f"{count} need{'s' * (count == 1)} {need}" for need, count in found.most_common()]
    return f"Skipped: {'; '.join(parts)}."
