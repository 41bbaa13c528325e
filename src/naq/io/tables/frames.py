"""Tables that are in memory already: data frames of any library (by narwhals), dictionaries of columns, NetworkX graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from naq.errors import DataError, MissingDependency
from naq.io.tables.columns import Cells, Column, Numbers, Table, Vectors, number_text


def frame_table(frame: Any, title: str) -> Table:
    """A data frame of pandas, Polars, pyarrow, ..., or a dictionary ``{"column": values}``, as a table."""
    if isinstance(frame, Mapping):
        given: dict[str, Any] = {str(name): values for name, values in frame.items()}
    else:
        given = _series(frame, title)
    columns = {name: column_of(values, f"{title}, column {name!r}") for name, values in given.items()}
    lengths = {name: len(values) for name, values in given.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{title} has columns of different lengths ({lengths}); give one value per row in each.")

    def places(rows: Sequence[int]) -> list[str]:
        return [f"{title}, row {row}" for row in rows]

    return Table(title, columns, next(iter(lengths.values()), 0), places)


def _series(frame: Any, title: str) -> dict[str, Any]:
    try:
        import narwhals as nw
    except ImportError as error:
        raise MissingDependency(
            f'{title}: data frames need narwhals, which is not installed: pip install "naq[io]", or give a dictionary of columns.'
        ) from error
    try:
        native = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise DataError(
            f"{title} is a {type(frame).__name__}; expected a path, a data frame or a dictionary of columns."
        ) from error
    return {str(name): native[name].to_list() if native[name].is_null().any() else native[name].to_numpy() for name in native.columns}  # fmt: skip


def column_of(values: Any, title: str) -> Column:
    """A column from any sequence; None and NaN are missing."""
    array = values if isinstance(values, np.ndarray) else None
    if array is None and len(values) and all(type(v) in (int, float) for v in values):
        array = np.asarray(values)
    if array is not None and array.dtype.kind in "iuf":
        if array.ndim == 2:
            return Vectors(array)
        return Numbers(array)
    cells = list(values)
    if any(isinstance(cell, list | tuple | np.ndarray) for cell in cells):
        return _vectors(cells, title)
    return Cells.of(_text(cell) for cell in cells)


def _text(cell: Any) -> str:
    if cell is None or cell != cell:
        return ""
    return number_text(float(cell)) if isinstance(cell, float | np.floating) else str(cell)


def _vectors(cells: list[Any], title: str) -> Column:
    lists = [[] if cell is None or (isinstance(cell, float) and cell != cell) else list(cell) for cell in cells]
    if any(isinstance(item, str) for cell in lists for item in cell[:1]):  # lists of words
        return Cells.of(" ".join(map(str, cell)) for cell in lists)
    width = max(map(len, lists))
    for row, cell in enumerate(lists):
        if len(cell) not in (0, width):
            raise DataError(
                f"{title}, row {row}: a vector has {len(cell)} numbers, others have {width}; give one length."
            )
    try:
        return Vectors(np.array([cell or [np.nan] * width for cell in lists], dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise DataError(f"{title}: its lists hold more than numbers ({error}).") from error


def networkx_tables(graph: Any) -> tuple[Table, Table]:
    """Edges and nodes of a NetworkX graph; a node's id is its ``str``, its attributes are columns."""
    edges = list(graph.edges())
    nodes = list(graph.nodes(data=True))
    names = list(dict.fromkeys(name for _, data in nodes for name in data))
    node_columns: dict[Any, Any] = {_free("id", names): [str(node) for node, _ in nodes]}
    node_columns |= {str(name): [data.get(name) for _, data in nodes] for name in names}
    edge_columns = {"source": [str(u) for u, v in edges], "target": [str(v) for u, v in edges]}
    return frame_table(edge_columns, "the graph's edges"), frame_table(node_columns, "the graph's nodes")


def _free(name: str, taken: list[Any]) -> str:
    while name in map(str, taken):
        name = f"_{name}"
    return name
