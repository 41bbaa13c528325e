"""Methods that need no episodes, and what they share."""

from naq.embedders.base import EMBEDDERS, Embedder

__all__ = ["EMBEDDERS", "Embedder"]
