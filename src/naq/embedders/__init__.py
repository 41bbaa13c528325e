"""Methods that need no episodes, one file each. Importing this package registers them."""

from naq.embedders import smooth as _smooth  # noqa: F401
from naq.embedders import untrained as _untrained  # noqa: F401
from naq.embedders.base import EMBEDDERS, Embedder, register_embedder

__all__ = ["EMBEDDERS", "Embedder", "register_embedder"]
