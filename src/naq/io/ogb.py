"""OGB's raw node-property files, read without the ``ogb`` package from a folder or from the zip itself.

Nothing is extracted: members are found by name and read as streams, so no path of the zip is ever written.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

from naq.errors import DataError, GraphError
from naq.graph import Graph
from naq.io.npz import check_label_array
from naq.io.readers import Reader, read_numbers

EDGES, FEATURES, LABELS = "edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz"
NODE_COUNT, EDGE_COUNT = "num-node-list.csv.gz", "num-edge-list.csv.gz"


class OgbReader(Reader):
    """A folder with OGB's raw files, or their zip."""

    name = "ogb"
    expects = "an OGB zip"
    slow = True

    def fits(self, path: Path) -> bool:
        return bool(_places(path, EDGES)) if path.is_dir() else path.suffix == ".zip" and path.is_file()

    def read(self, path: Path, name: str | None = None) -> Graph:
        """The graph of ``edge.csv.gz``, ``node-feat``, ``node-label``, ``num-node-list`` and ``num-edge-list``.

        Features and the edge count may be absent. Edges become undirected; a missing label (nan) becomes -1.
        """
        nodes = _count(path, NODE_COUNT)
        listed = _count(path, EDGE_COUNT) if _places(path, EDGE_COUNT) else None
        edges = _numbers(path, EDGES, columns=2, rows=listed, dtype=np.int32)
        features = _numbers(path, FEATURES, rows=nodes) if _places(path, FEATURES) else None
        labels = _numbers(path, LABELS, columns=1, rows=nodes, dtype=np.float64)[:, 0]
        labels = np.where(np.isnan(labels), -1, labels)
        try:
            check_label_array(labels, str(path / LABELS))
            return Graph(edges.T, features, labels, nodes=nodes, name=name or path.stem)
        except GraphError as error:
            raise DataError(f"{path}: {error}") from error


def _count(path: Path, file: str) -> int:
    counts = _numbers(path, file, columns=1, dtype=np.int64)
    if counts.shape != (1, 1) or not 0 <= counts[0, 0] < 2**31:
        raise DataError(f"{path}: {file} holds {len(counts)} rows; expected one graph with one number below 2^31.")
    return int(counts[0, 0])


def _numbers(path: Path, file: str, **shape: Any) -> np.ndarray:
    import naq.io.tables  # noqa: F401  says how to install pyarrow

    import pyarrow as pa  # isort: skip

    title = f"{path}: {file}"
    try:
        with _open(path, file) as packed:
            unpacked: Any = io.BufferedReader(pa.CompressedInputStream(packed, "gzip"))
            stream = io.TextIOWrapper(unpacked, encoding="utf-8", errors="replace")
            return read_numbers(stream, title, delimiter=",", **shape)
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{title} is damaged or truncated ({error}); download it again.") from error


def _places(path: Path, file: str) -> list[str]:
    """The paths of a file in a folder, or its members in a zip: one if all is well."""
    if path.is_dir():
        folder = path / "raw" if (path / "raw").is_dir() else path
        return [str(folder / file)] if (folder / file).is_file() else []
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a readable zip ({error}); download it again.") from error
    return [name for name in names if PurePosixPath(name).parts[-2:] == ("raw", file)]


@contextmanager
def _open(path: Path, file: str) -> Iterator[IO[bytes]]:
    places = _places(path, file)
    if len(places) != 1:
        raise DataError(f"{path} holds {len(places)} files raw/{file}; expected one, as in OGB's node datasets.")
    if path.is_dir():
        with Path(places[0]).open("rb") as stream:
            yield stream
        return
    with zipfile.ZipFile(path) as archive, archive.open(places[0]) as stream:
        if archive.getinfo(places[0]).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{path}: member {places[0]!r} is neither stored nor deflated; download the file again.")
        yield stream
