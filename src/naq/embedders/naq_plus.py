r"""NaQ in closed form: no episode, no gradient, no label.

.. math:: Z = \mathrm{ClosedForm}(\mathrm{center}(0.85\, \hat A Z + 0.15\, Z_0, \ \text{ten times}))

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

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from naq.embedders.base import Embedder
from naq.embedders.closed_form import PAIRS, ClosedForm
from naq.embedders.node_words import edge_agreement, node_words
from naq.embedders.smoothing import Matrix, centred, narrowed, on_device, smoothed, unit
from naq.options import option

AGREES = 0.1  # edges that agree with the features by less are not trusted


class NaqPlus(Embedder):
    """Smoothing, then the closed form."""

    name = "naq-plus"
    weighs_features = True
    summary = "NaQ in closed form: smoothing, then the scatter of neighbours removed; trains nothing"

    @dataclass(frozen=True)
    class Options(Embedder.Options):
        dim: int = option(384, at_least=1)  # vectors' width at most
        steps: int = option(10, at_least=0)  # of smoothing, 0.85 A_hat Z + 0.15 Z_0
        # trusted takes the smoothed features, doubted their sum with the features themselves, auto decides by whether nodes
        # are like their neighbours (naq.embedders.node_words.edge_agreement)
        edges: str = option("auto", choices=("auto", "trusted", "doubted"))
        # k of the nearest neighbours; all other nodes if there are fewer
        neighbors: int = option(10, at_least=1)
        # nearest counts every node and each of its nearest as members of one class, mutual only those in each other's list
        pairs: str = option("nearest", choices=tuple(PAIRS))
        # gamma, how much of the mean scatter is added before it is divided by
        shrink: float = option(0.5, more_than=0)
        # p, how much directions of large variance are favoured; 1 is not at all
        power: float = option(1.75, more_than=0)

    options: Options

    agreement: float | None = None
    """Of the edges with the features; None before vectors are made."""

    def embed(self) -> np.ndarray:
        if self.graph.mapped:
            return self.embed_to(None)
        return self.closed_form().fit_transform(self.smoothed())

    def closed_form(self, sample: int | None = None) -> ClosedForm:
        """The closed form with these options, not fitted."""
        o = self.options
        return ClosedForm(o.neighbors, o.pairs, o.shrink, o.power, self.seed, device=self.device, sample=sample)

    def smoothed(self) -> Matrix:
        """(n, d) the vectors before the closed form, centred; on the device."""
        words = node_words(self.graph)
        there = on_device(words, self.device)
        turned = on_device(sp.csr_array(words.T), self.device) if sp.issparse(words) and there is not words else None
        start = unit(narrowed(there, self.options.dim, self.seed, turned))
        self.agreement = edge_agreement(self.graph, start)
        adjacency = on_device(self.graph.normalized_adjacency(), self.device)
        rows = centred(smoothed(adjacency, start, self.options.steps))
        return rows if self.trusts_edges else centred(rows + centred(start))

    @property
    def trusts_edges(self) -> bool:
        """As asked or, with ``auto``, whether edges agree with the features; known once vectors are made."""
        edges = self.options.edges
        return edges == "trusted" or (edges == "auto" and self.agreement is not None and self.agreement >= AGREES)

    def plan(self) -> str:
        """One line: what was made of the edges and why; empty before vectors are made."""
        if self.agreement is None:
            return ""
        auto = self.options.edges == "auto"
        reason = f"neighbours agree by {self.agreement:.2f}, {AGREES:g} is enough" if auto else "as asked"
        edges = "trusted" if self.trusts_edges else "doubted: features are added to what was smoothed"
        return f"edges {edges} ({reason})"
