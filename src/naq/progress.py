"""How long work tells how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Listener = Callable[[str, Mapping[str, Any]], None]
"""Called with (phase, facts) as work goes on: ``("train", {"done": 16, "total": 160})``; for progress displays."""
