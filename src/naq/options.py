"""Options of methods: a dataclass beside the class; given values are checked against its defaults and ranges."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import ge, gt, le, lt
from typing import Any, ClassVar, TypeVar, cast

from naq.errors import OptionError

Value = bool | int | float | str
Default = TypeVar("Default", bound=Value)


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
    for kind in (int, float) if "_" not in text and text.isascii() else ():
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


def option(
    default: Default,
    *,
    more_than: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    choices: Collection[Value] = (),
) -> Default:
    """A field of ``Options``: its default and the values it may have.

    >>> @dataclass(frozen=True)
    ... class Options(Configurable.Options):
    ...     latent: int = option(256, more_than=0)  # width of the vectors
    ...     target: str = option("fresh", choices=("fresh", "copy"))
    >>> dict(Options(latent=64))
    {'latent': 64, 'target': 'fresh'}
    """
    bounds = ("more than", gt, more_than), ("at least", ge, at_least), ("below", lt, below), ("at most", le, at_most)
    limits = [bound for bound in bounds if bound[2] is not None]
    made: Any = field(default=default, metadata={"limits": limits, "choices": choices})
    return cast(Default, made)


class Configurable:
    """Something with a ``name`` and options: a learner, an embedder, a head, a perturbation.

    A subclass lists its options in a dataclass, each by :func:`option` with a comment::

        @dataclass(frozen=True)
        class Options(Configurable.Options):
            rounds: int = option(5, at_least=0)  # of soft k-means

        options: Options

    Attributes:
        options: the values in force, set by :meth:`configure`.
        defaults: every option with its default, in the order of ``Options``.
    """

    @dataclass(frozen=True)
    class Options:
        """Values by name, ``options.lr``, and as a mapping, ``dict(options)``."""

        def keys(self) -> list[str]:
            return [one.name for one in fields(self)]

        def __getitem__(self, name: str) -> Any:
            return getattr(self, name)

    name: ClassVar[str]
    summary: ClassVar[str]
    defaults: ClassVar[Mapping[str, Value]] = {}
    options: Any

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.defaults = {one.name: cast(Value, one.default) for one in fields(cls.Options)}

    def configure(self, given: Mapping[str, Any]) -> None:
        """Set ``options``: the defaults overridden by what is given, checked."""
        self.options = self.Options(**merge_options(self.name, self.defaults, given))
        for one in fields(self.Options):
            value, limits, choices = self.options[one.name], one.metadata.get("limits", ()), one.metadata.get("choices")
            what = f"option {one.name} of {self.name} is {value!r};"
            if not all(holds(value, limit) for _, holds, limit in limits):
                expected = " and ".join(f"{words} {limit:g}" for words, _, limit in limits)
                raise OptionError(f"{what} expected {expected}.")
            if choices and value not in choices:
                raise OptionError(f"{what} {nearest(str(value), map(str, choices))}")
        self.check_options()

    def check_options(self) -> None:
        """Raise an ``OptionError`` for options that contradict each other or do not fit the graph."""
