r"""NaQ in closed form: no episode, no gradient, no label.

.. math:: Z = \mathrm{ClosedForm}\big(\mathrm{center}(0.85\, \hat A Z + 0.15\, Z_0, \ \text{ten times})\big)

Start from the words of the nodes (:mod:`naq.embedders.node_words`) cut to 384 dimensions by SVD, smooth them over the
graph as ``smooth`` does, take nearest neighbours for members of one class, divide by their scatter and sharpen what is
left (:mod:`naq.embedders.closed_form`, with the formula). The choices are fixed: they were made on base and validation
classes of five graphs (``docs/choices.md``).

Edges that do not agree with the features are doubted, and :meth:`NaqPlus.plan` says so. A graph with neither edges nor
features is a :class:`~naq.errors.GraphError`. Without edges nothing is smoothed. A node whose vector is the mean of all
has the zero vector; nodes with no words, of their own or of nodes they are joined to, all have the same one, opposite
to the mean. Vectors are no wider than there are features or, if these are more than ``dim``, nodes.

Cost: that of ``smooth``, one table of nearest neighbours, O(n d^2); 384 floats per node and a few blocks of 64 MiB.

Example:
    >>> import naq
    >>> naq.embed(naq.load("debian"), "naq-plus").shape  # doctest: +SKIP
    (34169, 384)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from naq.embedders.base import Embedder
from naq.embedders.closed_form import PAIRS, ClosedForm
from naq.embedders.node_words import edge_agreement, node_words
from naq.embedders.smoothing import Matrix, centred, narrowed, on_device, smoothed, unit
from naq.options import Value

AGREES = 0.1
"""Edges that agree with the features by less are not trusted."""


class NaqPlus(Embedder):
    """Smoothing, then the closed form.

    Options:
        dim: vectors' width at most.
        steps: of smoothing, 0.85 A_hat Z + 0.15 Z_0.
        edges: ``trusted`` takes the smoothed features, ``doubted`` their sum with the features themselves, ``auto``
            decides by whether nodes are like their neighbours (:func:`~naq.embedders.node_words.edge_agreement`).
        neighbors, pairs, shrink, power: of :class:`~naq.embedders.closed_form.ClosedForm`.
    """

    name = "naq-plus"
    weighs_features = True
    summary = "NaQ in closed form: smoothing, then the scatter of neighbours removed; trains nothing"
    defaults: ClassVar[Mapping[str, Value]] = {
        "dim": 384,
        "steps": 10,
        "edges": "auto",
        "neighbors": 10,
        "pairs": "nearest",
        "shrink": 0.5,
        "power": 1.75,
    }

    agreement: float | None = None
    """Of the edges with the features; None before vectors are made."""

    def check_options(self) -> None:
        self.require_at_least("dim", 1)
        self.require_at_least("steps", 0)
        self.require_at_least("neighbors", 1)
        self.require_positive("shrink", "power")
        self.require_choice("pairs", tuple(PAIRS))
        self.require_choice("edges", ("auto", "trusted", "doubted"))

    def embed(self) -> np.ndarray:
        if self.graph.mapped:
            return self.embed_to(None)
        return self.closed_form().fit_transform(self.smoothed())

    def closed_form(self, sample: int | None = None) -> ClosedForm:
        """The closed form with these options, not fitted."""
        given = {name: self.options[name] for name in ("neighbors", "pairs", "shrink", "power")}
        return ClosedForm(**given, seed=self.seed, device=self.device, sample=sample)  # type: ignore[arg-type]

    def smoothed(self) -> Matrix:
        """(n, d) the vectors before the closed form, centred; on the device."""
        words = node_words(self.graph)
        there = on_device(words, self.device)
        turned = on_device(sp.csr_array(words.T), self.device) if sp.issparse(words) and there is not words else None
        start = unit(narrowed(there, int(self.options["dim"]), self.seed, turned))
        self.agreement = edge_agreement(self.graph, start)
        adjacency = on_device(self.graph.normalized_adjacency(), self.device)
        rows = centred(smoothed(adjacency, start, int(self.options["steps"])))
        return rows if self.trusts_edges else centred(rows + centred(start))

    @property
    def trusts_edges(self) -> bool:
        """As asked or, with ``auto``, whether edges agree with the features; known once vectors are made."""
        edges = self.options["edges"]
        return edges == "trusted" or (edges == "auto" and self.agreement is not None and self.agreement >= AGREES)

    def plan(self) -> str:
        """One line: what was made of the edges and why; empty before vectors are made."""
        if self.agreement is None:
            return ""
        auto = self.options["edges"] == "auto"
        reason = f"neighbours agree by {self.agreement:.2f}, {AGREES:g} is enough" if auto else "as asked"
        return (
            f"edges {'trusted' if self.trusts_edges else 'doubted: features are added to what was smoothed'} ({reason})"
        )
