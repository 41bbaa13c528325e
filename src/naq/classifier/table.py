r"""The predictions of every node as a table: a CSV file for people, rows for programs.

Next to the class is what speaks for it: the view that decided, the labelled node that is nearest, and words, the
node's and its neighbours'. A word w of node i speaks for class c by :math:`x_{iw}\,(\bar x_{cw} - \bar x_w)`: its
weight in the node (TF-IDF), times how much more of it the nodes of the class have than all nodes have; the nodes of a
class are those that it was predicted for. Words that these nodes do not have clearly more often than all nodes, as
"the", are not named.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.classifier.estimator import FewShotNodeClassifier
from naq.classifier.experts import add_by_class
from naq.classifier.labels import Labels, node_name
from naq.classifier.views import describe, means
from naq.errors import MissingDependency, plain
from naq.files import escape_cell, write_atomically
from naq.graph import Graph
from naq.graph.operators import tfidf

LARGEST_PROFILE = 1 << 27  # classes times words at most; with more, no words are given
LEAST = 0.2  # words that speak for the class by less than this share of a node's best word are not named
LIFT = 2.0
"""Nor are words that nodes of the class do not have this many times as often as all, or half as often as possible."""
FEWEST = 3  # nodes of a class that hold a word which is named for it
FAR = 0.5  # standard deviations by which the numbers of a class differ from those of all where they are named
LONGEST_TEXT = 300  # characters


def prediction_columns(classifier: FewShotNodeClassifier, level: float = 0.9) -> dict[str, Any]:
    """One entry per node by column: those of ``Prediction.columns``, with nodes by name, ``name`` after the node and
    ``text`` last if the graph has them, and in between why the class was named."""
    graph, found = classifier.graph_, classifier.prediction()
    chosen, second = found.two_likeliest
    nearest = nearest_labels(classifier.views_[0].rows, chosen, found.labels)
    words, everyone = supporting_words(graph, chosen, len(found.labels.classes)), range(len(chosen))
    own, shown = [node_name(graph, node) for node in everyone], node_texts(graph, everyone)
    titled = {"name": shown.pop("name")} if "name" in shown else {}
    columns = {"node": own} | titled | found.columns(level) | {"node": own}
    columns |= {
        "because": [describe(view) for view in found.deciding_views(chosen, second)],
        "nearest_label": [None if node < 0 else graph.title_of(node) for node in nearest.tolist()],
        "words": [mine for mine, _ in words],
        "neighbour_words": [near for _, near in words],
    }
    return columns | shown


def write_predictions(classifier: FewShotNodeClassifier, path: str | Path, level: float = 0.9) -> Path:
    """:func:`prediction_columns` as :func:`write_columns` writes them; of the new nodes alone if ``extend`` was asked
    for these."""
    first = classifier.prediction().first
    columns = {name: values[first:] for name, values in prediction_columns(classifier, level).items()}
    return write_columns(path, columns, classifier.graph_)


def write_columns(path: str | Path, columns: Mapping[str, Any], graph: Graph) -> Path:
    """A table with nodes in the column ``node``, whole or not at all: a CSV in UTF-8, lists separated by ``|``, safe to
    open in a spreadsheet; where the path ends in ``.parquet``, Parquet."""
    if Path(path).suffix.lower() == ".parquet":
        return _write_parquet(path, columns, graph)
    rows = zip(*(values.tolist() if isinstance(values, np.ndarray) else values for values in columns.values()))

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([cell(value) for value in row] for row in rows)

    return write_atomically(path, write)


def _write_parquet(path: str | Path, columns: Mapping[str, Any], graph: Graph) -> Path:
    """Columns with their types. Ids that are whole numbers are such, unless a table of nodes had them as text."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDependency('Parquet is written with pyarrow: pip install "naq[io]".') from error
    text, texts = pa.string(), pa.list_(pa.string())
    kinds = {"nearest_label": text, "words": texts, "neighbour_words": texts}  # which may all be empty
    kinds |= {name: text for name, values in columns.items() if all(one is None for one in values)}
    made = {name: pa.array(values, kinds.get(name)) for name, values in columns.items()}
    if not (graph.recipe or {}).get("text_ids") and all(_is_whole(name) for name in columns["node"]):
        made["node"] = made["node"].cast(pa.int64())
    return write_atomically(path, lambda temporary: parquet.write_table(pa.table(made), temporary))


def _is_whole(name: str) -> bool:
    """Whether a name is how a number is written that fits into 64 bits."""
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(name)) == name


def node_texts(graph: Graph, nodes: Iterable[int]) -> dict[str, list[str]]:
    """``name`` and ``text`` of some nodes, if the graph keeps them."""
    if graph.table is None:
        return {}
    name = {"name": [graph.title_of(node) for node in nodes]} if graph.table.has("name", "both") else {}
    texts = (plain(graph.text_of(node), LONGEST_TEXT) for node in nodes)
    return name | ({"text": list(texts)} if graph.table.has("text") else {})


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
    return escape_cell(text)


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
    graph: Graph, predicted: np.ndarray, count: int, most: int = 3, *, block: int = 1 << 12
) -> list[tuple[list[str], list[str]]]:
    """For every node at most ``most`` of its words that speak for its class, most first, and as many of its neighbours'
    words; none if features are not words.

    Words are the sparse features without a negative value; of features in blocks, those of texts and categories.
    """
    n = len(predicted)
    if graph.vocab is None or not graph.sparse_features or count * graph.num_features > LARGEST_PROFILE:
        return [([], [])] * n
    columns, words = weighted_words(graph)
    vocab, profile = graph.vocab[columns], class_profiles(words, predicted, count)
    walk = means(graph.weighted_adjacency)
    found: list[tuple[list[str], list[str]]] = []
    for start in range(0, n, block):
        part = slice(start, start + block)
        best = (_best_words(rows, profile, predicted[part], 2 * most) for rows in (words[part], walk[part] @ words))
        # columns of text may have the same words
        own, near = ([list(dict.fromkeys(vocab[one].tolist()))[:most] for one in row] for row in best)
        found += zip(own, near)
    return found


def class_profiles(words: sp.csr_array, predicted: np.ndarray, count: int) -> np.ndarray:
    """(classes, words) how much more of a word the nodes of a class have than all; 0 if not clearly more often."""
    n = len(predicted)
    member = sp.csr_array((np.ones(n, np.float32), (predicted, np.arange(n))), shape=(count, n))
    sizes = np.maximum(np.bincount(predicted, minlength=count), 1)[:, None]
    profile = (member @ words).toarray() / sizes - np.asarray(words.mean(axis=0)).ravel()
    present = sp.csr_array((np.ones_like(words.data), words.indices, words.indptr), shape=words.shape)
    often = (member @ present).toarray() / sizes
    profile[often < np.minimum(LIFT, (1 + n / sizes) / 2) * np.asarray(present.mean(axis=0)).ravel()] = 0.0
    return np.asarray(profile)


def columns_of_classes(graph: Graph, predicted: np.ndarray, count: int, most: int = 6) -> list[list[str]]:
    """For every class at most ``most`` words that its nodes have more of than all, most first, and as many columns of
    numbers, ``high size`` or ``late founded``, whose mean is ``FAR`` standard deviations or more from that of all."""
    found: list[list[str]] = [[] for _ in range(count)]
    if graph.vocab is None:
        return found
    if graph.sparse_features and count * graph.num_features <= LARGEST_PROFILE:
        columns, words = weighted_words(graph)
        for place, row in enumerate(class_profiles(words, predicted, count)):
            row[np.bincount(words[predicted == place].indices, minlength=len(row)) < FEWEST] = 0.0
            best = [str(graph.vocab[columns[j]]) for j in np.argsort(-row, kind="stable")[: 2 * most] if row[j] > 0]
            found[place] += [*dict.fromkeys(best)][:most]  # columns of text may have the same words
    sizes, ages = np.maximum(np.bincount(predicted, minlength=count), 1)[:, None], ages_of_dates(graph)
    for block, part in graph.block_features():
        if block.kind == "numbers" and isinstance(part, np.ndarray):
            rows = (part - part.mean(axis=0)) / np.maximum(part.std(axis=0), 1e-12)
            for named, row in zip(found, add_by_class(rows.astype(np.float64), predicted, count) / sizes):
                far = [j for j in np.argsort(-np.abs(row), kind="stable")[:most] if abs(row[j]) >= FAR]
                for name, more in ((str(graph.vocab[block.start + j]), bool(row[j] > 0)) for j in far):
                    named.append(f"{('late', 'early')[more] if name in ages else ('low', 'high')[more]} {name}")
    return found


def ages_of_dates(graph: Graph) -> set[str]:
    """Features that are days before the newest date of a column: the higher, the earlier."""
    from naq.io.tables.roles import display_name

    known = (graph.recipe or {}).get("columns", [])
    return {display_name(one["column"]) for one in known if one["kind"] == "number" and "dates" in one}


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

    def make() -> tuple[np.ndarray, sp.csr_array]:
        features = sp.csr_array(graph.features)
        columns = np.setdiff1d(np.arange(features.shape[1]), features.indices[features.data < 0])
        if graph.stated_blocks is not None:
            words = [np.arange(b.start, b.stop) for b in graph.blocks if b.kind in ("words", "categories")]
            columns = np.intersect1d(columns, np.concatenate([np.arange(0), *words]))
        return columns, tfidf(sp.csr_array(features[:, columns]) if len(columns) < features.shape[1] else features)

    return graph.kept("classifier/tfidf", make)
