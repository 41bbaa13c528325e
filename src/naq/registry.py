"""Names: methods, heads, experiments, measurements and perturbations are each found by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from threading import RLock
from typing import Any, TypeVar

from naq.errors import OptionError
from naq.options import nearest

Item = TypeVar("Item")


class Registry(Mapping[str, Item]):
    """Items of one kind by their ``name``; a mapping.

    Args:
        what: one of them with its article, for messages: ``a learner``.
        package: every module of it is imported at the first look, so that each registers what it holds: adding an item is adding a file.
    """

    def __init__(self, what: str, package: str = "") -> None:
        self.what, self.package = what, package
        self._items: dict[str, Item] = {}
        self._state = "new" if package else "complete"
        self._lock = RLock()

    def register(self, item: Any) -> Any:
        """Decorator: makes an item known by its ``name``."""
        if self._items.get(item.name, item) is not item:
            raise OptionError(f"{self.what} named {item.name!r} is registered already; choose another name.")
        self._items[item.name] = item
        return item

    def find(self, name: str) -> Item:
        """The item of this name, or an ``OptionError`` with the nearest names."""
        if name not in self:
            raise OptionError(f"there is no {self.what.split(' ', 1)[1]} {name!r}; {nearest(str(name), self)}")
        return self[name]

    def discover(self) -> None:
        """Import every module of the package, also one that was just added."""
        for module in sorted(found.name for found in iter_modules(import_module(self.package).__path__)):
            import_module(f"{self.package}.{module}")

    def _known(self) -> dict[str, Item]:
        if self._state != "complete":
            with (
                self._lock
            ):  # another thread waits until everything is there; this one may look while modules are imported
                if self._state == "new":
                    self._state = "importing"
                    try:
                        self.discover()
                    except BaseException:
                        self._state = "new"
                        raise
                    self._state = "complete"
        return self._items

    def __getitem__(self, name: str) -> Item:
        return self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())
