"""Methods that need no episodes, one file each. Importing this package registers them all, also a file that was just added."""

from naq.embedders.base import EMBEDDERS, Embedder, register_embedder
from naq.embedders.trained import TrainedEmbedder
from naq.registry import discover

__all__ = ["EMBEDDERS", "Embedder", "TrainedEmbedder", "register_embedder"]

discover(__name__, __path__)
