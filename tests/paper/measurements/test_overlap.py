"""Query overlap: the ratio, its error, what the fill rule adds, and the paper's own numbers."""

from __future__ import annotations

import numpy as np
import pytest

import naq
from naq_paper.cells.datasets import DatasetCache
from naq_paper.measurements import Context, perform
from naq_paper.measurements.overlap import overlap_cell, overlap_ratios
from naq_paper.measurements.tables import completed_table
from shared_data import shared


@pytest.mark.parametrize("fill", ["none", "lowest", "random", "feature"])
def test_ratios_and_shares_are_those_of_plain_loops(context, compute, fill):
    cell = overlap_cell("islands", way=3, queries=5, count=200, seed=4, fill=fill)
    graph = context.dataset_cache.graph("islands")
    bare = naq.diffusion_neighbors(graph, 5)
    table = naq.diffusion_neighbors(graph, 5, fill=fill)
    episodes = naq.naq_episodes(table, way=3, queries=5, count=200, seed=4)
    ratios, filled, masked, paths = [], 0, 0, 0
    for support, query, mask in zip(episodes.support, episodes.query, episodes.mask):
        kept = query[mask].tolist()
        if kept:
            ratios.append(1 - len(set(kept)) / len(kept))
        for node, row, keep in zip(support[:, 0], query, mask):
            own = bare.ids[node].tolist()
            filled += sum(int(j) not in own for j in row[keep])
            masked += int((~keep).sum())
            paths += len(row)
    result = compute(cell)
    assert result["overlap_percent"] == pytest.approx(100 * np.mean(ratios))
    assert result["standard_error"] == pytest.approx(100 * np.std(ratios, ddof=1) / np.sqrt(len(ratios)))
    assert result["episodes"] == len(ratios)
    assert overlap_ratios(episodes).mean() == pytest.approx(episodes.overlap_ratio())
    assert result["short_nodes"] == pytest.approx(np.mean(bare.counts < 5)) and result["short_nodes"] > 0
    assert result["filled_queries"] == pytest.approx(filled / paths)
    assert result["masked_queries"] == pytest.approx(masked / paths)
    assert result["distinct_class_share"] == pytest.approx(episodes.distinct_class_share(graph.labels))
    assert result["same_class_share"] == pytest.approx(episodes.same_class_share(graph.labels))


@pytest.mark.parametrize(
    ("kind", "fill"),
    [(kind, fill) for kind in ("naq-feat", "naq-diff") for fill in ("none", "lowest", "random")]
    + [("naq-diff", "feature")],
)
def test_completed_table_is_the_one_made_with_that_fill(context, kind, fill):
    cell = overlap_cell("islands", kind=kind, queries=8, fill=fill)
    graph = context.dataset_cache.graph("islands")
    table, filled = completed_table(graph, cell.config, 8, context)
    make = naq.feature_neighbors if kind == "naq-feat" else naq.diffusion_neighbors
    assert np.array_equal(table.ids, make(graph, 8, fill=fill).ids)
    assert np.array_equal(filled, (make(graph, 8).ids < 0) & (table.ids >= 0))
    assert filled.any() == (fill != "none")


def test_all_fill_rules_share_one_cached_table(context, tmp_path):
    own = Context(context.dataset_cache, cache=tmp_path)
    for fill in ("none", "lowest", "random"):
        perform(overlap_cell("islands", queries=5, count=50, fill=fill), own)
    assert len(list((tmp_path / "tables").iterdir())) == 1


def test_a_graph_without_labels(compute):
    unlabelled = compute(overlap_cell("unlabelled", kind="naq-feat", count=50))
    assert unlabelled["distinct_class_share"] is None and unlabelled["same_class_share"] is None
    assert compute(overlap_cell("structure", count=50))["overlap_percent"] > 0


@pytest.mark.parametrize(("way", "paper"), [(5, 11.1715), (20, 21.4706)])
def test_electronics_has_the_overlap_of_the_paper(way, paper, tmp_path_factory):
    dataset_cache = DatasetCache({"electronics": str(shared("amazon_electronics_network.npz"))})
    cell = overlap_cell("electronics", way=way, count=60_000, fill="lowest", self_loops=False)
    result = perform(cell, Context(dataset_cache, cache=tmp_path_factory.getbasetemp() / "electronics"))
    assert abs(result["overlap_percent"] - paper) <= 0.15
    assert result["short_nodes"] == pytest.approx(0.367, abs=5e-4)
    assert result["filled_queries"] > 0.1 and result["masked_queries"] == 0
