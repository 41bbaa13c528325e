"""``empty``: a cell that computes nothing: measures and tests the overhead of runners."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from naq.errors import OptionError
from naq_paper.measurements.base import Context, register_measurement


@register_measurement("empty")
def empty(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Sleep ``seconds``, then return ``number``; fail with ``error`` if it is given."""
    time.sleep(float(config.get("seconds", 0.0)))
    if config.get("error"):
        raise OptionError(str(config["error"]))
    return {"number": config.get("number", 0)}
