"""What people have in memory: graphs of other libraries and frames of labels in, frames with names out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import get_config

from naq.errors import MissingDependency, OptionError
from naq.graph import Graph

if TYPE_CHECKING:
    import pyarrow


def as_graph(graph: Any) -> Graph:
    """A ``Graph`` as it is; a ``Data`` or ``HeteroData`` of PyG or a graph of NetworkX as one."""
    if isinstance(graph, Graph):
        return graph
    packages = {kind.__module__.partition(".")[0] for kind in type(graph).__mro__}
    if "torch_geometric" in packages:
        return Graph.from_pyg(graph)
    if "networkx" in packages:
        from naq.io import from_networkx

        return from_networkx(graph)
    advice = f"naq.load({graph!r})" if isinstance(graph, str) else "naq.from_tables(edges, nodes)"
    what = f"graph is {type(graph).__name__}; expected a naq.Graph, a Data of PyG or a graph of NetworkX"
    raise OptionError(f"{what}: give {advice}.")


def has_nodes(given: Any, count: int) -> bool:
    """Whether labels say of which node they are: a frame with columns, or a Series of pandas by its index.

    A Series of ``count`` entries that nobody gave an index has one entry for each node.
    """
    if hasattr(given, "columns"):
        return True
    if not hasattr(given, "reset_index"):
        return False
    return not (
        len(given) == count and list(given.index[:2]) == list(range(min(2, count))) and _is_default(given.index)
    )


def label_table(given: Any) -> pyarrow.Table:
    """Frames of pandas, Polars, Arrow or DuckDB in Arrow's types, with the index of pandas as the column ``node`` where
    it was given one; a Series of pandas as the columns ``node`` and ``class``."""
    from naq.io.tables.table import arrow_table

    if hasattr(given, "reset_index"):
        if given.index.nlevels > 1:
            raise OptionError(f"labels have an index of {given.index.nlevels} levels; expected one, of nodes.")
        if not hasattr(given, "columns"):
            given = given.rename("class").rename_axis("node").reset_index()
        elif not _is_default(given.index):
            given = given.rename_axis("node").reset_index()
    return arrow_table(given, "labels")


def _is_default(index: Any) -> bool:
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def to_frame(columns: Mapping[str, Any]) -> Any:
    """A frame of pandas, or a table of Arrow where pandas is not installed."""
    if find_spec("pandas"):
        import pandas

        return pandas.DataFrame(dict(columns))
    if find_spec("pyarrow"):
        import pyarrow

        return pyarrow.table(dict(columns))
    raise MissingDependency('frames need pandas or pyarrow: pip install "naq[io]".')


class FrameOutput:
    """``set_output`` as transformers of scikit-learn have it."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """What ``transform`` and ``predict_proba`` give: ``"default"`` arrays, or frames of ``"pandas"``, whose index
        are the nodes, or of ``"polars"``, with the names of columns."""
        if transform not in (None, "default", "pandas", "polars"):
            raise OptionError(f"transform is {transform!r}; expected 'default', 'pandas' or 'polars'.")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # which sklearn.base.clone takes along
        return self

    def _framed(self, graph: Graph, rows: np.ndarray, columns: Sequence[str]) -> Any:
        given = getattr(self, "_sklearn_output_config", {})
        kind = given.get("transform", get_config()["transform_output"])
        if kind == "default":
            return rows
        if not find_spec(kind):
            raise MissingDependency(f"set_output asks for frames of {kind}: pip install {kind}.")
        if kind == "pandas":
            import pandas

            return pandas.DataFrame(rows, index=graph.names, columns=list(columns))
        import polars

        return polars.DataFrame(rows, schema=list(columns))
