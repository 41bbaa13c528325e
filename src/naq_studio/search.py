"""Nodes by their names and by their words."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.graph import Graph
from naq_studio.session import Session

MOST = 12
LONGEST = 100


def search(session: Session, query: str) -> dict[str, Any]:
    """Nodes whose name (or number) holds the text, those that begin with it first, and words that begin with it."""
    graph, wanted = session.graph, " ".join(query.casefold().split())[:LONGEST]
    if not wanted:
        return {"nodes": [], "words": []}
    names = graph.kept("studio/folded", lambda: [name.casefold() for name in session.names()])
    hits = [
        (name != wanted, not name.startswith(wanted), len(name), node)
        for node, name in enumerate(names)
        if wanted in name
    ]
    nodes = [node for *_, node in sorted(hits)[:MOST]]
    ids = () if graph.names is None else graph.names  # which are not shown where nodes have other names
    places = graph.kept("studio/ids", lambda: {str(one).casefold(): node for node, one in enumerate(ids)})
    number = int(wanted) if wanted.isascii() and wanted.isdigit() and int(wanted) < graph.num_nodes else None
    own = [node for node in (places.get(wanted), number) if node is not None and node not in nodes]
    return {"nodes": [*dict.fromkeys(own), *nodes][:MOST], "total": len(hits), "words": _words(graph, wanted)}


def _words(graph: Graph, wanted: str) -> list[dict[str, Any]]:
    """Words that begin with the text, the most frequent first after the word itself."""
    vocab = graph.vocab
    if vocab is None or graph.features is None:
        return []
    folded = graph.kept("studio/vocab", lambda: [str(word).casefold()[:LONGEST] for word in vocab.tolist()])
    counts = graph.kept("studio/counts", lambda: np.asarray((_columns(graph) != 0).sum(axis=0)).ravel())
    hits = [(word != wanted, -int(counts[one]), one) for one, word in enumerate(folded) if word.startswith(wanted)]
    return [
        {"id": one, "word": str(vocab[one])[:80], "nodes": -count} for _, count, one in sorted(hits)[:MOST] if count
    ]


def nodes_with_word(graph: Graph, word: int) -> list[int]:
    """All nodes that hold a feature."""
    columns = graph.kept("studio/by_word", lambda: _columns(graph))
    return np.sort(columns.indices[columns.indptr[word] : columns.indptr[word + 1]]).tolist()


def _columns(graph: Graph) -> sp.csc_array:
    return sp.csc_array(graph.features)
