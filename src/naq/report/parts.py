"""Small pieces of the page that several of its parts use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from naq.report.html import counted, tag, text

_AT_ONCE = 4
"""A list of at most this many lines is open from the start."""


def command_box(command: str, title: str) -> str:
    """A command that can be copied; the button appears where there is JavaScript."""
    button = '<button class="copy" type="button" hidden>Copy</button>'
    lines = command.splitlines(keepends=True)
    code = tag("code", *(tag("span", _unbroken(line)) for line in lines))
    box = tag("div", tag("pre", code, tabindex="0"), button, class_="command-line")
    return tag("div", tag("p", text(title)), box, class_="command")


def _unbroken(line: str) -> str:
    """Words with hyphens in elements of their own, so that no line ends after ``--``."""
    parts = re.split(r"(\S*-\S*)", line)
    return "".join(tag("b", text(part)) if i % 2 else text(part) for i, part in enumerate(parts))


def listing(kind: str, lines: Sequence[str], one: str, many: str) -> str:
    """What failed or is missing: its number, and each on a line."""
    if not lines:
        return ""
    items = tag("ul", *(tag("li", text(line)) for line in lines))
    return tag(
        "details",
        tag("summary", counted(len(lines), one, many)),
        items,
        class_=f"lacking {kind}",
        open=len(lines) <= _AT_ONCE,
    )
