"""Pictures of nodes: local files that a column of their table names, relative to the folder of the graph's file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from naq.errors import DataError, OptionError
from naq.graph import Graph
from naq.options import did_you_mean

LARGEST = 8 << 20
STARTS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF87a", "gif"), (b"GIF89a", "gif"))


class Images:
    """Reads pictures from the folder of a graph's file and its subfolders, and from nowhere else.

    Args:
        column: of the table of nodes; its cells are paths of files, relative to that folder.
    """

    def __init__(self, graph: Graph, column: str) -> None:
        names = [] if graph.table is None else graph.table.columns.tolist()
        if column not in names:
            advice = did_you_mean(column, names, "" if names else "the graph has no table of nodes.")
            raise OptionError(f"--images is {column!r}, which is not a column of the table of nodes; {advice}")
        if not graph.source or not Path(graph.source).is_absolute():
            raise OptionError(
                f"--images needs a graph from a file, whose folder has the pictures; {graph.name} has none."
            )
        self._graph, self._column, self.folder = graph, names.index(column), Path(graph.source).parent

    def named(self, node: int) -> str:
        """The path that the table has for a node, or nothing."""
        assert self._graph.table is not None
        return self._graph.table.cell(node, self._column).strip()

    def read(self, node: int) -> tuple[bytes, str]:
        """Content and media type; ``DataError`` if it is not a picture inside the folder."""
        name = self.named(node)
        path = self._path(name)
        shown = name[:80]
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise DataError(f"{shown} is not a file.")
                content = file.read(LARGEST + 1)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read {shown}: {getattr(error, 'strerror', None) or error}.") from error
        if len(content) > LARGEST:
            raise DataError(f"{shown} is larger than {LARGEST >> 20} MB.")
        kind = next((kind for start, kind in STARTS if content.startswith(start)), None)
        if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
            kind = "webp"
        if kind is None:
            raise DataError(f"{shown} is not a PNG, JPEG, GIF or WebP file.")
        return content, f"image/{kind}"

    def _path(self, name: str) -> Path:
        """The file of a name, once no part of it leads out of the folder."""
        parts = name.split("/")
        if not name or len(name) > 500 or any(part in ("", ".", "..") for part in parts) or set(name) & set("\\:\0"):
            raise DataError(f"{name[:80]!r} is not the path of a file in the folder of the graph.")
        path = self.folder
        for part in parts:
            path = path / part
            if path.is_symlink():
                raise DataError(f"{name[:80]} is a link, or behind one, and may lead anywhere.")
        return path
