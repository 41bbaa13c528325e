"""Query overlap: the ratio, its error, what the fill rule adds, and the paper's own numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import naq
from naq.errors import GraphError, OptionError
from naq.options import option
from naq_paper.cells.datasets import DatasetCache
from naq_paper.measurements import Context, perform
from naq_paper.measurements.overlap import overlap_cell, overlap_ratios
from naq_paper.measurements.tables import completed_table
from naq_paper.perturbations import PERTURBATIONS, Perturbation, Perturbed
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
    assert result["short_nodes"] == pytest.approx(np.mean(bare.counts < 5)) and result["short_nodes"] > 0
    assert result["filled_queries"] == pytest.approx(filled / paths)
    assert result["masked_queries"] == pytest.approx(masked / paths)
    assert result["distinct_class_share"] == pytest.approx(episodes.distinct_class_share(graph.labels))
    assert result["same_class_share"] == pytest.approx(episodes.same_class_share(graph.labels))


def test_ratios_have_the_mean_of_the_episodes(context):
    table = naq.feature_neighbors(context.dataset_cache.graph("random"), 6)
    episodes = naq.naq_episodes(table, way=5, queries=6, count=300, drop_overlap=True)
    assert overlap_ratios(episodes).mean() == pytest.approx(episodes.overlap_ratio())


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


def test_a_graph_without_labels_or_features(compute):
    unlabelled = compute(overlap_cell("unlabelled", kind="naq-feat", count=50))
    assert unlabelled["distinct_class_share"] is None and unlabelled["same_class_share"] is None
    assert compute(overlap_cell("structure", count=50))["overlap_percent"] > 0
    with pytest.raises(GraphError, match="no features"):
        compute(overlap_cell("structure", kind="naq-feat", count=50))
    with pytest.raises(GraphError, match="no features"):
        compute(overlap_cell("structure", fill="feature", count=50))


def test_weights_of_features_change_the_neighbours(compute):
    raw, weighted = (
        compute(overlap_cell("communities", kind="naq-feat", features=features, count=400))
        for features in ("raw", "auto")
    )
    assert raw["same_class_share"] != weighted["same_class_share"]


class Emptied(Perturbation):
    name = "emptied"
    summary = "No edges but the first ones."

    @dataclass(frozen=True)
    class Options(Perturbation.Options):
        kept: int = option(3)

    def apply(self, graph, split, seed):
        edges = np.stack(graph.adjacency.nonzero())[:, : self.options.kept]
        return Perturbed(naq.Graph(edges, graph.features, graph.labels, nodes=graph.num_nodes))


def test_a_perturbed_graph_is_measured_in_place_of_the_dataset(compute, monkeypatch):
    monkeypatch.setitem(PERTURBATIONS._items, "emptied", Emptied)
    cell = overlap_cell("communities", count=50, perturbation={"name": "emptied", "kept": 1})
    assert cell.config["perturbation"] == {"name": "emptied", "kept": 1, "seed": 0}
    result = compute(cell)
    assert result["masked_queries"] > 0.9 > compute(overlap_cell("communities", count=50))["masked_queries"]
    assert result["episodes"] < 50, "episodes without a query have no ratio"


def test_what_a_kind_does_not_read_is_no_part_of_its_cell():
    assert overlap_cell("debian", metric="jaccard", features="tfidf") == overlap_cell("debian")
    assert overlap_cell("debian", kind="naq-feat", alpha=0.3) == overlap_cell("debian", kind="naq-feat")
    assert overlap_cell("debian", fill="feature", features="tfidf") != overlap_cell("debian", fill="feature")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "naq-fet"}, "did you mean naq-feat"),
        ({"kind": "naq-feat", "fill": "feature"}, "fill is 'feature'"),
        ({"kind": "naq-feat", "metric": "cosin"}, "did you mean cosine"),
        ({"features": "tf-idf"}, "did you mean tfidf"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"self_loops": 1}, "self_loops is 1"),
        ({"way": 1}, "way is 1"),
        ({"queries": 0}, "queries is 0"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"perturbation": {"name": "none such"}}, "there is no perturbation"),
    ],
)
def test_options_are_checked_before_anything_is_loaded(options, words):
    with pytest.raises(OptionError, match=words):
        overlap_cell("debian", **options)


@pytest.mark.parametrize(("way", "paper"), [(5, 11.1715), (20, 21.4706)])
def test_electronics_has_the_overlap_of_the_paper(way, paper, tmp_path_factory):
    dataset_cache = DatasetCache({"electronics": str(shared("amazon_electronics_network.npz"))})
    cell = overlap_cell("electronics", way=way, count=60_000, fill="lowest", self_loops=False)
    result = perform(cell, Context(dataset_cache, cache=tmp_path_factory.getbasetemp() / "electronics"))
    assert abs(result["overlap_percent"] - paper) <= 0.15
    assert result["short_nodes"] == pytest.approx(0.367, abs=5e-4)
    assert result["filled_queries"] > 0.1 and result["masked_queries"] == 0
