"""A neighbour table that was made before, for the NaQ episodes of a run.

A table is taken where it is the one that the run would make itself, or a wider one: of as many nodes, of the kind and with the options of the episodes, from the same content of the
graph (:func:`naq.neighbors.table.content_of`). What a table does not say of itself, because it is of an earlier version or of another program, is not checked, and the run says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from naq.episodes.naq import table_width
from naq.errors import OptionError
from naq.graph import Graph
from naq.methods import Method
from naq.neighbors import NeighborTable, feature_neighbors
from naq.neighbors.table import FILLS, check_fill, content_of, filled

KINDS = {"naq-feat": ("feature", "vectors"), "naq-diff": ("diffusion",)}
"""Tables that episodes are drawn from; features that are too many to compare may have been made vectors first."""
MADE_WITH = {"feature": ("metric",), "vectors": ("metric",), "diffusion": ("alpha", "self_loops")}
"""What has to be the same in the table's ``info`` and in the options of the episodes."""


def takes_table(method: Method) -> bool:
    """Whether the method's episodes are drawn from a neighbour table."""
    return method.episodes in KINDS


def check_takes_table(method: Method) -> None:
    if not takes_table(method):
        raise OptionError(
            f"a neighbour table was given, but {method.name} draws no episodes from one; leave it out, or use a method naq-feat/... or naq-diff/..."
        )


def table_info(table: NeighborTable) -> dict[str, Any]:
    """What a run says of the table: a hash of its neighbours, and how it was made, as it comes back from a run folder."""
    return {"hash": table.hash, "info": json.loads(json.dumps(dict(table.info)))}


def check_table(
    table: NeighborTable, graph: Graph, kind: str, options: Mapping[str, Any], note: Callable[[str], None]
) -> NeighborTable:
    """The table, with short rows filled as the options say; an ``OptionError`` where it is not for such episodes.

    Args:
        graph: with the features that the method reads.
        kind: of episodes, ``naq-feat`` or ``naq-diff``.
        options: of the episodes.
        note: is told what could not be checked.
    """
    _check_size(table, graph, options)
    info = table.info
    if "kind" in info and info["kind"] not in KINDS[kind]:
        raise OptionError(
            f"the table is of kind {info['kind']!r}, but {kind} draws episodes from one of kind {KINDS[kind][0]!r}; give another table, or another method."
        )
    unknown = [] if "kind" in info else ["its kind"]
    for name in MADE_WITH[str(info.get("kind", KINDS[kind][0]))]:
        if name not in info:
            unknown.append(name)
        elif info[name] != options[name]:
            raise OptionError(
                f"the table was made with {name}={info[name]}, but the episodes are to have {name}={options[name]}; make it with that, or give the episode option {name}={info[name]}."
            )
    had, fill = (
        str(info.get("fill", "none")),
        check_fill(str(options["fill"]), FILLS if kind == "naq-diff" else FILLS[:3]),
    )
    if had not in ("none", fill):
        raise OptionError(
            f"short rows of the table were filled by {had!r}, but the episodes are to have fill={fill}; make it with --fill none, or give the episode option fill={had}."
        )
    if "graph" not in info:
        unknown.append("its graph")
    elif info["graph"] != content_of(graph, reads_features=_reads_features(info)):
        what = "edges or features" if _reads_features(info) else "edges"
        raise OptionError(
            f"the table was made from another graph than {graph.name!r}, or before its {what} changed; make it again with naq neighbors."
        )
    if unknown:
        note(f"the table does not say {', '.join(unknown)}: that it fits the graph and the method is not checked")
    if had == fill:
        return table
    narrow = table.first(needed_width(options))
    return filled(narrow, fill, feature_ids=lambda: feature_neighbors(graph, narrow.k).ids, graph=graph)


def kind_of_episodes(table: NeighborTable) -> str:
    """The episodes that a table is for, by what it says of itself; those of features where it says nothing."""
    return next((kind for kind, kinds in KINDS.items() if table.info.get("kind") in kinds), "naq-feat")


def needed_width(options: Mapping[str, Any]) -> int:
    """Neighbours per node that the episodes read."""
    return table_width(**{name: int(options[name]) for name in ("queries", "shot", "apart")})


def _check_size(table: NeighborTable, graph: Graph, options: Mapping[str, Any]) -> None:
    if table.num_nodes != graph.num_nodes:
        raise OptionError(
            f"the table has {table.num_nodes:,} nodes, but graph {graph.name!r} has {graph.num_nodes:,}; give the table of this graph."
        )
    if table.k < (need := needed_width(options)):
        raise OptionError(
            f"the table holds {table.k} neighbours per node, but the episodes read {need}; make it with k={need} or more."
        )


def _reads_features(info: Mapping[str, Any]) -> bool:
    return info.get("kind") == "feature" or info.get("fill") == "feature"
