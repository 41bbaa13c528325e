"""Names and values that people give: options of methods, checked, and things by name, imported when they are used."""

from __future__ import annotations

import difflib
import math
import numbers
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from naq.errors import OptionError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Value = bool | int | float | str
Default = TypeVar("Default", bound=Value)
Item = TypeVar("Item")


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The likeliest of the known names, or else ``otherwise``, by default all of them: the end of an error message."""
    known = sorted(known)
    if close := difflib.get_close_matches(name, known, n=3, cutoff=0.5):
        return f"did you mean {' or '.join(close)}?"
    return otherwise or f"expected one of {', '.join(known)}."


def merge_options(owner: str, defaults: Mapping[str, Value], given: Mapping[str, Any]) -> dict[str, Value]:
    """Defaults overridden by what is given; an unknown name or a value of the wrong type is an error."""
    merged = dict(defaults)
    for name, value in given.items():
        if name not in defaults:
            raise OptionError(
                f"{owner} has no option {name!r}; {did_you_mean(name, defaults) if defaults else 'it takes none.'}"
            )
        merged[name] = _convert(owner, name, defaults[name], value)
    return merged


def _convert(owner: str, name: str, default: Value, value: Any) -> Value:
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


def read_pairs(given: list[str], flag: str) -> dict[str, str]:
    """``["lr=1e-3"]`` as a dictionary."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise OptionError(f"{flag} is {text!r}; expected NAME=VALUE, e.g. {flag} lr=1e-3.")
        found[name.strip()] = value.strip()
    return found


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
    default: Default, *, more_than: float | None = None, at_least: float | None = None, below: float | None = None,
    at_most: float | None = None, choices: Collection[Value] = (),
) -> Default:  # fmt: skip
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
                raise OptionError(f"{what} {did_you_mean(str(value), map(str, choices))}")
        self.check_options()

    def check_options(self) -> None:
        """Raise an ``OptionError`` for options that contradict each other or do not fit the graph."""


def imported(path: str) -> Any:
    """The object that ``module:name`` says, or the module itself."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """What other installed packages add to a group of entry points, by name."""
    from importlib.metadata import entry_points  # slow to import

    return {point.name: point for point in entry_points(group=group)}


class Registry(Mapping[str, Item]):
    """Items of one kind by their ``name``; a mapping that imports an item when it is looked up.

    Args:
        what: one of them with its article, for messages: ``a learner``.
        items: the ones that are known, as ``module:name``.
        group: of entry points by which other packages add items.
        accepts: whether an item of the group is of this kind, where a group holds several kinds.
    """

    def __init__(
        self, what: str, items: Mapping[str, str] | None = None, *, group: str = "",
        accepts: Callable[[Any], bool] = lambda item: True,
    ) -> None:  # fmt: skip
        self.what, self.group, self._accepts = what, group, accepts
        self._paths = dict(items or {})
        self._items: dict[str, Item] = {}

    def register(self, item: Any) -> Any:
        """Makes an item known by its ``name``; also as a decorator."""
        path = f"{item.__module__}:{getattr(item, '__qualname__', '')}"
        if self._items.get(item.name, item) is not item or self._paths.get(item.name, path) != path:
            raise OptionError(f"{self.what} named {item.name!r} is registered already; choose another name.")
        self._items[item.name] = item
        return item

    def find(self, name: str) -> Item:
        """The item of this name, or an ``OptionError`` with the nearest names."""
        if name not in self:
            raise OptionError(f"there is no {self.what.split(' ', 1)[1]} {name!r}; {did_you_mean(str(name), self)}")
        return self[name]

    def __getitem__(self, name: str) -> Item:
        if name not in self._items:
            if name in self._paths:
                self._items[name] = imported(self._paths[name])
            else:
                self._items[name] = self._added()[name]
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items or name in self._paths or name in self._added()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._paths, *self._items, *self._added()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _added(self) -> dict[str, Item]:
        """What other packages add."""
        points = installed(self.group) if self.group else {}
        found = {name: point.load() for name, point in points.items() if name not in self._paths}
        return {name: item for name, item in found.items() if self._accepts(item)}


def on_first_use(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A ``__getattr__`` for a package that imports names from its modules, or ``module:name``, when they are used."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        path = names[name]
        value = imported(path if ":" in path else f"{package}.{path}:{name}")
        setattr(sys.modules[package], name, value)
        return value

    return find
