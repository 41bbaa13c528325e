"""Options of methods: defaults are data beside the class, given values are checked against them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from naq.errors import OptionError

Value = bool | int | float | str


def nearest(name: str, known: Iterable[str]) -> str:
    """The known names, the likeliest first: the end of an error message."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"expected one of {', '.join(known)}."


def merge_options(owner: str, defaults: Mapping[str, Value], given: Mapping[str, Any]) -> dict[str, Value]:
    """Defaults overridden by what is given; an unknown name or a value of the wrong type is an error."""
    merged = dict(defaults)
    for name, value in given.items():
        if name not in defaults:
            raise OptionError(
                f"{owner} has no option {name!r}; {nearest(name, defaults) if defaults else 'it takes none.'}"
            )
        merged[name] = _converted(owner, name, defaults[name], value)
    return merged


def _converted(owner: str, name: str, default: Value, value: Any) -> Value:
    kind = type(default)
    if isinstance(value, str) and kind is not str:
        value = parse_value(value)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind or (isinstance(value, float) and not math.isfinite(value)):
        raise OptionError(f"option {name} of {owner} is {value!r}; expected {kind.__name__}, e.g. {default!r}.")
    return value


def parse_value(text: str) -> Value:
    """``true``/``false``, a whole number, a number, or the text itself."""
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
