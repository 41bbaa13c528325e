r"""The predictions of every node as a table: a CSV file for people, rows for programs.

Next to the class is what speaks for it: the view that decided, the labelled node that is nearest, and words, the node's
and its neighbours'. A word w of node i speaks for class c by :math:`x_{iw}\,(\bar x_{cw} - \bar x_w)`: its weight in the
node (TF-IDF), times how much more of it the nodes of the class have than all nodes have; the nodes of a class are those
that it was predicted for. Words that these nodes do not have clearly more often than all nodes, as "the", are not named.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.classifier.estimator import FewShotNodeClassifier
from naq.classifier.labels import Labels, node_name
from naq.classifier.views import describe, means
from naq.errors import plain
from naq.files import guarded, write_atomically
from naq.graph import Graph
from naq.graph.weighting import tfidf

COLUMNS = (
    "node", "class", "probability", "runner_up", "runner_up_probability", "prediction_set", "given", "because",
    "nearest_label", "words", "neighbour_words",
)  # fmt: skip
LARGEST_PROFILE = 1 << 27  # classes times words at most; beyond it no words are given
LEAST = 0.2  # words that speak for the class by less than this share of a node's best word are not named
LIFT = (
    2.0  # nor are those that nodes of the class do not have so many times as often as all, or half as often as can be
)
BLOCK = 1 << 12  # nodes at once
LONGEST_TEXT = 300  # characters


def rows(classifier: FewShotNodeClassifier, level: float = 0.9) -> Iterator[dict[str, Any]]:
    """One dictionary per node, in the order of the graph, with the keys :data:`COLUMNS`, and ``name`` and ``text`` where
    the graph keeps them.

    ``class`` is None where ``unknown`` nodes belong to no class, and the given one where the node has a label, whose probability is that of
    its class as if it had none.
    """
    graph, found = classifier.graph_, classifier.prediction()
    labels, chances, sets, final = found.labels, found.probabilities, found.sets(level), found.transduction
    order = np.argsort(-chances, axis=1, kind="stable")[:, :2]
    chosen = order[:, 0].copy()
    chosen[labels.nodes] = labels.class_index
    second = np.where(order[:, 0] == chosen, order[:, 1], order[:, 0])
    nearest = nearest_labels(classifier.views_[0].rows, chosen, labels)
    words, deciding = supporting_words(graph, chosen, len(labels.classes)), found.deciding_views(chosen, second)
    given = np.zeros(len(chosen), dtype=bool)
    given[labels.nodes] = True
    classes = labels.classes.tolist()
    for node in range(len(chosen)):
        one, two = int(chosen[node]), int(second[node])
        likely = np.flatnonzero(sets[node])
        likely = likely[np.argsort(-chances[node, likely], kind="stable")]
        named = final[node]
        yield {
            "node": node_name(graph, node),
            "class": named.item() if isinstance(named, np.generic) else named,
            "probability": float(chances[node, one]),
            "runner_up": classes[two],
            "runner_up_probability": float(chances[node, two]),
            "prediction_set": [classes[place] for place in likely],
            "given": bool(given[node]),
            "because": describe(deciding[node]),
            "nearest_label": None if nearest[node] < 0 else graph.title_of(int(nearest[node])),
            "words": words[node][0],
            "neighbour_words": words[node][1],
        } | shown(graph, node)


def write_predictions(classifier: FewShotNodeClassifier, path: str | Path, level: float = 0.9) -> Path:
    """A CSV in UTF-8 with :data:`COLUMNS`, ``name`` behind the node and ``text`` last where the graph keeps them; lists
    are separated by ``|``; whole or not at all; safe to open in a spreadsheet."""
    more = shown(classifier.graph_, 0)
    columns = [
        COLUMNS[0],
        *(one for one in more if one == "name"),
        *COLUMNS[1:],
        *(one for one in more if one == "text"),
    ]
    return write_rows(path, columns, ([row[column] for column in columns] for row in rows(classifier, level)))


def shown(graph: Graph, node: int) -> dict[str, str]:
    """What the graph keeps to look at of a node: ``name``, ``text``."""
    if graph.table is None:
        return {}
    name = {"name": graph.title_of(node)} if graph.table.has("name", "both") else {}
    return name | ({"text": plain(graph.text_of(node), LONGEST_TEXT)} if graph.table.has("text") else {})


def write_rows(path: str | Path, columns: Sequence[str], table: Iterable[Sequence[Any]]) -> Path:
    """A CSV of cells that no spreadsheet computes."""

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([cell(value) for value in row] for row in table)

    return write_atomically(path, write)


def cell(value: Any) -> str:
    """A value as a cell that no spreadsheet computes.

    >>> [cell(one) for one in ("=1+1", 0.5, True, None, ["a", "b"], -3)]
    ["'=1+1", '0.5000', 'yes', '', 'a|b', '-3']
    """
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, int) or value is None:
        return "" if value is None else str(value)
    text = "|".join(map(str, value)) if isinstance(value, list) else str(value)
    return guarded(text)


def nearest_labels(units: np.ndarray, predicted: np.ndarray, labels: Labels) -> np.ndarray:
    """(n,) the labelled node of the predicted class with the highest cosine, another than the node itself if there is
    one; -1 for a class without labels."""
    nearest = np.full(len(predicted), -1)
    for place in np.intersect1d(predicted, labels.class_index):
        nodes, labelled = np.flatnonzero(predicted == place), labels.nodes[labels.class_index == place]
        cosines = units[nodes] @ units[labelled].T
        if len(labelled) > 1:
            cosines[nodes[:, None] == labelled[None, :]] = -np.inf
        nearest[nodes] = labelled[cosines.argmax(axis=1)]
    return nearest


def supporting_words(
    graph: Graph, predicted: np.ndarray, count: int, most: int = 3
) -> list[tuple[list[str], list[str]]]:
    """For every node at most ``most`` of its words that speak for its class, most first, and as many of its neighbours'
    words; none where features are not words.

    Words are the sparse features without a negative value: beside numbers and vectors, those of texts and categories.
    """
    n = len(predicted)
    if graph.vocab is None or not graph.sparse_features or count * graph.num_features > LARGEST_PROFILE:
        return [([], [])] * n
    columns, words = weighted_words(graph)
    vocab, profile = graph.vocab[columns], class_profiles(words, predicted, count)
    walk = means(graph.weighted_adjacency)
    found: list[tuple[list[str], list[str]]] = []
    for start in range(0, n, BLOCK):
        part = slice(start, start + BLOCK)
        own, near = (_best_words(rows, profile, predicted[part], most) for rows in (words[part], walk[part] @ words))
        found += [(vocab[a].tolist(), vocab[b].tolist()) for a, b in zip(own, near)]
    return found


def class_profiles(words: sp.csr_array, predicted: np.ndarray, count: int) -> np.ndarray:
    """(classes, words) how much more of a word the nodes of a class have than all; 0 where it is not clearly more often."""
    n = len(predicted)
    member = sp.csr_array((np.ones(n, np.float32), (predicted, np.arange(n))), shape=(count, n))
    sizes = np.maximum(np.bincount(predicted, minlength=count), 1)[:, None]
    profile = (member @ words).toarray() / sizes - np.asarray(words.mean(axis=0)).ravel()
    present = sp.csr_array((np.ones_like(words.data), words.indices, words.indptr), shape=words.shape)
    often = (member @ present).toarray() / sizes
    profile[often < np.minimum(LIFT, (1 + n / sizes) / 2) * np.asarray(present.mean(axis=0)).ravel()] = 0.0
    return np.asarray(profile)


def _best_words(words: sp.csr_array, profile: np.ndarray, predicted: np.ndarray, most: int) -> list[np.ndarray]:
    """For every row of weights the columns with the highest weight times profile of its class, none below ``LEAST``."""
    words = sp.csr_array(words)
    rows = np.repeat(np.arange(len(predicted)), np.diff(words.indptr))
    support = words.data * profile[predicted[rows], words.indices]
    order = np.lexsort((words.indices, -support, rows))
    place = np.arange(len(rows)) - words.indptr[rows]
    best = support[order][np.minimum(words.indptr[rows], len(rows) - 1)]
    chosen = order[(place < most) & (support[order] > LEAST * np.maximum(best, 0))]
    return np.split(words.indices[chosen], np.searchsorted(rows[chosen], np.arange(1, len(predicted))))


def weighted_words(graph: Graph) -> tuple[np.ndarray, sp.csr_array]:
    """The columns of sparse features that are words or categories, and their TF-IDF."""
    return graph.kept("classifier/tfidf", lambda: _weighted_words(graph))


def _weighted_words(graph: Graph) -> tuple[np.ndarray, sp.csr_array]:
    features = sp.csr_array(graph.features)
    columns = np.setdiff1d(np.arange(features.shape[1]), features.indices[features.data < 0])
    if graph.stated_blocks is not None:
        kinds = np.repeat(
            [b.kind in ("words", "categories") for b in graph.blocks], [b.stop - b.start for b in graph.blocks]
        )
        columns = columns[kinds[columns]]
    return columns, tfidf(sp.csr_array(features[:, columns]) if len(columns) < features.shape[1] else features)
