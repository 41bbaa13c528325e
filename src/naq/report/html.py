"""HTML as text: every word that comes from outside is escaped here, and nowhere is markup taken from data."""

from __future__ import annotations

import re
from urllib.parse import quote

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def text(value: object) -> str:
    """A value as text of an element or of an attribute in double quotes; what no document may hold is left out."""
    escaped = _FORBIDDEN.sub("", str(value)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace('"', "&quot;").replace("'", "&#39;")


def attributes(**values: object) -> str:
    """`` name="value"`` for each that is not None; ``class_`` is class, ``_`` is a hyphen, True is a bare name."""
    parts = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        shown = name.rstrip("_").replace("_", "-")
        parts.append(f" {shown}" if value is True else f' {shown}="{text(value)}"')
    return "".join(parts)


def tag(name: str, *children: str, **values: object) -> str:
    """An element; ``children`` are markup already."""
    return f"<{name}{attributes(**values)}>{''.join(children)}</{name}>"


def slug(name: str) -> str:
    """A name that may stand in ``id`` and in an address."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "x"


def data_address(content: str, kind: str) -> str:
    """A file as an address, so that the page alone is enough to save it."""
    return f"data:{kind};charset=utf-8,{quote(content)}"


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min``, ``1 h 12 min``, ``2 d 3 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h"


def shorten(words: str, most: int) -> str:
    """The first of the words, with an ellipsis, where there are more than ``most`` characters."""
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
