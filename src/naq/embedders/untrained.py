"""The encoder before any training: what structure and random weights alone give. A trained learner must beat it.

Example:
    >>> import naq
    >>> naq.embed(naq.load("debian"), "untrained", latent=64).shape
    (34169, 64)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from naq.embedders.base import Embedder
from naq.nn import GCN, GraphOperator
from naq.options import option


class Untrained(Embedder):
    """The two-layer GCN with its initial weights; the same weights a learner of this seed and width starts from."""

    name = "untrained"
    summary = "the GCN encoder with its initial weights"
    inductive = True

    @dataclass(frozen=True)
    class Options(Embedder.Options):
        latent: int = option(256)  # width of the vectors

    options: Options

    def embed(self) -> np.ndarray:
        encoder = GCN(GraphOperator(self.graph, self.device), self.options.latent, seed=self.seed)
        return encoder.encode_all().cpu().numpy()
