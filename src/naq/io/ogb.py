"""OGB's raw node-property files, read without the ``ogb`` package from a folder or from the zip itself.

Nothing is extracted: members are found by name and read as streams, so no path of the zip is ever written.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

from naq.errors import DataError, GraphError
from naq.graph import Graph
from naq.io.npz import checked_labels
from naq.io.readers import Reader, Unpacked, read_table

EDGES, FEATURES, LABELS = "edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz"
NODE_COUNT, EDGE_COUNT = "num-node-list.csv.gz", "num-edge-list.csv.gz"


class OgbReader(Reader):
    """A folder with OGB's raw files, or their zip."""

    name = "ogb"
    expects = "an OGB zip"
    slow = True

    def fits(self, path: Path) -> bool:
        return (path.is_dir() and _in_folder(path, EDGES).is_file()) or (path.suffix == ".zip" and path.is_file())

    def read(self, path: Path, name: str | None = None) -> Graph:
        return read_ogb(path, name=name)


def read_ogb(path: str | Path, *, name: str | None = None) -> Graph:
    """The graph of ``edge.csv.gz``, ``node-feat``, ``node-label``, ``num-node-list`` and ``num-edge-list``.

    Features and the edge count may be absent. Edges become undirected; a missing label (nan) becomes -1.
    """
    path = Path(path)
    nodes = _count(path, NODE_COUNT)
    listed = _count(path, EDGE_COUNT) if _has(path, EDGE_COUNT) else None
    edges = _numbers(path, EDGES, columns=2, rows=listed, dtype=np.int32)
    features = _numbers(path, FEATURES, rows=nodes) if _has(path, FEATURES) else None
    labels = _numbers(path, LABELS, columns=1, rows=nodes, dtype=np.float64)[:, 0]
    labels = np.where(np.isnan(labels), -1, labels)
    try:
        checked_labels(labels, str(path / LABELS))
        return Graph(edges.T, features, labels, nodes=nodes, name=name or path.stem)
    except GraphError as error:
        raise DataError(f"{path}: {error}") from error


def _count(path: Path, file: str) -> int:
    counts = _numbers(path, file, columns=1, dtype=np.int64)
    if counts.shape != (1, 1) or not 0 <= counts[0, 0] < 2**31:
        raise DataError(f"{path}: {file} holds {len(counts)} rows; expected one graph with one number below 2^31.")
    return int(counts[0, 0])


def _numbers(path: Path, file: str, **shape: Any) -> np.ndarray:
    title = f"{path}: {file}"
    try:
        with _opened(path, file) as packed:
            stream = io.TextIOWrapper(io.BufferedReader(Unpacked(packed)), encoding="utf-8", errors="replace")
            return read_table(stream, title, delimiter=",", **shape)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{title} is damaged or truncated ({error}); download it again.") from error


def _in_folder(folder: Path, file: str) -> Path:
    return folder / "raw" / file if (folder / "raw").is_dir() else folder / file


def _has(path: Path, file: str) -> bool:
    return _in_folder(path, file).is_file() if path.is_dir() else bool(_members(path, file))


def _members(path: Path, file: str) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a readable zip ({error}); download it again.") from error
    return [name for name in names if PurePosixPath(name).parts[-2:] == ("raw", file)]


@contextmanager
def _opened(path: Path, file: str) -> Iterator[IO[bytes]]:
    if path.is_dir():
        place = _in_folder(path, file)
        if not place.is_file():
            raise DataError(f"{place} does not exist; expected OGB's raw files in {place.parent}.")
        with place.open("rb") as stream:
            yield stream
        return
    members = _members(path, file)
    if len(members) != 1:
        raise DataError(f"{path} holds {len(members)} members raw/{file}; expected one, as in OGB's node datasets.")
    with zipfile.ZipFile(path) as archive, archive.open(members[0]) as stream:
        if archive.getinfo(members[0]).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{path}: member {members[0]!r} is neither stored nor deflated; download the file again.")
        yield stream
