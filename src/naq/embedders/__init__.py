"""Methods that need no episodes: one module each, or a package of its own name where one module is not enough.

A module or package that is added here is found by the name it registers. Shared: ``convolutions`` (the encoder of BGRL, AFGRL and COLA), ``teacher``
(its slowly following copy), ``views``, ``dropout`` and ``unit_rows``.
"""

from naq.embedders.base import EMBEDDERS, Embedder, register_embedder
from naq.embedders.trained import TrainedEmbedder

__all__ = ["EMBEDDERS", "Embedder", "TrainedEmbedder", "register_embedder"]
