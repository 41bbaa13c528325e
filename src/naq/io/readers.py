"""Readers: one per file format, found by the layout of a path or by the name that a dataset of the catalog gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from naq.errors import DataError
from naq.graph import Graph
from naq.plugins import Registry
from naq.tasks import ClassSplit


class Reader(ABC):
    """One file format; a subclass is listed in :data:`READERS`.

    Attributes:
        name: what the catalog calls it.
        expects: what it reads in a few words, for messages; "" for a format of one published dataset.
        slow: whether reading takes so long that the graph is kept as npz beside the download.
    """

    name: ClassVar[str]
    expects: ClassVar[str] = ""
    slow: ClassVar[bool] = False

    def fits(self, path: Path) -> bool:
        """Whether an existing file or folder looks like this format; by name and layout, not by content."""
        return False

    @abstractmethod
    def read(self, path: Path, name: str | None = None) -> Graph:
        """The graph; one clear sentence (``DataError``) where the file is not what it should be."""

    def split(self, path: Path, graph: Graph) -> ClassSplit | None:
        """The class split that goes with the file at ``path``, if the format has one."""
        return None

    def read_verified(self, path: Path) -> Graph:
        """The same, every byte compared with its checksum."""
        raise DataError(f"{path} has no checksums of its arrays; leave verify out.")


READERS: Registry[type[Reader]] = Registry(
    "a reader",
    {
        "npz": "naq.io.npz:NpzReader",
        "mapped": "naq_scale.mapped:FolderReader",
        "cora-full": "naq_paper.datasets.cora_full:CoraFullReader",
        "edge-list": "naq.io.edge_list:EdgeListReader",
        "graphml": "naq.io.edge_list:GraphMLReader",
        "gpn": "naq_paper.datasets.gpn:GpnReader",
        "ogb": "naq.io.ogb:OgbReader",
    },
)
