"""Which columns to use, as a person says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Choice:
    """Columns by what they are for; what is not named is detected.

    Args:
        source, target: the two ends of an edge.
        weight: a row with weight 0 is no edge; a negative one is an error. Graphs have no weights beyond that.
        id: names of nodes.
        label: classes; an empty cell is an unknown class.
        text, numeric, categorical: features of nodes. Where any feature is named, only those named are used.
        vector: columns of lists, prefixes of numbered columns (``v`` for v0, v1, ...), ``.npy`` files or arrays.
        header: whether the first row of a text file holds names; seen from its cells if None.
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    id: str | None = None
    label: str | None = None
    text: Sequence[str] = ()
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    vector: Sequence[Any] = ()
    header: bool | None = None

    @property
    def names_features(self) -> bool:
        return bool(self.text or self.numeric or self.categorical or self.vector)
