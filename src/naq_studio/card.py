"""The card of one node: who it is, what it holds, who is near, and what the labels say about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.graph import Graph
from naq.graph.weighting import is_counted, tfidf
from naq_studio.answers import NOWHERE, Answer
from naq_studio.board import NONE
from naq_studio.session import Session

NEAREST = 8
MOST_EDGES = 2_000
"""Neighbours whose edges are drawn; the card names the first :data:`LISTED`."""
LISTED = 40
WORDS = 12
TELLING = 0.15
"""A word speaks for the class if it does so by at least this share of the most telling one; the others follow by weight."""
LONGEST_NAME = 2_000


def card(session: Session, node: int) -> dict[str, Any]:
    """All about a node; what is not known yet is absent or empty."""
    graph = session.graph
    with session.lock:
        found, labels = session.answer, dict(session.journal.board.labels)
    neighbours = graph.adjacency.indices[graph.adjacency.indptr[node] : graph.adjacency.indptr[node + 1]]
    given = labels.get(node)
    facts: dict[str, Any] = {
        "node": node,
        "name": str(graph.names[node])[:LONGEST_NAME] if graph.names is not None else "",
        "degree": len(neighbours),
        "edges": neighbours[:MOST_EDGES].tolist(),
        "listed": neighbours[:LISTED].tolist(),
        "given": given,
        "similar": [],
        "words": [],
        "features": [],
    }
    near = _cosines(session, node)
    if near is not None:
        order = np.argsort(-near, kind="stable")[: NEAREST + 1]
        facts["similar"] = [[int(other), round(float(near[other]), 3)] for other in order if other != node][:NEAREST]
    slot = None
    if found is not None:
        facts["prediction"], slot = _prediction(found, node, given, near, labels)
    if graph.vocab is not None and is_counted(graph):
        facts["words"] = _words(graph, node, found, slot)
    elif graph.features is not None:
        facts["features"] = _features(graph, node)
    return facts


def _prediction(
    found: Answer, node: int, given: int | None, near: np.ndarray | None, labels: dict[int, int]
) -> tuple[dict[str, Any], int]:
    """The two likeliest classes, and the labelled node of the first that is nearest; the place of the first in ``found.ids``."""
    order = np.argsort(-found.chances[node], kind="stable")[:2]
    best, second = int(order[0]), int(order[1])
    number = int(found.ids[best])
    speaker = None
    if near is not None:
        own = np.array([other for other, one in labels.items() if one == number and other != node], dtype=np.int64)
        if len(own):
            speaker = int(own[near[own].argmax()])
    facts = {
        "class": number,
        "probability": float(found.chances[node, best]),
        "runner_up": int(found.ids[second]),
        "runner_up_probability": float(found.chances[node, second]),
        "speaker": speaker,
        "speaker_similarity": None if speaker is None or near is None else round(float(near[speaker]), 3),
        "nowhere": int(found.chosen[node]) == NOWHERE,
    }
    if given is not None and given != NONE and (places := np.flatnonzero(found.ids == given)).size:
        best = int(places[0])
    return facts, best


def _cosines(session: Session, node: int) -> np.ndarray | None:
    """(n,) similarity of every node to this one, None before the vectors are there."""
    classifier = session.model.classifier
    if classifier is None:
        return None
    from naq.classifier.prototypes import centred_units

    units = session.graph.kept("studio/units", lambda: centred_units(classifier.vectors_))
    return units @ units[node]


def _words(graph: Graph, node: int, found: Answer | None, slot: int | None) -> list[dict[str, Any]]:
    """The node's words: those that speak most for its class first, the others by weight; ``for`` is how much, -1 to 1."""
    table: sp.csr_array = graph.kept("studio/tfidf", lambda: tfidf(graph.features))  # type: ignore[arg-type]
    assert graph.vocab is not None
    row = slice(table.indptr[node], table.indptr[node + 1])
    words, weights = table.indices[row], table.data[row].astype(np.float64)
    speaks = np.zeros(len(words))
    if found is not None and slot is not None:
        mean = graph.kept("studio/mean", lambda: np.asarray(table.mean(axis=0)).ravel())
        members = (found.chosen == found.ids[slot]).astype(np.float32)
        profile = (members @ table) / max(1.0, float(members.sum()))
        speaks = weights * (np.asarray(profile).ravel() - mean)[words]
    most = float(np.abs(speaks).max(initial=0.0)) or 1.0
    order = np.lexsort((words, -weights, -np.where(speaks > TELLING * most, speaks, 0.0)))[:WORDS]
    return [
        {"word": str(graph.vocab[words[one]])[:80], "id": int(words[one]), "for": round(float(speaks[one] / most), 3)}
        for one in order
    ]


def _features(graph: Graph, node: int) -> list[dict[str, Any]]:
    """The features in which the node differs most from the mean, in standard deviations."""
    mean, deviation = graph.kept("studio/moments", lambda: _moments(graph))
    assert graph.features is not None
    row = graph.features[[node]]
    values = np.asarray(row if isinstance(row, np.ndarray) else row.toarray(), dtype=np.float64).ravel()
    apart = np.divide(values - mean, deviation, out=np.zeros_like(values), where=deviation > 0)
    order = np.argsort(-np.abs(apart), kind="stable")[:WORDS]
    vocab = graph.vocab
    return [
        {
            "name": f"feature {one}" if vocab is None else str(vocab[one])[:80],
            "value": round(float(values[one]), 4),
            "apart": round(float(apart[one]), 2),
        }
        for one in order
        if apart[one]
    ]


def _moments(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    table = graph.features
    assert table is not None
    mean = np.asarray(table.mean(axis=0), dtype=np.float64).ravel()
    square = np.square(table, dtype=np.float64) if isinstance(table, np.ndarray) else table.multiply(table)
    return mean, np.sqrt(np.maximum(np.asarray(square.mean(axis=0)).ravel() - mean**2, 0.0))
