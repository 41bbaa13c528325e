"""Options of methods: defaults are data beside the class, given values are checked against them."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

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


def check_whole(name: str, value: Any, least: int = 1) -> int:
    """The value as an int, or an ``OptionError`` unless it is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise OptionError(f"{name} is {value!r}; expected a whole number of at least {least}.")
    return int(value)


def check_probability(**values: Any) -> None:
    """Raise an ``OptionError`` unless every value is at least 0 and below 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < 1:
            raise OptionError(f"{name} is {value!r}; expected a probability of at least 0 and below 1, e.g. 0.3.")


class Configurable:
    """Something with a ``name`` and options: a learner, an embedder, a head, a perturbation.

    Attributes:
        defaults: every option with its default; values that are given are checked against their types.
        switches: options that are left out of a run's configuration while they have their default, so that a method that gains one keeps its results.
        options: the values in force, set by :meth:`configure`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    defaults: ClassVar[Mapping[str, Value]] = {}
    switches: ClassVar[frozenset[str]] = frozenset()
    options: dict[str, Value]

    def configure(self, given: Mapping[str, Any]) -> None:
        """Set ``options``: the defaults overridden by what is given, checked."""
        self.options = merge_options(self.name, self.defaults, given)
        self.check_options()

    def check_options(self) -> None:
        """Raise an ``OptionError`` for options that are out of range or contradict each other; extend it, do not replace it."""

    def require_positive(self, *names: str) -> None:
        for name in names:
            if name in self.options and not float(self.options[name]) > 0:
                self._out_of_range(name, "more than 0")

    def require_at_least(self, name: str, least: float) -> None:
        if not float(self.options[name]) >= least:
            self._out_of_range(name, f"at least {least:g}")

    def require_share(self, *names: str) -> None:
        for name in names:
            if not 0 <= float(self.options[name]) < 1:
                self._out_of_range(name, "at least 0 and below 1")

    def require_choice(self, name: str, choices: Collection[str]) -> None:
        value = str(self.options[name])
        if value not in choices:
            raise OptionError(f"option {name} of {self.name} is {value!r}; {nearest(value, choices)}")

    def _out_of_range(self, name: str, expected: str) -> None:
        raise OptionError(f"option {name} of {self.name} is {self.options[name]!r}; expected {expected}.")
