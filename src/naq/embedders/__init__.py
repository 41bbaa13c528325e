"""Methods that need no episodes, and what they share.

``smoothing`` is what `smooth` and `naq-plus` start from, ``node_words`` what a node is described by, ``closed_form`` the
closed form of NaQ on any vectors.
"""

from naq.embedders.base import EMBEDDERS, Embedder, register_embedder

__all__ = ["EMBEDDERS", "Embedder", "register_embedder"]
