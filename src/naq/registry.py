"""Names of methods: each belongs to one class."""

from __future__ import annotations

from typing import Any, TypeVar

from naq.errors import OptionError

Kind = TypeVar("Kind", bound=type[Any])


def add(registry: dict[str, Any], kind: Kind, what: str) -> Kind:
    """Make a class known by its ``name``; ``what`` it is stands in the message where the name is taken."""
    if kind.name in registry:
        raise OptionError(f"{what} named {kind.name!r} is registered already; choose another name.")
    registry[kind.name] = kind
    return kind
