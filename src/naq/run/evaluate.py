"""What a run is evaluated on, and how: its tasks, those that choose the checkpoint, the answers of every head."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from naq.embedders import EMBEDDERS
from naq.embedders.closed_form import NaqPlus
from naq.errors import OptionError, TaskError
from naq.graph import Graph
from naq.heads import HEADS, Evaluation, Head, evaluate, in_reading_order, make_head, score_answers
from naq.io.splits import split_for, tasks_path
from naq.run.config import OWN, RunConfig
from naq.tasks import ClassSplit, Tasks, dirichlet_queries, sample_tasks, split_of_file

VALID_TASKS, TEST_TASKS, QUERIES = 50, 500, 8
CLUSTERS = 15
"""Of label-free tasks."""
DIRICHLET = "dirichlet"
"""After the name of a head and a slash: its answers to the same tasks with Dirichlet(2) queries."""
BASELINE = "smooth"
"""The training-free method that every result is compared with."""


@dataclass(frozen=True, eq=False)
class EvaluationTasks:
    """Validation and test tasks of one setting and the split they come from.

    Attributes:
        valid: None if the task file has test tasks alone; a checkpoint is then chosen on tasks without labels.
        base_labels: (n,) what a supervised method may read, -1 elsewhere.
        origin: a file name, or how they were drawn.
        unbalanced: the test tasks with Dirichlet(2) queries; they choose nothing.
    """

    split: ClassSplit
    valid: Tasks | None
    test: Tasks
    base_labels: np.ndarray
    origin: str
    unbalanced: Tasks

    @property
    def hash(self) -> str:
        """A hash of the tasks, so that a result says what it was tested on."""
        digest = hashlib.blake2b(digest_size=12)
        for tasks in filter(None, (self.valid, self.test)):
            digest.update(tasks.support.tobytes())
            digest.update(tasks.query.tobytes())
            digest.update(b"" if tasks.slots is None else tasks.slots.tobytes())
        return digest.hexdigest()


def evaluation_tasks(
    graph: Graph,
    path: str | Path | Tasks | None = None,
    *,
    way: int,
    shot: int,
    split: ClassSplit | None = None,
    base_labels: np.ndarray | None = None,
    any_class: bool = False,
) -> EvaluationTasks:
    """Tasks from ``path``, else from the file that comes with the graph's source, else drawn with seed 0.

    ``path`` may be the test tasks themselves; those of validation are then drawn.
    ``split`` draws them from its classes, whatever file there is; ``base_labels`` replaces what a supervised method may
    read, and base classes without any are left out. With ``any_class``, where neither these nor validation tasks are
    read, all classes of tasks that are given count as test classes.
    """
    labels = graph.require_labels("testing")
    source = graph.source or graph.name
    if path is None and split is None:
        path = tasks_path(source)
    given: dict[str, Tasks] = {}
    if isinstance(path, Tasks):
        given, path = {"test": path}, None
    if split is None:
        split = split_for(source, graph) if path is None else split_of_file(path, graph)
    if path is not None:
        parts = ("valid", "test") if split.valid else ("test",)
        given = {part: Tasks.load(path, way=way, shot=shot, part=part) for part in parts}
    for part, tasks in given.items():
        where = "" if path is None else f"{path}: "
        if (tasks.way, tasks.shot) != (way, shot):
            own = f"{tasks.way}-way {tasks.shot}-shot"
            raise TaskError(f"tasks are {own}, but the run is {way}-way {shot}-shot; give way and shot of the tasks.")
        outside = set(np.unique(labels[tasks.check(graph).nodes()]).tolist()) - set(split.part(part))
        if outside and any_class and path is None:
            split = ClassSplit(tuple(sorted({*split.base} - outside)), (), tuple(sorted({*split.test} | outside)))
        elif outside:
            raise TaskError(
                f"{where}{part} tasks use classes {sorted(outside)[:5]}, which are not {part} classes; draw tasks of "
                f"classes={list(split.part(part))}, or give their split."
            )
    drawn = {}
    if path is None:
        wanted = {"valid": VALID_TASKS, "test": TEST_TASKS}
        drawn = {
            part: sample_tasks(
                graph, way=way, shot=shot, queries=QUERIES, count=count, seed=0, classes=split.part(part), part=part
            )
            for part, count in wanted.items()
            if part not in given and (split.valid or not given)
        }
    found = given | drawn
    origin = Path(path).name if path is not None else "given" if given else "drawn with seed 0"
    if base_labels is None:
        base = np.where(np.isin(labels, split.base), labels, -1)
    else:
        base = _checked(base_labels, split, graph)
        split = replace(split, base=tuple(np.unique(base[base >= 0]).tolist()))
    return EvaluationTasks(
        split, found.get("valid"), found["test"], base, origin, dirichlet_queries(found["test"], labels)
    )


def _checked(base_labels: np.ndarray, split: ClassSplit, graph: Graph) -> np.ndarray:
    """Labels that a supervised method may read: of base classes alone, -1 elsewhere."""
    given = np.asarray(base_labels, dtype=np.int64)
    if given.shape != (graph.num_nodes,):
        raise TaskError(
            f"base_labels has shape {given.shape}; expected one entry for each of the {graph.num_nodes:,} nodes."
        )
    outside = set(np.unique(given[given >= 0]).tolist()) - set(split.base)
    if outside:
        raise TaskError(f"base_labels names classes {sorted(outside)[:5]}, which are not base classes; use -1 there.")
    return given


def selection_tasks(config: RunConfig, graph: Graph, evaluation: EvaluationTasks) -> Tasks:
    """The tasks that choose the checkpoint of a run."""
    if config.select == "valid":
        if evaluation.valid is None:
            what = f"{evaluation.origin} has test tasks alone"
            raise OptionError(f"select is 'valid', but {what}; choose the checkpoint with select=clusters.")
        return evaluation.valid
    return label_free_tasks(graph, config.way, device=config.device)


def label_free_tasks(graph: Graph, way: int, *, device: str = "cpu", clusters: int = CLUSTERS) -> Tasks:
    """Fifty one-shot tasks whose classes are clusters of the nodes, the same for every seed of a run.

    Clusters: k-means on cosine of the smoothed features that ``naq-plus`` starts from. There are fewer of them if fewer
    than ``way`` would have the nodes of a task.
    """
    graph = graph.without_labels()
    rows = torch.as_tensor(NaqPlus(graph, device=device).smoothed())
    for number in range(max(clusters, way), way - 1, -1):
        home = clusters_of(rows, number)
        if (np.bincount(home[home >= 0]) > QUERIES).sum() >= way:
            pretended = graph.with_labels(home)
            return sample_tasks(pretended, way=way, shot=1, queries=QUERIES, count=VALID_TASKS, part="valid")
    raise OptionError(
        f"label-free tasks need {way} clusters of {QUERIES + 1} nodes, which graph {graph.name!r} does not form; "
        "choose by validation tasks, or lower way."
    )


def clusters_of(rows: torch.Tensor, count: int) -> np.ndarray:
    """(n,) the cluster of each unit row; -1 for rows of zeros, which lie nowhere."""
    from naq.neighbors.clusters import assign, centres

    home = assign(rows, centres(rows, 0, count), 1)[:, 0]
    return torch.where(rows.any(dim=1), home, -1).cpu().numpy()


def validation_accuracy(model: Any, tasks: Tasks, head: Head | None) -> float:
    """Accuracy of a learner or trained embedder as it is now, by a head or, with None, by itself.

    Only nodes of the tasks are encoded unless the head needs all.
    """
    if head is None:
        return own_evaluation(model, tasks).accuracy
    with torch.no_grad():
        if head.needs_all_nodes:
            return evaluate(model.encode_all(), tasks, head).accuracy
        nodes = tasks.nodes()
        place = np.full(int(nodes.max()) + 1, -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        return evaluate(model.encode(nodes), tasks.relabelled(place), head).accuracy


def own_evaluation(model: Any, tasks: Tasks) -> Evaluation:
    """The answers of a model that needs no head."""
    return score_answers(model.solve(tasks), tasks, head=OWN, transductive=model.transductive)


def evaluate_heads(
    vectors: np.ndarray, tasks: Tasks, unbalanced: Tasks, *, model: Any = None, chosen: Head | None = None,
    heads: Sequence[Head] | None = None,
) -> dict[str, Evaluation]:  # fmt: skip
    """One evaluation per head that every run reports, or of ``heads``, and the model's own answers if it has some.

    Also the ``unbalanced`` tasks, by the heads that look at queries together and by ``prototype``, which does not: what
    looking gains.

    Args:
        model: a learner or trained embedder; the head ``own`` comes first if it solves tasks itself.
        chosen: joins the reported heads or replaces the one of its name.
    """
    own: dict[str, Evaluation] = {}
    if model is not None and (model.solves_tasks or model.also_solves):
        own[OWN] = own_evaluation(model, tasks)
        if model.solves_tasks and not model.also_heads and heads is None:
            return own
    if heads is None:
        heads = [make_head(name) for name in in_reading_order() if HEADS[name].reported]
    named = {head.name: head for head in heads}
    if chosen is not None:
        named[chosen.name] = chosen
    found = {name: evaluate(vectors, tasks, head) for name, head in named.items()}
    shifted = {name: head for name, head in named.items() if head.transductive or name == "prototype"}
    found |= {dirichlet(name): evaluate(vectors, unbalanced, head) for name, head in shifted.items()}
    return {**own, **found} if model is not None and model.solves_tasks else {**found, **own}


def dirichlet(head: str) -> str:
    """The name under which a head's answers to Dirichlet(2) queries are kept."""
    return f"{head}/{DIRICHLET}"


def baseline_vectors(graph: Graph) -> np.ndarray:
    """Vectors of the ``smooth`` baseline, made once for a graph and shared with it under other labels."""
    vectors: np.ndarray = graph.derived("baseline", lambda: EMBEDDERS[BASELINE](graph).embed())
    return vectors
