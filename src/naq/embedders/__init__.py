"""Methods that need no episodes, and what they share."""

from naq.embedders.base import EMBEDDERS, Embedder, register_embedder

__all__ = ["EMBEDDERS", "Embedder", "register_embedder"]
