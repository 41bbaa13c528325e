"""The classifier in a browser: see a graph as a map, name some nodes, watch the rest take colour."""

from naq_studio.server import serve

__all__ = ["serve"]
