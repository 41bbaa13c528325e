"""How the numbers of the page were made: every cell once, packed small, unpacked by the page when somebody looks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from naq.report.html import counted, duration, shorten, tag, text
from naq.report.page import Made


class Cells:
    """All cells of a page. Values that many of them share (hashes, versions, options) are written once.

    A packed cell is [title, seed, data, code, versions, machine, seconds, finished, key, schema, values]: ``data`` to ``machine`` and
    ``values`` are paths in ``values``, ``schema`` is a place in ``schemas``, lists of option names.
    """

    def __init__(self, made: Iterable[Made]) -> None:
        self.place: dict[str, int] = {}
        self._values: list[Any] = []
        self._value_place: dict[str, int] = {}
        self._schemas: list[list[str]] = []
        self._packed: list[list[Any]] = []
        for cell in made:
            if cell.key not in self.place:
                self.place[cell.key] = len(self._packed)
                self._packed.append(self._pack(cell))

    def _pack(self, cell: Made) -> list[Any]:
        names = list(cell.config)
        if names not in self._schemas:
            self._schemas.append(names)
        shared = [self._value(v) for v in (cell.data, cell.code, dict(cell.versions), cell.machine)]
        values = [self._value(cell.config[name]) for name in names]
        own = [round(cell.seconds, 2), cell.finished, cell.key, self._schemas.index(names), values]
        return [cell.title, cell.seed, *shared, *own]

    def _value(self, value: Any) -> int:
        key = json.dumps(value, sort_keys=True, default=str)
        if key not in self._value_place:
            self._value_place[key] = len(self._values)
            self._values.append(value)
        return self._value_place[key]

    def script(self) -> str:
        """The block the page reads. ``<`` is written so that no text in it can end the block."""
        data = {"values": self._values, "schemas": self._schemas, "cells": self._packed}
        packed = json.dumps(data, separators=(",", ":"), ensure_ascii=False, default=str).replace("<", "\\u003c")
        return f'<script type="application/json" id="cells">{packed}</script>'


def made_block(made: Sequence[Made], cells: Cells) -> str:
    """A line that says what the section cost and belongs to, and the list of its cells, filled in when opened."""
    if not made:
        return ""
    line = [counted(len(made), "cell"), f"{duration(sum(cell.seconds for cell in made))} of computing"]
    line += _several("code", [cell.code for cell in made])
    line += _several("data", [cell.data for cell in made])
    paths = " ".join(str(cells.place[cell.key]) for cell in made)
    return tag(
        "details",
        tag("summary", "How these numbers were made: ", tag("span", " · ".join(line), class_="made-line")),
        tag("noscript", tag("p", "The list of cells needs JavaScript; the same is in the result files.")),
        class_="made",
        data_cells=paths,
    )


def _several(name: str, values: Sequence[str]) -> list[str]:
    """The values of a field, where they are few; their number where they are not."""
    different = [value for value in dict.fromkeys(values) if value]
    if not different:
        return []
    common = {value.rpartition(".")[0] for value in different}
    if len(different) > 1 and len(common) == 1 and "" not in common:
        different = list(common)  # the same code but for the part that belongs to each method
    if len(different) > 2:
        return [f"{len(different)} versions of {name}"]
    return [f"{name} " + ", ".join(tag("code", text(shorten(value, 24)), title=value) for value in different)]
