"""The head interface, its registry and the score of a head on a task set."""

from __future__ import annotations

import difflib
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import torch

from naq.errors import OptionError, TaskError
from naq.tasks import Tasks

Option: TypeAlias = float | int | bool | str

CHUNK_BYTES = 2**28
"""Heads gather at most about this much of the embedding at once."""


class Head(ABC):
    """Answers the queries of tasks from a frozen embedding and the labels of the supports.

    A new head is one file with one subclass: keyword options in ``__init__``, passed on to this one, and ``predict``.

    Attributes:
        name: its name in the registry.
        transductive: whether the queries of a task are answered together, so that each may help the others.
        needs_all_nodes: whether it uses statistics over all rows of the embedding, not only the rows of the task.
    """

    name: ClassVar[str]
    transductive: ClassVar[bool] = False
    needs_all_nodes: bool = False

    def __init__(self, **options: Option) -> None:
        self._options = options

    def options(self) -> dict[str, Option]:
        """Every option with its value: ``type(head)(**head.options())`` is the same head."""
        return dict(self._options)

    @abstractmethod
    def predict(self, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
        """The slot of every query, int64.

        Shapes:
            - embedding: (nodes, d), finite
            - answer: (count, way * queries)
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self._options.items())})"


HEADS: dict[str, type[Head]] = {}
"""Every head by its name."""

_Kind = TypeVar("_Kind", bound=type[Head])


def register_head(kind: _Kind) -> _Kind:
    """Class decorator: makes a head known under its ``name``."""
    if HEADS.get(kind.name, kind).__qualname__ != kind.__qualname__:
        raise OptionError(
            f"the name {kind.name!r} belongs to {HEADS[kind.name].__name__}; give {kind.__name__} another."
        )
    HEADS[kind.name] = kind
    return kind


def make_head(head: str | Head, **options: Any) -> Head:
    """A head from its name and options; a head that is one already is returned as it is.

    >>> make_head("logistic", C=1.0).options()["C"]
    1.0
    """
    if isinstance(head, Head):
        if options:
            raise OptionError(f"options {', '.join(options)} came with a finished {head!r}; set them where it is made.")
        return head
    if head not in HEADS:
        near = difflib.get_close_matches(str(head), HEADS, n=3, cutoff=0.4)
        hint = f"nearest: {', '.join(near)}; " if near else ""
        raise OptionError(f"there is no head {head!r}; {hint}available: {', '.join(sorted(HEADS))}.")
    known = list(inspect.signature(HEADS[head]).parameters)
    for title in options:
        if title not in known:
            near = difflib.get_close_matches(title, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}? " if near else ""
            raise OptionError(f"head {head!r} has no option {title!r}; {hint}It takes {', '.join(known)}.")
    return HEADS[head](**options)


def number(title: str, value: Any, *, low: float = 0.0, whole: bool = False, include_low: bool = False) -> Any:
    """The value of a numeric option as int or float, once it is sure that it is one and above ``low``."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    fits = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or value < low or (value == low and not include_low):
        raise OptionError(
            f"{title} is {value!r}; expected a {'whole ' if whole else ''}number {'at least' if include_low else 'above'} {low:g}."
        )
    return int(value) if whole else float(value)


def flag(title: str, value: Any) -> bool:
    """The value of a yes-or-no option."""
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{title} is {value!r}; expected True or False.")
    return bool(value)


def task_chunks(tasks: Tasks, width: int) -> Iterator[slice]:
    """Runs of tasks whose float64 rows fit in ``CHUNK_BYTES``; at least one task each."""
    rows = tasks.support.shape[1] + tasks.query.shape[1]
    step = max(1, CHUNK_BYTES // (8 * rows * max(1, width)))
    for start in range(0, len(tasks), step):
        yield slice(start, min(len(tasks), start + step))


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How well a head answered a task set.

    Attributes:
        accuracy: mean over tasks of the share of right answers, 0..1.
        ci95: half width of its 95 % interval, ``1.96 * std(ddof=0) / sqrt(count)``.
        per_task: (count,) accuracy of each task.
    """

    accuracy: float
    ci95: float
    per_task: np.ndarray
    head: str
    transductive: bool
    options: dict[str, Option] = field(default_factory=dict)
    way: int = 0
    shot: int = 0
    part: str = "test"

    def __len__(self) -> int:
        return len(self.per_task)

    def __str__(self) -> str:
        return (
            f"{100 * self.accuracy:.2f} ± {100 * self.ci95:.2f} % "
            f"({self.way}-way {self.shot}-shot, {self.head}, {len(self)} tasks)"
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
    return scored(slots, tasks, head=chosen.name, transductive=chosen.transductive, options=chosen.options())


def scored(
    slots: np.ndarray, tasks: Tasks, *, head: str, transductive: bool, options: Mapping[str, Option] | None = None
) -> Evaluation:
    """The evaluation of answers ``slots`` (count, way * queries), whoever gave them."""
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
        _refuse_rows(torch.isfinite(tensor).all(dim=1).logical_not().nonzero()[:1, 0].tolist())
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
        _refuse_rows(np.flatnonzero(~np.isfinite(embedding).all(axis=1))[:1].tolist())
    return embedding, tasks


def _refuse_rows(rows: list[int]) -> None:
    if rows:
        raise OptionError(
            f"row {rows[0]} of the embedding is not finite; a diverged training or a division by zero made it."
        )
