"""One node: who it is, what it holds, who is near, what the labels say about it; and nodes by their names and words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.graph import Graph
from naq_studio.answers import OUTSIDE, VersionedPrediction
from naq_studio.board import NONE
from naq_studio.session import Session

NEAREST = 8
MOST_EDGES = 2_000
"""Neighbours whose edges are drawn; the card names the first :data:`LISTED`."""
LISTED = 40
WORDS = 12
TELLING = 0.15
"""A word speaks for the class if it does so by at least this share of the best one; the others follow by weight."""
LONGEST_NAME, LONGEST_TEXT, LONGEST_CELL = 2_000, 4_000, 300
MOST_COLUMNS = 40
MOST_HITS, LONGEST_QUERY = 12, 100


def card(session: Session, node: int) -> dict[str, Any]:
    """All about a node; what is not known yet is absent or empty."""
    graph = session.graph
    with session.lock:
        found, labels = session.answer, dict(session.journal.board.labels)
    neighbours = graph.adjacency.indices[graph.adjacency.indptr[node] : graph.adjacency.indptr[node + 1]]
    given = labels.get(node)
    facts: dict[str, Any] = {
        "node": node,
        "name": graph.title_of(node)[:LONGEST_NAME] if session.names() else "",
        "id": str(graph.names[node])[:LONGEST_NAME] if graph.names is not None else "",
        "degree": len(neighbours),
        "edges": neighbours[:MOST_EDGES].tolist(),
        "listed": neighbours[:LISTED].tolist(),
        "given": given,
        "image": session.images is not None and bool(session.images.named(node)),
    } | {name: [] for name in ("text", "columns", "similar", "words", "features")}
    near = _cosines(session, node)
    if near is not None:
        order = np.argsort(-near, kind="stable")[: NEAREST + 1]
        facts["similar"] = [[int(other), round(float(near[other]), 3)] for other in order if other != node][:NEAREST]
    slot = None
    if found is not None:
        facts["prediction"], slot = _prediction(found, node, given, near, labels)
    if graph.features is not None:
        from naq.classifier.table import weighted_words

        held = np.empty(0, dtype=np.int64)
        if graph.vocab is not None and graph.sparse_features:
            held = weighted_words(graph)[0]
            facts["words"] = _words(
                graph, node, None if slot is None or found is None else found.chosen == found.ids[slot]
            )
        if len(held) < graph.num_features:
            facts["features"] = _features(graph, node, held)
    if (table := graph.table) is not None:
        speaking = {one["word"].casefold() for one in facts["words"] if one["for"] > TELLING}
        facts["text"] = _marked(graph.text_of(node), speaking)
        rest = [place for place, use in enumerate(table.uses.tolist()) if not use][:MOST_COLUMNS]
        facts["columns"] = [[str(table.columns[one])[:80], table.cell(node, one)[:LONGEST_CELL]] for one in rest]
    first = {one["word"]: one for one in reversed(facts["words"])}  # columns of text may have the same words
    facts["words"] = [one for one in facts["words"] if first[one["word"]] is one][:WORDS]
    return facts


def _marked(text: str, speaking: set[str]) -> list[tuple[str, bool]]:
    """The text in pieces: words that speak for the class, and what is between them."""
    cut = text[:LONGEST_TEXT] + ("…" if len(text) > LONGEST_TEXT else "")
    found: list[tuple[str, bool]] = []
    for piece in filter(None, re.split(r"(\w+)", cut)):
        speaks = piece.casefold() in speaking
        if found and not speaks and not found[-1][1]:
            piece = found.pop()[0] + piece
        found.append((piece, speaks))
    return found


def _prediction(
    found: VersionedPrediction, node: int, given: int | None, near: np.ndarray | None, labels: dict[int, int]
) -> tuple[dict[str, Any], int]:
    """The two likeliest classes and the nearest labelled node of the first; the place of the first in ``found.ids``."""
    order = np.argsort(-found.probabilities[node], kind="stable")[:2]
    best, second = int(order[0]), int(order[1])
    number = int(found.ids[best])
    speaker = None
    if near is not None:
        own = np.array([other for other, one in labels.items() if one == number and other != node], dtype=np.int64)
        if len(own):
            speaker = int(own[near[own].argmax()])
    facts = {
        "class": number,
        "probability": float(found.probabilities[node, best]),
        "runner_up": int(found.ids[second]),
        "runner_up_probability": float(found.probabilities[node, second]),
        "speaker": speaker,
        "speaker_similarity": None if speaker is None or near is None else round(float(near[speaker]), 3),
        "outside": int(found.chosen[node]) == OUTSIDE,
    }
    if given is not None and given != NONE and (places := np.flatnonzero(found.ids == given)).size:
        best = int(places[0])
    return facts, best


def _cosines(session: Session, node: int) -> np.ndarray | None:
    """(n,) similarity of every node to this one, None before the vectors are there."""
    classifier = session.model.classifier
    if classifier is None:
        return None
    from naq.classifier.views import centred_units

    units = session.graph.kept("studio/units", lambda: centred_units(classifier.vectors_))
    return units @ units[node]


def _words(graph: Graph, node: int, members: np.ndarray | None) -> list[dict[str, Any]]:
    """The node's words: those that speak most for its class, of these ``members`` (n,), first, the others by weight.

    ``for`` is how much of the most telling one. Words that members do not have clearly more often than all nodes, as
    "the", speak for nothing (:func:`naq.classifier.table.class_profiles`).
    """
    from naq.classifier.table import class_profiles, weighted_words

    columns, table = weighted_words(graph)
    assert graph.vocab is not None
    row = slice(table.indptr[node], table.indptr[node + 1])
    words, weights = table.indices[row], table.data[row].astype(np.float64)
    speaks = np.zeros(len(words))
    if members is not None:
        speaks = np.maximum(weights * class_profiles(table, (~members).astype(np.int64), 2)[0][words], 0.0)
    most = float(speaks.max(initial=0.0)) or 1.0
    order = np.lexsort((words, -weights, -np.where(speaks > TELLING * most, speaks, 0.0)))
    return [
        {"word": str(graph.vocab[one])[:80], "id": int(one), "for": round(float(speaks[place] / most), 3)}
        for place, one in zip(order.tolist(), columns[words[order]].tolist())
    ]


def _features(graph: Graph, node: int, words: np.ndarray) -> list[dict[str, Any]]:
    """The features but for words in which the node differs most from the mean, in standard deviations, with the value
    as the table of nodes has it; none that is absent. Dates, which are features by their age, are above it if later."""
    from naq.classifier.table import ages_of_dates

    ages = ages_of_dates(graph)
    mean, deviation = graph.kept("studio/moments", lambda: _moments(graph))
    assert graph.features is not None
    row = graph.features[[node]]
    values = np.asarray(row if isinstance(row, np.ndarray) else row.toarray(), dtype=np.float64).ravel()
    apart = np.divide(values - mean, deviation, out=np.zeros_like(values), where=deviation > 0)
    yes_or_no = np.abs(deviation**2 - mean * (1 - mean)) < 1e-6  # so it is for values of 0 and 1 alone
    apart[words], apart[yes_or_no & (values == 0)] = 0.0, 0.0
    scaled = (np.abs(mean) < 1e-3) & (np.abs(deviation - 1) < 1e-3)
    raw = {} if graph.table is None else graph.table.row(node)
    found = []
    for one in np.argsort(-np.abs(apart), kind="stable")[:WORDS].tolist():
        name = f"feature {one}" if graph.vocab is None else str(graph.vocab[one])
        value = raw.get(name, "" if scaled[one] or yes_or_no[one] else f"{values[one]:.4g}")
        more = -apart[one] if name in ages else apart[one]
        found.append({"name": name[:80], "value": value[:80], "apart": round(float(more), 2)})
    return [one for one in found if one["apart"]]


def _moments(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    table = graph.features
    assert table is not None
    mean = np.asarray(table.mean(axis=0), dtype=np.float64).ravel()
    square = np.square(table, dtype=np.float64) if isinstance(table, np.ndarray) else table.multiply(table)
    return mean, np.sqrt(np.maximum(np.asarray(square.mean(axis=0)).ravel() - mean**2, 0.0))


def search(session: Session, query: str) -> dict[str, Any]:
    """Nodes whose name (or number) holds the text, those that begin with it first, and words that begin with it."""
    graph, wanted = session.graph, " ".join(query.casefold().split())[:LONGEST_QUERY]
    if not wanted:
        return {"nodes": [], "words": []}
    names = graph.kept("studio/folded", lambda: [name.casefold() for name in session.names()])
    hits = [
        (name != wanted, not name.startswith(wanted), len(name), node)
        for node, name in enumerate(names)
        if wanted in name
    ]
    nodes = [node for *_, node in sorted(hits)[:MOST_HITS]]
    ids = () if graph.names is None else graph.names  # which are not shown where nodes have other names
    places = graph.kept("studio/ids", lambda: {str(one).casefold(): node for node, one in enumerate(ids)})
    number = int(wanted) if wanted.isascii() and wanted.isdigit() and int(wanted) < graph.num_nodes else None
    own = [node for node in (places.get(wanted), number) if node is not None and node not in nodes]
    return {"nodes": [*dict.fromkeys(own), *nodes][:MOST_HITS], "total": len(hits), "words": _vocab_hits(graph, wanted)}


def _vocab_hits(graph: Graph, wanted: str) -> list[dict[str, Any]]:
    """Words that begin with the text, the most frequent first after the word itself."""
    vocab = graph.vocab
    if vocab is None or graph.features is None:
        return []
    folded = graph.kept("studio/vocab", lambda: [str(word).casefold()[:LONGEST_QUERY] for word in vocab.tolist()])
    counts = graph.kept("studio/counts", lambda: np.asarray((sp.csc_array(graph.features) != 0).sum(axis=0)).ravel())
    hits = [(word != wanted, -int(counts[one]), one) for one, word in enumerate(folded) if word.startswith(wanted)]
    return [
        {"id": one, "word": str(vocab[one])[:80], "nodes": -count}
        for _, count, one in sorted(hits)[:MOST_HITS]
        if count
    ]


def nodes_with_word(graph: Graph, word: int) -> list[int]:
    """All nodes that hold a feature."""
    columns = graph.kept("studio/by_word", lambda: sp.csc_array(graph.features))
    return np.sort(columns.indices[columns.indptr[word] : columns.indptr[word + 1]]).tolist()
