"""Methods that need no episodes, one module each: a module that is added here is known by the name it registers."""

from naq.embedders.base import EMBEDDERS, Embedder, register_embedder
from naq.embedders.trained import TrainedEmbedder

__all__ = ["EMBEDDERS", "Embedder", "TrainedEmbedder", "register_embedder"]
