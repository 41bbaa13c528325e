"""What every head is, how one is found by name, and its score on a task set."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
import torch

from naq.errors import OptionError, TaskError
from naq.options import Configurable, Registry, Value
from naq.tasks import Tasks

CHUNK_BYTES = 2**28
"""Heads gather at most about this much of the embedding at once."""
ROWS = 1 << 16
"""Rows of an embedding that are checked at once."""

HEADS: Registry[type[Head]] = Registry(
    "a head",
    {
        "logistic": "naq.heads.logistic:LogisticHead",
        "prototype": "naq.heads.prototype:PrototypeHead",
        "expansion": "naq.heads.prototype:ExpansionHead",
        "transductive": "naq.heads.transductive:TransductiveHead",
        "em": "naq.heads.transductive:EMHead",
        "balanced": "naq.heads.transductive:BalancedHead",
    },
    group="naq.methods",
    accepts=lambda item: isinstance(item, type) and issubclass(item, Head),
)


class Head(Configurable, ABC):
    """Answers the queries of tasks from a frozen embedding and the labels of the supports.

    A new head is one file with one subclass: a name, a summary, its ``Options``, and :meth:`predict`.

    Args:
        options: overrides of ``defaults``.

    Attributes:
        transductive: whether the queries of a task are answered together, so that each may help the others.
        knows_balance: whether it takes the classes of a task to have equally many queries.
        reported: whether every run answers with it in addition to the head that was chosen; one that costs much more
            than the others is chosen by name.
        needs_all_nodes: whether it uses statistics over all rows of the embedding, not only the rows of the task.
    """

    transductive: ClassVar[bool] = False
    knows_balance: ClassVar[bool] = False
    reported: ClassVar[bool] = True

    def __init__(self, **options: Any) -> None:
        self.configure(options)

    @property
    def needs_all_nodes(self) -> bool:
        return False

    @abstractmethod
    def predict(self, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
        """The slot of every query, int64.

        Shapes:
            - embedding: (nodes, d), finite
            - answer: (count, queries of a task), as ``tasks.query``
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in dict(self.options).items())})"


Predict = Callable[[np.ndarray, Tasks], np.ndarray]
"""As :meth:`Head.predict`."""


class FunctionHead(Head):
    """A function of the user's as a head, under its own name."""

    summary = "a function of embedding and tasks"

    def __init__(self, function: Predict) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)  # type: ignore[misc]
        super().__init__()

    @property
    def needs_all_nodes(self) -> bool:
        return True  # for all that is known

    def predict(self, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
        slots = np.asarray(self.function(embedding, tasks))
        if slots.shape != tasks.query.shape or slots.dtype.kind not in "iu":
            raise OptionError(
                f"head {self.name} gives shape {slots.shape} and type {slots.dtype}; expected the slot of every query, "
                f"whole numbers {tasks.query.shape}."
            )
        return slots.astype(np.int64)


def make_head(head: Any, **options: Any) -> Head:
    """A head from its name or class and options, or from a function; a head that is one already is returned as it is.

    >>> make_head("logistic", C=1.0).options.C
    1.0
    """
    if isinstance(head, Head):
        if options:
            raise OptionError(f"options {', '.join(options)} came with a finished {head!r}; set them where it is made.")
        return head
    if isinstance(head, type) and issubclass(head, Head):
        return head(**options)
    if isinstance(head, str):
        return HEADS.find(head)(**options)
    if not callable(head):
        raise OptionError(f"head is {head!r}; expected a name, a head, or a function of embedding and tasks.")
    return FunctionHead(head)


def in_reading_order() -> list[str]:
    """Names of all heads: those that answer each query alone first, the ones that know the balance last."""
    return sorted(HEADS, key=lambda name: (HEADS[name].transductive, HEADS[name].knows_balance))


def task_slices(tasks: Tasks, width: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[slice]:
    """Runs of tasks whose float64 rows of this width fit in ``chunk_bytes``; at least one task each."""
    rows = tasks.support.shape[1] + tasks.query.shape[1]
    step = max(1, chunk_bytes // (8 * rows * max(1, width)))
    for start in range(0, len(tasks), step):
        yield slice(start, min(len(tasks), start + step))


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
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**values, "count": len(self), "options": dict(self.options), "per_task": self.per_task.tolist()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evaluation:
        """The inverse of :meth:`to_json`."""
        values = {name: value for name, value in data.items() if name != "count"}
        return cls(**{**values, "per_task": np.asarray(data["per_task"], dtype=np.float64)})


def evaluate(
    embedding: np.ndarray | torch.Tensor, tasks: Tasks, head: str | Head | Predict = "logistic", **options: Any
) -> Evaluation:
    """Answer every task from the embedding and score the answers.

    Args:
        embedding: (nodes, d), a NumPy array or a tensor on any device; frozen, no gradient flows.
        tasks: the task set; its ids are rows of the embedding.
        head: a name of ``HEADS``, a head, or a function as its ``predict``.
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
    return score_answers(slots, tasks, head=chosen.name, transductive=chosen.transductive, options=dict(chosen.options))


def score_answers(
    slots: np.ndarray, tasks: Tasks, *, head: str, transductive: bool, options: Mapping[str, Value] | None = None
) -> Evaluation:
    """The evaluation of answers ``slots``, one per query, of a head or of a method that solves tasks itself."""
    per_task = (slots == tasks.query_slots).mean(axis=1)
    return Evaluation(
        accuracy=float(per_task.mean()), ci95=float(1.96 * per_task.std() / math.sqrt(len(per_task))),
        per_task=per_task, head=head, transductive=transductive, options=dict(options or {}), way=tasks.way,
        shot=tasks.shot, part=tasks.part, queries="balanced" if tasks.slots is None else "unbalanced",
    )  # fmt: skip


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
