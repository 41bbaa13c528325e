"""Things by name: written as ``module:name`` strings that are imported when they are used, so that looking up one imports one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from naq.errors import OptionError
from naq.options import nearest

Item = TypeVar("Item")


def imported(path: str) -> Any:
    """The object that ``module:name`` says, or the module itself."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """What other installed packages add to a group of entry points, by name."""
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
        self,
        what: str,
        items: Mapping[str, str] | None = None,
        *,
        group: str = "",
        accepts: Callable[[Any], bool] = lambda item: True,
    ) -> None:
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
            raise OptionError(f"there is no {self.what.split(' ', 1)[1]} {name!r}; {nearest(str(name), self)}")
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
    """A ``__getattr__`` for a package: each name is imported when it is used, from a module of the package or ``module:name``."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        path = names[name]
        value = imported(path if ":" in path else f"{package}.{path}:{name}")
        setattr(sys.modules[package], name, value)
        return value

    return find
