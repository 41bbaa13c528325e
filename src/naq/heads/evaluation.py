"""The score of a head on a task set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from naq.errors import OptionError, TaskError
from naq.heads.base import Head, make_head
from naq.options import Value
from naq.tasks import Tasks

ROWS = 1 << 16
"""Rows of an embedding that are checked at once."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How well a head answered a task set.

    Attributes:
        accuracy: mean over tasks of the share of right answers, 0..1.
        ci95: half width of its 95 % interval, ``1.96 * std(ddof=0) / sqrt(count)``.
        per_task: (count,) accuracy of each task.
        queries: ``balanced`` where every class of a task has equally many, else ``unbalanced``.
    """

    accuracy: float
    ci95: float
    per_task: np.ndarray
    head: str
    transductive: bool
    options: dict[str, Value] = field(default_factory=dict)
    way: int = 0
    shot: int = 0
    part: str = "test"
    queries: str = "balanced"

    def __len__(self) -> int:
        return len(self.per_task)

    def __str__(self) -> str:
        words = "" if self.queries == "balanced" else f" with {self.queries} queries"
        return (
            f"{100 * self.accuracy:.2f} ± {100 * self.ci95:.2f} % "
            f"({self.way}-way {self.shot}-shot, {self.head}, {len(self)} tasks{words})"
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return {
            "accuracy": self.accuracy,
            "ci95": self.ci95,
            "count": len(self),
            "way": self.way,
            "shot": self.shot,
            "part": self.part,
            "queries": self.queries,
            "head": self.head,
            "transductive": self.transductive,
            "options": dict(self.options),
            "per_task": self.per_task.tolist(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evaluation:
        """The inverse of :meth:`to_json`."""
        values = {name: value for name, value in data.items() if name != "count"}
        return cls(**{**values, "per_task": np.asarray(data["per_task"], dtype=np.float64)})


def evaluate(
    embedding: np.ndarray | torch.Tensor, tasks: Tasks, head: str | Head = "logistic", **options: Any
) -> Evaluation:
    """Answer every task from the embedding and score the answers.

    Args:
        embedding: (nodes, d), a NumPy array or a tensor on any device; frozen, no gradient flows.
        tasks: the task set; its ids are rows of the embedding.
        head: a name of ``HEADS`` or a head.
        options: of the head, where it is given by name.

    >>> import numpy as np
    >>> from naq.tasks import Tasks
    >>> vectors = np.repeat(np.eye(2), 3, axis=0)
    >>> tasks = Tasks(np.array([[0, 3]]), np.array([[1, 2, 4, 5]]), way=2, shot=1)
    >>> print(evaluate(vectors, tasks, "prototype"))
    100.00 ± 0.00 % (2-way 1-shot, prototype, 1 tasks)
    """
    chosen = make_head(head, **options)
    matrix, there = _as_matrix(embedding, tasks, all_rows=chosen.needs_all_nodes)
    slots = chosen.predict(matrix, there)
    return scored(slots, tasks, head=chosen.name, transductive=chosen.transductive, options=dict(chosen.options))


def scored(
    slots: np.ndarray, tasks: Tasks, *, head: str, transductive: bool, options: Mapping[str, Value] | None = None
) -> Evaluation:
    """The evaluation of answers ``slots``, one per query, of a head or of a method that solves tasks itself."""
    per_task = (slots == tasks.query_slots).mean(axis=1)
    return Evaluation(
        accuracy=float(per_task.mean()),
        ci95=float(1.96 * per_task.std() / math.sqrt(len(per_task))),
        per_task=per_task,
        head=head,
        transductive=transductive,
        options=dict(options or {}),
        way=tasks.way,
        shot=tasks.shot,
        part=tasks.part,
        queries="balanced" if tasks.slots is None else "unbalanced",
    )


def _as_matrix(embedding: Any, tasks: Tasks, *, all_rows: bool) -> tuple[np.ndarray, Tasks]:
    """The embedding as a checked NumPy matrix, and the tasks in its row numbers.

    From a device, only the rows that are needed travel.
    """
    if not isinstance(embedding, np.ndarray | torch.Tensor):
        raise OptionError(f"embedding is a {type(embedding).__name__}; expected a NumPy array or a tensor (nodes, d).")
    if embedding.ndim != 2 or embedding.shape[1] == 0:
        raise OptionError(f"embedding has shape {tuple(embedding.shape)}; expected (nodes, d) with d at least 1.")
    ids = tasks.nodes()
    if ids[0] < 0 or ids[-1] >= len(embedding):
        wrong = ids[0] if ids[0] < 0 else ids[-1]
        raise TaskError(
            f"the tasks name node {wrong}, but the embedding has rows 0..{len(embedding) - 1}; "
            "it belongs to another graph or is not of all nodes."
        )
    if isinstance(embedding, torch.Tensor):
        tensor = embedding.detach()
        if tensor.is_complex() or tensor.dtype == torch.bool:
            raise OptionError(f"embedding has type {tensor.dtype}; expected real numbers.")
        _check_no_rows(torch.isfinite(tensor).all(dim=1).logical_not().nonzero()[:1, 0].tolist())
        if tensor.dtype in (torch.bfloat16, torch.float16):
            tensor = tensor.float()
        if not all_rows and tensor.device.type != "cpu":
            new_id = np.zeros(len(tensor), dtype=np.int64)
            new_id[ids] = np.arange(len(ids))
            tensor, tasks = tensor[torch.from_numpy(ids).to(tensor.device)], tasks.relabelled(new_id)
        return tensor.cpu().numpy(), tasks
    if embedding.dtype.kind not in "fiu":
        raise OptionError(f"embedding has type {embedding.dtype}; expected real numbers.")
    if embedding.dtype.kind == "f":
        for start in range(0, len(embedding), ROWS):
            block = embedding[start : start + ROWS]
            _check_no_rows((start + np.flatnonzero(~np.isfinite(block).all(axis=1))[:1]).tolist())
    return embedding, tasks


def _check_no_rows(rows: list[int]) -> None:
    """Raise an error for the first of the rows that are not finite, if there is one."""
    if rows:
        raise OptionError(
            f"row {rows[0]} of the embedding is not finite; a diverged training or a division by zero made it."
        )
