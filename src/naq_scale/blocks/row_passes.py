"""Passes over the rows of all nodes: what was decided so far is applied to each block, and sums or the rows themselves are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from naq.embedders.smoothing import ROUNDING, unit
from naq_scale.blocks.parts import Arrays, Parts, Work, stage
from naq_scale.blocks.pieces import Pieces
from naq_scale.tiles import new_mapped


class RowPasses:
    """Rows of all nodes and the steps that are applied to them; nothing is written before :meth:`kept`.

    Steps: ``centre`` (length one, minus the mean, length one), ``times`` (a matrix), ``unit``, ``add`` (the start, centred).
    """

    def __init__(
        self, parts: Parts, rows: Pieces, block: int, steps: list[str] | None = None, inputs: Mapping[str, Any] | None = None
    ) -> None:  # fmt: skip
        self._parts, self.rows, self.block = parts, rows, block
        self._steps, self._inputs = steps or [], dict(inputs or {})

    def then(self, step: str, array: np.ndarray | None = None, **more: Pieces) -> RowPasses:
        """The same with one more step."""
        given = {} if array is None else {f"{len(self._steps)}": array}
        return RowPasses(self._parts, self.rows, self.block, [*self._steps, step], {**self._inputs, **given, **more})

    def centred(self) -> RowPasses:
        """With the mean of the rows of length one subtracted, which takes a pass."""
        return self.then("centre", self.mean())

    def mean(self) -> np.ndarray:
        """(d,) float32 of the rows, each of length one."""
        return np.asarray(self._pass("sum").total() / self.rows.shape[0], dtype=np.float32)

    def gram(self) -> np.ndarray:
        """(d, d) the rows' products with each other."""
        return self._pass("gram").total()

    def kept(self) -> Pieces:
        """The rows as they are after all steps."""
        return self._pass("rows") if self._steps else self.rows

    def _pass(self, keep: str) -> Pieces:
        facts = {"block": self.block, "steps": self._steps, "keep": keep}
        return self._parts.by_rows("rows", self.rows.shape[0], facts, {"rows": self.rows, **self._inputs}, keep)


@stage("rows")
def _row_pass(work: Work, start: int, stop: int) -> Arrays:
    rows = work.inputs["rows"].rows(start, stop)
    for number, step in enumerate(work.facts["steps"]):
        rows = _stepped(work, step, f"{number}", rows, start, stop)
    keep = work.facts["keep"]
    if keep == "rows":
        return {"rows": rows}
    if keep == "sum":
        return {"sum": unit(rows).sum(axis=0, dtype=np.float64)[None]}
    part = torch.from_numpy(rows).double()
    return {"gram": (part.T @ part).numpy()[None]}


def _stepped(work: Work, step: str, name: str, rows: np.ndarray, start: int, stop: int) -> np.ndarray:
    if step == "unit":
        return unit(rows)
    array = work.array(name)
    if step == "centre":
        return _without(rows, array)
    if step == "add":
        return rows + _without(work.inputs["start"].rows(start, stop), array)
    return (torch.from_numpy(rows) @ torch.from_numpy(np.array(array)).float()).numpy()


def _without(rows: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """:func:`~naq.embedders.smoothing.centred`, the mean being known."""
    return unit(unit(rows) - mean, ROUNDING)


def write_rows(rows: Pieces, file: Path, block: int) -> None:
    """Write them as a .npy file."""
    n = rows.shape[0]
    out = new_mapped(file, rows.shape)
    for start in range(0, n, block):
        out[start : start + block] = rows.rows(start, start + block)
    out.flush()
