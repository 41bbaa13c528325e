"""Names of methods: each belongs to one class."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

from naq.errors import OptionError

Kind = TypeVar("Kind", bound=type[Any])


def add(registry: dict[str, Any], kind: Kind, what: str) -> Kind:
    """Make a class known by its ``name``; ``what`` it is stands in the message where the name is taken."""
    if kind.name in registry:
        raise OptionError(f"{what} named {kind.name!r} is registered already; choose another name.")
    registry[kind.name] = kind
    return kind


def discover(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that those which hold a method register it."""
    for module in sorted(found.name for found in iter_modules(path)):
        import_module(f"{package}.{module}")
