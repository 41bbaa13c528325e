"""What every head is, and how one is found by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from naq.errors import OptionError
from naq.options import Configurable
from naq.plugins import Registry
from naq.tasks import Tasks

CHUNK_BYTES = 2**28
"""Heads gather at most about this much of the embedding at once."""

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
register_head = HEADS.register


class Head(Configurable, ABC):
    """Answers the queries of tasks from a frozen embedding and the labels of the supports.

    A new head is one file with one subclass: a name, a summary, its ``Options``, and :meth:`predict`.

    Args:
        options: overrides of ``defaults``.

    Attributes:
        transductive: whether the queries of a task are answered together, so that each may help the others.
        knows_balance: whether it is told that the classes of a task have equally many queries.
        reported: whether every run answers with it beside the head that was chosen; one that costs much more than the
            others is asked for by name.
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


def make_head(head: str | Head, **options: Any) -> Head:
    """A head from its name and options; a head that is one already is returned as it is.

    >>> make_head("logistic", C=1.0).options.C
    1.0
    """
    if isinstance(head, Head):
        if options:
            raise OptionError(f"options {', '.join(options)} came with a finished {head!r}; set them where it is made.")
        return head
    return HEADS.find(head)(**options)


def in_reading_order() -> list[str]:
    """Names of all heads: those that answer each query alone first, the ones that are told the balance last."""
    return sorted(HEADS, key=lambda name: (HEADS[name].transductive, HEADS[name].knows_balance))


def task_chunks(tasks: Tasks, width: int) -> Iterator[slice]:
    """Runs of tasks whose float64 rows fit in ``CHUNK_BYTES``; at least one task each."""
    rows = tasks.support.shape[1] + tasks.query.shape[1]
    step = max(1, CHUNK_BYTES // (8 * rows * max(1, width)))
    for start in range(0, len(tasks), step):
        yield slice(start, min(len(tasks), start + step))
